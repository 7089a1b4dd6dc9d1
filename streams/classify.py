"""The classify worker: a member of its own consumer group, for ever beside whoever else reads the same topics.

Its stages, each batch through all of them, in this order::

    1 poll → 2 decode → 3 redact → 4 classify → 5 insert → 6 dead-letter → 7 produce → 8 ledger → 9 commit

Up to 4 nothing leaves the process. What 5 to 7 do is idempotent, by identity or, on topics, by saying the same again.
With 8 a message is dealt with: the ledger alone says where to go on. 9 tells Kafka, for those who watch lag; of a
partition that brings nothing, what the ledger says, since its group may have another name than when it was read.

Three batches are under way at once: while one is read, the one before is decoded, redacted and classified, by other
processes where there are some, and the one before that goes through 5 to 8, in a thread of its own: one at a time, in
order, none before the one that it follows. Before partitions come or go, what is under way is finished, inside a
deadline.

An outage at any stage moves no offset: the batch waits, the partitions are paused, polls keep the membership, and it is
tried again. What was revoked meanwhile is dropped: its ledger rows were not written, so its next owner reads it.
"""

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

from sinks.errors import StoreUnavailable
from sinks.rows import DeadLetterRow
from streams.clock import Clock
from streams.cycles import RareLooks
from streams.ingest import Report, Writer
from streams.kafka.errors import BrokerRejected, BrokerUnavailable, GenerationLost, OffsetOutOfRange, Rejection
from streams.kafka.seam import Client, Consumer, Fetched, Outgoing, Pending, Producer, Subscription, TopicPartition
from streams.messages import Messages
from streams.redrive import dlq_message, dlq_notice
from streams.registry import RegistryUnavailable
from streams.start import Start, StartUnknownError
from streams.topics import Topics
from streams.worker import Announcement, Outcome, Task

Partitions = frozenset[TopicPartition]
OUTAGES = (StoreUnavailable, BrokerUnavailable, RegistryUnavailable)
"""What is waited out. Anything else that a stage raises ends the worker, and loses nothing."""
AHEAD = 1
"""Batches that are judged while one is stored."""


@dataclass(frozen=True)
class Pace:
    """How much at a time, and how long to wait. Times in seconds.

    A batch is stored once it has ``batch_records`` messages or is ``linger_s`` old, and judged ``piece_records`` at a
    time. After an outage the next try waits ``retry_s``, then twice as long, up to ``retry_most_s``. Producing has
    ``flush_s`` to be confirmed. Before partitions go to somebody else, what is under way has ``revoke_s`` to be stored.
    """

    batch_records: int = 10_000
    piece_records: int = 1_000
    linger_s: float = 0.25
    poll_s: float = 0.5
    retry_s: float = 0.1
    retry_most_s: float = 10.0
    flush_s: float = 30.0
    revoke_s: float = 20.0


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

    def stored(self, report: Report, batch: Sequence[Fetched], seconds: float) -> None:
        """A batch went through all stages in so many seconds: what became of it, and what was read."""
        ...

    def idle(self) -> None:
        """A poll brought nothing, and nothing waits."""
        ...

    def waits(self, error: Exception, attempt: int) -> None:
        """An outage: the ``attempt``-th try of the same batch failed."""
        ...


def behind(batch: Sequence[Fetched]) -> dict[TopicPartition, int]:
    """Where each partition stands once what was read of it is stored."""
    return {part.partition: part.next_offset for part in batch}


def joined(parts: Iterable[Fetched]) -> list[Fetched]:
    """The same with whatever goes on where the part before it of its partition ends joined to that: many small polls
    are judged as one."""
    runs: list[list[Fetched]] = []
    last: dict[TopicPartition, list[Fetched]] = {}
    for part in parts:
        run = last.get(part.partition)
        if run is not None and run[-1].next_offset == part.start_offset:
            run.append(part)
        else:
            last[part.partition] = run = [part]
            runs.append(run)
    return [_as_one(run) if len(run) > 1 else run[0] for run in runs]


def _as_one(run: Sequence[Fetched]) -> Fetched:
    messages = tuple(chain.from_iterable(part.messages for part in run))
    return run[0]._replace(messages=messages, next_offset=run[-1].next_offset)


@dataclass
class _Piece:
    """Some messages of one partition, and what becomes of them."""

    partition: TopicPartition
    task: Task
    judged: "Future[Outcome]"


class _PredecessorFailedError(Exception):
    """A batch was not stored, because the one before it was not."""


@dataclass
class _Batch:
    """What one round read, what becomes of it piece by piece, and its storing."""

    fetched: list[Fetched]
    started: float
    pieces: list[_Piece] = field(default_factory=list)
    stored: "Future[Report]" = field(default_factory=Future)

    def gaps(self, positions: Mapping[TopicPartition, int]) -> Partitions:
        """Partitions of which it does not go on where they stand: what comes before was read, and dropped."""
        ends, found = dict(positions), set[TopicPartition]()
        for part in self.fetched:
            end = ends.get(part.partition)
            if end is not None and part.start_offset > end:
                found.add(part.partition)
            ends[part.partition] = part.next_offset
        return frozenset(found)

    def keep(self, ours: Container[TopicPartition]) -> None:
        """Forget what is no longer ours."""
        self.fetched = [part for part in self.fetched if part.partition in ours]
        self.pieces = [piece for piece in self.pieces if piece.partition in ours]


@dataclass
class ClassifyWorker:
    """Reads, classifies and stores until it is told to stop.

    ``judge`` does stages 2 to 4, or has them done, ``writer`` 5 to 8. ``resume`` gives, of a partition, the offset up
    to which the ledger knows every message, None if it knows none. Writer and ``resume`` are never used at the same
    time.
    """

    client: Client
    subscription: Subscription
    judge: Callable[[Task], "Future[Outcome]"]
    writer: Writer
    resume: Callable[[TopicPartition], int | None]
    clock: Clock
    observer: Observer
    pace: Pace = Pace()
    start: Start | None = None
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    """Where each partition that is ours stands: everything before is stored."""
    _under_way: deque[_Batch] = field(default_factory=deque)
    """Oldest first."""
    _is_waiting: bool = False
    _unplaced: Partitions = frozenset()
    """Ours, and in an outage nobody could tell yet where they go on. Paused."""
    _untold: Partitions = frozenset()
    """Ours, and nobody was told yet where the ledger ends. Nobody is before a whole poll brought nothing, or a batch is
    stored: a topic that was made anew may not have that offset, and a poll says so."""

    @property
    def is_placed(self) -> bool:
        """Whether it was given partitions, and knows where each of them stands."""
        return bool(self.positions) and not self._unplaced

    def run(self, stop: Callable[[], bool]) -> None:
        """Work until ``stop`` says so; what was read by then is still stored if nothing is out of reach.

        Raises StartUnknownError, BrokerRejected, InstanceFenced and what the store raises but for outages.
        """
        with RareLooks() as cycles, ThreadPoolExecutor(1, "store") as self._thread:
            consumer = self.client.consumer(self.subscription, self)
            try:
                while not stop():
                    self._round(consumer, stop)
                    cycles.look()
            finally:
                consumer.close()

    def _round(self, consumer: Consumer, stop: Callable[[], bool]) -> None:
        if self._unplaced:
            self._finish(consumer, stop, left=0)
            self._place(consumer)
        untold = self._untold
        fetched, started = self._poll(consumer), self.clock.monotonic()
        if fetched:
            self._finish(consumer, stop, left=AHEAD)
            self._begin(consumer, _Batch(fetched, started))
        elif self._under_way:
            self._finish(consumer, stop, left=0)
        elif not self._unplaced:
            if quiet := self._standing(untold & self._untold):
                self._commit(consumer, quiet)
            self.observer.idle()

    # --- 1 poll

    def _poll(self, consumer: Consumer) -> list[Fetched]:
        """Messages of one batch; an empty list if there are none."""
        gathered: list[Fetched] = []
        wanted, until = self.pace.batch_records, self.clock.monotonic() + self.pace.poll_s
        while wanted > 0 and (left := until - self.clock.monotonic()) > 0:
            self._end_what_is_stored(consumer)
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
        return joined(gathered)

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
        if error.partition in self.positions:
            self.positions[error.partition] = error.beginning

    # --- 2 decode, 3 redact, 4 classify

    def _begin(self, consumer: Consumer, batch: _Batch) -> None:
        """Have what is ours judged and stored. What does not go on where its partition stands, once all before it is
        stored, is read again from there: the ledger's end says that everything before it is stored."""
        stands = self._stands()
        gaps = batch.gaps(stands)
        for partition in gaps:
            consumer.seek(partition, stands[partition])
        batch.keep(stands.keys() - gaps)
        if batch.pieces:
            self._judge_again(batch.pieces)
        else:
            batch.pieces = list(self._pieces(batch.fetched))
        before = self._under_way[-1].stored if self._under_way else None
        batch.stored = self._thread.submit(self._store, batch.pieces, before)
        self._under_way.append(batch)

    def _stands(self) -> dict[TopicPartition, int]:
        """Where each partition that is ours will stand once all that is under way is stored."""
        stands = dict(self.positions)
        for batch in self._under_way:
            for partition, offset in behind(batch.fetched).items():
                if partition in stands:
                    stands[partition] = max(stands[partition], offset)
        return stands

    def _pieces(self, fetched: Sequence[Fetched]) -> Iterator[_Piece]:
        now, limit = self.clock.now_micros(), self.pace.piece_records
        for part in fetched:
            for messages in Messages.of(part).pieces(limit):
                task = Task(messages, part.partition.topic, str(part.partition.partition), now)
                yield _Piece(part.partition, task, self.judge(task))

    def _judge_again(self, pieces: Sequence[_Piece]) -> None:
        """Where an outage was in the way. The rest stays as it is, so that what is inserted again is the same."""
        for piece in pieces:
            if piece.judged.done() and piece.judged.exception() is not None:
                piece.judged = self.judge(piece.task)

    # --- 5 insert, 6 dead-letter, 7 produce, 8 ledger; 9 commit

    def _store(self, pieces: Sequence[_Piece], before: "Future[Report] | None") -> Report:
        if before is not None and (before.cancelled() or before.exception() is not None):
            raise _PredecessorFailedError
        report, outcomes = Report(), [piece.judged.result() for piece in pieces]
        if outcomes:
            self.writer.write_batch(outcomes, report)
        return report

    def _finish(self, consumer: Consumer, stop: Callable[[], bool], left: int) -> None:
        """Wait until no more than ``left`` batches are under way, however long an outage lasts, and say so to Kafka."""
        attempt = 0
        while len(self._under_way) > left:
            try:
                report = self._under_way[0].stored.result()
            except OUTAGES as error:
                attempt += 1
                self._wait(consumer, error, attempt, stop)
                if stop():
                    self._under_way.clear()
                    return
                self._begin_again(consumer)
            else:
                self._end(consumer, report)
                attempt = 0

    def _begin_again(self, consumer: Consumer) -> None:
        """The oldest was not stored, so none of those behind it was."""
        failed, self._under_way = self._under_way, deque()
        for batch in failed:
            self._begin(consumer, batch)

    def _finish_in_time(self, consumer: Consumer) -> None:
        """The same before partitions go: one try, inside a deadline. What is not stored then, its next owner reads."""
        if self._is_waiting:
            return
        until = self.clock.monotonic() + self.pace.revoke_s
        try:
            while self._under_way:
                left = max(until - self.clock.monotonic(), 0)
                self._end(consumer, self._under_way[0].stored.result(left))
        except (*OUTAGES, TimeoutError) as error:
            for batch in self._under_way:
                batch.stored.cancel()
            self._under_way.clear()
            self.observer.waits(error, 1)

    def _end_what_is_stored(self, consumer: Consumer) -> None:
        """Say so at once, and not only when there is something else to wait for. What failed is seen there."""
        while self._under_way and (stored := self._under_way[0].stored).done() and stored.exception() is None:
            self._end(consumer, stored.result())

    def _end(self, consumer: Consumer, report: Report) -> None:
        """The oldest is stored."""
        batch = self._under_way.popleft()
        self._commit(consumer, self._standing(self._untold) | behind(batch.fetched))
        self.observer.stored(report, batch.fetched, self.clock.monotonic() - batch.started)

    def _commit(self, consumer: Consumer, positions: Mapping[TopicPartition, int]) -> None:
        """Tell Kafka where we stand. If it does not hear, the next commit says so too: nothing here relies on it."""
        ours = {partition: offset for partition, offset in positions.items() if partition in self.positions}
        self.positions |= ours
        try:
            consumer.commit(ours)
        except (BrokerUnavailable, GenerationLost) as error:
            self.observer.waits(error, 0)
        else:
            self._untold -= ours.keys()

    def _standing(self, partitions: Partitions) -> dict[TopicPartition, int]:
        """Where those stand that are ours."""
        return {partition: self.positions[partition] for partition in partitions if partition in self.positions}

    def _wait(self, consumer: Consumer, error: Exception, attempt: int, stop: Callable[[], bool]) -> None:
        """Let time pass with every partition paused, polling, since who does not poll loses its partitions."""
        self.observer.waits(error, attempt)
        until = self.clock.monotonic() + min(self.pace.retry_s * 2 ** min(attempt - 1, 30), self.pace.retry_most_s)
        self._is_waiting = True
        try:
            while not stop() and (left := until - self.clock.monotonic()) > 0:
                self._poll_paused(consumer, min(left, self.pace.poll_s))
        finally:
            self._is_waiting = False

    def _poll_paused(self, consumer: Consumer, timeout_s: float) -> None:
        paused = consumer.assignment()
        consumer.pause(paused)
        try:
            # Partitions that come in this very poll are not paused yet; what it brings of them is read again.
            for part in consumer.poll(timeout_s, 1):
                consumer.seek(part.partition, part.start_offset)
        except OffsetOutOfRange as error:
            self._skip_expired(consumer, error)
        except GenerationLost:
            pass
        finally:
            consumer.resume(paused - self._unplaced)

    # --- assignment, told during a poll

    def on_assigned(self, consumer: Consumer, partitions: Partitions) -> None:
        """Go on where the ledger ends, once it can be asked."""
        self._finish_in_time(consumer)
        self._unplaced |= partitions
        self._place(consumer)

    def _place(self, consumer: Consumer) -> None:
        try:
            known = self._known(self._unplaced)
            starts = known | self._new_starts(consumer, sorted(self._unplaced - known.keys()))
        except OUTAGES as error:
            self.observer.waits(error, 1)
            self._hold(consumer)
            return
        for partition, offset in starts.items():
            consumer.seek(partition, offset)
        consumer.resume(self._unplaced)
        self._unplaced = frozenset()
        self.positions |= starts
        self._untold |= known.keys()
        if starts:
            self.observer.assigned(starts)

    def _hold(self, consumer: Consumer) -> None:
        """Read nothing of what has no place yet. It gets a position all the same, or the client would choose one."""
        for partition in self._unplaced:
            consumer.seek(partition, 0)
        consumer.pause(self._unplaced)

    def on_revoked(self, consumer: Consumer, partitions: Partitions) -> None:
        """Store and commit what is under way while the partitions are still ours."""
        self._finish_in_time(consumer)
        self._release(partitions, lost=False)

    def on_lost(self, consumer: Consumer, partitions: Partitions) -> None:  # noqa: ARG002 -- the listener's protocol
        """Somebody else has them already."""
        self._release(partitions, lost=True)

    def _release(self, partitions: Partitions, *, lost: bool) -> None:
        self._unplaced -= partitions
        self._untold -= partitions
        for partition in partitions:
            self.positions.pop(partition, None)
        if partitions:
            self.observer.released(partitions, lost=lost)

    def _known(self, partitions: Partitions) -> dict[TopicPartition, int]:
        """Where the ledger ends, of those that it knows."""
        ends = {partition: self.resume(partition) for partition in sorted(partitions)}
        return {partition: offset for partition, offset in ends.items() if offset is not None}

    def _new_starts(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Where to begin what the ledger does not know: at its beginning, so that nothing is lost."""
        if not partitions:
            return {}
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
