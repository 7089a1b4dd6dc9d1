"""Right answers that nothing stated until a mutant of the classifier or of its table survived without them."""

# ruff: noqa: E501  (one case a line: a sentence, what it expects, the evidence)
from typing import Any

import pytest

from classifier.facts import FACTS, FINDINGS
from classifier.table import default_text, load
from tests.classifier.answers import answer, at, decided, exit_of, facts

Event = dict[str, Any]


def _row(sentence: str, *expected: Any, **parts: Any) -> Any:
    return pytest.param(*expected, parts, id=sentence)


# --- what is stored keeps its meaning

# Bits of stored exits by position; a position is never given to another fact.
POSITIONS = (
    "standing_denial fence_violation ambiguous_effect idempotency_protected duplicate_effect unapproved_effect taken_over"
    " child_run_open contradiction approval_needed policy_unavailable authority_missing model_declined request_allowed"
    " unsupported_decision predicate_satisfied predicate_unsatisfied predicate_unverifiable completion_claimed omission"
    " omission_may_change_result required_omission safe_partial fallback_applied ineligible_fallback_applied"
    " eligible_fallback_applied eligible_fallback_ready required_path_failed dependency_failed confidence_below_floor"
    " confidence_declining budget_exhausted no_progress malformed_observation nonterminal_stop truncated"
    " result_confidence_low empty_response stopped_normally - write_attempted effect_took_place"
).split()
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
