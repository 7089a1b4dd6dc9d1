"""Between the store's plain rows and what alert rules are judged by: counts and alerts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from alerts.model import EVERYWHERE, Alert, Count, Scope, Series, State
from sinks.rows import AlertRow

_SERIES = tuple(Series)


def counts_of(rows: Iterable[Mapping[str, Any]]) -> Iterator[Count]:
    """Counts from rows with the columns minute, tenant, agent_id, workflow, queue, and some of the series by name."""
    scopes: dict[tuple[str, ...], Scope] = {}
    for row in rows:
        key = row["tenant"], row["agent_id"], row["workflow"], row["queue"]
        scope = scopes.setdefault(key, Scope(*key))
        for series in _SERIES:
            n = row.get(series.value)
            if n:
                yield Count(row["minute"], scope, series, n)


def whole(minutes: Sequence[int], rows: Iterable[Mapping[str, Any]]) -> list[Count]:
    """The same of minutes that are told whole: one that has nothing (any more) is told, too."""
    return [*(Count(minute, EVERYWHERE, Series.EXITS, 0) for minute in minutes), *counts_of(rows)]


def row_of(alert: Alert, rules_digest: str, now: int) -> AlertRow:
    """The row of an alert that fires or was resolved, as judged at ``now`` (microseconds)."""
    said = alert._asdict()
    scope: Scope = said.pop("scope")
    return AlertRow(**said, **scope._asdict(), rules_digest=rules_digest, recorded_at=now)


def alert_of(row: AlertRow) -> Alert:
    """The alert of a row."""
    said = {name: getattr(row, name) for name in Alert._fields if name not in ("scope", "state", "contributors")}
    return Alert(
        **said,
        scope=Scope(row.tenant, row.agent_id, row.workflow, row.queue),
        state=cast("State", row.state),
        contributors=tuple(row.contributors),
    )
