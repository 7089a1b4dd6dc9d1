"""What holds for every implementation of the Kafka seam: the fake, kafka-python and confluent-kafka."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest

from streams.kafka.confluent.client import ConfluentClient
from streams.kafka.errors import (
    BrokerRejected,
    GenerationLost,
    InstanceFenced,
    OffsetOutOfRange,
    Rejection,
)
from streams.kafka.kafka_python.client import KafkaPythonClient
from streams.kafka.partitioning import partition_of
from streams.kafka.seam import Committed, Delivered, Outgoing, Subscription, TopicPartition
from tests.contract.labs import BrokerLab, FakeLab, Lab, Recorder, create, member, read, until, values, write

CLIENTS = {"kafka-python": KafkaPythonClient, "confluent": ConfluentClient}


@pytest.fixture
def lab(kind: str, request: pytest.FixtureRequest) -> Iterator[Lab]:
    if kind == "fake":
        yield FakeLab()
    else:
        yield BrokerLab(request.getfixturevalue("broker"), CLIENTS[kind])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kind" in metafunc.fixturenames:
        real = pytest.mark.xdist_group("kafka")
        metafunc.parametrize("kind", ["fake", *(pytest.param(kind, marks=real) for kind in CLIENTS)])


@pytest.fixture
def topic(lab, fresh):
    name = fresh("events")
    create(lab.client, name)
    return name


def joined(lab, subscription, listener, *others):
    consumer = lab.client.consumer(subscription, listener)
    until(lambda: bool(consumer.assignment()), consumer, *others)
    return consumer


def having_read(lab, topic, group, count):
    """A member that has read ``count`` messages, all that there are, and its listener."""
    write(lab.client, *(Outgoing(topic, b"k", b"%d" % number) for number in range(count)))
    listener = Recorder()
    consumer = lab.client.consumer(member(group, topic), listener)
    read(consumer, count)
    return consumer, listener


# --- messages


def test_a_message_comes_back_as_it_was_sent(lab, topic):
    headers = (("trace", b"\x00\xff"), ("trace", b"again"), ("empty", b""), ("ü", b"1"))
    sent = [
        Outgoing(topic, b"key", b"value", headers, timestamp_us=1_700_000_000_123_456),
        Outgoing(topic, b"", b""),
        Outgoing(topic, b"key", None),
        Outgoing(topic, None, b"no key"),
    ]
    write(lab.client, *sent)
    place = TopicPartition(topic, 0)
    with closing(lab.client.reader([place])) as reader:
        reader.seek(place, 0)
        got = [message for found in read(reader, 4) for message in found.messages]
    assert [message.offset for message in got] == [0, 1, 2, 3]
    assert {(message.topic, message.partition) for message in got} == {(topic, 0)}
    assert [(message.key, message.value) for message in got] == [(message.key, message.value) for message in sent]
    assert got[0].headers == headers
    assert got[1].headers == ()
    assert got[0].timestamp_us == 1_700_000_000_123_000
    assert all(isinstance(message.timestamp_us, int) for message in got)


def test_a_header_without_a_value_is_not_an_empty_one(lab, kind, topic, request):
    if kind == "kafka-python":
        request.applymarker(pytest.mark.xfail(reason="kafka-python refuses headers without a value; sent empty"))
    write(lab.client, Outgoing(topic, b"k", b"v", (("none", None), ("empty", b""))))
    place = TopicPartition(topic, 0)
    with closing(lab.client.reader([place])) as reader:
        reader.seek(place, 0)
        (found,) = read(reader, 1)
    assert found.messages[0].headers == (("none", None), ("empty", b""))


def test_a_message_of_nothing_is_written(lab, kind, topic, request):
    if kind == "kafka-python":
        request.applymarker(pytest.mark.xfail(reason="kafka-python wants a key or a value"))
    write(lab.client, Outgoing(topic, None, None))


def test_a_key_goes_where_kafka_puts_it(lab, fresh):
    topic = fresh("keyed")
    create(lab.client, topic, partitions=7)
    keys = [b"", b"a", b"ab", b"abc", b"abcd", b"tenant\x00run-1", "schlüssel".encode(), bytes(range(256))]
    with closing(lab.client.producer()) as producer:
        pending = [producer.send(Outgoing(topic, key, b"v")) for key in keys]
        producer.flush(10)
        placed = [sent.result(0).partition.partition for sent in pending]
        named = producer.send(Outgoing(topic, b"a", b"v", partition=5))
        assert named.result(10) == Delivered(TopicPartition(topic, 5), named.result(10).offset)
    assert placed == [partition_of(key, 7) for key in keys]


def test_a_message_that_is_refused_costs_its_neighbours_nothing(lab, fresh):
    topic = fresh("small")
    create(lab.client, topic, max_message_bytes="2000")
    with closing(lab.client.producer()) as producer:
        before = producer.send(Outgoing(topic, b"k", b"before"))
        large = producer.send(Outgoing(topic, b"k", bytes(5000)))
        beside = producer.send(Outgoing(topic, b"k", b"beside"))
        with pytest.raises(BrokerRejected) as refused:
            producer.flush(10)
        after = producer.send(Outgoing(topic, b"k", b"after"))
        producer.flush(10)
        assert refused.value.reason is Rejection.TOO_LARGE
        with pytest.raises(BrokerRejected):
            large.result(0)
        assert after.done()
        assert [sent.result(0).offset for sent in (before, beside, after)] == [0, 1, 2]


def test_a_topic_that_is_not_there_is_said(lab, fresh):
    place = TopicPartition(fresh("nowhere"), 0)
    with closing(lab.client.producer()) as producer:
        pending = producer.send(Outgoing(place.topic, b"k", b"v"))
        with pytest.raises(BrokerRejected, match=place.topic) as refused:
            pending.result(10)
        assert refused.value.reason is Rejection.UNKNOWN_TOPIC
        with pytest.raises(BrokerRejected):
            producer.flush(10)
    for attempt in (
        lambda: lab.client.reader([place]),
        lambda: lab.client.consumer(Subscription("g", (place.topic,)), Recorder()),
    ):
        with pytest.raises(BrokerRejected, match=place.topic) as refused:
            attempt()
        assert refused.value.reason is Rejection.UNKNOWN_TOPIC
    with closing(lab.client.admin()) as admin:
        assert place.topic not in admin.topics()


# --- positions


def test_positions_are_without_a_gap_and_polls_are_bounded(lab, topic):
    write(lab.client, *(Outgoing(topic, b"k", b"%d" % number) for number in range(25)))
    place = TopicPartition(topic, 0)
    with closing(lab.client.reader([place])) as reader:
        reader.seek(place, 3)
        fetched = read(reader, 22, max_records=10)
    assert values(fetched) == [b"%d" % number for number in range(3, 25)]
    assert max(len(found.messages) for found in fetched) <= 10
    assert [found.start_offset for found in fetched] == [3, *(found.next_offset for found in fetched[:-1])]
    assert fetched[-1].next_offset == 25


def test_control_records_and_aborted_transactions_are_holes(lab, topic):
    place = TopicPartition(topic, 0)
    lab.transaction(place, [b"0", b"1"], commit=True)  # offsets 0 and 1, control record at 2
    lab.transaction(place, [b"aborted"], commit=False)  # offset 3, control record at 4
    write(lab.client, Outgoing(topic, b"k", b"5"))
    lab.transaction(place, [b"6"], commit=True)  # control record at 7, the end
    fetched = []
    with closing(lab.client.reader([place])) as reader:
        reader.seek(place, 0)
        assert reader.end_offsets([place]) == {place: 8}
        until(lambda: bool(fetched) and fetched[-1].next_offset == 8, reader, collect=fetched)
    offsets = [message.offset for found in fetched for message in found.messages]
    assert offsets == [0, 1, 5, 6]
    assert fetched[0].start_offset == 0
    assert all(before.next_offset == after.start_offset for before, after in itertools.pairwise(fetched))


def test_a_position_that_nobody_gave_is_out_of_range(lab, topic):
    write(lab.client, Outgoing(topic, b"k", b"v"))
    place = TopicPartition(topic, 0)
    with closing(lab.client.reader([place])) as reader:
        with pytest.raises(OffsetOutOfRange) as caught:
            until(lambda: False, reader)
        assert (caught.value.partition, caught.value.requested) == (place, None)
        assert (caught.value.beginning, caught.value.end) == (0, 1)
        reader.seek(place, 0)
        assert values(read(reader, 1)) == [b"v"]


@pytest.mark.parametrize("requested", [0, 9])
def test_a_position_that_is_not_in_the_log_is_out_of_range_until_one_seeks(lab, topic, requested):
    write(lab.client, *(Outgoing(topic, b"k", b"%d" % number) for number in range(5)))
    place = TopicPartition(topic, 0)
    lab.expire(place, 3)
    with closing(lab.client.reader([place])) as reader:
        reader.seek(place, requested)
        for _ in range(2):
            with pytest.raises(OffsetOutOfRange) as caught:
                until(lambda: False, reader)
            problem = caught.value
            assert (problem.partition, problem.requested, problem.beginning, problem.end) == (place, requested, 3, 5)
        reader.seek(place, problem.beginning)
        assert values(read(reader, 2)) == [b"3", b"4"]


def test_one_partition_out_of_range_costs_the_others_nothing(lab, fresh):
    topic = fresh("two")
    create(lab.client, topic, partitions=2)
    write(lab.client, *(Outgoing(topic, None, b"%d" % n, partition=n % 2) for n in range(10)))
    good, bad = TopicPartition(topic, 0), TopicPartition(topic, 1)
    fetched = []
    with closing(lab.client.reader([good, bad])) as reader:
        reader.seek(good, 0)
        reader.seek(bad, 77)
        with pytest.raises(OffsetOutOfRange):
            until(lambda: False, reader, collect=fetched)
        reader.seek(bad, 5)
        until(lambda: len(values(fetched)) == 5, reader, collect=fetched)
    assert values(fetched) == [b"0", b"2", b"4", b"6", b"8"]


def test_a_paused_partition_waits_and_loses_nothing(lab, fresh):
    topic = fresh("two")
    create(lab.client, topic, partitions=2)
    one, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
    write(lab.client, *(Outgoing(topic, None, b"%d" % n, partition=n % 2) for n in range(100)))
    with closing(lab.client.reader([one, two])) as reader:
        reader.seek(one, 0)
        reader.seek(two, 0)
        got = read(reader, 3, max_records=3)
        reader.pause([two])
        while not (found := reader.poll(0.2, 1000)) or found[-1].next_offset < 50:
            got += found
        got += found
        assert all(found.partition == one for found in reader.poll(0.1, 1000))
        reader.resume([two, TopicPartition(topic, 9)])
        while sum(len(found.messages) for found in got) < 100:
            got += read(reader, 1)
    for place in (one, two):
        assert values(found for found in got if found.partition == place) == [
            b"%d" % n for n in range(place.partition, 100, 2)
        ]


def test_where_the_log_begins_and_ends_and_what_came_when(lab, topic):
    place = TopicPartition(topic, 0)
    hour = 3_600_000_000
    write(lab.client, *(Outgoing(topic, b"k", b"v", timestamp_us=1_700_000_000_000_000 + n * hour) for n in range(4)))
    lab.expire(place, 1)
    with closing(lab.client.reader([place])) as reader:
        assert reader.beginning_offsets([place]) == {place: 1}
        assert reader.end_offsets([place]) == {place: 4}
        moments = {
            2: 1_700_000_000_000_000 + 2 * hour,
            3: 1_700_000_000_001_000 + 2 * hour,
            None: 2_000_000_000_000_000,
        }
        for offset, moment in moments.items():
            assert reader.offsets_for_times({place: moment}) == {place: offset}
        with pytest.raises(ValueError, match="not assigned"):
            reader.seek(TopicPartition(topic, 5), 0)


def test_of_any_partition_it_is_told_where_its_log_begins_and_ends(lab, topic, fresh):
    """Also of those that the reader is not assigned, beside one of which it knows everything."""
    known, new, moment = TopicPartition(topic, 0), TopicPartition(fresh("other"), 0), 1_700_000_000_000_000
    create(lab.client, new.topic)
    write(lab.client, Outgoing(new.topic, b"k", b"v", timestamp_us=moment))
    for question, answers in (
        (lambda reader, asked: reader.beginning_offsets(asked), {known: 0, new: 0}),
        (lambda reader, asked: reader.end_offsets(asked), {known: 0, new: 1}),
        (lambda reader, asked: reader.offsets_for_times(dict.fromkeys(asked, moment)), {known: None, new: 0}),
    ):
        with closing(lab.client.reader([known])) as reader:
            assert question(reader, [known]) == {known: answers[known]}
            assert question(reader, [known, new]) == answers


# --- groups


def test_a_group_starts_where_it_committed_and_commits_only_when_told(lab, topic, fresh):
    write(lab.client, *(Outgoing(topic, b"k", b"%d" % number) for number in range(4)))
    subscription, place = member(fresh("group"), topic), TopicPartition(topic, 0)
    first = lab.client.consumer(subscription, Recorder())
    assert values(read(first, 4)) == [b"0", b"1", b"2", b"3"]
    first.close()
    second = joined(lab, subscription, Recorder())
    assert second.committed([place]) == {}
    second.commit({place: 2}, "stored by 2")
    assert second.committed([place]) == {place: Committed(2, "stored by 2")}
    second.close()
    second.close()
    third = lab.client.consumer(subscription, Recorder(starts=None))
    fetched = read(third, 2)
    third.close()
    assert values(fetched) == [b"2", b"3"]
    assert fetched[0].start_offset == 2
    with closing(lab.client.admin()) as admin:
        assert admin.group_offsets(subscription.group) == {place: Committed(2, "stored by 2")}


def test_a_group_without_a_committed_offset_is_asked_where_to_start(lab, topic, fresh):
    consumer = lab.client.consumer(member(fresh("group"), topic), Recorder(starts=None))
    with pytest.raises(OffsetOutOfRange) as caught:
        until(lambda: False, consumer)
    assert caught.value.requested is None
    consumer.close()


def test_partitions_are_shared_and_given_up_only_after_the_owner_has_finished(lab, fresh):
    topic, group = fresh("shared"), fresh("group")
    create(lab.client, topic, partitions=4)
    everything = frozenset(TopicPartition(topic, n) for n in range(4))
    threads = set()
    listeners = [Recorder(), Recorder()]

    def commit(consumer, partitions):
        threads.add(threading.get_ident())
        consumer.commit(dict.fromkeys(partitions, 0), "on revoke")

    listeners[0].on_revoke = commit
    first = joined(lab, member(group, topic), listeners[0])
    assert first.assignment() == everything
    assert listeners[0].seen("assigned") == [everything]
    second = lab.client.consumer(member(group, topic), listeners[1])
    until(lambda: len(second.assignment()) == 2 == len(first.assignment()), first, second)
    assert first.assignment() | second.assignment() == everything
    gone = frozenset().union(*listeners[0].seen("revoked"))
    assert gone >= second.assignment()
    assert threads == {threading.get_ident()}
    assert first.committed(everything).keys() == gone
    second.close()
    assert frozenset().union(*listeners[1].seen("revoked")) >= everything - first.assignment()
    until(lambda: first.assignment() == everything, first)
    first.close()
    assert listeners[0].seen("lost") == []


def test_a_partition_that_stays_is_read_on_over_a_rebalance(lab, fresh):
    topic, group = fresh("shared"), fresh("group")
    create(lab.client, topic, partitions=2)
    write(lab.client, *(Outgoing(topic, None, b"%d" % n, partition=n % 2) for n in range(20)))
    one, two = Recorder(), Recorder()
    first = lab.client.consumer(member(group, topic), one)
    got = read(first, 20)
    one.starts = 10  # for whom it goes and comes back
    second = lab.client.consumer(member(group, topic), two)
    until(lambda: len(second.assignment()) == 1 == len(first.assignment()), first, second, collect=got)
    (kept,) = first.assignment()
    write(lab.client, Outgoing(topic, None, b"later", partition=kept.partition))
    got.clear()
    until(lambda: kept in {part.partition for part in got}, first, second, collect=got)
    (later,) = [part for part in got if part.partition == kept]
    assert (later.partition, later.start_offset, later.next_offset) == (kept, 10, 11)
    first.close()
    second.close()


def shared_out(places, consumers, expected):
    """Whether everything is somebody's, nothing two members', and of each topic the members have so many."""
    given = [place for consumer in consumers for place in consumer.assignment()]
    topics = sorted({place.topic for place in places})
    shares = [
        sorted(sum(p.topic == topic for p in consumer.assignment()) for consumer in consumers) for topic in topics
    ]
    return sorted(given) == sorted(places) and shares == expected


def test_of_every_topic_each_member_has_its_share(lab, fresh):
    """Not of the partitions of all topics together: one topic may have nearly all messages."""
    sizes, group = {fresh("busy"): 4, fresh("calm"): 4, fresh("idle"): 3}, fresh("group")
    for name, partitions in sizes.items():
        create(lab.client, name, partitions=partitions)
    places = [TopicPartition(name, number) for name, partitions in sizes.items() for number in range(partitions)]
    subscription = Subscription(group, tuple(sizes), session_timeout_s=6, heartbeat_interval_s=0.2)
    alone, two, three = [[4], [4], [3]], [[2, 2], [2, 2], [1, 2]], [[1, 1, 2], [1, 1, 2], [1, 1, 1]]
    consumers = []
    for expected in (alone, two, three):
        consumers.append(lab.client.consumer(subscription, Recorder()))
        until(partial(shared_out, places, consumers, expected), *consumers)
    consumers.pop(0).close()
    until(partial(shared_out, places, consumers, two), *consumers)
    for consumer in consumers:
        consumer.close()


def test_nothing_is_read_twice_or_left_out_while_members_come_and_go(lab, fresh):
    """Everybody goes on where the previous owner had committed when it let go."""
    topic, group, where = fresh("shared"), fresh("group"), {}
    create(lab.client, topic, partitions=4)
    sent = [b"%d" % number for number in range(2_000)]
    write(lab.client, *(Outgoing(topic, None, value, partition=int(value) % 4) for value in sent))

    def reading():
        listener = Recorder(starts=None)
        listener.on_assign = lambda consumer, partitions: [consumer.seek(p, where.get(p, 0)) for p in partitions]
        return lab.client.consumer(member(group, topic), listener)

    got = []

    def some(count, consumers):
        wanted = len(values(got)) + count
        while len(values(got)) < wanted:
            for consumer in consumers:
                for found in consumer.poll(0.05, 20):
                    assert found.start_offset == where.get(found.partition, 0)
                    where[found.partition] = found.next_offset
                    got.append(found)

    consumers = [reading()]
    some(300, consumers)
    consumers.append(reading())
    some(400, consumers)
    consumers.append(reading())
    some(400, consumers)
    consumers.pop(0).close()
    some(len(sent) - len(values(got)), consumers)
    assert sorted(values(got), key=int) == sent
    for consumer in consumers:
        consumer.close()


def test_a_member_may_seek_at_any_time_and_reads_on_from_there(lab, fresh):
    """Also while more was fetched ahead; the other partition misses nothing, and what is paused stays so."""
    topic = fresh("sought")
    create(lab.client, topic, partitions=3)
    write(lab.client, *(Outgoing(topic, None, b"%d" % n, partition=n % 3) for n in range(600)))
    moved, beside, paused = (TopicPartition(topic, number) for number in range(3))
    consumer = joined(lab, member(fresh("group"), topic), Recorder())
    consumer.pause([paused])
    consumer.seek(paused, 0)
    stands = {moved: 0, beside: 0}
    consumer.seek(moved, 0)
    consumer.seek(beside, 0)
    for start in (0, 150, 20, 199, 3, 100, 0, 60):
        consumer.seek(moved, start)
        stands[moved] = start
        for _ in range(2):
            for found in read(consumer, 1, max_records=7):
                assert found.start_offset == stands[found.partition]
                offsets = [message.offset for message in found.messages]
                assert offsets == list(range(found.start_offset, found.next_offset))
                stands[found.partition] = found.next_offset
    consumer.pause([moved, beside])
    consumer.seek(paused, 40)
    consumer.resume([paused])
    assert values(read(consumer, 160)) == [b"%d" % (n * 3 + 2) for n in range(40, 200)]
    consumer.close()


def test_a_partition_that_was_paused_is_read_when_it_comes_back(lab, topic, fresh):
    write(lab.client, Outgoing(topic, b"k", b"v"))
    group, listener = fresh("group"), Recorder()
    consumer = joined(lab, member(group, topic), listener)
    consumer.pause(consumer.assignment())
    lab.expel(consumer, group)
    until(lambda: listener.seen("lost") != [] and bool(consumer.assignment()), consumer)
    consumer.seek(TopicPartition(topic, 0), 0)
    assert values(read(consumer, 1)) == [b"v"]
    consumer.close()


def test_a_partition_that_comes_back_is_read_from_where_its_group_committed(lab, topic, fresh):
    """And not from where this member stood, if it does not say."""
    group = fresh("group")
    consumer, listener = having_read(lab, topic, group, 4)
    consumer.commit({TopicPartition(topic, 0): 1})
    listener.starts = None
    lab.expel(consumer, group)
    fetched = read(consumer, 3)
    assert values(fetched) == [b"1", b"2", b"3"]
    assert fetched[0].start_offset == 1
    consumer.close()


@pytest.mark.parametrize("first", CLIENTS)
def test_members_of_both_clients_share_one_group(broker, fresh, first):
    """Whoever comes first leads and shares out for both."""
    labs = [BrokerLab(broker, CLIENTS[first]), *(BrokerLab(broker, CLIENTS[kind]) for kind in CLIENTS if kind != first)]
    topics, group = [fresh("one"), fresh("two")], fresh("group")
    for name in topics:
        create(labs[0].client, name, partitions=4)
    places = [TopicPartition(name, number) for name in topics for number in range(4)]
    subscription = Subscription(group, tuple(topics), session_timeout_s=6, heartbeat_interval_s=0.2)
    consumers = []
    for lab, expected in ((labs[0], [4]), (labs[1], [2, 2]), (labs[0], [1, 1, 2])):
        consumers.append(lab.client.consumer(subscription, Recorder()))
        until(partial(shared_out, places, consumers, [expected, expected]), *consumers)
    for consumer in consumers:
        consumer.close()


def test_a_member_that_was_put_out_learns_it_and_comes_back(lab, topic, fresh):
    place, group = TopicPartition(topic, 0), fresh("group")
    consumer, listener = having_read(lab, topic, group, 3)
    lab.expel(consumer, group)
    with pytest.raises(GenerationLost):
        consumer.commit({place: 3})
    assert values(read(consumer, 3)) == [b"0", b"1", b"2"]
    assert [name for name, _ in listener.events] == ["assigned", "lost", "assigned"]
    consumer.commit({place: 3})
    consumer.close()


def test_two_of_one_instance_are_one_too_many(lab, topic, fresh):
    subscription = member(fresh("group"), topic, "worker-1")
    first = joined(lab, subscription, Recorder())
    second = joined(lab, subscription, Recorder())
    with pytest.raises(InstanceFenced):
        first.commit({TopicPartition(topic, 0): 0})
    second.commit({TopicPartition(topic, 0): 0})
    second.close()
    first.close()


def test_what_a_listener_raises_comes_out_of_the_poll_and_costs_no_message(lab, topic, fresh):
    write(lab.client, Outgoing(topic, b"k", b"v"))
    listener = Recorder()

    def fail(_consumer, _partitions):
        raise RuntimeError("the store is away")

    listener.on_assign = fail
    consumer = lab.client.consumer(member(fresh("group"), topic), listener)
    with pytest.raises(RuntimeError, match="the store is away"):
        until(lambda: False, consumer)
    assert values(read(consumer, 1)) == [b"v"]
    consumer.close()


# --- administration


def test_topics_are_made_described_and_changed(lab, fresh):
    name = fresh("made")
    create(lab.client, name, partitions=3, cleanup_policy="compact")
    with closing(lab.client.admin()) as admin:
        described = admin.describe_topics([name, fresh("absent")])
        assert list(described) == [name]
        made = described[name]
        assert (made.name, made.partitions, made.replication) == (name, 3, 1)
        assert made.config["cleanup.policy"] == "compact"
        assert "retention.ms" in made.config
        admin.set_config(name, {"retention.ms": "1234567"})
        changed = admin.describe_topics([name])[name].config
        assert (changed["retention.ms"], changed["cleanup.policy"]) == ("1234567", "compact")
        assert name in admin.topics()
        with pytest.raises(BrokerRejected, match=name) as refused:
            create(lab.client, name)
        assert refused.value.reason is Rejection.TOPIC_EXISTS
        with pytest.raises(BrokerRejected) as refused:
            admin.set_config(fresh("absent"), {"retention.ms": "1"})
        assert refused.value.reason is Rejection.UNKNOWN_TOPIC
        assert admin.describe_topics([]) == {}


def test_groups_are_listed_with_who_reads_what(lab, topic, fresh):
    group, place = fresh("group"), TopicPartition(topic, 0)
    consumer = joined(lab, member(group, topic, "worker-7"), Recorder())
    with closing(lab.client.admin()) as admin:
        assert group in admin.groups()
        until(lambda: admin.describe_groups([group])[group].state == "Stable", consumer)
        (found,) = admin.describe_groups([group, fresh("absent")])[group].members
        assert (found.instance_id, found.topics, found.assignment) == ("worker-7", {topic}, {place})
        assert admin.group_offsets(group) == {}
        assert admin.group_offsets(fresh("absent")) == {}
        assert fresh("absent") not in admin.describe_groups([fresh("absent")])
    consumer.close()


def test_only_what_is_ours_is_committed(lab, topic, fresh):
    group, place = fresh("group"), TopicPartition(topic, 0)
    listener = Recorder()
    consumer = lab.client.consumer(member(group, topic), listener)
    with pytest.raises(GenerationLost):
        consumer.commit({place: 0})
    until(lambda: bool(consumer.assignment()), consumer)
    consumer.commit({})
    consumer.commit({place: 0})
    with pytest.raises(GenerationLost):
        consumer.commit({place: 1, TopicPartition(topic, 7): 1})
    assert consumer.committed([place]) == {place: Committed(0, "")}
    consumer.close()
    with closing(lab.client.admin()) as admin:
        assert admin.group_offsets(group) == {place: Committed(0, "")}
