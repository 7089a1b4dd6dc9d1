"""The writing half of the pipeline: insert → dead-letter → announce → ledger, in that order.

What is before it, read → decode → redact → classify, runs in workers. A ledger row is written last: a message without
one is read again, and everything before it is idempotent by identity, so a run may end anywhere and be run again.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from classifier.decide import CLASSIFIER_VERSION
from classifier.table import Table
from schemas.canonical import encode_json
from schemas.companions import COMPANIONS
from schemas.errors import ErrorCode
from schemas.exits import KINDS
from schemas.types import EARLIEST
from sinks.erasure import letter_key, without_evidence, without_words
from sinks.errors import StoreRejected
from sinks.rows import (
    ConflictRow,
    DeadLetterRow,
    Disposition,
    LedgerRow,
    TableRow,
    change_column,
    encode_conflicts,
    encode_dead_letters,
    encode_ledger,
    encode_tables,
    filter_rows,
    join_rows,
    keys_of_ledger,
    read_columns,
    read_rows,
)
from sinks.store import ERASED, Known, LedgerTotals, Rejected
from streams.exit_message import change_envelope
from streams.worker import TERMINAL_EVENT, Announcement, Outcome

BATCH_RECORDS = 20_000
"""Messages that are written together. More cost memory, fewer cost a look-up each."""

_HELD = frozenset({Disposition.CLASSIFIED, Disposition.DUPLICATE})
_NEWEST_ACTIVATION = "SELECT table_digest, classifier_version, activated_at FROM v_tables LIMIT 1"

Key = tuple[str, str]
Place = tuple[str, str, int]
"""Where a message was read: source, partition, offset."""


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

    def are_new(self, keys: bytes, record_type: str, /) -> bool:
        """Whether none of the keys, as ``rows.keys_of_ledger`` gives them, is stored, was erased or stands there
        twice."""
        ...

    def any_erased(self, keys: bytes, record_type: str, /) -> bool:
        """Whether any of the keys, as above, was erased on request."""
        ...

    def classified(self, keys: Sequence[Key], table_digest: str, classifier_version: str, /) -> set[Key]:
        """Which events the table has classified."""
        ...

    def erased(self, keys: Sequence[Key], record_type: str, /) -> set[Key]:
        """Which records were erased on request, by the keys of the table ``erasures``."""
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
    newest_at: int = EARLIEST
    """When the newest event occurred; EARLIEST if there was none."""

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
        return sum(count for (kind, _), count in self.tally.items() if kind == "error") + self.refused

    @property
    def refused(self) -> int:
        """Valid records that the store refused."""
        return sum(count for (kind, fate), count in self.fates.items() if kind and fate is Disposition.DEAD_LETTERED)

    def add(self, outcome: Outcome) -> None:
        """Count what a worker did."""
        self.read += outcome.messages
        self.tally.update(outcome.tally)
        self.redacted += outcome.redacted
        self.newest_at = max(self.newest_at, outcome.newest_at)


class Ruling(NamedTuple):
    """What becomes of one message: its row in the ledger, whether its record is still to be stored, and, where it
    differs from what is stored under its identity, the stored digest."""

    entry: LedgerRow
    fresh: bool
    known_digest: str = ""

    @property
    def key(self) -> Key:
        """Identity of the record."""
        return self.entry.tenant, self.entry.event_id


Publish = Callable[[Sequence[DeadLetterRow], Sequence[Announcement]], None]
"""Makes dead letters and classifications known elsewhere; returns when all of them are confirmed."""


def publish_nothing(_letters: Sequence[DeadLetterRow], _announcements: Sequence[Announcement]) -> None:
    """Where nobody listens."""


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


@dataclass
class Writer:
    """Writes outcomes to a store. ``now`` gives microseconds."""

    sink: Sink
    table: Table
    now: Callable[[], int]
    publish: Publish = publish_nothing
    _some_table_is_current: bool = False
    """Once there is one, there always is."""

    def activate(self) -> None:
        """Make this table's classifications the current ones."""
        activate(self.sink, self.table, self.now)

    def _activate_first(self) -> None:
        """Make this table the current one where none is, before anything of it is stored, since whoever takes the
        outcomes may stop. Where another one is, readers keep seeing that until everything is decided anew."""
        if self._some_table_is_current:
            return
        if not read_rows(self.sink.query(_NEWEST_ACTIVATION, "ArrowStream")):
            self.activate()
        self._some_table_is_current = True

    def recorded_until(self, source: str, partition: str) -> int:
        """The position up to which the ledger knows every message of a partition."""
        totals = self.sink.ledger_totals(source, partition)
        whole = totals and totals[0].first_offset == 0 and not totals[0].missing_offsets
        return totals[0].end_offset if whole else 0

    def write(self, outcomes: Iterable[Outcome], report: Report, recorded: int = 0) -> Iterator[Outcome]:
        """Store outcomes batch by batch and pass each on once it is stored. Adds to ``report``. What is below the
        position ``recorded`` leaves no second trace in ledger, dead letters and conflicts."""
        for batch in batches(outcomes):
            self.write_batch(batch, report, recorded)
            yield from batch

    def write_batch(self, batch: list[Outcome], report: Report, recorded: int = 0) -> None:
        """Store outcomes together, of any number of partitions."""
        if any(TERMINAL_EVENT in outcome.rows for outcome in batch):
            self._activate_first()
        report.fates.update(self._write_ruled(batch, recorded) if recorded else self._write_unrecorded(batch))
        for outcome in batch:
            report.add(outcome)

    # --- a batch of which nothing is known, as most are: the workers' rows are right as they are

    def _write_unrecorded(self, batch: list[Outcome]) -> Counter[tuple[str, Disposition]]:
        ledgers = [outcome.ledger for outcome in batch if outcome.counts]
        keys = keys_of_ledger(join_rows(ledgers)) if ledgers else {}
        if ledgers and all(self.sink.are_new(of_kind, kind) for kind, of_kind in keys.items()):
            return self._write_new(batch, keys)
        return self._write_ruled(batch, 0)

    def _write_new(self, batch: list[Outcome], keys: Mapping[str, bytes]) -> Counter[tuple[str, Disposition]]:
        for kind in {kind: None for outcome in batch for kind in outcome.rows}:
            of_kind = [outcome.rows[kind] for outcome in batch if kind in outcome.rows]
            table = next(iter(of_kind[0]))
            try:
                self.sink.insert(table, join_rows([rows[table] for rows in of_kind]))
            except StoreRejected:
                # Some row is bad. What was inserted is known by now, and stays.
                return self._write_ruled(batch, 0)
        if TERMINAL_EVENT in keys and self.sink.any_erased(keys[TERMINAL_EVENT], TERMINAL_EVENT):
            # Since it was inserted. Its exit would bring back words of it.
            return self._write_ruled(batch, 0)
        if events := [outcome.rows[TERMINAL_EVENT] for outcome in batch if TERMINAL_EVENT in outcome.rows]:
            self.sink.insert("exit_classifications", join_rows([rows["exit_classifications"] for rows in events]))
        letters = [letter for outcome in batch for letter in outcome.dead_letters]
        self._let_go(letters, [announcement for outcome in batch for announcement in outcome.announcements])
        self.sink.insert("ingest_ledger", join_rows([outcome.ledger for outcome in batch if outcome.counts]))
        return sum((outcome.counts for outcome in batch), start=Counter())

    def _let_go(self, letters: Sequence[DeadLetterRow], announcements: Sequence[Announcement]) -> None:
        kept = self._not_erased(letters)
        if kept:
            self.sink.insert("dead_letters", encode_dead_letters(kept))
        self.publish(kept, announcements)

    def _not_erased(self, letters: Sequence[DeadLetterRow]) -> Sequence[DeadLetterRow]:
        """Those that were not erased since they were inserted, by a try that came no further."""
        keys = [letter_key(*_place(letter)) for letter in letters]
        erased = self.sink.erased(keys, "dead_letter") if keys else set()
        return [letter for letter, key in zip(letters, keys, strict=True) if key not in erased]

    # --- any other batch: message by message

    def _write_ruled(self, batch: list[Outcome], recorded: int) -> Counter[tuple[str, Disposition]]:
        rulings, refused = self._store_evidence(batch)
        self._store_conflicts(batch, rulings, recorded)
        self._store_classifications(batch, rulings)
        letters = [letter for outcome in batch for letter in outcome.dead_letters if letter.offset >= recorded]
        self._let_go([*letters, *refused.values()], self._announcements(batch, rulings))
        final = [ruling for of_outcome in rulings for ruling in of_outcome]
        # What was stored or refused only now is recorded anew, whatever the ledger said of it.
        unrecorded = [
            ruling.entry for ruling in final
            if ruling.entry.offset >= recorded or ruling.fresh or _place(ruling.entry) in refused
        ]  # fmt: skip
        if unrecorded:
            self.sink.insert("ingest_ledger", encode_ledger(unrecorded))
        return _fates(batch, final)

    def _store_evidence(self, batch: list[Outcome]) -> tuple[list[list[Ruling]], dict[Place, DeadLetterRow]]:
        """Rule on every message of a batch and store what is new; what the store refused, by place.

        A refused record is not known to those behind it, so all are ruled on again, as a second run would.
        """
        entries = [_entries(outcome) for outcome in batch]
        refused: dict[Place, DeadLetterRow] = {}
        while True:
            known = self._known([entry for of_outcome in entries for entry in of_outcome])
            rulings = [[self._rule(entry, known, refused) for entry in of_outcome] for of_outcome in entries]
            newly = [letter for kind in known for letter in self._store_records(kind, batch, rulings)]
            if not newly:
                return rulings, refused
            refused |= {_place(letter): letter for letter in newly}

    def _known(self, entries: list[LedgerRow]) -> dict[str, dict[Key, Known]]:
        """What is stored already, per record type of these entries."""
        keys: dict[str, list[Key]] = {}
        for entry in entries:
            if entry.record_type:
                keys.setdefault(entry.record_type, []).append((entry.tenant, entry.event_id))
        return {kind: self.sink.identities(list(dict.fromkeys(of_kind)), kind) for kind, of_kind in keys.items()}

    def _rule(self, entry: LedgerRow, known: dict[str, dict[Key, Known]], refused: Container[Place]) -> Ruling:
        """What becomes of a message. The first record of an identity is known to those behind it in the batch."""
        if not entry.record_type:
            return Ruling(entry, fresh=False)
        if _place(entry) in refused:
            return Ruling(entry._replace(disposition=Disposition.DEAD_LETTERED), fresh=False)
        key = (entry.tenant, entry.event_id)
        stored = known[entry.record_type].get(key)
        if stored is None:
            known[entry.record_type][key] = Known(entry.content_digest, *_place(entry))
            return Ruling(entry, fresh=True)
        if stored.content_digest != entry.content_digest:
            conflicting = entry._replace(disposition=Disposition.CONFLICTING)
            return Ruling(conflicting, fresh=False, known_digest=stored.content_digest)
        if (stored.source, stored.partition, stored.offset) == _place(entry):
            return Ruling(entry, fresh=False)
        return Ruling(entry._replace(disposition=Disposition.DUPLICATE), fresh=False)

    # --- writing

    def _store_records(self, kind: str, batch: list[Outcome], rulings: list[list[Ruling]]) -> list[DeadLetterRow]:
        """Store the new records of a type, without their evidence where that was erased and the row has gone by its age
        since. Returns what the store refused."""
        streams = list(_of_kind(kind, batch, rulings))
        new = [ruling.key for _, _, ruled in streams for ruling in ruled if ruling.fresh]
        if not new:
            return []
        table, erased = streams[0][0], self.sink.erased(new, kind)
        fresh = [
            _filtered(_without_evidence(table, stream, [ruling.key in erased for ruling in ruled]),
                      [ruling.fresh for ruling in ruled])
            for _, stream, ruled in streams
            if any(ruling.fresh for ruling in ruled)
        ]  # fmt: skip
        return self._insert_isolating(kind, table, join_rows(fresh))

    def _store_conflicts(self, batch: list[Outcome], rulings: list[list[Ruling]], recorded: int) -> None:
        """Keep apart what has a known identity and other content, unless the ledger knows that it was done; without its
        text where that was erased."""
        conflicts = [
            conflict
            for kind in {kind for outcome in batch for kind in outcome.rows}
            for _, stream, ruled in _of_kind(kind, batch, rulings)
            for conflict in self._conflicts(stream, ruled, recorded)
        ]
        if conflicts:
            erased = self.sink.erased([_conflict_key(each) for each in conflicts], "conflict")
            left = [each._replace(text=ERASED) if _conflict_key(each) in erased else each for each in conflicts]
            self.sink.insert("conflicting_events", encode_conflicts(left))

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
            source=row["source"],
            partition=row["partition"],
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
        apart = [bool(ruling.known_digest) and ruling.entry.offset >= recorded for ruling in ruled]
        if not any(apart):
            return []
        conflicting = [ruling for ruling, is_apart in zip(ruled, apart, strict=True) if is_apart]
        rows = read_rows(filter_rows(stream, apart))
        return [self._conflict(ruling, row) for ruling, row in zip(conflicting, rows, strict=True)]

    def _conflict(self, ruling: Ruling, row: dict[str, Any]) -> ConflictRow:
        entry, text = ruling.entry, _text_of(ruling.entry.record_type, row)
        return ConflictRow(
            entry.tenant, entry.event_id, entry.record_type, entry.content_digest, ruling.known_digest, text,
            *_place(entry), self.now(),
        )  # fmt: skip

    def _store_classifications(self, batch: list[Outcome], rulings: list[list[Ruling]]) -> None:
        """Store the classification of every event whose evidence is stored and that this table has not classified;
        without words where that was erased."""
        events = list(_of_kind(TERMINAL_EVENT, batch, rulings, "exit_classifications"))
        held = [ruling for _, _, ruled in events for ruling in ruled if ruling.entry.disposition in _HELD]
        known = [ruling.key for ruling in held if not ruling.fresh]
        done = self.sink.classified(known, self.table.digest, CLASSIFIER_VERSION) if known else set()
        owed = [ruling.key for ruling in held if ruling.key not in done]
        erased = self.sink.erased(owed, TERMINAL_EVENT) if owed else set()
        flagged = [
            (_without_words(stream, [ruling.key in erased for ruling in ruled]),
             [_is_owed(ruling, done) for ruling in ruled])
            for _, stream, ruled in events
        ]  # fmt: skip
        if added := [_filtered(stream, flags) for stream, flags in flagged if any(flags)]:
            self.sink.insert("exit_classifications", join_rows(added))

    def _announcements(self, batch: list[Outcome], rulings: list[list[Ruling]]) -> list[Announcement]:
        """Announcements of the events that are stored, wherever this batch or an earlier one stored them; without words
        where that was erased."""
        held = list(_held_announcements(batch, rulings))
        erased = self.sink.erased([key for key, _ in held], TERMINAL_EVENT) if held else set()
        return [
            announcement._replace(value=change_envelope(announcement.value, without_words))
            if key in erased
            else announcement
            for key, announcement in held
        ]


def batches(outcomes: Iterable[Outcome]) -> Iterator[list[Outcome]]:
    """Outcomes in lists of about :data:`BATCH_RECORDS` messages."""
    batch: list[Outcome] = []
    size = 0
    for outcome in outcomes:
        batch.append(outcome)
        size += outcome.messages
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


def _place(row: LedgerRow | DeadLetterRow) -> Place:
    return row.source, row.partition, row.offset


def _entries(outcome: Outcome) -> list[LedgerRow]:
    """A worker's ledger rows, in order."""
    return [LedgerRow(*row) for row in read_columns(outcome.ledger)] if outcome.counts else []


def _fates(batch: list[Outcome], rulings: list[Ruling]) -> Counter[tuple[str, Disposition]]:
    """What became of the messages. Of what is no record, the workers know how many messages a row stands for."""
    fates: Counter[tuple[str, Disposition]] = Counter()
    for outcome in batch:
        fates.update({fate: count for fate, count in outcome.counts.items() if not fate[0]})
    entries = (ruling.entry for ruling in rulings)
    fates.update((entry.record_type, Disposition(entry.disposition)) for entry in entries if entry.record_type)
    return fates


def _held_announcements(batch: list[Outcome], rulings: list[list[Ruling]]) -> Iterator[tuple[Key, Announcement]]:
    """Announcements of the events that are stored, each with whose it is."""
    for outcome, ruled in zip(batch, rulings, strict=True):
        if outcome.announcements:
            for ruling, announcement in zip(_of_events(ruled), outcome.announcements, strict=True):
                if ruling.entry.disposition in _HELD:
                    yield ruling.key, announcement


def _of_events(ruled: list[Ruling]) -> list[Ruling]:
    return [ruling for ruling in ruled if ruling.entry.record_type == TERMINAL_EVENT]


def _conflict_key(row: ConflictRow) -> Key:
    """Under which tenant and id a conflict is noted as erased."""
    return row.tenant, row.content_digest


def _without_words(stream: bytes, erased: list[bool]) -> bytes:
    """Classifications, those of erased events as they were left."""
    return change_column(stream, "envelope", without_words, erased) if any(erased) else stream


def _without_evidence(table: str, stream: bytes, erased: list[bool]) -> bytes:
    """Rows of a record's table, those of erased records as they were left."""
    return without_evidence(table, stream, erased) if any(erased) else stream


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
    if ruling.entry.disposition not in _HELD or ruling.key in done:
        return False
    done.add(ruling.key)
    return True
