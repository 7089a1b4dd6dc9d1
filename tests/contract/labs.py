"""One way to ask every implementation of the Kafka seam the same question, and to bring about what only a cluster can.

A lab owns a cluster, makes clients of one kind, and does to the cluster what its operators, its retention and its
coordinator do. Times to wait are bounded and polled; the fake needs none.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Protocol

import kafka
from kafka.admin import MemberToRemove
from kafka.structs import TopicPartition as LibraryPartition

from streams.kafka.fake import FakeCluster
from streams.kafka.kafka_python.client import KafkaPythonClient
from streams.kafka.seam import (
    Client,
    Connection,
    Consumer,
    Fetched,
    NewTopic,
    Outgoing,
    Reader,
    Subscription,
    TopicPartition,
)
from tests.broker.kafka import KafkaBroker

DEADLINE_S = 30.0


class Lab(Protocol):
    """What a test may do to the cluster behind a client."""

    client: Client

    def transaction(self, partition: TopicPartition, values: list[bytes], *, commit: bool) -> None:
        """Write a transaction and end it, which leaves a control record behind."""
        ...

    def expire(self, partition: TopicPartition, before: int) -> None:
        """Let retention remove everything before this offset."""
        ...

    def expel(self, consumer: Consumer, group: str) -> None:
        """Let the coordinator put this member, the only one of its group, out."""
        ...


class FakeLab:
    """The lab of the in-memory cluster."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.client: Client = self.cluster.client()

    def transaction(self, partition: TopicPartition, values: list[bytes], *, commit: bool) -> None:
        for value in values:
            if commit:
                self.cluster.append(Outgoing(partition.topic, None, value, partition=partition.partition))
            else:
                self.cluster.skip(partition)
        self.cluster.skip(partition)

    def expire(self, partition: TopicPartition, before: int) -> None:
        self.cluster.expire(partition, before)

    def expel(self, consumer: Consumer, group: str) -> None:
        self.cluster.expel(consumer)


class BrokerLab:
    """The lab of a real broker. What the seam has no words for is done by kafka-python itself."""

    def __init__(self, broker: KafkaBroker, make: Callable[[Connection], Client] = KafkaPythonClient) -> None:
        self._servers = [broker.bootstrap]
        self.client = make(Connection((broker.bootstrap,), timeout_s=10))

    def transaction(self, partition: TopicPartition, values: list[bytes], *, commit: bool) -> None:
        producer = kafka.KafkaProducer(bootstrap_servers=self._servers, transactional_id=f"lab-{time.monotonic_ns()}")
        try:
            producer.init_transactions()
            producer.begin_transaction()
            for value in values:
                producer.send(partition.topic, value, partition=partition.partition).get(DEADLINE_S)
            producer.commit_transaction() if commit else producer.abort_transaction()
        finally:
            producer.close()

    def expire(self, partition: TopicPartition, before: int) -> None:
        with closing(kafka.KafkaAdminClient(bootstrap_servers=self._servers)) as admin:
            admin.delete_records({LibraryPartition(*partition): before})

    def expel(self, consumer: Consumer, group: str) -> None:
        with closing(kafka.KafkaAdminClient(bootstrap_servers=self._servers)) as admin:
            (member,) = admin.describe_groups([group])[group]["members"]
            admin.remove_group_members(group, [MemberToRemove(member_id=member["member_id"])])


class Recorder:
    """A listener that remembers. ``starts`` is where to seek to; None leaves it to the committed offset."""

    def __init__(self, starts: int | None = 0) -> None:
        self.starts = starts
        self.events: list[tuple[str, frozenset[TopicPartition]]] = []
        self.on_revoke: Callable[[Consumer, frozenset[TopicPartition]], None] = lambda consumer, partitions: None
        self.on_assign: Callable[[Consumer, frozenset[TopicPartition]], None] = lambda consumer, partitions: None

    def on_assigned(self, consumer: Consumer, partitions: frozenset[TopicPartition]) -> None:
        self.events.append(("assigned", partitions))
        if self.starts is not None:
            for partition in partitions:
                consumer.seek(partition, self.starts)
        self.on_assign(consumer, partitions)

    def on_revoked(self, consumer: Consumer, partitions: frozenset[TopicPartition]) -> None:
        self.events.append(("revoked", partitions))
        self.on_revoke(consumer, partitions)

    def on_lost(self, consumer: Consumer, partitions: frozenset[TopicPartition]) -> None:
        self.events.append(("lost", partitions))

    def seen(self, name: str) -> list[frozenset[TopicPartition]]:
        return [partitions for event, partitions in self.events if event == name]


def until(condition: Callable[[], bool], *readers: Reader, collect: list[Fetched] | None = None) -> None:
    """Poll the readers in turn until ``condition`` holds. Fails after DEADLINE_S."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come about in time"
        for reader in readers:
            fetched = reader.poll(0.05, 1000)
            if collect is not None:
                collect.extend(fetched)


def read(reader: Reader, count: int, max_records: int = 1000) -> list[Fetched]:
    """Everything until ``count`` messages have come."""
    fetched: list[Fetched] = []
    deadline = time.monotonic() + DEADLINE_S
    while sum(len(found.messages) for found in fetched) < count:
        assert time.monotonic() < deadline, f"{count} messages did not come in time"
        fetched += reader.poll(0.2, max_records)
    return fetched


def values(fetched: Iterable[Fetched]) -> list[bytes | None]:
    """The values of everything fetched, in the order it came."""
    return [message.value for found in fetched for message in found.messages]


def member(group: str, topic: str, instance_id: str | None = None) -> Subscription:
    """A subscription that hears of a rebalance quickly."""
    return Subscription(group, (topic,), instance_id, session_timeout_s=6, heartbeat_interval_s=0.2)


def create(client: Client, name: str, partitions: int = 1, **config: str) -> None:
    """Create a topic that keeps everything, however old its time says it is; ``config`` has underscores for dots."""
    with closing(client.admin()) as admin:
        settings = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in config.items()}
        admin.create_topics([NewTopic(name, partitions, 1, settings)])


def write(client: Client, *messages: Outgoing) -> None:
    """Write messages and wait until they are confirmed."""
    with closing(client.producer()) as producer:
        for message in messages:
            producer.send(message)
        producer.flush(DEADLINE_S)
