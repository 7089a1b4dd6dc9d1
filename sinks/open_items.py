"""What the store knows of open items: the recount by SQL, and the stored records that it is counted from.

The recount reads views. The records are read by run, by event, or by the time at which they were stored, and returned
as dicts: a companion in its canonical form without prose, an exit in the contract's shape with the fields that say
whose it is. Instants are microseconds.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sinks.rows import ObligationQueueRow, encode_obligation_queues
from sinks.store import Key, Store

Rows = list[dict[str, Any]]

# The newest copies are taken of what was found: FINAL would go through all that is stored first.
_NEWEST_EXITS = """
    SELECT tenant, event_id, run_id, segment, agent_id, workflow, occurred_at, kind, reason_code, obligations, envelope,
        table_digest, classifier_version, classified_at
    FROM exit_classifications
    {where}
    ORDER BY classified_at DESC
    LIMIT 1 BY tenant, event_id, table_digest, classifier_version
"""
_HASHES = "(SELECT cityHash64(tenant, id) FROM probe)"
_OF_RUNS = "(tenant, run_id) IN (SELECT tenant, id FROM probe)"
# The hash first, eight bytes of every row, so that only these runs' envelopes are read.
_EXITS_OF_RUNS = _NEWEST_EXITS.format(where=f"PREWHERE run_hash IN {_HASHES} WHERE {_OF_RUNS}")
_SINCE = "classified_at >= fromUnixTimestamp64Micro({since:Int64})"
_OPENS = "(kind IN ('partial', 'human_queue') OR notEmpty(obligations))"
_EXITS_SINCE = f"SELECT * FROM ({_NEWEST_EXITS.format(where=f'PREWHERE {_SINCE}')}) WHERE {_OPENS}"  # noqa: S608 -- constant
_SETTLED_SINCE = f"SELECT DISTINCT tenant, run_id FROM exit_classifications WHERE {_SINCE} AND NOT {_OPENS}"  # noqa: S608 -- constant
_RUNS_OF_EVENTS = """
    SELECT DISTINCT tenant, run_id FROM exit_classifications
    WHERE identity IN (SELECT cityHash64(tenant, id) FROM probe)
        AND (tenant, event_id) IN (SELECT tenant, id FROM probe)
"""
_UNSETTLED_RUNS = "SELECT tenant, run_id FROM v_unsettled_runs"
_ACTIVATIONS = "SELECT table_digest, classifier_version, activated_at FROM v_tables"
_UNQUEUED = """
    SELECT DISTINCT table_digest, table_text FROM v_tables
    WHERE table_digest NOT IN (SELECT table_digest FROM obligation_queues)
"""
_QUEUES = "SELECT table_digest, queue, owner, deadline_micros FROM obligation_queues FINAL"
_WHOSE = "record_id, tenant, event_id, run_id, segment, at"
_NOTES: Mapping[str, tuple[str, str]] = {
    "recovery_action": ("recovery_actions", f"{_WHOSE}, action, operation_id"),
    "review_event": ("review_events", f"{_WHOSE}, event, decision, queue, deadline, reviewer"),
    "enrichment": ("enrichments", f"{_WHOSE}, component, state, reverses_result"),
}
"""Table and columns of each companion type."""
_NOTES_SINCE = """
    SELECT {columns} FROM {table} WHERE ingested_at >= fromUnixTimestamp64Micro({{since:Int64}})
    ORDER BY ingested_at DESC LIMIT 1 BY tenant, record_id
"""
# All copies of a record, so that the newest counts, even if it is about something else.
_NOTES_ABOUT = f"""
    SELECT {{columns}} FROM {{table}} FINAL
    WHERE identity IN (SELECT identity FROM {{table}} WHERE named_hash IN {_HASHES}) AND {{about}}
"""  # noqa: S608 -- constant
_ABOUT_EVENTS = "(tenant, ifNull(event_id, '')) IN (SELECT tenant, id FROM probe)"
_ABOUT_RUNS = "ifNull(event_id, '') = '' AND (tenant, ifNull(run_id, '')) IN (SELECT tenant, id FROM probe)"


@dataclass(frozen=True)
class Recount:
    """Rows of ``v_open_partials``, ``v_open_reviews`` and ``v_reversals``."""

    partials: Rows
    reviews: Rows
    reversals: Rows


@dataclass(frozen=True)
class Stored:
    """Stored records: exits, and notes by their companion type.

    ``settled_runs`` have exits after which nothing has to happen; these exits are not among ``exits``.
    """

    exits: Rows
    notes: Mapping[str, Rows]
    settled_runs: Sequence[Key] = ()


@dataclass(frozen=True)
class OpenItemsReader:
    """Reads from an open store. Raises what the store raises, see :mod:`sinks.errors`."""

    store: Store

    def recount(self) -> Recount:
        """What is open, counted by the engine."""
        views = ("v_open_partials", "v_open_reviews", "v_reversals")
        return Recount(*(self.store.select(f"SELECT * FROM {view}") for view in views))  # noqa: S608 -- constant

    def unsettled_runs(self) -> list[Key]:
        """Tenant and run id of every run with an open item, and of some without."""
        return _keys(self.store.select(_UNSETTLED_RUNS))

    def since(self, since: int) -> Stored:
        """What was stored at ``since`` or later, by the clocks of those who stored it."""
        at = {"since": since}
        notes = {
            kind: self.store.select(_NOTES_SINCE.format(table=table, columns=columns), at)
            for kind, (table, columns) in _NOTES.items()
        }
        settled = _keys(self.store.select(_SETTLED_SINCE, at))
        return Stored(_exits(self.store.select(_EXITS_SINCE, at)), notes, settled)

    def of_runs(self, runs: Sequence[Key]) -> Stored:
        """Everything about these runs."""
        exits = _exits(self.store.select_by(runs, _EXITS_OF_RUNS))
        events = list({(row["tenant"], row["event_id"]) for row in exits})
        return Stored(exits, {kind: self._notes_of(kind, events, runs) for kind in _NOTES})

    def runs_of(self, events: Sequence[Key]) -> list[Key]:
        """The runs of those of these events that are stored."""
        return _keys(self.store.select_by(events, _RUNS_OF_EVENTS))

    def activations(self) -> dict[tuple[str, str], int]:
        """When each decision table, under each version of the classifier, last became the current one."""
        rows = self.store.select(_ACTIVATIONS)
        return {(row["table_digest"], row["classifier_version"]): row["activated_at"] for row in rows}

    def unqueued_tables(self) -> dict[str, str]:
        """Text of the decision tables, by digest, of which it is not recorded where their obligations wait."""
        return {row["table_digest"]: row["table_text"] for row in self.store.select(_UNQUEUED)}

    def record_queues(self, rows: Sequence[ObligationQueueRow]) -> None:
        """Record where obligations wait."""
        if rows:
            self.store.insert("obligation_queues", encode_obligation_queues(rows))

    def obligation_queues(self) -> Rows:
        """Where obligations wait, by ``table_digest``."""
        return self.store.select(_QUEUES)

    def _notes_of(self, kind: str, events: Sequence[Key], runs: Sequence[Key]) -> Rows:
        table, columns = _NOTES[kind]
        by_event, by_run = (
            _NOTES_ABOUT.format(table=table, columns=columns, about=about) for about in (_ABOUT_EVENTS, _ABOUT_RUNS)
        )
        return self.store.select_by(events, by_event) + self.store.select_by(runs, by_run)


def _keys(rows: Iterable[Mapping[str, Any]]) -> list[Key]:
    return [(row["tenant"], row["run_id"]) for row in rows]


def _exits(rows: Iterable[dict[str, Any]]) -> Rows:
    return [_contract_shape(row) for row in rows]


def _contract_shape(row: dict[str, Any]) -> dict[str, Any]:
    envelope = None if row["envelope"] is None else json.loads(row["envelope"])
    return row | {"envelope": envelope, "table": {"digest": row.pop("table_digest")}}
