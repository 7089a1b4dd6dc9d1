"""What a comparison did not see. A report shows this first, since agreement says nothing of what is not in it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from shadow.scope import MOMENT, Scope, Select
from shadow.strays import Strays, strays

MOST_NAMED = 20
"""Labels, and fields of evidence, that are named; the rest is counted."""

_HOUR_MICROS = 3_600_000_000
_YEAR_HOURS = 365 * 24
# What has neither agent nor version is one group of its own, and says so by being empty.
_BY_AGENT = """
    SELECT
        tenant,
        agent_id,
        ifNull(agent_version, '') AS agent_version,
        countIf(pairing != 'event_missing') AS runs,
        countIf(pairing = 'paired') AS paired,
        countIf(pairing = 'legacy_missing') AS legacy_missing,
        countIf(pairing = 'legacy_missing' AND {moment} > {{patient_since:Int64}}) AS waiting,
        countIf(pairing = 'event_missing') AS event_missing,
        countIf(pairing != 'event_missing' AND legacy_kind = 'unmapped') AS unmapped,
        countIf(legacy_contested) AS contested,
        countIf(notEmpty(evidence_gaps)) AS with_gaps,
        sum(superseded) AS superseded,
        min({moment}) AS first,
        max({moment}) AS last,
        max(toUnixTimestamp64Micro(occurred_at)) AS last_event
    FROM {rows}
    GROUP BY tenant, agent_id, agent_version
    ORDER BY runs DESC, tenant, agent_id, agent_version
"""
_BY_HOUR = """
    SELECT
        intDiv({moment} - {{first:Int64}}, {{hour:Int64}}) AS hour,
        count() AS runs,
        countIf(pairing != 'event_missing') AS events,
        countIf(legacy_kind != '') AS legacy
    FROM {rows}
    GROUP BY hour
    ORDER BY hour
"""
_LABELS = """
    SELECT
        ifNull(dispatcher, '') AS dispatcher,
        ifNull(legacy_label, '') AS label,
        legacy_http_status AS http_status,
        ifNull(legacy_error_class, '') AS error_class,
        count() AS runs,
        count() OVER () AS labels
    FROM {rows}
    WHERE legacy_kind = 'unmapped'
    GROUP BY dispatcher, label, http_status, error_class
    ORDER BY runs DESC, dispatcher, label, http_status, error_class
    LIMIT {{most:UInt64}}
"""
# A gap reads as `subject: field missing`. A subject begins with the sort of record, and may hold anything behind it; no
# field has a colon.
_GAPS = """
    SELECT
        substringIndex(gap, ' ', 1) AS record,
        substringIndex(gap, ':', -1) AS field,
        count() AS times,
        count() OVER () AS fields
    FROM {rows}
    ARRAY JOIN evidence_gaps AS gap
    GROUP BY record, field
    ORDER BY times DESC, record, field
    LIMIT {{most:UInt64}}
"""


class Agent(NamedTuple):
    """What was seen of one version of an agent; of legacy exits without their event, all names are empty."""

    tenant: str
    agent_id: str
    agent_version: str
    runs: int
    paired: int
    waiting: int


class Label(NamedTuple):
    """A legacy exit that the mapping has no kind for, and how many runs ended with it."""

    dispatcher: str
    label: str
    http_status: int | None
    error_class: str
    runs: int


class Gap(NamedTuple):
    """A field of evidence that is missing, of which sort of record, and how often."""

    record: str
    field: str
    times: int


class Silence(NamedTuple):
    """Hours in a row without an event: the beginning of the first, how many, and the legacy exits in them."""

    since: int
    hours: int
    legacy: int


class Apart(NamedTuple):
    """How many runs lie a year or more from most others, and the bounds, in microseconds, that leave them out: from
    ``since`` on, before ``until``, None where nothing is to be left out on that side."""

    runs: int
    since: int | None
    until: int | None


@dataclass(frozen=True)
class Coverage:
    """Runs that were seen, and those of which a part is missing. Instants are microseconds, None where none is known.

    ``runs`` have an event, those of ``event_missing`` have none. ``waiting`` is the part of ``legacy_missing`` whose
    legacy exit may still come. ``labels`` and ``gaps`` name the most frequent of ``labels_in_all`` and ``gaps_in_all``.
    ``silences`` are in order of time, between ``first`` and ``last``. ``apart`` is None where nothing lies apart.
    """

    runs: int = 0
    paired: int = 0
    legacy_missing: int = 0
    waiting: int = 0
    event_missing: int = 0
    unmapped: int = 0
    contested: int = 0
    with_gaps: int = 0
    superseded: int = 0
    first: int | None = None
    last: int | None = None
    last_event: int | None = None
    agents: tuple[Agent, ...] = ()
    silences: tuple[Silence, ...] = ()
    apart: Apart | None = None
    labels: tuple[Label, ...] = ()
    labels_in_all: int = 0
    gaps: tuple[Gap, ...] = ()
    gaps_in_all: int = 0
    strays: Strays = field(default_factory=Strays)

    @property
    def unseen_agents(self) -> tuple[Agent, ...]:
        """Versions of agents with events, none of which has a legacy exit."""
        return tuple(each for each in self.agents if each.runs and not each.paired)

    @property
    def legacy_exits(self) -> int:
        """Runs, and missing events, of which there is a legacy exit."""
        return self.paired + self.event_missing

    @property
    def judged(self) -> int:
        """Pairs whose legacy exit has a kind: all that agreement is counted over."""
        return self.paired - self.unmapped


def coverage(select: Select, rows: str, scope: Scope, patient_since: int) -> Coverage:
    """Ask what ``rows``, SQL of the columns of ``v_comparison``, holds and lacks.

    A run that ended after ``patient_since``, microseconds, may still get its legacy exit.
    """
    parameters = {**scope.parameters, "patient_since": patient_since}
    by_agent = select(_BY_AGENT.format(rows=rows, moment=MOMENT), parameters)
    total = {name: sum(row[name] for row in by_agent) for name in _COUNTED}
    first, last = _earliest(by_agent, "first"), _latest(by_agent, "last")
    begin = 0 if first is None else first - first % _HOUR_MICROS
    hours = [] if first is None else _hours(select, rows, scope, begin)
    named = {**scope.parameters, "most": MOST_NAMED}
    labels = select(_LABELS.format(rows=rows), named)
    gaps = select(_GAPS.format(rows=rows), named)
    return Coverage(
        **total,
        first=first,
        last=last,
        last_event=_latest(by_agent, "last_event"),
        agents=tuple(Agent(**{name: row[name] for name in Agent._fields}) for row in by_agent),
        silences=silences(hours, begin),
        apart=apart(hours, begin),
        labels=tuple(Label(**{name: row[name] for name in Label._fields}) for row in labels),
        labels_in_all=labels[0]["labels"] if labels else 0,
        gaps=tuple(map(_gap, gaps)),
        gaps_in_all=gaps[0]["fields"] if gaps else 0,
        strays=strays(select, scope),
    )


def _gap(row: Mapping[str, Any]) -> Gap:
    return Gap(row["record"].rstrip(":"), row["field"].strip().removesuffix(" missing"), row["times"])


_COUNTED = ("runs", "paired", "legacy_missing", "waiting", "event_missing", "unmapped", "contested", "with_gaps",
            "superseded")  # fmt: skip


def _earliest(rows: Iterable[Mapping[str, Any]], name: str) -> int | None:
    return min((row[name] for row in rows if row[name] is not None), default=None)


def _latest(rows: Iterable[Mapping[str, Any]], name: str) -> int | None:
    return max((row[name] for row in rows if row[name] is not None), default=None)


def _hours(select: Select, rows: str, scope: Scope, begin: int) -> list[dict[str, Any]]:
    parameters = {**scope.parameters, "first": begin, "hour": _HOUR_MICROS}
    return select(_BY_HOUR.format(rows=rows, moment=MOMENT), parameters)


def silences(hours: Sequence[Mapping[str, Any]], begin: int) -> tuple[Silence, ...]:
    """Stretches of whole hours without an event. ``hours`` has those in which anything was seen, in order: number of
    the hour from ``begin`` on, how many ``runs``, and how many of these have ``events`` and ``legacy`` exits."""
    found, since, legacy = list[Silence](), 0, 0
    for row in hours:
        if not row["events"]:
            legacy += row["legacy"]
            continue
        if row["hour"] > since:
            found.append(Silence(begin + since * _HOUR_MICROS, row["hour"] - since, legacy))
        since, legacy = row["hour"] + 1, 0
    end = hours[-1]["hour"] + 1 if hours else 0
    if end > since:
        found.append(Silence(begin + since * _HOUR_MICROS, end - since, legacy))
    return tuple(found)


def apart(hours: Sequence[Mapping[str, Any]], begin: int) -> Apart | None:
    """The runs that lie a year or more from most others, such as those of a clock that stood at 1970. ``hours`` and
    ``begin`` are as in :func:`silences`."""
    groups = _groups(hours)
    if len(groups) < 2:
        return None
    # Of two that have as many, the later one is what people ask about.
    place, kept = max(enumerate(groups), key=lambda group: (_runs(group[1]), group[0]))
    return Apart(
        _runs(hours) - _runs(kept),
        since=begin + kept[0]["hour"] * _HOUR_MICROS if place else None,
        until=begin + (kept[-1]["hour"] + 1) * _HOUR_MICROS if kept is not groups[-1] else None,
    )


def _groups(hours: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    found: list[list[Mapping[str, Any]]] = []
    for row in hours:
        if not found or row["hour"] - found[-1][-1]["hour"] >= _YEAR_HOURS:
            found.append([])
        found[-1].append(row)
    return found


def _runs(hours: Iterable[Mapping[str, Any]]) -> int:
    return sum(row["runs"] for row in hours)
