"""From the store to what is known: everything that is open, what was stored lately, and what was forgotten.

Topics make the app quick, the store makes it right: it holds what other processes read, what was loaded from files, and
what came before this process. Because the state is a function of a set of records, reading them again costs time only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

from classifier.table import TableError, load
from sinks.open_items import Stored
from sinks.rows import ObligationQueueRow
from streams.lifecycle.exits import UNKNOWN_TERMS, TermsOf, exit_of, terms_of
from streams.lifecycle.knowledge import Doubts, Knowledge
from streams.lifecycle.records import Exit, Note, QueueTerms, VersionKey, note_of

CHUNK_RUNS = 10_000
"""Runs that are read together, which bounds the memory of one answer."""

Key = tuple[str, str]


class Source(Protocol):
    """What is asked of the store; :class:`sinks.open_items.OpenItemsReader` is one."""

    def unsettled_runs(self) -> list[Key]:
        """Return every run with an open item, and perhaps others."""
        ...

    def since(self, since: int, /) -> Stored:
        """Return what was stored at ``since`` or later; of exits that open nothing only their runs."""
        ...

    def of_runs(self, runs: Sequence[Key], /) -> Stored:
        """Return everything about these runs."""
        ...

    def runs_of(self, events: Sequence[Key], /) -> list[Key]:
        """Return the runs of these events."""
        ...

    def activations(self) -> dict[Key, int]:
        """Return when each decision table last became the current one."""
        ...

    def unqueued_tables(self) -> dict[str, str]:
        """Return the text of tables of which it is not recorded where obligations wait."""
        ...

    def record_queues(self, rows: Sequence[ObligationQueueRow], /) -> None:
        """Record where they wait."""
        ...

    def obligation_queues(self) -> list[dict[str, Any]]:
        """Return where they wait."""
        ...


@dataclass(frozen=True)
class Snapshot:
    """Records as they were stored. ``whole``: everything about the runs and events that they name.

    ``settled_runs``: runs that have another exit, which opens nothing and may supersede one that does.
    """

    exits: tuple[Exit, ...]
    notes: tuple[Note, ...]
    activations: Mapping[VersionKey, int]
    terms: Mapping[str, QueueTerms]
    whole: bool
    settled_runs: frozenset[Key] = frozenset()


def read_everything(source: Source, now: int) -> Snapshot:
    """Everything about every run that has an open item. Records, of tables that are new, where obligations wait."""
    _record_queues(source, now)
    return _of_runs(source, source.unsettled_runs())


def read_since(source: Source, since: int, now: int) -> Snapshot:
    """What was stored at ``since`` or later. Records, of tables that are new, where obligations wait."""
    _record_queues(source, now)
    terms = _terms(source)
    return _snapshot(source, [source.since(since)], terms, whole=False)


def read_doubts(source: Source, doubts: Doubts) -> Snapshot:
    """Everything about runs, and about the runs of events, that may have been forgotten."""
    return _of_runs(source, sorted(doubts.runs.union(source.runs_of(sorted(doubts.events)))))


def learn(knowledge: Knowledge, snapshot: Snapshot, now: int) -> None:
    """Add what was read to what is known."""
    knowledge.activate(snapshot.activations)
    for exit_ in snapshot.exits:
        knowledge.add_exit(exit_, now, recalled=snapshot.whole)
    for note in snapshot.notes:
        knowledge.add_note(note, now, recalled=snapshot.whole)
    knowledge.doubt(Doubts(knowledge.open_runs & snapshot.settled_runs, frozenset()))


def rebuilt(former: Knowledge, snapshot: Snapshot, read_at: int, heard_since: int) -> Knowledge:
    """What is known after everything was read: that, and what ``former`` has heard of since ``heard_since`` and may not
    have been stored when it was read. ``read_at`` is the time just before."""
    fresh = former.successor(read_at)
    learn(fresh, snapshot, read_at)
    exits, notes = former.heard_since(heard_since)
    for exit_ in exits:
        fresh.add_exit(exit_, read_at)
    for note in notes:
        fresh.add_note(note, read_at)
    return fresh


def _of_runs(source: Source, runs: Sequence[Key]) -> Snapshot:
    terms = _terms(source)
    parts = [source.of_runs(runs[start : start + CHUNK_RUNS]) for start in range(0, len(runs), CHUNK_RUNS)]
    return _snapshot(source, parts, terms, whole=True)


def _snapshot(source: Source, parts: Sequence[Stored], terms: Mapping[str, QueueTerms], *, whole: bool) -> Snapshot:
    exits = tuple(exit_of(row, terms_in(terms)) for part in parts for row in part.exits)
    notes = chain.from_iterable(_notes(part) for part in parts)
    settled = frozenset(run for part in parts for run in part.settled_runs)
    return Snapshot(exits, tuple(notes), source.activations(), terms, whole, settled)


def _notes(part: Stored) -> list[Note]:
    found = (note_of(row, kind, stored=True) for kind, rows in part.notes.items() for row in rows)
    return [note for note in found if note is not None]


def terms_in(terms: Mapping[str, QueueTerms]) -> TermsOf:
    """Look-up of terms that answers for unknown tables too."""
    return lambda digest: terms.get(digest, UNKNOWN_TERMS)


def _terms(source: Source) -> dict[str, QueueTerms]:
    rows = source.obligation_queues()
    return {row["table_digest"]: QueueTerms(row["queue"], row["owner"], row["deadline_micros"]) for row in rows}


def _record_queues(source: Source, now: int) -> None:
    """Record where obligations wait by the tables of which nobody has; what cannot be read is left out."""
    rows = [_queue_row(digest, text, now) for digest, text in source.unqueued_tables().items()]
    source.record_queues([row for row in rows if row is not None])


def _queue_row(digest: str, text: str, now: int) -> ObligationQueueRow | None:
    try:
        queue, owner, micros = terms_of(load(text))
    except TableError:  # made by a program whose tables this one does not know
        return None
    return ObligationQueueRow(digest, queue, owner, micros or 0, now)
