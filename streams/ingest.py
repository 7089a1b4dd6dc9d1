"""The pipeline for files: read → decode → redact → classify → insert → dead-letter → ledger, in that order.

The first four stages run in workers; this is the writer. A ledger row is written last: a message without one is read
again, and everything before it is idempotent by identity, so a run may end anywhere and be run again.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from classifier.decide import CLASSIFIER_VERSION
from classifier.table import Table
from schemas.canonical import encode_json
from schemas.errors import ErrorCode
from sinks.errors import StoreRejected
from sinks.rows import (
    ConflictRow,
    DeadLetterRow,
    Disposition,
    LedgerRow,
    TableRow,
    count_rows,
    encode_conflicts,
    encode_dead_letters,
    encode_ledger,
    encode_tables,
    filter_rows,
    join_rows,
    read_rows,
)
from sinks.store import Known, LedgerTotals, Rejected
from streams.files import SOURCE_KIND
from streams.worker import TERMINAL_EVENT, Entry, Outcome

BATCH_RECORDS = 20_000
"""Messages that are written together. More cost memory, fewer cost a look-up each."""

Key = tuple[str, str]


class Sink(Protocol):
    """What the writer needs of a store; :class:`sinks.store.Store` is one."""

    def insert(self, table: str, stream: bytes, /) -> None:
        """Insert an Arrow stream, all or nothing."""
        ...

    def insert_rows_isolating(self, table: str, stream: bytes, /) -> list[Rejected]:
        """Insert an Arrow stream row by row where it must be; the rows that were refused."""
        ...

    def identities(self, keys: Sequence[Key], record_type: str = TERMINAL_EVENT, /) -> dict[Key, Known]:
        """Which identities are stored, and with which content, from where."""
        ...

    def classified(self, keys: Sequence[Key], table_digest: str, classifier_version: str, /) -> set[Key]:
        """Which events the table has classified."""
        ...

    def ledger_totals(self, source: str | None = None, partition: str | None = None, /) -> list[LedgerTotals]:
        """What the ledger says."""
        ...


@dataclass
class Report:
    """What a run did. ``dispositions`` add up to ``read``; ``tally`` counts by (kind, reason code)."""

    read: int = 0
    tally: Counter[tuple[str, str]] = field(default_factory=Counter)
    dispositions: Counter[str] = field(default_factory=Counter)
    gaps: Counter[str] = field(default_factory=Counter)
    redacted: int = 0

    @property
    def errors(self) -> int:
        """Messages that were no valid record."""
        return sum(count for (kind, _), count in self.tally.items() if kind == "error")

    def add(self, outcome: Outcome) -> None:
        """Count what a worker did."""
        self.read += sum(entry.span for entry in outcome.entries)
        self.tally.update(outcome.tally)
        self.gaps.update(outcome.gaps)
        self.redacted += outcome.redacted


class Ruling(NamedTuple):
    """What becomes of one message: its disposition, whether its record is still to be stored, and, where it differs
    from what is stored under its identity, the stored digest."""

    entry: Entry
    disposition: Disposition
    fresh: bool
    known_digest: str = ""


@dataclass(frozen=True)
class Writer:
    """Writes outcomes of one source to a store. ``now`` gives microseconds."""

    sink: Sink
    table: Table
    partition: str
    now: Callable[[], int]

    def activate(self) -> None:
        """Make this table's classifications the current ones."""
        file = self.table.file
        row = TableRow(self.table.digest, CLASSIFIER_VERSION, file.id, file.version, self.table.text, self.now())
        self.sink.insert("active_tables", encode_tables([row]))

    def write(self, outcomes: Iterable[Outcome], report: Report) -> Iterator[Outcome]:
        """Store outcomes batch by batch and pass each on once it is stored. Adds to ``report``."""
        recorded = self._recorded_until()
        for batch in _batches(outcomes):
            rulings = self._write_batch(batch, recorded)
            for ruling in rulings:
                report.dispositions[ruling.disposition.value] += ruling.entry.span
            for outcome in batch:
                report.add(outcome)
                yield outcome

    def _recorded_until(self) -> int:
        """The position up to which the ledger knows every message of this source."""
        totals = self.sink.ledger_totals(SOURCE_KIND, self.partition)
        whole = totals and totals[0].first_offset == 0 and not totals[0].missing_offsets
        return totals[0].end_offset if whole else 0

    def _write_batch(self, batch: list[Outcome], recorded: int) -> list[Ruling]:
        known = self._known([entry for outcome in batch for entry in outcome.entries])
        rulings = [[self._rule(entry, known) for entry in outcome.entries] for outcome in batch]
        refused: list[DeadLetterRow] = []
        for record_type in known:
            refused += self._store_records(record_type, batch, rulings)
        if TERMINAL_EVENT in known:
            self._store_classifications(batch, rulings, {row.offset for row in refused})
        letters = [letter for outcome in batch for letter in outcome.dead_letters if letter.offset >= recorded]
        if letters or refused:
            self.sink.insert("dead_letters", encode_dead_letters(letters + refused))
        final = _with_refusals([ruling for of_outcome in rulings for ruling in of_outcome], refused)
        unrecorded = [ruling for ruling in final if ruling.entry.position >= recorded]
        if unrecorded:
            self.sink.insert("ingest_ledger", encode_ledger([self._ledger_row(ruling) for ruling in unrecorded]))
        return final

    def _known(self, entries: list[Entry]) -> dict[str, dict[Key, Known]]:
        """What is stored already, per record type of these entries."""
        keys: dict[str, list[Key]] = {}
        for entry in entries:
            if entry.record_type:
                keys.setdefault(entry.record_type, []).append((entry.tenant, entry.record_id))
        return {kind: self.sink.identities(list(dict.fromkeys(of_kind)), kind) for kind, of_kind in keys.items()}

    def _rule(self, entry: Entry, known: dict[str, dict[Key, Known]]) -> Ruling:
        """What becomes of a message. The first record of an identity is known to those behind it in the batch."""
        if not entry.record_type:
            return Ruling(entry, Disposition.DEAD_LETTERED, fresh=False)
        usual = Disposition.CLASSIFIED if entry.record_type == TERMINAL_EVENT else Disposition.STORED
        key = (entry.tenant, entry.record_id)
        stored = known[entry.record_type].get(key)
        if stored is None:
            mine = Known(entry.content_digest, SOURCE_KIND, self.partition, entry.position)
            known[entry.record_type][key] = mine
            return Ruling(entry, usual, fresh=True)
        if stored.content_digest != entry.content_digest:
            return Ruling(entry, Disposition.CONFLICTING, fresh=False, known_digest=stored.content_digest)
        here = (stored.source, stored.partition, stored.offset) == (SOURCE_KIND, self.partition, entry.position)
        return Ruling(entry, usual if here else Disposition.DUPLICATE, fresh=False)

    # --- writing

    def _store_records(self, kind: str, batch: list[Outcome], rulings: list[list[Ruling]]) -> list[DeadLetterRow]:
        """Store the new records of a type, and apart from them those in conflict. Returns what the store refused."""
        fresh, conflicts = [], []
        table = next(iter(next(outcome.rows[kind] for outcome in batch if kind in outcome.rows)))
        for outcome, ruled in zip(batch, rulings, strict=True):
            of_kind = [ruling for ruling in ruled if ruling.entry.record_type == kind]
            if of_kind:
                stream = outcome.rows[kind][table]
                fresh.append(_filtered(stream, [ruling.fresh for ruling in of_kind]))
                conflicts += self._conflicts(stream, of_kind)
        if conflicts:
            self.sink.insert("conflicting_events", encode_conflicts(conflicts))
        return self._insert_isolating(kind, table, join_rows(fresh))

    def _insert_isolating(self, kind: str, table: str, stream: bytes) -> list[DeadLetterRow]:
        """Insert rows; those that the store refuses cost only themselves and become dead letters."""
        if not count_rows(stream):
            return []
        try:
            self.sink.insert(table, stream)
        except StoreRejected:
            rejected = self.sink.insert_rows_isolating(table, stream)
            rows = read_rows(stream)
            return [self._refused(kind, rows[one.row], one.reason) for one in rejected]
        return []

    def _refused(self, kind: str, row: dict[str, Any], reason: str) -> DeadLetterRow:
        return DeadLetterRow(
            source=SOURCE_KIND,
            partition=self.partition,
            offset=row["offset"],
            timestamp=None,
            raw=_text_of(kind, row),
            headers={},
            reason_code=ErrorCode.STORE_REFUSED.value,
            field_path="",
            message=reason,
            masked=False,
            tries=1,
            replay_count=0,
            recorded_at=self.now(),
        )

    def _conflicts(self, stream: bytes, ruled: list[Ruling]) -> list[ConflictRow]:
        conflicting = [ruling for ruling in ruled if ruling.known_digest]
        if not conflicting:
            return []
        rows = read_rows(filter_rows(stream, [bool(ruling.known_digest) for ruling in ruled]))
        return [
            ConflictRow(
                ruling.entry.tenant,
                ruling.entry.record_id,
                ruling.entry.record_type,
                ruling.entry.content_digest,
                ruling.known_digest,
                _text_of(ruling.entry.record_type, row),
                SOURCE_KIND,
                self.partition,
                ruling.entry.position,
                self.now(),
            )
            for ruling, row in zip(conflicting, rows, strict=True)
        ]

    def _store_classifications(self, batch: list[Outcome], rulings: list[list[Ruling]], refused: set[int]) -> None:
        """Store the classification of every event whose evidence is stored and that this table has not classified."""
        events = [[r for r in ruled if r.entry.record_type == TERMINAL_EVENT] for ruled in rulings]
        old = [_key(r) for ruled in events for r in ruled if not r.fresh and not r.known_digest]
        done = self.sink.classified(old, self.table.digest, CLASSIFIER_VERSION) if old else set()
        streams = []
        for outcome, ruled in zip(batch, events, strict=True):
            if ruled:
                keep = [r.fresh and r.entry.position not in refused for r in ruled]
                keep = [fresh or self._is_owed(r, done, refused) for fresh, r in zip(keep, ruled, strict=True)]
                streams.append(_filtered(outcome.rows[TERMINAL_EVENT]["exit_classifications"], keep))
        joined = join_rows(streams)
        if count_rows(joined):
            self.sink.insert("exit_classifications", joined)

    def _is_owed(self, ruling: Ruling, done: set[Key], refused: set[int]) -> bool:
        """Whether a known event still needs this table's classification. Each identity is owed one."""
        if ruling.fresh or ruling.known_digest or ruling.entry.position in refused or _key(ruling) in done:
            return False
        done.add(_key(ruling))
        return True

    def _ledger_row(self, ruling: Ruling) -> LedgerRow:
        entry = ruling.entry
        return LedgerRow(
            SOURCE_KIND,
            self.partition,
            entry.position,
            entry.position + entry.span,
            entry.tenant,
            entry.record_id,
            entry.record_type,
            entry.content_digest,
            ruling.disposition.value,
            self.now(),
        )


def _batches(outcomes: Iterable[Outcome]) -> Iterator[list[Outcome]]:
    batch: list[Outcome] = []
    size = 0
    for outcome in outcomes:
        batch.append(outcome)
        size += len(outcome.entries)
        if size >= BATCH_RECORDS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _text_of(record_type: str, row: dict[str, Any]) -> bytes:
    """The record behind a row, as text: the event's own, or the row as it is."""
    return row["event"] if record_type == TERMINAL_EVENT else encode_json(row)


def _key(ruling: Ruling) -> Key:
    return ruling.entry.tenant, ruling.entry.record_id


def _filtered(stream: bytes, keep: list[bool]) -> bytes:
    return stream if all(keep) else filter_rows(stream, keep)


def _with_refusals(rulings: list[Ruling], refused: list[DeadLetterRow]) -> list[Ruling]:
    offsets = {letter.offset for letter in refused}
    return [
        ruling._replace(disposition=Disposition.DEAD_LETTERED) if ruling.entry.position in offsets else ruling
        for ruling in rulings
    ]
