"""The seam over Kafka clients: what the rest of the house knows of Kafka.

Small protocols and frozen records. :mod:`streams.kafka.fake` implements them in memory, the other modules over a client
library; one contract suite holds for all. Only this package imports a client library.

Promises that hold for every implementation:

- Nothing is committed but by :meth:`Consumer.commit`; no position is ever reset; no topic is created by accident.
- Only committed transactions are read (``read_committed``).
- An outage shows as empty polls. To learn whether the broker answers, ask for :meth:`Reader.end_offsets`.
- Objects belong to one thread. Callbacks run in the thread that polls or closes, during that call.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

Headers = tuple[tuple[str, bytes | None], ...]
"""Names, in order and repeatable, with values. Kafka tells an empty value from none."""


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


class Message(NamedTuple):
    """One message as the broker gave it. A ``value`` of None is a tombstone.

    ``timestamp_us`` is microseconds since the epoch, of which Kafka keeps milliseconds; None if there is none.
    """

    topic: str
    partition: int
    offset: int
    timestamp_us: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers


class Fetched(NamedTuple):
    """What one poll brought of one partition: ``messages`` by offset, all from ``[start_offset, next_offset)``.

    ``next_offset`` is the consumer's position afterwards. An offset of that range without a message is a hole that the
    broker explains: compacted away, a control record, or of an aborted transaction. ``messages`` may be empty.
    """

    partition: TopicPartition
    start_offset: int
    messages: Sequence[Message]
    next_offset: int


class Committed(NamedTuple):
    """A group's committed offset of one partition, the next one to read, and what was noted with it."""

    offset: int
    metadata: str


class Delivered(NamedTuple):
    """Where an acknowledged message stands."""

    partition: TopicPartition
    offset: int


@dataclass(frozen=True)
class Security:
    """How to speak to a broker. Files are PEM. The defaults are an unprotected connection, for loopback only."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    username: str = ""
    password: str = field(default="", repr=False)
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    check_hostname: bool = True

    @property
    def sasl(self) -> bool:
        """Whether a user name and a password are sent."""
        return self.protocol.startswith("SASL_")

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.protocol.endswith("SSL")


@dataclass(frozen=True)
class Connection:
    """Which cluster, as whom. ``servers`` are ``host:port``; ``timeout_s`` bounds every request that waits."""

    servers: tuple[str, ...]
    client_id: str = "offramp"
    security: Security = Security()
    timeout_s: float = 30.0


@dataclass(frozen=True)
class Subscription:
    """A member of a group, and the topics that the group shares out, each by itself and evenly. All times in seconds.

    Whoever does not poll for ``max_poll_interval_s``, or does not answer for ``session_timeout_s``, loses its
    partitions. With ``instance_id`` (group.instance.id), a restart within the session gets the same partitions back.
    """

    group: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    session_timeout_s: float = 45.0
    heartbeat_interval_s: float = 3.0
    max_poll_interval_s: float = 300.0


@dataclass(frozen=True)
class Fetching:
    """How much is fetched ahead, in bytes: of one partition, and in all. A larger message is still delivered.

    Less than ``least_bytes`` may wait ``max_wait_s`` at the broker for more. Of a client written in Python each answer
    costs some turns of threads, which at a few thousand messages a second made them half a second later.
    """

    partition_bytes: int = 4 << 20
    total_bytes: int = 32 << 20
    least_bytes: int = 256 << 10
    max_wait_s: float = 0.1


class Reader(Protocol):
    """Reads partitions without a group: they are given, and every one needs a :meth:`seek` before it is read."""

    def poll(self, timeout_s: float, max_records: int) -> list[Fetched]:
        """At most ``max_records`` messages, as soon as there are any, else what came within ``timeout_s``.

        One entry a partition. An entry without messages says that the position moved over holes. Raises
        OffsetOutOfRange, BrokerRejected, and of a group GenerationLost or InstanceFenced; never for an outage.
        """
        ...

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are ours now."""
        ...

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from ``offset``, which nobody checks until the next poll. ValueError if the partition is not ours."""
        ...

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Bring nothing of these until :meth:`resume`. Polling goes on and keeps the membership. Not ours: ignored."""
        ...

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Undo :meth:`pause`. Not ours: ignored."""
        ...

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset that each still holds. Raises BrokerUnavailable, BrokerRejected."""
        ...

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """One past the last offset that a reader of committed transactions may see. Raises as above."""
        ...

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset at or after the time, in microseconds since the epoch, or None. Raises as above."""
        ...

    def close(self) -> None:
        """Give back what is held. Twice is once. Of a group: ``on_revoked`` is called, then the group is left."""
        ...


class Consumer(Reader, Protocol):
    """A member of a group. A newly assigned partition starts where ``on_assigned`` seeks to, else as committed."""

    def commit(self, offsets: Mapping[TopicPartition, int], metadata: str = "") -> None:
        """Record the next offsets to read, and wait for the answer.

        Raises BrokerUnavailable (also while the group rebalances: poll, then commit again), GenerationLost (also for
        a partition that is not ours), InstanceFenced, BrokerRejected.
        """
        ...

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        """What the group has committed; a partition without is left out. Raises BrokerUnavailable, BrokerRejected."""
        ...


class Listener(Protocol):
    """Told of every change of the assignment. What it raises comes out of the poll or close that caused it.

    A rebalance may take away only what moves, or everything, and then give some of it back, which starts anew.
    """

    def on_assigned(self, consumer: Consumer, partitions: frozenset[TopicPartition]) -> None:
        """These are ours from now on, beside those that already were. The place to seek; may be empty."""
        ...

    def on_revoked(self, consumer: Consumer, partitions: frozenset[TopicPartition]) -> None:
        """These go to somebody else when this returns. They are still ours: finish, store, commit."""
        ...

    def on_lost(self, consumer: Consumer, partitions: frozenset[TopicPartition]) -> None:
        """These went to somebody else some time ago. Drop what is not stored; a commit would be refused."""
        ...


@dataclass(frozen=True)
class Outgoing:
    """A message to send. Without ``partition``, the key decides, by Kafka's own hash (murmur2) on every client.

    ``timestamp_us`` is microseconds since the epoch, cut to milliseconds; None is the time of sending.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp_us: int | None = None


class Pending(Protocol):
    """A message that is on its way."""

    def done(self) -> bool:
        """Whether it was acknowledged or has failed."""
        ...

    def result(self, timeout_s: float) -> Delivered:
        """Where it was written. Raises Unconfirmed if that is not known in time, BrokerUnavailable, BrokerRejected."""
        ...


class Producer(Protocol):
    """Writes messages: acknowledged by all in-sync replicas, idempotent, in the order of a key."""

    def send(self, message: Outgoing) -> Pending:
        """Queue a message. Waits while the queue is full. A message that cannot be sent fails its Pending, not this."""
        ...

    def flush(self, timeout_s: float) -> None:
        """Wait until everything sent since the last flush is confirmed.

        Raises the first BrokerRejected if any was refused, else Unconfirmed with all that are not confirmed.
        """
        ...

    def close(self) -> None:
        """Stop. What was not flushed may be lost. Twice is once."""
        ...


@dataclass(frozen=True)
class NewTopic:
    """A topic to create."""

    name: str
    partitions: int
    replication: int
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Topic:
    """A topic that exists. ``config`` is complete: what was set and what the broker defaults to."""

    name: str
    partitions: int
    replication: int
    config: Mapping[str, str]


@dataclass(frozen=True)
class Member:
    """A member of a group: what it subscribed to, and what it was given."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    topics: frozenset[str]
    assignment: frozenset[TopicPartition]


@dataclass(frozen=True)
class Group:
    """A consumer group. ``state`` is Kafka's word: ``Stable``, ``Empty``, ``PreparingRebalance``, ..., ``Dead``."""

    name: str
    state: str
    members: tuple[Member, ...]


class Admin(Protocol):
    """Asks about and changes topics and groups. Everything raises BrokerUnavailable and BrokerRejected."""

    def topics(self) -> frozenset[str]:
        """The names of all topics that we may see, internal ones left out."""
        ...

    def describe_topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """The topics of these names; one that does not exist is left out."""
        ...

    def create_topics(self, topics: Iterable[NewTopic]) -> None:
        """Create them. Raises BrokerRejected with the first that could not be; ``topic_exists`` if it is there."""
        ...

    def set_config(self, topic: str, config: Mapping[str, str]) -> None:
        """Set these entries of a topic's configuration and leave the others as they are."""
        ...

    def groups(self) -> frozenset[str]:
        """The names of all consumer groups."""
        ...

    def describe_groups(self, names: Iterable[str]) -> dict[str, Group]:
        """The groups of these names; one that does not exist is left out."""
        ...

    def group_offsets(self, group: str) -> dict[TopicPartition, Committed]:
        """Everything that a group has committed; empty if the group does not exist."""
        ...

    def close(self) -> None:
        """Stop. Twice is once."""
        ...


class Client(Protocol):
    """One client library and one cluster: makes everything else. Nothing connects before it is asked to."""

    def consumer(self, subscription: Subscription, listener: Listener, fetching: Fetching = ...) -> Consumer:
        """Join a group, at the first poll. Raises BrokerUnavailable; BrokerRejected if a topic does not exist."""
        ...

    def reader(self, partitions: Iterable[TopicPartition], fetching: Fetching = ...) -> Reader:
        """Read these partitions outside of any group. Raises as above."""
        ...

    def producer(self) -> Producer:
        """A producer. Raises BrokerUnavailable, BrokerRejected."""
        ...

    def admin(self) -> Admin:
        """Topics and groups. Raises BrokerUnavailable, BrokerRejected."""
        ...
