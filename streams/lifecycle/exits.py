"""From classifications, as messages or as rows of the store, to exits; and from a decision table to where its
obligations wait."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from classifier.envelope import EFFECTS_QUEUE
from classifier.table import Table
from streams.lifecycle.records import Duty, Exit, Omitted, QueueTerms

TermsOf = Callable[[str], QueueTerms]
"""Where the obligations of a decision table wait, by its digest."""

UNKNOWN_TERMS = QueueTerms(EFFECTS_QUEUE, "", None)
"""Where they wait as long as nobody knows the table: no owner, no deadline."""


def terms_of(table: Table) -> QueueTerms:
    """Where obligations wait whose exit names no queue, as :func:`classifier.envelope.queue_of` has it."""
    queues = table.file.queues
    name = EFFECTS_QUEUE if EFFECTS_QUEUE in queues else next(iter(queues))
    return QueueTerms(name, queues[name].owner, queues[name].deadline_micros)


def exit_of(record: Mapping[str, Any], terms: TermsOf) -> Exit:
    """The exit of a classification in the contract's shape, with the fields of :mod:`streams.exit_message`, instants as
    microseconds."""
    envelope = record["envelope"] or {}
    review = _decision(envelope) if record["kind"] == "human_queue" else _obligation(record, terms)
    return Exit(
        tenant=record["tenant"],
        event_id=record["event_id"],
        run_id=record["run_id"],
        segment=record["segment"],
        agent_id=record["agent_id"],
        workflow=record["workflow"] or "",
        occurred_at=record["occurred_at"],
        kind=record["kind"],
        reason_code=record["reason_code"],
        omitted=_omitted(envelope) if record["kind"] == "partial" else (),
        duties=tuple(Duty(duty["action"], duty["operation_id"]) for duty in record["obligations"]),
        table_digest=record["table"]["digest"],
        classifier_version=record["classifier_version"],
        classified_at=record["classified_at"],
        **review,
    )


def _omitted(envelope: Mapping[str, Any]) -> tuple[Omitted, ...]:
    return tuple(Omitted(one["component"] or "", one["retryable"]) for one in envelope.get("omitted", ()))


def _decision(envelope: Mapping[str, Any]) -> dict[str, Any]:
    """The review that a human_queue exit opens."""
    return {
        "queue": envelope.get("queue", ""),
        "owner": envelope.get("owner", ""),
        "review_packet_id": envelope.get("review_packet_id", ""),
        "deadline": envelope.get("deadline"),
        "allowed_decisions": frozenset(envelope.get("allowed_decisions", ())),
    }


def _obligation(record: Mapping[str, Any], terms: TermsOf) -> dict[str, Any]:
    """The review that only an obligation opens."""
    queue, owner, micros = terms(record["table"]["digest"])
    identity = f"{record['tenant']}\0{record['event_id']}".encode()
    return {
        "queue": queue,
        "owner": owner,
        "review_packet_id": f"rp-{hashlib.sha256(identity).hexdigest()[:32]}",
        "deadline": None if micros is None else record["occurred_at"] + micros,
        "allowed_decisions": frozenset(),
    }
