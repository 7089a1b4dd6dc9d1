"""A cluster in memory, for tests: topics, groups, producers and admin behind the seam, and the faults of a real one.

:class:`FakeCluster` is what a test holds: it makes holes and outages. :class:`FakeClient` is what the code under test
gets. Polls return at once if ``timeout_s`` is 0, and otherwise as soon as another thread changes anything. Groups
rebalance as cooperative ones do: a partition is given to its next owner once the previous one has let go of it. The
real clients take everything away and give some of it back, which the seam allows, too. Whether a member is late is not
measured: a test says so by :meth:`FakeCluster.expel`.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from streams.clock import Clock, FixedClock
from streams.kafka.errors import (
    BrokerError,
    BrokerRejected,
    BrokerUnavailable,
    GenerationLost,
    InstanceFenced,
    OffsetOutOfRange,
    Rejection,
    Unconfirmed,
)
from streams.kafka.partitioning import partition_of
from streams.kafka.seam import (
    Committed,
    Consumer,
    Delivered,
    Fetched,
    Fetching,
    Group,
    Listener,
    Member,
    Message,
    NewTopic,
    Outgoing,
    Subscription,
    Topic,
    TopicPartition,
)

Operation = Literal["poll", "commit", "committed", "offsets", "send", "acknowledge", "admin", "connect"]
"""What :meth:`FakeCluster.inject` can make fail. A failed ``acknowledge`` has written the message all the same."""

_DEFAULTS = {
    "cleanup.policy": "delete",
    "retention.ms": "604800000",
    "max.message.bytes": "1048588",
    "min.insync.replicas": "1",
}
_FETCHING = Fetching()


@dataclass
class _Log:
    """One partition: messages by offset, ascending, with holes; the offsets held are ``[beginning, end)``."""

    messages: dict[int, Message] = field(default_factory=dict)
    beginning: int = 0
    end: int = 0


@dataclass
class _Group:
    """Who is in it and what belongs to whom. ``target`` is where the coordinator wants partitions to be."""

    name: str
    members: dict[str, "FakeConsumer"] = field(default_factory=dict)
    target: dict[TopicPartition, str] = field(default_factory=dict)
    owners: dict[TopicPartition, str] = field(default_factory=dict)
    offsets: dict[TopicPartition, Committed] = field(default_factory=dict)
    joined: int = 0

    def balance(self, partitions: Callable[[str], list[TopicPartition]]) -> None:
        """Share the partitions of each topic among its subscribers: as even as it gets, moving as few as it takes."""
        target: dict[TopicPartition, str] = {}
        for topic in sorted({topic for member in self.members.values() for topic in member.subscription.topics}):
            able = [name for name, member in self.members.items() if topic in member.subscription.topics]
            target |= self._share(partitions(topic), able)
        self.target = target

    def _share(self, partitions: list[TopicPartition], able: list[str]) -> dict[TopicPartition, str]:
        least, extra = divmod(len(partitions), len(able))
        held: dict[str, list[TopicPartition]] = {name: [] for name in able}
        for partition in partitions:
            if self.owners.get(partition) in held:
                held[self.owners[partition]].append(partition)
        for rank, name in enumerate(sorted(able, key=lambda name: -len(held[name]))):
            del held[name][least + (rank < extra) :]
        kept = {partition: name for name, mine in held.items() for partition in mine}
        for partition in partitions:
            if partition not in kept:
                name = min(able, key=lambda name: len(held[name]))
                held[name].append(partition)
                kept[partition] = name
        return kept


class FakeCluster:
    """The cluster, as its operator sees it. Thread-safe. ``down`` makes every request fail as an outage does."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or FixedClock(1_700_000_000_000_000)
        self.changed = threading.Condition(threading.RLock())
        self._logs: dict[TopicPartition, _Log] = {}
        self._topics: dict[str, Topic] = {}
        self._groups: dict[str, _Group] = {}
        self._faults: dict[Operation, list[BrokerError]] = defaultdict(list)
        self._down = False

    @property
    def down(self) -> bool:
        """Whether nobody reaches the broker."""
        return self._down

    @down.setter
    def down(self, down: bool) -> None:
        with self.changed:
            self._down = down
            self.changed.notify_all()

    def client(self) -> "FakeClient":
        """A client of this cluster."""
        return FakeClient(self)

    def inject(self, operation: Operation, error: BrokerError, times: int = 1) -> None:
        """Make the next ``times`` calls of ``operation`` fail with ``error``, after those injected before."""
        self._faults[operation].extend([error] * times)

    def append(self, message: Outgoing) -> Delivered:
        """Write a message past all faults and limits, to partition 0 if it names none; where it stands."""
        with self.changed:
            partition = TopicPartition(message.topic, message.partition or 0)
            log = self._log(partition)
            log.messages[log.end] = self._stamped(message, partition, log.end)
            log.end += 1
            self.changed.notify_all()
            return Delivered(partition, log.end - 1)

    def _stamped(self, sent: Outgoing, partition: TopicPartition, offset: int) -> Message:
        micros = self.clock.now_micros() if sent.timestamp_us is None else sent.timestamp_us
        return Message(*partition, offset, micros // 1000 * 1000, sent.key, sent.value, tuple(sent.headers))

    def skip(self, partition: TopicPartition, count: int = 1) -> None:
        """Let ``count`` offsets pass without a message, as control records and aborted transactions do."""
        with self.changed:
            self._log(partition).end += count
            self.changed.notify_all()

    def compact(self, topic: str) -> None:
        """Remove every message whose key has a later one, as compaction does. Messages without a key stay."""
        with self.changed:
            for partition in self.partitions(topic):
                messages = self._logs[partition].messages
                newest = {message.key: offset for offset, message in messages.items()}
                for offset, message in list(messages.items()):
                    if message.key is not None and newest[message.key] != offset:
                        del messages[offset]

    def expire(self, partition: TopicPartition, before: int) -> None:
        """Remove everything before this offset, as retention does."""
        with self.changed:
            log = self._log(partition)
            log.beginning = max(log.beginning, min(before, log.end))
            for offset in [offset for offset in log.messages if offset < log.beginning]:
                del log.messages[offset]

    def expel(self, consumer: Consumer) -> None:
        """Take a member's partitions away, as from one that did not poll or answer in time. It does not know yet."""
        with self.changed:
            for group in self._groups.values():
                for name, member in list(group.members.items()):
                    if member is consumer:
                        self._remove(group, name)

    def messages(self, topic: str) -> list[Message]:
        """Everything that a topic holds, by partition and offset."""
        with self.changed:
            return [
                message for partition in self.partitions(topic) for message in self._logs[partition].messages.values()
            ]

    def partitions(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic; none if it does not exist."""
        with self.changed:
            return (
                [TopicPartition(topic, n) for n in range(self._topics[topic].partitions)]
                if topic in self._topics
                else []
            )

    def create(self, topic: NewTopic) -> None:
        """Create a topic. Raises BrokerRejected if it exists or cannot be."""
        with self.changed:
            if topic.name in self._topics:
                raise BrokerRejected(Rejection.TOPIC_EXISTS, f"topic {topic.name} exists already")
            if topic.partitions < 1:
                raise BrokerRejected(Rejection.BAD_REQUEST, f"topic {topic.name} needs at least one partition")
            if topic.replication not in {-1, 1}:
                raise BrokerRejected(Rejection.BAD_REQUEST, f"topic {topic.name}: only 1 broker can hold replicas")
            self._topics[topic.name] = Topic(topic.name, topic.partitions, 1, _DEFAULTS | dict(topic.config))
            self._logs |= {partition: _Log() for partition in self.partitions(topic.name)}

    def request(self, operation: Operation) -> None:
        """Raise what this operation has to fail with now, if anything."""
        with self.changed:
            if self._faults[operation]:
                raise self._faults[operation].pop(0)
            if self._down:
                raise BrokerUnavailable("the broker cannot be reached; is it running?")

    def _log(self, partition: TopicPartition) -> _Log:
        if partition not in self._logs:
            message = f"{partition.topic}[{partition.partition}] does not exist; create the topic first"
            raise BrokerRejected(Rejection.UNKNOWN_TOPIC, message)
        return self._logs[partition]

    def _group(self, name: str) -> _Group:
        return self._groups.setdefault(name, _Group(name))

    def _join(self, consumer: "FakeConsumer") -> str:
        group, subscription = self._group(consumer.subscription.group), consumer.subscription
        group.joined += 1
        name = f"member-{group.joined}"
        for other, member in list(group.members.items()):
            if subscription.instance_id is not None and member.subscription.instance_id == subscription.instance_id:
                member.fenced = True
                group.owners = {tp: name if owner == other else owner for tp, owner in group.owners.items()}
                self._remove(group, other)
        group.members[name] = consumer
        group.balance(self.partitions)
        self.changed.notify_all()
        return name

    def _remove(self, group: _Group, name: str) -> None:
        del group.members[name]
        group.owners = {partition: owner for partition, owner in group.owners.items() if owner != name}
        group.balance(self.partitions)
        self.changed.notify_all()


class FakeReader:
    """See :class:`streams.kafka.seam.Reader`."""

    def __init__(self, cluster: FakeCluster, partitions: Iterable[TopicPartition]) -> None:
        self._cluster = cluster
        self._positions: dict[TopicPartition, int | None] = dict.fromkeys(partitions)
        self._paused: set[TopicPartition] = set()
        self._closed = False

    def poll(self, timeout_s: float, max_records: int) -> list[Fetched]:
        """See the seam. Returns at once if ``timeout_s`` is 0."""
        with self._cluster.changed:
            fetched = self._poll_once(max_records)
            if not fetched and timeout_s and self._cluster.changed.wait(timeout_s):
                fetched = self._poll_once(max_records)
            return fetched

    def _poll_once(self, max_records: int) -> list[Fetched]:
        try:
            self._cluster.request("poll")
        except BrokerUnavailable:
            return []
        return self._fetch(max_records)

    def _fetch(self, max_records: int) -> list[Fetched]:
        fetched = []
        for partition in self._positions:
            if max_records and partition not in self._paused and (found := self._read(partition, max_records)):
                fetched.append(found)
                max_records -= len(found.messages)
        for found in fetched:
            self._positions[found.partition] = found.next_offset
        # Those that came first this time come last the next, so that none is starved.
        for found in fetched:
            self._positions[found.partition] = self._positions.pop(found.partition)
        return fetched

    def _read(self, partition: TopicPartition, count: int) -> Fetched | None:
        log = self._cluster._log(partition)  # noqa: SLF001 -- the two halves of one fake
        start = self._start(partition)
        if start is None or not log.beginning <= start <= log.end:
            raise OffsetOutOfRange(partition, start, log.beginning, log.end)
        messages = [message for offset, message in log.messages.items() if offset >= start]
        end = log.end if len(messages) <= count else messages[count - 1].offset + 1
        return Fetched(partition, start, messages[:count], end) if end > start else None

    def _start(self, partition: TopicPartition) -> int | None:
        return self._positions[partition]

    def assignment(self) -> frozenset[TopicPartition]:
        """See the seam."""
        return frozenset(self._positions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """See the seam."""
        if partition not in self._positions:
            raise ValueError(f"{partition.topic}[{partition.partition}] is not assigned to this consumer")
        self._positions[partition] = offset

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """See the seam."""
        self._paused |= set(partitions) & set(self._positions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """See the seam."""
        self._paused -= set(partitions)

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """See the seam."""
        self._cluster.request("offsets")
        return {partition: self._cluster._log(partition).beginning for partition in partitions}  # noqa: SLF001

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """See the seam."""
        self._cluster.request("offsets")
        return {partition: self._cluster._log(partition).end for partition in partitions}  # noqa: SLF001

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """See the seam. Kafka asks by the millisecond, and so does this."""
        self._cluster.request("offsets")
        return {partition: self._first_since(partition, micros // 1000 * 1000) for partition, micros in times.items()}

    def _first_since(self, partition: TopicPartition, micros: int) -> int | None:
        messages = self._cluster._log(partition).messages.values()  # noqa: SLF001
        return next((message.offset for message in messages if (message.timestamp_us or 0) >= micros), None)

    def close(self) -> None:
        """See the seam."""
        self._closed = True


class FakeConsumer(FakeReader):
    """See :class:`streams.kafka.seam.Consumer`. ``fenced`` is set when another process took its instance id."""

    def __init__(self, cluster: FakeCluster, subscription: Subscription, listener: Listener) -> None:
        super().__init__(cluster, ())
        self.subscription, self.fenced = subscription, False
        self._listener = listener
        self._member: str | None = None

    @property
    def _group(self) -> _Group:
        return self._cluster._group(self.subscription.group)  # noqa: SLF001

    def _poll_once(self, max_records: int) -> list[Fetched]:
        try:
            self._cluster.request("poll")
        except BrokerUnavailable:
            return []
        self._rebalance()
        return self._fetch(max_records)

    def _rebalance(self) -> None:
        if self.fenced:
            raise InstanceFenced(f"group.instance.id {self.subscription.instance_id} was taken by another process")
        if self._member not in self._group.members:
            self._drop("on_lost", frozenset(self._positions))
            self._member = self._cluster._join(self)  # noqa: SLF001
        group, member = self._group, self._member
        mine = {partition for partition, owner in group.target.items() if owner == member}
        self._drop("on_revoked", frozenset(self._positions) - mine)
        free = frozenset(tp for tp in mine - set(self._positions) if group.owners.get(tp, member) == member)
        if free:
            group.owners |= dict.fromkeys(free, str(member))
            self._positions |= dict.fromkeys(sorted(free))
            self._listener.on_assigned(self, free)

    def _drop(self, event: Literal["on_lost", "on_revoked"], partitions: frozenset[TopicPartition]) -> None:
        if not partitions:
            return
        try:
            getattr(self._listener, event)(self, partitions)
        finally:
            self._positions = {tp: offset for tp, offset in self._positions.items() if tp not in partitions}
            self._paused -= partitions
            for partition in partitions:
                if self._group.owners.get(partition) == self._member:
                    del self._group.owners[partition]
            self._cluster.changed.notify_all()

    def _start(self, partition: TopicPartition) -> int | None:
        if self._positions[partition] is None and partition in self._group.offsets:
            self._positions[partition] = self._group.offsets[partition].offset
        return self._positions[partition]

    def commit(self, offsets: Mapping[TopicPartition, int], metadata: str = "") -> None:
        """See the seam."""
        with self._cluster.changed:
            self._cluster.request("commit")
            if self.fenced:
                raise InstanceFenced(f"group.instance.id {self.subscription.instance_id} was taken by another process")
            if self._member not in self._group.members or not offsets.keys() <= self._positions.keys():
                raise GenerationLost("a partition is not ours (any more), so its offset was not committed; poll again")
            self._group.offsets |= {partition: Committed(offset, metadata) for partition, offset in offsets.items()}

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        """See the seam."""
        self._cluster.request("committed")
        offsets = self._group.offsets
        return {partition: offsets[partition] for partition in partitions if partition in offsets}

    def close(self) -> None:
        """See the seam."""
        with self._cluster.changed:
            if self._closed:
                return
            self._closed = True
            try:
                self._drop("on_revoked" if self._member in self._group.members else "on_lost", self.assignment())
            finally:
                if self._member in self._group.members:
                    self._cluster._remove(self._group, str(self._member))  # noqa: SLF001


@dataclass
class FakePending:
    """See :class:`streams.kafka.seam.Pending`. Settled when it is made, unless its acknowledgement was withheld."""

    delivered: Delivered | None = None
    error: BrokerError | None = None

    def done(self) -> bool:
        """See the seam."""
        return self.delivered is not None or self.error is not None

    def result(self, timeout_s: float) -> Delivered:
        """See the seam. Does not wait."""
        if self.error is not None:
            raise self.error
        if self.delivered is None:
            raise Unconfirmed([self], timeout_s)
        return self.delivered


class FakeProducer:
    """See :class:`streams.kafka.seam.Producer`. A message is written when it is sent."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self._sent: list[FakePending] = []
        self._round_robin = 0

    def send(self, message: Outgoing) -> FakePending:
        """See the seam."""
        with self._cluster.changed:
            pending = self._write(message)
            self._sent.append(pending)
            return pending

    def _write(self, message: Outgoing) -> FakePending:
        try:
            self._cluster.request("send")
            message = replace(message, partition=self._partition(message))
            self._check_size(message)
        except BrokerRejected as error:
            return FakePending(error=error)
        except BrokerUnavailable:
            return FakePending()
        delivered = self._cluster.append(message)
        try:
            self._cluster.request("acknowledge")
        except BrokerError:
            return FakePending()
        return FakePending(delivered)

    def _partition(self, message: Outgoing) -> int:
        self._cluster._log(TopicPartition(message.topic, message.partition or 0))  # noqa: SLF001
        if message.partition is not None:
            return message.partition
        partitions = len(self._cluster.partitions(message.topic))
        if message.key is not None:
            return partition_of(message.key, partitions)
        self._round_robin += 1
        return self._round_robin % partitions

    def _check_size(self, message: Outgoing) -> None:
        limit = int(self._cluster._topics[message.topic].config["max.message.bytes"])  # noqa: SLF001
        size = len(message.key or b"") + len(message.value or b"")
        if size > limit:
            reason = f"a message of {size} bytes is over the {limit} that topic {message.topic} takes"
            raise BrokerRejected(Rejection.TOO_LARGE, reason)

    def flush(self, timeout_s: float) -> None:
        """See the seam. Does not wait."""
        sent, self._sent = self._sent, []
        for pending in sent:
            if pending.error is not None:
                raise pending.error
        if unconfirmed := [pending for pending in sent if not pending.done()]:
            raise Unconfirmed(unconfirmed, timeout_s)

    def close(self) -> None:
        """See the seam."""


class FakeAdmin:
    """See :class:`streams.kafka.seam.Admin`."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    def topics(self) -> frozenset[str]:
        """See the seam."""
        self._cluster.request("admin")
        return frozenset(self._cluster._topics)  # noqa: SLF001

    def describe_topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """See the seam."""
        self._cluster.request("admin")
        topics = self._cluster._topics  # noqa: SLF001
        return {name: topics[name] for name in names if name in topics}

    def create_topics(self, topics: Iterable[NewTopic]) -> None:
        """See the seam."""
        self._cluster.request("admin")
        for topic in topics:
            self._cluster.create(topic)

    def set_config(self, topic: str, config: Mapping[str, str]) -> None:
        """See the seam."""
        self._cluster.request("admin")
        topics = self._cluster._topics  # noqa: SLF001
        if topic not in topics:
            raise BrokerRejected(Rejection.UNKNOWN_TOPIC, f"topic {topic} does not exist; create it first")
        known = topics[topic]
        topics[topic] = Topic(known.name, known.partitions, known.replication, dict(known.config) | dict(config))

    def groups(self) -> frozenset[str]:
        """See the seam."""
        self._cluster.request("admin")
        return frozenset(self._cluster._groups)  # noqa: SLF001

    def describe_groups(self, names: Iterable[str]) -> dict[str, Group]:
        """See the seam."""
        self._cluster.request("admin")
        groups = self._cluster._groups  # noqa: SLF001
        return {name: self._describe(groups[name]) for name in names if name in groups}

    @staticmethod
    def _describe(group: _Group) -> Group:
        members = tuple(
            Member(
                name,
                "fake",
                "/127.0.0.1",
                consumer.subscription.instance_id,
                frozenset(consumer.subscription.topics),
                consumer.assignment(),
            )
            for name, consumer in group.members.items()
        )
        return Group(group.name, "Stable" if members else "Empty", members)

    def group_offsets(self, group: str) -> dict[TopicPartition, Committed]:
        """See the seam."""
        self._cluster.request("admin")
        groups = self._cluster._groups  # noqa: SLF001
        return dict(groups[group].offsets) if group in groups else {}

    def close(self) -> None:
        """See the seam."""


@dataclass(frozen=True)
class FakeClient:
    """See :class:`streams.kafka.seam.Client`."""

    cluster: FakeCluster

    def consumer(self, subscription: Subscription, listener: Listener, fetching: Fetching = _FETCHING) -> FakeConsumer:
        """See the seam. How much is fetched ahead makes no difference here."""
        del fetching
        self._check(subscription.topics)
        return FakeConsumer(self.cluster, subscription, listener)

    def reader(self, partitions: Iterable[TopicPartition], fetching: Fetching = _FETCHING) -> FakeReader:
        """See the seam. How much is fetched ahead makes no difference here."""
        del fetching
        given = tuple(partitions)
        self._check(partition.topic for partition in given)
        return FakeReader(self.cluster, given)

    def _check(self, topics: Iterable[str]) -> None:
        self.cluster.request("connect")
        for topic in topics:
            self.cluster._log(TopicPartition(topic, 0))  # noqa: SLF001

    def producer(self) -> FakeProducer:
        """See the seam."""
        self.cluster.request("connect")
        return FakeProducer(self.cluster)

    def admin(self) -> FakeAdmin:
        """See the seam."""
        self.cluster.request("connect")
        return FakeAdmin(self.cluster)
