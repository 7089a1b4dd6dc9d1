"""The pipeline for files: read → decode → redact → classify → insert → dead-letter → ledger, in that order.

The first four stages run in workers; this is the writer. A ledger row is written last: a message without one is read
again, and everything before it is idempotent by identity, so a run may end anywhere and be run again.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from classifier.decide import CLASSIFIER_VERSION
from classifier.table import Table
from schemas.canonical import encode_json
from schemas.companions import COMPANIONS
from schemas.errors import ErrorCode
from schemas.exits import KINDS
from sinks.errors import StoreRejected
from sinks.rows import (
    ConflictRow,
    DeadLetterRow,
    Disposition,
    LedgerRow,
    TableRow,
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

_HELD = frozenset({Disposition.CLASSIFIED, Disposition.DUPLICATE})
_NEWEST_ACTIVATION = "SELECT table_digest, classifier_version, activated_at FROM v_tables LIMIT 1"

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

    def query(self, sql: str, fmt: str, /) -> bytes:
        """Answer of a reading statement in the engine's format ``fmt``."""
        ...


@dataclass
class Report:
    """What a run did, counted in messages.

    ``tally`` counts by (kind, reason code), and companions by (record type, ""). ``fates`` counts what was stored by
    (record type, disposition) and adds up to ``read``; the type of what is no valid record is empty.
    """

    read: int = 0
    tally: Counter[tuple[str, str]] = field(default_factory=Counter)
    fates: Counter[tuple[str, Disposition]] = field(default_factory=Counter)
    redacted: int = 0

    @property
    def dispositions(self) -> Counter[Disposition]:
        """What was stored, by disposition alone."""
        found: Counter[Disposition] = Counter()
        for (_, disposition), count in self.fates.items():
            found[disposition] += count
        return found

    @property
    def events(self) -> int:
        """Terminal events that were classified, whatever became of them."""
        return sum(count for (kind, _), count in self.tally.items() if kind in KINDS)

    @property
    def errors(self) -> int:
        """Messages that were no valid record, or that the store refused."""
        invalid = sum(count for (kind, _), count in self.tally.items() if kind == "error")
        refused = (count for (kind, fate), count in self.fates.items() if kind and fate is Disposition.DEAD_LETTERED)
        return invalid + sum(refused)

    def add(self, outcome: Outcome) -> None:
        """Count what a worker did."""
        self.read += sum(entry.span for entry in outcome.entries)
        self.tally.update(outcome.tally)
        self.redacted += outcome.redacted


class Ruling(NamedTuple):
    """What becomes of one message: its disposition, whether its record is still to be stored, and, where it differs
    from what is stored under its identity, the stored digest."""

    entry: Entry
    disposition: Disposition
    fresh: bool
    known_digest: str = ""


def activate(sink: Sink, table: Table, now: Callable[[], int]) -> None:
    """Make the classifications of a table, by this version of the classifier, the current ones. Writes nothing if they
    are."""
    newest = read_rows(sink.query(_NEWEST_ACTIVATION, "ArrowStream"))
    mine = (table.digest, CLASSIFIER_VERSION)
    if newest and (newest[0]["table_digest"], newest[0]["classifier_version"]) == mine:
        return
    # A clock that was set back must not leave the former table the newest.
    at = max(now(), newest[0]["activated_at"] + 1) if newest else now()
    sink.insert("active_tables", encode_tables([TableRow(*mine, table.file.id, table.file.version, table.text, at)]))


@dataclass(frozen=True)
class Writer:
    """Writes outcomes of one source to a store. ``now`` gives microseconds."""

    sink: Sink
    table: Table
    partition: str
    now: Callable[[], int]

    def activate(self) -> None:
        """Make this table's classifications the current ones."""
        activate(self.sink, self.table, self.now)

    def _activate_first(self) -> None:
        """Make this table the current one where none is, before anything of it is stored, since whoever takes the
        outcomes may stop. Where another one is, readers keep seeing that until everything is decided anew."""
        if not read_rows(self.sink.query(_NEWEST_ACTIVATION, "ArrowStream")):
            self.activate()

    def write(self, outcomes: Iterable[Outcome], report: Report) -> Iterator[Outcome]:
        """Store outcomes batch by batch and pass each on once it is stored. Adds to ``report``."""
        recorded = self._recorded_until()
        for batch in _batches(outcomes):
            if any(TERMINAL_EVENT in outcome.rows for outcome in batch):
                self._activate_first()
            rulings = self._write_batch(batch, recorded)
            for ruling in rulings:
                report.fates[ruling.entry.record_type, ruling.disposition] += ruling.entry.span
            for outcome in batch:
                report.add(outcome)
                yield outcome

    def _recorded_until(self) -> int:
        """The position up to which the ledger knows every message of this source."""
        totals = self.sink.ledger_totals(SOURCE_KIND, self.partition)
        whole = totals and totals[0].first_offset == 0 and not totals[0].missing_offsets
        return totals[0].end_offset if whole else 0

    def _write_batch(self, batch: list[Outcome], recorded: int) -> list[Ruling]:
        rulings, refused = self._store_evidence(batch)
        self._store_conflicts(batch, rulings, recorded)
        self._store_classifications(batch, rulings)
        letters = [letter for outcome in batch for letter in outcome.dead_letters if letter.offset >= recorded]
        if letters or refused:
            self.sink.insert("dead_letters", encode_dead_letters([*letters, *refused.values()]))
        final = [ruling for of_outcome in rulings for ruling in of_outcome]
        # What was stored or refused only now is recorded anew, whatever the ledger said of it.
        anew = {ruling.entry.position for ruling in final if ruling.fresh}.union(refused)
        unrecorded = [ruling for ruling in final if ruling.entry.position >= recorded or ruling.entry.position in anew]
        if unrecorded:
            now = self.now()
            self.sink.insert("ingest_ledger", encode_ledger([self._ledger_row(ruling, now) for ruling in unrecorded]))
        return final

    def _store_evidence(self, batch: list[Outcome]) -> tuple[list[list[Ruling]], dict[int, DeadLetterRow]]:
        """Rule on every message of a batch and store what is new; what the store refused, by position.

        A refused record is not known to those behind it, so all are ruled on again, as a second run would.
        """
        entries = [entry for outcome in batch for entry in outcome.entries]
        refused: dict[int, DeadLetterRow] = {}
        while True:
            known = self._known(entries)
            rulings = [[self._rule(entry, known, refused) for entry in outcome.entries] for outcome in batch]
            newly = [letter for kind in known for letter in self._store_records(kind, batch, rulings)]
            if not newly:
                return rulings, refused
            refused |= {letter.offset: letter for letter in newly}

    def _known(self, entries: list[Entry]) -> dict[str, dict[Key, Known]]:
        """What is stored already, per record type of these entries."""
        keys: dict[str, list[Key]] = {}
        for entry in entries:
            if entry.record_type:
                keys.setdefault(entry.record_type, []).append((entry.tenant, entry.record_id))
        return {kind: self.sink.identities(list(dict.fromkeys(of_kind)), kind) for kind, of_kind in keys.items()}

    def _rule(self, entry: Entry, known: dict[str, dict[Key, Known]], refused: Container[int]) -> Ruling:
        """What becomes of a message. The first record of an identity is known to those behind it in the batch."""
        if not entry.record_type or entry.position in refused:
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
        """Store the new records of a type. Returns what the store refused."""
        streams = list(_of_kind(kind, batch, rulings))
        fresh = [
            _filtered(stream, [ruling.fresh for ruling in ruled])
            for _, stream, ruled in streams
            if any(ruling.fresh for ruling in ruled)
        ]
        return self._insert_isolating(kind, streams[0][0], join_rows(fresh)) if fresh else []

    def _store_conflicts(self, batch: list[Outcome], rulings: list[list[Ruling]], recorded: int) -> None:
        """Keep apart what has a known identity and other content, unless the ledger knows that it was done."""
        conflicts = [
            conflict
            for kind in {entry.record_type for outcome in batch for entry in outcome.entries if entry.record_type}
            for _, stream, ruled in _of_kind(kind, batch, rulings)
            for conflict in self._conflicts(stream, ruled, recorded)
        ]
        if conflicts:
            self.sink.insert("conflicting_events", encode_conflicts(conflicts))

    def _insert_isolating(self, kind: str, table: str, stream: bytes) -> list[DeadLetterRow]:
        """Insert rows; those that the store refuses cost only themselves and become dead letters."""
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

    def _conflicts(self, stream: bytes, ruled: list[Ruling], recorded: int) -> list[ConflictRow]:
        apart = [bool(ruling.known_digest) and ruling.entry.position >= recorded for ruling in ruled]
        if not any(apart):
            return []
        conflicting = [ruling for ruling, is_apart in zip(ruled, apart, strict=True) if is_apart]
        rows = read_rows(filter_rows(stream, apart))
        return [self._conflict(ruling, row) for ruling, row in zip(conflicting, rows, strict=True)]

    def _conflict(self, ruling: Ruling, row: dict[str, Any]) -> ConflictRow:
        entry, text = ruling.entry, _text_of(ruling.entry.record_type, row)
        return ConflictRow(
            entry.tenant, entry.record_id, entry.record_type, entry.content_digest, ruling.known_digest, text,
            SOURCE_KIND, self.partition, entry.position, self.now(),
        )  # fmt: skip

    def _store_classifications(self, batch: list[Outcome], rulings: list[list[Ruling]]) -> None:
        """Store the classification of every event whose evidence is stored and that this table has not classified."""
        events = list(_of_kind(TERMINAL_EVENT, batch, rulings, "exit_classifications"))
        known = [_key(r) for _, _, ruled in events for r in ruled if r.disposition in _HELD and not r.fresh]
        done = self.sink.classified(known, self.table.digest, CLASSIFIER_VERSION) if known else set()
        flagged = [(stream, [_is_owed(ruling, done) for ruling in ruled]) for _, stream, ruled in events]
        if owed := [_filtered(stream, flags) for stream, flags in flagged if any(flags)]:
            self.sink.insert("exit_classifications", join_rows(owed))

    def _ledger_row(self, ruling: Ruling, now: int) -> LedgerRow:
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
            ruling.disposition,
            now,
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
    """The record behind a row, as canonical text."""
    if record_type == TERMINAL_EVENT:
        text: bytes = row["event"]
        return text
    fields = (name for name in COMPANIONS[record_type].model_fields if name != "type")
    record = {"type": record_type, **{name: row[name] for name in fields}}
    return encode_json(record | {"extensions": dict(record["extensions"])})


def _key(ruling: Ruling) -> Key:
    return ruling.entry.tenant, ruling.entry.record_id


def _filtered(stream: bytes, keep: list[bool]) -> bytes:
    return stream if all(keep) else filter_rows(stream, keep)


def _of_kind(
    kind: str, batch: list[Outcome], rulings: list[list[Ruling]], table: str | None = None
) -> Iterator[tuple[str, bytes, list[Ruling]]]:
    """Per outcome that has records of a type: a table, that of the records themselves if none is named, its rows, and
    their rulings."""
    for outcome, ruled in zip(batch, rulings, strict=True):
        rows = outcome.rows.get(kind)
        if rows is not None:
            name = table or next(iter(rows))
            yield name, rows[name], [ruling for ruling in ruled if ruling.entry.record_type == kind]


def _is_owed(ruling: Ruling, done: set[Key]) -> bool:
    """Whether an event still needs this table's classification. Each identity is owed one."""
    key = _key(ruling)
    if ruling.disposition not in _HELD or key in done:
        return False
    done.add(key)
    return True
