"""The benchmark's input is what it says: valid, unique, reproducible, and of the announced mix."""

import json
from collections import Counter
from datetime import timedelta
from io import BytesIO
from random import Random
from typing import Any

import fastavro
import pytest

from bench import generate
from bench.generate import DAYS, KINDS, SECRETS, SHARES, START, bodies, build, encode_long, write
from schemas.avro import avro_schema
from schemas.events import TerminalEvent
from schemas.types import to_micros

EVENTS = 3_000


def _container(events: int = EVENTS, seed: int = 1, codec: str = "null") -> bytes:
    out = BytesIO()
    write(out, bodies(events, seed, lambda _: None), codec, bytes(16))
    return out.getvalue()


def _read(data: bytes) -> list[dict[str, Any]]:
    return list(fastavro.reader(BytesIO(data)))


@pytest.fixture(scope="module")
def container() -> bytes:
    return _container()


@pytest.fixture(scope="module")
def events(container) -> list[dict[str, Any]]:
    return _read(container)


def test_every_event_is_a_valid_terminal_event(events):
    assert len(events) == EVENTS
    for event in events:
        known = TerminalEvent.model_validate(event).model_dump()
        assert known.keys() == event.keys()
        assert known["occurred_at"] == to_micros(event["occurred_at"])


def test_the_container_is_what_fastavro_writes_but_for_the_blocks(container, events):
    out = BytesIO()
    fastavro.writer(out, avro_schema(TerminalEvent), events, sync_marker=bytes(16), sync_interval=64 * 1024)
    blocks = [fastavro.block_reader(BytesIO(data)) for data in (container, out.getvalue())]
    ours, theirs = (b"".join(block.bytes_.getvalue() for block in reader) for reader in blocks)
    assert ours == theirs
    assert max(len(block.bytes_.getvalue()) for block in fastavro.block_reader(BytesIO(container))) < 80 * 1024


def test_identities_are_unique_and_of_their_usual_length(events):
    for name, length in (("event_id", 36), ("run_id", 16)):
        values = {event[name] for event in events}
        assert len(values) == EVENTS
        assert {len(value) for value in values} == {length}


def test_templates_repeat_under_new_identities_and_times(monkeypatch):
    monkeypatch.setattr(generate, "TEMPLATES", 5)
    first, *_, last = _read(_container(events=506))
    assert first["request"] == last["request"]
    assert first["event_id"] != last["event_id"]
    elapsed = last["occurred_at"] - first["occurred_at"]
    assert elapsed > timedelta(days=DAYS - 1)
    assert last["tool_calls"][0]["started_at"] - first["tool_calls"][0]["started_at"] == elapsed


def test_times_spread_over_the_days_and_nothing_starts_after_the_end(events):
    ends = [to_micros(event["occurred_at"]) for event in events]
    days = Counter((end - START) // (86_400 * 1_000_000) for end in ends)
    assert set(range(DAYS)) <= set(days)
    assert ends != sorted(ends)
    assert all(call["started_at"] <= event["occurred_at"] for event in events for call in event["tool_calls"])


def test_one_event_in_a_thousand_carries_a_key_and_its_arguments_stay_json(events):
    prefixes = tuple(prefix for prefix, _ in SECRETS)
    parsed = [json.loads(call["arguments"]) for event in events for call in event["tool_calls"]]
    keys = [item["headers"]["x-api-key"] for item in parsed if "headers" in item]
    assert len(keys) == EVENTS // 1_000
    assert all(key.startswith(prefixes) for key in keys)


def test_the_mix_is_the_announced_one(events):
    assert sum(SHARES) == 100
    denied = sum(any(d["effect"] == "deny" for d in event["policy_decisions"]) for event in events)
    served = sum(bool(event["fallbacks"]) for event in events)
    bounded = sum(bool(event["components"]) for event in events)
    shares = dict(zip((kind.__name__ for kind in KINDS), SHARES, strict=True))
    assert (denied, served, bounded) == pytest.approx(
        tuple(EVENTS * shares[name] / 100 for name in ("denied", "served", "partial")), rel=0.3
    )


def test_every_rare_ending_is_reached():
    rng, at = Random(1), lambda seconds: START - int(seconds * 1_000_000)
    made = [build(rng, 0, at) for _ in range(EVENTS)]
    assert any(event.get("takeover") for event in made)
    assert any(event.get("children") for event in made)
    assert any(event.get("contradictions") for event in made)
    assert {"refused", "truncated", "end"} <= {event["model"]["stop_class"] for event in made}


def test_an_event_takes_about_1300_bytes(container):
    assert len(container) / EVENTS == pytest.approx(1300, rel=0.1)


def test_a_seed_decides_every_byte():
    assert _container(200) == _container(200)
    assert _container(200) != _container(200, seed=2)


def test_the_header_holds_the_generated_schema_whatever_the_hash_seed(container):
    written = fastavro.reader(BytesIO(container)).metadata["avro.schema"]
    assert written == json.dumps(avro_schema(TerminalEvent))


@pytest.mark.parametrize("codec", ["deflate", "zstandard"])
def test_a_codec_changes_the_size_and_nothing_else(codec):
    plain, packed = _container(400), _container(400, codec=codec)
    assert len(packed) < len(plain) / 2
    assert _read(packed) == _read(plain)


def test_no_events_are_an_empty_container():
    assert _read(_container(0)) == []


@pytest.mark.parametrize("value", [0, 1, 63, 64, 2**31, START, 2**62])
def test_longs_are_encoded_as_fastavro_encodes_them(value):
    out = BytesIO()
    fastavro.schemaless_writer(out, "long", value)
    assert encode_long(value) == out.getvalue()
