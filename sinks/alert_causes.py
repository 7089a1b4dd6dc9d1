"""What the causes of an alert are computed from, read for one scope and one window, as plain rows.

A window is compared with the same hours of the seven days before it, so that a night is not held against a day. Where
the store has nothing of these hours, it is compared with all of the seven days. What causes are made of such rows is
said in ``alerts/causes.py``, ``alerts/survival.py`` and ``alerts/flow.py``.

Exits are those that are current. Of more than ``MOST_EXITS`` a random part is read, by the hash of their identity.
"""
# ruff: noqa: S608 -- every statement is put together from the constants below

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sinks.store import Store

DAY = 86_400_000_000
COMPARED_DAYS = 7
"""Days before a window that it is compared with."""
MOST_EXITS = 200_000
_HASHES = 2**64

Rows = list[dict[str, Any]]


class Asked(NamedTuple):
    """Whose exits, and of when: ``[since, until)`` in microseconds. An empty text means all."""

    since: int
    until: int
    tenant: str = ""
    agent_id: str = ""
    workflow: str = ""
    queue: str = ""


_MICROS = "toUnixTimestamp64Micro({column})"
_WHEN = (
    "({column} >= fromUnixTimestamp64Micro({{begin:Int64}}) AND {column} < fromUnixTimestamp64Micro({{until:Int64}})"
    " AND ({column} >= fromUnixTimestamp64Micro({{since:Int64}})"
    f" OR positiveModulo({_MICROS} - {{{{since:Int64}}}}, {DAY}) < {{{{length:Int64}}}}))"
)
_IN_WINDOWS = _WHEN.format(column="occurred_at")
_IS_CURRENT = "occurred_at >= fromUnixTimestamp64Micro({since:Int64})"
_WHOSE = (
    "({tenant:String} = '' OR tenant = {tenant:String}) AND ({agent_id:String} = '' OR agent_id = {agent_id:String})"
    " AND ({workflow:String} = '' OR ifNull(workflow, '') = {workflow:String})"
)
_COUNTED = f"""
    SELECT uniqExactIf(identity, {_IS_CURRENT}) AS now, uniqExactIf(identity, NOT ({_IS_CURRENT})) AS before,
        toUnixTimestamp64Micro(minIf(occurred_at, NOT ({_IS_CURRENT}))) AS first
    FROM exit_classifications WHERE {_IN_WINDOWS} AND {_WHOSE}
"""
_ACTIVATIONS = """(
    SELECT mapFromArrays(groupArray(concat(table_digest, ' ', classifier_version)), groupArray(toUnixTimestamp64Micro(activated_at)))
    FROM active_tables FINAL
)"""  # noqa: E501 -- as in v_classifications


def _exits(where: str) -> str:
    """The current classification of events, as v_classifications has it. Nothing that is filtered by can change."""
    return f"""
        SELECT tenant, event_id, run_id, ifNull(segment, 0) AS part, ifNull(workflow, '') AS flow,
            ifNull(agent_version, '') AS agent, occurred_at, kind, reason_code, verified, evidence_gaps, facts,
            findings, ifNull(envelope, '{{}}') AS envelope, concat(table_id, ' ', table_version) AS decided_by,
            table_digest, classifier_version, ifNull(queue, '') AS waits_in, notEmpty(obligations) AS owes
        FROM exit_classifications
        WHERE {where}
        ORDER BY
            identity ASC,
            tenant ASC,
            event_id ASC,
            {_ACTIVATIONS}[concat(table_digest, ' ', classifier_version)] DESC,
            classified_at DESC,
            table_digest ASC,
            classifier_version ASC
        LIMIT 1 BY identity, tenant, event_id
    """


# --- exits by what may be a cause

_NONE = "CAST([], 'Array(Array(String))')"
_BY_REASON = "[['reason', reason_code]]"
_POLICY = "JSONExtractString(envelope, 'policy_id')"
_BY_POLICY = f"[if({_POLICY} != '', ['policy', {_POLICY}], ['reason', reason_code])]"
_CARRIER = "concat(JSONExtractString(envelope, 'fallback_id'), '@', JSONExtractString(envelope, 'fallback_version'))"
_OMITTED = (
    "arrayMap(x -> ifNull(x.1, ''), JSONExtract(envelope, 'omitted', 'Array(Tuple(component Nullable(String)))'))"
)
_BY_COMPONENT = f"arrayMap(x -> ['component', x], if(empty({_OMITTED}), [''], {_OMITTED}))"
_VERSIONS = """arraySort(arrayDistinct(arrayMap(
    x -> [ifNull(x.1, ''), ifNull(x.2, '')],
    JSONExtract(event, 'policy_decisions', 'Array(Tuple(policy_id Nullable(String), policy_version Nullable(String)))')
)))"""
_FAILED = "('timeout', 'unavailable', 'circuit_open', 'error', 'malformed')"
# The calls that failed, without those whose operation went well in another attempt; else the model call, if it failed.
_PATHS = f"""if(
    notEmpty(arrayFilter(
        x -> x.2 IN {_FAILED} AND NOT arrayExists(y -> y.2 = 'ok' AND y.3 = x.3 AND y.3 != '', calls),
        JSONExtract(event, 'tool_calls', 'Array(Tuple(tool String, outcome String, operation_id String))') AS calls
    ) AS failed),
    arraySort(arrayDistinct(arrayMap(x -> concat(x.1, ': ', x.2), failed))),
    [if(
        JSONExtractString(event, 'model', 'stop_class') IN ('error', 'truncated', 'refused'),
        concat('model ', JSONExtractString(event, 'model', 'provider'), ': ', JSONExtractString(event, 'model', 'stop_class')),
        ''
    )]
)"""  # noqa: E501 -- one expression


class _Cases(NamedTuple):
    """Which exits a series counts, and by what they are labelled: SQL. ``event`` is whether that is in the evidence."""

    condition: str
    labels: str = _BY_REASON
    carrier: str = "''"
    event: bool = False


_FALLBACK = _Cases("kind = 'fallback'", f"arrayMap(x -> ['primary path', x], {_PATHS})", _CARRIER, event=True)
_CASES: Mapping[str, _Cases] = {
    "completed": _Cases("kind = 'completed'"),
    "refusal": _Cases("kind = 'refusal'", _BY_POLICY, event=True),
    "fallback": _FALLBACK,
    "partial": _Cases("kind = 'partial'", _BY_COMPONENT),
    "human_queue": _Cases("kind = 'human_queue'"),
    "unverified": _Cases("kind = 'completed' AND NOT verified"),
    "silent_fallback": _FALLBACK._replace(condition="has(findings, 'silent_fallback')"),
    "empty_response": _Cases("has(facts, 'empty_response')"),
    "fence_violation": _Cases("has(facts, 'fence_violation')"),
    "unapproved_effect": _Cases("has(facts, 'unapproved_effect')"),
    "gaps": _Cases("notEmpty(evidence_gaps)", "arrayMap(x -> ['missing evidence', x], evidence_gaps)"),
}  # fmt: skip
EXPLAINED = frozenset(_CASES)
"""Series, by name, of which :meth:`AlertCausesReader.exits` gives the causes."""


def _grouped(cases: _Cases) -> str:
    within = f"{_IN_WINDOWS} AND {_WHOSE} AND identity <= {{span:UInt64}}"
    evidence = f"""
        LEFT ANY JOIN
        (
            SELECT tenant, event_id, event FROM terminal_events
            WHERE {within}
        ) AS evidence ON evidence.tenant = exits.tenant AND evidence.event_id = exits.event_id
    """
    return f"""
        SELECT
            {_IS_CURRENT} AS is_current,
            exits.tenant AS tenant,
            flow AS workflow,
            agent AS agent_version,
            decided_by AS table,
            classifier_version AS classifier,
            {_VERSIONS if cases.event else _NONE} AS versions,
            if({cases.condition}, {cases.labels}, {_NONE}) AS labels,
            if({cases.condition}, {cases.carrier}, '') AS carrier,
            count() AS n
        FROM ({_exits(within)}) AS exits
        {evidence if cases.event else ""}
        GROUP BY ALL
        ORDER BY ALL
    """


# --- waits of partials for their components

_SUBJECT = (
    "if(ifNull(event_id, '') != '', (assumeNotNull(event_id), '', toInt64(0)),"
    " ('', ifNull(run_id, ''), ifNull(segment, 0)))"
)
_ENRICHED = f"""
    SELECT tenant AS notes_tenant, {_SUBJECT} AS notes_subject, ifNull(component, '') AS enriched, state,
        ifNull({_MICROS.format(column="at")}, 0) AS moment
    FROM enrichments FINAL
    WHERE state IN ('completed', 'failed')
"""
_IN_SEVEN_DAYS = (
    "occurred_at >= fromUnixTimestamp64Micro({begin:Int64}) AND occurred_at < fromUnixTimestamp64Micro({until:Int64})"
)
_PARTIALS = f"""
    SELECT tenant, event_id, run_id, part, {_MICROS.format(column="occurred_at")} AS opened, {_OMITTED} AS omitted
    FROM ({_exits(f"{_IN_SEVEN_DAYS} AND {_WHOSE}")})
    WHERE kind = 'partial'
"""
_LATER = f"""
    SELECT tenant AS later_tenant, run_id AS later_run,
        (ifNull(segment, 0), {_MICROS.format(column="occurred_at")}, event_id) AS rank
    FROM exit_classifications
    WHERE (tenant, run_id) IN (SELECT tenant, run_id FROM ({_PARTIALS}))
"""
_WAITS = f"""
    WITH
        followed AS
        (
            SELECT tenant, event_id, opened, omitted, run_id, part,
                minIf(rank.2, rank > (part, opened, event_id)) AS next,
                countIf(rank > (part, opened, event_id)) AS segments
            FROM ({_PARTIALS}) AS partials
            INNER JOIN ({_LATER}) AS later ON later_tenant = tenant AND later_run = run_id
            GROUP BY tenant, event_id, opened, omitted, run_id, part
        ),
        waits AS
        (
            SELECT tenant, event_id, opened, if(segments > 0, next, NULL) AS superseded,
                arrayJoin(arrayDistinct(omitted)) AS name,
                arrayJoin([(event_id, '', toInt64(0)), ('', run_id, toInt64(part))]) AS subject
            FROM followed
        )
    SELECT
        tenant,
        event_id,
        name AS component,
        min(opened) AS opened_at,
        minOrNullIf(greatest(moment, opened), state = 'completed') AS closed_at,
        countIf(state = 'failed') AS failures,
        min(superseded) AS superseded_at
    FROM waits
    LEFT JOIN ({_ENRICHED}) AS notes ON notes_tenant = tenant AND notes_subject = subject AND enriched = name
    GROUP BY tenant, event_id, component
    ORDER BY tenant, event_id, component
"""


# --- what goes through a queue

_QUEUED = """
    SELECT exits.*, if(exits.kind = 'human_queue', exits.waits_in, queues.queue) AS in_queue
    FROM ({exits}) AS exits
    LEFT JOIN (SELECT table_digest, queue FROM obligation_queues FINAL) AS queues
        ON queues.table_digest = exits.table_digest
    WHERE (exits.kind = 'human_queue' OR exits.owes)
"""
_ARRIVALS = f"""
    SELECT {_IS_CURRENT} AS is_current, reason_code, flow AS workflow, count() AS n
    FROM ({_QUEUED.format(exits=_exits(f"{_IN_WINDOWS} AND {_WHOSE}"))})
    WHERE ({{queue:String}} = '' OR in_queue = {{queue:String}})
    GROUP BY ALL
    ORDER BY ALL
"""
_DECIDING = "'approved', 'rejected', 'overrode', 'resubmitted', 'closed', 'ignored', 'compensated', 'reconciled'"
_NOTED = f"""
    SELECT tenant, {_SUBJECT} AS subject, assumeNotNull(at) AS moment FROM review_events FINAL
    WHERE event = 'decided' AND {_WHEN.format(column="at")}
    UNION ALL
    SELECT tenant, {_SUBJECT} AS subject, assumeNotNull(at) AS moment FROM recovery_actions FINAL
    WHERE action IN ({_DECIDING}) AND {_WHEN.format(column="at")}
"""
_DECIDED_EXITS = _exits(f"""{_WHOSE} AND (
    identity IN (SELECT cityHash64(tenant, subject.1) FROM ({_NOTED}) WHERE subject.1 != '')
    OR (tenant, run_id) IN (SELECT tenant, subject.2 FROM ({_NOTED}) WHERE subject.2 != '')
)""")
_DECISIONS = f"""
    SELECT notes.moment >= fromUnixTimestamp64Micro({{since:Int64}}) AS is_current,
        uniqExact(queued.tenant, queued.event_id) AS n
    FROM
    (
        SELECT tenant, event_id, arrayJoin([(event_id, '', toInt64(0)), ('', run_id, part)]) AS subject
        FROM ({_QUEUED.format(exits=_DECIDED_EXITS)})
        WHERE ({{queue:String}} = '' OR in_queue = {{queue:String}})
    ) AS queued
    INNER JOIN ({_NOTED}) AS notes ON notes.tenant = queued.tenant AND notes.subject = queued.subject
    GROUP BY is_current
"""


@dataclass(frozen=True)
class AlertCausesReader:
    """Reads from an open store. Raises what the store raises, see :mod:`sinks.errors`."""

    store: Store

    def exits(self, series: str, asked: Asked) -> Rows:
        """Exits of the window and of the time before by what may be the cause of a series, see ``EXPLAINED``.

        Columns: is_current, tenant, workflow, agent_version, table, classifier, versions (pairs of policy id and
        version), labels (pairs of factor and value; none: no case), carrier, n. Raises KeyError for another series.
        """
        statement, seen = _grouped(_CASES[series]), self._seen(asked)
        most = max(1, -(-(seen.now + seen.before) // MOST_EXITS))
        return self.store.select(statement, seen.parameters | {"span": _HASHES // most - 1})

    def waits(self, asked: Asked) -> Rows:
        """Components of the window's partials and of the seven days before: when each began to be missing, and came.

        Columns: tenant, event_id, component, opened_at, closed_at, failures, superseded_at, which is when the run went
        on, or NULL.
        """
        begin = asked.since - COMPARED_DAYS * DAY
        return self.store.select(_WAITS, asked._asdict() | {"begin": begin})

    def flow(self, asked: Asked) -> "QueueRows":
        """What went through a queue in the window and before."""
        seen = self._seen(asked)
        arrivals = self.store.select(_ARRIVALS, seen.parameters)
        decisions = {bool(row["is_current"]): row["n"] for row in self.store.select(_DECISIONS, seen.parameters)}
        return QueueRows(
            arrivals, decisions.get(False, 0), decisions.get(True, 0), seen.before, seen.now, seen.before_us
        )

    def _seen(self, asked: Asked) -> "_Seen":
        """Which time is compared, and how many exits there are."""
        length = min(DAY, asked.until - asked.since)
        begin = asked.since - COMPARED_DAYS * DAY
        parameters = asked._asdict() | {"begin": begin, "length": length}
        (row,) = self.store.select(_COUNTED, parameters)
        if not row["before"]:
            parameters |= {"length": DAY}
            (row,) = self.store.select(_COUNTED, parameters)
        days = -(-(asked.since - row["first"]) // DAY) if row["before"] else 0
        whole = parameters["length"] == DAY
        before_us = (asked.since - row["first"] if whole else days * length) if row["before"] else 0
        return _Seen(row["now"], row["before"], before_us, parameters)


class QueueRows(NamedTuple):
    """Arrivals by reason and workflow (columns is_current, reason_code, workflow, n), and how many decisions and runs.

    ``before_us`` is how long the time before is, in microseconds, 0 if nothing is known of it.
    """

    arrivals: Rows
    decisions_before: int
    decisions_now: int
    runs_before: int
    runs_now: int
    before_us: int


class _Seen(NamedTuple):
    now: int
    before: int
    before_us: int
    parameters: dict[str, Any]
