"""What a broker's log holds against what the ledger says of it, per partition: which offsets nobody accounts for.

The ledger covers the offsets that a consumer passed while it read. A gap between its rows is either explained by the
broker, which has no message there (compacted away, a control record, of an aborted transaction), or expired, or
unaccounted.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from streams.clock import Clock
from streams.kafka.errors import BrokerUnavailable
from streams.kafka.seam import Client, Reader, TopicPartition

LARGEST_GAP = 10_000
"""Offsets of a gap that is looked into; in a larger one every offset counts as a message."""


class Span(NamedTuple):
    """Offsets from ``start`` on, before ``end``."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """How many offsets; 0 where the end lies before the start."""
        return max(0, self.end - self.start)


class Recorded(NamedTuple):
    """What is known of a partition besides its log: spans of offsets that the ledger has without a gap, ascending, and
    the offset that the group has committed."""

    spans: Sequence[Span] = ()
    committed: int | None = None


@dataclass(frozen=True)
class Account:
    """One partition of a log, in offsets.

    ``beginning`` and ``end`` are what the log holds. ``lag``: still to be read. ``unread``: before the first that was
    recorded, where reading began later. Of the gaps: ``expired`` are below ``beginning``, so that nobody can tell;
    ``explained`` hold no message; ``missing`` hold messages without a ledger row. ``vanished``: recorded, and at or
    behind the end of the log, as of a topic that was made anew or lost its end.
    """

    partition: TopicPartition
    beginning: int
    end: int
    committed: int | None
    lag: int
    unread: int
    expired: int
    explained: int
    missing: int
    vanished: int

    @property
    def unaccounted(self) -> int:
        """Offsets for which nobody accounts."""
        return self.missing + self.vanished


@dataclass(frozen=True)
class Log:
    """A broker, asked by ``client``."""

    client: Client
    clock: Clock
    timeout_s: float

    def accounts(self, recorded: Mapping[TopicPartition, Recorded]) -> list[Account]:
        """Compare partitions. ``recorded`` must be older than this call, so that a worker that goes on in between makes
        no gap. Raises BrokerUnavailable, BrokerRejected; OffsetOutOfRange if a log is cut meanwhile."""
        if not recorded:
            return []
        with closing(self.client.reader(recorded)) as reader:
            beginnings, ends = reader.beginning_offsets(recorded), reader.end_offsets(recorded)
        return [self._account(each, known, beginnings[each], ends[each]) for each, known in sorted(recorded.items())]

    def _account(self, partition: TopicPartition, recorded: Recorded, beginning: int, end: int) -> Account:
        spans, committed = recorded
        gaps = _gaps(recorded, beginning)
        held = [Span(max(gap.start, beginning), min(gap.end, end)) for gap in gaps]
        missing = sum(self._messages_in(partition, gap) for gap in held if gap.length)
        first = spans[0].start if spans else committed
        read_until = max(spans[-1].end if spans else beginning, committed or 0)
        return Account(
            partition=partition,
            beginning=beginning,
            end=end,
            committed=committed,
            lag=Span(max(read_until, beginning), end).length,
            unread=0 if first is None or not spans else Span(beginning, min(first, end)).length,
            expired=sum(Span(gap.start, min(gap.end, beginning)).length for gap in gaps),
            explained=sum(gap.length for gap in held) - missing,
            missing=missing,
            vanished=Span(end, read_until).length,
        )

    def _messages_in(self, partition: TopicPartition, gap: Span) -> int:
        if gap.length > LARGEST_GAP:
            return gap.length
        with closing(self.client.reader([partition])) as reader:
            reader.seek(partition, gap.start)
            return sum(offset < gap.end for offset in self._offsets(reader, partition, gap))

    def _offsets(self, reader: Reader, partition: TopicPartition, gap: Span) -> Iterator[int]:
        """Offsets of the messages from the start of a gap on, until its end is passed."""
        deadline = self.clock.monotonic() + self.timeout_s
        while self.clock.monotonic() <= deadline:
            for fetched in reader.poll(min(1.0, self.timeout_s), gap.length):
                yield from (message.offset for message in fetched.messages)
                if fetched.next_offset >= gap.end:
                    return
        place = f"{partition.topic}[{partition.partition}] from offset {gap.start}"
        raise BrokerUnavailable(
            f"{place} could not be read within {self.timeout_s:g} s; check the broker, run it again"
        )


def _gaps(recorded: Recorded, beginning: int) -> list[Span]:
    """Offsets that were passed and have no ledger row: between two spans, and before the committed offset."""
    spans, committed = recorded.spans, recorded.committed
    between = [Span(before.end, after.start) for before, after in pairwise(spans)]
    if committed is None:
        return between
    # Without any row nobody knows where reading began: no later than what the log still holds.
    last = Span(spans[-1].end if spans else beginning, committed)
    return [*between, last] if last.length else between
