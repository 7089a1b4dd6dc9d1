"""Exits and notes in few words."""

from streams.lifecycle.knowledge import Bounds, Knowledge
from streams.lifecycle.records import Duty, Exit, Note, Omitted, Subject
from tests.streams.lifecycle.samples import MINUTE, NOW

BOUNDS = Bounds(grace_us=60 * MINUTE, most_settled=1000)


def after(minutes):
    return NOW + minutes * MINUTE


def exit_(kind="human_queue", event_id="e", **fields):
    given = {
        "tenant": "acme", "event_id": event_id, "run_id": "run", "segment": None, "agent_id": "agent", "workflow": "w",
        "occurred_at": NOW, "kind": kind, "reason_code": "reason", "omitted": (), "duties": (), "queue": "effects",
        "owner": "ops", "review_packet_id": "rp", "deadline": after(10), "allowed_decisions": frozenset({"close"}),
        "table_digest": "sha256:a", "classifier_version": "1", "classified_at": NOW,
    }  # fmt: skip
    return Exit(**given | fields)


def partial(*components, **fields):
    return exit_("partial", omitted=tuple(Omitted(name, retryable=True) for name in components), **fields)


def refusal(*duties, **fields):
    return exit_("refusal", duties=tuple(Duty(*duty) for duty in duties), **fields)


_serial = iter(range(10**9))


def note(type_, what, at=None, *, event_id="e", **fields):
    subject = fields.pop("subject", Subject("acme", event_id, "", 0))
    return Note(type_, fields.pop("record_id", f"n{next(_serial):09}"), subject, at, what, **fields)


def step(what, at=None, **fields):
    return note("review_event", what, at, **fields)


def deed(what, operation_id=None, at=None, **fields):
    return note("recovery_action", what, at, target=operation_id, **fields)


def enrichment(component, state="completed", at=None, **fields):
    return note("enrichment", state, at, target=component, **fields)


def known(*records, now=NOW, bounds=BOUNDS):
    knowledge = Knowledge(bounds)
    for record in records:
        (knowledge.add_exit if isinstance(record, Exit) else knowledge.add_note)(record, now)
    return knowledge


def open_reviews(*records):
    return known(*records).open_items().reviews


def open_partials(*records):
    return known(*records).open_items().partials
