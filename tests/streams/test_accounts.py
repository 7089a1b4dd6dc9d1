"""What a log's offsets without a ledger row are: explained, expired, unaccounted, or still to be read."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams import accounts
from streams.accounts import Log, Recorded, Span
from streams.clock import FixedClock, SystemClock
from streams.kafka.errors import BrokerUnavailable
from streams.kafka.fake import FakeCluster
from streams.kafka.kafka_python.client import KafkaPythonClient
from streams.kafka.seam import Connection, NewTopic, Outgoing, TopicPartition

P = TopicPartition("terminal-events", 0)


def cluster_of(log):
    """A log with a message for each ``m``, an offset without one for any other character."""
    cluster = FakeCluster()
    cluster.create(NewTopic(P.topic, 1, 1, {}))
    for kind in log:
        if kind == "m":
            cluster.append(Outgoing(P.topic, b"k", b"v"))
        else:
            cluster.skip(P)
    return cluster


def account(cluster, spans=(), committed=None):
    recorded = {P: Recorded([Span(*span) for span in spans], committed)}
    (found,) = Log(cluster.client(), FixedClock(), 1).accounts(recorded)
    return found


def test_what_is_recorded_to_the_end_is_all_accounted_for():
    found = account(cluster_of("m" * 10), [(0, 10)], 10)
    assert (found.lag, found.unaccounted, found.explained, found.expired, found.unread) == (0, 0, 0, 0, 0)


def test_what_was_not_read_yet_is_lag_and_no_gap():
    assert account(cluster_of("m" * 10), [(0, 4)], 4).lag == 6
    assert account(cluster_of("m" * 10)).lag == 10
    assert account(cluster_of("m" * 10), [(0, 4)]).unaccounted == 0


def test_a_gap_without_messages_is_explained_and_one_with_messages_is_not():
    cluster = cluster_of("m..mmmm")
    found = account(cluster, [(0, 1), (3, 4), (6, 7)])
    assert (found.explained, found.missing) == (2, 2)


def test_what_is_committed_behind_the_ledger_is_unaccounted_unless_it_is_empty():
    assert account(cluster_of("mmm"), [(0, 1)], 3).missing == 2
    assert account(cluster_of("m.."), [(0, 1)], 3).missing == 0
    assert account(cluster_of("mmm"), [], 2).missing == 2


def test_what_expired_before_it_was_recorded_is_said_and_not_counted():
    cluster = cluster_of("m" * 10)
    cluster.expire(P, 5)
    found = account(cluster, [(0, 2), (7, 10)])
    assert (found.expired, found.missing, found.beginning) == (3, 2, 5)


def test_reading_that_began_later_leaves_nothing_unaccounted():
    found = account(cluster_of("m" * 10), [(6, 10)], 10)
    assert (found.unread, found.unaccounted) == (6, 0)


def test_a_topic_that_was_made_anew_is_found():
    found = account(cluster_of("mm"), [(0, 90)], 100)
    assert (found.vanished, found.unaccounted, found.lag) == (98, 98, 0)


def test_a_large_gap_is_not_read(monkeypatch):
    monkeypatch.setattr(accounts, "LARGEST_GAP", 3)
    assert account(cluster_of("m...m"), [(0, 1), (4, 5)]).missing == 0
    assert account(cluster_of("m....m"), [(0, 1), (5, 6)]).missing == 4


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30), st.integers(0, 30))
def test_every_offset_is_one_of_them(log, cut):
    cluster = cluster_of("m" if is_message else "." for is_message, _ in log)
    spans = []
    for offset, (_, is_recorded) in enumerate(log):
        if is_recorded and spans and spans[-1][1] == offset:
            spans[-1] = (spans[-1][0], offset + 1)
        elif is_recorded:
            spans.append((offset, offset + 1))
    cluster.expire(P, cut)
    found = account(cluster, spans)
    first = spans[0][0] if spans else len(log)
    inside = [
        (n, message) for n, (message, known) in enumerate(log) if not known and first <= n < found.end - found.lag
    ]
    last = spans[-1][1] if spans else 0
    inside = [(n, message) for n, message in inside if n < last]
    assert found.expired == sum(n < found.beginning for n, _ in inside)
    assert found.missing == sum(message and n >= found.beginning for n, message in inside)
    assert found.explained == sum(not message and n >= found.beginning for n, message in inside)
    assert found.lag == found.end - max(last, found.beginning)


def test_an_outage_is_raised():
    cluster = cluster_of("mm")
    cluster.down = True
    with pytest.raises(BrokerUnavailable):
        account(cluster, [(0, 1)], 2)


def test_control_records_of_a_real_broker_are_explained(broker, fresh):
    """Only offsets without a message that a reader sees are: here the end of a compacted topic's past."""
    topic = fresh("compacted")
    client = KafkaPythonClient(Connection((broker.bootstrap,), timeout_s=20))
    admin, producer = client.admin(), client.producer()
    partition = TopicPartition(topic, 0)
    try:
        settings = {"cleanup.policy": "compact", "segment.ms": "200", "min.cleanable.dirty.ratio": "0.001",
                    "max.compaction.lag.ms": "1000"}  # fmt: skip
        admin.create_topics([NewTopic(topic, 1, 1, settings)])
        for number in range(6):
            producer.send(Outgoing(topic, b"same", b"%d" % number)).result(20)
        recorded = {partition: Recorded([Span(0, 1), Span(5, 6)], 6)}
        log = Log(client, SystemClock(), 20)
        (before,) = log.accounts(recorded)
        assert (before.missing, before.explained, before.lag) == (4, 0, 0)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            producer.send(Outgoing(topic, b"other", b"")).result(20)
            (after,) = log.accounts(recorded)
            if after.missing == 0:
                break
            time.sleep(0.5)
        assert (after.missing, after.explained) == (0, 4)
        assert after.lag > 0
    finally:
        producer.close()
        admin.close()
