"""What a producer says and the contract does not know is found, wherever it stands."""

import io

import fastavro
import pytest

from schemas.avro import avro_schema, resolved
from schemas.container import read_blocks, read_header
from schemas.events import TerminalEvent
from schemas.unknown import Unknown, foreign_records, unknown_in
from tests.classifier.answers import IDENTITY, event

LIMIT = 1 << 20


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({}, []),
        ({"vendor": {"a": 1}}, [Unknown("vendor", None)]),
        ({"extensions": {"mine": "1", "other.deep": "2"}}, []),
        ({"tool_calls": [{"vendor": 1}, {"vendor": 2}]}, [Unknown("tool_calls[].vendor", None)] * 2),
        ({"tool_calls": [{"outcome": "ok"}, {"outcome": "sulked"}]}, [Unknown("tool_calls[].outcome", "sulked")]),
        ({"fallbacks": [{"triggers": ["timeout", "fog"]}]}, [Unknown("fallbacks[].triggers[]", "fog")]),
        ({"policy_decisions": [{"approval": {"state": "maybe", "by": "x"}}]},
         [Unknown("policy_decisions[].approval.state", "maybe"), Unknown("policy_decisions[].approval.by", None)]),
        ({"model": None, "tool_calls": None, "fallbacks": [{"triggers": None}]}, []),
        ({"steps": [{"checks": {"anything": 0.5}}]}, []),
        ({"takeover": {"state": "running"}}, [Unknown("takeover.state", "running")]),
    ],
)  # fmt: skip
def test_unknown_fields_and_values(parts, expected):
    assert list(unknown_in(IDENTITY | parts)) == expected


def test_companions_too():
    record = {"type": "recovery_action", "version": 1, "record_id": "r", "tenant": "t", "event_id": "e", "mood": "bad"}
    assert Unknown("mood", None) in list(unknown_in(record))


def container(schema, records):
    buffer = io.BytesIO()
    fastavro.writer(buffer, schema, records)
    buffer.seek(0)
    header = read_header(buffer)
    return [raw for block in read_blocks(buffer, header, LIMIT) for raw in foreign_records(header, block, LIMIT)]


def test_a_foreign_schema_is_read_as_its_writer_named_it():
    names = ("type", "version", "event_id", "run_id", "tenant", "agent_id", "occurred_at")
    schema = avro_schema(TerminalEvent)
    fields = [field for field in schema["fields"] if field["name"] in names] + [{"name": "mood", "type": "string"}]
    records = container(schema | {"fields": fields}, [IDENTITY | {"mood": mood} for mood in "ab"])
    assert [list(unknown_in(raw)) for raw in records] == [[Unknown("mood", None)]] * 2


def test_the_current_schema_says_nothing_unknown():
    assert container(avro_schema(TerminalEvent), [event(), event()]) == []


def test_a_resolved_schema_has_no_names_left():
    def strings(kind):
        if isinstance(kind, str):
            return {kind}
        parts = [kind["items"]] if kind["type"] == "array" else [field["type"] for field in kind.get("fields", ())]
        return set().union(*(strings(part) for part in parts))

    assert strings(resolved(avro_schema(TerminalEvent))) <= {"string", "long", "double", "boolean"}
