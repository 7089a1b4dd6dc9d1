"""The exit envelope: what a dispatcher acts on, machine-readable, one shape per kind."""

import hashlib
from typing import Any

from classifier import wording
from classifier.handover import is_omitted
from classifier.table import Table, Verdict
from classifier.view import View
from schemas.canonical import encode_json

RETRY = {
    "refusal": "never",
    "fallback": "same_identity",
    "partial": "enrich_only",
    "human_queue": "after_decision",
}
"""What a caller may do after each kind of exit."""

EFFECTS_QUEUE = "effects"
"""Queue that owns obligations of exits that are no human_queue, where the table has it; else the last row's."""


def build(view: View, verdict: Verdict, reason: str, table: Table) -> dict[str, Any] | None:
    """The envelope of a classification, in the shape of :mod:`schemas.exits`; None for a completed run."""
    parts = _PARTS.get(verdict.kind)
    if parts is None:
        return None
    envelope: dict[str, Any] = {"kind": verdict.kind, "reason_code": reason}
    envelope |= parts(view, verdict, reason, table)
    envelope["retry"] = RETRY[verdict.kind]
    envelope["side_effects"] = side_effects(view)
    return envelope


def side_effects(view: View) -> list[dict[str, str | None]]:
    """What is known of each attempted mutation, by operation."""
    operations = sorted(view.effects.operations, key=lambda op: (op.id or "", op.tool or "", op.status))
    return [{"operation_id": op.id, "tool": op.tool, "status": op.status} for op in operations]


def review_packet_id(view: View) -> str:
    """Identity of the event's review packet: one per event, the same at every classification."""
    identity = f"{view.event['tenant']}\0{view.event['event_id']}".encode()
    return f"rp-{hashlib.sha256(identity).hexdigest()[:32]}"


def _refusal(view: View, _verdict: Verdict, reason: str, _table: Table) -> dict[str, Any]:
    denial = view.policy.denials[0]
    return {"policy_id": denial.policy_id, "explanation": wording.refusal(denial, reason)}


def _fallback(view: View, _verdict: Verdict, _reason: str, _table: Table) -> dict[str, Any]:
    chosen = view.fallbacks.chosen
    if chosen is None:  # a table of the user's own may say fallback where none is eligible; decide() rules that out
        return {"fallback_id": None, "fallback_version": None, "result_ref": None, "idempotency_key": None}
    return {
        "fallback_id": chosen["fallback_id"],
        "fallback_version": chosen["version"],
        "result_ref": chosen["result_ref"],
        "idempotency_key": _key_for(view, chosen["operation_id"]),
    }


def _key_for(view: View, operation_id: str | None) -> str | None:
    """The key under which a protected write must be repeated."""
    if operation_id is None or operation_id not in view.fallbacks.protected:
        return None
    key: str = view.effects.by_id[operation_id].writes[0]["idempotency_key"]
    return key


def _partial(view: View, _verdict: Verdict, _reason: str, _table: Table) -> dict[str, Any]:
    components = sorted(view.event["components"], key=lambda c: (c["name"] or "", encode_json(c)))
    completion = view.event["completion"]
    return {
        "result_ref": completion["result_ref"] if completion else None,
        "completed": [c["name"] or "" for c in components if not is_omitted(c)],
        "omitted": [
            {"component": c["name"], "reason_code": c["reason_code"], "retryable": c["retryable"] is True}
            for c in components
            if is_omitted(c)
        ],
        "completeness": "partial",
    }


def _human_queue(view: View, verdict: Verdict, reason: str, table: Table) -> dict[str, Any]:
    name, queue = queue_of(verdict, table)
    involved = [op.id for op in view.effects.operations if op.ambiguous or op.is_duplicate]
    return {
        "queue": name,
        "owner": queue.owner,
        "review_packet_id": review_packet_id(view),
        "allowed_decisions": list(queue.allowed_decisions),
        "deadline": queue.due(view.event["occurred_at"]),
        "explanation": wording.escalation(reason, involved, name, queue),
    }


def queue_of(verdict: Verdict, table: Table) -> tuple[str, Any]:
    """The queue that owns the exit, and for exits with obligations only, the one that owns effects."""
    queues = table.file.queues
    name = verdict.queue or (EFFECTS_QUEUE if EFFECTS_QUEUE in queues else next(iter(queues)))
    return name, queues[name]


_PARTS = {"refusal": _refusal, "fallback": _fallback, "partial": _partial, "human_queue": _human_queue}
