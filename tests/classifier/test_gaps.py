"""Evidence gaps: what they say, and that closing one really changes what is read."""

# ruff: noqa: E501  (one case a line, so that the tables read as tables)
import copy
from random import Random
from typing import Any

import pytest

from classifier import gaps
from classifier.view import View
from schemas.events import TerminalEvent
from tests.classifier.answers import answer, at, default_classifier, event, exit_of, view
from tests.strategies import random_event

Event = dict[str, Any]
CLAIM = {"claimed": True}
QUIET = {"claimed": False}


def _texts(**parts: Any) -> list[str]:
    return answer(**parts)["evidence_gaps"]


def _fallback(**more: Any) -> Event:
    own = {"fallback_id": "tax-rates-cache", "version": "4", "source": "cached", "triggers": ["timeout"]}
    own |= {"access": "read", "inputs_digest": "sha256:1f", "reference_data_version": "3", "observed_at": at(-60)}
    own |= {"max_age_s": 3600, "shares_failed_dependency": False, "uses_model_judgement": False}
    return own | {"preconditions_met": True, "applied": False} | more


TIMED_OUT = {"call_id": "c-1", "operation_id": "op-1", "tool": "lookup", "access": "read", "required": True}
TIMED_OUT |= {"outcome": "timeout"}
WRITE = TIMED_OUT | {"access": "write", "started_at": at(-10)}
DONE = WRITE | {"outcome": "ok"}


def _gap(text: str, before: str, after: str, **parts: Any) -> Any:
    return pytest.param(text, before, after, parts, id=text)


_FALLBACK = "fallback tax-rates-cache"
_LACKS = "dependency_failed_no_fallback"
_ASKED = {"decision_id": "d-1", "source": "application", "operation_id": "op-1", "effect": "require_approval"}
_GRANTED = {"state": "granted", "approver": "person-1", "resolved_at": at(-30)}
_DENIED = {
    "decision_id": "d-0",
    "policy_id": "limits",
    "source": "application",
    "effect": "deny",
    "decided_at": at(-60),
}
_ALLOWED = {"decision_id": "d-1", "policy_id": "limits", "source": "application", "effect": "allow"}
_DECLINED = {"stop_class": "refused"}
CLOSED = [
    *(_gap(f"{_FALLBACK}: {field} missing", _LACKS, "dependency_timeout", tool_calls=[TIMED_OUT], fallbacks=[_fallback(**{field: None})])
      for field in ("version", "inputs_digest", "reference_data_version", "observed_at", "max_age_s", "preconditions_met", "shares_failed_dependency", "uses_model_judgement", "access")),
    _gap(f"{_FALLBACK}: ruleset_version missing", _LACKS, "dependency_timeout", tool_calls=[TIMED_OUT], fallbacks=[_fallback(source="rules_engine")]),
    _gap(f"{_FALLBACK}: origin missing", _LACKS, "dependency_timeout", tool_calls=[TIMED_OUT], fallbacks=[_fallback(source="alternate_source")]),
    _gap(f"{_FALLBACK}: disclosed missing", "ineligible_fallback_applied", "dependency_timeout", tool_calls=[TIMED_OUT], fallbacks=[_fallback(applied=True)]),
    _gap("component extra: can_change_result missing", "omission_may_change_result", "partial", components=[{"name": "body", "state": "completed"}, {"name": "extra", "state": "omitted"}]),
    _gap("tool_call c-1: component missing", "completion_unverified", "timeout", tool_calls=[TIMED_OUT | {"required": False}], components=[{"name": "body", "state": "completed"}], completion=CLAIM),
    _gap("side_effect op-1: ledger entry missing", "ambiguous_side_effect", _LACKS, tool_calls=[WRITE]),
    _gap("side_effect op-1: verified_by missing", "ambiguous_side_effect", _LACKS, tool_calls=[WRITE], side_effects=[{"operation_id": "op-1", "status": "confirmed", "verified_by": "none"}]),
    _gap("tool_call c-1: access missing", "ambiguous_side_effect", _LACKS, tool_calls=[TIMED_OUT | {"access": None}]),
    _gap("tool_call c-1: required missing", _LACKS, "insufficient_evidence", tool_calls=[TIMED_OUT | {"required": None}]),
    _gap("tool_call c-1: outcome missing", "ambiguous_side_effect", "completion_unverified", tool_calls=[WRITE | {"outcome": None}], completion=CLAIM),
    _gap("approval of policy_decision d-1: approver missing", "unapproved_effect", "completion_unverified", policy_decisions=[_ASKED | {"approval": _GRANTED | {"approver": None}}], tool_calls=[DONE], completion=CLAIM),
    _gap("approval of policy_decision d-1: resolved_at missing", "unapproved_effect", "completion_unverified", policy_decisions=[_ASKED | {"approval": _GRANTED | {"resolved_at": None}}], tool_calls=[DONE], completion=CLAIM),
    _gap("policy_decision d-1: effect missing", "policy_unavailable", "completion_unverified", policy_decisions=[_ALLOWED | {"effect": None}], completion=CLAIM),
    _gap("policy_decision d-1: source missing", "model_refusal_unverified", "model_declined_no_fallback", policy_decisions=[_ALLOWED | {"source": None}], model=_DECLINED),
    _gap("policy_decision d-1: decided_at missing", "blocking_denial", "completion_unverified", policy_decisions=[_DENIED, _ALLOWED], completion=CLAIM),
    _gap("model: stop_class missing", "nonterminal_stop", "completion_unverified", model={"provider": "anthropic"}, completion=CLAIM),
    _gap("completion: result missing", "completion_unverified", "completion_verified", completion=CLAIM),
    _gap("takeover: state missing", "human_takeover", "completion_unverified", takeover={}, completion=CLAIM),
    _gap("child run-2: state missing", "child_run_open", "completion_unverified", children=[{"run_id": "run-2"}], completion=CLAIM),
]  # fmt: skip


@pytest.mark.parametrize(("text", "before", "after", "parts"), CLOSED)
def test_a_gap_is_named_and_closing_it_changes_the_exit(text, before, after, parts):
    given = event(**parts)
    assert exit_of(**parts)[1] == before
    assert text in _texts(**parts)
    gap = next(gap for gap in gaps.of(view(**parts)) if gap.text == text)
    closed = default_classifier().classify(gap.filled(given)).classification
    assert closed["reason_code"] == after
    assert text not in closed["evidence_gaps"]


def test_every_kind_of_gap_is_closed_above():
    tried = {gap.kind for case in CLOSED for gap in gaps.of(view(**case.values[3])) if gap.text == case.values[0]}
    assert tried == set(gaps.KINDS)


NO_GAP = {
    "a fallback that lacks nothing": {"tool_calls": [TIMED_OUT], "fallbacks": [_fallback()]},
    "a fallback for another failure": {"tool_calls": [TIMED_OUT], "fallbacks": [_fallback(version=None, triggers=["error"])]},
    "a fallback that nothing calls for": {"fallbacks": [_fallback(version=None)]},
    "a fallback that states what rules it out": {"tool_calls": [TIMED_OUT], "fallbacks": [_fallback(uses_model_judgement=True)]},
    "a component that says yes": {"components": [{"name": "a", "state": "omitted", "can_change_result": "yes"}]},
    "a component that is there": {"components": [{"name": "a", "state": "completed"}]},
    "a call that was ok": {"tool_calls": [{"call_id": "c-1", "outcome": "ok"}]},
    "a write that is settled": {"tool_calls": [WRITE], "side_effects": [{"operation_id": "op-1", "status": "confirmed", "verified_by": "read_back"}]},
    "no model block": {},
    "a claim that was evaluated": {"completion": {"claimed": True, "result": "unsatisfied"}},
    "nothing claimed": {"completion": QUIET},
    "a takeover that ended": {"takeover": {"state": "CLOSED"}},
}  # fmt: skip


@pytest.mark.parametrize("parts", NO_GAP.values(), ids=NO_GAP)
def test_nothing_is_missing(parts):
    assert _texts(**parts) == []


def test_a_refusal_lacks_no_more_than_a_lifting_decision():
    parts = {"tool_calls": [TIMED_OUT], "fallbacks": [_fallback(version=None)], "model": {"provider": "anthropic"}}
    assert len(_texts(**parts)) == 2
    assert _texts(policy_decisions=[_DENIED], **parts) == []


def test_gaps_are_sorted_and_said_once():
    parts = {"tool_calls": [TIMED_OUT, TIMED_OUT], "fallbacks": [_fallback(version=None, inputs_digest=None)] * 2}
    assert _texts(**parts) == [f"{_FALLBACK}: inputs_digest missing", f"{_FALLBACK}: version missing"]


def test_closing_a_gap_closes_it_and_nothing_else():
    rng, closed = Random(21), set()
    for _ in range(1_500):
        given = random_event(rng)
        before = copy.deepcopy(given)
        for gap in gaps.of(View(given, default_classifier().table.thresholds)):
            filled = gap.filled(given)
            left = gaps.of(View(filled, default_classifier().table.thresholds))
            assert (gap.text, gap.path) not in {(other.text, other.path) for other in left}
            assert TerminalEvent.model_validate(filled).model_dump() == filled
            assert [name for name in given if filled[name] != given[name]] == [gap.path[0]]
            closed.add(gap.kind)
        assert given == before
    assert closed == set(gaps.KINDS)
