"""Recomputes classifications from stored evidence: scan → decode → classify → insert, and activate at the very end.

What was decided before stays what readers see until then, since a table that is not active is not current. An event
that the table has decided is not decided again, so a run may end anywhere and be run again.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from classifier.decide import CLASSIFIER_VERSION, Classifier
from classifier.table import Table, load
from schemas.errors import MessageError
from schemas.json_form import parse_stored
from sinks.erasure import without_words
from sinks.rows import ClassificationRow, change_column, encode_classifications, flat_values, join_rows, read_rows
from sinks.store import Key, Standing, StoredEvent
from streams.ingest import BATCH_RECORDS
from streams.worker import TERMINAL_EVENT

PAGE_EVENTS = 2_500
"""Events of a task. More cost memory, since several tasks are under way; fewer cost a look-up each."""

Exit = tuple[str, str]
"""Kind and reason code."""


class Evidence(Protocol):
    """What a rebuild needs of a store; :class:`sinks.store.Store` is one."""

    def insert(self, table: str, stream: bytes, /) -> None:
        """Insert an Arrow stream, all or nothing."""
        ...

    def standings(self, keys: Sequence[Key], table_digest: str, classifier_version: str, /) -> dict[Key, Standing]:
        """The current exits of events, and those by one table."""
        ...

    def erased(self, keys: Sequence[Key], record_type: str, /) -> set[Key]:
        """Which records were erased on request."""
        ...


class Task(NamedTuple):
    """Events to classify; ``now`` is the instant that their rows carry."""

    events: list[StoredEvent]
    now: int


class Undecodable(NamedTuple):
    """A stored event that cannot be read, and why. It keeps the classification that it has."""

    tenant: str
    event_id: str
    reason: str


class Outcome(NamedTuple):
    """What became of a task: rows to insert (empty without any), the exit of each event, and what failed."""

    rows: bytes
    exits: dict[Key, Exit]
    failures: list[Undecodable]


@dataclass(frozen=True)
class Plan:
    """What a worker process needs: the table, and whether its proof fails."""

    table_text: str
    unproven: bool = False

    def start(self) -> "Reclassifier":
        """The worker, made in the process that it runs in."""
        return Reclassifier(self)


class Reclassifier:
    """Classifies stored events."""

    def __init__(self, plan: Plan) -> None:
        self._unproven = plan.unproven
        self._classifier = Classifier(load(plan.table_text), unproven=plan.unproven)

    def run(self, task: Task) -> Outcome:
        """Decode and classify the events of a task. Raises nothing, whatever their texts are."""
        rows, failures = list[ClassificationRow](), list[Undecodable]()
        for stored in task.events:
            try:
                rows.append(self._row(stored, task.now))
            except MessageError as error:
                failures.append(Undecodable(stored.tenant, stored.event_id, str(error)))
        exits = {_key(row): (row.classification["kind"], row.classification["reason_code"]) for row in rows}
        return Outcome(encode_classifications(rows) if rows else b"", exits, failures)

    def _row(self, stored: StoredEvent, now: int) -> ClassificationRow:
        # Through the contract, which brings evidence of an older version to the current one.
        event = parse_stored(stored.text)
        decided = self._classifier.classify(event)
        score = decided.packet_completeness
        return ClassificationRow(
            decided.classification, flat_values(event), decided.fact_bits, score, now, self._unproven
        )


def _key(row: ClassificationRow) -> Key:
    tenant, event_id, *_ = row.flat
    return tenant, event_id


def _row_key(row: Mapping[str, Any]) -> Key:
    return row["tenant"], row["event_id"]


@dataclass
class Report:
    """What a rebuild did, counted in events.

    ``moves`` counts all of them by the exit that was current, None where there was none, and the new one; ``already``
    those among them that the table had decided before, as in a run that was ended. The evidence of ``erased`` ones went
    on request; each keeps the exit that it has.
    """

    moves: Counter[tuple[Exit | None, Exit]] = field(default_factory=Counter)
    already: int = 0
    failures: list[Undecodable] = field(default_factory=list)
    erased: int = 0

    @property
    def read(self) -> int:
        """Events that were looked at."""
        return self.moves.total() + len(self.failures) + self.erased

    @property
    def moved(self) -> Counter[tuple[Exit | None, Exit]]:
        """Those whose exit is another one."""
        return Counter({move: count for move, count in self.moves.items() if move[0] != move[1]})


Classify = Callable[[Plan, Iterable[Task]], Iterator[Outcome]]
"""Runs tasks wherever it likes and gives their outcomes in order, as :meth:`streams.parallel.Pool.run` does."""


@dataclass(frozen=True)
class Rebuild:
    """Classifies stored events by one table. ``now`` gives microseconds; a dry run inserts nothing."""

    store: Evidence
    table: Table
    now: Callable[[], int]
    unproven: bool = False
    dry_run: bool = False

    def run(self, pages: Iterable[list[StoredEvent]], classify: Classify, report: Report) -> Iterator[int]:
        """Classify what the table has not classified; yields how many events were looked at since the last.

        Adds to ``report``. The table is not activated: that is for the caller, once this has ended.
        """
        waiting = deque[dict[Key, Exit | None]]()
        outcomes = classify(Plan(self.table.text, self.unproven), self._tasks(pages, waiting, report))
        batch, size = list[Outcome](), 0
        for outcome in outcomes:
            before = waiting.popleft()
            report.moves.update((before[key], exit_) for key, exit_ in outcome.exits.items())
            report.failures += outcome.failures
            if outcome.rows:
                batch.append(outcome)
                size += len(outcome.exits)
            if size >= BATCH_RECORDS:
                self._insert(batch)
                batch, size = [], 0
            yield len(before)
        self._insert(batch)

    def _tasks(
        self, pages: Iterable[list[StoredEvent]], waiting: "deque[dict[Key, Exit | None]]", report: Report
    ) -> Iterator[Task]:
        """What is left to do of each page. Leaves the current exits of its events in ``waiting``, page by page."""
        for whole in pages:
            page = [event for event in whole if not event.is_erased]
            report.erased += len(whole) - len(page)
            keys = [(event.tenant, event.event_id) for event in page]
            known = self.store.standings(keys, self.table.digest, CLASSIFIER_VERSION)
            none = Standing(None, None)
            waiting.append({key: known.get(key, none).current for key in keys})
            done = {key: standing for key, standing in known.items() if standing.by_table}
            report.moves.update((each.current, each.by_table) for each in done.values() if each.by_table)
            report.already += len(done)
            yield Task([event for event, key in zip(page, keys, strict=True) if key not in done], self.now())

    def _insert(self, batch: list[Outcome]) -> None:
        """Insert exits; without words where the event was erased since its page was read."""
        if not batch or self.dry_run:
            return
        rows = join_rows([outcome.rows for outcome in batch])
        erased = self.store.erased([key for outcome in batch for key in outcome.exits], TERMINAL_EVENT)
        if erased:
            rows = change_column(rows, "envelope", without_words, [_row_key(row) in erased for row in read_rows(rows)])
        self.store.insert("exit_classifications", rows)
