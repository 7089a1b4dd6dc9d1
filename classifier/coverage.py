"""How much of the evidence that exits rest on producers deliver: what is asked, of what, and what it is good for."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from classifier.fact import Event

_UNKNOWN = (None, "", "none", "unknown", "UNKNOWN")


class Measure(NamedTuple):
    """One question about an event: of all records that ``of`` yields, which have it.

    ``evidence`` names the field, ``asked`` the records, ``good_for`` what the evidence earns.
    """

    evidence: str
    asked: str
    good_for: str
    of: Callable[[Event], list[Event]]
    has: Callable[[Event], bool]


def measured(event: Event) -> Iterator[tuple[Measure, int, int]]:
    """For each measure: how many records of the event have it, and how many were asked."""
    for measure in MEASURES:
        asked = measure.of(event)
        yield measure, sum(map(measure.has, asked)), len(asked)


def _event(event: Event) -> list[Event]:
    return [event]


def _event_with_write(event: Event) -> list[Event]:
    return [event] if _writes(event) else []


def _event_with_failure(event: Event) -> list[Event]:
    return [event] if any(call["outcome"] != "ok" for call in event["tool_calls"]) else []


def _decisions(event: Event) -> list[Event]:
    decisions: list[Event] = event["policy_decisions"]
    return decisions


def _calls(event: Event) -> list[Event]:
    calls: list[Event] = event["tool_calls"]
    return calls


def _writes(event: Event) -> list[Event]:
    return [call for call in _calls(event) if call["access"] != "read"]


def _entries(event: Event) -> list[Event]:
    entries: list[Event] = event["side_effects"]
    return entries


def _omitted(event: Event) -> list[Event]:
    return [component for component in event["components"] if component["state"] != "completed"]


def _has(*path: str) -> Callable[[Event], bool]:
    """Whether a field of a record, or of a block in it, says something. Absent, unknown and none say nothing."""

    def has(record: Event) -> bool:
        value = record
        for name in path:
            value = value[name] if value else {}
        return bool(value) if isinstance(value, list) else value not in (*_UNKNOWN, {})

    return has


def _evaluated(event: Event) -> bool:
    completion = event["completion"]
    return bool(completion) and completion["result"] in ("satisfied", "unsatisfied")


MEASURES = (
    Measure("request.actor", "events", "a review packet that names who asked", _event, _has("request", "actor")),
    Measure("model.stop_class", "events", "an end that is known to be one", _event, _has("model", "stop_class")),
    Measure("completion.result", "events", "verified completions", _event, _evaluated),
    Measure("policy_decisions", "events", "refusals, approvals", _event, _has("policy_decisions")),
    Measure("policy_decisions[].source", "decisions", "an allow that counts", _decisions, _has("source")),
    Measure("policy_decisions[].decided_at", "decisions", "denials that can be lifted", _decisions, _has("decided_at")),
    Measure("tool_calls", "events", "everything about effects", _event, _has("tool_calls")),
    Measure("tool_calls[].access", "calls", "reads that count as reads", _calls, _has("access")),
    Measure("tool_calls[].outcome", "calls", "knowing what failed", _calls, _has("outcome")),
    Measure("tool_calls[].started_at", "calls", "telling before from after", _calls, _has("started_at")),
    Measure("tool_calls[].operation_id", "writes", "attempts that belong together", _writes, _has("operation_id")),
    Measure("tool_calls[].idempotency_key", "writes", "retries that are safe", _writes, _has("idempotency_key")),
    Measure("side_effects", "events with writes", "settled effects", _event_with_write, _has("side_effects")),
    Measure("side_effects[].verified_by", "ledger entries", "entries that settle", _entries, _has("verified_by")),
    Measure("fallbacks", "events with failures", "fallbacks", _event_with_failure, _has("fallbacks")),
    Measure("components", "events", "partial results", _event, _has("components")),
    Measure("components[].can_change_result", "omissions", "partial results", _omitted, _has("can_change_result")),
    Measure("steps", "events", "no progress, low confidence", _event, _has("steps")),
    Measure("budget", "events", "knowing that a budget ended it", _event, _has("budget")),
    Measure("trace_id", "events", "a review packet that leads to the trace", _event, _has("trace_id")),
)
"""What is measured, in the order in which it is shown."""
