"""What alert rules are judged by, read from the store as plain rows; and the alerts that came of it, in and out.

What is counted in a minute is counted of the rows that are current at the moment of reading: a run once, at the event
that it stands at, its latest, in the minute in which that event occurred; never in a later minute than the one in which
it was stored, whatever it is stamped with. So a minute changes when something about one of its runs is stored, and
which minutes did is asked for first; each of them is then read whole. What is asked for is put together in
``alerts/model.py``.
"""
# ruff: noqa: S608 -- every statement is put together from the constants below

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sinks.rows import AlertRow, EvaluationRow, encode_alerts, encode_evaluations
from sinks.store import Key, Store

MINUTE = 60_000_000
"""Microseconds."""
SLICE_EVENTS = 250_000
"""About how many exits are gone through at once."""
_HASHES = 2**64

Rows = list[dict[str, Any]]

KINDS = ("completed", "refusal", "fallback", "partial", "human_queue")
SERIES: Mapping[str, str] = {
    "exits": "true",
    **{kind: f"kind = '{kind}'" for kind in KINDS},
    "unverified": "kind = 'completed' AND NOT verified",
    "silent_fallback": "has(findings, 'silent_fallback')",
    "empty_response": "has(facts, 'empty_response')",
    "fence_violation": "has(facts, 'fence_violation')",
    "unapproved_effect": "has(facts, 'unapproved_effect')",
    "gaps": "notEmpty(evidence_gaps)",
}
"""What is counted of exits, by series, as a condition on ``v_classifications``: those of ``sinks/alert_causes.py``."""
LEGACY_SERIES = ("exits", *KINDS)
"""Series that legacy exits have as well."""


def _minute(instant: str) -> str:
    """The minute of an instant, rounded down to a multiple of ``step``, before the epoch as after it."""
    micros = f"toUnixTimestamp64Micro({instant})"
    length = f"({{step:Int64}} * {MINUTE})"
    return f"intDiv({micros} - positiveModulo({micros}, {length}), {MINUTE})"


_BEGIN, _END = (f"fromUnixTimestamp64Micro({{{name}:Int64}})" for name in ("begin", "end"))
_MINUTES = "{minutes:Array(Int64)}"


def _within(instant: str) -> str:
    """Whether an instant is in the span, and in one of the minutes where any are given."""
    among = f"(empty({_MINUTES}) OR has({_MINUTES}, {_minute(instant)}))"
    return f"({instant} >= {_BEGIN} AND {instant} < {_END} AND {among})"


_STAMP = "least(occurred_at, classified_at)"
_RUN = "run_hash"
_RANK = "(ifNull(segment, 0), toUnixTimestamp64Micro(occurred_at), event_id)"
_ACTIVATIONS = """(
    SELECT mapFromArrays(groupArray(concat(table_digest, ' ', classifier_version)), groupArray(toUnixTimestamp64Micro(activated_at)))
    FROM active_tables FINAL
)"""  # noqa: E501 -- as in v_classifications
_CURRENT_FIRST = f"""
    {_ACTIVATIONS}[concat(table_digest, ' ', classifier_version)] DESC, classified_at DESC, table_digest ASC,
    classifier_version ASC
"""

# --- exits, each run at its latest event

_OF_SLICE = f"{_RUN} BETWEEN {{low:UInt64}} AND {{high:UInt64}}"
_RUNS_OF_SPAN = f"{_RUN} IN (SELECT {_RUN} FROM exit_classifications WHERE {_within(_STAMP)} AND {_OF_SLICE})"
_MARKS = ", ".join(f"{condition} AS of_{series}" for series, condition in SERIES.items() if series != "exits")


def _exits(*, whole: bool) -> str:
    """Counts of exits by minute and scope, a column for each series."""
    sums = ", ".join(
        "count() AS exits" if series == "exits" else f"countIf(of_{series}) AS {series}" for series in SERIES
    )
    return f"""
        SELECT {_minute("stamp")} AS minute, tenant, agent_id, flow AS workflow, '' AS queue, {sums}
        FROM
        (
            SELECT tenant, run_id, agent_id, ifNull(workflow, '') AS flow, {_STAMP} AS stamp, {_MARKS}
            FROM exit_classifications
            WHERE {_OF_SLICE} AND ({"true" if whole else _RUNS_OF_SPAN})
            ORDER BY {_RUN} ASC, tenant ASC, run_id ASC, {_RANK} DESC, {_CURRENT_FIRST}
            LIMIT 1 BY tenant, run_id
        )
        WHERE {_within("stamp")}
        GROUP BY minute, tenant, agent_id, workflow
    """


# --- reversals and what goes through queues

_SUBJECT = (
    "if(ifNull(event_id, '') != '', (assumeNotNull(event_id), '', toInt64(0)),"
    " ('', ifNull(run_id, ''), ifNull(segment, 0)))"
)
_DECIDING = "'approved', 'rejected', 'overrode', 'resubmitted', 'closed', 'ignored', 'compensated', 'reconciled'"
_NOTED_AT = "least(ifNull(at, ingested_at), ingested_at)"
_NOTES: Mapping[str, str] = {
    "reversal": f"SELECT tenant, {_SUBJECT} AS subject, {_NOTED_AT} AS moment FROM enrichments FINAL"
    " WHERE reverses_result",
    "queue_decisions": f"""
        SELECT tenant, {_SUBJECT} AS subject, {_NOTED_AT} AS moment FROM review_events FINAL WHERE event = 'decided'
        UNION ALL
        SELECT tenant, {_SUBJECT} AS subject, {_NOTED_AT} AS moment FROM recovery_actions FINAL
        WHERE action IN ({_DECIDING})
    """,
}
"""Companions that are counted, by series: about what, and when it was."""
_QUEUES = "SELECT table_digest, queue FROM obligation_queues FINAL"


def _current(where: str) -> str:
    """The current classification of events, with the queue that it stands in, if any, as v_classifications has it."""
    return f"""
        SELECT exits.*, multiIf(kind = 'human_queue', ifNull(own_queue, ''), NOT owes, '', queues.queue != '',
            queues.queue, 'effects') AS in_queue, kind = 'human_queue' OR owes AS is_queued
        FROM
        (
            SELECT tenant, event_id, run_id, ifNull(segment, 0) AS part, agent_id, ifNull(workflow, '') AS flow, kind,
                {_STAMP} AS stamp, table_digest, queue AS own_queue, notEmpty(obligations) AS owes
            FROM exit_classifications
            WHERE {where}
            ORDER BY identity ASC, tenant ASC, event_id ASC, {_CURRENT_FIRST}
            LIMIT 1 BY identity, tenant, event_id
        ) AS exits
        LEFT JOIN ({_QUEUES}) AS queues ON queues.table_digest = exits.table_digest
    """


_ARRIVALS = f"""
    SELECT {_minute("stamp")} AS minute, tenant, agent_id, flow AS workflow, in_queue AS queue,
        count() AS queue_arrivals
    FROM ({_current(_within(_STAMP))})
    WHERE is_queued AND {_within("stamp")}
    GROUP BY minute, tenant, agent_id, workflow, queue
"""


def _noted(series: str, which: str, queue: str) -> str:
    """Counts of events that companions of the span are about, each event once a minute."""
    notes = f"SELECT * FROM ({_NOTES[series]}) WHERE {_within('moment')}"
    concerned = f"""
        identity IN (SELECT cityHash64(tenant, subject.1) FROM ({notes}) WHERE subject.1 != '')
        OR (tenant, run_id) IN (SELECT tenant, subject.2 FROM ({notes}) WHERE subject.2 != '')
    """
    return f"""
        SELECT {_minute("moment")} AS minute, exits.tenant AS tenant, agent_id, flow AS workflow, {queue} AS queue,
            uniqExact(event_id) AS {series}
        FROM
        (
            SELECT *, arrayJoin([(event_id, '', toInt64(0)), ('', run_id, toInt64(part))]) AS named
            FROM ({_current(concerned)})
            WHERE {which}
        ) AS exits
        INNER JOIN ({notes}) AS notes ON notes.tenant = exits.tenant AND notes.subject = exits.named
        GROUP BY minute, tenant, agent_id, workflow, queue
    """


# --- the pipeline itself

_READ = f"""
    SELECT {_minute("recorded_at")} AS minute, '' AS tenant, '' AS agent_id, '' AS workflow, '' AS queue,
        count() AS read, countIf(disposition = 'dead_lettered') AS dead_lettered
    FROM ingest_ledger FINAL
    WHERE {_within("recorded_at")}
    GROUP BY minute
"""

_OTHERS = (
    _ARRIVALS,
    _noted("queue_decisions", "is_queued", "in_queue"),
    _noted("reversal", "kind = 'partial'", "''"),
    _READ,
)

# --- legacy labels

_LEGACY_SUMS = ", ".join(f"countIf(legacy_kind = '{kind}') AS {kind}" for kind in KINDS)
_LEGACY = f"""
    SELECT minute, tenant, agent_id, flow AS workflow, '' AS queue, count() AS exits, {_LEGACY_SUMS}
    FROM
    (
        SELECT {_minute("moment")} AS minute, tenant, agent_id, ifNull(workflow, '') AS flow, legacy_kind
        FROM v_comparison
        WHERE pairing = 'paired' AND {_within("moment")}
    )
    GROUP BY minute, tenant, agent_id, workflow
"""

# --- examples


class About(NamedTuple):
    """Whose events, and of when: ``[since, until)`` in microseconds. An empty text means all."""

    since: int
    until: int
    tenant: str = ""
    agent_id: str = ""
    workflow: str = ""


def _examined(condition: str) -> str:
    """Current exits that are counted. Nothing that is filtered by before they are told apart can change."""
    return f"""
        SELECT * FROM
        (
            SELECT tenant, event_id, occurred_at, kind, verified, findings, facts, evidence_gaps
            FROM exit_classifications
            WHERE occurred_at >= fromUnixTimestamp64Micro({{since:Int64}})
                AND occurred_at < fromUnixTimestamp64Micro({{until:Int64}})
                AND ({{tenant:String}} = '' OR tenant = {{tenant:String}})
                AND ({{agent_id:String}} = '' OR agent_id = {{agent_id:String}})
                AND ({{workflow:String}} = '' OR ifNull(workflow, '') = {{workflow:String}})
            ORDER BY identity ASC, tenant ASC, event_id ASC, {_CURRENT_FIRST}
            LIMIT 1 BY identity, tenant, event_id
        )
        WHERE {condition}
    """


# --- which minutes changed

_SINCE = "{column} >= fromUnixTimestamp64Micro({{since:Int64}})"
_ACTIVE_SINCE = f"SELECT table_digest FROM active_tables WHERE {_SINCE.format(column='activated_at')}"
_TOUCHED = f"""
    SELECT {_RUN} FROM exit_classifications
    WHERE {_SINCE.format(column="classified_at")}
        OR (table_digest IN ({_ACTIVE_SINCE}) AND {_within(_STAMP)})
"""
_CHANGED = f"""
    SELECT DISTINCT minute FROM
    (
        SELECT {_minute(_STAMP)} AS minute FROM exit_classifications
        WHERE {_within(_STAMP)} AND {_RUN} IN ({_TOUCHED})
        UNION ALL
        SELECT {_minute("recorded_at")} AS minute FROM ingest_ledger
        WHERE {_within("recorded_at")} AND {_SINCE.format(column="recorded_at")}
        UNION ALL
        SELECT {_minute(_NOTED_AT)} AS minute FROM enrichments
        WHERE reverses_result AND {_within(_NOTED_AT)} AND {_SINCE.format(column="ingested_at")}
        UNION ALL
        SELECT {_minute(_NOTED_AT)} AS minute FROM review_events
        WHERE event = 'decided' AND {_within(_NOTED_AT)} AND {_SINCE.format(column="ingested_at")}
        UNION ALL
        SELECT {_minute(_NOTED_AT)} AS minute FROM recovery_actions
        WHERE action IN ({_DECIDING}) AND {_within(_NOTED_AT)} AND {_SINCE.format(column="ingested_at")}
    )
    ORDER BY minute
"""

# --- when there was something

_OPENED = """
    SELECT DISTINCT tenant, run_id FROM exit_classifications
    WHERE (kind IN ('partial', 'human_queue') OR notEmpty(obligations))
        AND occurred_at < fromUnixTimestamp64Micro({until:Int64})
    ORDER BY tenant, run_id
"""
_HOW_MANY = f"SELECT countIf({_within(_STAMP)}) AS within, count() AS stored FROM exit_classifications"
_ENDS = f"""
    SELECT count() AS n, toUnixTimestamp64Micro(min({_STAMP})) AS first, toUnixTimestamp64Micro(max({_STAMP})) AS newest
    FROM exit_classifications
"""

# --- alerts

_ALERTS = f"""
    SELECT {", ".join(AlertRow._fields)} FROM v_alerts
    WHERE state = 'firing' OR resolved_at >= fromUnixTimestamp64Micro({{since:Int64}})
    ORDER BY state ASC, severity ASC, since ASC, rule ASC, tenant ASC, agent_id ASC, workflow ASC, queue ASC
"""
_EVALUATION = f"""
    SELECT {", ".join(EvaluationRow._fields)} FROM v_alert_evaluations WHERE evaluator = {{evaluator:String}}
"""
_EVALUATIONS = f"SELECT {', '.join(EvaluationRow._fields)} FROM v_alert_evaluations ORDER BY recorded_at DESC"


@dataclass(frozen=True)
class AlertsStore:
    """Reads and writes in an open store. Raises what the store raises, see :mod:`sinks.errors`.

    Minutes are minutes since the epoch, spans ``[begin, end)`` of them. Rows of counts have the columns minute, tenant,
    agent_id, workflow, queue, and one for each series that they count; a series may be counted by several rows of one
    minute and scope. What is nothing has no row.
    """

    store: Store

    def counts(self, begin: int, end: int, step: int = 1) -> Iterator[dict[str, Any]]:
        """Everything that is counted in a span; ``step`` minutes are counted as one, the first of them."""
        span = _span(begin, end, step)
        (events,) = self.store.select(_HOW_MANY, span)
        # Of a small part of the store, only the runs of the span are gone through.
        whole = 2 * events["within"] > events["stored"]
        yield from self._slices(_exits(whole=whole), span, events["stored" if whole else "within"])
        yield from self._others(span)

    def minutes(self, minutes: Sequence[int]) -> Rows:
        """The same of single minutes, by way of the runs that have something in them."""
        if not minutes:
            return []
        span = _span(min(minutes), max(minutes) + 1, 1) | {"minutes": sorted(minutes)}
        return [*self._slices(_exits(whole=False), span, 0), *self._others(span)]

    def changed(self, since: int, begin: int, end: int) -> list[int]:
        """Minutes of a span of which something was stored at ``since`` (microseconds) or later, or is counted otherwise
        because another decision table became the current one."""
        rows = self.store.select(_CHANGED, _span(begin, end, 1) | {"since": since})
        return [row["minute"] for row in rows]

    def legacy_counts(self, begin: int, end: int, step: int = 1) -> Rows:
        """What legacy exits were, by the kinds that the label mapping gives them, as they were settled last.

        Runs that have both an event and a legacy exit; an error and what has no kind are among ``exits``.
        """
        return self.store.select(_LEGACY, _span(begin, end, step))

    def opened_runs(self, until: int) -> list[Key]:
        """Tenant and run id of every run that ever had something open, and ended before ``until`` (microseconds)."""
        return [(row["tenant"], row["run_id"]) for row in self.store.select(_OPENED, {"until": until})]

    def examples(self, series: str, about: About, most: int) -> list[Key]:
        """Tenant and event id of the last events that a series counts, the newest first. Raises KeyError for a series
        that is not of exits."""
        sql = (
            f"SELECT tenant, event_id FROM ({_examined(SERIES[series])}) ORDER BY occurred_at DESC LIMIT {{most:Int64}}"
        )
        return [(row["tenant"], row["event_id"]) for row in self.store.select(sql, about._asdict() | {"most": most})]

    def first_event_at(self) -> int | None:
        """When the first stored event occurred, None if there is none."""
        (row,) = self.store.select(_ENDS)
        return row["first"] if row["n"] else None

    def newest_event_at(self) -> int | None:
        """When the newest stored event occurred, or when it was stored, if it is stamped later; None if there is
        none."""
        (row,) = self.store.select(_ENDS)
        return row["newest"] if row["n"] else None

    def alerts(self, resolved_since: int) -> list[AlertRow]:
        """Alerts that fire, and those that were resolved at ``resolved_since`` or later; the firing first, pages before
        tickets."""
        return [_alert(row) for row in self.store.select(_ALERTS, {"since": resolved_since})]

    def write_alerts(self, rows: Sequence[AlertRow]) -> None:
        """Write alerts that fire or were resolved; one that is known, by rule, scope and ``since``, is replaced."""
        if rows:
            self.store.insert("exit_alerts", encode_alerts(rows))

    def evaluation(self, evaluator: str) -> EvaluationRow | None:
        """Where an evaluator stands, None if it never evaluated."""
        rows = self.store.select(_EVALUATION, {"evaluator": evaluator})
        return EvaluationRow(**rows[0]) if rows else None

    def evaluations(self) -> list[EvaluationRow]:
        """Where every evaluator stands, the one that evaluated last first."""
        return [EvaluationRow(**row) for row in self.store.select(_EVALUATIONS)]

    def write_evaluation(self, row: EvaluationRow) -> None:
        """Remember where an evaluator stands, in place of what was known of it."""
        self.store.insert("alert_evaluations", encode_evaluations([row]))

    def _slices(self, sql: str, span: Mapping[str, Any], events: int) -> Iterator[dict[str, Any]]:
        """What a statement over runs gives, slice by slice of their hashes, so that memory is bounded by the slice."""
        slices = max(1, -(-events // SLICE_EVENTS))
        for number in range(slices):
            low, high = _HASHES * number // slices, _HASHES * (number + 1) // slices - 1
            yield from self.store.select(sql, {**span, "low": low, "high": high})

    def _others(self, span: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        for sql in _OTHERS:
            yield from self.store.select(sql, span)


def _span(begin: int, end: int, step: int) -> dict[str, Any]:
    return {"begin": begin * MINUTE, "end": end * MINUTE, "step": step, "minutes": []}


def _alert(row: Mapping[str, Any]) -> AlertRow:
    contributors = tuple((each["name"], each["size"]) for each in row["contributors"])
    return AlertRow(**{**row, "contributors": contributors})
