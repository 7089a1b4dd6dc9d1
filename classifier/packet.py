"""The review packet: what a reviewer needs to act, and how much of it is there."""

from collections.abc import Callable
from typing import Any

from classifier import envelope
from classifier.effects import Operation, is_verified
from classifier.fact import Event
from classifier.table import Table, Verdict
from classifier.view import View

_MUTATION_ORDER = {"confirmed": 0, "ambiguous": 1, "compensated": 2, "not_started": 3}

Needed = Callable[[View], bool]


def _has_request(view: View) -> bool:
    request = view.event["request"]
    return bool(request) and bool(request["request_ref"] or request["goal"])


def _has_actor(view: View) -> bool:
    request = view.event["request"]
    return bool(request) and bool(request["actor"])


def _has_permissions(view: View) -> bool:
    request = view.event["request"]
    return bool(request) and bool(request["delegated_permissions"])


def _has_versioned_decisions(view: View) -> bool:
    return all(d["policy_id"] and d["policy_version"] for d in view.event["policy_decisions"])


def _has_outputs(view: View) -> bool:
    failed = [c for c in view.event["tool_calls"] if c["outcome"] != "ok"]
    return all(c["response"] or c["error_class"] or c["status_code"] is not None for c in failed)


def _has_identified_mutations(view: View) -> bool:
    return all(op.id is not None and op.tool for op in view.effects.operations)


def _has_arguments(view: View) -> bool:
    return all(any(w["arguments"] for w in op.writes) for op in view.effects.operations if op.writes)


def _has_targets(view: View) -> bool:
    return all(any(e["target"] for e in op.entries) for op in view.effects.operations)


def _has_stop(view: View) -> bool:
    model = view.event["model"]
    return model is None or model["stop_class"] not in (None, "unknown")


def _has_trace(view: View) -> bool:
    return bool(view.event["trace_id"])


NEEDED: dict[str, Needed] = {
    "request": _has_request,
    "actor": _has_actor,
    "permissions": _has_permissions,
    "policy_versions": _has_versioned_decisions,
    "tool_outputs": _has_outputs,
    "mutation_identity": _has_identified_mutations,
    "mutation_arguments": _has_arguments,
    "mutation_targets": _has_targets,
    "stop": _has_stop,
    "trace": _has_trace,
}
"""What a reviewer needs, and whether a packet would have it. What does not apply counts as there."""


def completeness(view: View) -> float:
    """Share of what a reviewer needs that is there, 0 to 1."""
    return sum(has(view) for has in NEEDED.values()) / len(NEEDED)


def build(view: View, verdict: Verdict, reason: str, table: Table) -> dict[str, Any]:
    """The review packet of an event, in the shape of :class:`schemas.exits.ReviewPacket`."""
    name, queue = envelope.queue_of(verdict, table)
    event = view.event
    request = event["request"] or {}
    return {
        "review_packet_id": envelope.review_packet_id(view),
        "event_id": event["event_id"],
        "queue": name,
        "owner": queue.owner,
        "reason_code": reason,
        "request_ref": request.get("request_ref"),
        "goal": request.get("goal"),
        "request_text": request.get("prose"),
        "actor": request.get("actor"),
        "permissions": request.get("delegated_permissions", []),
        "policy_decisions": [_decision(d) for d in event["policy_decisions"]],
        "tool_outputs": [_output(c) for c in event["tool_calls"]],
        "mutations": [_mutation(op) for op in _mutations_in_order(view)],
        "obligations": view.obligations(),
        "confirmed": _confirmed(view),
        "proposed": _proposed(event),
        "allowed_decisions": list(queue.allowed_decisions),
        "deadline": queue.due(event["occurred_at"]),
        "completeness": completeness(view),
        "missing": [name for name, has in NEEDED.items() if not has(view)],
    }


def _mutations_in_order(view: View) -> list[Operation]:
    """Committed first, then unknown, then safely ended."""
    return sorted(view.effects.operations, key=lambda op: (_MUTATION_ORDER[op.status], op.id or "", op.tool or ""))


def _mutation(operation: Operation) -> dict[str, Any]:
    entry = operation.entries[0] if operation.entries else {}
    return {
        "operation_id": operation.id,
        "tool": operation.tool,
        "status": operation.status,
        "target": entry.get("target"),
        "reversible": entry.get("reversible"),
        "verified_by": entry.get("verified_by"),
        "arguments": [w["arguments"] for w in operation.writes if w["arguments"]],
    }


def _decision(decision: Event) -> dict[str, Any]:
    fields = ("policy_id", "policy_version", "source", "operation_id", "effect", "reason_code", "decided_at")
    approval = decision["approval"]
    return {name: decision[name] for name in fields} | {"approval_state": approval["state"] if approval else None}


def _output(call: Event) -> dict[str, Any]:
    return {name: call[name] for name in ("tool", "operation_id", "outcome", "error_class", "status_code", "response")}


def _confirmed(view: View) -> list[str]:
    """What something other than the agent's own word established."""
    found = [
        f"{op.tool or 'mutation'} {op.id or ''} took effect ({entry['verified_by']})".replace("  ", " ")
        for op in view.effects.operations
        for entry in op.entries
        if entry["status"] == "confirmed" and is_verified(entry)
    ]
    found += [f"{c['tool'] or 'call'} returned ok" for c in view.event["tool_calls"] if c["outcome"] == "ok"]
    found += [f"component {c['name']} is completed" for c in view.event["components"] if c["state"] == "completed"]
    completion = view.event["completion"]
    if completion and completion["result"] in ("satisfied", "unsatisfied"):
        found.append(f"predicate {completion['predicate_id'] or ''} is {completion['result']}".replace("  ", " "))
    return sorted(set(found))


def _proposed(event: Event) -> list[str]:
    """What rests on the agent's own word."""
    found = []
    if event["completion"] and event["completion"]["claimed"] is True:
        found.append("the agent claims completion")
    if event["decision"] and event["decision"]["asserted"] is True:
        found.append(f"the agent asserts the decision {event['decision']['value'] or ''}".strip())
    return found
