"""Whether the classify worker lives, and whether it can work: two questions that an outage answers differently.

Liveness is progress. A worker is restarted for what a restart can mend: a loop that stands still, or a partition that
has messages and is not read. An outage of store, broker or registry is none of these, so a worker that waits one out
is live, and not ready.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from streams.classify import Partitions, behind
from streams.clock import Clock
from streams.ingest import Report
from streams.kafka.errors import BrokerRejected
from streams.kafka.seam import Fetched, Outgoing, TopicPartition
from streams.pages import Verdict


@dataclass(frozen=True)
class Standing:
    """Of one partition: the next offset to read, and where the broker's log ended when it was asked last, None if it
    was not asked yet."""

    position: int
    end: int | None

    @property
    def lag(self) -> int | None:
        """Offsets that are not stored yet."""
        return None if self.end is None else max(0, self.end - self.position)


@dataclass
class _Partition:
    position: int
    moved_at: float
    """When it last moved, or had nothing to read."""
    end: int | None = None


@dataclass
class Health:
    """An observer that remembers how far the worker came and when. Safe in any thread.

    ``stalled_after_s``: without a turn of the loop, or on a partition that has messages without progress, for so long
    the worker is not live. ``ends_for_s``: how long an answer of the broker about its ends is relied on.
    """

    clock: Clock
    stalled_after_s: float
    ends_for_s: float
    _turned_at: float = 0.0
    _has_turned: bool = False
    _outage: str = ""
    _ends_at: float | None = None
    _partitions: dict[TopicPartition, _Partition] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._turned_at = self.clock.monotonic()

    # --- told by the worker

    def assigned(self, starts: Mapping[TopicPartition, int]) -> None:
        """Partitions that are ours from now on."""
        with self._lock:
            self._turn()
            self._partitions |= {each: _Partition(offset, self._turned_at) for each, offset in starts.items()}

    def released(self, partitions: Partitions, *, lost: bool) -> None:  # noqa: ARG002 -- the observer's protocol
        """Partitions that are no longer ours."""
        with self._lock:
            self._turn()
            for partition in partitions:
                self._partitions.pop(partition, None)

    def expired(self, partition: TopicPartition, first: int, end: int) -> None:  # noqa: ARG002 -- the observer's protocol
        """Messages that are gone are nothing to wait for."""
        self._move({partition: end})

    def stored(self, report: Report, batch: Sequence[Fetched], seconds: float) -> None:  # noqa: ARG002 -- the observer's protocol
        """A batch is done, so nothing is out of reach."""
        self._move(behind(batch))
        self._outage = ""

    def idle(self) -> None:
        """Nothing waits."""
        with self._lock:
            self._turn()
            self._outage = ""

    def waits(self, error: Exception, attempt: int) -> None:
        """An outage; the 0th try is that of a commit, which nothing relies on."""
        with self._lock:
            self._turn()
            self._outage = str(error) if attempt else self._outage

    def not_sent(self, message: Outgoing, error: BrokerRejected) -> None:
        """Nothing that has to do with health."""

    def _turn(self) -> None:
        self._turned_at, self._has_turned = self.clock.monotonic(), True

    def _move(self, positions: Mapping[TopicPartition, int]) -> None:
        with self._lock:
            self._turn()
            for partition, position in positions.items():
                known = self._partitions.get(partition)
                if known is not None and known.position != position:
                    known.position, known.moved_at = position, self._turned_at

    # --- told by whoever asks the broker

    @property
    def partitions(self) -> list[TopicPartition]:
        """What is ours now."""
        with self._lock:
            return sorted(self._partitions)

    def ends(self, ends: Mapping[TopicPartition, int]) -> None:
        """Where the logs of partitions end now."""
        with self._lock:
            self._ends_at = self.clock.monotonic()
            for partition, end in ends.items():
                known = self._partitions.get(partition)
                if known is not None:
                    known.end = end
                    if end <= known.position:
                        known.moved_at = self._ends_at

    # --- asked by pages

    def standings(self) -> dict[TopicPartition, Standing]:
        """How far every partition that is ours is."""
        with self._lock:
            return {name: Standing(each.position, each.end) for name, each in sorted(self._partitions.items())}

    def outage(self) -> str:
        """What the worker waits for, in words; empty if it waits for nothing."""
        return self._outage

    def works(self) -> Verdict:
        """Whether the loop has turned at all, and waits for nothing."""
        if not self._has_turned:
            return Verdict(ok=False, reason="the worker has not polled yet")
        if self._outage:
            return Verdict(ok=False, reason=f"waits for the end of an outage: {self._outage}")
        return Verdict(ok=True, reason="the worker polls")

    def live(self) -> Verdict:
        """Whether the loop turns, and messages that are there are read."""
        with self._lock:
            now = self.clock.monotonic()
            idle_s = now - self._turned_at
            if idle_s > self.stalled_after_s:
                return Verdict(ok=False, reason=f"the loop has not turned for {idle_s:.0f} s")
            if self._outage:
                return Verdict(ok=True, reason=f"waits for the end of an outage: {self._outage}")
            return self._progress(now)

    def _progress(self, now: float) -> Verdict:
        if self._ends_at is None or now - self._ends_at > self.ends_for_s:
            return Verdict(ok=True, reason="the loop turns; whether there is anything to read, the broker does not say")
        stalled = [
            f"{name.topic}[{name.partition}]"
            for name, each in sorted(self._partitions.items())
            if each.end is not None and each.end > each.position and now - each.moved_at > self.stalled_after_s
        ]
        if stalled:
            reason = f"no progress for {self.stalled_after_s:g} s, and messages to read: {', '.join(stalled)}"
            return Verdict(ok=False, reason=reason)
        return Verdict(ok=True, reason="the loop turns, and what is there is read")
