"""What was open when: the course of stored partials and reviews, told from their records.

A run is judged at each moment at which something about it happened, by what had happened until then: the same judgement
as that of the lifecycle app, of what is open now.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from alerts.backtest import Stay
from alerts.model import OpenItem
from sinks.open_items import OpenItemsReader
from streams.lifecycle.ageing import is_breached
from streams.lifecycle.alerting import open_items
from streams.lifecycle.exits import exit_of
from streams.lifecycle.items import OpenPartial, OpenReview, RunItems, current, items_of
from streams.lifecycle.knowledge import OpenItems
from streams.lifecycle.records import Exit, Note, QueueTerms, RunKey, Subject, note_of, subjects_of
from streams.lifecycle.sync import CHUNK_RUNS, terms_in

_Key = tuple[str, str]
"""What an item is, and its event."""


def open_at(reader: OpenItemsReader, now: int) -> list[OpenItem]:
    """What is open at ``now``, of all that is stored: by way of the few runs of which something may be open, since the
    views of open items cost several times as much. Raises what the store raises."""
    found = stays(reader, reader.unsettled_runs())
    return [stay.item for stay in found if stay.since <= now and (stay.until is None or now < stay.until)]


def stays(reader: OpenItemsReader, runs: Sequence[RunKey]) -> Iterator[Stay]:
    """When the items of these runs were open, and as what. Raises what the store raises."""
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
            yield from stays_of_run([current(each, activations) for each in events.values()], notes)


def stays_of_run(exits: Sequence[Exit], notes: Mapping[Subject, Sequence[Note]]) -> Iterator[Stay]:
    """The same of one run: the current exits of its events, and notes by what they are about."""
    about = {exit_.event_id: [n for s in subjects_of(exit_) for n in notes.get(s, ())] for exit_ in exits}
    begun: dict[_Key, tuple[int, OpenPartial | OpenReview]] = {}
    for now, until in pairwise([*_moments(exits, about), None]):
        assert now is not None  # noqa: S101 -- the last one alone is none
        found = _items(items_of([e for e in exits if e.occurred_at <= now], lambda e: _by(about[e.event_id], now)))  # noqa: B023 -- called at once
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


def _items(found: RunItems) -> dict[_Key, OpenPartial | OpenReview]:
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
