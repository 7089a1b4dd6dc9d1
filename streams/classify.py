"""The classify worker: a member of its own consumer group, for ever beside whoever else reads the same topics.

Its stages, each batch through all of them, in this order::

    1 poll → 2 decode → 3 redact → 4 classify → 5 insert → 6 dead-letter → 7 produce → 8 ledger → 9 commit

Up to 4 nothing leaves the process. What 5 to 7 do is idempotent, by identity or, on topics, by saying the same again.
With 8 a message is dealt with: the ledger alone says where to go on. 9 tells Kafka, for those who watch lag.

An outage at any stage moves no offset: the batch waits, its partitions paused, polls keep the membership, and all of it
is tried again. What was revoked meanwhile is dropped, since its ledger rows were not written and its next owner reads it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from sinks.errors import StoreUnavailable
from sinks.rows import DeadLetterRow
from streams.clock import Clock
from streams.ingest import Report, Writer
from streams.kafka.errors import BrokerRejected, BrokerUnavailable, GenerationLost, OffsetOutOfRange, Rejection
from streams.kafka.seam import Client, Consumer, Fetched, Outgoing, Pending, Producer, Subscription, TopicPartition
from streams.messages import Messages
from streams.redrive import dlq_message, dlq_notice
from streams.registry import RegistryUnavailable
from streams.start import Start, StartUnknownError
from streams.topics import Topics
from streams.worker import Announcement, Task, Worker

Partitions = frozenset[TopicPartition]
OUTAGES = (StoreUnavailable, BrokerUnavailable, RegistryUnavailable)
"""What is waited out. Anything else that a stage raises ends the worker, and loses nothing."""


@dataclass(frozen=True)
class Pace:
    """How much at a time, and how long to wait. Times in seconds.

    A batch is stored once it has ``batch_records`` messages or is ``linger_s`` old. After an outage the next try waits
    ``retry_s``, then twice as long, up to ``retry_most_s``. Producing has ``flush_s`` to be confirmed.
    """

    batch_records: int = 10_000
    linger_s: float = 0.25
    poll_s: float = 0.5
    retry_s: float = 0.1
    retry_most_s: float = 10.0
    flush_s: float = 30.0


class Observer(Protocol):
    """Is told what the worker does; for metrics, logs and liveness. Must not raise."""

    def assigned(self, starts: Mapping[TopicPartition, int]) -> None:
        """Partitions that are ours from now on, and where they are read from."""
        ...

    def released(self, partitions: Partitions, *, lost: bool) -> None:
        """Partitions that are no longer ours; ``lost``: noticed only afterwards."""
        ...

    def expired(self, partition: TopicPartition, first: int, end: int) -> None:
        """Messages from ``first`` up to ``end`` were deleted by the broker before they were read."""
        ...

    def stored(self, report: Report, positions: Mapping[TopicPartition, int], seconds: float) -> None:
        """A batch went through all stages in so many seconds: what became of it, and where each partition stands."""
        ...

    def idle(self) -> None:
        """A poll brought nothing, and nothing waits."""
        ...

    def waits(self, error: Exception, attempt: int) -> None:
        """An outage: the ``attempt``-th try of the same batch failed."""
        ...


class _Retry(NamedTuple):
    attempt: int
    not_before: float


@dataclass
class ClassifyWorker:
    """Reads, classifies and stores until it is told to stop.

    ``worker`` does stages 2 to 4, ``writer`` 5 to 8. ``resume`` gives, of a partition, the offset up to which the
    ledger knows every message, None if it knows none.
    """

    client: Client
    subscription: Subscription
    worker: Worker
    writer: Writer
    resume: Callable[[TopicPartition], int | None]
    clock: Clock
    observer: Observer
    pace: Pace = Pace()
    start: Start | None = None
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    """Where each partition that is ours stands: everything before is stored."""

    def run(self, stop: Callable[[], bool]) -> None:
        """Work until ``stop`` says so; what was read by then is still stored if nothing is out of reach.

        Raises StartUnknownError, BrokerRejected, InstanceFenced and what the store raises but for outages.
        """
        consumer = self.client.consumer(self.subscription, self)
        try:
            while not stop():
                self._take(consumer, self._poll(consumer), stop)
        finally:
            consumer.close()

    # --- 1 poll

    def _poll(self, consumer: Consumer) -> list[Fetched]:
        """Messages of one batch; an empty list if there are none."""
        gathered: list[Fetched] = []
        wanted, until = self.pace.batch_records, self.clock.monotonic() + self.pace.poll_s
        while wanted > 0 and (left := until - self.clock.monotonic()) > 0:
            try:
                fetched = consumer.poll(left, wanted)
            except OffsetOutOfRange as error:
                self._skip_expired(consumer, error)
                continue
            except GenerationLost:
                continue
            if not gathered and any(part.messages for part in fetched):
                until = self.clock.monotonic() + self.pace.linger_s
            gathered += fetched
            wanted -= sum(len(part.messages) for part in fetched)
        return gathered

    def _skip_expired(self, consumer: Consumer, error: OffsetOutOfRange) -> None:
        """Go on behind what the broker has deleted; that it is missing shows in the ledger for ever."""
        requested = error.requested
        if requested is None or requested > error.end:
            raise StartUnknownError(
                f"{error}; the ledger knows offsets that the topic does not have, so it was made anew: "
                "give the new one another name (topics.prefix), or the store another directory"
            ) from error
        self.observer.expired(error.partition, requested, error.beginning)
        consumer.seek(error.partition, error.beginning)

    # --- 2 to 9

    def _take(self, consumer: Consumer, fetched: list[Fetched], stop: Callable[[], bool]) -> None:
        if not fetched:
            self.observer.idle()
            return
        started, attempt = self.clock.monotonic(), 0
        while fetched := [part for part in fetched if part.partition in self.positions]:
            try:
                self._store(consumer, fetched, started)
            except OUTAGES as error:
                attempt += 1
                self.observer.waits(error, attempt)
                if stop():
                    return
                self._wait(consumer, attempt, stop)
            else:
                return

    def _store(self, consumer: Consumer, fetched: list[Fetched], started: float) -> None:
        report = Report()
        outcomes = [self.worker.run(task) for task in self._tasks(fetched)]
        self.writer.write_batch(outcomes, report)
        positions = {part.partition: part.next_offset for part in fetched}
        self._commit(consumer, positions)
        self.observer.stored(report, positions, self.clock.monotonic() - started)

    def _tasks(self, fetched: list[Fetched]) -> list[Task]:
        now = self.clock.now_micros()
        return [
            Task(Messages.of(part), part.partition.topic, str(part.partition.partition), now)
            for part in fetched
            if part.messages
        ]

    def _commit(self, consumer: Consumer, positions: Mapping[TopicPartition, int]) -> None:
        """Tell Kafka where we stand. If it does not hear, the next commit says so too: nothing here relies on it."""
        ours = {partition: offset for partition, offset in positions.items() if partition in self.positions}
        self.positions |= ours
        try:
            consumer.commit(ours)
        except (BrokerUnavailable, GenerationLost) as error:
            self.observer.waits(error, 0)

    def _wait(self, consumer: Consumer, attempt: int, stop: Callable[[], bool]) -> None:
        """Let time pass with every partition paused, polling, since who does not poll loses its partitions."""
        until = self.clock.monotonic() + min(self.pace.retry_s * 2 ** (attempt - 1), self.pace.retry_most_s)
        while not stop() and (left := until - self.clock.monotonic()) > 0:
            # Again each time: the assignment may change in any poll.
            paused = consumer.assignment()
            consumer.pause(paused)
            try:
                consumer.poll(min(left, self.pace.poll_s), 1)
            except (OffsetOutOfRange, GenerationLost):
                continue
            finally:
                consumer.resume(paused)

    # --- assignment, told during a poll

    def on_assigned(self, consumer: Consumer, partitions: Partitions) -> None:
        """Go on where the ledger ends."""
        starts = self._starts(consumer, partitions)
        for partition, offset in starts.items():
            consumer.seek(partition, offset)
        self.positions |= starts
        if starts:
            self.observer.assigned(starts)

    def on_revoked(self, consumer: Consumer, partitions: Partitions) -> None:  # noqa: ARG002 -- the listener's protocol
        """Nothing is left to do: a batch is stored before the next poll, or waits for the end of an outage, and then
        its next owner stores it."""
        self._release(partitions, lost=False)

    def on_lost(self, consumer: Consumer, partitions: Partitions) -> None:  # noqa: ARG002 -- the listener's protocol
        """Somebody else has them already."""
        self._release(partitions, lost=True)

    def _release(self, partitions: Partitions, *, lost: bool) -> None:
        for partition in partitions:
            self.positions.pop(partition, None)
        if partitions:
            self.observer.released(partitions, lost=lost)

    def _starts(self, consumer: Consumer, partitions: Partitions) -> dict[TopicPartition, int]:
        known = {partition: self.resume(partition) for partition in sorted(partitions)}
        new = [partition for partition, offset in known.items() if offset is None]
        starts = {partition: offset for partition, offset in known.items() if offset is not None}
        return starts | self._new_starts(consumer, new) if new else starts

    def _new_starts(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Where to begin what the ledger does not know: at its beginning, so that nothing is lost."""
        committed = consumer.committed(partitions)
        told = [partition for partition in partitions if partition in committed and committed[partition].offset > 0]
        if told and self.start is None:
            first = told[0]
            raise StartUnknownError(
                f"group {self.subscription.group} has committed offset {committed[first].offset} of {first.topic}"
                f"[{first.partition}], and the ledger knows nothing of it; is this the right store? "
                f"If so, say --start-from {' or '.join(Start)}"
            )
        if self.start is Start.END:
            return consumer.end_offsets(partitions)
        beginnings = consumer.beginning_offsets(partitions)
        if self.start is Start.COMMITTED:
            return beginnings | {partition: committed[partition].offset for partition in told}
        return beginnings


@dataclass(frozen=True)
class Publisher:
    """Stages 6 and 7: dead letters and classifications to their topics, confirmed before this returns.

    ``not_sent`` is told of what the broker holds to be too large. It is stored, so nothing waits for it.
    """

    producer: Producer
    topics: Topics
    flush_s: float
    not_sent: Callable[[Outgoing, BrokerRejected], None]

    def __call__(self, letters: Sequence[DeadLetterRow], announcements: Sequence[Announcement]) -> None:
        """Send everything and wait for it. Raises BrokerUnavailable, BrokerRejected."""
        exits, dead = self.topics.exit_classifications.name, self.topics.dead_letters
        refused = self._send([Outgoing(exits, key, value) for key, value in announcements])
        refused += self._send(
            [dlq_message(letter, dead) for letter in letters], [dlq_notice(one, dead) for one in letters]
        )
        for message, error in refused:
            self.not_sent(message, error)

    def _send(
        self, messages: Sequence[Outgoing], instead: Sequence[Outgoing] = ()
    ) -> list[tuple[Outgoing, BrokerRejected]]:
        """Send messages and wait for them; for one that is too large the shorter one that stands ``instead``. What was
        too large all the same."""
        sent = [self.producer.send(message) for message in messages]
        refused = self._refused(list(zip(messages, sent, strict=True))) if sent else []
        if not refused or not instead:
            return refused
        shorter = dict(zip(messages, instead, strict=True))
        return self._send([shorter[message] for message, _ in refused])

    def _refused(self, sent: Sequence[tuple[Outgoing, Pending]]) -> list[tuple[Outgoing, BrokerRejected]]:
        try:
            self.producer.flush(self.flush_s)
        except BrokerRejected:
            return [(message, error) for message, pending in sent if (error := self._too_large(pending)) is not None]
        return []

    def _too_large(self, pending: Pending) -> BrokerRejected | None:
        try:
            pending.result(self.flush_s)
        except BrokerRejected as error:
            if error.reason is not Rejection.TOO_LARGE:
                raise
            return error
        return None
