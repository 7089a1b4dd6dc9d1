"""From settings to the classify worker."""

from itertools import count

import pytest

from offramp.classifying import Group, _bounds, _subscription
from offramp.config import resolve
from offramp.session import Session
from streams.clock import FixedClock, SystemClock
from streams.kafka.errors import BrokerUnavailable
from streams.kafka.seam import Subscription
from streams.start import StartUnknownError
from streams.topics import Topics
from tests.streams.memory_sink import MemorySink
from tests.streams.test_classify import GROUP, MESSAGES, TOPICS, cluster, event, filled, put, worker_on


@pytest.mark.parametrize(("session_s", "heartbeat_s"), [(45.0, 3.0), (9.0, 3.0), (3.0, 1.0), (1.0, 1 / 3)])
def test_a_short_session_has_more_heartbeats(session_s, heartbeat_s):
    session = Session(resolve(None, {}, {"worker": {"session_timeout_s": session_s}}), SystemClock())
    subscription = _subscription(session, Topics.planned())
    assert (subscription.session_timeout_s, subscription.heartbeat_interval_s) == (session_s, heartbeat_s)


class Other:
    """Another member of the group, which hears of its partitions and reads nothing."""

    def __init__(self, kafka):
        self.consumer = kafka.client().consumer(Subscription(GROUP, tuple(topic.name for topic in TOPICS.inputs)), self)

    def on_assigned(self, consumer, partitions):
        for partition in partitions:
            consumer.seek(partition, 0)

    def on_revoked(self, consumer, partitions): ...

    def on_lost(self, consumer, partitions): ...

    def poll(self):
        self.consumer.poll(0, 1)

    def commit(self, ends):
        self.consumer.commit({partition: ends[partition] for partition in self.consumer.assignment()})


class Counted:
    """An administrator whose questions are counted, and answered only while ``is_there``."""

    def __init__(self, admin):
        self.admin, self.asked, self.is_there = admin, 0, True

    def group_offsets(self, group):
        self.asked += 1
        if not self.is_there:
            raise BrokerUnavailable("out of reach")
        return self.admin.group_offsets(group)

    def describe_groups(self, names):
        return self.admin.describe_groups(names)


def group_on(kafka):
    """The group of a cluster, its administrator, and the clock that it waits by."""
    partitions = [partition for topic in TOPICS.inputs for partition in kafka.partitions(topic.name)]
    admin, clock = Counted(kafka.client().admin()), FixedClock()
    return Group(admin, clock, GROUP, *_bounds(kafka.client(), partitions)), admin, clock


def turns_until(group, worker, clock, each_turn):
    """Run a worker until the group has stored everything; how many turns that took."""
    turns = count(1)

    def stop():
        nonlocal taken
        taken = next(turns)
        assert taken < 100, worker.positions
        each_turn(taken)
        clock.advance(0.25)
        return group.has_stored(worker)

    taken = 0
    worker.run(stop)
    return taken


def test_what_others_own_is_read_once_they_have_committed_it():
    kafka, sink = filled(), MemorySink()
    group, admin, clock = group_on(kafka)
    other, worker = Other(kafka), worker_on(kafka, sink)
    other.poll()

    def each_turn(number):
        admin.is_there = number not in range(30, 40)
        other.poll()
        if number == 40:
            assert 0 < len(other.consumer.assignment()) < len(group.ends)
            other.commit(group.ends)

    assert 40 <= turns_until(group, worker, clock, each_turn) < 50
    # A second is four turns.
    assert 0 < admin.asked <= 15
    assert len(sink.seen("ingest_ledger")) < len(MESSAGES)


def test_a_member_without_partitions_ends_once_the_others_have_everything():
    kafka = filled()
    group, _, clock = group_on(kafka)
    others, worker = [Other(kafka) for _ in range(2 * len(TOPICS.inputs))], worker_on(kafka, MemorySink())
    for _ in range(3):
        for other in others:
            other.poll()

    def each_turn(number):
        for other in others:
            other.poll()
            if number == 20:
                other.commit(group.ends)

    assert 20 <= turns_until(group, worker, clock, each_turn) < 30
    assert worker.positions == {}


def test_alone_it_reads_everything_itself_and_asks_nobody_once_it_has_joined():
    kafka, sink = filled(), MemorySink()
    group, admin, clock = group_on(kafka)
    turns_until(group, worker_on(kafka, sink), clock, lambda _number: None)
    assert (len(sink.seen("ingest_ledger")), admin.asked) == (len(MESSAGES), 1)


def test_what_a_group_has_committed_does_not_end_a_worker_with_the_wrong_store():
    kafka = cluster()
    put(kafka, event("1"))
    group, _, clock = group_on(kafka)
    turns_until(group, worker_on(kafka, MemorySink()), clock, lambda _number: None)
    with pytest.raises(StartUnknownError):
        turns_until(group, worker_on(kafka, MemorySink()), clock, lambda _number: None)


WAITING = "waiting for other members of the group to commit"


def test_whoever_waits_for_others_says_for_whom_after_a_while_and_then_once_a_minute(caplog):
    kafka, sink = filled(), MemorySink()
    group, _, clock = group_on(kafka)
    other, worker = Other(kafka), worker_on(kafka, sink)
    other.poll()
    said_at, theirs = [], set()
    clock.advance(1_000)

    def each_turn(number):
        other.poll()
        lines = [record for record in caplog.records if record.message == WAITING]
        said_at.extend([clock.seconds] * (len(lines) - len(said_at)))
        clock.advance(2)
        if number == 35:
            theirs.update(other.consumer.assignment())
            other.commit(group.ends)

    with caplog.at_level("WARNING", "offramp.classify"):
        turns_until(group, worker, clock, each_turn)
    first, second = said_at
    assert 1_010 <= first < 1_020
    assert 60 <= second - first < 65
    line = next(record for record in caplog.records if record.message == WAITING)
    assert line.partitions == {
        f"{each.topic}[{each.partition}]": {"committed": 0, "end": group.ends[each], "member": "fake on 127.0.0.1"}
        for each in theirs if group.ends[each]
    }  # fmt: skip
    assert line.partitions
    assert (line.group, "can be ended" in line.remedy) == (GROUP, True)


def test_whoever_reads_itself_says_nothing_of_others(caplog):
    kafka = filled()
    group, _, clock = group_on(kafka)
    with caplog.at_level("WARNING", "offramp.classify"):
        turns_until(group, worker_on(kafka, MemorySink()), clock, lambda _number: clock.advance(30))
    assert [record.message for record in caplog.records if record.message == WAITING] == []
