"""A store, receivers and evaluators in memory, and minutes that go by."""

import json
from dataclasses import dataclass, field

from alerts.judging import MINUTE
from alerts.model import Count, Pulse, Scope, Series
from sinks.errors import StoreUnavailable
from sinks.posting import DeliveryRefused, DeliveryUnavailable
from streams.alerting import Alerting, Pace
from streams.outbox import Habit
from tests.alerts.rule import AGENT, REFUSALS, T0, WELL

SECOND = 1_000_000


def at(minute, second=0):
    """An instant so many minutes after the beginning."""
    return (T0 + minute) * MINUTE + second * SECOND


@dataclass
class World:
    """The store: counts with the moment of recording, and what an evaluator kept."""

    recorded: list = field(default_factory=list)
    pulse_is: Pulse = WELL
    items: tuple = ()
    kept: list = field(default_factory=list)
    rows: dict = field(default_factory=dict)
    is_out: bool = False
    refuses_rows: bool = False

    def record(self, minute, exits, refusals, scope=AGENT, recorded=None):
        when = at(minute, 30) if recorded is None else recorded
        for series, n in ((Series.EXITS, exits), (Series.REFUSAL, refusals)):
            self.recorded.append((when, Count(T0 + minute, scope, series, n)))

    def _ask(self):
        if self.is_out:
            raise StoreUnavailable("no store")

    # Readings

    def history(self, lookback_minutes, at):
        self._ask()
        since = at // MINUTE - lookback_minutes
        news = {count.minute for when, count in self.recorded if when >= at}
        return [count for _, count in self.recorded if count.minute >= since and count.minute not in news]

    def changed(self, since, now):
        self._ask()
        minutes = {count.minute for when, count in self.recorded if since <= when <= now}
        return [count for when, count in self.recorded if count.minute in minutes and when <= now]

    def open_items(self, now):
        self._ask()
        return self.items

    def pulse(self, now):
        self._ask()
        return self.pulse_is

    # Shelf

    def saved(self):
        self._ask()
        return max(self.kept, key=lambda saved: saved.at, default=None)

    def save(self, saved, alerts):
        self._ask()
        if self.refuses_rows:
            raise StoreUnavailable("no space")
        json.loads(saved.text)
        self.kept.append(saved)
        self.rows |= {(alert.rule, alert.scope, alert.since): alert for alert in alerts}


@dataclass
class Receiver:
    """Somebody who is told, and may not be reached or refuse."""

    habit: Habit = field(default_factory=lambda: Habit(600 * SECOND))
    got: list = field(default_factory=list)
    is_out: bool = False
    refuses: bool = False
    calls: int = 0

    def send(self, alerts, now):
        self.calls += 1
        if self.is_out:
            raise DeliveryUnavailable("nobody answers")
        if self.refuses:
            raise DeliveryRefused("status 400")
        self.got += [(now, alert) for alert in alerts]

    @property
    def states(self):
        return [alert.state for _, alert in self.got]


def evaluator(world, *receivers, rules=(REFUSALS,), holder="a", **fields):
    channels = {f"receiver {number}": receiver for number, receiver in enumerate(receivers)}
    return Alerting(rules, world, world, channels, holder, pace=Pace(lease_us=60 * SECOND), **fields)


OTHER = Scope("acme", "claims")
