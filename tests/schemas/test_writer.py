"""What is refused of a writer's schema."""

import json

import pytest

from schemas.avro import avro_schema
from schemas.errors import ErrorCode, MessageError
from schemas.events import TerminalEvent
from schemas.writer import Writer


@pytest.mark.parametrize("unit", ["timestamp-millis", "timestamp-nanos", "local-timestamp-micros", "date"])
def test_an_instant_in_another_unit_is_refused(unit):
    schema = json.loads(json.dumps(avro_schema(TerminalEvent)).replace("timestamp-micros", unit))
    with pytest.raises(MessageError) as caught:
        Writer.of(schema)
    assert caught.value.code is ErrorCode.INCOMPATIBLE_SCHEMA


def test_an_instant_without_a_unit_is_microseconds():
    text = json.dumps(avro_schema(TerminalEvent)).replace(', "logicalType": "timestamp-micros"', "")
    assert "logicalType" not in text
    assert Writer.of(json.loads(text)).is_current


@pytest.mark.parametrize("name", [[], {}, 7, None])
def test_a_field_whose_name_is_no_text_is_refused(name):
    schema = avro_schema(TerminalEvent)
    schema["fields"][1]["name"] = name
    with pytest.raises(MessageError) as caught:
        Writer.of(schema)
    assert caught.value.code is ErrorCode.INCOMPATIBLE_SCHEMA
