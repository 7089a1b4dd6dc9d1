"""What was open when: the course of stored partials and reviews, told from their records.

A run is judged at each moment at which something about it happened, by what had happened until then: the same judgement
as that of the lifecycle app, of what is open now.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from alerts.backtest import Stay
from alerts.model import OpenItem
from sinks.open_items import OpenItemsReader
from streams.lifecycle.ageing import is_breached
from streams.lifecycle.alerting import open_items
from streams.lifecycle.exits import exit_of
from streams.lifecycle.items import OpenPartial, OpenReview, current, items_of
from streams.lifecycle.knowledge import OpenItems
from streams.lifecycle.records import Exit, Note, QueueTerms, RunKey, Subject, note_of, subjects_of
from streams.lifecycle.sync import CHUNK_RUNS, terms_in

_Key = tuple[str, str]
"""What an item is, and its event."""
_About = Mapping[str, Sequence[Note]]
"""Notes by the event that they are about."""
_OVERLAP_US, _ANEW_US = 120_000_000, 900_000_000
"""How far a reading goes back behind the last one, for late rows and other clocks; and how long until all is read
again, for what came later than that, or was erased."""


def open_at(reader: OpenItemsReader, now: int) -> list[OpenItem]:
    """What is open at ``now``, by all that is stored, as the lifecycle app judges it: what a fast clock dated later has
    happened too. By way of the few runs of which something may be open, since the views of open items cost several
    times as much. Raises what the store raises."""
    found = _courses(reader, reader.unsettled_runs())
    return [_as_of(item, now) for exits, about in found for item in _open(exits, about).values()]


@dataclass
class OpenNow:
    """What is open, asked again and again: everything is read once, then the runs of which something was stored since.

    ``reader`` may be another each time, of the same store. Used by one thread at a time.
    """

    _open: dict[RunKey, list[OpenPartial | OpenReview]] = field(default_factory=dict, repr=False)
    _terms: tuple[Any, ...] = ()
    _read_at: int = 0
    _all_at: int = 0

    def at(self, reader: OpenItemsReader, now: int) -> list[OpenItem]:
        """The same as :func:`open_at`, of moments that go on. Raises what the store raises, and then knows what it knew
        before."""
        terms = reader.activations(), {row["table_digest"]: row for row in reader.obligation_queues()}
        whole = terms != self._terms or not self._read_at <= now < self._all_at + _ANEW_US
        runs = reader.unsettled_runs() if whole else self._touched(reader)
        again = set(runs)
        known = {} if whole else {run: items for run, items in self._open.items() if run not in again}
        for exits, about in _courses(reader, runs):
            if items := _open(exits, about):
                known[exits[0].run] = list(items.values())
        self._open, self._terms, self._read_at = known, terms, now
        self._all_at = now if whole else self._all_at
        return [_as_of(item, now) for items in known.values() for item in items]

    def _touched(self, reader: OpenItemsReader) -> list[RunKey]:
        """Runs of which something was stored since the last reading. One that ends well matters if it had something
        open before."""
        stored = reader.since(self._read_at - _OVERLAP_US)
        notes = [row for rows in stored.notes.values() for row in rows]
        events = {(row["tenant"], row["event_id"]) for row in notes if row["event_id"]}
        runs = {(row["tenant"], row["run_id"]) for row in (*stored.exits, *notes) if row["run_id"]}
        runs.update(run for run in stored.settled_runs if run in self._open)
        return sorted(runs.union(reader.runs_of(sorted(events))))


def stays(reader: OpenItemsReader, runs: Sequence[RunKey]) -> Iterator[Stay]:
    """When the items of these runs were open, and as what. Raises what the store raises."""
    return (stay for exits, about in _courses(reader, runs) for stay in stays_of_run(exits, about))


def _courses(reader: OpenItemsReader, runs: Sequence[RunKey]) -> Iterator[tuple[list[Exit], _About]]:
    """Of each of these runs that is stored: the current exits of its events, and the notes about each."""
    rows = reader.obligation_queues()
    terms = terms_in(
        {row["table_digest"]: QueueTerms(row["queue"], row["owner"], row["deadline_micros"]) for row in rows}
    )
    activations = reader.activations()
    for start in range(0, len(runs), CHUNK_RUNS):
        stored = reader.of_runs(runs[start : start + CHUNK_RUNS])
        versions: dict[RunKey, dict[str, list[Exit]]] = defaultdict(lambda: defaultdict(list))
        for row in stored.exits:
            exit_ = exit_of(row, terms)
            versions[exit_.run][exit_.event_id].append(exit_)
        notes = _by_subject(note_of(row, kind, stored=True) for kind, found in stored.notes.items() for row in found)
        for events in versions.values():
            exits = [current(each, activations) for each in events.values()]
            yield exits, notes_about(exits, notes)


def notes_about(exits: Iterable[Exit], notes: Mapping[Subject, Sequence[Note]]) -> dict[str, list[Note]]:
    """Of all notes by what they are about, those about each of these exits, by its event."""
    return {exit_.event_id: [n for s in subjects_of(exit_) for n in notes.get(s, ())] for exit_ in exits}


def stays_of_run(exits: Sequence[Exit], about: _About) -> Iterator[Stay]:
    """The same of one run: the current exits of its events, and the notes about each."""
    begun: dict[_Key, tuple[int, OpenPartial | OpenReview]] = {}
    for now, until in pairwise([*_moments(exits, about), None]):
        assert now is not None  # noqa: S101 -- the last one alone is none
        by_then = {event: _by(noted, now) for event, noted in about.items()}
        found = _open([exit_ for exit_ in exits if exit_.occurred_at <= now], by_then)
        for key in [key for key, (_, item) in begun.items() if found.get(key) != item]:
            yield from _split(*begun.pop(key), now)
        for key, item in found.items():
            begun.setdefault(key, (now, item))
        if until is None:
            for since, item in begun.values():
                yield from _split(since, item, None)


def _by_subject(notes: Iterable[Note | None]) -> dict[Subject, list[Note]]:
    found: dict[Subject, list[Note]] = defaultdict(list)
    for note in notes:
        if note is not None:
            found[note.subject].append(note)
    return found


def _moments(exits: Iterable[Exit], about: Mapping[str, Sequence[Note]]) -> list[int]:
    """When something about the run happened; a note that is dated before the run ended counts as then."""
    return sorted({at for exit_ in exits for at in (exit_.occurred_at, *_dates(exit_, about[exit_.event_id]))})


def _dates(exit_: Exit, notes: Iterable[Note]) -> Iterator[int]:
    for note in notes:
        if note.at is not None:
            yield max(note.at, exit_.occurred_at)


def _by(notes: Sequence[Note], now: int) -> list[Note]:
    return [note for note in notes if note.at is None or note.at <= now]


def _open(exits: Sequence[Exit], about: _About) -> dict[_Key, OpenPartial | OpenReview]:
    found = items_of(exits, lambda exit_: about[exit_.event_id])
    partials = {("partial", item.event_id): item for item in found.partials}
    return {**partials, **{("review", item.event_id): item for item in found.reviews}}


def _split(since: int, item: OpenPartial | OpenReview, until: int | None) -> Iterator[Stay]:
    """The stay of an item, cut where it becomes overdue."""
    if isinstance(item, OpenPartial):
        yield Stay(since, until, _as_of(item, since))
        return
    late_from = None if item.deadline is None or item.paused_since is not None else item.deadline + 1
    if late_from is None or late_from <= since or is_breached(item, since):
        yield Stay(since, until, _as_of(item, since))
        return
    if until is not None and until <= late_from:
        yield Stay(since, until, _as_of(item, since))
        return
    yield Stay(since, late_from, _as_of(item, since))
    yield Stay(late_from, until, _as_of(item, late_from))


def _as_of(item: OpenPartial | OpenReview, now: int) -> OpenItem:
    known = OpenItems((item,), (), ()) if isinstance(item, OpenPartial) else OpenItems((), (item,), ())
    return open_items(known, now)[0]
