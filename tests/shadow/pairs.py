"""A small history of which every number in a report can be counted by hand."""

from typing import Any

HOSTILE = '<b>"odd"</b>\n=1+1'
"""A label that is markup, has quotes and a line break, and would be a formula in a spreadsheet."""

MAPPING = """
id = "test"
version = "7"

[[rules]]
label = "ok"
kind = "completed"

[[rules]]
label = "ticket"
kind = "human_queue"

[[rules]]
label = "refused"
kind = "refusal"

[[rules]]
label = "boom"
kind = "error"
"""


def event(name: str, hour: int, agent: str = "buyer", **fields: Any) -> dict[str, Any]:
    return {
        "type": "terminal_event", "version": 1, "event_id": f"ev-{name}", "run_id": f"run-{name}", "tenant": "acme",
        "agent_id": agent, "agent_version": "1", "workflow": "pay", "occurred_at": f"2026-03-01T{hour:02}:00:00Z",
        **fields,
    }  # fmt: skip


def completed(name: str, hour: int, **fields: Any) -> dict[str, Any]:
    return event(name, hour, completion={"claimed": True, "result": "satisfied"}, **fields)


def denied(name: str, hour: int) -> dict[str, Any]:
    decision = {"decision_id": "d", "policy_id": "p", "source": "application", "effect": "deny", "reason_code": "limit"}
    return event(name, hour, policy_decisions=[decision])


def ambiguous(name: str, hour: int) -> dict[str, Any]:
    call = {"call_id": "c", "operation_id": "o", "tool": "pay", "access": "write", "required": True,
            "outcome": "timeout"}  # fmt: skip
    return event(name, hour, tool_calls=[call])


def partial(name: str, hour: int) -> dict[str, Any]:
    whole = {"name": "base", "required": True, "state": "completed"}
    omitted = {
        "name": "extra",
        "required": False,
        "state": "omitted",
        "reason_code": "timeout",
        "can_change_result": "no",
    }
    return event(name, hour, components=[whole, omitted])


def said(name: str, label: str, **fields: Any) -> dict[str, Any]:
    return {"type": "legacy_exit", "version": 1, "record_id": f"legacy-{name}", "tenant": "acme",
            "event_id": f"ev-{name}", "dispatcher": "old", "label": label, **fields}  # fmt: skip


def did(name: str, action: str) -> dict[str, Any]:
    return {"type": "recovery_action", "version": 1, "record_id": f"did-{name}", "tenant": "acme",
            "event_id": f"ev-{name}", "action": action, "at": "2026-03-02T00:00:00Z"}  # fmt: skip


EVENTS = [
    completed("c1", 0), completed("c2", 1), completed("c3", 2), completed("c4", 3),
    denied("r1", 8), denied("r2", 9), ambiguous("a1", 10), partial("p1", 11),
    completed("u1", 12), completed("m1", 13, agent="loner"),
]  # fmt: skip
COMPANIONS = [
    # agree: c1, c2, r2
    said("c1", "ok"), said("c2", "ok"), said("r2", "refused"),
    # over_escalation, success_lost, denial_retried, ambiguity_concealed, incompleteness_concealed
    said("c3", "ticket"), said("c4", "boom"), said("r1", "boom"), said("a1", "ok"), said("p1", "ok"),
    # no rule for the label; no event; and m1 has no legacy exit
    said("u1", HOSTILE), said("ghost", "ok", decided_at="2026-03-01T05:30:00Z"),
    # contradicts the refusal, supports the refusal, supports the hand-off
    did("r1", "approved"), did("r2", "rejected"), did("a1", "reconciled"),
    {"type": "enrichment", "version": 1, "record_id": "late", "tenant": "acme", "event_id": "ev-p1",
     "component": "extra", "state": "completed", "reverses_result": True, "at": "2026-03-02T00:00:00Z"},
]  # fmt: skip
