"""The records that open items are made of, each with the fields that matter and no prose.

An exit comes from the topic ``exit-classifications`` or from the store; a note is a companion record that says what
became of an exit afterwards. Times are microseconds since the epoch. Pure.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

EventKey = tuple[str, str]
"""Tenant and event id."""
RunKey = tuple[str, str]
"""Tenant and run id."""
VersionKey = tuple[str, str]
"""Digest of a decision table, and version of the classifier: what an event may be classified by more than once."""

COMPENSATED, RECONCILED = "compensated", "reconciled"
DEEDS: Mapping[str, str] = {COMPENSATED: "compensate", RECONCILED: "reconcile"}
"""Recovery actions that do what an obligation asks for, each with the decision of that name."""
DECIDING = frozenset({"approved", "rejected", "overrode", "resubmitted", "closed", "ignored"})
"""Recovery actions that answer a review without a review event: whoever takes one has decided."""
ACCEPTED = "accept_effect"
"""Decision by which a reviewer lets an effect stand: nothing is owed for it any more."""


class Duty(NamedTuple):
    """An obligation: ``reconcile`` or ``compensate`` one operation, None where the evidence names none."""

    action: str
    operation_id: str | None


class Omitted(NamedTuple):
    """A component that a partial lacks; one without a name has the empty one."""

    component: str
    retryable: bool


class QueueTerms(NamedTuple):
    """A queue, who owns it, and the time from the end of a run to the deadline in microseconds, None if unknown."""

    queue: str
    owner: str
    deadline_micros: int | None


class Exit(NamedTuple):
    """One classification of one terminal event.

    ``queue``, ``owner`` and ``deadline`` are those of its review, whether a person has to decide or only an obligation
    is owed; ``allowed_decisions`` those of a human_queue exit.
    """

    tenant: str
    event_id: str
    run_id: str
    segment: int | None
    agent_id: str
    workflow: str
    occurred_at: int
    kind: str
    reason_code: str
    omitted: tuple[Omitted, ...]
    duties: tuple[Duty, ...]
    queue: str
    owner: str
    review_packet_id: str
    deadline: int | None
    allowed_decisions: frozenset[str]
    table_digest: str
    classifier_version: str
    classified_at: int

    @property
    def event(self) -> EventKey:
        """Identity of the terminal event."""
        return self.tenant, self.event_id

    @property
    def run(self) -> RunKey:
        """Identity of the run."""
        return self.tenant, self.run_id

    @property
    def version(self) -> VersionKey:
        """What it was classified by."""
        return self.table_digest, self.classifier_version

    @property
    def rank(self) -> tuple[int, int, str]:
        """Order of a run's events: the greatest stands for the run. An absent segment is the first."""
        return self.segment or 0, self.occurred_at, self.event_id

    @property
    def opens(self) -> bool:
        """Whether something has to happen after it: enrichment, a decision, or a deed."""
        return self.kind in ("partial", "human_queue") or bool(self.duties)


class Subject(NamedTuple):
    """What a companion is about: an event of a tenant by its id, else a segment of a run."""

    tenant: str
    event_id: str
    run_id: str
    segment: int

    @property
    def event(self) -> EventKey | None:
        """The event, where it is named."""
        return (self.tenant, self.event_id) if self.event_id else None

    @property
    def run(self) -> RunKey:
        """The run; where the event is named, a run id says nothing more."""
        return self.tenant, self.run_id


class Note(NamedTuple):
    """One companion record, reduced to what an open item depends on. Which fields are set depends on ``type``.

    ``what`` is the recovery action, the review event or the state of the enrichment; ``target`` the operation, or the
    component. ``stored`` tells the store's edition of a record from one read off a topic: it wins where they differ.
    """

    type: str
    record_id: str
    subject: Subject
    at: int | None
    what: str
    target: str | None = None
    reverses: bool = False
    decision: str = ""
    queue: str = ""
    deadline: int | None = None
    reviewer: str = ""
    stored: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Identity within its tenant."""
        return self.type, self.record_id

    def prevails_over(self, other: "Note") -> bool:
        """Whether this edition of a record counts, of two. A total order, so that arrival has no say."""
        return (self.stored, repr(self)) > (other.stored, repr(other))


def subjects_of(exit_: Exit) -> tuple[Subject, Subject]:
    """The two ways in which a companion may name the event of an exit."""
    by_event = Subject(exit_.tenant, exit_.event_id, "", 0)
    return by_event, Subject(exit_.tenant, "", exit_.run_id, exit_.segment or 0)


def note_of(record: Mapping[str, Any], record_type: str, *, stored: bool = False) -> Note | None:
    """The note of a companion in its canonical form, instants as microseconds; None if it is about nothing, or opens
    and closes nothing."""
    subject = _subject(record)
    reduce = _REDUCED.get(record_type)
    if subject is None or reduce is None:
        return None
    base = Note(record_type, record["record_id"], subject, record["at"], "unknown", stored=stored)
    return reduce(base, record)


def _subject(record: Mapping[str, Any]) -> Subject | None:
    if record["event_id"]:
        return Subject(record["tenant"], record["event_id"], "", 0)
    if record["run_id"]:
        return Subject(record["tenant"], "", record["run_id"], record["segment"] or 0)
    return None


def _acted(base: Note, record: Mapping[str, Any]) -> Note:
    return base._replace(what=record["action"] or "unknown", target=record["operation_id"])


def _reviewed(base: Note, record: Mapping[str, Any]) -> Note:
    return base._replace(
        what=record["event"] or "unknown",
        decision=record["decision"] or "",
        queue=record["queue"] or "",
        deadline=record["deadline"],
        reviewer=record["reviewer"] or "",
    )


def _enriched(base: Note, record: Mapping[str, Any]) -> Note:
    reverses = record["reverses_result"] is True
    return base._replace(what=record["state"] or "unknown", target=record["component"] or "", reverses=reverses)


_REDUCED = {"recovery_action": _acted, "review_event": _reviewed, "enrichment": _enriched}
NOTED = tuple(_REDUCED)
"""Companion types that open or close something."""
