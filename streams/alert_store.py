"""What alerts are judged by, and where the evaluation is kept, over an open store."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from alerts.model import Alert, Count, OpenItem, Pulse
from alerts.windows import DAY, HOUR, LATE_MINUTES
from sinks.alerts import MINUTE, AlertsStore
from sinks.clocks import ahead_us
from sinks.open_items import OpenItemsReader
from sinks.rows import EvaluationRow
from streams.alert_history import OpenNow
from streams.alert_inputs import counts_of, row_of, whole
from streams.alerting import Saved

EVALUATOR = "live"
"""Name of the evaluators that run for ever. They stand in for one another."""
_BY_MINUTES = LATE_MINUTES + DAY
_RECENT_US = 15 * 60_000_000


@dataclass(frozen=True)
class StoredReadings:
    """Reads what is judged, see :class:`streams.alerting.Readings`. ``open_now`` remembers what was open, for whoever
    opens the store anew each time."""

    store: AlertsStore
    open_now: OpenNow = field(default_factory=OpenNow)

    def history(self, lookback_minutes: int, at: int) -> list[Count]:
        """Counts of the time before ``at``; long ago by the hour."""
        end = at // MINUTE + 1
        begin, recent = end - lookback_minutes, end - _BY_MINUTES
        changed = set(self.store.changed(at, recent, end))
        rows = [row for row in self.store.counts(recent, end) if row["minute"] not in changed]
        hourly_from, hourly_to = begin // HOUR * HOUR, recent // HOUR * HOUR
        if hourly_from < hourly_to:
            rows += self.store.counts(hourly_from, hourly_to, HOUR)
        rows += [row for row in self.store.counts(hourly_to, recent) if row["minute"] not in changed]
        return list(counts_of(rows))

    def changed(self, since: int, now: int) -> list[Count]:
        """Each minute that changed, whole; as far back as it would be judged."""
        end = now // MINUTE + 1
        minutes = self.store.changed(since, end - LATE_MINUTES, end)
        return whole(minutes, self.store.minutes(minutes))

    def open_items(self, now: int) -> list[OpenItem]:
        """Everything that is open."""
        return self.open_now.at(OpenItemsReader(self.store.store), now)

    def pulse(self, now: int) -> Pulse:
        """What stored exits say: the newest event, and how far ahead clocks of producers are."""
        skew = ahead_us(self.store.store, now - _RECENT_US)
        return Pulse(newest_event_at=self.store.newest_event_at(), clock_skew_us=skew)


@dataclass(frozen=True)
class StoredShelf:
    """Keeps the state, see :class:`streams.alerting.Shelf`. ``digest`` is that of the rules."""

    store: AlertsStore
    digest: str

    def saved(self) -> Saved | None:
        """What the live evaluators kept last."""
        row = self.store.evaluation(EVALUATOR)
        return None if row is None else Saved(row.holder, row.evaluated_at, row.state)

    def save(self, saved: Saved, alerts: Sequence[Alert]) -> None:
        """The alerts first: what the state says of them is then there to be read."""
        fired = [alert for alert in alerts if alert.fired_at is not None]
        self.store.write_alerts([row_of(alert, self.digest, saved.at) for alert in fired])
        self.store.write_evaluation(
            EvaluationRow(EVALUATOR, saved.holder, self.digest, saved.at, saved.text, recorded_at=saved.at)
        )
