"""The loop over a real store: what is stored is judged, and what is kept is found again."""

import pytest

from alerts.judging import MINUTE
from alerts.model import Pulse, Scope, Series
from sinks.alerts import AlertsStore
from sinks.clocks import ahead_us
from sinks.rows import TableRow, encode_tables
from sinks.store import open_store
from streams.alert_store import StoredReadings, StoredShelf
from streams.alerting import Alerting, Pace, Saved
from streams.outbox import Habit
from tests.alerts.rule import REFUSALS
from tests.sinks.test_alerts import TABLES, TENANT, exit_, write
from tests.streams.alerting.world import SECOND, Receiver

T0 = 29_500_000 * MINUTE
WHOSE = Scope(TENANT, "a")


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store", holder="test", lock_timeout_s=0, now=lambda: T0, wait=print) as opened:
        opened.migrate()
        opened.insert("active_tables", encode_tables([TableRow(TABLES[1], "0.1.0", "default", "1", "", 1)]))
        yield opened


def evaluator(store, receiver, holder):
    stored = AlertsStore(store)
    return Alerting(
        [REFUSALS], StoredReadings(stored), StoredShelf(stored, "sha256:r"), {"receiver": receiver}, holder, pace=Pace()
    )


class Writer:
    """Writes exits, each of a run of its own unless said otherwise, stored when they occurred unless said otherwise."""

    def __init__(self, store):
        self.store, self.number = store, 0

    def exits(self, number, occurred, kind="completed", stored=None, **fields):
        first, self.number = self.number, self.number + number
        at = occurred if stored is None else stored
        given = [exit_(f"e{n}", occurred, kind=kind, classified_at=at, **fields) for n in range(first, self.number)]
        write(self.store, given)


def refusals(writer, minute, number):
    writer.exits(number, T0 + minute * MINUTE, "refusal")


def test_an_incident_is_told_kept_and_goes_on_after_a_restart(store):
    writer, receiver = Writer(store), Receiver(Habit())
    first = evaluator(store, receiver, "a")
    first.turn(T0)
    refusals(writer, 1, 12)
    assert first.turn(T0 + MINUTE + 40 * SECOND).store_failure == ""
    assert receiver.states == ["firing"]
    assert receiver.got[0][1].scope == WHOSE
    second = evaluator(store, receiver, "b")
    assert not second.turn(T0 + 2 * MINUTE).leads
    first.end(T0 + 2 * MINUTE)
    (alert,) = second.turn(T0 + 2 * MINUTE + SECOND).alerts
    assert alert.since == receiver.got[0][1].since
    writer.exits(60, T0 + 9 * MINUTE)
    second.turn(T0 + 9 * MINUTE + SECOND)
    assert receiver.states == ["firing", "resolved"]
    (row,) = AlertsStore(store).alerts(0)
    assert (row.state, row.since, row.rules_digest) == ("resolved", alert.since, "sha256:r")
    assert row.resolved_at == T0 + 9 * MINUTE + SECOND


def test_a_burst_stamped_27_hours_ago_is_told_once_whether_somebody_watched_or_not(store):
    writer, watched, restarted = Writer(store), Receiver(Habit()), Receiver(Habit())
    first = evaluator(store, watched, "a")
    first.turn(T0)
    writer.exits(50, T0 - 27 * 60 * MINUTE, "refusal", stored=T0 + MINUTE)
    first.turn(T0 + MINUTE + SECOND)
    first.turn(T0 + 2 * MINUTE)
    assert watched.states == ["firing"]
    first.end(T0 + 2 * MINUTE)
    writer.exits(50, T0 - 30 * 60 * MINUTE, "refusal", stored=T0 + 4 * MINUTE, agent_id="b")
    evaluator(store, restarted, "b").turn(T0 + 6 * MINUTE)
    assert [(alert.state, alert.scope.agent_id) for _, alert in restarted.got] == [("firing", "b")]


def test_history_and_what_changed_are_together_all_that_is_stored(store):
    writer = Writer(store)
    for minute in (-9000, -4000, -90, -3, 0):
        refusals(writer, minute, 2)
    readings, at = StoredReadings(AlertsStore(store)), T0 - 2 * MINUTE
    lookback = 7 * 1440
    known, news = readings.history(lookback, at), readings.changed(at, T0 + MINUTE)
    assert {count.minute - T0 // MINUTE for count in news} == {0}
    long_ago, *recent = sorted(c.minute - T0 // MINUTE for c in known if c.series is Series.REFUSAL)
    assert recent == [-4000, -90, -3]
    assert -9060 < long_ago <= -9000, "by the hour"
    assert sum(count.n for count in [*known, *news] if count.series is Series.REFUSAL) == 10


def test_a_minute_that_became_empty_is_told_as_such(store):
    writer = Writer(store)
    writer.exits(1, T0, "refusal", run_id="r")
    writer.exits(1, T0 + MINUTE, run_id="r", segment=1)
    news = StoredReadings(AlertsStore(store)).changed(T0 - MINUTE, T0 + 2 * MINUTE)
    by_minute = {minute: sum(c.n for c in news if c.minute == T0 // MINUTE + minute) for minute in (0, 1)}
    assert by_minute[0] == 0
    assert by_minute[1] > 0
    assert T0 // MINUTE in {count.minute for count in news}


def test_the_pulse_says_what_is_stored_and_not_what_is_unknown(store):
    readings = StoredReadings(AlertsStore(store))
    assert readings.pulse(T0) == Pulse()
    Writer(store).exits(1, T0)
    assert readings.pulse(T0 + MINUTE) == Pulse(newest_event_at=T0, clock_skew_us=0)
    Writer(store).exits(1, T0 + 90 * SECOND, stored=T0 + SECOND)
    assert readings.pulse(T0 + MINUTE).clock_skew_us == 89 * SECOND
    assert ahead_us(store, T0 + MINUTE) is None


def test_the_last_one_that_was_kept_is_found(store):
    shelf = StoredShelf(AlertsStore(store), "sha256:r")
    assert shelf.saved() is None
    for saved in (Saved("b", 2, "two"), Saved("a", 3, "three"), Saved("late", 1, "one")):
        shelf.save(saved, [])
    assert shelf.saved() == Saved("a", 3, "three")
