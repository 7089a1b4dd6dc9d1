"""The specification answers the labelled cases, reaches every row, and agrees with the classifier everywhere."""

import ast
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings

from schemas.events import TerminalEvent
from tests.cases import load_cases
from tests.spec import spec
from tests.spec.fuzz import Guided, classifier, difference, disagreements, facts_of, policy_event, shown, shrink
from tests.spec.spec import KINDS, specify
from tests.strategies import OCCURRED_AT, events, random_event, shuffled

IDENTITY = {
    "type": "terminal_event",
    "version": 1,
    "event_id": "event-1",
    "run_id": "run-1",
    "tenant": "acme",
    "agent_id": "agent-1",
    "occurred_at": OCCURRED_AT,
}
DECIDE = classifier()


def event(**parts):
    return TerminalEvent.model_validate(IDENTITY | parts).model_dump()


def ago(seconds):
    return OCCURRED_AT - seconds * 1_000_000


def read(outcome, **more):
    return {"operation_id": "look", "access": "read", "outcome": outcome} | more


def write(outcome, **more):
    return {"operation_id": "pay", "access": "write", "outcome": outcome} | more


def ledger(status, **more):
    return {"operation_id": "pay", "status": status, "verified_by": "read_back"} | more


def rules(**more):
    return {
        "fallback_id": "rules",
        "version": "1",
        "source": "rules_engine",
        "ruleset_version": "12",
        "triggers": ["timeout"],
        "access": "read",
        "inputs_digest": "sha256:1f",
        "shares_failed_dependency": False,
        "uses_model_judgement": False,
        "preconditions_met": True,
    } | more


def decision(effect, **more):
    return {"policy_id": "limits", "source": "application", "effect": effect, "decided_at": ago(20)} | more


def granted(**more):
    return {"state": "granted", "approver": "person-1", "resolved_at": ago(15)} | more


DONE = {"claimed": True, "result": "satisfied"}
CLAIMED = {"claimed": True, "result": "not_evaluated"}
SAME_STEP = {"action_key": "sha1:aa"}
LEFT_OUT = {"name": "b", "state": "omitted", "can_change_result": "no"}
PARTS = [{"name": "a", "state": "completed"}, LEFT_OUT]

ROWS = {
    "blocking_denial": {"policy_decisions": [decision("deny")]},
    "fence_violation": {"fencing_token": 19, "tool_calls": [write("ok", fencing_token=18)]},
    "ambiguous_side_effect": {"tool_calls": [write("timeout")]},
    "duplicate_side_effect": {"side_effects": [ledger("confirmed", count=2)]},
    "unapproved_effect": {"policy_decisions": [decision("require_approval")], "tool_calls": [write("ok")]},
    "human_takeover": {"takeover": {"state": "FREEZING"}},
    "contradictory_evidence": {"contradictions": [{"subject": "total"}]},
    "approval_required": {"policy_decisions": [decision("require_approval")]},
    "policy_unavailable": {"policy_decisions": [decision("unavailable")]},
    "authority_missing": {"tool_calls": [read("error", status_code=403)]},
    "model_refusal_unverified": {"model": {"stop_class": "refused"}},
    "unsupported_decision": {"decision": {"asserted": True, "required_checks": ["match"]}},
    "completion_verified": {"completion": DONE},
    "ineligible_fallback_applied": {"tool_calls": [read("timeout")], "fallbacks": [rules(applied=True)]},
    "fallback": {"tool_calls": [read("timeout")], "fallbacks": [rules()]},
    "low_confidence": {"steps": [{"confidence_after": 0.59}]},
    "partial": {"components": PARTS},
    "omission_may_change_result": {"components": [{"name": "b", "state": "omitted", "can_change_result": "yes"}]},
    "budget_exhausted": {"budget": {"exhausted": ["turns"]}},
    "no_progress": {"steps": [SAME_STEP] * 3},
    "malformed_evidence": {"tool_calls": [read("malformed")]},
    "dependency_failed_no_fallback": {"tool_calls": [read("timeout")]},
    "model_declined_no_fallback": {"model": {"stop_class": "refused"}, "policy_decisions": [decision("allow")]},
    "nonterminal_stop": {"model": {"stop_class": "paused"}},
    "premature_completion": {"completion": {"claimed": True, "result": "unsatisfied"}},
    "completion_unverified": {"completion": CLAIMED},
    "insufficient_evidence": {},
}
"""The smallest event of each row, in the order of the table."""

DISPUTED = {
    "an allow that was denied its approval allowed nothing, though another policy's allow lifted that denial": (
        {
            "model": {"stop_class": "refused"},
            "policy_decisions": [
                decision("allow", operation_id="pay", approval={"state": "denied"}),
                decision("allow", operation_id="pay", source="guardrail", decided_at=ago(10)),
            ],
        },
        "model_refusal_unverified",
    ),
    "a grant does not cover a write without a start time": (
        {
            "policy_decisions": [decision("allow", operation_id="pay", approval=granted())],
            "tool_calls": [write("ok")],
            "completion": DONE,
        },
        "unapproved_effect",
    ),
    "a denial is not lifted by the approval it carries": (
        {"policy_decisions": [decision("deny", operation_id="pay", approval=granted())], "completion": DONE},
        "blocking_denial",
    ),
    "what was turned away is not ambiguous, whatever else it says": (
        {"tool_calls": [write("denied", effect_possible=True)], "completion": DONE},
        "completion_verified",
    ),
    "a lookup that answered says nothing about the write of its operation": (
        {"tool_calls": [write("ok", access="read"), write("error", status_code=403)], "completion": DONE},
        "authority_missing",
    ),
    "a freeze is answered by the lookup that was all there was": (
        {
            "tool_calls": [write("ok", access="read")],
            "takeover": {"state": "RUNNING", "acks": [{"operation_id": "pay", "ack": "accepted"}]},
            "completion": DONE,
        },
        "completion_verified",
    ),
    "an agent lifts no denial": (
        {
            "policy_decisions": [
                decision("deny", operation_id="pay"),
                decision(
                    "allow",
                    operation_id="pay",
                    policy_id="other",
                    source="approver",
                    decided_at=ago(10),
                    approval=granted(approver="agent-1"),
                ),
            ],
            "completion": DONE,
        },
        "blocking_denial",
    ),
    "an optional read that fails takes no authority from the write beside it": (
        {
            "tool_calls": [write("ok"), write("error", access="read", required=False, status_code=401)],
            "completion": DONE,
        },
        "completion_verified",
    ),
    "an optional read that fails triggers no ready fallback": (
        {
            "tool_calls": [write("ok"), write("timeout", access="read", required=False)],
            "fallbacks": [rules()],
        },
        "insufficient_evidence",
    ),
    "a confirmation can only speak of the attempt that may have acted": (
        {
            "tool_calls": [write("timeout"), write("timeout", effect_possible=False)],
            "side_effects": [ledger("confirmed")],
            "completion": DONE,
        },
        "completion_verified",
    ),
    "a confirmation beside two attempts without keys settles neither": (
        {
            "tool_calls": [write("timeout"), write("timeout")],
            "side_effects": [ledger("confirmed")],
            "completion": DONE,
        },
        "ambiguous_side_effect",
    ),
    "an approver who allows the whole request has not approved the operation": (
        {
            "policy_decisions": [
                decision("require_approval", operation_id="pay"),
                decision("allow", policy_id="other", source="approver", decided_at=ago(10)),
            ]
        },
        "approval_required",
    ),
    "a permission status on what is confirmed is a contradiction": (
        {"tool_calls": [write("ok", status_code=401)], "side_effects": [ledger("confirmed")], "completion": DONE},
        "contradictory_evidence",
    ),
    "an open call is open, whatever an earlier attempt returned": (
        {
            "model": {"stop_class": "tool_call"},
            "tool_calls": [read("ok", attempt=1), read("not_executed", attempt=2, required=False)],
            "completion": DONE,
        },
        "nonterminal_stop",
    ),
    "a grant in a later decision is an approver's": (
        {
            "policy_decisions": [
                decision("require_approval", approval={"state": "dismissed"}),
                decision("allow", decided_at=ago(10), approval=granted(resolved_at=ago(10))),
            ]
        },
        "approval_required",
    ),
    "a grant covers every attempt that may have acted": (
        {
            "policy_decisions": [decision("allow", operation_id="pay", approval=granted(expires_at=ago(5)))],
            "tool_calls": [
                write("timeout", idempotency_key="k", started_at=ago(10)),
                write("timeout", idempotency_key="k", started_at=ago(1)),
            ],
            "fallbacks": [rules(source="idempotent_retry", operation_id="pay")],
        },
        "approval_required",
    ),
    "a check that is done and not done supports nothing": (
        {
            "components": [{"name": "a", "state": "completed"}, {"name": "a", "state": "omitted"}],
            "decision": {"asserted": True, "required_checks": ["a"]},
        },
        "unsupported_decision",
    ),
}
"""What specification and classifier once read differently: the smallest event, and the row that the text asks for."""


def cached(**more):
    return (
        rules(source="cached", ruleset_version=None, reference_data_version="7", observed_at=ago(60), max_age_s=61)
        | more
    )


LIFTED_FILTER = [
    decision("deny", source="provider_filter", reason_code="content_filter"),
    decision("allow", source="provider_filter", decided_at=ago(10)),
]
FINER = {
    "an applied fallback must be younger than its limit": ({"fallbacks": [cached()]}, "fallback"),
    "exactly as old is too old": ({"fallbacks": [cached(max_age_s=60)]}, "dependency_failed_no_fallback"),
    "observed in the future is not fresh": (
        {"fallbacks": [cached(observed_at=ago(-1))]},
        "dependency_failed_no_fallback",
    ),
    "a cache says when it was observed": ({"fallbacks": [cached(observed_at=None)]}, "dependency_failed_no_fallback"),
    "a cache says how long it is good": ({"fallbacks": [cached(max_age_s=None)]}, "dependency_failed_no_fallback"),
    "a fall by exactly 0.2 is none": (
        {"steps": [{"confidence_after": value} for value in (0.9, 0.9, 0.7)], "tool_calls": [], "completion": CLAIMED},
        "completion_unverified",
    ),
    "a fall by more than 0.2 is one": (
        {"steps": [{"confidence_after": value} for value in (0.9, 0.92, 0.7)], "completion": CLAIMED},
        "low_confidence",
    ),
    "a later start is a later attempt": (
        {
            "tool_calls": [read("ok", started_at=ago(10)), read("timeout", started_at=ago(20))],
            "completion": CLAIMED,
        },
        "completion_unverified",
    ),
    "text left over from a filtered turn is no partial result": (
        {
            "model": {"stop_class": "filtered"},
            "policy_decisions": LIFTED_FILTER,
            "components": PARTS,
            "tool_calls": [],
        },
        "insufficient_evidence",
    ),
    "another policy's allow of what was denied is no other way": (
        {
            "policy_decisions": [
                decision("deny", operation_id="look"),
                decision("allow", operation_id="look", policy_id="other", decided_at=ago(10)),
            ],
            "tool_calls": [read("ok")],
            "completion": DONE,
        },
        "blocking_denial",
    ),
    "an approval denied and then allowed is not asked for again": (
        {
            "policy_decisions": [
                decision("require_approval", operation_id="pay", approval={"state": "denied", "resolved_at": ago(15)}),
                decision("allow", operation_id="pay", decided_at=ago(10)),
            ],
            "completion": DONE,
            "tool_calls": [],
        },
        "completion_verified",
    ),
    "an unavailable decision is superseded by a later requirement": (
        {
            "policy_decisions": [
                decision("unavailable"),
                decision("require_approval", decided_at=ago(10), approval=granted(resolved_at=ago(5))),
            ],
            "completion": DONE,
            "tool_calls": [],
        },
        "completion_verified",
    ),
}
"""Points that random events seldom tell apart; the tool call is a read that timed out unless there is another."""


@pytest.mark.parametrize("case", load_cases(), ids=lambda case: case.id)
def test_labelled_case(case):
    answer = specify(case.event)
    assert answer.kind == case.kind, answer
    assert case.reason in (None, answer.reason_code)
    assert case.verified is (answer.rule_id == "completion_verified")
    assert case.obligations <= {action for action, _ in answer.obligations}
    assert case.prohibited <= set(answer.prohibited)


@pytest.mark.parametrize("row", ROWS)
def test_every_row_is_reached(row):
    smallest = event(**ROWS[row])
    assert specify(smallest).rule_id == row
    assert difference(smallest, DECIDE) == ()


@pytest.mark.parametrize("reading", DISPUTED)
def test_disputed_reading(reading):
    parts, row = DISPUTED[reading]
    assert specify(event(**parts)).rule_id == row
    assert difference(event(**parts), DECIDE) == ()


@pytest.mark.parametrize("point", FINER)
def test_finer_point(point):
    parts, row = FINER[point]
    small = event(**{"tool_calls": [read("timeout")]} | parts)
    assert specify(small).rule_id == row
    assert difference(small, DECIDE) == ()


@pytest.mark.parametrize("outcome", ["not_executed", "circuit_open", "denied", "unknown", None])
def test_open_tool_call_is_no_end(outcome):
    small = event(model={"stop_class": "tool_call"}, tool_calls=[read(outcome, required=False)], completion=DONE)
    assert specify(small).rule_id == "nonterminal_stop"
    assert difference(small, DECIDE) == ()


@pytest.mark.parametrize("generate", [random_event, policy_event])
def test_classifier_agrees_on_random_events(generate):
    found = disagreements(5_000, 7, DECIDE, Guided(generate, facts_of))
    assert [(shown(small), difference(small, DECIDE)) for small in found] == []


@pytest.mark.parametrize("generate", [random_event, policy_event])
def test_guided_events_reach_more_sets_of_facts(generate):
    guided, rng = Guided(generate, facts_of), Random(7)
    for _ in range(10_000):
        guided(rng)
    rng = Random(7)
    assert len(guided.reached) > 1.1 * len({facts_of(generate(rng)) for _ in range(10_000)})


def test_guided_events_are_those_of_the_contract_and_the_same_for_a_seed():
    again = []
    for _ in range(2):
        guided, rng = Guided(random_event, facts_of), Random(3)
        again.append([guided(rng) for _ in range(300)])
    assert again[0] == again[1]
    assert all(TerminalEvent.model_validate(each).model_dump() == each for each in again[0])


@settings(derandomize=True, deadline=None, max_examples=300)
@given(events())
def test_classifier_agrees_on_generated_events(generated):
    assert difference(generated, DECIDE) == ()


def test_random_events_reach_every_kind_and_row():
    rng = Random(7)
    answers = [specify(random_event(rng)) for _ in range(5_000)]
    assert {answer.kind for answer in answers} == set(KINDS)
    assert {answer.rule_id for answer in answers} == set(ROWS)
    assert all(answer.kind not in answer.prohibited for answer in answers)


def test_order_of_independent_lists_says_nothing():
    rng = Random(8)
    for _ in range(1_000):
        original = random_event(rng)
        assert specify(shuffled(original, rng)) == specify(original)


def test_specification_shares_nothing_with_the_classifier():
    tree = ast.parse(Path(spec.__file__).read_text(encoding="utf-8"))
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names


def test_fuzzer_notices_and_shrinks_a_disagreement():
    def blind(given_event):
        return DECIDE(given_event | {"contradictions": []})

    big = event(**ROWS["no_progress"], completion=CLAIMED, contradictions=[{"subject": "a"}, {"subject": "b"}])
    small = shrink(big, lambda other: bool(difference(other, blind)))
    assert shown(small) == '{"contradictions": [{}]}'
    assert [line.partition(":")[0] for line in difference(small, blind)] == ["rule_id", "reason_code"]
