"""Denials, approvals, unavailable policies and the model's own refusal, at their boundaries."""

# ruff: noqa: E501, FBT003  (one case a line: a sentence, what it expects, the evidence)
from typing import Any

import pytest

from tests.classifier.answers import answer, at, exit_of, facts

Event = dict[str, Any]


def _decision(effect: str | None, when: float | None, operation: str | None = None, **more: Any) -> Event:
    own = {"decision_id": "d-1", "policy_id": "limits", "source": "application", "operation_id": operation}
    return own | {"effect": effect, "decided_at": None if when is None else at(when)} | more


def _deny(when: float | None = -60, operation: str | None = None, **more: Any) -> Event:
    return _decision("deny", when, operation, **more)


def _allow(when: float | None = -30, operation: str | None = None, **more: Any) -> Event:
    return _decision("allow", when, operation, **more)


def _approver(when: float | None = -30, operation: str | None = None, **more: Any) -> Event:
    return _allow(when, operation, source="approver", policy_id="desk", **more)


def _approval(state: str, when: float | None = -30, **more: Any) -> Event:
    return {"state": state, "approver": "person-1", "resolved_at": None if when is None else at(when)} | more


def _ask(operation: str | None = "op-1", when: float | None = -60, **approval: Any) -> Event:
    return _decision("require_approval", when, operation, approval=approval or None)


def _ok(operation: str, when: float | None = -10, access: str = "write", **more: Any) -> Event:
    started = None if when is None else at(when)
    return {"operation_id": operation, "access": access, "outcome": "ok", "started_at": started} | more


SATISFIED = {"claimed": True, "result": "satisfied"}
OTHER_WAY = {"tool_calls": [_ok("op-2")], "completion": SATISFIED}


def _row(sentence: str, *expected: Any, **parts: Any) -> Any:
    return pytest.param(*expected, parts, id=sentence)


# --- standing denials

STANDING = [
    _row("a denial of the request stands", True, policy_decisions=[_deny()]),
    _row("an undated denial stands", True, policy_decisions=[_deny(None)]),
    _row("a denial of unknown source stands", True, policy_decisions=[_deny(source="unknown")]),
    _row("a denial without source stands", True, policy_decisions=[_deny(source=None)]),
    _row("a denial of a source nobody knows stands", True, policy_decisions=[_deny(source="oracle")]),
    _row("a masking guardrail denies nothing", False, policy_decisions=[_allow(source="guardrail")]),
    _row("an approval denied by a person stands", True, policy_decisions=[_ask(**_approval("denied"))]),
    _row("an approval denied by the agent stands", True, policy_decisions=[_ask(**_approval("denied", approver="agent-1"))]),
    _row("an approval denied by nobody named stands", True, policy_decisions=[_ask(**_approval("denied", approver=None))]),
    _row("a denied approval stands without a date", True, policy_decisions=[_ask(**_approval("denied", None))]),
    _row("a denied approval stands beside an allow", True, policy_decisions=[_allow(approval=_approval("denied"))]),
    _row("an expired approval denies nothing", False, policy_decisions=[_ask(**_approval("expired"))]),
    _row("a filtered stop is a denial", True, model={"stop_class": "filtered"}),
    _row("a refusing model is no denial", False, model={"stop_class": "refused"}),
    _row("a failed call is no denial", False, tool_calls=[{"outcome": "denied", "access": "read"}]),
]  # fmt: skip

LIFTING = [
    _row("lifted by the same policy for the operation", False, policy_decisions=[_deny(-60, "op-1"), _allow(-30, "op-1")]),
    _row("not lifted by another policy", True, policy_decisions=[_deny(-60, "op-1"), _allow(-30, "op-1", policy_id="x")]),
    _row("not lifted where neither policy is named", True, policy_decisions=[_deny(-60, "op-1", policy_id=None), _allow(-30, "op-1", policy_id=None)]),
    _row("lifted by an approver for the operation", False, policy_decisions=[_deny(-60, "op-1"), _approver(-30, "op-1")]),
    _row("not lifted by an approval, which is no decision of its own", True, policy_decisions=[_deny(-60, "op-1", approval=_approval("granted"))]),
    _row("not lifted by an approver who is the agent", True, policy_decisions=[_deny(-60, "op-1"), _approver(-30, "op-1", approval={"state": "granted", "approver": "agent-1"})]),
    _row("not lifted for another operation", True, policy_decisions=[_deny(-60, "op-1"), _allow(-30, "op-2")]),
    _row("not lifted by an allow of the whole request", True, policy_decisions=[_deny(-60, "op-1"), _allow(-30)]),
    _row("not lifted by an earlier allow", True, policy_decisions=[_deny(-30, "op-1"), _allow(-60, "op-1")]),
    _row("not lifted at the same instant", True, policy_decisions=[_deny(-60, "op-1"), _allow(-60, "op-1")]),
    _row("lifted a microsecond later", False, policy_decisions=[_deny(-60, "op-1"), _allow(-59.999999, "op-1")]),
    _row("not lifted by an undated allow", True, policy_decisions=[_deny(-60, "op-1"), _allow(None, "op-1")]),
    _row("an undated denial is not lifted", True, policy_decisions=[_deny(None, "op-1"), _allow(-30, "op-1")]),
    _row("lifted at the end of the run", False, policy_decisions=[_deny(-60, "op-1"), _allow(0, "op-1")]),
    _row("not lifted after the end of the run", True, policy_decisions=[_deny(-60, "op-1"), _allow(0.000001, "op-1")]),
    _row("not lifted by an allow of unknown source", True, policy_decisions=[_deny(-60, "op-1"), _allow(-30, "op-1", source="unknown")]),
    _row("not lifted by an allow without source", True, policy_decisions=[_deny(-60, "op-1"), _allow(-30, "op-1", source=None)]),
    _row("not lifted by an unavailable decision", True, policy_decisions=[_deny(-60, "op-1"), _decision("unavailable", -30, "op-1")]),
    _row("not lifted by an allow that awaits approval", True, policy_decisions=[_deny(-60, "op-1"), _allow(-30, "op-1", approval=_approval("requested"))]),
    _row("a denial after the allow stands", True, policy_decisions=[_deny(-60, "op-1"), _allow(-30, "op-1"), _deny(-20, "op-1")]),
    _row("a request's denial is lifted by its policy", False, policy_decisions=[_deny(), _allow()]),
    _row("a request's denial is lifted by an approver", False, policy_decisions=[_deny(), _approver()]),
    _row("a request's denial is not lifted by another policy", True, policy_decisions=[_deny(), _allow(policy_id="x")]),
    _row("a request's denial is not lifted by an allowed operation", True, policy_decisions=[_deny(), _allow(-30, "op-2")], **OTHER_WAY),
    _row("a request's denial is not lifted by an approved operation", True, policy_decisions=[_deny(), _approver(-30, "op-2")], **OTHER_WAY),
    _row("a denied approval is lifted by the approver later", False, policy_decisions=[_ask(**_approval("denied", -40)), _approver(-30, "op-1")]),
    _row("a denied approval is not lifted by an approval before", True, policy_decisions=[_ask(**_approval("denied", -20)), _approver(-30, "op-1")]),
    _row("a filtered stop is not lifted by an earlier allow", True, model={"stop_class": "filtered"}, policy_decisions=[_approver()]),
    _row("a filter's lifted denial is no new one", False, model={"stop_class": "filtered"}, policy_decisions=[_deny(source="provider_filter"), _approver()]),
    _row("another source's denial is not the filter's", True, model={"stop_class": "filtered"}, policy_decisions=[_deny(), _approver()]),
]  # fmt: skip

_WAY = [_deny(-60, "op-1"), _allow(-30, "op-2", policy_id="x")]
_TIMED_OUT = {"operation_id": "op-1", "access": "write", "outcome": "timeout", "started_at": at(-70)}
_TURNED_AWAY = _TIMED_OUT | {"outcome": "denied"}
_LEDGER = {"operation_id": "op-1", "status": "confirmed", "verified_by": "read_back"}
_NEVER = {"operation_id": "op-1", "status": "not_started", "verified_by": "status_lookup"}
OTHERWISE = [
    _row("finished another, allowed way", False, policy_decisions=_WAY, **OTHER_WAY),
    _row("the other way was a read", False, policy_decisions=_WAY, tool_calls=[_ok("op-2", access="read")], completion=SATISFIED),
    _row("the denied one was turned away", False, policy_decisions=_WAY, tool_calls=[_TURNED_AWAY, _ok("op-2")], completion=SATISFIED),
    _row("the denied one is proven not to have started", False, policy_decisions=_WAY, tool_calls=[_TIMED_OUT, _ok("op-2")], side_effects=[_NEVER], completion=SATISFIED),
    _row("the denied one may have happened", True, policy_decisions=_WAY, tool_calls=[_TIMED_OUT, _ok("op-2")], completion=SATISFIED),
    _row("the denied one happened", True, policy_decisions=_WAY, tool_calls=[_ok("op-1"), _ok("op-2")], completion=SATISFIED),
    _row("the denied one is confirmed by the ledger", True, policy_decisions=_WAY, tool_calls=[_ok("op-2")], side_effects=[{"operation_id": "op-1", "status": "confirmed"}], completion=SATISFIED),
    _row("the denied one happened and was taken back", True, policy_decisions=_WAY, tool_calls=[_ok("op-2")], side_effects=[{"operation_id": "op-1", "status": "compensated", "verified_by": "read_back"}], completion=SATISFIED),
    _row("the predicate was not evaluated", True, policy_decisions=_WAY, tool_calls=[_ok("op-2")], completion={"claimed": True}),
    _row("the predicate says no", True, policy_decisions=_WAY, tool_calls=[_ok("op-2")], completion={"claimed": True, "result": "unsatisfied"}),
    _row("the other one did not return ok", True, policy_decisions=_WAY, tool_calls=[{"operation_id": "op-2", "access": "read", "outcome": "error"}], completion=SATISFIED),
    _row("a third one returned ok, which nobody allowed", True, policy_decisions=_WAY, tool_calls=[_ok("op-3")], completion=SATISFIED),
    _row("the other one was allowed before", True, policy_decisions=[_deny(-30, "op-1"), _allow(-60, "op-2", policy_id="x")], **OTHER_WAY),
    _row("the other one was allowed after the end", True, policy_decisions=[_deny(-60, "op-1"), _allow(1, "op-2", policy_id="x")], **OTHER_WAY),
    _row("the other one was allowed by an unknown source", True, policy_decisions=[_deny(-60, "op-1"), _allow(-30, "op-2", source="unknown")], **OTHER_WAY),
    _row("the denial is undated", True, policy_decisions=[_deny(None, "op-1"), _allow(-30, "op-2", policy_id="x")], **OTHER_WAY),
    _row("only the whole request was allowed", True, policy_decisions=[_deny(-60, "op-1"), _allow(-30, policy_id="x")], **OTHER_WAY),
]  # fmt: skip


@pytest.mark.parametrize(("stands", "parts"), STANDING + LIFTING + OTHERWISE)
def test_standing_denial(stands, parts):
    assert ("standing_denial" in facts(**parts)) is stands
    assert (exit_of(**parts)[0] == "refusal") is stands


REASONS = [
    _row("its own code", "amount_over_limit", policy_decisions=[_deny(reason_code="amount_over_limit")]),
    _row("its own code before that of its source", "too_long", policy_decisions=[_deny(source="validator", reason_code="too_long")]),
    _row("a validator's", "invalid_request", policy_decisions=[_deny(source="validator")]),
    _row("a provider filter's", "content_filter", policy_decisions=[_deny(source="provider_filter")]),
    _row("an approver's", "approver_denied", policy_decisions=[_deny(source="approver")]),
    _row("a denied approval's, whatever code the decision has", "approver_denied", policy_decisions=[_ask(**_approval("denied")) | {"reason_code": "asked"}]),
    _row("a filtered stop's", "content_filter", model={"stop_class": "filtered"}),
    _row("a guardrail's without a code: the row", "blocking_denial", policy_decisions=[_deny(source="guardrail")]),
    _row("an application's with an empty code: the row", "blocking_denial", policy_decisions=[_deny(reason_code="")]),
    _row("the earliest", "first", policy_decisions=[_deny(-20, reason_code="second"), _deny(-30, reason_code="first")]),
    _row("dated before undated", "dated", policy_decisions=[_deny(None, reason_code="undated"), _deny(-1, reason_code="dated")]),
    _row("at one instant by decision", "a", policy_decisions=[_deny(decision_id="d-2", reason_code="b"), _deny(decision_id="d-1", reason_code="a")]),
    _row("undated ones by decision", "a", policy_decisions=[_deny(None, decision_id="d-2", reason_code="b"), _deny(None, decision_id="d-1", reason_code="a")]),
    _row("a lifted one gives no reason", "later", policy_decisions=[_deny(-60, "op-1", reason_code="lifted"), _allow(-50, "op-1"), _deny(-40, "op-2", reason_code="later")]),
    _row("a filtered stop is as late as the run", "early", model={"stop_class": "filtered"}, policy_decisions=[_deny(-1, reason_code="early")]),
    _row("a recorded denial goes before the stop at the same instant", "limit", model={"stop_class": "filtered"}, policy_decisions=[_deny(0, decision_id="z", reason_code="limit")]),
    _row("a recorded filter denial is the filter's only one", "hate", model={"stop_class": "filtered"}, policy_decisions=[_deny(None, source="provider_filter", reason_code="hate")]),
    _row("over a turn limit", "limit", policy_decisions=[_deny(reason_code="limit")], budget={"exhausted": ["turns"]}),
    _row("over an unreadable answer", "limit", policy_decisions=[_deny(reason_code="limit")], tool_calls=[{"access": "read", "outcome": "malformed"}]),
    _row("over a model's refusal", "limit", policy_decisions=[_deny(reason_code="limit")], model={"stop_class": "refused"}),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "parts"), REASONS)
def test_reason_of_a_refusal(reason, parts):
    assert exit_of(**parts) == ("refusal", reason)


AFTERWARDS = [
    _row("a call after the denial", True, policy_decisions=[_deny(-60)], tool_calls=[_ok("op-2", -59, "read")]),
    _row("a call before it", False, policy_decisions=[_deny(-60)], tool_calls=[_ok("op-2", -61, "read")]),
    _row("a call that was not executed", False, policy_decisions=[_deny(-60)], tool_calls=[_TURNED_AWAY | {"started_at": at(-50)}]),
]  # fmt: skip


@pytest.mark.parametrize(("found", "parts"), AFTERWARDS)
def test_activity_after_a_denial_is_a_finding(found, parts):
    assert ("post_denial_activity" in answer(**parts)["findings"]) is found


# --- approvals: what a write that took effect is worth

_GRANT = _approval("granted")


def _approved(**approval: Any) -> Event:
    return {"policy_decisions": [_ask(**approval)], "tool_calls": [_ok("op-1")], "completion": SATISFIED}


def _by_approver(decision: Event, **ask: Any) -> Event:
    return {
        "policy_decisions": [_ask(**ask), decision | {"decision_id": "d-2"}],
        "tool_calls": [_ok("op-1")],
        "completion": SATISFIED,
    }


GRANTED = [
    _row("granted by a person before the write", True, **_approved(**_GRANT)),
    _row("granted for the operation by name", True, **_approved(**_GRANT, operation_id="op-1")),
    _row("granted as the write starts", True, **_approved(**_approval("granted", -10))),
    _row("granted a microsecond after the write started", False, **_approved(**_approval("granted", -9.999999))),
    _row("never asked", False, **_approved()),
    _row("state none", False, **_approved(state="none")),
    _row("requested", False, **_approved(**_approval("requested"))),
    _row("dismissed", False, **_approved(**_approval("dismissed"))),
    _row("expired", False, **_approved(**_approval("expired"))),
    _row("of unknown state", False, **_approved(**_approval("unknown"))),
    _row("of a state nobody knows", False, **_approved(**_approval("waved_through"))),
    _row("granted by the agent", False, **_approved(**_GRANT | {"approver": "agent-1"})),
    _row("granted by nobody", False, **_approved(**_GRANT | {"approver": None})),
    _row("granted by an empty name", False, **_approved(**_GRANT | {"approver": ""})),
    _row("granted for another operation", False, **_approved(**_GRANT, operation_id="op-2")),
    _row("granted at no known time", False, **_approved(**_approval("granted", None))),
    _row("not yet expired as the write starts", True, **_approved(**_GRANT, expires_at=at(-9.999999))),
    _row("expired at the instant at which the write starts", False, **_approved(**_GRANT, expires_at=at(-10))),
    _row("expired after the write started", True, **_approved(**_GRANT, expires_at=at(-5))),
    _row("granted in a later decision of an approver", True, **_by_approver(_approver(-30, "op-1"))),
    _row("granted by an approver for the request, which is not this operation", False, **_by_approver(_approver(-30))),
    _row("granted by an approver for another operation", False, **_by_approver(_approver(-30, "op-2"))),
    _row("granted by an approver before it was asked for", False, **_by_approver(_approver(-61, "op-1"))),
    _row("granted by an approver at no known time", False, **_by_approver(_approver(None, "op-1"))),
    _row("granted by an approver after the write", False, **_by_approver(_approver(-5, "op-1"))),
    _row("granted by an approver who is the agent", False, **_by_approver(_approver(-30, "op-1", approval={"approver": "agent-1"}))),
    _row("allowed later by a policy that is no approver", False, **_by_approver(_allow(-30, "op-1"))),
    _row("allowed with an approval still requested", False, policy_decisions=[_allow(-60, "op-1", approval=_approval("requested"))], tool_calls=[_ok("op-1")]),
    _row("allowed with an approval granted", True, policy_decisions=[_allow(-60, "op-1", approval=_GRANT)], tool_calls=[_ok("op-1")]),
    _row("allowed with approval none", True, policy_decisions=[_allow(-60, "op-1", approval={"state": "none"})], tool_calls=[_ok("op-1")]),
    _row("asked for the request, granted for it", True, policy_decisions=[_ask(None, **_GRANT)], tool_calls=[_ok("op-1")]),
    _row("asked for the request, granted for one of two", False, policy_decisions=[_ask(None, **_GRANT, operation_id="op-1")], tool_calls=[_ok("op-1"), _ok("op-2")]),
    _row("a first attempt, which may have happened, came before the grant", False, policy_decisions=[_ask(**_GRANT)], tool_calls=[_TIMED_OUT | {"started_at": at(-40), "idempotency_key": "k-1"}, _ok("op-1", idempotency_key="k-1")], side_effects=[_LEDGER]),
    _row("a read needs no approval to have had no effect", True, policy_decisions=[_ask()], tool_calls=[_ok("op-1", access="read")]),
    _row("the write started at no known time", False, policy_decisions=[_ask(**_GRANT)], tool_calls=[_ok("op-1", None)]),
    _row("the ledger alone says that it took effect", False, policy_decisions=[_ask()], side_effects=[{"operation_id": "op-1", "status": "confirmed", "verified_by": "read_back"}]),
    _row("taken back later", False, policy_decisions=[_ask()], tool_calls=[_ok("op-1")], side_effects=[{"operation_id": "op-1", "status": "compensated", "verified_by": "read_back"}]),
]  # fmt: skip


@pytest.mark.parametrize(("granted", "parts"), GRANTED)
def test_write_that_took_effect(granted, parts):
    assert ("unapproved_effect" not in facts(**parts)) is granted
    assert (exit_of(**parts)[1] != "unapproved_effect") is granted


_REFUSED = {"operation_id": "op-1", "access": "write", "outcome": "not_executed"}
NEEDED = [
    _row("asked and open, nothing executed", True, policy_decisions=[_ask(**_approval("requested", None))]),
    _row("never asked", True, policy_decisions=[_ask()]),
    _row("never asked, write held back", True, policy_decisions=[_ask()], tool_calls=[_REFUSED]),
    _row("expired", True, policy_decisions=[_ask(**_approval("expired"))]),
    _row("dismissed", True, policy_decisions=[_ask(**_approval("dismissed"))]),
    _row("granted by the agent", True, policy_decisions=[_ask(**_GRANT | {"approver": "agent-1"})]),
    _row("a denied approval is answered", False, policy_decisions=[_ask(**_approval("denied"))]),
    _row("granted, nothing executed yet", False, policy_decisions=[_ask(**_GRANT)]),
    _row("granted, but expired by the end of the run", True, policy_decisions=[_ask(**_GRANT, expires_at=at(0))]),
    _row("granted after the end of the run", True, policy_decisions=[_ask(**_approval("granted", 1))]),
    _row("required by an approval state alone", True, policy_decisions=[_allow(approval=_approval("requested"))]),
    _row("approval none asks for nothing", False, policy_decisions=[_allow(approval={"state": "none"})]),
    _row("one operation granted, the other open", True, policy_decisions=[_ask("op-1", **_GRANT), _ask("op-2")]),
]  # fmt: skip


@pytest.mark.parametrize(("needed", "parts"), NEEDED)
def test_approval_needed(needed, parts):
    assert ("approval_needed" in facts(**parts)) is needed
    assert (exit_of(**parts) == ("human_queue", "approval_required")) is needed


# --- policies that could not decide

UNAVAILABLE = [
    _row("unavailable", True, policy_decisions=[_decision("unavailable", -60)]),
    _row("of unknown effect", True, policy_decisions=[_decision("unknown", -60)]),
    _row("of an effect nobody knows", True, policy_decisions=[_decision("shrug", -60)]),
    _row("without effect", True, policy_decisions=[_decision(None, -60)]),
    _row("superseded by the same policy", False, policy_decisions=[_decision("unavailable", -60), _allow()]),
    _row("not superseded by another policy", True, policy_decisions=[_decision("unavailable", -60), _allow(policy_id="x")]),
    _row("not superseded by an approver", True, policy_decisions=[_decision("unavailable", -60), _approver()]),
    _row("not superseded at the same instant", True, policy_decisions=[_decision("unavailable", -60), _allow(-60)]),
    _row("not superseded by an undated decision", True, policy_decisions=[_decision("unavailable", -60), _allow(None)]),
    _row("not superseded while undated", True, policy_decisions=[_decision("unavailable", None), _allow()]),
    _row("not superseded after the end of the run", True, policy_decisions=[_decision("unavailable", -60), _allow(1)]),
    _row("not superseded by an earlier decision", True, policy_decisions=[_decision("unavailable", -30), _allow(-60)]),
    _row("not superseded by an allow of unknown source", True, policy_decisions=[_decision("unavailable", -60), _allow(source="unknown")]),
    _row("not superseded where no policy is named", True, policy_decisions=[_decision("unavailable", -60, policy_id=None), _allow(policy_id=None)]),
    _row("unavailable again", True, policy_decisions=[_decision("unavailable", -60), _allow(), _decision("unavailable", -20)]),
]  # fmt: skip


@pytest.mark.parametrize(("unavailable", "parts"), UNAVAILABLE)
def test_policy_unavailable(unavailable, parts):
    assert ("policy_unavailable" in facts(**parts)) is unavailable
    assert (exit_of(**parts) == ("human_queue", "policy_unavailable")) is unavailable


# --- the model's own refusal

_DECLINES = {"stop_class": "refused"}
DECLINED = [
    _row("no policy allowed", "model_refusal_unverified", model=_DECLINES),
    _row("the application allowed the request", "model_declined_no_fallback", model=_DECLINES, policy_decisions=[_allow()]),
    _row("an approver allowed the request", "model_declined_no_fallback", model=_DECLINES, policy_decisions=[_approver()]),
    _row("a guardrail's pass allows nothing", "model_refusal_unverified", model=_DECLINES, policy_decisions=[_allow(source="guardrail")]),
    _row("a validator's pass allows nothing", "model_refusal_unverified", model=_DECLINES, policy_decisions=[_allow(source="validator")]),
    _row("an unknown source allows nothing", "model_refusal_unverified", model=_DECLINES, policy_decisions=[_allow(source="unknown")]),
    _row("one policy of several allowed the request", "model_declined_no_fallback", model=_DECLINES, policy_decisions=[_allow(source="guardrail"), _allow()]),
    _row("an allowed operation is not done", "model_declined_no_fallback", model=_DECLINES, policy_decisions=[_allow(-30, "op-1")]),
    _row("an allow that was denied its approval, the denial lifted by a guardrail", "model_refusal_unverified", model=_DECLINES,
         policy_decisions=[_allow(-30, "op-1", approval={"state": "denied"}), _allow(-20, "op-1", source="guardrail")]),
    _row("an allowed operation is done", "model_refusal_unverified", model=_DECLINES, policy_decisions=[_allow(-30, "op-1")], tool_calls=[_ok("op-1")]),
    _row("an allowed read is done", "model_refusal_unverified", model=_DECLINES, policy_decisions=[_allow(-30, "op-1")], tool_calls=[_ok("op-1", access="read")]),
    _row("an allowed operation was held back", "model_declined_no_fallback", model=_DECLINES, policy_decisions=[_allow(-30, "op-1")], tool_calls=[_REFUSED | {"required": False}]),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "parts"), DECLINED)
def test_model_that_declines(reason, parts):
    assert exit_of(**parts) == ("human_queue", reason)


# --- what a denial leaves behind

OWED = [
    _row("the denied operation took effect", ["compensate"], policy_decisions=[_deny(-60, "op-1")], tool_calls=[_ok("op-1")]),
    _row("also when it started before the denial", ["compensate"], policy_decisions=[_deny(-60, "op-1")], tool_calls=[_ok("op-1", -70)]),
    _row("also where only the ledger says so", ["compensate"], policy_decisions=[_deny(-60, "op-1")], side_effects=[_LEDGER]),
    _row("also though every attempt was turned away", ["compensate"], policy_decisions=[_deny(-60, "op-1")], tool_calls=[_TURNED_AWAY], side_effects=[_LEDGER]),
    _row("the denied operation may have taken effect", ["reconcile"], policy_decisions=[_deny(-60, "op-1")], tool_calls=[_TIMED_OUT]),
    _row("another operation is not owed", [], policy_decisions=[_deny(-60, "op-1")], tool_calls=[_ok("op-2")]),
    _row("after a denial of the request", ["compensate"], policy_decisions=[_deny(-60)], tool_calls=[_ok("op-1", -59)]),
    _row("before a denial of the request", [], policy_decisions=[_deny(-60)], tool_calls=[_ok("op-1", -61)]),
    _row("at the instant of a denial of the request", [], policy_decisions=[_deny(-60)], tool_calls=[_ok("op-1", -60)]),
    _row("undated beside a denial of the request", ["compensate"], policy_decisions=[_deny(-60)], tool_calls=[_ok("op-1", None)]),
    _row("beside an undated denial of the request", ["compensate"], policy_decisions=[_deny(None)], tool_calls=[_ok("op-1", -61)]),
    _row("compensated", [], policy_decisions=[_deny(-60, "op-1")], tool_calls=[_ok("op-1")], side_effects=[_LEDGER | {"status": "compensated"}]),
    _row("a read leaves nothing", [], policy_decisions=[_deny(-60, "op-1")], tool_calls=[_ok("op-1", access="read")]),
]  # fmt: skip


@pytest.mark.parametrize(("owed", "parts"), OWED)
def test_what_a_refusal_owes(owed, parts):
    given = answer(**parts)
    assert given["kind"] == "refusal"
    assert [obligation["action"] for obligation in given["obligations"]] == owed
