"""The registry's client against a real HTTP server: what it remembers, and which "no" is whose fault."""

import json
import os
import shutil
import socket
import time
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.avro import avro_schema
from schemas.contract import INCOMING
from schemas.errors import ErrorCode, MessageError
from schemas.wire import decode, encode_confluent, encode_single_object
from schemas.writer import Writer, current_writer
from streams.clock import FixedClock, SystemClock
from streams.registry import (
    MAX_ANSWER_BYTES,
    MAX_ID,
    MAX_SCHEMAS,
    MAX_UNKNOWN,
    Registry,
    RegistryAccess,
    RegistryRejected,
    RegistryUnavailable,
)
from tests.broker.certificates import make_certificates
from tests.registry.double import SchemaRegistryDouble
from tests.schemas.samples import full

EVENT = avro_schema(INCOMING["terminal_event"])


@pytest.fixture
def double():
    with SchemaRegistryDouble().running() as registry:
        yield registry


@pytest.fixture
def clock():
    return FixedClock()


@pytest.fixture
def registry(double, clock):
    client = Registry(RegistryAccess(double.url, timeout_s=5), clock)
    yield client
    client.close()


@pytest.mark.parametrize("kind", INCOMING)
def test_a_framed_message_is_decoded_by_the_schema_under_its_id(double, registry, kind):
    schema_id = double.add(avro_schema(INCOMING[kind]))
    record = full(kind)
    assert decode(encode_confluent(record, schema_id), schemas=registry) == record


def test_what_needs_no_registry_does_not_ask_it(double, registry):
    record = full("enrichment")
    assert decode(encode_single_object(record), schemas=registry) == record
    assert registry.by_fingerprint(1) is None
    assert not double.calls


def test_a_schema_is_asked_for_once(double, registry, clock):
    schema_id = double.add(EVENT)
    assert registry.by_id(schema_id).fingerprint == current_writer("terminal_event").fingerprint
    clock.advance(10**9)
    double.status = 503
    assert registry.by_id(schema_id).is_current
    assert double.calls.total() == 1


def test_an_unknown_id_is_asked_for_again_only_after_a_while(double, registry, clock):
    for _ in range(3):
        assert registry.by_id(7) is None
    assert double.calls.total() == 1
    double.add(EVENT, 7)
    clock.advance(9.9)
    assert registry.by_id(7) is None
    clock.advance(0.2)
    assert registry.by_id(7).kind == "terminal_event"
    assert double.calls.total() == 2


def test_an_id_that_is_missing_for_a_while_is_the_messages_fault_and_heals(double, registry, clock):
    schema_id = double.add(EVENT)
    double.missing = {schema_id}
    with pytest.raises(MessageError) as caught:
        decode(encode_confluent(full("terminal_event"), schema_id), schemas=registry)
    assert caught.value.code is ErrorCode.UNKNOWN_SCHEMA
    double.missing = set()
    clock.advance(10)
    assert decode(encode_confluent(full("terminal_event"), schema_id), schemas=registry)


@pytest.mark.parametrize("schema_id", [0, MAX_ID + 1, 2**32 - 1])
def test_an_id_that_no_registry_can_have_is_not_asked_for(double, registry, schema_id):
    assert registry.by_id(schema_id) is None
    assert not double.calls


@pytest.mark.parametrize("status", [500, 502, 503, 504, 408, 425, 429, 302, 307, 404, 400, 200, 204])
def test_an_outage_is_not_remembered_and_never_the_messages_fault(double, registry, status):
    schema_id = double.add(EVENT)
    double.status = status
    for _ in range(2):
        with pytest.raises(RegistryUnavailable):
            registry.by_id(schema_id)
    assert double.calls.total() == 2
    double.status = None
    assert registry.by_id(schema_id).kind == "terminal_event"


def test_a_redirect_is_not_followed(double):
    double.status = 307
    registry = Registry(RegistryAccess(double.url, "me", "secret"), FixedClock())
    with pytest.raises(RegistryUnavailable, match=r"check registry.url"):
        registry.by_id(1)
    assert double.calls.total() == 1


FOREIGN = {
    "no JSON": b"<html>",
    "no object": b"[]",
    "another object": b'{"status": "ok"}',
    "a schema that is none": b'{"schema": 7}',
    "an end in the middle": b'{"schema": "',
    "nothing": b" ",
    "brackets without end": b"[" * 900_000,
    "a long page": b"<" + b"x" * MAX_ANSWER_BYTES,
}


@pytest.mark.parametrize("case", FOREIGN)
def test_what_is_no_registrys_answer_is_an_outage(double, registry, case):
    double.raw[1] = FOREIGN[case]
    with pytest.raises(RegistryUnavailable):
        registry.by_id(1)


def nested(levels):
    inner = "long"
    for level in range(levels):
        inner = {"type": "record", "name": f"R{level}", "fields": [{"name": "f", "type": inner}]}
    return inner


def of_event(kind):
    return {"type": "record", "name": "TerminalEvent", "fields": [{"name": "f", "type": kind}]}


HOSTILE = {
    "recursive": of_event(["null", "TerminalEvent"]),
    "recursive by way of another": of_event(
        {"type": "record", "name": "A", "fields": [{"name": "a", "type": ["null", "TerminalEvent"]}]}
    ),
    "deep": of_event(nested(40)),
    "deeper than Python": "[" * 100_000,
    "no JSON": "{",
    "no schema": "7",
    "a lone surrogate": '"\ud800"',
    "without fields": {"type": "record", "name": "TerminalEvent", "fields": []},
    "of no bytes": of_event({"type": "array", "items": "null"}),
    "another instant": of_event({"type": "long", "logicalType": "timestamp-millis"}),
    "a primitive": "string",
    "a foreign record": of_event("long") | {"name": "Payment"},
    "an enumeration of very many": of_event({"type": "enum", "name": "E", "symbols": [f"s{i}" for i in range(90_000)]}),
    "very many fields": {
        "type": "record",
        "name": "TerminalEvent",
        "fields": [{"name": f"f{i}", "type": "long"} for i in range(20_000)],
    },
    "a union of very many": of_event(
        [{"type": "record", "name": f"R{i}", "fields": [{"name": "f", "type": "long"}]} for i in range(9_000)]
    ),
    "doubling at every level": of_event(
        {
            "type": "record",
            "name": "R0",
            "fields": [
                {
                    "name": "f",
                    "type": {"type": "record", "name": "L", "fields": [{"name": "x", "type": "long"}]},
                },
                *({"name": f"g{i}", "type": "L"} for i in range(5_000)),
            ],
        }
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_schema_that_cannot_be_used_is_the_messages_fault_in_bounded_time(double, registry, case):
    schema_id = double.add(HOSTILE[case])
    began = time.perf_counter()
    for _ in range(2):
        with pytest.raises(MessageError) as caught:
            registry.by_id(schema_id)
        assert caught.value.code in {ErrorCode.INCOMPATIBLE_SCHEMA, ErrorCode.UNSUPPORTED_TYPE}
    assert time.perf_counter() - began < 5
    assert double.calls.total() == 1


def test_a_schema_over_the_limit_is_refused_without_being_read_whole(double, registry):
    double.raw[1] = b'{"schema": "' + b"x" * (20 * MAX_ANSWER_BYTES) + b'"}'
    tracemalloc.start()
    with pytest.raises(MessageError, match="more than 1048576 bytes"):
        registry.by_id(1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * MAX_ANSWER_BYTES
    assert double.add(EVENT, 2) == 2
    assert registry.by_id(2).kind == "terminal_event"


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"schemaType": "PROTOBUF"}, "not Avro but 'PROTOBUF'"),
        ({"schemaType": "\x1b[2J"}, r"not Avro but '\\x1b"),
        ({"references": [{"name": "x", "subject": "y", "version": 1}]}, "refers to other schemas"),
    ],
)
def test_a_schema_of_another_kind_is_the_messages_fault(double, registry, more, reason):
    with pytest.raises(MessageError, match=reason):
        registry.by_id(double.add(EVENT, **more))


def test_empty_references_and_a_stated_kind_are_nothing_special(double, registry):
    assert registry.by_id(double.add(EVENT, schemaType="AVRO", references=[])).is_current


def test_what_is_remembered_is_bounded(double, registry):
    for schema_id in range(1, MAX_SCHEMAS + 2):
        double.add(EVENT, schema_id)
        registry.by_id(schema_id)
    assert len(registry._known) == MAX_SCHEMAS
    asked = double.calls.total()
    registry.by_id(2)
    assert double.calls.total() == asked
    registry.by_id(1)
    assert double.calls.total() == asked + 1


def test_unknown_ids_that_are_remembered_are_bounded(registry, monkeypatch):
    monkeypatch.setattr(registry, "_fetched", lambda schema_id: None)
    for schema_id in range(1, MAX_UNKNOWN + 100):
        assert registry.by_id(schema_id) is None
    assert len(registry._unknown_until) == MAX_UNKNOWN


def test_the_connection_is_kept(double, registry):
    accepted = []
    accept = double._server.get_request
    double._server.get_request = lambda: accepted.append(1) or accept()
    for schema_id in range(1, 6):
        registry.by_id(schema_id)
    assert len(accepted) == 1


def test_nobody_listening_is_an_outage():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"  # kept, so that nobody else listens there meanwhile
        with pytest.raises(RegistryUnavailable, match=r"cannot be reached: .*refused"):
            Registry(RegistryAccess(url), SystemClock()).by_id(1)


@pytest.mark.parametrize("fault", ["delay_s", "dribble_s"])
def test_an_answer_that_takes_too_long_is_an_outage(double, fault):
    schema_id = double.add(EVENT)
    setattr(double, fault, 1.0 if fault == "delay_s" else 0.02)
    registry = Registry(RegistryAccess(double.url, timeout_s=0.3), SystemClock())
    began = time.perf_counter()
    with pytest.raises(RegistryUnavailable, match=r"timed out|not whole"):
        registry.by_id(schema_id)
    assert time.perf_counter() - began < 3
    registry.close()


def test_the_password_is_sent_and_shown_nowhere(double):
    double.credentials = "me:geheim"
    access = RegistryAccess(double.url, "me", "geheim")
    assert Registry(access, FixedClock()).by_id(double.add(EVENT)).is_current
    assert "geheim" not in repr(access)
    wrong = Registry(RegistryAccess(double.url, "me", "falsch"), FixedClock())
    with pytest.raises(RegistryRejected, match=r"check registry.username") as caught:
        wrong.by_id(1)
    assert "falsch" not in str(caught.value)


@pytest.mark.parametrize("url", ["", "host:8081", "ftp://host", "http://", "http://me:word@host", "http://host?a=b"])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(RegistryRejected, match="address of the registry") as caught:
        RegistryAccess(url)
    assert "word" not in str(caught.value)


def test_certificates_that_cannot_be_read_are_refused_at_once(tmp_path):
    with pytest.raises(RegistryRejected, match="no certificates can be read"):
        Registry(RegistryAccess("https://host", ca_file=str(tmp_path / "none.pem")), FixedClock())
    (tmp_path / "bad.pem").write_text("no certificate")
    with pytest.raises(RegistryRejected, match="no certificates can be read"):
        Registry(RegistryAccess("https://host", ca_file=str(tmp_path / "bad.pem")), FixedClock())


@pytest.mark.skipif(shutil.which("openssl") is None and not os.environ.get("CI"), reason="openssl makes certificates")
def test_a_registry_must_show_a_certificate_of_the_authority(tmp_path):
    ours, foreign = make_certificates(tmp_path / "ours"), make_certificates(tmp_path / "foreign")
    with SchemaRegistryDouble(ours.server).running() as double:
        schema_id = double.add(EVENT)
        trusting = RegistryAccess(double.url, "me", "geheim", ca_file=str(ours.authority))
        assert Registry(trusting, SystemClock()).by_id(schema_id).is_current
        for authority in ("", str(foreign.authority)):
            wary = Registry(RegistryAccess(double.url, "me", "geheim", ca_file=authority), SystemClock())
            with pytest.raises(RegistryRejected, match="self-signed certificate in certificate chain; check"):
                wary.by_id(schema_id)
        assert double.calls.total() == 1


# Registering


def test_a_schema_is_registered_once_and_keeps_its_id(double, registry):
    assert registry.registered("events-value", EVENT) is None
    schema_id = registry.register("events-value", EVENT)
    assert registry.register("events-value", EVENT) == schema_id == registry.registered("events-value", EVENT)
    assert json.loads(double.schemas[schema_id]["schema"]) == EVENT
    assert registry.registered("events-value", "long") is None


def test_a_schema_that_the_subject_refuses_is_said(double, registry):
    double.incompatible = {"events-value"}
    with pytest.raises(RegistryRejected, match="/subjects/events-value/versions with status 409: Schema being"):
        registry.register("events-value", EVENT)


def test_a_subject_has_a_level_of_its_own_once_it_is_set(double, registry):
    assert registry.compatibility("a/b c") is None
    registry.set_compatibility("a/b c", "FULL_TRANSITIVE")
    assert registry.compatibility("a/b c") == "FULL_TRANSITIVE"
    assert double.levels == {"a/b c": "FULL_TRANSITIVE"}


# Whatever a registry holds

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["long", "record", "enum"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["type", "name", "fields", "items", "symbols", "size", "default"]), inner)
    ),
    max_leaves=12,
)


def mutated(node, draw):
    """The schema with something else at one place in it."""
    if isinstance(node, dict) and node and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(node)))
        return node | {key: mutated(node[key], draw)}
    if isinstance(node, list) and node and draw(st.integers(0, 5)):
        index = draw(st.integers(0, len(node) - 1))
        return [*node[:index], mutated(node[index], draw), *node[index + 1 :]]
    return draw(JSON)


UNUSED = Registry(RegistryAccess("http://unused"), FixedClock())


@settings(max_examples=300, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.data())
def test_every_schema_is_a_writer_or_the_messages_fault(data):
    text = json.dumps(mutated(EVENT, data.draw))
    assert isinstance(UNUSED._writer({"schema": text}), (Writer, MessageError))
