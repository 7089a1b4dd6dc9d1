"""Side effects at their boundaries: ambiguity, settlement, keys, duplicates, fences, contradictions, what is owed."""

# ruff: noqa: E501, FBT003  (one case a line: a sentence, what it expects, the evidence)
from typing import Any

import pytest

from tests.classifier.answers import answer, at, exit_of, facts

Event = dict[str, Any]


def _write(outcome: str | None, **more: Any) -> Event:
    return {"operation_id": "op-1", "tool": "pay", "access": "write", "outcome": outcome, "started_at": at(-60)} | more


def _entry(status: str | None, verified_by: str | None = "status_lookup", **more: Any) -> Event:
    return {"operation_id": "op-1", "tool": "pay", "status": status, "verified_by": verified_by} | more


def _ack(ack: str | None, operation: str | None = "op-1", state: str = "RUNNING") -> Event:
    return {"takeover": {"state": state, "acks": [{"operation_id": operation, "ack": ack}]}}


def _row(sentence: str, *expected: Any, **parts: Any) -> Any:
    return pytest.param(*expected, parts, id=sentence)


def _calls(*calls: Event, entries: tuple[Event, ...] = (), **parts: Any) -> Event:
    return {"tool_calls": list(calls), "side_effects": list(entries)} | parts


# --- ambiguous, or proven, or settled

ATTEMPTS = [
    *(_row(f"a write that ended in {o}", True, **_calls(_write(o))) for o in ("timeout", "unknown", "cancelled", "unavailable", "malformed", "error")),
    _row("a write without outcome", True, **_calls(_write(None))),
    _row("a write of an outcome nobody knows", True, **_calls(_write("probably_fine"))),
    *(_row(f"a write that ended in {o} proves that nothing happened", False, **_calls(_write(o))) for o in ("circuit_open", "not_executed", "denied")),
    _row("an ok write is not ambiguous", False, **_calls(_write("ok"))),
    _row("a read is never ambiguous", False, **_calls(_write("timeout", access="read"))),
    _row("access unknown counts as write", True, **_calls(_write("timeout", access="unknown"))),
    _row("access absent counts as write", True, **_calls(_write("timeout", access=None))),
    _row("access nobody knows counts as write", True, **_calls(_write("timeout", access="append"))),
    _row("effect_possible false is proof", False, **_calls(_write("timeout", effect_possible=False))),
    _row("effect_possible true is none", True, **_calls(_write("timeout", effect_possible=True))),
    _row("401 is proof", False, **_calls(_write("error", status_code=401))),
    _row("403 is proof", False, **_calls(_write("error", status_code=403))),
    _row("UNAUTHENTICATED is proof", False, **_calls(_write("error", error_class="UNAUTHENTICATED"))),
    _row("PERMISSION_DENIED is proof", False, **_calls(_write("error", error_class="PERMISSION_DENIED"))),
    _row("403 is none where an effect is possible", True, **_calls(_write("error", status_code=403, effect_possible=True))),
    _row("404 is none", True, **_calls(_write("error", status_code=404))),
    _row("500 is none", True, **_calls(_write("error", status_code=500))),
    _row("an error that speaks of permission is none", True, **_calls(_write("error", error_class="PermissionLookupTimeout"))),
    _row("one of two attempts is unproven", True, **_calls(_write("circuit_open"), _write("timeout", attempt=2))),
    _row("both attempts are proven", False, **_calls(_write("circuit_open"), _write("denied", attempt=2))),
    _row("an ok retry under the same key without a ledger", True, **_calls(_write("timeout", idempotency_key="k-1"), _write("ok", idempotency_key="k-1", attempt=2))),
    _row("writes without operation are apart", True, **_calls(_write("timeout", operation_id=None), _write("ok", operation_id=None), entries=(_entry("confirmed", operation_id=None),))),
]  # fmt: skip

_TIMEOUT = _write("timeout", idempotency_key="k-1")
LEDGER = [
    _row("an ambiguous entry alone", True, **_calls(entries=(_entry("ambiguous"),))),
    _row("an unknown entry alone", True, **_calls(entries=(_entry("unknown"),))),
    _row("an entry without status", True, **_calls(entries=(_entry(None),))),
    _row("an entry of a status nobody knows", True, **_calls(entries=(_entry("maybe"),))),
    _row("an ambiguous entry beside an ok write", True, **_calls(_write("ok"), entries=(_entry("ambiguous"),))),
    _row("an ambiguous entry beside a settling one", True, **_calls(_TIMEOUT, entries=(_entry("ambiguous"), _entry("confirmed")))),
    *(_row(f"a timeout, {s} by lookup", False, **_calls(_TIMEOUT, entries=(_entry(s),))) for s in ("not_started", "confirmed", "compensated")),
    *(_row(f"a timeout, {s} by nobody", True, **_calls(_TIMEOUT, entries=(_entry(s, "none"),))) for s in ("not_started", "confirmed", "compensated")),
    _row("a timeout, confirmed without a word how", True, **_calls(_TIMEOUT, entries=(_entry("confirmed", None),))),
    _row("a timeout, confirmed by means nobody knows", True, **_calls(_TIMEOUT, entries=(_entry("confirmed", "hearsay"),))),
    *(_row(f"a timeout, confirmed by {v}", False, **_calls(_TIMEOUT, entries=(_entry("confirmed", v),))) for v in ("provider_ack", "read_back", "status_lookup")),
    _row("an entry of another operation settles nothing", True, **_calls(_TIMEOUT, entries=(_entry("confirmed", operation_id="op-2"),))),
    _row("an unverified entry settles beside an ok of its key", False, **_calls(_TIMEOUT, _write("ok", idempotency_key="k-1", attempt=2), entries=(_entry("confirmed", "none"),))),
    _row("a settled entry without any attempt", False, **_calls(entries=(_entry("confirmed", "none"),))),
]  # fmt: skip

KEYS = [
    _row("one key, the ok attempt's confirmation", False, **_calls(_TIMEOUT, _write("ok", idempotency_key="k-1", attempt=2), entries=(_entry("confirmed"),))),
    _row("a changed key, confirmed by the ok attempt", True, **_calls(_TIMEOUT, _write("ok", idempotency_key="k-2", attempt=2), entries=(_entry("confirmed"),))),
    _row("the first without a key", True, **_calls(_write("timeout"), _write("ok", idempotency_key="k-2", attempt=2), entries=(_entry("confirmed"),))),
    _row("both without a key", True, **_calls(_write("timeout"), _write("ok", attempt=2), entries=(_entry("confirmed"),))),
    _row("two timeouts under one key", False, **_calls(_TIMEOUT, _write("timeout", idempotency_key="k-1", attempt=2), entries=(_entry("confirmed"),))),
    _row("two timeouts under two keys", True, **_calls(_TIMEOUT, _write("timeout", idempotency_key="k-2", attempt=2), entries=(_entry("confirmed"),))),
    _row("two timeouts without a key", True, **_calls(_write("timeout"), _write("timeout", attempt=2), entries=(_entry("confirmed"),))),
    _row("two timeouts, one without a key", True, **_calls(_TIMEOUT, _write("timeout", attempt=2), entries=(_entry("confirmed"),))),
    _row("one timeout without a key", False, **_calls(_write("timeout"), entries=(_entry("confirmed"),))),
    _row("a changed key beside an attempt with proof", False, **_calls(_write("circuit_open", idempotency_key="k-1"), _write("ok", idempotency_key="k-2", attempt=2), entries=(_entry("confirmed"),))),
    _row("a compensation speaks for its own key alone", True, **_calls(_TIMEOUT, _write("ok", idempotency_key="k-2", attempt=2), entries=(_entry("compensated"),))),
    _row("not started speaks for all attempts", False, **_calls(_TIMEOUT, _write("timeout", idempotency_key="k-2", attempt=2), entries=(_entry("not_started"),))),
]  # fmt: skip

ACKS = [
    _row("accepted", True, **_ack("accepted")),
    _row("of unknown state", True, **_ack("unknown")),
    _row("without state", True, **_ack(None)),
    _row("of a state nobody knows", True, **_ack("shrug")),
    _row("without operation", True, **_ack("accepted", None)),
    _row("never started", False, **_ack("never_started")),
    _row("stopped before the call", False, **_ack("stopped_before_call")),
    _row("accepted, also once the takeover is closed", True, **_ack("accepted", state="CLOSED")),
    _row("accepted, and the write returned ok", False, **_ack("accepted"), **_calls(_write("ok"))),
    _row("accepted, and a read of that operation returned ok", False, **_ack("accepted"), **_calls(_write("ok", access="read"))),
    _row("accepted, and another write returned ok", True, **_ack("accepted"), **_calls(_write("ok", operation_id="op-2"))),
    _row("accepted, settled by the ledger", False, **_ack("accepted"), **_calls(entries=(_entry("confirmed"),))),
    _row("accepted, confirmed by nobody", True, **_ack("accepted"), **_calls(entries=(_entry("confirmed", "none"),))),
    _row("accepted, though the attempt was turned away", True, **_ack("accepted"), **_calls(_write("denied"))),
]  # fmt: skip


@pytest.mark.parametrize(("ambiguous", "parts"), ATTEMPTS + LEDGER + KEYS + ACKS)
def test_ambiguous(ambiguous, parts):
    given = answer(**parts)
    assert ("ambiguous_effect" in given["facts"]) is ambiguous
    assert (given["reason_code"] == "ambiguous_side_effect") is ambiguous
    assert ("reconcile" in {owed["action"] for owed in given["obligations"]}) is ambiguous
    assert not ambiguous or "completed" in given["prohibited"]


# --- duplicates

_OK_1, _OK_2 = _write("ok", idempotency_key="k-1"), _write("ok", idempotency_key="k-2", attempt=2)
DUPLICATES = [
    _row("confirmed once", False, **_calls(_OK_1, entries=(_entry("confirmed", count=1),))),
    _row("confirmed twice", True, **_calls(_OK_1, entries=(_entry("confirmed", count=2),))),
    _row("confirmed without a count", False, **_calls(_OK_1, entries=(_entry("confirmed"),))),
    _row("confirmed by two entries", True, **_calls(_OK_1, entries=(_entry("confirmed"), _entry("confirmed")))),
    _row("confirmed by two entries of two operations", False, **_calls(_OK_1, entries=(_entry("confirmed"), _entry("confirmed", operation_id="op-2")))),
    _row("confirmed by two entries without operation", False, **_calls(entries=(_entry("confirmed", operation_id=None), _entry("confirmed", operation_id=None)))),
    _row("ok twice under one key", False, **_calls(_OK_1, _write("ok", idempotency_key="k-1", attempt=2))),
    _row("ok twice under two keys", True, **_calls(_OK_1, _OK_2)),
    _row("ok twice without a key", True, **_calls(_write("ok"), _write("ok", attempt=2))),
    _row("ok twice under an empty key", True, **_calls(_write("ok", idempotency_key=""), _write("ok", idempotency_key="", attempt=2))),
    _row("ok twice, one without a key", True, **_calls(_OK_1, _write("ok", attempt=2))),
    _row("ok twice under two keys, confirmed once", True, **_calls(_OK_1, _OK_2, entries=(_entry("confirmed", count=1),))),
    _row("ok twice of two operations", False, **_calls(_OK_1, _OK_2 | {"operation_id": "op-2"})),
    _row("two reads", False, **_calls(_write("ok", access="read"), _write("ok", access="read", attempt=2))),
    _row("an effect counted zero times is still one", False, **_calls(_OK_1, entries=(_entry("confirmed", count=0),))),
]  # fmt: skip


@pytest.mark.parametrize(("duplicate", "parts"), DUPLICATES)
def test_duplicate(duplicate, parts):
    given = answer(**parts, completion={"claimed": True, "result": "satisfied"})
    assert ("duplicate_effect" in given["facts"]) is duplicate
    assert given["kind"] == ("human_queue" if duplicate else "completed")
    assert [owed["action"] for owed in given["obligations"]] == ["compensate"] * duplicate


# --- idempotency protection

_RETRY = {
    "fallback_id": "again",
    "version": "1",
    "source": "idempotent_retry",
    "triggers": ["timeout"],
    "access": "write",
    "operation_id": "op-1",
    "inputs_digest": "sha256:1f",
    "shares_failed_dependency": False,
    "uses_model_judgement": False,
    "preconditions_met": True,
}


def _keyed(*calls: Event, entries: tuple[Event, ...] = (), **retry: Any) -> Event:
    return _calls(*calls, entries=entries, fallbacks=[_RETRY | retry])


PROTECTED = [
    _row("one key, one attempt", True, **_keyed(_TIMEOUT)),
    _row("one key on both attempts", True, **_keyed(_TIMEOUT, _write("timeout", idempotency_key="k-1", attempt=2))),
    _row("a changed key", False, **_keyed(_TIMEOUT, _write("timeout", idempotency_key="k-2", attempt=2))),
    _row("a changed key on an attempt with proof", False, **_keyed(_TIMEOUT, _write("denied", idempotency_key="k-2", attempt=2))),
    _row("no key", False, **_keyed(_write("timeout"))),
    _row("an empty key", False, **_keyed(_write("timeout", idempotency_key=""))),
    _row("one of two without a key", False, **_keyed(_TIMEOUT, _write("timeout", attempt=2))),
    _row("preconditions that do not hold", False, **_keyed(_TIMEOUT, preconditions_met=False)),
    _row("preconditions that nobody states", False, **_keyed(_TIMEOUT, preconditions_met=None)),
    _row("a retry of another operation", False, **_keyed(_TIMEOUT, operation_id="op-2")),
    _row("a retry of no operation", False, **_keyed(_TIMEOUT, operation_id=None)),
    _row("another kind of fallback", False, **_keyed(_TIMEOUT, source="default")),
    _row("a second operation without protection", False, **_keyed(_TIMEOUT, _write("timeout", operation_id="op-2"))),
    _row("an entry without any attempt", False, **_keyed(entries=(_entry("ambiguous"),))),
    _row("an ambiguous entry of a keyed write", True, **_keyed(_TIMEOUT, entries=(_entry("ambiguous"),))),
]  # fmt: skip


@pytest.mark.parametrize(("protected", "parts"), PROTECTED)
def test_idempotency_protection(protected, parts):
    given = answer(**parts)
    assert "ambiguous_effect" in given["facts"]
    assert ("idempotency_protected" in given["facts"]) is protected
    expected = ("fallback", "dependency_timeout") if protected else ("human_queue", "ambiguous_side_effect")
    assert (given["kind"], given["reason_code"]) == expected
    assert {"action": "reconcile", "operation_id": "op-1"} in given["obligations"]


def test_a_protected_write_is_repeated_under_its_key():
    assert answer(**_keyed(_TIMEOUT))["envelope"]["idempotency_key"] == "k-1"


def test_protection_completes_nothing():
    given = answer(**_keyed(_TIMEOUT), completion={"claimed": True, "result": "satisfied"})
    assert given["kind"] == "fallback"
    assert "completed" in given["prohibited"]


# --- fences


def _fenced(token: int | None, outcome: str = "ok", own: int | None = 18, **more: Any) -> Event:
    return {"fencing_token": own, "tool_calls": [_write(outcome, fencing_token=token)]} | more


FENCES = [
    _row("an older token", True, False, **_fenced(17)),
    _row("the run's token", False, False, **_fenced(18)),
    _row("a newer token", False, False, **_fenced(19)),
    _row("no token", False, False, **_fenced(None)),
    _row("no token of the run", False, False, **_fenced(17, own=None)),
    _row("the takeover's is newer", True, False, **_fenced(18, takeover={"state": "RUNNING", "fencing_token": 19})),
    _row("the run's is newer", True, False, **_fenced(17, takeover={"state": "RUNNING", "fencing_token": 17})),
    _row("the takeover's alone", True, False, **_fenced(18, own=None, takeover={"state": "RUNNING", "fencing_token": 19})),
    _row("an older token on a write of unknown outcome", True, False, **_fenced(17, "timeout")),
    _row("an older token on a write turned away", False, True, **_fenced(17, "denied")),
    _row("an older token on a write not executed", False, True, **_fenced(17, "not_executed")),
    _row("an older token that the ledger says never started", False, True, **_fenced(17, "timeout", side_effects=[_entry("not_started")])),
    _row("an older token that nobody's word says never started", True, False, **_fenced(17, "timeout", side_effects=[_entry("not_started", "none")])),
    _row("an older token that one entry says never started, another that it was confirmed", True, False, **_fenced(17, "timeout", side_effects=[_entry("not_started"), _entry("confirmed")])),
    _row("an older token on a read", False, False, fencing_token=18, tool_calls=[_write("ok", access="read", fencing_token=17)]),
    _row("an older token, taken back", True, False, **_fenced(17, side_effects=[_entry("compensated")])),
]  # fmt: skip


@pytest.mark.parametrize(("crossed", "turned_away", "parts"), FENCES)
def test_fence(crossed, turned_away, parts):
    given = answer(**parts)
    assert ("fence_violation" in given["facts"]) is crossed
    assert ((given["kind"], given["reason_code"]) == ("human_queue", "fence_violation")) is crossed
    assert ("stale_write_rejected" in given["findings"]) is turned_away


# --- contradictions

CONTRADICTIONS = [
    _row("listed and open", True, contradictions=[{"subject": "total", "resolved": False}]),
    _row("listed, nobody says resolved", True, contradictions=[{"subject": "total"}]),
    _row("listed and resolved", False, contradictions=[{"subject": "total", "resolved": True}]),
    _row("one of two resolved", True, contradictions=[{"resolved": True}, {"resolved": False}]),
    _row("ok, and not started", True, **_calls(_write("ok"), entries=(_entry("not_started"),))),
    _row("ok, and not started by nobody's word", True, **_calls(_write("ok"), entries=(_entry("not_started", "none"),))),
    _row("ok, and another operation not started", False, **_calls(_write("ok"), entries=(_entry("not_started", operation_id="op-2"),))),
    _row("a read ok, and not started", False, **_calls(_write("ok", access="read"), entries=(_entry("not_started"),))),
    _row("confirmed, and the only attempt proven harmless", True, **_calls(_write("circuit_open"), entries=(_entry("confirmed"),))),
    _row("confirmed, and both attempts proven harmless", True, **_calls(_write("error", status_code=403), _write("timeout", effect_possible=False), entries=(_entry("confirmed"),))),
    _row("confirmed, and one attempt without proof", False, **_calls(_write("circuit_open"), _write("timeout"), entries=(_entry("confirmed"),))),
    _row("confirmed without any attempt", False, **_calls(entries=(_entry("confirmed"),))),
    _row("confirmed and ok", False, **_calls(_write("ok"), entries=(_entry("confirmed"),))),
    _row("confirmed and not started", False, **_calls(entries=(_entry("confirmed"), _entry("not_started")))),
    _row("confirmed and not started, after an attempt without proof", False, **_calls(_write("timeout"), entries=(_entry("not_started"), _entry("confirmed")))),
    _row("confirmed by nobody's word, and not started", False, **_calls(entries=(_entry("confirmed", "none"), _entry("not_started")))),
    _row("compensated and not started", False, **_calls(entries=(_entry("compensated"), _entry("not_started")))),
    _row("compensated and confirmed", False, **_calls(entries=(_entry("compensated"), _entry("confirmed")))),
    _row("not started twice", False, **_calls(entries=(_entry("not_started"), _entry("not_started")))),
    _row("confirmed, and another operation not started", False, **_calls(entries=(_entry("confirmed"), _entry("not_started", operation_id="op-2")))),
    _row("confirmed and not started, of no operation", False, **_calls(entries=(_entry("confirmed", operation_id=""), _entry("not_started", operation_id="")))),
    _row("behind a standing denial it is an obligation", False, **_calls(_write("denied"), entries=(_entry("confirmed"),)), policy_decisions=[{"source": "application", "operation_id": "op-1", "effect": "deny"}]),
]  # fmt: skip


@pytest.mark.parametrize(("contradicts", "parts"), CONTRADICTIONS)
def test_contradiction(contradicts, parts):
    assert ("contradiction" in facts(**parts)) is contradicts
    assert (exit_of(**parts) == ("human_queue", "contradictory_evidence")) is contradicts


# --- what is owed

_ASK = [{"source": "application", "operation_id": "op-1", "effect": "require_approval"}]
OWED = [
    _row("nothing for a clean write", [], **_calls(_write("ok"))),
    _row("a duplicate is compensated", ["compensate"], **_calls(_OK_1, _OK_2)),
    _row("an unapproved effect is compensated", ["compensate"], **_calls(_write("ok")), policy_decisions=_ASK),
    _row("an unapproved effect, taken back", [], **_calls(_write("ok"), entries=(_entry("compensated"),)), policy_decisions=_ASK),
    _row("an unapproved effect, one of two taken back", ["compensate"], **_calls(_write("ok"), entries=(_entry("compensated"), _entry("confirmed"))), policy_decisions=_ASK),
    _row("a write across the fence is compensated", ["compensate"], **_fenced(17)),
    _row("a write across the fence, taken back", [], **_fenced(17, side_effects=[_entry("compensated")])),
    _row("an unknown write across the fence is reconciled and compensated", ["reconcile", "compensate"], **_fenced(17, "timeout")),
    _row("a protected write is still reconciled", ["reconcile"], **_keyed(_TIMEOUT)),
    _row("an ambiguous and duplicate one is both", ["reconcile", "compensate"], **_calls(_OK_1, _OK_2, _write("timeout", idempotency_key="k-3"))),
]  # fmt: skip


@pytest.mark.parametrize(("owed", "parts"), OWED)
def test_what_is_owed(owed, parts):
    assert answer(**parts)["obligations"] == [{"action": action, "operation_id": "op-1"} for action in owed]


def test_what_is_owed_is_ordered_by_operation():
    owed = answer(**_calls(_write("timeout", operation_id="b"), _write("timeout", operation_id="a")))["obligations"]
    assert [obligation["operation_id"] for obligation in owed] == ["a", "b"]


# --- findings and records

FINDINGS = [
    _row("keys that differ", "idempotency_key_changed", True, **_calls(_OK_1, _OK_2)),
    _row("a key that goes missing", "idempotency_key_changed", True, **_calls(_OK_1, _write("ok", attempt=2))),
    _row("one key", "idempotency_key_changed", False, **_calls(_OK_1, _write("ok", idempotency_key="k-1"))),
    _row("never a key", "idempotency_key_changed", False, **_calls(_write("ok"), _write("ok"))),
    _row("an outcome that nothing established", "unverified_ledger_entry", True, **_calls(_TIMEOUT, entries=(_entry("confirmed", "none"),))),
    _row("an outcome that a lookup established", "unverified_ledger_entry", False, **_calls(_TIMEOUT, entries=(_entry("confirmed"),))),
]  # fmt: skip


@pytest.mark.parametrize(("code", "found", "parts"), FINDINGS)
def test_finding(code, found, parts):
    assert (code in answer(**parts)["findings"]) is found


RECORDS = [
    _row("an ok write", "confirmed", **_calls(_write("ok"))),
    _row("a write of unknown fate", "ambiguous", **_calls(_write("timeout"))),
    _row("a write turned away", "not_started", **_calls(_write("denied"))),
    _row("a write taken back", "compensated", **_calls(_write("ok"), entries=(_entry("compensated"),))),
    _row("a write confirmed by nobody", "ambiguous", **_calls(_write("timeout"), entries=(_entry("confirmed", "none"),))),
]  # fmt: skip


@pytest.mark.parametrize(("status", "parts"), RECORDS)
def test_side_effect_record(status, parts):
    given = answer(**parts, children=[{"state": "running"}])
    assert given["envelope"]["side_effects"] == [{"operation_id": "op-1", "tool": "pay", "status": status}]
