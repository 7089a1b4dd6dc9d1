"""Records onto topics, each confirmed; and whether somebody else would read them there.

Only confirmed messages count as published. A record that cannot be sent costs its neighbours nothing. Records are sent
as they were read, secrets included: a topic of incoming records stands before redaction.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from schemas.contract import INCOMING
from schemas.errors import ErrorCode, MessageError
from schemas.json_form import to_json
from schemas.wire import encode_confluent, encode_single_object
from streams.batch import Decoded
from streams.clock import Clock
from streams.files import Source, place_of
from streams.kafka.errors import BrokerError, BrokerRejected, Rejection, Unconfirmed
from streams.kafka.seam import Admin, Group, Outgoing, Pending, Producer
from streams.topics import Encoding, key_of

WINDOW = 2_000
"""Messages that may be on their way before they are waited for."""
WINDOW_BYTES = 32 << 20
KEPT_REFUSALS = 20
"""Refused records that are kept with place and reason; the others are counted."""

_OF_THE_MESSAGE = frozenset({Rejection.TOO_LARGE, Rejection.BAD_DATA})
_REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})


# --- who else reads


class Reading(StrEnum):
    """Why a consumer group counts as a reader of a topic."""

    MEMBERS = "has members that read it"
    OFFSETS = "has committed offsets in it, and reads on from there once it starts"
    UNKNOWN = "cannot be looked into, so it may read it; try again, or with kafka.client confluent"


class ForeignGroup(NamedTuple):
    """A consumer group that is not ours and reads, or may read, a topic."""

    group: str
    topic: str
    reading: Reading


def foreign_groups(admin: Admin, topics: Iterable[str], ours: Iterable[str]) -> list[ForeignGroup]:
    """The groups but ``ours`` that read any of ``topics``, by name. Raises BrokerUnavailable, BrokerRejected.

    A group at rest counts too: a dispatcher that restarts meanwhile would read what was published. What nobody can see
    is a reader that is in no group and commits nothing.
    """
    names, listed = sorted(topics), admin.groups() - frozenset(ours)
    groups = admin.describe_groups(sorted(listed))
    # One that is gone by now reads nothing. One that is listed and not described is of a kind that we cannot look into.
    opaque = listed & admin.groups() - groups.keys() if groups.keys() < listed else frozenset[str]()
    found = []
    for name in sorted(groups.keys() | opaque):
        resting = {partition.topic for partition in admin.group_offsets(name)}
        found += [
            ForeignGroup(name, topic, reading)
            for topic in names
            if (reading := _reading(topic, groups.get(name), resting)) is not None
        ]
    return found


def _reading(topic: str, group: Group | None, resting: set[str]) -> Reading | None:
    members = group.members if group else ()
    seen = {name for member in members for name in member.topics | {part.topic for part in member.assignment}}
    if topic in seen:
        return Reading.MEMBERS
    if topic in resting:
        return Reading.OFFSETS
    return Reading.UNKNOWN if group is None or (group.state in _REBALANCING and not seen) else None


# --- how a record is written


Encode = Callable[[dict[str, Any]], bytes]


def encoder(encoding: Encoding, ids: Mapping[str, int]) -> Encode:
    """How canonical records are written. ``ids`` are the registry's for the current schemas, by record type; only the
    Confluent frame needs them."""
    if encoding is Encoding.CONFLUENT:
        return lambda record: encode_confluent(record, ids[record["type"]])
    if encoding is Encoding.SINGLE_OBJECT:
        return encode_single_object
    return lambda record: to_json(record, INCOMING[record["type"]])


# --- onto the topics


class Refused(NamedTuple):
    """A record that was not published: where it stood, and why."""

    place: str
    error: MessageError


@dataclass
class Counts:
    """What became of the records. ``published`` counts confirmed messages by (topic, record type)."""

    read: int = 0
    published: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: Counter[ErrorCode] = field(default_factory=Counter)
    examples: list[Refused] = field(default_factory=list)

    def refuse(self, place: str, error: MessageError, span: int = 1) -> None:
        """Count records that are not published."""
        self.refused[error.code] += span
        if len(self.examples) < KEPT_REFUSALS:
            self.examples.append(Refused(place, error))


@dataclass
class Pace:
    """At most ``per_s`` messages a second, evenly; None: as fast as it goes. ``wait`` takes seconds."""

    per_s: float | None
    clock: Clock
    wait: Callable[[float], None]
    _due: float | None = None

    def hold(self) -> None:
        """Wait until the next message is due. Time that was lost elsewhere is not made up for by a burst."""
        if self.per_s is None:
            return
        now = self.clock.monotonic()
        if self._due is not None and self._due > now:
            self.wait(self._due - now)
        self._due = max(self._due or now, now) + 1 / self.per_s


class _Sent(NamedTuple):
    place: str
    topic: str
    record_type: str
    pending: Pending


@dataclass
class Publisher:
    """Sends records and waits for their confirmation, some thousand at a time.

    ``topic_of`` names the topic of a record type, ``largest`` the largest message that a topic takes, in bytes. Without
    ``producer`` nothing is sent, and what would be counts as published.
    """

    producer: Producer | None
    topic_of: Callable[[str], str]
    encode: Encode
    largest: Mapping[str, int]
    pace: Pace
    timeout_s: float
    counts: Counts = field(default_factory=Counts)
    _sent: list[_Sent] = field(default_factory=list)
    _sent_bytes: int = 0

    def take(self, source: Source, records: Iterable[Decoded]) -> None:
        """Publish what was read from ``source``. Raises BrokerUnavailable, BrokerRejected; what is confirmed by then is
        counted."""
        for decoded in records:
            self.counts.read += decoded.span
            place = place_of(source, decoded)
            if decoded.error is not None:
                self.counts.refuse(place, decoded.error, decoded.span)
            elif decoded.record is not None:
                self._send(place, decoded.record)
            if len(self._sent) >= WINDOW or self._sent_bytes >= WINDOW_BYTES:
                self.settle()

    def _send(self, place: str, record: dict[str, Any]) -> None:
        record_type = record["type"]
        topic, key, value = self.topic_of(record_type), key_of(record), self.encode(record)
        if (size := len(key) + len(value)) > self.largest[topic]:
            self.counts.refuse(place, _too_large(f"{size} bytes are over the {self.largest[topic]} of topic {topic}"))
            return
        self.pace.hold()
        if self.producer is None:
            self.counts.published[topic, record_type] += 1
            return
        pending = self.producer.send(Outgoing(topic, key, value))
        self._sent.append(_Sent(place, topic, record_type, pending))
        self._sent_bytes += size

    def settle(self) -> None:
        """Wait for everything that is on its way. Raises as :meth:`take` does."""
        sent, self._sent, self._sent_bytes = self._sent, [], 0
        if self.producer is None or not sent:
            return
        late = _flushed(self.producer, self.timeout_s)
        failures = [failure for each in sent if (failure := self._settled(each)) is not None]
        if failures:
            raise late or failures[0]

    def _settled(self, sent: _Sent) -> BrokerError | None:
        """Count a message that is confirmed, or refused for what it is; the error of any other."""
        try:
            sent.pending.result(0)
        except BrokerRejected as error:
            if error.reason not in _OF_THE_MESSAGE:
                return error
            self.counts.refuse(sent.place, _too_large(error.message))
        except BrokerError as error:
            return error
        else:
            self.counts.published[sent.topic, sent.record_type] += 1
        return None


def _flushed(producer: Producer, timeout_s: float) -> Unconfirmed | None:
    """Wait for what was sent; what was not confirmed in time. Any other error each message is asked for itself."""
    try:
        producer.flush(timeout_s)
    except Unconfirmed as late:
        return late
    except BrokerError:
        pass
    return None


def _too_large(reason: str) -> MessageError:
    return MessageError(ErrorCode.TOO_LARGE, reason)
