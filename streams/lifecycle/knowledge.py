"""What the lifecycle app knows: the exits and notes that it has seen, by run, and what is open because of them.

The state is a function of the *set* of records: each is kept under its identity, of two editions one always prevails,
and open items are derived from what is kept. So records may come in any order, again, late, from a topic or from the
store. A note about an event that is not known yet waits for it.

Memory is bounded: what is not open is forgotten after a grace, and whatever may have been forgotten is named by
:meth:`Knowledge.doubts`, to be read from the store again. ``now`` is microseconds everywhere.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from streams.lifecycle.items import OpenPartial, OpenReview, Reversal, RunItems, current, items_of
from streams.lifecycle.records import EventKey, Exit, Note, RunKey, Subject, VersionKey, subjects_of

_NOTHING = RunItems()


class OpenItems(NamedTuple):
    """Everything that is open, each list by tenant, run and event."""

    partials: tuple[OpenPartial, ...]
    reviews: tuple[OpenReview, ...]
    reversals: tuple[Reversal, ...]


class Doubts(NamedTuple):
    """What may have been forgotten: runs by their id, and events whose run is not known."""

    runs: frozenset[RunKey]
    events: frozenset[EventKey]


@dataclass(frozen=True)
class Bounds:
    """How long, in microseconds, and how many: what is settled, and notes that wait for an event."""

    grace_us: int
    most_settled: int


@dataclass
class _Run:
    exits: dict[str, dict[VersionKey, Exit]] = field(default_factory=dict)
    items: RunItems = _NOTHING
    touched_at: int = 0


class Knowledge:
    """Exits and notes by identity, and what is open. Belongs to one thread."""

    def __init__(self, bounds: Bounds, forgotten_until: int = 0) -> None:
        """``forgotten_until``: what came before that is not known here; an exit of that time is doubted."""
        self._bounds, self._forgotten_until = bounds, forgotten_until
        self._runs: dict[RunKey, _Run] = {}
        self._run_of: dict[EventKey, RunKey] = {}
        self._notes: dict[Subject, dict[tuple[str, str], Note]] = {}
        # Where the one edition of a record is kept, by tenant, type and id: two may be about different events.
        self._subject_of: dict[tuple[str, str, str], Subject] = {}
        self._activations: dict[VersionKey, int] = {}
        self._stale: set[RunKey] = set()
        self._open: set[RunKey] = set()
        self._reversed: set[RunKey] = set()
        self._shown: OpenItems | None = None
        # In order of the last touch, the oldest first: a dict keeps the order of insertion.
        self._settled: dict[RunKey, int] = {}
        self._waiting: dict[Subject, int] = {}
        self._doubted_runs: set[RunKey] = set()
        self._doubted_events: set[EventKey] = set()

    def successor(self, now: int) -> "Knowledge":
        """An empty one within the same bounds, with the same doubts, to be filled from the store."""
        successor = Knowledge(self._bounds, forgotten_until=now)
        successor.doubt(self.doubts())
        return successor

    # Learning

    def add_exit(self, exit_: Exit, now: int, *, recalled: bool = False) -> None:
        """Learn a classification. ``recalled``: whatever else is stored about its run is being added too."""
        run = self._runs.setdefault(exit_.run, _Run())
        self._run_of[exit_.event] = exit_.run
        versions = run.exits.setdefault(exit_.event_id, {})
        known = versions.get(exit_.version)
        if known is None or _prevails(exit_, known):
            versions[exit_.version] = exit_
        if known is None and not recalled and self._is_late(exit_, now):
            self._doubted_runs.add(exit_.run)
        for subject in subjects_of(exit_):
            self._waiting.pop(subject, None)
        self._touch(exit_.run, now)

    def add_note(self, note: Note, now: int, *, recalled: bool = False) -> None:
        """Learn what became of an exit, known or not. ``recalled`` as above."""
        known = self._known_edition(note)
        if known is not None and not note.prevails_over(known):
            note = known
        elif known is not None and known.subject != note.subject:
            self._withdraw(known, now)
        self._keep(note)
        run = self._run_about(note.subject)
        if run is not None:
            self._touch(run, now)
            return
        self._waiting.pop(note.subject, None)
        self._waiting[note.subject] = now
        if (known is None or known.subject != note.subject) and not recalled:
            self._doubt(note.subject)

    def activate(self, activations: Mapping[VersionKey, int]) -> None:
        """Learn when decision tables became the current ones; of each the last time counts."""
        newer = {version: at for version, at in activations.items() if at > self._activations.get(version, 0)}
        if newer:
            self._activations |= newer
            self._stale.update(self._runs)

    # Knowing

    def open_items(self) -> OpenItems:
        """What is open, and what was reversed."""
        self._refresh()
        if self._shown is None:
            found = [self._runs[key].items for key in sorted(self._open | self._reversed)]
            self._shown = OpenItems(
                tuple(partial for items in found for partial in items.partials),
                tuple(review for items in found for review in items.reviews),
                tuple(reversal for items in found for reversal in items.reversals),
            )
        return self._shown

    @property
    def open_runs(self) -> frozenset[RunKey]:
        """Runs with an open item."""
        self._refresh()
        return frozenset(self._open)

    def heard_since(self, since: int) -> tuple[list[Exit], list[Note]]:
        """Every record of the runs of which something was heard since ``since``, and every note that waits."""
        runs = (key for key, run in self._runs.items() if run.touched_at >= since)
        subjects = (subject for subject in self._notes if self._is_waiting_or_heard(subject, since))
        return (
            [exit_ for key in runs for exit_ in self._exits_of(key)],
            [note for subject in subjects for note in self._notes[subject].values()],
        )

    def doubts(self) -> Doubts:
        """Runs and events of which more may be stored than is known here. Asking clears them."""
        found = Doubts(frozenset(self._doubted_runs), frozenset(self._doubted_events))
        self._doubted_runs.clear()
        self._doubted_events.clear()
        return found

    def doubt(self, doubts: Doubts) -> None:
        """Ask again later: what was in doubt could not be cleared."""
        self._doubted_runs |= doubts.runs
        self._doubted_events |= doubts.events

    def forget(self, now: int) -> None:
        """Drop what is settled, and notes that wait, after the grace, or the oldest where there are too many."""
        self._refresh()
        until = now - self._bounds.grace_us
        for key in list(_expired(self._settled, until, self._bounds.most_settled)):
            self._forgotten_until = max(self._forgotten_until, self._settled.pop(key))
            self._drop(key)
        for subject in list(_expired(self._waiting, until, self._bounds.most_settled)):
            del self._waiting[subject]
            self._drop_notes(subject)

    @property
    def sizes(self) -> dict[str, int]:
        """How much is held: open runs, settled runs, subjects whose event is not known."""
        self._refresh()
        return {"open": len(self._open), "settled": len(self._settled), "waiting": len(self._waiting)}

    # Inner

    def _known_edition(self, note: Note) -> Note | None:
        subject = self._subject_of.get(_identity(note))
        return None if subject is None else self._notes[subject][note.key]

    def _keep(self, note: Note) -> None:
        self._notes.setdefault(note.subject, {})[note.key] = note
        self._subject_of[_identity(note)] = note.subject

    def _withdraw(self, note: Note, now: int) -> None:
        """Another edition counts, which is about something else."""
        notes = self._notes[note.subject]
        del notes[note.key]
        run = self._run_about(note.subject)
        if run is not None:
            self._touch(run, now)
        if not notes:
            del self._notes[note.subject]
            self._waiting.pop(note.subject, None)

    def _is_late(self, exit_: Exit, now: int) -> bool:
        """Whether something about its run may have come and gone before this exit did."""
        return exit_.opens and exit_.occurred_at < max(now - self._bounds.grace_us, self._forgotten_until)

    def _run_about(self, subject: Subject) -> RunKey | None:
        if subject.event is not None:
            return self._run_of.get(subject.event)
        run = self._runs.get(subject.run)
        if run is None:
            return None
        exits = (next(iter(versions.values())) for versions in run.exits.values())
        return subject.run if any((exit_.segment or 0) == subject.segment for exit_ in exits) else None

    def _is_waiting_or_heard(self, subject: Subject, since: int) -> bool:
        run = self._run_about(subject)
        return run is None or self._runs[run].touched_at >= since

    def _touch(self, key: RunKey, now: int) -> None:
        self._stale.add(key)
        self._runs[key].touched_at = now
        self._settled.pop(key, None)

    def _doubt(self, subject: Subject) -> None:
        if subject.event is None:
            self._doubted_runs.add(subject.run)
        else:
            self._doubted_events.add(subject.event)

    def _refresh(self) -> None:
        """Derive anew what is open of the runs that were touched."""
        if self._stale:
            self._shown = None
        for key in self._stale:
            run = self._runs[key]
            run.items = items_of(
                [current(versions.values(), self._activations) for versions in run.exits.values()], self._notes_on
            )
            if run.items.is_open:
                self._open.add(key)
                self._settled.pop(key, None)
            else:
                self._open.discard(key)
                self._settled.setdefault(key, run.touched_at)
            (self._reversed.add if run.items.reversals else self._reversed.discard)(key)
        self._stale.clear()

    def _notes_on(self, exit_: Exit) -> list[Note]:
        return [note for subject in subjects_of(exit_) for note in self._notes.get(subject, {}).values()]

    def _exits_of(self, key: RunKey) -> Iterator[Exit]:
        for versions in self._runs[key].exits.values():
            yield from versions.values()

    def _drop_notes(self, subject: Subject) -> None:
        for note in self._notes.pop(subject, {}).values():
            del self._subject_of[_identity(note)]

    def _drop(self, key: RunKey) -> None:
        for exit_ in self._exits_of(key):
            self._run_of.pop(exit_.event, None)
            for subject in subjects_of(exit_):
                self._drop_notes(subject)
        if key in self._reversed:
            self._reversed.discard(key)
            self._shown = None
        del self._runs[key]


def _identity(note: Note) -> tuple[str, str, str]:
    return note.subject.tenant, note.type, note.record_id


def _prevails(exit_: Exit, known: Exit) -> bool:
    """Of two editions of one classification the newer counts; any total order would do."""
    return (exit_.classified_at, repr(exit_)) > (known.classified_at, repr(known))


_Key = TypeVar("_Key", RunKey, Subject)


def _expired(touched: Mapping[_Key, int], until: int, most: int) -> Iterator[_Key]:
    """Keys last touched before ``until``, and the first of more than ``most``. ``touched`` is in order of time."""
    surplus = len(touched) - most
    for number, (key, at) in enumerate(touched.items()):
        if at >= until and number >= surplus:
            return
        yield key
