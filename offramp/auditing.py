"""Closes the ledger: everything that was read is accounted for, and everything that is kept was read.

Each check is one statement over the store, compared by hashes of positions and identities, so that memory grows with
eight bytes a row. Where there is a broker, its logs are asked what the offsets without a ledger row hold. Nothing is
written.
"""
# ruff: noqa: S608 -- every statement is put together from the constants below

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from string import Template
from typing import Any

from schemas.types import LATEST
from sinks.rows import COMPANION_TABLES, Disposition
from sinks.store import Store
from streams.accounts import Account, Log, Recorded, Span
from streams.kafka.errors import BrokerUnavailable
from streams.kafka.seam import Admin, Committed, TopicPartition
from streams.redrive import FILE

EXAMPLES = 3
_FATES = tuple(fate.value for fate in Disposition)

_POSITION = "cityHash64(source, partition, offset, content_digest)"
_PLACE = "cityHash64(source, partition, offset)"
_IDENTITY = "cityHash64(record_type, tenant, event_id, content_digest)"
_EVENT = "cityHash64(tenant, event_id, content_digest)"
_AT = "concat(source, ' ', partition, ' offset ', toString(offset))"
_ID = "concat(tenant, ' ', event_id)"
_TABLES = (
    ("terminal_event", "terminal_events", "event_id"),
    *((kind, table, "record_id") for kind, table in COMPANION_TABLES.items()),
)
_EVENTS = "(SELECT * FROM terminal_events FINAL)"
_CONFLICTS = "(SELECT * FROM conflicting_events FINAL)"
_LETTERS = "(SELECT * FROM dead_letters FINAL)"
_KEPT = " UNION ALL ".join(
    f"""
    SELECT source, partition, offset, content_digest, '{kind}' AS record_type, tenant, {name} AS event_id, ingested_at
    FROM {table} FINAL
    """
    for kind, table, name in _TABLES
)
_CONTENTS = " UNION ALL ".join(
    f"SELECT '{table}' AS kept, tenant, {name} AS event_id, content_digest FROM {table}" for _, table, name in _TABLES
)
_SEVERAL = f"(SELECT kept, tenant, event_id FROM ({_CONTENTS}) GROUP BY ALL HAVING uniqExact(content_digest) > 1)"
_BY_THE_CURRENT = """
    (
        SELECT * FROM exit_classifications
        WHERE cityHash64(table_digest, classifier_version)
            IN (SELECT cityHash64(table_digest, classifier_version) FROM v_tables LIMIT 1)
    )
"""
_IS_ANY_CURRENT = "(SELECT count() > 0 FROM active_tables)"
_SETTLED = "< fromUnixTimestamp64Micro($settled_before)"
"""Rows that are younger may be of a batch whose ledger rows are still to come."""
# Where rows go after some days, the two sides of a comparison go at different moments, so that only what is younger on
# both can be compared.
_RECORD_KEPT, _EVENT_KEPT = "recorded_at >= $records_since", "occurred_at >= $events_since"
_LEDGER_KEPT = ">= $ledger_since"
_BY_INGESTED = f"ingested_at {_SETTLED} AND ingested_at {_LEDGER_KEPT}"
_BY_RECORDED = f"recorded_at {_SETTLED} AND recorded_at {_LEDGER_KEPT}"
_BY_ANY = f"(SELECT * FROM terminal_events FINAL WHERE {_EVENT} IN (SELECT {_EVENT} FROM exit_classifications))"

_PARTITIONS = f"""
    SELECT source, partition, sum(span) AS read,
        {", ".join(f"sumIf(span, disposition = '{fate}') AS {fate}" for fate in _FATES)},
        read - sumIf(span, disposition IN {_FATES}) AS unknown,
        sum(greatest(offset - expected, 0)) AS holes,
        sum(greatest(expected - offset, 0)) AS overlaps
    FROM
    (
        SELECT source, partition, offset, next_offset - offset AS span, disposition,
            lagInFrame(next_offset, 1, -1) OVER (
                PARTITION BY source, partition ORDER BY offset ASC ROWS BETWEEN 1 PRECEDING AND CURRENT ROW
            ) AS previous,
            if(previous != -1, previous, if(source = 'file' AND $ledger_is_whole, 0, offset)) AS expected
        FROM ingest_ledger FINAL
    )
    GROUP BY source, partition
    ORDER BY source, partition
"""
"""A file is read from its first record on, a topic from wherever it was joined."""


@dataclass(frozen=True)
class Check:
    """One thing that must not be: a code, what it means and what to do about it, and the rows that show it.

    ``rows`` is what stands behind FROM, ``example`` the expression that names one of them. What does not ``count``
    is worth knowing, but nothing is lost by it.
    """

    code: str
    meaning: str
    advice: str
    rows: str
    example: str
    counts: bool = True


def _absent(rows: str, key: str, known: str) -> str:
    """Rows whose key is none of those that are known."""
    return f"{rows} WHERE {key} NOT IN (SELECT {key} FROM {known})"


def _of(*fates: str) -> str:
    """Ledger rows of those dispositions."""
    return f"(SELECT * FROM ingest_ledger FINAL WHERE disposition IN {fates})"


_AGAIN = "run the command again over that file; of a topic, restore the store"
_RESTORE = "the store lost rows; restore it, or load the file into a new store"
CHECKS: tuple[Check, ...] = (
    Check("record_missing", "the ledger says stored, and no record is there", _AGAIN,
          # By identity: two that read copies of a record at the same time both store it, and the later one stays.
          f"{_absent(_of('classified', 'stored'), _IDENTITY, f'({_KEPT})')} AND {_RECORD_KEPT}", _AT),
    Check("duplicate_of_nothing", "the ledger says duplicate, and no such record is there", _RESTORE,
          f"{_absent(_of('duplicate'), _IDENTITY, f'({_KEPT})')} AND {_RECORD_KEPT}", _AT),
    Check("conflict_missing", "the ledger says conflicting, and the record was not kept apart", _RESTORE,
          f"{_absent(_of('conflicting'), _IDENTITY, 'conflicting_events')} AND {_RECORD_KEPT}", _AT),
    Check("dead_letter_missing", "the ledger says dead-lettered, and no dead letter is there", _RESTORE,
          f"{_absent(_of('dead_lettered'), _PLACE, 'dead_letters')} AND {_RECORD_KEPT}", _AT),
    Check("record_unrecorded", "a record is kept that the ledger does not know", _AGAIN,
          f"{_absent(f'({_KEPT})', _POSITION, _of('classified', 'stored'))} AND {_BY_INGESTED}", _AT),
    Check("conflict_unrecorded", "a conflicting record is kept that the ledger does not know", _AGAIN,
          f"{_absent(_CONFLICTS, _POSITION, _of('conflicting'))} AND {_BY_RECORDED}", _AT),
    Check("dead_letter_unrecorded", "a dead letter is kept that the ledger does not know", _AGAIN,
          f"{_absent(_LETTERS, _PLACE, _of('dead_lettered'))} AND {_BY_RECORDED}", _AT),
    Check("unclassified", "an event is stored and no table has classified it", _AGAIN,
          f"{_absent(_EVENTS, _EVENT, 'exit_classifications')} AND ingested_at {_SETTLED} AND {_EVENT_KEPT}", _ID),
    Check("classification_of_nothing", "a classification is stored and its event is not", _RESTORE,
          f"{_absent('(SELECT * FROM exit_classifications FINAL)', _EVENT, 'terminal_events')} AND {_EVENT_KEPT}", _ID),
    Check("part_unreadable", "files of the table are damaged, and the engine has set them aside",
          f"{_AGAIN}, then delete those files",
          "(SELECT * FROM system.detached_parts WHERE database = currentDatabase() AND startsWith(reason, 'broken'))",
          "concat(table, ' ', path)"),
    Check("several_contents", "one id is stored with several contents", "please report it: this is a defect",
          _SEVERAL, _ID),
    Check("no_table", "it has been decided, and no table is the current one, so that readers see no exit of it", _AGAIN,
          f"{_BY_ANY} WHERE NOT {_IS_ANY_CURRENT}", _ID),
    Check("other_table", "the current table has not decided it, another one has",
          "`offramp rebuild` with the current table decides it",
          f"{_absent(_BY_ANY, _EVENT, _BY_THE_CURRENT)} AND {_IS_ANY_CURRENT}", _ID, counts=False),
)  # fmt: skip
"""Everything that is looked for."""


@dataclass(frozen=True)
class Found:
    """How many rows a check found, and the first few."""

    check: Check
    count: int
    examples: tuple[str, ...]


_RANGES = "SELECT source, partition, first_offset, end_offset FROM v_ledger_ranges"
_NOTHING_READ: Mapping[str, Any] = {
    "read": 0, **dict.fromkeys(_FATES, 0), "unknown": 0, "holes": 0, "overlaps": 0,
}  # fmt: skip


@dataclass(frozen=True)
class Partition:
    """What the ledger says of one partition, in messages, and what the log holds, if it is known.

    ``counts`` are ``read``, one per disposition, ``unknown`` ones, and the offsets that no row (``holes``) or several
    rows (``overlaps``) account for.
    """

    source: str
    partition: str
    counts: Mapping[str, Any]
    log: Account | None = None

    @property
    def unaccounted(self) -> int:
        """Messages that do not add up. What holes mean the log says, where there is one."""
        holes: int = self.counts["holes"] if self.log is None else self.log.unaccounted
        odd: int = self.counts["overlaps"] + abs(self.counts["unknown"])
        return holes + odd

    def as_json(self) -> dict[str, Any]:
        """Everything, in plain JSON values."""
        log = None if self.log is None else {k: v for k, v in asdict(self.log).items() if k != "partition"}
        return {"source": self.source, "partition": self.partition, **self.counts,
                "unaccounted": self.unaccounted, "log": log}  # fmt: skip


@dataclass(frozen=True)
class Audit:
    """What the ledger says per partition, and what does not fit."""

    partitions: tuple[Partition, ...]
    found: tuple[Found, ...]

    @property
    def unaccounted(self) -> int:
        """How blind we are: messages and records that do not add up."""
        found = sum(found.count for found in self.found if found.check.counts)
        return sum(each.unaccounted for each in self.partitions) + found


@dataclass(frozen=True)
class Broker:
    """The broker to compare with: its logs, our consumer group, and the topics that the group reads."""

    log: Log
    group: str
    topics: Sequence[str]

    def committed(self) -> dict[TopicPartition, int | None]:
        """Every partition of the topics, with what the group has committed. A topic that is not there has none.
        Raises BrokerError."""
        with closing(self.log.client.admin()) as admin:
            found = admin.describe_topics(self.topics)
            offsets = self._offsets(admin)
        partitions = [TopicPartition(topic.name, n) for topic in found.values() for n in range(topic.partitions)]
        return {each: offsets[each].offset if each in offsets else None for each in partitions}

    def _offsets(self, admin: Admin) -> dict[TopicPartition, Committed]:
        try:
            return admin.group_offsets(self.group)
        except BrokerUnavailable:
            # A new broker cannot look for a group, and says that it is not available.
            if admin.groups():
                raise
            return {}


def audit(store: Store, *, settled_before: int = LATEST, broker: Broker | None = None) -> Audit:
    """Recompute the ledger of a store, and compare it with a broker's logs. Only reads. Raises StoreError, BrokerError.

    What was stored at ``settled_before``, in microseconds, or later may still be without its ledger row, as in a store
    that workers write to meanwhile.
    """
    # In this order, so that what goes on meanwhile looks like lag and never like a gap.
    committed = {} if broker is None else broker.committed()
    bounds = _bounds(store, settled_before)
    ledger = {(row.pop("source"), row.pop("partition")): row for row in _rows(store, _filled(_PARTITIONS, bounds))}
    recorded = _recorded(store, committed)
    accounts = {} if broker is None else {_place(each): each for each in broker.log.accounts(recorded)}
    partitions = tuple(
        Partition(*place, ledger.get(place, _NOTHING_READ), accounts.get(place))
        for place in sorted({*ledger, *accounts})
    )
    return Audit(partitions, tuple(_found(store, check, bounds) for check in CHECKS))


def _place(account: Account) -> tuple[str, str]:
    return account.partition.topic, str(account.partition.partition)


def _recorded(store: Store, committed: Mapping[TopicPartition, int | None]) -> dict[TopicPartition, Recorded]:
    """What the ledger knows of the partitions that the broker has."""
    if not committed:
        return {}
    spans: dict[tuple[str, str], list[Span]] = {}
    for row in _rows(store, _RANGES):
        if row["source"] != FILE:
            spans.setdefault((row["source"], row["partition"]), []).append(Span(row["first_offset"], row["end_offset"]))
    return {each: Recorded(spans.get((each.topic, str(each.partition)), ()), at) for each, at in committed.items()}


def _found(store: Store, check: Check, bounds: Mapping[str, str]) -> Found:
    examples = f"arraySort(groupArray({EXAMPLES})({check.example}))"
    row = next(_rows(store, f"SELECT count() AS count, {examples} AS examples FROM {_filled(check.rows, bounds)}"))
    return Found(check, row["count"], tuple(row["examples"]))


def _bounds(store: Store, settled_before: int) -> dict[str, str]:
    """Values of the placeholders: what is too young to be compared, and what may have gone by its age."""
    days = {each.column: each.found for each in store.retention() if each.found is not None}
    ledger, events = days.get("recorded_at"), days.get("occurred_at")
    return {
        "settled_before": str(settled_before),
        "records_since": _since(min(days.values(), default=None)),
        "ledger_since": _since(ledger),
        "events_since": _since(events),
        "ledger_is_whole": "true" if ledger is None else "false",
    }


def _since(days: int | None) -> str:
    """The instant after which nothing has gone by its age, with an hour to spare."""
    return "toDateTime64('1900-01-01', 6, 'UTC')" if days is None else f"now64(6) - INTERVAL {days * 24 - 1} HOUR"


def _filled(sql: str, bounds: Mapping[str, str]) -> str:
    return Template(sql).substitute(bounds)


def _rows(store: Store, sql: str) -> Iterator[dict[str, Any]]:
    return map(json.loads, store.query(sql).splitlines())
