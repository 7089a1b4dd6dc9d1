"""Explanations: the outcome first, then what is open; who owns an escalation, and that the agent must stop."""

import re
from random import Random
from typing import Any

import pytest

from tests.classifier.answers import answer, default_classifier
from tests.strategies import random_event, with_prose

DENY = {"policy_id": "refund_ceiling", "source": "application", "effect": "deny", "reason_code": "amount_over_limit"}
TRIED = {"attempted_action": {"tool": "issue_refund"}}
TWO_WAYS = {"alternatives": ["refund up to 50.00", "hand over to billing"]}

REFUSALS = {
    "the action, then the alternatives in their order": (
        DENY | TRIED | TWO_WAYS,
        "Denied by refund_ceiling: issue_refund. Open: refund up to 50.00; hand over to billing.",
    ),
    "the operation where no action is recorded": (
        DENY | {"operation_id": "op-1"} | TWO_WAYS,
        "Denied by refund_ceiling: op-1. Open: refund up to 50.00; hand over to billing.",
    ),
    "the whole request": (DENY | TWO_WAYS, "Denied by refund_ceiling. Open: refund up to 50.00; hand over to billing."),
    "the owner where there is no alternative": (
        DENY | TRIED | {"owner": "billing"},
        "Denied by refund_ceiling: issue_refund. Open: ask billing.",
    ),
    "alternatives before the owner": (
        DENY | {"owner": "billing", "alternatives": ["refund less"]},
        "Denied by refund_ceiling. Open: refund less.",
    ),
    "the policy's owner where none is named": (DENY, "Denied by refund_ceiling. Open: ask the owner of the policy."),
    "the reason where no policy is named": (
        DENY | {"policy_id": None},
        "Denied by amount_over_limit. Open: ask the owner of the policy.",
    ),
}


@pytest.mark.parametrize(("decision", "words"), REFUSALS.values(), ids=REFUSALS)
def test_words_of_a_refusal(decision, words):
    assert answer(policy_decisions=[decision])["envelope"]["explanation"] == words


def test_words_of_a_filtered_stop():
    words = answer(model={"stop_class": "filtered"})["envelope"]["explanation"]
    assert words == "Denied by content_filter. Open: ask the owner of the policy."


def test_words_of_an_escalation():
    calls = [{"operation_id": id_, "access": "write", "outcome": "timeout"} for id_ in ("op-2", "op-1")]
    assert answer(tool_calls=calls)["envelope"]["explanation"] == (
        "Escalated for ambiguous_side_effect: op-1, op-2. Open to operations on call in effects: "
        "reconcile, compensate, accept_effect, escalate. The agent must stop: no retry, no further action on this."
    )


def test_words_of_an_escalation_without_operations():
    words = answer()["envelope"]["explanation"]
    assert words.startswith("Escalated for insufficient_evidence. Open to reviewers in judgement: ")


def _explained(count: int) -> list[dict[str, Any]]:
    rng, classify = Random(31), default_classifier().classify
    events = [with_prose(random_event(rng), "PROSE") for _ in range(count)]
    envelopes = [classify(event).classification["envelope"] for event in events]
    return [envelope for envelope in envelopes if envelope and "explanation" in envelope]


def test_the_rules_hold_everywhere():
    explained = _explained(2_000)
    assert {envelope["kind"] for envelope in explained} == {"refusal", "human_queue"}
    for envelope in explained:
        words = envelope["explanation"]
        assert words.startswith("Denied by " if envelope["kind"] == "refusal" else "Escalated for ")
        assert " Open" in words
        assert "PROSE" not in words
        assert re.search(r"\b(you|your|user|abuse|suspicious|malicious|None)\b", words, re.IGNORECASE) is None, words


def test_an_escalation_says_who_owns_it_and_that_the_agent_must_stop():
    for envelope in _explained(2_000):
        if envelope["kind"] == "human_queue":
            assert envelope["reason_code"] in envelope["explanation"]
            assert envelope["owner"] in envelope["explanation"]
            assert envelope["queue"] in envelope["explanation"]
            assert "The agent must stop" in envelope["explanation"]
