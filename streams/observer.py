"""Those who are told what the classify worker does: one for the log, and one that tells several."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from streams.classify import Observer, Partitions, behind
from streams.ingest import Report
from streams.kafka.errors import BrokerRejected
from streams.kafka.seam import Fetched, Outgoing, TopicPartition

_log = logging.getLogger("offramp.classify")


class WorkerObserver(Observer, Protocol):
    """Is told what worker and publisher do."""

    def not_sent(self, message: Outgoing, error: BrokerRejected) -> None:
        """A message that the broker holds to be too large; the store has what it says."""
        ...


def named(partition: TopicPartition) -> str:
    """A partition as people write it."""
    return f"{partition.topic}[{partition.partition}]"


@dataclass(frozen=True)
class Observers:
    """Tells each of several, in order."""

    each: tuple[WorkerObserver, ...]

    def assigned(self, starts: Mapping[TopicPartition, int]) -> None:
        """See :class:`streams.classify.Observer`."""
        for one in self.each:
            one.assigned(starts)

    def released(self, partitions: Partitions, *, lost: bool) -> None:
        """See :class:`streams.classify.Observer`."""
        for one in self.each:
            one.released(partitions, lost=lost)

    def expired(self, partition: TopicPartition, first: int, end: int) -> None:
        """See :class:`streams.classify.Observer`."""
        for one in self.each:
            one.expired(partition, first, end)

    def stored(self, report: Report, batch: Sequence[Fetched], seconds: float) -> None:
        """See :class:`streams.classify.Observer`."""
        for one in self.each:
            one.stored(report, batch, seconds)

    def idle(self) -> None:
        """See :class:`streams.classify.Observer`."""
        for one in self.each:
            one.idle()

    def waits(self, error: Exception, attempt: int) -> None:
        """See :class:`streams.classify.Observer`."""
        for one in self.each:
            one.waits(error, attempt)

    def not_sent(self, message: Outgoing, error: BrokerRejected) -> None:
        """See :class:`WorkerObserver`."""
        for one in self.each:
            one.not_sent(message, error)


@dataclass(frozen=True)
class LogObserver:
    """Writes one line for whatever is not routine, and one for every batch at level debug."""

    def assigned(self, starts: Mapping[TopicPartition, int]) -> None:
        """Partitions that are ours from now on."""
        _log.info("assigned", extra={"starts": {named(partition): offset for partition, offset in starts.items()}})

    def released(self, partitions: Partitions, *, lost: bool) -> None:
        """Partitions that are no longer ours."""
        names = sorted(map(named, partitions))
        _log.log(logging.WARNING if lost else logging.INFO, "lost" if lost else "revoked", extra={"partitions": names})

    def expired(self, partition: TopicPartition, first: int, end: int) -> None:
        """Messages that nobody will read any more."""
        gap = {"partition": named(partition), "first": first, "end": end}
        _log.error("messages were deleted by the broker before they were read", extra=gap)

    def stored(self, report: Report, batch: Sequence[Fetched], seconds: float) -> None:
        """A batch is done."""
        where = {named(partition): offset for partition, offset in behind(batch).items()}
        _log.debug("stored", extra={"messages": report.read, "positions": where, "seconds": round(seconds, 3)})
        if report.errors:
            _log.warning("dead letters", extra={"messages": report.errors})

    def idle(self) -> None:
        """Nothing to do."""

    def waits(self, error: Exception, attempt: int) -> None:
        """An outage."""
        _log.warning("waiting for an outage to end", extra={"attempt": attempt, "reason": str(error)})

    def not_sent(self, message: Outgoing, error: BrokerRejected) -> None:
        """A message that the broker holds to be too large; the store has what it says."""
        _log.error("too large to send", extra={"topic": message.topic, "reason": str(error)})
