"""An event for given facts: the counter-example of a proof as a terminal event that anybody can classify.

One block of evidence per fact, none of which says anything about another fact where it can be helped. Whether the event
has exactly the facts asked for is not trusted to the blocks: it is read off the event.
"""

from typing import Any

from classifier.fact import Event
from classifier.facts import BY_NAME
from classifier.run import Thresholds
from classifier.view import View
from schemas.events import TerminalEvent

_Record = dict[str, Any]

_OCCURRED_AT = "2026-01-01T12:00:00Z"
_DENIED_AT, _LIFTED_AT = "2026-01-01T11:00:00Z", "2026-01-01T11:30:00Z"
_NEWEST_TOKEN, _OLD_TOKEN = 2, 1


def event_for(bits: int, thresholds: Thresholds) -> Event | None:
    """A terminal event in memory form that has exactly these facts.

    None if there is none: the facts exclude each other, or need a confidence that the thresholds leave no room for.
    Equal facts give equal events; ``event_id`` names them.
    """
    event = TerminalEvent.model_validate(_Facts(bits, thresholds).event()).model_dump()
    return event if View(event, thresholds).bits == bits else None


class _Facts:
    """The facts asked for, and the evidence for each."""

    def __init__(self, bits: int, thresholds: Thresholds) -> None:
        self._bits, self._thresholds = bits, thresholds

    def __contains__(self, name: str) -> bool:
        return bool(self._bits & BY_NAME[name].bit)

    def event(self) -> _Record:
        """The event as its producer would write it, without what is absent."""
        parts = {
            "fencing_token": _NEWEST_TOKEN if "fence_violation" in self else None,
            "model": self._model(),
            "policy_decisions": self._decisions(),
            "tool_calls": [*self._writes(), *self._required_reads(), *self._optional_reads()],
            "side_effects": self._ledger(),
            "fallbacks": self._fallbacks(),
            "components": self._components(),
            "decision": {"asserted": True, "required_checks": ["check"]} if "unsupported_decision" in self else None,
            "contradictions": [{"subject": "amount"}] if "contradiction" in self else [],
            "budget": {"exhausted": ["turns"]} if "budget_exhausted" in self else None,
            "steps": self._steps(),
            "completion": self._completion(),
            "takeover": {"state": "HUMAN_CONTROL"} if "taken_over" in self else None,
            "children": [{"run_id": "child", "state": "running"}] if "child_run_open" in self else [],
        }
        return self._identity() | {name: part for name, part in parts.items() if part}

    def _identity(self) -> _Record:
        name = f"facts-{self._bits:x}"
        own = {"event_id": name, "run_id": name, "tenant": "example", "agent_id": "example-agent"}
        return {"type": "terminal_event", "version": 1, "occurred_at": _OCCURRED_AT} | own

    def _model(self) -> _Record:
        stops = {"stopped_normally": "end", "nonterminal_stop": "paused"} | _STOP_OF_FAILURE
        stop = next((stop for fact, stop in stops.items() if fact in self), "cancelled")
        return {"stop_class": stop} | ({"output_tokens": 0} if "empty_response" in self else {})

    # --- policy

    def _decisions(self) -> list[_Record]:
        found = [decision for fact, decision in _DECISION_OF.items() if fact in self]
        return [*found, *_DENIED_THEN_ALLOWED] if "unapproved_effect" in self else found

    # --- effects

    def _writes(self) -> list[_Record]:
        """One write at most: it carries what needs an attempt, and the ledger carries the rest."""
        if "write_attempted" not in self:
            return []
        write = {"operation_id": "write", "access": "write", "required": False, "outcome": self._outcome_of_write()}
        key = {"idempotency_key": "key"} if "idempotency_protected" in self else {}
        token = {"fencing_token": _OLD_TOKEN} if "fence_violation" in self else {}
        return [write | key | token]

    def _outcome_of_write(self) -> str:
        if "effect_took_place" in self and "idempotency_protected" not in self:
            return "ok"
        return "unknown" if "ambiguous_effect" in self else "not_executed"

    def _ledger(self) -> list[_Record]:
        confirmed: _Record = {"status": "confirmed", "verified_by": "read_back"}
        entries: list[_Record] = []
        if "effect_took_place" in self:
            entries.append(confirmed | {"operation_id": "effect"})
        if "ambiguous_effect" in self and "idempotency_protected" not in self:
            entries.append({"operation_id": "open", "status": "ambiguous"})
        if "duplicate_effect" in self:
            entries.append(confirmed | {"operation_id": "twice", "count": 2})
        if "unapproved_effect" in self:
            entries.append(confirmed | {"operation_id": _UNAPPROVED})
        return entries

    # --- paths

    def _required_reads(self) -> list[_Record]:
        """Reads that failed, each a path of its own. A failure that no fallback can serve stands only where there is no
        other, since it would keep fallbacks from being ready."""
        outcomes = [outcome for fact, outcome in _OUTCOME_OF_FAILURE.items() if fact in self]
        if "required_path_failed" in self and not outcomes:
            outcomes = ["denied"]
        status = {"status_code": 403} if "authority_missing" in self else {}
        return [{"access": "read", "required": True, "outcome": outcome} | status for outcome in outcomes]

    def _optional_reads(self) -> list[_Record]:
        """What an applied fallback served, where nothing else failed."""
        if "eligible_fallback_applied" not in self or self._failures():
            return []
        return [{"access": "read", "required": False, "outcome": "timeout"}]

    def _failures(self) -> list[str]:
        """What fallbacks may be triggered by."""
        found = [trigger for fact, trigger in _OUTCOME_OF_FAILURE.items() if fact in self]
        return found + [fact for fact in ("truncated", "model_declined", "budget_exhausted") if fact in self]

    # --- what is handed over

    def _fallbacks(self) -> list[_Record]:
        eligible = _ELIGIBLE | {"triggers": self._failures() or ["timeout"]}
        found = []
        if "eligible_fallback_applied" in self:
            found.append(eligible | {"fallback_id": "applied", "applied": True, "disclosed": True})
        if "ineligible_fallback_applied" in self:
            found.append({"fallback_id": "ineligible", "applied": True, "disclosed": True})
        if "eligible_fallback_ready" in self:
            found.append(eligible | {"fallback_id": "ready", "applied": False})
        if "idempotency_protected" in self:
            retry = {"source": "idempotent_retry", "operation_id": "write", "preconditions_met": True}
            found.append(retry | {"fallback_id": "retry", "applied": False})
        return found

    def _components(self) -> list[_Record]:
        if "omission" not in self:
            return []
        omitted = {
            "name": "omitted",
            "state": "omitted",
            "required": "required_omission" in self,
            "can_change_result": "yes" if "omission_may_change_result" in self else "no",
        }
        return [omitted, {"name": "done", "state": "completed"}] if "safe_partial" in self else [omitted]

    # --- the run

    def _completion(self) -> _Record:
        claimed = {"claimed": True} if "completion_claimed" in self else {}
        results = [result for result in ("satisfied", "unsatisfied", "unverifiable") if f"predicate_{result}" in self]
        return claimed | ({"result": results[0]} if results else {})

    def _steps(self) -> list[_Record]:
        """The steps of a run; all the same where there was no progress, and sure until the last where it fell."""
        same = {"action_key": "same"} if "no_progress" in self else {}
        sure = {"confidence_after": 1.0} if "confidence_declining" in self else {}
        before = max(self._thresholds.repeats - 1 if same else 0, 2 if sure else 0)
        last = same | self._last_step()
        return [same | sure] * before + [last] if last else []

    def _last_step(self) -> _Record:
        step: _Record = {"checks": {"check": 0.0}} if "result_confidence_low" in self else {}
        if "confidence_below_floor" in self:
            step["confidence_after"] = 0.0
        elif "confidence_declining" in self:
            step["confidence_after"] = float(self._thresholds.floor)
        return step


_UNAPPROVED = "unapproved"
_DENIAL = {"state": "denied", "approver": "person", "resolved_at": _DENIED_AT}
_DENIED_THEN_ALLOWED = (
    {"policy_id": "limits", "source": "guardrail", "operation_id": _UNAPPROVED, "effect": "require_approval",
     "decided_at": _DENIED_AT, "approval": _DENIAL},
    {"policy_id": "limits", "source": "guardrail", "operation_id": _UNAPPROVED, "effect": "allow",
     "decided_at": _LIFTED_AT},
)  # fmt: skip
"""An approval that was answered with no, and the no lifted: so an effect is unapproved while no denial stands and no
approval is needed."""

_DECISION_OF: dict[str, _Record] = {
    "standing_denial": {"policy_id": "denier", "source": "application", "effect": "deny", "reason_code": "denied"},
    "approval_needed": {"source": "application", "operation_id": "asked", "effect": "require_approval"},
    "policy_unavailable": {"policy_id": "absent", "source": "application", "effect": "unavailable"},
    "request_allowed": {"policy_id": "allower", "source": "application", "effect": "allow"},
}
_STOP_OF_FAILURE = {"truncated": "truncated", "model_declined": "refused"}
_OUTCOME_OF_FAILURE = {"dependency_failed": "error", "malformed_observation": "malformed"}
_ELIGIBLE: _Record = {
    "version": "1",
    "source": "default",
    "access": "read",
    "inputs_digest": "sha256:0",
    "preconditions_met": True,
    "shares_failed_dependency": False,
    "uses_model_judgement": False,
}
