import json
from random import Random

import pytest
from pydantic import ValidationError

from schemas.contract import INCOMING
from schemas.errors import ErrorCode, MessageError
from schemas.json_form import parse_json, to_json
from schemas.types import MAX_ITEMS
from schemas.upcast import upcast
from tests.schemas.samples import at, full, minimal, places, replaced
from tests.strategies import random_event

KINDS = tuple(INCOMING)


def text(kind="terminal_event", **changes):
    """JSON of a minimal record with some fields changed; a field set to ``...`` is left out."""
    record = json.loads(to_json(minimal(kind), INCOMING[kind])) | changes
    return json.dumps({name: value for name, value in record.items() if value is not ...}).encode()


def error_of(data, **options):
    with pytest.raises(MessageError) as caught:
        parse_json(data, **options)
    return caught.value


def error_or_none(data):
    try:
        parse_json(data)
    except MessageError as error:
        return error
    return None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sample", [full, minimal])
def test_what_is_written_reads_back_the_same(kind, sample):
    record = sample(kind)
    assert parse_json(to_json(record, INCOMING[kind])) == record


def test_random_events_read_back_as_the_models_read_them():
    rng = Random(5)
    for event in (random_event(rng) for _ in range(300)):
        data = to_json(event, INCOMING["terminal_event"])
        assert parse_json(data) == event == INCOMING["terminal_event"].model_validate_json(data).model_dump()


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_required_fields_are_needed(kind):
    given = {name: value for name, value in minimal(kind).items() if value not in (None, [], {})}
    assert parse_json(json.dumps(given).encode()) == minimal(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_null_means_absent_for_every_optional_field(kind):
    given = {name: value if value not in ([], {}) else None for name, value in minimal(kind).items()}
    assert parse_json(json.dumps(given).encode()) == minimal(kind)


def test_null_is_an_empty_list_or_map_at_any_depth():
    event = parse_json(text(steps=[{"checks": None}], fallbacks=[{"triggers": None}]))
    assert (event["steps"][0]["checks"], event["fallbacks"][0]["triggers"]) == ({}, [])


@pytest.mark.parametrize("written", ["2026-11-30T12:00:00.123456Z", "2026-11-30T17:30:00.123456+05:30"])
def test_instants_become_microseconds_whatever_their_offset(written):
    assert parse_json(text(occurred_at=written))["occurred_at"] == minimal("terminal_event")["occurred_at"]


def test_instants_are_written_in_utc_with_six_digits():
    assert b'"occurred_at":"2026-11-30T12:00:00.123456Z"' in to_json(full("terminal_event"), INCOMING["terminal_event"])


@pytest.mark.parametrize(
    ("kind", "place"), [(kind, place) for kind in KINDS for place in places(kind, "enum")], ids=str
)
def test_an_unknown_symbol_becomes_the_default(kind, place):
    given = replaced(full(kind), place, "from_the_future")
    default = at(parse_json(json.dumps(given).encode()), place)
    assert default in {"unknown", "none", "unverifiable", "UNKNOWN"}


def test_unknown_fields_move_to_extensions_under_their_path():
    event = parse_json(
        text(
            foo={"b": [1, 2.5, None], "a": "é"},
            budget={"tool_calls": {"used": 1, "burst": True}},
            tool_calls=[{}, {"vendor_field": "x"}],
            takeover={"acks": [{"by": {}}]},
        )
    )
    assert event["extensions"] == {
        "foo": '{"a":"é","b":[1,2.5,null]}',
        "budget.tool_calls.burst": "true",
        "tool_calls[1].vendor_field": '"x"',
        "takeover.acks[0].by": "{}",
    }
    assert "foo" not in event
    assert "vendor_field" not in event["tool_calls"][1]
    assert parse_json(to_json(event, INCOMING["terminal_event"])) == event


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_fields_of_every_record_are_kept(kind):
    record = full(kind) | {"novel": 1}
    assert parse_json(json.dumps(record).encode()) == full(kind) | {"extensions": {"key": "text", "novel": "1"}}


def test_extensions_that_are_no_strings_become_json_text():
    event = parse_json(text(extensions={"a": "as it is", "b": {"z": 1, "y": []}, "c": None}))
    assert event["extensions"] == {"a": "as it is", "b": '{"y":[],"z":1}', "c": "null"}


def test_an_unknown_field_never_replaces_an_extension():
    event = parse_json(text(foo=1, extensions={"foo": "kept", "foo#": "kept too"}))
    assert event["extensions"] == {"foo": "kept", "foo#": "kept too", "foo##": "1"}


def test_paths_that_look_alike_are_both_kept():
    event = parse_json(text(**{"request.x": 1}, request={"x": 2}))
    assert event["extensions"] == {"request.x": "1", "request.x#": "2"}


def test_of_a_key_that_stands_twice_the_last_holds():
    data = text().replace(b'"tenant": "acme"', b'"tenant": "other", "tenant": "acme"')
    assert parse_json(data)["tenant"] == "acme"


BAD = ErrorCode.BAD_TYPE
RANGE = ErrorCode.OUT_OF_RANGE
TIME = ErrorCode.BAD_TIME


@pytest.mark.parametrize(
    ("changes", "code", "path"),
    [
        ({"type": ...}, ErrorCode.UNSUPPORTED_TYPE, "type"),
        ({"type": "receipt"}, ErrorCode.UNSUPPORTED_TYPE, "type"),
        ({"type": ["terminal_event"]}, ErrorCode.UNSUPPORTED_TYPE, "type"),
        ({"version": ...}, ErrorCode.UNSUPPORTED_VERSION, "version"),
        ({"version": 0}, ErrorCode.UNSUPPORTED_VERSION, "version"),
        ({"version": 2}, ErrorCode.UNSUPPORTED_VERSION, "version"),
        ({"version": True}, ErrorCode.UNSUPPORTED_VERSION, "version"),
        ({"version": 1.0}, ErrorCode.UNSUPPORTED_VERSION, "version"),
        ({"version": "1"}, ErrorCode.UNSUPPORTED_VERSION, "version"),
        ({"run_id": ...}, ErrorCode.MISSING_FIELD, "run_id"),
        ({"occurred_at": ...}, ErrorCode.MISSING_FIELD, "occurred_at"),
        ({"event_id": ""}, RANGE, "event_id"),
        ({"tenant": "t" * 1025}, RANGE, "tenant"),
        ({"tenant": None}, BAD, "tenant"),
        ({"segment": True}, BAD, "segment"),
        ({"segment": 1.0}, BAD, "segment"),
        ({"segment": "1"}, BAD, "segment"),
        ({"segment": 2**63}, RANGE, "segment"),
        ({"segment": -(2**63) - 1}, RANGE, "segment"),
        ({"segment": 10**400}, RANGE, "segment"),
        ({"request": []}, BAD, "request"),
        ({"tool_calls": {}}, BAD, "tool_calls"),
        ({"tool_calls": [{}, {}, {"outcome": 5}]}, BAD, "tool_calls[2].outcome"),
        ({"tool_calls": [{}, 5]}, BAD, "tool_calls[1]"),
        ({"tool_calls": [{"required": 1}]}, BAD, "tool_calls[0].required"),
        ({"budget": {"exhausted": ["turns", 1]}}, BAD, "budget.exhausted[1]"),
        ({"steps": [{"checks": {"format": "high"}}]}, BAD, "steps[0].checks.*"),
        ({"steps": [{"confidence_after": "0.5"}]}, BAD, "steps[0].confidence_after"),
        ({"children": [{}] * (MAX_ITEMS + 1)}, ErrorCode.TOO_LARGE, "children"),
        ({"extensions": []}, BAD, "extensions"),
        ({"extensions": dict.fromkeys(map(str, range(MAX_ITEMS + 1)), "x")}, ErrorCode.TOO_LARGE, "extensions"),
        (dict.fromkeys(map(str, range(MAX_ITEMS + 1)), "x"), ErrorCode.TOO_LARGE, "extensions"),
        ({"model": dict.fromkeys(map(str, range(MAX_ITEMS + 1)), "x")}, ErrorCode.TOO_LARGE, "extensions"),
        (
            {"steps": [{"checks": dict.fromkeys(map(str, range(MAX_ITEMS + 1)))}]},
            ErrorCode.TOO_LARGE,
            "steps[0].checks",
        ),
        ({"occurred_at": "2026-11-30T08:00:00"}, TIME, "occurred_at"),
        ({"occurred_at": "2026-11-31T08:00:00Z"}, TIME, "occurred_at"),
        ({"occurred_at": "yesterday"}, TIME, "occurred_at"),
        ({"occurred_at": 1.5}, TIME, "occurred_at"),
        ({"occurred_at": True}, TIME, "occurred_at"),
        ({"occurred_at": "1899-12-31T23:59:59Z"}, RANGE, "occurred_at"),
        ({"occurred_at": "9999-12-31T23:59:59-12:00"}, RANGE, "occurred_at"),
        ({"occurred_at": 2**62}, RANGE, "occurred_at"),
        ({"occurred_at": -(10**400)}, RANGE, "occurred_at"),
    ],
)
def test_an_invalid_record_is_one_error_with_code_and_path(changes, code, path):
    error = error_of(text(**changes))
    assert (error.code, error.path) == (code, path)
    assert error.message


def test_no_error_repeats_the_value_or_a_key_of_the_producer():
    planted, refused = "hunter2-planted", 0
    for kind in ("string", "long", "double", "boolean", "enum", "timestamp-micros", "array", "map", "record"):
        for place in places("terminal_event", kind):
            for bad in ({planted: planted}, [planted], planted):
                given = replaced(full("terminal_event"), place, {planted: bad} if kind == "map" else bad)
                error = error_or_none(json.dumps(given).encode())
                assert planted not in f"{error} {error and error.path}"
                refused += error is not None
    assert refused > 200


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity"])
@pytest.mark.parametrize("field", [b"segment", b"novel", b"extensions", b"occurred_at"])
def test_nan_and_infinity_are_no_json(number, field):
    assert error_of(text().replace(b"{", b'{"' + field + b'": ' + number + b", ", 1)).code is ErrorCode.BAD_JSON


@pytest.mark.parametrize(
    ("part", "path"),
    [
        ('"steps": [{"confidence_after": 1e999}]', "steps[0].confidence_after"),
        ('"novel": [1e999]', "*"),
        ('"model": {"novel": 1e999}', "model.*"),
        ('"extensions": {"novel": 1e999}', "extensions.*"),
    ],
)
def test_a_number_too_large_for_a_double_is_out_of_range(part, path):
    data = text(steps=..., model=..., extensions=...).replace(b"{", b"{" + part.encode() + b", ", 1)
    error = error_of(data)
    assert (error.code, error.path) == (RANGE, path)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" ",
        b"{",
        b"nul",
        b"{'type': 1}",
        text() + text(),
        text() + b"x",
        b"\xef\xbb\xbf" + text(),
        b"\xff\xfe{",
        text().replace(b"acme", b"\xff"),
        text().replace(b"acme", b"\xed\xa0\x80"),
        text().replace(b"acme", rb"\ud800"),
        text().replace(b"acme", rb"\udc00"),
        text().replace(b"acme", b"\x00"),
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"novel":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"novel": 1' + b"0" * 10_000 + b"}",
    ],
)
def test_what_is_no_json_is_one_error(data):
    assert error_of(data).code is ErrorCode.BAD_JSON


@pytest.mark.parametrize("data", [b"[]", b"1", b"null", b'"x"', b"[" + text() + b"]"])
def test_a_message_is_one_object(data):
    assert error_of(data).code is BAD


def test_a_large_integer_that_the_contract_does_not_know_is_kept():
    assert parse_json(text(novel=10**400))["extensions"]["novel"] == str(10**400)


def test_an_unknown_field_may_be_nested_deeply():
    nested = "[" * 150 + "]" * 150
    assert parse_json(text(novel=json.loads(nested)))["extensions"]["novel"] == nested


def test_the_size_limit_is_on_bytes_and_inclusive():
    data = text(request={"prose": "x" * 10_000})
    assert parse_json(data, max_bytes=len(data))
    assert error_of(data, max_bytes=len(data) - 1).code is ErrorCode.TOO_LARGE


def test_every_truncation_is_one_error():
    data = to_json(full("terminal_event"), INCOMING["terminal_event"])
    for end in range(len(data)):
        assert error_of(data[:end]).code is ErrorCode.BAD_JSON


def test_writing_what_is_no_record_is_a_defect_of_the_caller():
    with pytest.raises(ValidationError):
        to_json({"type": "terminal_event"}, INCOMING["terminal_event"])


def _second(raw):
    return raw | {"version": 2, "steps": ["second"]}


def _third(raw):
    return raw | {"version": 3, "steps": [*raw["steps"], "third"]}


CHAIN = {("receipt", 1): _second, ("receipt", 2): _third}


def test_older_versions_are_upcast_step_by_step():
    assert upcast({"type": "receipt", "version": 1}, CHAIN, {"receipt": 3})["steps"] == ["second", "third"]
    assert upcast({"type": "receipt", "version": 2, "steps": []}, CHAIN, {"receipt": 3})["steps"] == ["third"]


def test_the_current_version_is_left_alone():
    raw = {"type": "receipt", "version": 3}
    assert upcast(raw, CHAIN, {"receipt": 3}) is raw


@pytest.mark.parametrize("version", [0, 4, -1, 2**70])
def test_a_version_without_a_step_is_unsupported(version):
    with pytest.raises(MessageError) as caught:
        upcast({"type": "receipt", "version": version}, CHAIN, {"receipt": 3})
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_a_labelled_case_is_its_event_only_where_cases_may_stand():
    event = to_json(full("terminal_event"), INCOMING["terminal_event"])
    case = b'{"case": "1", "event": ' + event + b"}"
    assert parse_json(case, labelled=True) == parse_json(event)
    with pytest.raises(MessageError) as caught:
        parse_json(case)
    assert caught.value.code is ErrorCode.UNSUPPORTED_TYPE


@pytest.mark.parametrize("number", [1_796_025_600, 1_796_025_600_000, -1])
def test_a_number_of_seconds_is_no_instant(number):
    record = json.loads(to_json(minimal("terminal_event"), INCOMING["terminal_event"])) | {"occurred_at": number}
    with pytest.raises(MessageError) as caught:
        parse_json(json.dumps(record).encode())
    assert (caught.value.code, caught.value.path) == (ErrorCode.BAD_TIME, "occurred_at")
