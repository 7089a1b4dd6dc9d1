import copy
import json
import struct
import tracemalloc
from io import BytesIO
from random import Random

import fastavro
import pytest
from fastavro.schema import to_parsing_canonical_form
from hypothesis import given
from hypothesis import strategies as st

from schemas.avro import avro_schema
from schemas.check import check_record
from schemas.contract import INCOMING
from schemas.errors import ErrorCode, MessageError
from schemas.json_form import canonical, to_json
from schemas.skip import check_counts
from schemas.types import EARLIEST, LATEST, MAX_ITEMS
from schemas.wire import LocalSchemas, decode, encode_body, encode_confluent, encode_single_object
from schemas.writer import Writer, current_writer, fingerprint_of, writer_of
from tests.schemas.samples import at, full, minimal, path_of, places, replaced
from tests.strategies import random_event

KINDS = tuple(INCOMING)
SCHEMAS = LocalSchemas.published(ids=dict(enumerate(KINDS, start=7)))


def read(data, **options):
    return decode(data, schemas=SCHEMAS, **options)


def error_of(data, **options):
    with pytest.raises(MessageError) as caught:
        read(data, **options)
    return caught.value


def check_error(record):
    with pytest.raises(MessageError) as caught:
        check_record(record)
    return caught.value


def long(number):
    """Avro's zigzag variable-length integer."""
    rest, out = (number << 1) ^ (number >> 63), bytearray()
    rest &= 2**64 - 1
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def framed(body, kind="terminal_event"):
    return b"\xc3\x01" + struct.pack("<Q", current_writer(kind).fingerprint) + body


def split_at(record, name):
    """The body of a record before its field ``name``, and behind it."""
    schema = avro_schema(INCOMING[record["type"]])
    index = [field["name"] for field in schema["fields"]].index(name)
    head = BytesIO()
    fastavro.schemaless_writer(head, schema | {"fields": schema["fields"][:index]}, record)
    through = BytesIO()
    fastavro.schemaless_writer(through, schema | {"fields": schema["fields"][: index + 1]}, record)
    return head.getvalue(), encode_body(record)[len(through.getvalue()) :]


def with_bytes_for(name, data):
    head, tail = split_at(minimal("terminal_event"), name)
    return framed(head + data + tail)


def assert_valid_or_refused(data):
    try:
        record = read(data)
    except MessageError:
        return
    assert canonical(copy.deepcopy(record)) == record


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sample", [full, minimal])
def test_every_framing_carries_every_record(kind, sample):
    record = sample(kind)
    assert read(encode_single_object(record)) == record
    assert read(encode_confluent(record, 7 + KINDS.index(kind))) == record
    assert read(to_json(record, INCOMING[kind])) == record
    assert read(b" \r\n\t" + to_json(record, INCOMING[kind])) == record


def test_random_events_survive_both_forms():
    rng = Random(6)
    for event in (random_event(rng) for _ in range(300)):
        assert read(encode_single_object(event)) == event


def test_instants_stay_integers():
    record = read(encode_single_object(full("terminal_event")))
    assert record["occurred_at"] == full("terminal_event")["occurred_at"]
    assert type(record["tool_calls"][0]["started_at"]) is int


def test_the_fingerprint_is_the_rabin_fingerprint_of_the_canonical_form():
    assert fingerprint_of("int") == 0x7275D51A3F395C8F  # from the Avro specification's reference implementation
    schema = avro_schema(INCOMING["terminal_event"])
    form = to_parsing_canonical_form(schema)
    assert form.startswith('{"name":"offramp.v1.TerminalEvent","type":"record"')
    assert fingerprint_of(schema) == _rabin(form.encode()) == current_writer("terminal_event").fingerprint


def _rabin(data):
    empty = 0xC15D213AA4D7A795
    result = empty
    for byte in data:
        result ^= byte
        for _ in range(8):
            result = (result >> 1) ^ (empty if result & 1 else 0)
    return result


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x00", b"\x00\x00\x00\x07"[:4], b"\xc3", b"\xc3\x01" + b"\x00" * 7, b"\xc3\x02" + b"\x00" * 20, b"[]",
        b"Obj\x01", b"\xef\xbb\xbf{}", b"   ", b"x{}", b"\x01" * 50,
    ],
)  # fmt: skip
def test_other_first_bytes_are_bad_framing(data):
    assert error_of(data).code is ErrorCode.BAD_FRAMING


@pytest.mark.parametrize("data", [b"\xc3\x01" + b"\x00" * 30, b"\x00\x00\x00\x00\x63" + b"\x00" * 30])
def test_a_schema_that_nobody_knows(data):
    assert error_of(data).code is ErrorCode.UNKNOWN_SCHEMA


def test_an_outage_of_the_source_of_schemas_is_not_the_messages_fault():
    class Down:
        def by_fingerprint(self, fingerprint):
            raise ConnectionError

        def by_id(self, schema_id):
            raise ConnectionError

    for data in (encode_single_object(minimal("enrichment")), encode_confluent(minimal("enrichment"), 7)):
        with pytest.raises(ConnectionError):
            decode(data, schemas=Down())


def test_the_size_limit_is_on_the_whole_message():
    data = encode_single_object(full("terminal_event"))
    assert read(data, max_bytes=len(data))
    assert error_of(data, max_bytes=len(data) - 1).code is ErrorCode.TOO_LARGE


@pytest.mark.parametrize("kind", KINDS)
def test_every_truncation_is_one_error(kind):
    data = encode_single_object(full(kind))
    for end in range(len(data)):
        assert error_of(data[:end]).code in {ErrorCode.BAD_AVRO, ErrorCode.BAD_FRAMING}


@pytest.mark.parametrize("kind", KINDS)
def test_every_flipped_byte_is_a_valid_record_or_one_error(kind):
    data = encode_single_object(full(kind))
    for index in range(len(data)):
        for flip in (0x01, 0x80, 0xFF):
            assert_valid_or_refused(data[:index] + bytes([data[index] ^ flip]) + data[index + 1 :])


@given(st.binary(max_size=200), st.sampled_from(KINDS))
def test_any_body_is_a_valid_record_or_one_error(body, kind):
    assert_valid_or_refused(framed(body, kind))


@given(st.binary(max_size=200))
def test_any_message_is_a_valid_record_or_one_error(data):
    assert_valid_or_refused(data)


@given(st.integers(0, 600), st.binary(min_size=1, max_size=12))
def test_bytes_put_into_a_message_are_a_valid_record_or_one_error(index, inserted):
    data = encode_single_object(full("terminal_event"))
    assert_valid_or_refused(data[:index] + inserted + data[index:])


@pytest.mark.parametrize("extra", [b"\x00", encode_body(minimal("terminal_event")), b"\xff" * 100])
def test_what_is_left_over_is_an_error(extra):
    for data in (encode_single_object(full("terminal_event")), encode_confluent(full("terminal_event"), 7)):
        error = error_of(data + extra)
        assert (error.code, str(len(extra)) in error.message) == (ErrorCode.TRAILING_BYTES, True)


@pytest.mark.parametrize("count", [2, 200, 20_000_000, 2**40, 2**62, 2**63 - 1, -2, -(2**40), -(2**63)])
@pytest.mark.parametrize("name", ["children", "tool_calls", "extensions"])
def test_a_count_beyond_the_bytes_is_one_cheap_error(name, count):
    tracemalloc.start()
    try:
        assert error_of(with_bytes_for(name, long(count))).code in {ErrorCode.BAD_AVRO, ErrorCode.TRAILING_BYTES}
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_negative_count_with_the_size_of_its_block_is_valid_avro():
    item = long(1) + long(3) + b"r-2" + long(1) + long(1)  # a run id and the second symbol
    record = read(with_bytes_for("children", long(-1) + long(len(item)) + item + long(0)))
    assert record["children"] == [{"run_id": "r-2", "state": "running"}]


def test_a_list_may_have_as_many_items_as_json_may_and_no_more():
    item = b"\x00\x00"
    most = with_bytes_for("children", long(MAX_ITEMS) + item * MAX_ITEMS + long(0))
    assert len(read(most)["children"]) == MAX_ITEMS
    two_blocks = long(MAX_ITEMS) + item * MAX_ITEMS + long(1) + item + long(0)
    error = error_of(with_bytes_for("children", two_blocks))
    assert (error.code, error.path) == (ErrorCode.TOO_LARGE, "children")


def test_a_large_body_of_tiny_items_costs_no_more_than_its_bytes():
    count = 1_000_000
    data = with_bytes_for("children", long(count) + b"\x00\x00" * count + long(0))
    tracemalloc.start()
    try:
        assert error_of(data).code is ErrorCode.TOO_LARGE
        assert tracemalloc.get_traced_memory()[1] < len(data)
    finally:
        tracemalloc.stop()


def test_many_items_in_many_lists_are_too_large_together():
    decision = full("terminal_event")["policy_decisions"][0] | {"alternatives": [""] * 4_000}
    event = full("terminal_event") | {"policy_decisions": [decision] * 70}
    assert error_of(encode_single_object(event)).code is ErrorCode.TOO_LARGE


def test_the_walk_ends_where_the_decoder_does():
    rng, parsed = Random(7), current_writer("terminal_event").parsed
    for event in (full("terminal_event"), *(random_event(rng) for _ in range(100))):
        body = encode_body(event)
        assert check_counts(parsed, body) == len(body)
        assert check_counts(parsed, b"xyz" + body + b"tail", 3) == len(body) + 3


def test_the_walk_refuses_every_truncation():
    parsed, body = current_writer("terminal_event").parsed, encode_body(full("terminal_event"))
    for end in range(len(body)):
        with pytest.raises(MessageError) as caught:
            check_counts(parsed, body[:end])
        assert caught.value.code is ErrorCode.BAD_AVRO


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("tenant", long(3) + b"a\xffb"),
        ("tenant", long(3) + b"\xed\xa0\x80"),
        ("tenant", long(-3) + b"abc"),
        ("tenant", long(2**40) + b"abc"),
        ("tenant", b"\xff" * 11),
        ("segment", long(2)),
        ("segment", long(-3)),
        ("children", long(1) + long(0) + long(1) + long(3)),
        ("children", long(1) + long(0) + long(1) + long(2**40)),
    ],
    ids=[
        "utf-8", "surrogate", "negative length", "length beyond the end", "endless integer", "branch beyond the union",
        "branch before the union", "symbol beyond the enumeration", "symbol far beyond the enumeration",
    ],
)  # fmt: skip
def test_a_body_against_its_schema_is_one_error(name, data):
    assert error_of(with_bytes_for(name, data)).code is ErrorCode.BAD_AVRO


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("instant", [EARLIEST - 1, LATEST + 1, -(2**63), 2**63 - 1])
def test_every_instant_must_be_one_that_can_be_stored(kind, instant):
    for place in places(kind, "timestamp-micros"):
        error = error_of(encode_single_object(replaced(full(kind), place, instant)))
        assert (error.code, error.path) == (ErrorCode.OUT_OF_RANGE, path_of(place))
        for allowed in (EARLIEST, LATEST):
            assert read(encode_single_object(replaced(full(kind), place, allowed)))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_every_number_must_be_finite(number):
    found = list(places("terminal_event", "double"))
    assert len(found) == 3
    for place in found:
        error = error_of(encode_single_object(replaced(full("terminal_event"), place, number)))
        assert (error.code, error.path) == (ErrorCode.OUT_OF_RANGE, path_of(place).replace("key", "*"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("identifier", ["", "x" * 1025])
def test_every_identifier_must_be_there_and_not_endless(kind, identifier):
    names = {"event_id", "run_id", "tenant", "agent_id"} if kind == "terminal_event" else {"record_id", "tenant"}
    for name in names:
        error = error_of(encode_single_object(full(kind) | {name: identifier}))
        assert (error.code, error.path) == (ErrorCode.OUT_OF_RANGE, name)
        assert read(encode_single_object(full(kind) | {name: "é" * 1024}))


@pytest.mark.parametrize("kind", KINDS)
def test_the_body_must_state_the_contracts_type_and_version(kind):
    def body(**changes):
        out = BytesIO()
        fastavro.schemaless_writer(out, current_writer(kind).parsed, full(kind) | changes)
        return framed(out.getvalue(), kind)

    assert error_of(body(type="receipt")).code is ErrorCode.UNSUPPORTED_TYPE
    assert error_of(body(version=2)).code is ErrorCode.UNSUPPORTED_VERSION
    other = "enrichment" if kind != "enrichment" else "terminal_event"
    assert error_of(body(type=other)).code is ErrorCode.UNSUPPORTED_TYPE


def test_every_list_and_map_is_as_long_as_in_json():
    event = full("terminal_event")
    longer = [(place, at(event, place) * (MAX_ITEMS + 1)) for place in places("terminal_event", "array")]
    for place in places("terminal_event", "map"):
        value = at(event, place)["key"]
        longer.append((place, {str(index): value for index in range(MAX_ITEMS + 1)}))
    assert len(longer) > 10
    for place, value in longer:
        error = check_error(replaced(event, place, value))
        assert error.code is ErrorCode.TOO_LARGE
        assert error.path == path_of(place)


# Schemas of others


def foreign(change):
    """A writer whose schema is the current one after ``change(schema)``."""
    schema = avro_schema(INCOMING["terminal_event"])
    change(schema)
    return Writer.of(schema)


def field_of(schema, name):
    return next(field for field in schema["fields"] if field["name"] == name)


def decoded_by(writer, record):
    out = BytesIO()
    fastavro.schemaless_writer(out, writer.parsed, record)
    return writer.decode(out.getvalue())


def test_a_writer_with_the_current_schema_is_recognised_whatever_its_wording():
    def reword(schema):
        schema["doc"] = "other words"
        field_of(schema, "occurred_at")["type"] = "long"

    writer = foreign(reword)
    assert writer.is_current
    assert decoded_by(writer, full("terminal_event")) == full("terminal_event")


def test_fields_that_the_contract_does_not_know_go_to_extensions():
    def add(schema):
        step = field_of(schema, "steps")["type"]["items"]
        step["fields"].insert(0, {"name": "vendor", "type": "bytes"})
        schema["fields"].insert(3, {"name": "novel", "type": {"type": "map", "values": "double"}})

    event = full("terminal_event")
    written = event | {"novel": {"b": 0.5, "a": 1}, "steps": [event["steps"][0] | {"vendor": b"\xff"}]}
    extensions = event["extensions"] | {"novel": '{"a":1.0,"b":0.5}', "steps[0].vendor": '"ÿ"'}
    assert decoded_by(foreign(add), written) == event | {"extensions": extensions}


def test_fields_that_the_writer_lacks_are_absent():
    def drop(schema):
        schema["fields"] = [
            field for field in schema["fields"] if field["name"] not in {"steps", "model", "extensions"}
        ]

    event = full("terminal_event")
    assert decoded_by(foreign(drop), event) == event | {"steps": [], "model": None, "extensions": {}}


def test_a_symbol_that_the_contract_does_not_know_becomes_the_default():
    def add(schema):
        outcome = next(f for f in field_of(schema, "tool_calls")["type"]["items"]["fields"] if f["name"] == "outcome")
        outcome["type"][1]["symbols"].insert(0, "splendid")

    event = full("terminal_event")
    written = replaced(event, ("tool_calls", 0, "outcome"), "splendid")
    assert decoded_by(foreign(add), written)["tool_calls"][0]["outcome"] == "unknown"


def test_order_of_fields_namespace_and_smaller_numbers_are_the_writers_affair():
    def change(schema):
        schema["fields"].reverse()
        schema["namespace"] = "com.example"
        field_of(schema, "segment")["type"] = ["int", "null"]

    # Named types must stay defined at their first use, so only a schema without shared ones can be turned around.
    schema = avro_schema(INCOMING["legacy_exit"])
    change(schema)
    writer = Writer.of(schema)
    assert (writer.kind, writer.is_current) == ("legacy_exit", False)
    assert decoded_by(writer, full("legacy_exit")) == full("legacy_exit")


def test_records_of_a_foreign_writer_are_validated_as_all_are():
    def add(schema):
        schema["fields"].append({"name": "novel", "type": "string"})

    record = full("terminal_event") | {"novel": "x"}
    for changes, code in (
        ({"event_id": ""}, ErrorCode.OUT_OF_RANGE),
        ({"occurred_at": LATEST + 1}, ErrorCode.OUT_OF_RANGE),
        ({"version": 2}, ErrorCode.UNSUPPORTED_VERSION),
    ):
        with pytest.raises(MessageError) as caught:
            decoded_by(foreign(add), record | changes)
        assert caught.value.code is code


RECORD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}


def nested(depth):
    """Records within records, each defined before the next, so that the JSON stays flat."""
    fields = [{"name": "f0", "type": {"type": "record", "name": "R0", "fields": [{"name": "a", "type": "long"}]}}]
    for level in range(1, depth):
        inner = [{"name": "a", "type": f"R{level - 1}"}, {"name": "b", "type": f"R{level - 1}"}]
        fields.append({"name": f"f{level}", "type": {"type": "record", "name": f"R{level}", "fields": inner}})
    return fields


def chained(depth):
    fields = [{"name": "f0", "type": {"type": "record", "name": "R0", "fields": [{"name": "a", "type": "long"}]}}]
    for level in range(1, depth):
        inner = [{"name": "a", "type": f"R{level - 1}"}]
        fields.append({"name": f"f{level}", "type": {"type": "record", "name": f"R{level}", "fields": inner}})
    return fields


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ([{"name": "x", "type": {"type": "array", "items": "null"}}], "no bytes"),
        ([{"name": "x", "type": {"type": "array", "items": {"type": "null"}}}], "no bytes"),
        ([{"name": "x", "type": {"type": "map", "values": "null"}}], "no bytes"),
        ([{"name": "x", "type": "null"}], "no bytes"),
        ([{"name": "x", "type": {"type": "record", "name": "R", "fields": []}}], "no bytes"),
        ([{"name": "x", "type": {"type": "fixed", "name": "F", "size": 0}}], "no bytes"),
        ([{"name": "x", "type": {"type": "fixed", "name": "F", "size": -1}}], ""),
        ([{"name": "x", "type": ["null", "TerminalEvent"]}], "contains itself"),
        ([{"name": "x", "type": {"type": "array", "items": "TerminalEvent"}}], "contains itself"),
        (nested(40), "expands"),
        (chained(2000), "expands"),
        ([{"name": "x", "type": "no_such_type"}], "no valid"),
        ([{"name": "x"}], "no valid"),
        ([{"name": "x", "type": 5}], ""),
        ("abc", ""),
        (None, ""),
    ],
)
def test_a_schema_that_is_not_safe_or_not_valid_is_refused(fields, reason):
    schema = avro_schema(INCOMING["terminal_event"])
    schema["fields"] = schema["fields"] + fields if isinstance(fields, list) else fields
    with pytest.raises(MessageError) as caught:
        Writer.of(schema)
    assert caught.value.code is ErrorCode.INCOMPATIBLE_SCHEMA
    assert reason in caught.value.message


@pytest.mark.parametrize(
    "change",
    [
        lambda schema: schema["fields"].remove(field_of(schema, "event_id")),
        lambda schema: field_of(schema, "segment").update(type=["null", "string"]),
        lambda schema: field_of(schema, "tenant").update(type=["null", "string"]),
        lambda schema: field_of(schema, "steps").update(type={"type": "array", "items": "long"}),
        lambda schema: field_of(schema, "tenant").update(type="bytes"),
    ],
)
def test_a_schema_that_cannot_be_read_as_the_contract_is_refused(change):
    with pytest.raises(MessageError) as caught:
        foreign(change)
    assert caught.value.code is ErrorCode.INCOMPATIBLE_SCHEMA


@pytest.mark.parametrize("schema", ["string", ["null", RECORD], RECORD, {"type": "map", "values": "long"}])
def test_a_schema_of_something_else_is_an_unsupported_type(schema):
    with pytest.raises(MessageError) as caught:
        Writer.of(schema)
    assert caught.value.code is ErrorCode.UNSUPPORTED_TYPE


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[" * 100_000, b"5", b"null", b'{"__fastavro_parsed": true}'])
def test_a_schema_text_that_is_none_is_refused(text):
    with pytest.raises(MessageError) as caught:
        writer_of(text)
    assert caught.value.code in {ErrorCode.INCOMPATIBLE_SCHEMA, ErrorCode.UNSUPPORTED_TYPE}


def test_a_schema_text_is_read_once():
    text = json.dumps(avro_schema(INCOMING["enrichment"])).encode()
    assert writer_of(text) is writer_of(bytes(bytearray(text)))
    assert writer_of(text).fingerprint == current_writer("enrichment").fingerprint


def test_everything_published_can_be_decoded_without_a_registry():
    for kind in KINDS:
        assert SCHEMAS.by_fingerprint(current_writer(kind).fingerprint).kind == kind
    assert SCHEMAS.by_fingerprint(0) is None
    assert SCHEMAS.by_id(0) is None
