"""Liveness is progress, and an outage is no reason to be restarted."""

import pytest

from sinks.errors import StoreUnavailable
from streams.clock import FixedClock
from streams.health import Health, Standing
from streams.ingest import Report
from streams.kafka.errors import BrokerUnavailable
from streams.kafka.seam import Fetched, TopicPartition

P, Q = TopicPartition("events", 0), TopicPartition("events", 1)
STALLED_S, FRESH_S = 60, 30


@pytest.fixture
def clock():
    return FixedClock(seconds=1000.0)


@pytest.fixture
def health(clock):
    return Health(clock, STALLED_S, FRESH_S)


def stored(health, **positions):
    batch = [Fetched(TopicPartition("events", int(name[1:])), 0, (), at) for name, at in positions.items()]
    health.stored(Report(), batch, 0.1)


def test_a_worker_that_has_just_begun_is_live(health):
    assert health.live().ok


def test_a_loop_that_stands_still_is_not_live(health, clock):
    clock.advance(STALLED_S)
    assert health.live().ok
    clock.advance(1)
    assert health.live() == (False, "the loop has not turned for 61 s")
    health.idle()
    assert health.live().ok


def test_messages_that_are_not_read_are_no_progress_though_the_loop_turns(health, clock):
    health.assigned({P: 5, Q: 5})
    for _ in range(STALLED_S + 1):
        clock.advance(1)
        health.idle()
        health.ends({P: 6, Q: 5})
    assert health.live() == (False, "no progress for 60 s, and messages to read: events[0]")
    stored(health, p0=6)
    assert health.live().ok


def test_what_had_nothing_to_read_for_long_has_time_once_it_has(health, clock):
    health.assigned({P: 5})
    for _ in range(5):
        clock.advance(STALLED_S)
        health.idle()
        health.ends({P: 5})
    health.ends({P: 9})
    clock.advance(STALLED_S)
    health.idle()
    health.ends({P: 9})
    assert health.live().ok
    clock.advance(1)
    health.idle()
    assert not health.live().ok


def test_slow_progress_is_progress(health, clock):
    health.assigned({P: 0})
    for position in range(1, 10):
        clock.advance(STALLED_S - 1)
        stored(health, p0=position)
        health.ends({P: 1_000_000})
        assert health.live().ok


def test_an_outage_however_long_is_waited_out_alive(health, clock):
    health.assigned({P: 5})
    for attempt in range(1, 20):
        clock.advance(10)
        health.waits(StoreUnavailable("no memory"), attempt)
        health.ends({P: 100})
    assert health.live() == (True, "waits for the end of an outage: no memory")
    assert health.outage() == "no memory"
    stored(health, p0=100)
    assert health.outage() == ""


def test_a_loop_that_stands_still_in_an_outage_is_not_live(health, clock):
    health.waits(StoreUnavailable("no memory"), 1)
    clock.advance(STALLED_S + 1)
    assert not health.live().ok


def test_a_commit_that_failed_is_no_outage(health):
    health.waits(BrokerUnavailable("gone"), 0)
    assert health.outage() == ""


def test_a_broker_that_does_not_say_where_its_logs_end_accuses_nobody(health, clock):
    health.assigned({P: 5})
    health.ends({P: 100})
    for _ in range(STALLED_S * 2):
        clock.advance(1)
        health.idle()
    assert health.live().ok


def test_what_went_to_somebody_else_is_not_waited_for(health, clock):
    health.assigned({P: 5, Q: 7})
    health.ends({P: 6, Q: 7})
    health.released(frozenset({P}), lost=True)
    clock.advance(STALLED_S + 1)
    health.idle()
    health.ends({P: 6, Q: 7})
    assert health.live().ok
    assert health.standings() == {Q: Standing(7, 7)}
    assert health.partitions == [Q]


def test_messages_that_expired_are_passed(health):
    health.assigned({P: 5})
    health.ends({P: 20})
    assert health.standings()[P].lag == 15
    health.expired(P, 5, 12)
    assert health.standings()[P].lag == 8


def test_lag_is_unknown_before_the_broker_was_asked_and_never_negative(health):
    health.assigned({P: 5})
    assert health.standings()[P].lag is None
    health.ends({P: 4})
    assert health.standings()[P].lag == 0
