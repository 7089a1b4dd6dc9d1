"""Evidence gaps: missing fields that stand between a run and a better exit.

A gap names its subject and field; ``path`` and ``best`` say what value the field would need, so that `validate` and
`explain` can ask what exit the event would have earned with it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from classifier.change import Path, changed
from classifier.effects import is_verified
from classifier.fact import Event
from classifier.handover import NEEDED_BY_SOURCE, is_omitted, serves
from classifier.paths import Failure
from classifier.view import View


@dataclass(frozen=True)
class GapKind:
    """A kind of gap: the record that lacks a field, and what the field would show."""

    code: str
    meaning: str


class Gap(NamedTuple):
    """One missing field of one event. ``best`` is a value with which it would no longer be missing."""

    kind: GapKind
    subject: str
    field: str
    path: Path
    best: Any

    @property
    def text(self) -> str:
        """The gap as classifications list it: subject, colon, field, ``missing``."""
        return f"{self.subject}: {self.field} missing"

    def filled(self, event: Event) -> Event:
        """The event with the field filled in; the event given is not touched."""
        return changed(event, self.path, self.best)


FALLBACK = GapKind("fallback", "a fallback that fits the failure is not eligible, or not known to be")
OMISSION = GapKind("component", "an omitted component does not say whether it can change the result")
NO_COMPONENT = GapKind("optional_failure", "an optional call failed and no component says what is missing")
LEDGER = GapKind("side_effect", "nothing settles an attempted mutation")
ACCESS = GapKind(
    "tool_call",
    "a call that says too little counts as a write, as required, or as one that nobody knows the outcome of",
)
APPROVAL = GapKind("approval", "a grant does not say by whom or when, so it grants nothing")
DECISION = GapKind("policy_decision", "a decision without effect, source or time cannot allow or lift anything")
STOP = GapKind("model", "a model block without a stop class is no end")
PREDICATE = GapKind("completion", "a claim of completion that nobody evaluated is not verified")
TAKEOVER = GapKind("takeover", "a takeover without a state counts as taken over")
CHILD = GapKind("child", "a delegated run without a state may still run")
KINDS: tuple[GapKind, ...] = (
    FALLBACK,
    OMISSION,
    NO_COMPONENT,
    LEDGER,
    ACCESS,
    APPROVAL,
    DECISION,
    STOP,
    PREDICATE,
    TAKEOVER,
    CHILD,
)

_UNNAMED = "without a name"

_BEST_FOR_FALLBACK: dict[str, Any] = {
    "version": "1",
    "inputs_digest": "sha256:0",
    "ruleset_version": "1",
    "reference_data_version": "1",
    "origin": "origin",
    "preconditions_met": True,
    "shares_failed_dependency": False,
    "uses_model_judgement": False,
    "disclosed": True,
    "access": "read",
}
_BEST_FOR_CALL: tuple[tuple[str, Any], ...] = (("access", "read"), ("required", False), ("outcome", "ok"))


def of(view: View) -> list[Gap]:
    """The gaps of an event that stand between it and a better exit, sorted by text, each once.

    Behind a standing denial only what the policies left out could matter.
    """
    event = view.event
    if view.policy.denials:
        return _once(_policy_gaps(event))
    found: list[Gap] = []
    if event["fallbacks"]:
        found += _fallback_gaps(view)
    if event["components"] or view.paths.optional_failures:
        found += _component_gaps(view)
    if view.effects.operations:
        found += _effect_gaps(view)
    if view.paths.any_attempt:
        found += _call_gaps(event)
    if event["policy_decisions"]:
        found += _policy_gaps(event)
    found += _run_gaps(event)
    return _once(found)


def _once(found: list[Gap]) -> list[Gap]:
    if len(found) > 1:
        return list({gap.text: gap for gap in sorted(found, key=lambda gap: (gap.text, str(gap.path)))}.values())
    return found


def _fallback_gaps(view: View) -> Iterator[Gap]:
    failures = view.paths.any_attempt + view.paths.run_failures
    for index, fallback in enumerate(view.event["fallbacks"]):
        if _fits(fallback, failures) and not view.fallbacks.is_eligible(fallback):
            subject = f"fallback {fallback['fallback_id'] or fallback['source']}"
            for field in _missing_in_fallback(fallback):
                best = _best_for_fallback(field, view.event)
                yield Gap(FALLBACK, subject, field, ("fallbacks", index, field), best)


def _fits(fallback: Event, failures: list[Failure]) -> bool:
    return fallback["applied"] is True or serves(fallback, failures)


def _missing_in_fallback(fallback: Event) -> list[str]:
    fields = ["version", "inputs_digest", *NEEDED_BY_SOURCE.get(fallback["source"], ()), "preconditions_met"]
    fields += ["shares_failed_dependency", "uses_model_judgement", "access"]
    if fallback["applied"] is True:
        fields.append("disclosed")
    return [field for field in fields if fallback[field] in (None, "")]


def _best_for_fallback(field: str, event: Event) -> Any:
    if field == "observed_at":
        return event["occurred_at"]
    return 86_400 if field == "max_age_s" else _BEST_FOR_FALLBACK[field]


def _component_gaps(view: View) -> Iterator[Gap]:
    components = view.event["components"]
    for index, component in enumerate(components):
        if is_omitted(component) and component["can_change_result"] in (None, "unknown"):
            subject = f"component {component['name'] or _UNNAMED}"
            yield Gap(OMISSION, subject, "can_change_result", ("components", index, "can_change_result"), "no")
    if not any(is_omitted(component) for component in components):
        for call in view.paths.optional_failures:
            subject = f"tool_call {call['call_id'] or call['tool'] or _UNNAMED}"
            yield Gap(NO_COMPONENT, subject, "component", ("components", 0), _component_for(call))


def _component_for(call: Event) -> Event:
    return {
        "name": call["tool"],
        "required": False,
        "state": "omitted",
        "reason_code": call["outcome"],
        "retryable": True,
        "can_change_result": "no",
    }


def _effect_gaps(view: View) -> Iterator[Gap]:
    entries = view.event["side_effects"]
    for operation in view.effects.operations:
        if not operation.ambiguous:
            continue
        subject = f"side_effect {operation.id or operation.tool or _UNNAMED}"
        for entry in operation.entries:
            if entry["status"] not in (None, "ambiguous", "unknown") and not is_verified(entry):
                index = next(i for i, other in enumerate(entries) if other is entry)
                yield Gap(LEDGER, subject, "verified_by", ("side_effects", index, "verified_by"), "status_lookup")
        if not operation.entries:
            settled: Event = {"operation_id": operation.id, "tool": operation.tool, "status": "not_started"}
            settled |= {"target": None, "reversible": None, "count": 1, "verified_by": "status_lookup"}
            yield Gap(LEDGER, subject, "ledger entry", ("side_effects", len(entries)), settled)


def _call_gaps(event: Event) -> list[Gap]:
    found: list[Gap] = []
    for index, call in enumerate(event["tool_calls"]):
        if call["outcome"] == "ok":
            continue
        for field, best in _BEST_FOR_CALL:
            if call[field] in (None, "unknown"):
                subject = f"tool_call {call['call_id'] or call['tool'] or _UNNAMED}"
                found.append(Gap(ACCESS, subject, field, ("tool_calls", index, field), best))
    return found


def _policy_gaps(event: Event) -> list[Gap]:
    found: list[Gap] = []
    decisions: list[Event] = event["policy_decisions"]
    denied = any(d["effect"] == "deny" for d in decisions)
    for index, decision in enumerate(decisions):
        missing = _missing_in_decision(decision, event["occurred_at"], beside_denial=denied)
        if missing:
            subject = f"policy_decision {decision['decision_id'] or decision['policy_id'] or _UNNAMED}"
            found += [
                Gap(DECISION, subject, field, ("policy_decisions", index, field), best) for field, best in missing
            ]
        approval = decision["approval"]
        if approval and approval["state"] == "granted":
            subject = f"approval of policy_decision {decision['decision_id'] or decision['policy_id'] or _UNNAMED}"
            path: Path = ("policy_decisions", index, "approval")
            missing = [("approver", "approver"), ("resolved_at", decision["decided_at"] or 0)]
            found += [Gap(APPROVAL, subject, f, (*path, f), best) for f, best in missing if approval[f] in (None, "")]
    return found


def _missing_in_decision(decision: Event, occurred_at: int, *, beside_denial: bool) -> list[tuple[str, Any]]:
    effect = decision["effect"]
    if effect in (None, "unknown"):
        return [("effect", "allow")]
    if effect != "allow":
        return []
    missing: list[tuple[str, Any]] = [("source", "application")] if decision["source"] in (None, "unknown") else []
    if beside_denial and decision["decided_at"] is None:
        missing.append(("decided_at", occurred_at))
    return missing


def _run_gaps(event: Event) -> list[Gap]:
    found = []
    model, completion, takeover = event["model"], event["completion"], event["takeover"]
    if model and model["stop_class"] is None:
        found.append(Gap(STOP, "model", "stop_class", ("model", "stop_class"), "end"))
    if completion and completion["claimed"] is True and completion["result"] in (None, "not_evaluated"):
        found.append(_UNEVALUATED)
    if takeover and takeover["state"] in (None, "UNKNOWN"):
        found.append(Gap(TAKEOVER, "takeover", "state", ("takeover", "state"), "CLOSED"))
    for index, child in enumerate(event["children"]):
        if child["state"] in (None, "unknown"):
            subject = f"child {child['run_id'] or _UNNAMED}"
            found.append(Gap(CHILD, subject, "state", ("children", index, "state"), "stopped"))
    return found


_UNEVALUATED = Gap(PREDICATE, "completion", "result", ("completion", "result"), "satisfied")
