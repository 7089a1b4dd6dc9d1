"""The store: evidence, classifications, companions, ledger and dead letters, written once and read by identity.

Every write is idempotent by identity: inserting the same rows again changes nothing that a reader sees. Reading goes
through views, except by identity, which reads the tables directly because it is on the path of every batch.
"""

import json
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from schemas.exits import Classification
from schemas.types import EARLIEST, LATEST
from sinks.engine import Engine, open_embedded
from sinks.errors import StoreDamaged, StoreRejected
from sinks.lock import Holder, claim_directory, hold
from sinks.migrations import EMBEDDED, Layout, Migration, load_migrations
from sinks.readonly import checked_select
from sinks.rows import COMPANION_TABLES, SCHEMAS, Position, count_rows, encode_keys, read_columns, read_rows, slice_rows

ERASED = b'{"type":"erased"}'
"""What stands in place of an event's text that was erased on request; no record of the contract."""

Key = tuple[str, str]
"""Identity of a record: tenant, and event id or record id."""

_PATIENCE, _PAUSE_S = 40, 0.25
"""How often, and after how many seconds, it is looked again whether replaced files are gone."""
_HASH_SPACE = 2**64
_MIGRATIONS_TABLE = """
    CREATE TABLE IF NOT EXISTS schema_migrations $on_cluster
    (
        name String COMMENT 'file of the migration',
        digest String COMMENT 'sha256 of its text',
        applied_at DateTime64(6, 'UTC') COMMENT 'when it was applied'
    )
    ENGINE = $replacing(applied_at)
    ORDER BY name
    COMMENT 'Migrations that were applied to this store'
"""
_RECORD_MIGRATION = (
    "INSERT INTO schema_migrations SELECT {name:String}, {digest:String}, fromUnixTimestamp64Micro({at:Int64})"
)
_PROBED = "SELECT cityHash64(tenant, id) FROM probe"
_CLASSIFIED = f"SELECT tenant, event_id FROM exit_classifications WHERE identity IN ({_PROBED})"  # noqa: S608 -- constant
_NOTED_AS_ERASED = """
    SELECT DISTINCT tenant, record_id FROM erasures
    WHERE record_type = {record_type:String} AND (tenant, record_id) IN (SELECT tenant, id FROM probe)
"""
_STANDING = f"""
    SELECT
        tenant,
        event_id,
        max(active OR NOT mine),
        argMaxIf((kind, reason_code), (activated, classified_at), active OR NOT mine) AS current,
        max(mine),
        anyIf((kind, reason_code), mine) AS by_table
    FROM
    (
        SELECT tenant, event_id, kind, reason_code, classified_at, activated_at AS activated,
            toUnixTimestamp64Micro(activated_at) > 0 AS active,
            table_digest = {{table:String}} AND classifier_version = {{version:String}} AS mine
        FROM exit_classifications FINAL
        LEFT JOIN (SELECT * FROM active_tables FINAL) AS tables USING (table_digest, classifier_version)
        WHERE identity IN ({_PROBED})
    )
    GROUP BY tenant, event_id
"""  # noqa: S608 -- constant
_EVENTS = """
    SELECT tenant, event_id, event, content_digest, evidence_digest, source, partition, offset, ingested_at
    FROM terminal_events FINAL
"""
_CURRENT = """
    SELECT classification.* FROM exit_classifications AS classification FINAL
    LEFT JOIN (SELECT * FROM active_tables FINAL) AS active USING (table_digest, classifier_version)
    WHERE {where} ORDER BY active.activated_at DESC, classification.classified_at DESC LIMIT 1
"""
_TOTALS = """
    SELECT source, partition, read, classified, stored, duplicate, conflicting, dead_lettered, filtered,
        first_offset, end_offset, missing_offsets
    FROM v_ledger
    WHERE ({source:String} = '' OR source = {source:String})
        AND ({partition:String} = '' OR partition = {partition:String})
    ORDER BY source, partition
"""
_LEDGER_END = """
    SELECT max(next_offset) AS end FROM ingest_ledger
    WHERE source = {source:String} AND partition = {partition:String} HAVING count() > 0
"""
_KEPT_DAYS = r"""
    SELECT replaceRegexpOne(name, '_shard$', '') AS name,
        extract(engine_full, 'TTL .*toIntervalDay\\((\\d+)\\)') AS days
    FROM system.tables
    WHERE database = currentDatabase() AND engine LIKE '%MergeTree'
"""
_IN_SPAN = (
    "identity BETWEEN {low:UInt64} AND {high:UInt64}"
    " AND occurred_at >= fromUnixTimestamp64Micro({since:Int64})"
    " AND occurred_at < fromUnixTimestamp64Micro({until:Int64})"
)


class Known(NamedTuple):
    """What the store knows under an identity: the digest of its content, and where it was read."""

    content_digest: str
    source: str
    partition: str
    offset: int


class Rejected(NamedTuple):
    """One row that the engine refused: its number in the stream, from 0, and why."""

    row: int
    reason: str


class Standing(NamedTuple):
    """The exits of one event, as (kind, reason code).

    ``current`` is what readers see, None if no table has decided; ``by_table`` that of one table and version of the
    classifier, None if it has not decided. A table that never was active is not current.
    """

    current: tuple[str, str] | None
    by_table: tuple[str, str] | None


class StoredEvent(NamedTuple):
    """A terminal event as it is kept. ``text`` is canonical JSON, every field present, instants as microseconds."""

    tenant: str
    event_id: str
    text: bytes
    content_digest: str
    evidence_digest: str
    position: Position
    ingested_at: int

    @property
    def is_erased(self) -> bool:
        """Whether its evidence was erased on request, so that nothing can be read from it any more."""
        return self.text == ERASED


class Retention(NamedTuple):
    """How many days after the instant in ``column`` a table's rows go, as planned and in fact; None: never."""

    table: str
    column: str
    planned: int | None
    found: int | None

    @property
    def differs(self) -> bool:
        """Whether it is not as planned."""
        return self.planned != self.found


@dataclass(frozen=True)
class LedgerTotals:
    """What became of the messages of one partition. ``missing_offsets`` lie in between and have no ledger row."""

    source: str
    partition: str
    read: int
    classified: int
    stored: int
    duplicate: int
    conflicting: int
    dead_lettered: int
    filtered: int
    first_offset: int
    end_offset: int
    missing_offsets: int


class Store:
    """An open store. Raises StoreRejected and StoreUnavailable, see :mod:`sinks.errors`; times are microseconds."""

    def __init__(self, engine: Engine, now: Callable[[], int], layout: Layout = EMBEDDED) -> None:
        self._engine, self._now, self._layout = engine, now, layout

    # Migrations

    def migrate(self) -> list[str]:
        """Bring the store up to date; the names of the migrations that were applied, in order.

        Raises StoreRejected if the store was made by a newer program or another edition of it, StoreDamaged if tables
        are gone that it had.
        """
        if "schema_migrations" not in self._tables():
            for statement in self._layout.rendered(_MIGRATIONS_TABLE):
                self._engine.command(statement)
        self.check_history()
        applied = self._applied()
        pending = [migration for migration in load_migrations() if migration.name not in applied]
        for migration in pending:
            self._apply(migration)
        return [migration.name for migration in pending]

    def check_history(self) -> None:
        """Raise as :meth:`migrate` does if this program cannot go on with what was applied. Changes nothing."""
        applied, migrations = {} if self.is_new() else self._applied(), load_migrations()
        _check_history(applied, {migration.name: migration.digest for migration in migrations})
        _check_tables([migration for migration in migrations if migration.name in applied], self._tables())

    def pending(self) -> list[str]:
        """Names of the migrations that :meth:`migrate` would apply, in order. Changes nothing."""
        applied = {} if self.is_new() else self._applied()
        return [migration.name for migration in load_migrations() if migration.name not in applied]

    def is_new(self) -> bool:
        """Whether nothing says that this store was ever migrated."""
        return "schema_migrations" not in self._tables() or not self._applied()

    def _applied(self) -> dict[str, str]:
        """Digests of the migrations that were applied, by name."""
        return {row["name"]: row["digest"] for row in self._rows("SELECT name, digest FROM schema_migrations FINAL")}

    def _tables(self) -> set[str]:
        return {row["name"] for row in self._rows("SELECT name FROM system.tables WHERE database = currentDatabase()")}

    def _apply(self, migration: Migration) -> None:
        for statement in migration.statements(self._layout):
            self._engine.command(statement)
        row = {"name": migration.name, "digest": migration.digest, "at": self._now()}
        self._engine.command(_RECORD_MIGRATION, row)

    # Writing

    def insert(self, table: str, stream: bytes) -> None:
        """Insert what ``rows.encode_*`` made for ``table``: all of it, or nothing and an error."""
        self._engine.insert(table, _column_names(table), stream)

    def insert_rows_isolating(self, table: str, stream: bytes) -> list[Rejected]:
        """Insert what can be inserted, and return the rows that the engine refused, by index.

        A bad row costs its neighbours nothing but time: the stream is halved until the bad rows stand alone. An outage
        is raised, not bisected; what was inserted before it may be inserted again.
        """
        return list(self._isolate(table, stream, 0, count_rows(stream)))

    def _isolate(self, table: str, stream: bytes, start: int, length: int) -> Iterator[Rejected]:
        try:
            if length:
                self.insert(table, slice_rows(stream, start, length))
        except StoreRejected as error:
            if length == 1:
                yield Rejected(start, str(error))
                return
            half = length // 2
            yield from self._isolate(table, stream, start, half)
            yield from self._isolate(table, stream, start + half, length - half)

    # Changing what is stored

    def execute(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Run this package's own statement that returns nothing. ``sql`` is constant; data are parameters."""
        self._engine.command(sql, parameters)

    def alter(self, table: str, change: str) -> None:
        """Change a table, or the rows of it, by what follows ALTER TABLE; done on every copy when this returns.

        Raises StoreForbidden if the user may not.
        """
        # A subquery gives the same on every replica, since what it reads is changed by nobody meanwhile.
        waiting = "SETTINGS mutations_sync = 2, alter_sync = 2, allow_nondeterministic_mutations = 1"
        self._engine.command(f"{self._layout.altered(table)} {change} {waiting}")

    def retention(self) -> list[Retention]:
        """How long every table that ages keeps its rows, as planned and in fact. Changes nothing."""
        kept = {row["name"]: int(row["days"]) if row["days"] else None for row in self._rows(_KEPT_DAYS)}
        columns, planned = self._layout.ageing(), self._layout.retention_days
        return [Retention(name, column, planned.get(column), kept.get(name)) for name, column in columns.items()]

    def apply_retention(self, retention: Retention) -> None:
        """Keep a table's rows as long as planned; what is older goes at once, and for good. Raises StoreForbidden."""
        if retention.differs and retention.planned is None:
            self.alter(retention.table, "REMOVE TTL")
        elif retention.differs:
            self.alter(retention.table, f"MODIFY TTL {retention.column} + INTERVAL {retention.planned:d} DAY DELETE")
        if retention.planned is not None:
            self.alter(retention.table, "MATERIALIZE TTL")

    def drop_replaced_files(self, tables: Sequence[str], wait: Callable[[float], None]) -> bool:
        """Delete the files of ``tables`` that a change of rows has replaced; whether all of them are gone.

        ``wait`` takes seconds. A server does that by itself, within minutes, and is not asked to.
        """
        if not self._engine.is_embedded:
            return False
        return all(self._drop_replaced_files(table, wait) for table in tables)

    def _drop_replaced_files(self, table: str, wait: Callable[[float], None]) -> bool:
        # An engine that runs for a moment only never comes to it. Dropping a partition that is not there does, for what
        # was replaced in an earlier second.
        begin, left = self._layout.altered(table), "SELECT count() AS n FROM system.parts WHERE NOT active AND "
        in_table = "database = currentDatabase() AND table = {table:String}"
        self._engine.command(f"{begin} MODIFY SETTING old_parts_lifetime = 0")
        try:
            for _ in range(_PATIENCE):
                self._engine.command(f"{begin} DROP PARTITION ID 'none'")
                if not self._rows(left + in_table, {"table": table})[0]["n"]:
                    return True
                wait(_PAUSE_S)
        finally:
            self._engine.command(f"{begin} RESET SETTING old_parts_lifetime")
        return False

    # Identity

    def identities(self, keys: Sequence[Key], record_type: str = "terminal_event") -> dict[Key, Known]:
        """Which of ``keys`` are stored, and as what. ``record_type`` is terminal_event or a companion's type.

        Cost is bounded by the number of keys, not by the size of the store.
        """
        table, name = _identity_of(record_type)
        columns = f"tenant, {name}, content_digest, source, partition, offset"
        sql = f"SELECT {columns} FROM {table} WHERE identity IN ({_PROBED}) ORDER BY ingested_at"  # noqa: S608 -- names
        rows = self._probe(keys, sql)
        wanted = set(keys)
        return {(tenant, key): Known(*rest) for tenant, key, *rest in rows if (tenant, key) in wanted}

    def are_new(self, keys: bytes, record_type: str) -> bool:
        """Whether none of the ``keys``, a stream of ``rows.encode_keys``, is stored, was erased or stands there twice.

        May say no where :meth:`identities` finds nothing, never the other way round.
        """
        table, _ = _identity_of(record_type)
        stored = f"SELECT 1 FROM {table} WHERE identity IN ({_PROBED})"  # noqa: S608 -- names
        sql = f"SELECT uniqExact(tenant, id) = count() AND NOT EXISTS ({stored}) FROM probe"  # noqa: S608 -- names
        ((new,),) = read_columns(self._engine.lookup(keys, sql))
        return bool(new) and not self.any_erased(keys, record_type)

    def any_erased(self, keys: bytes, record_type: str) -> bool:
        """Whether any of the ``keys``, as above, was erased on request. Costs next to nothing where nothing was."""
        if not self._rows("SELECT count() AS n FROM erasures")[0]["n"]:
            return False
        sql = f"SELECT EXISTS ({_NOTED_AS_ERASED})"
        ((found,),) = read_columns(self._engine.lookup(keys, sql, {"record_type": record_type}))
        return bool(found)

    def classified(self, keys: Sequence[Key], table_digest: str, classifier_version: str) -> set[Key]:
        """Which of ``keys`` that decision table has classified under that version of the classifier."""
        sql = f"{_CLASSIFIED} AND table_digest = {{table:String}} AND classifier_version = {{version:String}}"
        rows = self._probe(keys, sql, {"table": table_digest, "version": classifier_version})
        return {(tenant, key) for tenant, key in rows} & set(keys)

    def erased(self, keys: Sequence[Key], record_type: str) -> set[Key]:
        """Which of ``keys`` were erased on request. ``record_type`` and ids are those of the table ``erasures``."""
        return {(tenant, key) for tenant, key in self._probe(keys, _NOTED_AS_ERASED, {"record_type": record_type})}

    def standings(self, keys: Sequence[Key], table_digest: str, classifier_version: str) -> dict[Key, Standing]:
        """The exits of those of ``keys`` that any table has classified, see :class:`Standing`."""
        rows = self._probe(keys, _STANDING, {"table": table_digest, "version": classifier_version})
        found = {(row[0], row[1]): row[2:] for row in rows}
        return {key: _standing(*found[key]) for key in dict.fromkeys(keys) if key in found}

    def _probe(self, keys: Sequence[Key], sql: str, parameters: Mapping[str, Any] | None = None) -> Iterable[Any]:
        if not keys:
            return ()
        return read_columns(self._engine.lookup(encode_keys(keys), sql, parameters))

    # Reading

    def query(self, sql: str, fmt: str = "JSONEachRow") -> bytes:
        """Answer of one reading statement, in the engine's output format ``fmt`` (``CSVWithNames``, ``Parquet``...).

        Raises StoreRejected for anything that is not one plain SELECT, EXPLAIN, DESCRIBE, SHOW or EXISTS.
        """
        return self._engine.ask(checked_select(sql, self._engine.ask), fmt)

    def select(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Rows of this package's own SELECT, instants as microseconds. ``sql`` is constant; data are parameters."""
        return self._rows(sql, parameters)

    def select_by(self, keys: Sequence[Key], sql: str) -> list[dict[str, Any]]:
        """The same of a SELECT that reads ``keys`` as the table ``probe`` (tenant, id). No keys, no rows."""
        return read_rows(self._engine.lookup(encode_keys(keys), sql)) if keys else []

    def ledger_totals(self, source: str | None = None, partition: str | None = None) -> list[LedgerTotals]:
        """Totals per partition, of all or of one source, of all or of one partition."""
        parameters = {"source": source or "", "partition": partition or ""}
        return [LedgerTotals(**row) for row in self._rows(_TOTALS, parameters)]

    def ledger_end(self, source: str, partition: str) -> int | None:
        """The offset behind the last message of a partition that the ledger knows, None if it knows none."""
        rows = self._rows(_LEDGER_END, {"source": source, "partition": partition})
        return rows[0]["end"] if rows else None

    def scan_events(
        self, since: int = EARLIEST, until: int = LATEST + 1, page: int = 10_000
    ) -> Iterator[list[StoredEvent]]:
        """All events that occurred in ``[since, until)``, in pages of about ``page`` rows, in a fixed order.

        The order is that of the hashes of their identities, so that a page is one short read at any size of the store.
        """
        count = self._rows("SELECT count() AS rows FROM terminal_events")[0]["rows"]
        pages = max(1, -(-count // page))
        for number in range(pages):
            span = {"low": _HASH_SPACE * number // pages, "high": _HASH_SPACE * (number + 1) // pages - 1}
            yield self._events(_IN_SPAN, span | {"since": since, "until": until})

    def event(self, event_id: str, tenant: str | None = None) -> StoredEvent | None:
        """One event, or None. Raises StoreRejected if several tenants have one of that id and none is named."""
        tenants = [tenant] if tenant is not None else self._tenants_of(event_id)
        if len(tenants) > 1:
            raise StoreRejected(f"tenants {', '.join(tenants)} have event {event_id}; name one")
        found = [event for name in tenants for event in self._events(*_by_identity(event_id, name))]
        return found[0] if found else None

    def _tenants_of(self, event_id: str) -> list[str]:
        # Reads one column of every row; the text is then read by identity.
        sql = "SELECT DISTINCT tenant FROM terminal_events WHERE event_id = {event_id:String} ORDER BY tenant"
        return [row["tenant"] for row in self._rows(sql, {"event_id": event_id})]

    def _events(self, where: str, parameters: Mapping[str, Any]) -> list[StoredEvent]:
        stream = self._engine.fetch(f"{_EVENTS} WHERE {where} ORDER BY identity, tenant, event_id", parameters)
        return [
            StoredEvent(
                tenant, event_id, text.encode(), content_digest, evidence_digest, Position(*position), ingested_at
            )
            for tenant, event_id, text, content_digest, evidence_digest, *position, ingested_at in read_columns(stream)
        ]

    def classification(self, event_id: str, tenant: str) -> dict[str, Any] | None:
        """The current classification of an event in the contract's shape, or None."""
        where, parameters = _by_identity(event_id, tenant)
        rows = self._rows(_CURRENT.format(where=where), parameters)
        return _contract_shape(rows[0]) if rows else None

    def _rows(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        return read_rows(self._engine.fetch(sql, parameters))


@contextmanager
def open_store(  # noqa: PLR0913 -- the clock, the wait and who asks are handed in, each under its own name
    path: Path,
    *,
    holder: str,
    lock_timeout_s: float,
    now: Callable[[], int],
    wait: Callable[[float], None],
    layout: Layout = EMBEDDED,
) -> Iterator[Store]:
    """The embedded store in directory ``path``, made if there is none, owned while the context lasts.

    ``holder`` is the verb that opens it, told to whoever has to wait; ``now`` gives microseconds, ``wait`` takes
    seconds. Call :meth:`Store.migrate` before anything else. Raises StoreBusy after ``lock_timeout_s`` seconds,
    StoreRejected if the directory is somebody else's.
    """
    claim_directory(path)
    me = Holder(verb=holder, pid=os.getpid(), host=socket.gethostname(), since=now())
    with hold(path, me, lock_timeout_s, wait):
        engine = open_embedded(path / "engine")
        try:
            yield Store(engine, now, layout)
        finally:
            engine.close()


def _standing(has_current: bool, current: Any, has_mine: bool, mine: Any) -> Standing:  # noqa: FBT001  (columns)
    return Standing(_exit(current) if has_current else None, _exit(mine) if has_mine else None)


def _exit(pair: Mapping[str, str]) -> tuple[str, str]:
    kind, reason = pair.values()
    return kind, reason


def _check_history(applied: Mapping[str, str], known: Mapping[str, str]) -> None:
    for name, digest in applied.items():
        if name not in known:
            raise StoreRejected(f"the store is newer than this program: it has migration {name}; upgrade offramp")
        if known[name] != digest:
            raise StoreRejected(
                f"the store was made by another edition of this program (its migration {name} differs); use that one, "
                "or name a new directory and classify the files again"
            )


def _check_tables(applied: Sequence[Migration], existing: set[str]) -> None:
    lost = [name for migration in applied for name in migration.made if name not in existing]
    if lost:
        raise StoreDamaged(
            f"the store has lost {', '.join(lost)}; restore it, or classify its files again into a new one"
        )


def _column_names(table: str) -> list[str]:
    if table not in SCHEMAS:
        raise StoreRejected(f"there is no table {table}; there are {', '.join(sorted(SCHEMAS))}")
    return list(SCHEMAS[table].names)


def _identity_of(record_type: str) -> tuple[str, str]:
    """Table of a record type, and its column that holds the id."""
    if record_type == "terminal_event":
        return "terminal_events", "event_id"
    if record_type not in COMPANION_TABLES:
        raise StoreRejected(f"there is no record type {record_type}")
    return COMPANION_TABLES[record_type], "record_id"


def _by_identity(event_id: str, tenant: str) -> tuple[str, dict[str, Any]]:
    where = "identity = cityHash64({tenant:String}, {event_id:String}) AND tenant = {tenant:String}"
    return f"{where} AND event_id = {{event_id:String}}", {"event_id": event_id, "tenant": tenant}


def _contract_shape(row: Mapping[str, Any]) -> dict[str, Any]:
    names = (name for name in Classification.model_fields if name not in ("table", "envelope"))
    table = {name: row[f"table_{name}"] for name in ("id", "version", "digest")}
    envelope = None if row["envelope"] is None else json.loads(row["envelope"])
    return {name: row[name] for name in names} | {"table": table, "envelope": envelope}
