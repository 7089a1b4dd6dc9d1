"""What can go wrong with a broker, split by what the caller does about it.

::

    BrokerError
    ├── BrokerUnavailable     an outage: retry with backoff, move no offset
    │   └── Unconfirmed       what was sent and not acknowledged in time; it may or may not have been written
    ├── OffsetOutOfRange      the position is not in the log (expired, or never was): decide, then seek
    ├── GenerationLost        the group has gone on without us: drop results that are not stored yet, poll again
    ├── InstanceFenced        another process uses our group.instance.id: stop this one
    └── BrokerRejected        the request is bad and stays bad, ``reason`` says why: stop, or dead-letter the message

No error of a client library leaves this package under its own name.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streams.kafka.seam import Pending, TopicPartition


class Rejection(StrEnum):
    """Why a broker, or the client in front of it, will not do what was asked."""

    AUTHENTICATION = "authentication"
    AUTHORIZATION = "authorization"
    UNKNOWN_TOPIC = "unknown_topic"
    TOPIC_EXISTS = "topic_exists"
    UNKNOWN_GROUP = "unknown_group"
    TOO_LARGE = "too_large"
    BAD_REQUEST = "bad_request"
    BAD_CONFIGURATION = "bad_configuration"
    BAD_DATA = "bad_data"
    UNSUPPORTED = "unsupported"
    INTERNAL = "internal"


class BrokerError(Exception):
    """Base of everything that the seam raises."""


class BrokerUnavailable(BrokerError):  # noqa: N818 -- reads as the state that is retried
    """The broker cannot answer now: unreachable, overloaded, electing, out of time. Retry with backoff."""


class Unconfirmed(BrokerUnavailable):
    """``pending`` was sent and not acknowledged within the time given. Sending it again may write it twice."""

    def __init__(self, pending: Sequence["Pending"], timeout_s: float) -> None:
        super().__init__(pending, timeout_s)
        self.pending, self.timeout_s = tuple(pending), timeout_s

    def __str__(self) -> str:
        return (
            f"{len(self.pending)} messages were not confirmed within {self.timeout_s:g} s; check the broker, send again"
        )


class OffsetOutOfRange(BrokerError):  # noqa: N818 -- a state of the position, named as one
    """The position ``requested`` of ``partition`` is outside the log, which holds ``beginning`` to ``end``, exclusive.

    ``requested`` is None if nobody said where to start: no seek, and no committed offset. Raised
    by every poll until the caller seeks; the other partitions lose nothing.
    """

    def __init__(self, partition: "TopicPartition", requested: int | None, beginning: int, end: int) -> None:
        super().__init__(partition, requested, beginning, end)
        self.partition, self.requested, self.beginning, self.end = partition, requested, beginning, end

    def __str__(self) -> str:
        place = f"{self.partition.topic}[{self.partition.partition}]"
        log = (
            f"the log holds offsets {self.beginning} to {self.end - 1}"
            if self.end > self.beginning
            else "the log is empty"
        )
        if self.requested is None:
            return f"{place}: no start was given and none is committed; {log}: say where to start"
        return f"{place}: offset {self.requested} is out of range; {log}: seek to one of them, or to {self.end}"


class GenerationLost(BrokerError):  # noqa: N818 -- a state of the membership, named as one
    """The group has gone on without this member, whose partitions belong to others now. The next poll joins again."""


class InstanceFenced(BrokerError):  # noqa: N818 -- a state of the membership, named as one
    """Another process joined with the same group.instance.id. Stop this one, or give it another id."""


class BrokerRejected(BrokerError):  # noqa: N818 -- reads as the verdict on what was handed in
    """What was asked is refused and stays refused. ``reason`` is for programs, the message for people."""

    def __init__(self, reason: Rejection, message: str) -> None:
        super().__init__(reason, message)
        self.reason, self.message = reason, message

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"
