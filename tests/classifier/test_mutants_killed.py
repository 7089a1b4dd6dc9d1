"""Right answers that nothing stated until a mutant of the classifier or of its table survived without them."""

# ruff: noqa: E501, FBT003  (one case a line: a sentence, what it expects, the evidence)
from typing import Any

import pytest

from classifier.condition import ConditionError, parse
from classifier.decide import Classifier
from classifier.facts import FACTS, FINDINGS
from classifier.invariants import RULES
from classifier.table import default_text, load
from schemas.canonical import digests
from schemas.exits import Classification
from tests.classifier.answers import answer, at, decided, default_classifier, event, exit_of, facts

Event = dict[str, Any]


def _row(sentence: str, *expected: Any, **parts: Any) -> Any:
    return pytest.param(*expected, parts, id=sentence)


# --- what is stored keeps its meaning

# Bits of stored exits by position; a position is never given to another fact.
POSITIONS = [
    "standing_denial",
    "fence_violation",
    "ambiguous_effect",
    "idempotency_protected",
    "duplicate_effect",
    "unapproved_effect",
    "taken_over",
    "child_run_open",
    "contradiction",
    "approval_needed",
    "policy_unavailable",
    "authority_missing",
    "model_declined",
    "request_allowed",
    "unsupported_decision",
    "predicate_satisfied",
    "predicate_unsatisfied",
    "predicate_unverifiable",
    "completion_claimed",
    "omission",
    "omission_may_change_result",
    "required_omission",
    "safe_partial",
    "fallback_applied",
    "ineligible_fallback_applied",
    "eligible_fallback_applied",
    "eligible_fallback_ready",
    "required_path_failed",
    "dependency_failed",
    "confidence_below_floor",
    "confidence_declining",
    "budget_exhausted",
    "no_progress",
    "malformed_observation",
    "nonterminal_stop",
    "truncated",
    "result_confidence_low",
    "empty_response",
    "stopped_normally",
    "-",
    "write_attempted",
    "effect_took_place",
]
CODES = {
    "budget_used_up",
    "fallback_result_unsatisfied",
    "fallback_result_verified",
    "idempotency_key_changed",
    "post_denial_activity",
    "silent_fallback",
    "stale_write_rejected",
    "unverified_ledger_entry",
}


def test_a_stored_bit_keeps_its_fact():
    assert {fact.name: fact.bit for fact in FACTS} == {
        name: 1 << place for place, name in enumerate(POSITIONS) if name != "-"
    }


def test_every_finding_is_listed():
    assert {finding.code for finding in FINDINGS} == CODES


# --- effects


def _write(outcome: str | None, **more: Any) -> Event:
    return {"operation_id": "op-1", "tool": "pay", "access": "write", "outcome": outcome, "started_at": at(-60)} | more


def _entry(status: str | None, **more: Any) -> Event:
    return {"operation_id": "op-1", "tool": "pay", "status": status, "verified_by": "status_lookup"} | more


@pytest.mark.parametrize("name", ["PERMISSION_DENIED", "Permission-Denied", "permission denied", "PermissionDenied"])
def test_a_permission_status_is_proof_however_it_is_spelled(name):
    assert "ambiguous_effect" not in facts(tool_calls=[_write("error", error_class=name)])


NAMELESS = [
    _row("of another tool it is none of this operation", False, tool_calls=[_write("timeout", idempotency_key="k-1"), _write("ok", operation_id=None, tool="mail")], side_effects=[_entry("confirmed")]),
    _row("of the same tool it may be", True, tool_calls=[_write("timeout", idempotency_key="k-1"), _write("ok", operation_id=None, tool="pay")], side_effects=[_entry("confirmed")]),
    _row("of a tool that nobody names it may be", True, tool_calls=[_write("timeout", idempotency_key="k-1"), _write("ok", operation_id=None, tool=None)], side_effects=[_entry("confirmed")]),
    _row("one that names another operation is not", False, tool_calls=[_write("timeout", idempotency_key="k-1"), _write("ok", operation_id="op-2", tool="pay")], side_effects=[_entry("confirmed")]),
    _row("nor is one that had no effect", False, tool_calls=[_write("timeout", idempotency_key="k-1"), _write("denied", operation_id=None)], side_effects=[_entry("confirmed")]),
    _row("the tool may be the ledger's", True, tool_calls=[_write("timeout", tool=None, idempotency_key="k-1"), _write("ok", operation_id=None, tool="pay")], side_effects=[_entry("confirmed")]),
]  # fmt: skip


@pytest.mark.parametrize(("ambiguous", "parts"), NAMELESS)
def test_a_write_without_an_operation_beside_a_confirmation(ambiguous, parts):
    assert ("ambiguous_effect" in facts(**parts)) is ambiguous


KEPT = [
    _row("a read", set(), tool_calls=[_write("ok", access="read")]),
    _row("a write that was turned away", {"write_attempted"}, tool_calls=[_write("denied")]),
    _row("a write that returned ok", {"write_attempted", "effect_took_place"}, tool_calls=[_write("ok")]),
    _row("an effect that only the ledger knows", {"effect_took_place"}, side_effects=[_entry("confirmed")]),
    _row("an effect of a count that nobody can mean", {"effect_took_place"}, side_effects=[_entry("confirmed", count=-1)]),
    _row("one that the ledger says never began", set(), side_effects=[_entry("not_started")]),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "parts"), KEPT)
def test_what_is_kept_of_writes_and_effects(expected, parts):
    assert facts(**parts) & {"write_attempted", "effect_took_place"} == expected


REJECTED = [
    _row("a stale write that was turned away, beside one that was not stale", True, fencing_token=7, tool_calls=[_write("denied", fencing_token=6), _write("ok", fencing_token=7, attempt=2)]),
    _row("a write of the newest token that was turned away is not stale", False, fencing_token=7, tool_calls=[_write("denied", fencing_token=7)]),
    _row("nor is one without a token", False, fencing_token=7, tool_calls=[_write("denied")]),
    _row("a stale write that took effect was not turned away", False, fencing_token=7, tool_calls=[_write("ok", fencing_token=6)]),
]  # fmt: skip


@pytest.mark.parametrize(("rejected", "parts"), REJECTED)
def test_a_stale_write_that_was_rejected(rejected, parts):
    assert ("stale_write_rejected" in answer(**parts)["findings"]) is rejected


def test_a_side_effect_is_named_by_the_first_of_several_tools():
    given = answer(tool_calls=[_write("timeout", tool="transfer"), _write("timeout", tool="pay", attempt=2)])
    assert given["envelope"]["side_effects"] == [{"operation_id": "op-1", "tool": "pay", "status": "ambiguous"}]


UNVERIFIED = [
    _row("a confirmation that nothing established", True, side_effects=[_entry("confirmed", verified_by="none")]),
    _row("a compensation that nothing established", True, side_effects=[_entry("compensated", verified_by=None)]),
    _row("one beside an entry that was established", True, side_effects=[_entry("confirmed", verified_by=None), _entry("not_started")]),
    _row("an ok attempt established it", False, tool_calls=[_write("ok")], side_effects=[_entry("confirmed", verified_by=None)]),
    _row("nothing is stated of what is ambiguous", False, side_effects=[_entry("ambiguous", verified_by=None)]),
]  # fmt: skip


@pytest.mark.parametrize(("found", "parts"), UNVERIFIED)
def test_a_ledger_entry_without_proof(found, parts):
    assert ("unverified_ledger_entry" in answer(**parts)["findings"]) is found


# --- policy


def _decision(effect: str, when: float | None, operation: str | None = None, **more: Any) -> Event:
    own = {"decision_id": "d-1", "policy_id": "limits", "source": "application", "operation_id": operation}
    return own | {"effect": effect, "decided_at": None if when is None else at(when)} | more


DENIED_EFFECTS = [
    _row("the operation was denied", set(), policy_decisions=[_decision("deny", -90, "op-1")]),
    _row("the request was denied", set(), policy_decisions=[_decision("deny", -90)]),
    _row("one of two denials is of the operation", set(), policy_decisions=[_decision("deny", -90, "op-1"), _decision("deny", -90, "op-2")]),
    _row("another operation was denied", {"contradiction"}, policy_decisions=[_decision("deny", -90, "op-2")]),
    _row("nothing was denied", {"contradiction"}),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "parts"), DENIED_EFFECTS)
def test_a_confirmed_effect_that_was_turned_away_contradicts_unless_denied(expected, parts):
    evidence = {"tool_calls": [_write("denied")], "side_effects": [_entry("confirmed")]}
    assert facts(**evidence, **parts) & {"contradiction"} == expected


@pytest.mark.parametrize("outcome", ["not_executed", "denied", "circuit_open"])
def test_a_call_that_was_not_executed_is_no_activity_after_a_denial(outcome):
    denied = [_decision("deny", -90)]
    assert answer(policy_decisions=denied, tool_calls=[_write(outcome)])["findings"] == []
    assert answer(policy_decisions=denied, tool_calls=[_write("ok")])["findings"] == ["post_denial_activity"]


def test_a_decisions_own_reason_comes_before_that_of_its_approval():
    denied = {"state": "denied", "approver": "person-1", "resolved_at": at(-90)}
    decisions = [_decision("deny", -90, reason_code="z_limit", approval=denied)]
    assert exit_of(policy_decisions=decisions) == ("refusal", "z_limit")


def _granted(**more: Any) -> Event:
    return {"state": "granted", "approver": "person-1"} | more


OWN_GRANTS = [
    _row("an approver's undated grant is as old as the decision", set(), policy_decisions=[_decision("allow", -70, "op-1", source="approver", approval=_granted())]),
    _row("a dated one is as old as it says", {"unapproved_effect"}, policy_decisions=[_decision("allow", -70, "op-1", source="approver", approval=_granted(resolved_at=at(-50)))]),
    _row("nobody else's undated grant has a date", {"unapproved_effect"}, policy_decisions=[_decision("allow", -70, "op-1", approval=_granted())]),
    _row("nor has one of a decision that does not allow", {"unapproved_effect"}, policy_decisions=[_decision("require_approval", -70, "op-1", source="approver", approval=_granted())]),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "parts"), OWN_GRANTS)
def test_since_when_a_decision_grants_its_own_approval(expected, parts):
    assert facts(tool_calls=[_write("ok")], **parts) & {"unapproved_effect"} == expected


EXPIRY = [
    _row("an approver's allow that had expired grants nothing", {"unapproved_effect"}, expires_at=at(-60)),
    _row("one that had not expired does", set(), expires_at=at(-59)),
    _row("one that does not expire does", set(), expires_at=None),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "approval"), EXPIRY)
def test_how_long_an_approvers_allow_grants(expected, approval):
    allow = _decision("allow", -80, "op-1", source="approver", approval=approval)
    found = facts(tool_calls=[_write("ok")], policy_decisions=[_decision("require_approval", -90, "op-1"), allow])
    assert found & {"unapproved_effect"} == expected


def test_a_later_requirement_supersedes_an_unavailable_decision_whoever_states_it():
    later = _decision("require_approval", -80, "op-1", source="unknown")
    assert "policy_unavailable" not in facts(policy_decisions=[_decision("unavailable", -90, "op-1"), later])


def test_a_requirement_allows_nothing_though_its_approval_is_granted():
    asked = _decision("require_approval", -90, "op-1", approval=_granted(resolved_at=at(-80)))
    assert "request_allowed" not in facts(policy_decisions=[asked])


ACTIVITY = [
    _row("after the first of two denials", True, [-90, -30], [-60]),
    _row("one of two calls", True, [-90], [-95, -60]),
    _row("at the instant of the denial is not after it", False, [-60], [-60]),
    _row("before it", False, [-30], [-60]),
]  # fmt: skip


@pytest.mark.parametrize(("found", "denied", "called", "parts"), ACTIVITY)
def test_activity_after_a_denial(found, denied, called, parts):
    decisions = [_decision("deny", when, f"op-{when}") for when in denied]
    calls = [_write("ok", operation_id=None, access="read", started_at=at(when)) for when in called]
    assert ("post_denial_activity" in answer(policy_decisions=decisions, tool_calls=calls)["findings"]) is found


# --- paths


@pytest.mark.parametrize("name", [
    "AuthenticationError", "PermissionError", "Unauthorized", "ForbiddenException", "AccessDeniedException",
    "access-denied", "INVALID_API_KEY", "invalid api key", "UNAUTHENTICATED", "PERMISSION_DENIED",
    "UnauthenticatedError", "PermissionDeniedError",
])  # fmt: skip
def test_an_error_that_says_that_authority_is_missing(name):
    assert "authority_missing" in facts(tool_calls=[_write("error", access="read", error_class=name)])


def test_attempts_of_which_some_are_unnumbered_follow_their_start():
    calls = [
        _write("error", access="read", attempt=2, started_at=at(-60)),
        _write("ok", access="read", started_at=at(-30)),
    ]
    assert "required_path_failed" not in facts(tool_calls=calls)
    assert "required_path_failed" in facts(tool_calls=[call | {"started_at": None} for call in calls])


# --- fallbacks and components


def _fallback(**more: Any) -> Event:
    own = {"fallback_id": "f-1", "version": "1", "source": "default", "triggers": ["timeout"], "access": "read"}
    own |= {"inputs_digest": "sha256:1f", "shares_failed_dependency": False, "uses_model_judgement": False}
    return own | {"preconditions_met": True, "applied": False, "disclosed": True} | more


READ_TIMED_OUT = [_write("timeout", access="read")]


def test_an_applied_fallback_is_not_ready():
    found = facts(tool_calls=READ_TIMED_OUT, fallbacks=[_fallback(applied=True)])
    assert found & {"eligible_fallback_applied", "eligible_fallback_ready"} == {"eligible_fallback_applied"}


def test_a_fallback_without_an_id_comes_before_those_with_one():
    given = answer(tool_calls=READ_TIMED_OUT, fallbacks=[_fallback(), _fallback(fallback_id=None, result_ref="r-0")])
    assert (given["envelope"]["fallback_id"], given["envelope"]["result_ref"]) == (None, "r-0")


def test_what_is_settled_is_not_protected():
    keyed = _write("ok", idempotency_key="k-1")
    retry = _fallback(source="idempotent_retry", access="write", operation_id="op-1")
    assert "idempotency_protected" not in facts(tool_calls=[keyed], fallbacks=[retry])
    assert "idempotency_protected" in facts(tool_calls=[keyed | {"outcome": "timeout"}], fallbacks=[retry])


SILENT = [
    _row("one of two was served without a word", True, fallbacks=[_fallback(applied=True), _fallback(applied=True, disclosed=None)]),
    _row("one that was not served", False, fallbacks=[_fallback(disclosed=False)]),
    _row("one that was disclosed", False, fallbacks=[_fallback(applied=True)]),
]  # fmt: skip


@pytest.mark.parametrize(("found", "parts"), SILENT)
def test_a_silent_fallback(found, parts):
    assert ("silent_fallback" in answer(tool_calls=READ_TIMED_OUT, **parts)["findings"]) is found


DONE = {"name": "a", "state": "completed"}
MISSING = {"name": "b", "state": "failed", "can_change_result": "no", "required": False}


def test_one_required_omission_is_enough():
    assert "required_omission" not in facts(components=[DONE, MISSING])
    assert "required_omission" in facts(components=[DONE, MISSING, MISSING | {"name": "c", "required": True}])


def test_a_partial_that_asserts_an_unsupported_decision_is_not_safe():
    decision = {"asserted": True, "required_checks": ["b"]}
    assert facts(components=[DONE, MISSING], decision=decision) & {"safe_partial", "unsupported_decision"} == {
        "unsupported_decision"
    }
    assert "safe_partial" in facts(components=[DONE, MISSING])


def test_what_a_filter_left_over_is_no_partial_though_its_denial_was_lifted():
    filtered = _decision("deny", -90, source="provider_filter")
    lifted = [filtered, _decision("allow", -80, source="approver", policy_id="desk")]
    found = facts(model={"stop_class": "filtered"}, policy_decisions=lifted, components=[DONE, MISSING])
    assert found & {"standing_denial", "omission", "safe_partial"} == {"omission"}


# --- the run


@pytest.mark.parametrize("name", ["turns", "tool_calls", "tokens", "cost_micros"])
def test_each_budget_may_be_used_up(name):
    assert answer(budget={name: {"used": 5, "limit": 5}})["findings"] == ["budget_used_up"]
    assert answer(budget={name: {"used": 4, "limit": 5}})["findings"] == []


@pytest.mark.parametrize(
    ("exhausted", "ready"), [(["unknown"], False), (["unknown", "turns"], True), (["turns"], True)]
)
def test_a_fallback_serves_a_budget_that_somebody_knows(exhausted, ready):
    found = facts(budget={"exhausted": exhausted}, fallbacks=[_fallback(triggers=["budget_exhausted"])])
    assert found & {"budget_exhausted", "eligible_fallback_ready"} == {"budget_exhausted"} | (
        {"eligible_fallback_ready"} if ready else set()
    )


def test_an_optional_failure_without_a_component_is_a_gap():
    optional = _write("timeout", access="read", required=False)
    assert answer(tool_calls=[optional])["evidence_gaps"] == ["tool_call pay: component missing"]


@pytest.mark.parametrize(("last", "declined"), [(0.6999999999, True), (0.7, False), (0.7000000001, False)])
def test_a_decline_is_compared_as_decimals_however_close(last, declined):
    steps = [{"confidence_after": confidence} for confidence in (0.9, 0.9, 0.9, last)]
    assert ("confidence_declining" in facts(steps=steps)) is declined


def test_several_findings_are_sorted_each_once():
    parts = {"budget": {"turns": {"used": 5, "limit": 5}}, "fallbacks": [_fallback(applied=True, disclosed=False)] * 2}
    parts["tool_calls"] = [
        _write("timeout", operation_id=name, idempotency_key=key) for name in ("a", "b") for key in ("1", "2")
    ]
    assert answer(**parts)["findings"] == ["budget_used_up", "idempotency_key_changed", "silent_fallback"]


# --- the answer


def test_an_answer_has_every_part_of_the_contract():
    tried = event(tool_calls=READ_TIMED_OUT, fallbacks=[_fallback(version=None)], completion={"claimed": True})
    given = default_classifier().classify(tried).classification
    assert given.keys() == Classification.model_fields.keys() - {"unproven"}
    assert (given["event_id"], given["facts"]) == ("event-1", sorted(facts(**_sent(tried))))
    assert (given["evidence_digest"], given["content_digest"]) == digests(tried)
    assert any("f-1" in gap for gap in given["evidence_gaps"])


def _sent(tried: Event) -> Event:
    return {name: tried[name] for name in ("tool_calls", "fallbacks", "completion")}


@pytest.mark.parametrize("unproven", [True, False])
def test_every_answer_of_an_unproven_table_says_so(unproven):
    given = Classifier(load(default_text()), unproven=unproven).classify(event()).classification
    assert given.get("unproven") is (True if unproven else None)


def test_a_table_is_taken_for_proved_unless_somebody_says_otherwise():
    assert "unproven" not in Classifier(load(default_text())).classify(event()).classification


SCORED = [
    _row("a completed run needs nobody", False, completion={"claimed": True}),
    _row("a person's run does", True),
    _row("a refusal that owes nothing needs nobody", False, policy_decisions=[_decision("deny", -90)]),
    _row("a refusal that owes something does", True, policy_decisions=[_decision("deny", -90)], tool_calls=[_write("timeout")]),
]  # fmt: skip


@pytest.mark.parametrize(("scored", "parts"), SCORED)
def test_what_opens_a_review_packet(scored, parts):
    assert (decided(**parts).packet_completeness is not None) is scored


def test_one_name_twice_without_a_reason_is_an_answer_too():
    parts = {"components": [DONE, MISSING | {"reason_code": "lost"}, MISSING], "completion": {"claimed": True}}
    assert exit_of(**parts) == ("partial", "partial")


# --- the invariants


def test_rules_bear_the_numbers_of_the_invariants_that_they_are():
    assert [rule.number for rule in RULES] == [2, 2, 3, 3, 3, 4, 4, 5, 5, 5, 6, 6, 7, 7, 7, 8, 8, 8]


# --- the table

# The contract's rows in their order, each with the exit and the queue that gets it.
ROWS = (
    ("blocking_denial", "refusal", None),
    ("fence_violation", "human_queue", "effects"),
    ("ambiguous_side_effect", "human_queue", "effects"),
    ("duplicate_side_effect", "human_queue", "effects"),
    ("unapproved_effect", "human_queue", "effects"),
    ("human_takeover", "human_queue", "takeover"),
    ("contradictory_evidence", "human_queue", "judgement"),
    ("approval_required", "human_queue", "approvals"),
    ("policy_unavailable", "human_queue", "policy"),
    ("authority_missing", "human_queue", "access"),
    ("model_refusal_unverified", "human_queue", "policy"),
    ("unsupported_decision", "human_queue", "judgement"),
    ("completion_verified", "completed", None),
    ("ineligible_fallback_applied", "human_queue", "judgement"),
    ("fallback", "fallback", None),
    ("low_confidence", "human_queue", "judgement"),
    ("partial", "partial", None),
    ("omission_may_change_result", "human_queue", "judgement"),
    ("budget_exhausted", "human_queue", "judgement"),
    ("no_progress", "human_queue", "judgement"),
    ("malformed_evidence", "human_queue", "dependencies"),
    ("dependency_failed_no_fallback", "human_queue", "dependencies"),
    ("model_declined_no_fallback", "human_queue", "judgement"),
    ("nonterminal_stop", "human_queue", "judgement"),
    ("premature_completion", "human_queue", "judgement"),
    ("completion_unverified", "completed", "judgement"),
    ("insufficient_evidence", "human_queue", "judgement"),
)


def test_each_row_has_its_place_its_exit_and_its_queue():
    assert tuple((row.row.id, row.kind, row.row.queue) for row in load(default_text()).rows) == ROWS


def test_a_queue_may_have_an_owner_of_one_letter_and_one_decision():
    text = default_text().replace('owner = "approvers"', 'owner = "A"', 1)
    text = text.replace('allowed_decisions = ["approve", "reject", "escalate"]', 'allowed_decisions = ["approve"]', 1)
    queue = load(text).file.queues["approvals"]
    assert (queue.owner, queue.allowed_decisions) == ("A", ["approve"])


@pytest.mark.parametrize("nested", ["true and ({})", "true or ({})", "not ({})"])
def test_a_condition_has_so_many_levels_and_no_more_whatever_it_is_made_of(nested):
    whole = "true"
    for _ in range(63):
        whole = nested.format(whole)
    parse(whole, {})
    with pytest.raises(ConditionError, match="nested too deeply"):
        parse(nested.format(whole), {})
