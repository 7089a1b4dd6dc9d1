"""The cause of an alert, found in the store at the moment at which it is asked for."""

from collections.abc import Sequence
from typing import Protocol

from alerts.causes import exits_of, rise
from alerts.flow import Arrivals, Flow, Windows, queue
from alerts.model import Alert, Condition, OpenItem, Rule
from alerts.survival import ageing, waits_of
from alerts.windows import covers
from sinks.alert_causes import DAY, EXPLAINED, AlertCausesReader, Asked

HORIZON_US = 4 * 3_600_000_000
"""How far ahead it is told which reviews will be late."""
_MINUTE = 60_000_000
_LEAST_US = 20 * _MINUTE
"""In a longer window a rise that has just begun is lost among what went before it."""
_OF_SHARES = {Condition.SHARE, Condition.SHARE_BELOW, Condition.SURGE, Condition.COUNT}


class Cause(Protocol):
    """What every kind of cause says of itself."""

    @property
    def sentence(self) -> str:
        """The cause in words, with the numbers it rests on."""

    @property
    def contributors(self) -> tuple[tuple[str, float], ...]:
        """What contributes, the most important first."""


def with_cause(alert: Alert, rule: Rule, reader: AlertCausesReader, items: Sequence[OpenItem], now: int) -> Alert:
    """The alert with its cause and contributors; as it is where its rule has none that could be computed.

    ``items`` are all that are open. Raises what the store raises, see :mod:`sinks.errors`.
    """
    found = cause(alert, rule, reader, items, now)
    return alert if found is None else alert._replace(cause=found.sentence, contributors=found.contributors)


def cause(alert: Alert, rule: Rule, reader: AlertCausesReader, items: Sequence[OpenItem], now: int) -> Cause | None:
    """Why the condition of an alert holds; None for alerts about the pipeline itself, and about silence."""
    if rule.condition in _OF_SHARES and rule.series is not None and rule.series in EXPLAINED:
        window = _asked(alert, now, alert.since - rule.window_minutes * _MINUTE)
        rows = reader.exits(rule.series, window)
        return rise(exits_of(rows), is_fall=rule.condition is Condition.SHARE_BELOW, since=window.since)
    concerned = [item for item in items if item.what == rule.what and covers(alert.scope, item.scope)]
    asked = _asked(alert, now, min((item.opened_at for item in concerned), default=now))
    if rule.what == "partial":
        return ageing(waits_of(reader.waits(asked), now), asked.since, now)
    if rule.what == "review":
        return queue(_windows(reader, asked), concerned, now, HORIZON_US)
    return None


def _asked(alert: Alert, now: int, since: int) -> Asked:
    """A window that holds the beginning: from twenty minutes to a day long."""
    begin = max(now - DAY, min(since, now - _LEAST_US))
    return Asked(begin, now, *alert.scope)


def _windows(reader: AlertCausesReader, asked: Asked) -> Windows:
    found = reader.flow(asked)
    arrivals = [Arrivals(bool(r["is_current"]), r["reason_code"], r["workflow"], r["n"]) for r in found.arrivals]
    before = sum(each.n for each in arrivals if not each.is_current)
    now = sum(each.n for each in arrivals if each.is_current)
    return Windows(
        Flow(before, found.decisions_before, found.runs_before, found.before_us),
        Flow(now, found.decisions_now, found.runs_now, asked.until - asked.since),
        arrivals,
    )
