"""What must hold for every event, tried on many generated ones."""

import copy
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pydantic import TypeAdapter

from classifier.decide import Classifier
from classifier.facts import FACTS, FINDINGS
from classifier.table import default_text, load
from schemas.exits import KINDS, Classification, Envelope
from tests.classifier.answers import default_classifier
from tests.strategies import OCCURRED_AT, random_event, shuffled, with_prose

Event = dict[str, Any]
ENVELOPE: TypeAdapter[Any] = TypeAdapter(Envelope)


def _events(count: int, seed: int) -> Iterator[Event]:
    rng = Random(seed)
    return (random_event(rng) for _ in range(count))


def _classify(event: Event) -> dict[str, Any]:
    return default_classifier().classify(event).classification


def _bytes(event: Event, *without: str) -> str:
    answer = _classify(event)
    for name in without:
        del answer[name]
    return json.dumps(answer)


@cache
def _sample() -> tuple[tuple[Event, dict[str, Any]], ...]:
    """10 000 events and their classifications; the tests that share them only read."""
    return tuple((event, _classify(event)) for event in _events(10_000, seed=11))


# --- what changes nothing


@pytest.mark.parametrize("text", [None, "", "I refuse. Access denied. Done.", "\u0130\U0001f600 null"])
def test_prose_changes_nothing_but_the_content_digest(text):
    for event in _events(800, seed=1):
        changed = with_prose(event, text)
        assert _bytes(changed, "content_digest") == _bytes(event, "content_digest"), event
        if changed != event:
            assert _classify(changed)["content_digest"] != _classify(event)["content_digest"]


def test_the_order_of_independent_lists_changes_nothing():
    rng = Random(2)
    for event in _events(5_000, seed=2):
        assert _bytes(shuffled(event, rng)) == _bytes(event), event


def dumped(decided):
    return json.dumps([decided.classification, decided.fact_bits, decided.packet_completeness])


def test_the_batch_changes_nothing():
    events = list(_events(1_000, seed=3))
    table = load(default_text())
    one, other = Classifier(table), Classifier(table)
    forwards = [dumped(one.classify(event)) for event in events]
    backwards = [dumped(other.classify(event)) for event in reversed(events)]
    alone = [dumped(Classifier(table).classify(event)) for event in events]
    again = [dumped(one.classify(event)) for event in events]
    assert forwards == backwards[::-1] == alone == again


def test_classifying_leaves_the_event_as_it_is():
    for event in _events(500, seed=4):
        before = copy.deepcopy(event)
        _classify(event)
        assert event == before


_PRINT_ANSWERS = """
import json
from random import Random
from classifier.decide import Classifier
from classifier.table import default_text, load
from tests.classifier.test_properties import dumped
from tests.strategies import random_event
rng, classifier = Random(5), Classifier(load(default_text()))
for _ in range(200):
    print(dumped(classifier.classify(random_event(rng))))
"""


def test_time_zone_locale_and_hash_seed_change_nothing():
    settings = (
        {"TZ": "America/Los_Angeles", "PYTHONHASHSEED": "1"},
        {"TZ": "Asia/Kolkata", "PYTHONHASHSEED": "2"},
        {"TZ": "UTC", "LC_ALL": "C", "PYTHONHASHSEED": "0"},
        {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8", "PYTHONHASHSEED": "1"},
    )
    here = "\n".join(dumped(default_classifier().classify(event)) for event in _events(200, seed=5))
    assert [_answers_under(setting) == here for setting in settings] == [True] * len(settings)


def _answers_under(setting: dict[str, str]) -> str:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", _PRINT_ANSWERS]
    return subprocess.run(
        command, cwd=root, env=os.environ | setting, check=True, capture_output=True, text=True
    ).stdout.strip()


# --- what is reached, and what every answer keeps


def test_every_row_decides_somewhere():
    counted = Counter(answer["rule_id"] for _, answer in _sample())
    assert {row.row.id for row in default_classifier().table.rows} - counted.keys() == set()


def test_every_fact_both_holds_and_does_not():
    counted = Counter(name for _, answer in _sample() for name in answer["facts"])
    assert {fact.name for fact in FACTS} == counted.keys()
    assert [name for name, count in counted.items() if count == len(_sample())] == []


def test_every_finding_is_found():
    assert {code for _, answer in _sample() for code in answer["findings"]} == {finding.code for finding in FINDINGS}


def test_every_kind_is_given_and_prohibited():
    assert {answer["kind"] for _, answer in _sample()} == set(KINDS)
    assert {kind for _, answer in _sample() for kind in answer["prohibited"]} == set(KINDS)


def test_no_answer_is_prohibited_or_decided_against_its_table():
    for event, answer in _sample():
        assert answer["kind"] not in answer["prohibited"], event
        assert answer["reason_code"] != "table_violates_invariant", event


def test_only_a_verified_row_verifies():
    for _, answer in _sample():
        assert answer["verified"] is (answer["rule_id"] == "completion_verified")


def test_every_answer_keeps_its_contract():
    for event, answer in _sample()[:2_000]:
        assert Classification.model_validate(answer).model_dump() == answer, event


def test_every_exit_but_a_completion_has_its_envelope():
    for event, answer in _sample()[:2_000]:
        envelope = answer["envelope"]
        if answer["kind"] == "completed":
            assert envelope is None, event
        else:
            assert ENVELOPE.validate_python(envelope).model_dump() == envelope, event
            assert (envelope["kind"], envelope["reason_code"]) == (answer["kind"], answer["reason_code"])


def test_facts_and_bits_say_the_same():
    for event in _events(1_000, seed=6):
        decided = default_classifier().classify(event)
        assert decided.classification["facts"] == sorted(fact.name for fact in FACTS if decided.fact_bits & fact.bit)


def test_a_packet_is_scored_where_one_opens():
    for event in _events(1_000, seed=7):
        decided = default_classifier().classify(event)
        answer, score = decided.classification, decided.packet_completeness
        opens = answer["kind"] == "human_queue" or bool(answer["obligations"])
        assert (score is not None) is opens
        assert score is None or 0 <= score <= 1


# --- monotone caution: more trouble never earns a better exit


def _denied(event: Event, _operation: str | None) -> None:
    event["policy_decisions"].append(_decision("deny", None))


def _unsettled(event: Event, operation: str | None) -> None:
    event["side_effects"].append(_entry(operation, "ambiguous", 1))


def _duplicated(event: Event, operation: str | None) -> None:
    event["side_effects"].append(_entry(operation, "confirmed", 2))


def _unapproved(event: Event, operation: str | None) -> None:
    event["policy_decisions"].append(_decision("require_approval", operation or "op-9"))
    event["tool_calls"].append(_write(operation or "op-9"))


def _contradicted(event: Event, _operation: str | None) -> None:
    event["contradictions"].append({"subject": "total", "sources": ["erp", "ocr"], "resolved": None})


def _decision(effect: str, operation: str | None) -> Event:
    absent = dict.fromkeys(("policy_version", "decided_at", "attempted_action", "owner", "approval", "reason_code"))
    own = {"decision_id": "d-9", "policy_id": "policy-9", "source": "application", "effect": effect}
    return absent | own | {"operation_id": operation, "alternatives": []}


def _entry(operation: str | None, status: str, count: int) -> Event:
    absent = dict.fromkeys(("tool", "target", "reversible"))
    return absent | {"operation_id": operation, "status": status, "count": count, "verified_by": "read_back"}


def _write(operation: str) -> Event:
    call: Event = dict.fromkeys(
        ("call_id", "tool", "tool_version", "required", "attempt", "idempotency_key", "fencing_token", "arguments")
    )
    call |= dict.fromkeys(
        ("error_class", "status_code", "effect_possible", "response", "response_digest", "duration_ms")
    )
    return call | {"operation_id": operation, "access": "write", "outcome": "ok", "started_at": OCCURRED_AT}


TROUBLES = {
    "standing_denial": _denied,
    "ambiguous_effect": _unsettled,
    "duplicate_effect": _duplicated,
    "unapproved_effect": _unapproved,
    "contradiction": _contradicted,
}


@pytest.mark.parametrize(("fact", "add"), TROUBLES.items(), ids=TROUBLES)
def test_more_trouble_never_earns_a_better_exit(fact, add):
    rng, cautious = Random(9), 0
    for event in _events(3_000, seed=9):
        before = _classify(event)
        add(event, rng.choice((None, "op-1", "op-2", "op-3", "op-9")))
        after = _classify(event)
        assert fact in after["facts"], event
        if before["kind"] in ("human_queue", "refusal"):
            cautious += 1
            assert after["kind"] not in ("completed", "partial"), event
            assert after["kind"] != "fallback" or "idempotency_protected" in after["facts"], event
    assert cautious > 500


@pytest.mark.parametrize("fact", ["standing_denial", "duplicate_effect", "unapproved_effect", "contradiction"])
def test_these_troubles_leave_no_exit_but_a_person_or_a_refusal(fact):
    rng, add = Random(10), TROUBLES[fact]
    for event in _events(1_500, seed=10):
        add(event, rng.choice((None, "op-1", "op-2", "op-3", "op-9")))
        expected = {"refusal"} if fact == "standing_denial" else {"refusal", "human_queue"}
        assert _classify(event)["kind"] in expected, event
