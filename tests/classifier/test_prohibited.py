"""Which kinds the invariants rule out, fact by fact, whatever table decides."""

import pytest

from classifier.facts import BY_NAME, FACTS
from classifier.invariants import prohibited
from schemas.exits import KINDS

# With these facts, every kind but a refusal is allowed, so that what a further fact rules out can be seen.
OPEN = ("completion_claimed", "eligible_fallback_ready", "safe_partial")
LEAVES_A_PERSON = ["completed", "refusal", "fallback", "partial"]
LEAVES_A_REFUSAL = ["completed", "fallback", "partial", "human_queue"]
NO_COMPLETION = ["completed", "refusal"]
NO_PARTIAL = ["refusal", "partial"]
NEITHER = ["completed", "refusal", "partial"]

RULED_OUT_BY = {
    "standing_denial": LEAVES_A_REFUSAL,
    "fence_violation": LEAVES_A_PERSON,
    "ambiguous_effect": LEAVES_A_PERSON,
    "duplicate_effect": LEAVES_A_PERSON,
    "unapproved_effect": LEAVES_A_PERSON,
    "taken_over": LEAVES_A_PERSON,
    "child_run_open": LEAVES_A_PERSON,
    "contradiction": LEAVES_A_PERSON,
    "approval_needed": LEAVES_A_PERSON,
    "policy_unavailable": LEAVES_A_PERSON,
    "authority_missing": LEAVES_A_PERSON,
    "model_declined": LEAVES_A_PERSON,
    "unsupported_decision": LEAVES_A_PERSON,
    "ineligible_fallback_applied": LEAVES_A_PERSON,
    "fallback_applied": NO_COMPLETION,
    "omission_may_change_result": NEITHER,
    "required_omission": NO_COMPLETION,
    "nonterminal_stop": NO_COMPLETION,
    "empty_response": NO_COMPLETION,
    "truncated": NO_COMPLETION,
    "predicate_unsatisfied": NO_COMPLETION,
    "predicate_unverifiable": NO_COMPLETION,
    "confidence_below_floor": NEITHER,
    "confidence_declining": NEITHER,
    "result_confidence_low": NEITHER,
}


def _prohibited(*names: str) -> list[str]:
    return prohibited(sum(BY_NAME[name].bit for name in set(names)))


@pytest.mark.parametrize("fact", [fact.name for fact in FACTS if fact.name not in OPEN])
def test_what_one_fact_rules_out(fact):
    assert _prohibited(*OPEN, fact) == RULED_OUT_BY.get(fact, ["refusal"])


@pytest.mark.parametrize("fact", [fact.name for fact in FACTS])
def test_a_denial_leaves_a_refusal_beside_any_fact(fact):
    assert _prohibited(*OPEN, "standing_denial", fact) == LEAVES_A_REFUSAL


def test_without_any_fact_a_person_is_left():
    assert _prohibited() == LEAVES_A_PERSON


EXCUSED = {
    "an ambiguity that is protected": (("ambiguous_effect", "idempotency_protected"), NO_COMPLETION),
    "a model that declines what was allowed": (("model_declined", "request_allowed"), ["refusal"]),
    "low confidence beside a satisfied predicate": (("confidence_below_floor", "predicate_satisfied"), NO_PARTIAL),
    "falling confidence beside a satisfied predicate": (("confidence_declining", "predicate_satisfied"), NO_PARTIAL),
    "a veto beside a satisfied predicate": (("result_confidence_low", "predicate_satisfied"), NO_PARTIAL),
    "an empty response beside a satisfied predicate": (("empty_response", "predicate_satisfied"), ["refusal"]),
    "a cut output beside a satisfied predicate": (("truncated", "predicate_satisfied"), ["refusal"]),
}


@pytest.mark.parametrize(("facts", "kinds"), EXCUSED.values(), ids=EXCUSED)
def test_what_excuses(facts, kinds):
    assert _prohibited(*OPEN, *facts) == kinds


NOT_EXCUSED = ["nonterminal_stop", "required_omission", "fallback_applied", "omission_may_change_result"]


@pytest.mark.parametrize("fact", NOT_EXCUSED)
def test_a_satisfied_predicate_excuses_no_more(fact):
    assert "completed" in _prohibited(*OPEN, "predicate_satisfied", fact)


@pytest.mark.parametrize(
    ("missing", "kind"),
    [("completion_claimed", "completed"), ("eligible_fallback_ready", "fallback"), ("safe_partial", "partial")],
)
def test_what_each_good_exit_needs(missing, kind):
    assert _prohibited(*(name for name in OPEN if name != missing)) == [k for k in KINDS if k in ("refusal", kind)]


def test_an_applied_fallback_is_a_fallback_too():
    assert "fallback" not in _prohibited("eligible_fallback_applied")


def test_a_satisfied_predicate_needs_no_claim():
    assert "completed" not in _prohibited("predicate_satisfied")
