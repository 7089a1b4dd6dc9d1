"""Reading by confluent-kafka: see :class:`streams.kafka.seam.Reader` and :class:`streams.kafka.seam.Consumer`."""

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, IsolationLevel, KafkaError
from confluent_kafka import TopicPartition as LibraryPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from streams.kafka.confluent.errors import Problems, translated
from streams.kafka.errors import (
    BrokerError,
    BrokerUnavailable,
    GenerationLost,
    OffsetOutOfRange,
)
from streams.kafka.seam import Committed, Connection, Fetched, Headers, Listener, Message, TopicPartition


def message_of(record: Any) -> Message:
    """A record of the library as a message; its milliseconds become microseconds."""
    kind, stamp = record.timestamp()
    return Message(
        record.topic(),
        record.partition(),
        record.offset(),
        None if kind == TIMESTAMP_NOT_AVAILABLE else stamp * 1000,
        record.key(),
        record.value(),
        _headers_of(record),
    )


def _headers_of(record: Any) -> Headers:
    """The headers, or none if the name of one is not UTF-8, which the library cannot read."""
    try:
        return tuple(record.headers() or ())
    except (SystemError, UnicodeDecodeError):
        return ()


class ConfluentReader:
    """See the seam. Positions are kept here: the library is only told where to start."""

    def __init__(self, library: Any, admin: AdminClient, problems: Problems, connection: Connection) -> None:
        self._library, self._admin, self._problems = library, admin, problems
        self._timeout_s = connection.timeout_s
        self._positions: dict[TopicPartition, int | None] = {}
        self._paused: set[TopicPartition] = set()
        self._moved = False
        self._astray: set[TopicPartition] = set()
        self._error: BrokerError | None = None
        self._held: list[Fetched] = []
        self._closed = False

    def give(self, partitions: Iterable[TopicPartition]) -> None:
        """Have these partitions, none of which is read before it is sought."""
        self._positions |= dict.fromkeys(partitions)

    def poll(self, timeout_s: float, max_records: int) -> list[Fetched]:
        """See the seam. Waits for the first message only, and takes what has come with it."""
        if self._held:
            held, self._held = self._held, []
            return held
        self._raise_out_of_range()
        with self._problems.at_the_edge():
            self._go()
            fetched = self._fetched(self._consume(timeout_s, max_records))
        try:
            self._raise_error()
        except BaseException:
            self._held = fetched
            raise
        if not fetched:
            self._raise_out_of_range()
        return fetched

    def _consume(self, timeout_s: float, max_records: int) -> list[Any]:
        records: list[Any] = self._library.consume(max_records, 0)
        if not records and (first := self._library.poll(timeout_s)) is not None:
            records = [first, *(self._library.consume(max_records - 1, 0) if max_records > 1 else ())]
        return records

    def _fetched(self, records: list[Any]) -> list[Fetched]:
        starts = dict(self._positions)
        messages: dict[TopicPartition, list[Message]] = {}
        for record in records:
            if (error := record.error()) is not None:
                self._hear(record, error)
                continue
            message = message_of(record)
            partition = TopicPartition(message.topic, message.partition)
            if starts.get(partition) is not None:  # else it went while these were gathered
                messages.setdefault(partition, []).append(message)
                self._positions[partition] = message.offset + 1
        return [
            Fetched(partition, start, messages.get(partition, ()), end)
            for partition, start in starts.items()
            if start is not None and (end := self._positions.get(partition)) is not None and end > start
        ]

    def _hear(self, record: Any, error: KafkaError) -> None:
        """An event in the stream: the end of a partition tells its position, and most errors pass by themselves."""
        partition = TopicPartition(record.topic() or "", record.partition() or 0)
        if error.code() == KafkaError._PARTITION_EOF:
            if self._positions.get(partition) is not None:
                self._positions[partition] = record.offset()
        elif error.code() in {KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION}:
            self._astray |= {partition} & self._positions.keys()
        elif not isinstance(problem := translated(error), BrokerUnavailable | GenerationLost):
            self._error = problem

    def _raise_error(self) -> None:
        error, self._error = self._error or self._problems.heard, None
        if error is not None:
            raise error

    def _raise_out_of_range(self) -> None:
        for partition, position in self._positions.items():
            if position is None or partition in self._astray:
                try:
                    (beginning,) = self.beginning_offsets([partition]).values()
                    (end,) = self.end_offsets([partition]).values()
                except BrokerUnavailable:
                    return
                raise OffsetOutOfRange(partition, position, beginning, end)

    def assignment(self) -> frozenset[TopicPartition]:
        """See the seam."""
        return frozenset(self._positions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """See the seam. The library hears of it at the next poll, of all that were sought at once."""
        if partition not in self._positions:
            raise ValueError(f"{partition.topic}[{partition.partition}] is not assigned to this consumer")
        self._positions[partition] = offset
        self._astray.discard(partition)
        self._moved = True

    def _go(self) -> None:
        """Have the library read from where we are. Only an assignment of everything is allowed to members of groups.

        It also discards what was fetched ahead, of the others too: they are read again from where they stand.
        """
        if self._moved:
            starts = {partition: start for partition, start in self._positions.items() if start is not None}
            self._library.assign([LibraryPartition(*partition, start) for partition, start in starts.items()])
            # The library remembers what was paused, of partitions that went and came back, too.
            self._library.resume(self._started(self._positions.keys() - self._paused))
            self._library.pause(self._started(self._paused))
            self._moved = False

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """See the seam."""
        ours = set(partitions) & set(self._positions)
        self._paused |= ours
        if not self._moved:
            self._library.pause(self._started(ours))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """See the seam."""
        ours = set(partitions) & set(self._positions)
        self._paused -= ours
        if not self._moved:
            self._library.resume(self._started(ours))

    def _started(self, partitions: Iterable[TopicPartition]) -> list[LibraryPartition]:
        return [LibraryPartition(*partition) for partition in partitions if self._positions[partition] is not None]

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """See the seam."""
        return self._offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """See the seam."""
        return self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def _offsets(self, partitions: Iterable[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        asked = {LibraryPartition(*partition): spec for partition in partitions}
        if not asked:
            return {}
        with self._problems.at_the_edge():
            found = self._admin.list_offsets(
                asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=self._timeout_s
            )
            return {TopicPartition(tp.topic, tp.partition): future.result().offset for tp, future in found.items()}

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """See the seam."""
        asked = [LibraryPartition(*partition, micros // 1000) for partition, micros in times.items()]
        with self._problems.at_the_edge():
            found = self._library.offsets_for_times(asked, timeout=self._timeout_s)
        return {TopicPartition(at.topic, at.partition): at.offset if at.offset >= 0 else None for at in found}

    def close(self) -> None:
        """See the seam."""
        if not self._closed:
            self._closed = True
            with self._problems.at_the_edge():
                self._library.close()


class ConfluentConsumer(ConfluentReader):
    """See the seam. The library calls back in the thread that polls, so there is nothing to bring over."""

    def __init__(
        self, library: Any, admin: AdminClient, problems: Problems, connection: Connection, listener: Listener
    ) -> None:
        super().__init__(library, admin, problems, connection)
        self._listener = listener
        self._failure: BaseException | None = None

    def join(self, topics: Iterable[str]) -> None:
        """Subscribe; the group is joined at the first poll."""
        with self._problems.at_the_edge():
            self._library.subscribe(
                list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )

    def _on_assign(self, _library: Any, partitions: list[LibraryPartition]) -> None:
        new = _of(partitions)
        self.give(new)
        if new:
            self._tell(self._listener.on_assigned, new)
        # Also of nothing: it tells the library that its callback was heard.
        self._moved = True
        self._go()

    def _raise_out_of_range(self) -> None:
        unsought = [partition for partition, position in self._positions.items() if position is None]
        try:
            for partition, committed in self.committed(unsought).items():
                self.seek(partition, committed.offset)
        except BrokerUnavailable:
            return
        super()._raise_out_of_range()

    def _on_revoke(self, _library: Any, _partitions: list[LibraryPartition]) -> None:
        # A member that is put out while it has not heard of a rebalance yet hears of that alone; its id is gone.
        self._have_none(self._listener.on_revoked if self._library.memberid() else self._listener.on_lost)

    def _on_lost(self, _library: Any, _partitions: list[LibraryPartition]) -> None:
        self._have_none(self._listener.on_lost)

    def _have_none(self, told: Any) -> None:
        """The protocol is eager: whatever goes, everything goes, and some of it may come back."""
        if self._positions:
            self._tell(told, self.assignment())
        self._library.unassign()
        self._moved = False
        for ours in (self._positions, self._paused, self._astray):
            ours.clear()

    def _tell(self, told: Any, partitions: frozenset[TopicPartition]) -> None:
        try:
            told(self, partitions)
        except BaseException as failure:  # noqa: BLE001 -- raised again once the library has its answer
            self._failure = self._failure or failure

    def _raise_error(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        super()._raise_error()

    def commit(self, offsets: Mapping[TopicPartition, int], metadata: str = "") -> None:
        """See the seam."""
        if not offsets.keys() <= self._positions.keys():
            raise GenerationLost("a partition is not ours (any more), so its offset was not committed; poll again")
        noted = [LibraryPartition(*partition, offset, metadata) for partition, offset in offsets.items()]
        with self._problems.at_the_edge():
            done = self._library.commit(offsets=noted, asynchronous=False) if noted else ()
        for partition in done:
            if partition.error is not None:
                raise translated(partition.error)

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        """See the seam."""
        asked = [LibraryPartition(*partition) for partition in partitions]
        with self._problems.at_the_edge():
            found = self._library.committed(asked, timeout=self._timeout_s) if asked else ()
        return {
            TopicPartition(at.topic, at.partition): Committed(at.offset, at.metadata or "")
            for at in found
            if at.error is None and at.offset >= 0
        }

    def close(self) -> None:
        """See the seam."""
        super().close()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure


def _of(partitions: Iterable[LibraryPartition]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(partition.topic, partition.partition) for partition in partitions)
