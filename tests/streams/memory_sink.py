"""A store in memory that can refuse rows and end at any insert: what readers of the real one would see."""

from collections.abc import Sequence

import pyarrow as pa

from sinks.errors import StoreRejected, StoreUnavailable
from sinks.rows import COMPANION_TABLES, read_rows
from sinks.store import Known, LedgerTotals, Rejected

KEYS = {
    "terminal_events": ("tenant", "event_id"),
    "exit_classifications": ("tenant", "event_id", "table_digest", "classifier_version"),
    "active_tables": ("table_digest", "classifier_version"),
    "conflicting_events": ("record_type", "tenant", "event_id", "content_digest"),
    "dead_letters": ("source", "partition", "offset"),
    "ingest_ledger": ("source", "partition", "offset"),
    **dict.fromkeys(COMPANION_TABLES.values(), ("tenant", "record_id")),
}
VOLATILE = ("ingested_at", "classified_at", "recorded_at", "activated_at")
Key = tuple[str, str]


class MemorySink:
    """Keeps every row as it was inserted.

    ``refused`` are ids whose rows are rejected; ``ends_before`` is the number of the insert, from 1, that is an outage
    as often as it is tried, ``outages`` those of tries that are.
    """

    def __init__(self, refused: Sequence[str] = (), ends_before: int = 0) -> None:
        self.tables: dict[str, list[dict[str, object]]] = {table: [] for table in KEYS}
        self.log: list[str] = []
        self.refused, self.ends_before = set(refused), ends_before
        self.outages: list[int] = []
        self.noted: set[tuple[str, Key]] = set()
        """What was erased on request, as (record type, key)."""
        self.asked = 0

    def insert(self, table: str, stream: bytes) -> None:
        rows = read_rows(stream)
        assert rows, "an insert of nothing costs a part"
        self.asked += 1
        if self.asked in self.outages or len(self.log) + 1 == self.ends_before:
            raise StoreUnavailable("the end")
        ids = {row.get("record_id", row.get("event_id")) for row in rows}
        if table in ("terminal_events", *COMPANION_TABLES.values()) and ids & self.refused:
            raise StoreRejected("a row is refused")
        self.log.append(table)
        self.tables[table] += rows

    def insert_rows_isolating(self, table: str, stream: bytes) -> list[Rejected]:
        rejected = []
        for number, row in enumerate(read_rows(stream)):
            if row.get("record_id", row.get("event_id")) in self.refused:
                rejected.append(Rejected(number, "refused"))
            else:
                self.tables[table].append(row)
        return rejected

    def identities(self, keys: Sequence[Key], record_type: str = "terminal_event") -> dict[Key, Known]:
        table = COMPANION_TABLES.get(record_type, "terminal_events")
        found = {self._key(table, row): Known(row["content_digest"], row["source"], row["partition"], row["offset"])
                 for row in self.tables[table]}  # fmt: skip
        return {key: found[key] for key in keys if key in found}

    def are_new(self, keys: bytes, record_type: str) -> bool:
        asked = [(row["tenant"], row["id"]) for row in read_rows(keys)]
        known = self.identities(asked, record_type) or self.erased(asked, record_type)
        return len(set(asked)) == len(asked) and not known

    def any_erased(self, keys: bytes, record_type: str) -> bool:
        return bool(self.erased([(row["tenant"], row["id"]) for row in read_rows(keys)], record_type))

    def classified(self, keys: Sequence[Key], table_digest: str, classifier_version: str) -> set[Key]:
        done = {self._key("exit_classifications", row) for row in self.tables["exit_classifications"]}
        return {key for key in keys if (*key, table_digest, classifier_version) in done}

    def erased(self, keys: Sequence[Key], record_type: str) -> set[Key]:
        return {key for key in keys if (record_type, key) in self.noted}

    def ledger_totals(self, source: str | None = None, partition: str | None = None) -> list[LedgerTotals]:
        rows = [row for row in self.seen("ingest_ledger") if (row["source"], row["partition"]) == (source, partition)]
        if not rows:
            return []
        first, end = min(row["offset"] for row in rows), max(row["next_offset"] for row in rows)
        covered = sum(row["next_offset"] - row["offset"] for row in rows)
        return [LedgerTotals(source, partition, len(rows), 0, 0, 0, 0, 0, 0, first, end, end - first - covered)]

    def ledger_end(self, source: str, partition: str) -> int | None:
        rows = [row for row in self.seen("ingest_ledger") if (row["source"], row["partition"]) == (source, partition)]
        return max((row["next_offset"] for row in rows), default=None)

    def query(self, sql: str, fmt: str) -> bytes:
        """The only statement of the writer: the newest activation."""
        assert ("v_tables LIMIT 1" in sql, fmt) == (True, "ArrowStream")
        newest = sorted(self.tables["active_tables"], key=lambda row: row["activated_at"])[-1:]
        table = pa.Table.from_pylist(newest)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue().to_pybytes()

    def seen(self, table: str) -> list[dict[str, object]]:
        """The rows as readers see them, the last of each identity."""
        return list({self._key(table, row): row for row in self.tables[table]}.values())

    def contents(self) -> dict[str, list[str]]:
        """Everything that readers see, but when it was written."""
        return {table: sorted(repr({name: value for name, value in row.items() if name not in VOLATILE})
                              for row in self.seen(table)) for table in KEYS}  # fmt: skip

    @staticmethod
    def _key(table: str, row: dict[str, object]) -> tuple[object, ...]:
        return tuple(row[name] for name in KEYS[table])
