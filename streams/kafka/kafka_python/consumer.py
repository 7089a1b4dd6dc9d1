"""Reading by kafka-python: see :class:`streams.kafka.seam.Reader` and :class:`streams.kafka.seam.Consumer`."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from kafka import errors as library
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as LibraryPartition

from streams.kafka.errors import BrokerError, BrokerUnavailable, GenerationLost, OffsetOutOfRange
from streams.kafka.kafka_python.errors import at_the_edge, translated
from streams.kafka.kafka_python.joining import keep_answers
from streams.kafka.kafka_python.records import PartitionRecords
from streams.kafka.kafka_python.turns import Turn, Turns
from streams.kafka.seam import Committed, Connection, Consumer, Fetched, Listener, Message, TopicPartition

_UNREADABLE = (library.CorruptRecordError, library.UnsupportedCodecError)
"""After these the library's next poll does not return, so there is none."""


class KafkaPythonReader:
    """See the seam. ``library`` is a KafkaConsumer, which this closes."""

    def __init__(self, library_consumer: Any, connection: Connection) -> None:
        self._library = library_consumer
        self._library._fetcher.PartitionRecords = PartitionRecords  # noqa: SLF001 -- see there
        self._timeout_ms = int(connection.timeout_s * 1000)
        self._positions: dict[TopicPartition, int] = {}
        self._unreadable: BrokerError | None = None
        self._closed = False

    def poll(self, timeout_s: float, max_records: int) -> list[Fetched]:
        """See the seam."""
        if self._unreadable is not None:
            raise self._unreadable
        try:
            return self._fetched(self._poll_library(int(timeout_s * 1000), max_records))
        except library.OffsetOutOfRangeError as error:
            return self._out_of_range(error.args[0])
        except library.NoOffsetForPartitionError as error:
            return self._out_of_range(dict.fromkeys(error.args[0]))
        except library.LogTruncationError as error:
            return self._out_of_range(
                {partition: self._positions.get(partition) for partition in error.divergent_offsets}
            )
        except (library.KafkaError, OSError) as error:
            problem = translated(error)
            if isinstance(problem, BrokerUnavailable):
                return []
            if isinstance(error, _UNREADABLE):
                self._unreadable = problem
            raise problem from error

    def _poll_library(self, timeout_ms: int, max_records: int) -> dict[Any, list[Message]]:
        polled: dict[Any, list[Message]] = self._library.poll(timeout_ms=timeout_ms, max_records=max_records)
        return polled

    def _fetched(self, polled: dict[Any, list[Message]]) -> list[Fetched]:
        fetched = []
        for partition in self._library.assignment():
            records = polled.get(partition, ())
            start, position = self._positions.get(partition), self._position(partition)
            if start is None:  # nobody has sought, and the library has started where the group had committed
                start = records[0].offset if records else position
            if position is not None and start is not None and position > start:
                ours = TopicPartition(*partition)
                self._positions[ours] = position
                fetched.append(Fetched(ours, start, records, position))
        return fetched

    def _position(self, partition: Any) -> int | None:
        with suppress(library.KafkaError):
            position: int | None = self._library.position(partition, timeout_ms=0)
            return position
        return None

    def _out_of_range(self, requested: Mapping[Any, int | None]) -> list[Fetched]:
        """Raise OffsetOutOfRange for the first of these; nothing if the broker cannot tell what it has."""
        partition, offset = next(iter(requested.items()))
        with suppress(BrokerUnavailable):
            (beginning,) = self.beginning_offsets([partition]).values()
            (end,) = self.end_offsets([partition]).values()
            raise OffsetOutOfRange(TopicPartition(*partition), offset, beginning, end)
        return []

    def assignment(self) -> frozenset[TopicPartition]:
        """See the seam."""
        return frozenset(TopicPartition(*partition) for partition in self._library.assignment())

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """See the seam."""
        if partition not in self._library.assignment():
            raise ValueError(f"{partition.topic}[{partition.partition}] is not assigned to this consumer")
        self._library.seek(LibraryPartition(*partition), offset)
        self._positions[partition] = offset

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """See the seam."""
        self._library.pause(*self._ours(partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """See the seam."""
        self._library.resume(*self._ours(partitions))

    def _ours(self, partitions: Iterable[TopicPartition]) -> list[Any]:
        assigned = self._library.assignment()
        return [LibraryPartition(*partition) for partition in partitions if partition in assigned]

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """See the seam."""
        return self._offsets(self._library.beginning_offsets, partitions)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """See the seam."""
        return self._offsets(self._library.end_offsets, partitions)

    def _offsets(self, ask: Callable[..., Any], partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Of several partitions the library leaves out those whose leader it does not know, and then misses them.

        Of one alone it waits until it knows.
        """
        asked = [LibraryPartition(*partition) for partition in partitions]
        with at_the_edge():
            try:
                return _by_partition(ask(asked, timeout_ms=self._timeout_ms))
            except KeyError:
                alone = (ask([each], timeout_ms=self._timeout_ms) for each in asked)
                return {place: offset for found in alone for place, offset in _by_partition(found).items()}

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """See the seam."""
        return {partition: self._offset_for_time(partition, micros) for partition, micros in times.items()}

    def _offset_for_time(self, partition: TopicPartition, micros: int) -> int | None:
        """One at a time: of several, the library has none for those whose leader it does not know."""
        asked = LibraryPartition(*partition)
        with at_the_edge():
            at = self._library.offsets_for_times({asked: micros // 1000}, timeout_ms=self._timeout_ms)[asked]
        return None if at is None or at.offset < 0 else int(at.offset)

    def close(self) -> None:
        """See the seam."""
        if not self._closed:
            self._closed = True
            self._library.close(autocommit=False, timeout_ms=self._timeout_ms)


class KafkaPythonConsumer(KafkaPythonReader):
    """See the seam. The library is subscribed with ``turns`` as its listener, and to an eager protocol.

    So every rebalance begins with everything going, and no partition is ever kept over one.
    """

    def __init__(self, library_consumer: Any, connection: Connection, listener: Listener, turns: Turns) -> None:
        super().__init__(library_consumer, connection)
        keep_answers(self._library._coordinator)  # noqa: SLF001 -- see there
        self._listener, self._turns = listener, turns
        self._failure: BaseException | None = None
        self._held: dict[Any, list[Message]] = {}

    def _poll_library(self, timeout_ms: int, max_records: int) -> dict[Any, list[Message]]:
        if self._held:
            held, self._held = self._held, {}
            return held
        call = super()._poll_library
        polled = self._turns.call(lambda: call(timeout_ms, max_records), self._hear)
        if self._failure is not None:
            self._held = polled
            self._raise_failure()
        return polled

    def _hear(self, turn: Turn) -> None:
        """Tell the listener, and keep what it raises until the library has its answer."""
        if turn.partitions:
            lost = turn.event == "on_revoked" and self._is_out()
            self._tell(getattr(self._listener, "on_lost" if lost else turn.event), turn.partitions)
        if turn.event == "on_assigned":
            self._start_as_committed(turn.partitions)
        else:
            self._have_none()
        self._let_go_on(turn)

    def _is_out(self) -> bool:
        """Whether the group has put us out. The library hears of it at its next heartbeat, so that one is sent now."""
        coordinator = self._library._coordinator  # noqa: SLF001
        with suppress(library.KafkaError):
            coordinator._net.run(coordinator._send_heartbeat_request)  # noqa: SLF001
        return bool(coordinator._generation.is_lost())  # noqa: SLF001

    def _have_none(self) -> None:
        """The library would keep positions and pauses of what comes back, though others may have had it meanwhile."""
        self._positions.clear()
        self._library._subscription.assign_from_subscribed([])  # noqa: SLF001 -- as it does of what was lost

    def _tell(self, told: Callable[[Consumer, frozenset[TopicPartition]], None], partitions: Any) -> None:
        try:
            told(self, partitions)
        except BaseException as failure:  # noqa: BLE001 -- raised again once the library has its answer
            self._failure = self._failure or failure

    def _start_as_committed(self, partitions: frozenset[TopicPartition]) -> None:
        """Seek where nobody has, so that the first position is known here. In an outage the library does it later."""
        unsought = partitions - set(self._positions)
        with suppress(BrokerUnavailable):
            for partition, committed in self.committed(unsought).items():
                self.seek(partition, committed.offset)

    def _let_go_on(self, turn: Turn) -> None:
        async def settle() -> None:
            turn.settled.success(None)

        self._library._net.call_soon_threadsafe(settle)  # noqa: SLF001 -- the only way to wake its loop

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def commit(self, offsets: Mapping[TopicPartition, int], metadata: str = "") -> None:
        """See the seam."""
        if not offsets.keys() <= self.assignment():
            raise GenerationLost("a partition is not ours (any more), so its offset was not committed; poll again")
        noted = {LibraryPartition(*tp): OffsetAndMetadata(offset, metadata, -1) for tp, offset in offsets.items()}
        with at_the_edge():
            self._library.commit(noted, timeout_ms=self._timeout_ms)

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        """See the seam."""
        found = {}
        with at_the_edge():
            for partition in partitions:
                at = self._library.committed(LibraryPartition(*partition), metadata=True, timeout_ms=self._timeout_ms)
                if at is not None and at.offset >= 0:
                    found[partition] = Committed(at.offset, at.metadata or "")
        return found

    def close(self) -> None:
        """See the seam."""
        if self._closed:
            return
        try:
            self._turns.call(super().close, self._hear)
        except (library.KafkaError, OSError) as error:
            raise translated(error) from error
        finally:
            self._turns.close()
        self._raise_failure()


def _by_partition(offsets: Mapping[Any, int]) -> dict[TopicPartition, int]:
    return {TopicPartition(*partition): offset for partition, offset in offsets.items()}
