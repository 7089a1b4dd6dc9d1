"""Rows to store, each with the least that its table needs."""

import json

from schemas.events import TerminalEvent
from sinks.rows import ClassificationRow, EventRow, LedgerRow, Position, TableRow, flat_values

NOW = 1_764_489_600_123_457


def event(event_id, tenant="acme", **fields):
    given = {
        "type": "terminal_event", "version": 1, "event_id": event_id, "run_id": f"run-{event_id}", "tenant": tenant,
        "agent_id": "invoice-agent", "occurred_at": NOW, **fields,
    }  # fmt: skip
    return TerminalEvent.model_validate(given).model_dump()


def event_row(record, content_digest="sha256:c", position=None, ingested_at=NOW):
    text = json.dumps(record).encode()
    return EventRow(
        flat_values(record), text, content_digest, "sha256:e", position or Position("file", "p", 0), ingested_at
    )


def classification(record, kind="human_queue", table_digest="sha256:t", **fields):
    envelope = {
        "kind": "human_queue", "reason_code": "no_progress", "queue": "runs", "owner": "ops", "review_packet_id": "rp",
        "allowed_decisions": ["close"], "deadline": NOW + 1, "explanation": "words", "retry": "after_decision",
        "side_effects": [],
    }  # fmt: skip
    return {
        "event_id": record["event_id"], "kind": kind, "reason_code": "no_progress", "rule_id": "no_progress",
        "verified": False, "prohibited": ["completed"],
        "obligations": [
            {"action": "reconcile", "operation_id": "op-1"},
            {"action": "compensate", "operation_id": None},
        ],
        "evidence_gaps": [], "findings": ["stale_write_rejected"], "facts": ["no_progress", "settled"],
        "table": {"id": "default", "version": "1", "digest": table_digest}, "classifier_version": "0.1.0",
        "evidence_digest": "sha256:e", "content_digest": "sha256:c",
        "envelope": envelope if kind == "human_queue" else None,
        **fields,
    }  # fmt: skip


def classification_row(record, verdict, classified_at=NOW):
    return ClassificationRow(verdict, flat_values(record), 2**63 + 1, 0.5, classified_at)


def ledger_row(offset, disposition="classified", partition="p", next_offset=None, recorded_at=NOW):
    return LedgerRow("file", partition, offset, offset + 1 if next_offset is None else next_offset, "acme",
                     f"e-{offset}", "terminal_event", "sha256:c", disposition, recorded_at)  # fmt: skip


def table_row(table_digest, activated_at):
    return TableRow(table_digest, "0.1.0", "default", "1", "rows: []", activated_at)
