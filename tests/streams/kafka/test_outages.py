"""What the seam promises while the broker is away, and what a worker learns that was away itself."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing

import kafka
import pytest
from kafka.admin import MemberToRemove

from streams.kafka.errors import BrokerUnavailable, GenerationLost, Unconfirmed
from streams.kafka.kafka_python.client import KafkaPythonClient
from streams.kafka.seam import Connection, Outgoing, Subscription, TopicPartition
from tests.contract.labs import Recorder, create, member, read, until, values, write
from tests.streams.kafka.conftest import CLIENTS

# kafka-python does not close a socket whose connection was refused or cut off.
pytestmark = pytest.mark.filterwarnings(r"ignore:[\s\S]*unclosed <s:pytest.PytestUnraisableExceptionWarning")


def test_a_broker_that_dies_costs_time_and_nothing_else(own_broker, connect, fresh):
    broker, topic, group = own_broker(), fresh("events"), fresh("group")
    client = connect(broker.bootstrap, timeout_s=3)
    create(client, topic)
    place, listener = TopicPartition(topic, 0), Recorder()
    write(client, Outgoing(topic, b"k", b"before"))
    consumer = client.consumer(member(group, topic), listener)
    producer = client.producer()
    assert values(read(consumer, 1)) == [b"before"]
    producer.send(Outgoing(topic, b"k", b"known")).result(10)
    broker.kill()
    late = producer.send(Outgoing(topic, b"k", b"late"))
    with pytest.raises(Unconfirmed) as caught:
        producer.flush(0.5)
    assert caught.value.pending == (late,)
    for _ in range(5):
        assert values(consumer.poll(0.2, 10)) in ([], [b"known"])
    for question in (
        lambda: consumer.end_offsets([place]),
        lambda: consumer.commit({place: 1}),
        lambda: closing(client.admin()),
        lambda: client.consumer(member(group, topic), Recorder()),
    ):
        with pytest.raises(BrokerUnavailable):
            question()
    broker.start()
    assert late.result(30).offset in {2, 3}
    got = []
    until(lambda: b"late" in values(got), consumer, collect=got)
    until(lambda: committed(consumer, place, 3), consumer)
    consumer.close()
    producer.close()


def test_why_nobody_was_reached_is_said():
    client = KafkaPythonClient(Connection(("127.0.0.1:1",), timeout_s=1))
    with pytest.raises(BrokerUnavailable, match=r"^none of 127\.0\.0\.1:1 answers: .*ECONNREFUSED"):
        client.admin()


def committed(consumer, place, offset):
    """Whether a commit went through; the group may still be on its way back."""
    try:
        consumer.commit({place: offset})
    except (BrokerUnavailable, GenerationLost):
        return False
    return consumer.committed([place])[place].offset == offset


def test_a_broker_that_hangs_is_one_that_is_away(own_broker, connect, fresh):
    broker, topic = own_broker(), fresh("events")
    client = connect(broker.bootstrap, timeout_s=2)
    create(client, topic)
    place = TopicPartition(topic, 0)
    with closing(client.reader([place])) as reader:
        reader.seek(place, 0)
        broker.pause()
        assert reader.poll(0.5, 10) == []
        with pytest.raises(BrokerUnavailable):
            reader.end_offsets([place])
        broker.resume()
        until(lambda: answers(reader, place), reader)
        write(client, Outgoing(topic, b"k", b"after"))
        assert values(read(reader, 1)) == [b"after"]


def answers(reader, place):
    try:
        return reader.end_offsets([place]) == {place: 0}
    except BrokerUnavailable:
        return False


def test_who_does_not_poll_in_time_is_out(broker, connect, fresh):
    client, topic, group, listener = connect(broker.bootstrap), fresh("events"), fresh("group"), Recorder()
    create(client, topic)
    place = TopicPartition(topic, 0)
    late = Subscription(group, (topic,), session_timeout_s=2, heartbeat_interval_s=0.2, max_poll_interval_s=2)
    consumer = client.consumer(late, listener)
    until(lambda: bool(consumer.assignment()), consumer)
    successor = client.consumer(member(group, topic), Recorder())
    until(lambda: bool(successor.assignment()), successor)
    successor.commit({place: 7})
    with pytest.raises((GenerationLost, BrokerUnavailable)):
        consumer.commit({place: 1})
    assert successor.committed([place])[place].offset == 7
    until(lambda: bool(listener.seen("lost")), consumer, successor)
    consumer.close()
    successor.close()


def test_a_member_put_out_amid_a_rebalance_has_lost_its_partitions(broker, fresh):
    """The library takes itself for the member that it was, and would give up, and commit, what is another's."""
    client = KafkaPythonClient(Connection((broker.bootstrap,)))
    topic, group, listener = fresh("events"), fresh("group"), Recorder()
    create(client, topic, partitions=2)
    slow = Subscription(group, (topic,), session_timeout_s=10, heartbeat_interval_s=1)
    consumer = client.consumer(slow, listener)
    until(lambda: len(consumer.assignment()) == 2, consumer)
    successor = client.consumer(member(group, topic), Recorder())
    until(lambda: consumer._library._coordinator.rejoin_needed, successor)
    with closing(kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        admin.remove_group_members(group, [MemberToRemove(member_id=consumer._library.group_metadata().member_id)])
    until(lambda: len(listener.seen("assigned")) == 2, consumer, successor)
    assert [name for name, _ in listener.events] == ["assigned", "lost", "assigned"]
    assert listener.seen("lost") == listener.seen("assigned")[:1]
    assert consumer.assignment() == listener.seen("assigned")[1]
    consumer.commit(dict.fromkeys(consumer.assignment(), 0))
    consumer.close()
    successor.close()


STOPPED = """
import sys
from streams.kafka.errors import BrokerError
from streams.kafka.seam import Connection, TopicPartition
from tests.contract.labs import Recorder, member, until
from tests.streams.kafka.conftest import CLIENTS

kind, server, group, topic = sys.argv[1:]
listener = Recorder()
consumer = CLIENTS[kind](Connection((server,))).consumer(member(group, topic), listener)
until(lambda: bool(consumer.assignment()), consumer)
print("mine", flush=True)
sys.stdin.readline()
try:
    consumer.commit({TopicPartition(topic, 0): 1})
    print("committed", flush=True)
except BrokerError as error:
    print(type(error).__name__, flush=True)
until(lambda: bool(listener.seen("lost")), consumer)
print("lost", flush=True)
consumer.close()
"""


@pytest.mark.parametrize("kind", ["kafka-python", "confluent"])
def test_a_worker_that_was_stopped_does_not_commit_over_its_successor(broker, kind, fresh):
    client, topic, group = CLIENTS[kind](Connection((broker.bootstrap,))), fresh("events"), fresh("group")
    create(client, topic)
    place = TopicPartition(topic, 0)
    command = [sys.executable, "-c", STOPPED, kind, broker.bootstrap, group, topic]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        try:
            assert worker.stdout.readline() == "mine\n"
            os.kill(worker.pid, signal.SIGSTOP)
            successor = client.consumer(member(group, topic), Recorder())
            until(lambda: bool(successor.assignment()), successor)
            successor.commit({place: 7})
            os.kill(worker.pid, signal.SIGCONT)
            worker.stdin.write("\n")
            worker.stdin.flush()
            assert worker.stdout.readline() in {"GenerationLost\n", "BrokerUnavailable\n"}
            assert successor.committed([place])[place].offset == 7
            deadline = time.monotonic() + 30
            os.set_blocking(worker.stdout.fileno(), False)
            while not (said := worker.stdout.readline()) and time.monotonic() < deadline:
                successor.poll(0.1, 10)
            assert said == "lost\n"
            successor.close()
        finally:
            worker.kill()
