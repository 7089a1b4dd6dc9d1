"""Dead letters as messages: onto the topic of dead letters, and from there back to where they are classified.

A copy names the message that it is a copy of by headers of ours: topic, partition and offset of its origin. Texts are
UTF-8, numbers decimal. Headers that came with the message stay; of our own names only the last word counts.
"""

import re
from collections.abc import Mapping

from sinks.rows import DeadLetterRow
from streams.kafka.seam import Headers, Outgoing
from streams.topics import Topic

ORIGIN_TOPIC = "offramp-origin-topic"
"""Topic of the message that this one is a copy of."""
ORIGIN_PARTITION = "offramp-origin-partition"
"""Its partition."""
ORIGIN_OFFSET = "offramp-origin-offset"
"""Its offset."""
ORIGIN_TIMESTAMP = "offramp-origin-timestamp"
"""Its timestamp in microseconds since the epoch, where it has one."""
REPLAY_COUNT = "offramp-replay-count"
"""How often it was redriven, this time included."""
REASON = "offramp-reason"
"""Reason code of the dead letter."""
FIELD_PATH = "offramp-field-path"
"""Where in the message; empty for the whole of it."""
MESSAGE = "offramp-message"
"""What is wrong, in words."""
TRIES = "offramp-tries"
"""How often it was tried."""
MASKED = "offramp-masked"
"""``true`` if secret ranges of the bytes are masked."""
CUT_FROM = "offramp-cut-from"
"""How many bytes the value has in the store, where the topic does not take all of them."""

OURS = frozenset(
    {ORIGIN_TOPIC, ORIGIN_PARTITION, ORIGIN_OFFSET, ORIGIN_TIMESTAMP, REPLAY_COUNT, REASON, FIELD_PATH, MESSAGE, TRIES,
     MASKED, CUT_FROM}
)  # fmt: skip
"""Names of all headers that only this program writes."""

MOST_REPLAYS = 1_000
"""More than anybody redrives a message; what a header says above it counts as this."""
_DIGITS = re.compile(rb"[0-9]{1,9}")
_REPEATED = re.compile(r"(.*)\[[0-9]+\]", re.DOTALL)
_LONGEST_TEXT = 1_000
# Lengths, checksums and flags of a batch with one record, of which Kafka's format needs about a hundred.
_FRAME_BYTES = 1_024
_HEADER_BYTES = 16


def replay_count_of(headers: Headers) -> int:
    """How often a message was redriven, by its headers: 0 to :data:`MOST_REPLAYS`, whatever stands there.

    Of several the highest counts, so that nobody lowers it by adding one; what is no number counts as none.
    """
    values = (value for name, value in headers if name == REPLAY_COUNT and value is not None)
    counts = (int(value) for value in values if _DIGITS.fullmatch(value))
    return min(max(counts, default=0), MOST_REPLAYS)


def dlq_message(letter: DeadLetterRow, topic: Topic) -> Outgoing:
    """A dead letter for the topic of dead letters: whole as far as ``topic`` takes it.

    Where bytes and headers together are more than that, the headers that came with the message are left out; where the
    bytes alone are, they are cut and :data:`CUT_FROM` says from how many. The store has all of it in any case.
    """
    ours = _described(letter)
    room = topic.max_message_bytes - _FRAME_BYTES - len(letter.key or b"") - _size(ours)
    theirs = original_headers(letter.headers)
    if len(letter.raw) + _size(theirs) <= room:
        return Outgoing(topic.name, letter.key, letter.raw, (*theirs, *ours))
    if len(letter.raw) <= room:
        return Outgoing(topic.name, letter.key, letter.raw, ours)
    return _cut(letter, topic, ours, max(0, room - _size(_cut_from(letter))))


def dlq_notice(letter: DeadLetterRow, topic: Topic) -> Outgoing:
    """The same without bytes, headers and key of the message, for a broker that takes less than was planned."""
    return _cut(letter._replace(key=None), topic, _described(letter), 0)


def _cut(letter: DeadLetterRow, topic: Topic, ours: Headers, room: int) -> Outgoing:
    return Outgoing(topic.name, letter.key, letter.raw[:room], (*ours, *_cut_from(letter)))


def _cut_from(letter: DeadLetterRow) -> Headers:
    return ((CUT_FROM, _number(len(letter.raw))),)


def redriven(letter: DeadLetterRow, key: bytes | None, value: bytes | None, headers: Headers, topic: str) -> Outgoing:
    """A dead letter's message on its way back, to ``topic``: ``key``, ``value`` and ``headers`` as it had them at its
    source, and ours, which say where that was and count this replay."""
    theirs = tuple(header for header in headers if header[0] not in OURS)
    count = _number(letter.replay_count + 1)
    return Outgoing(
        topic, key, value, (*theirs, *_origin(letter), (REASON, letter.reason_code.encode()), (REPLAY_COUNT, count))
    )


def original_headers(stored: Mapping[str, bytes]) -> Headers:
    """Headers of a stored letter as the message had them, ours left out. The second of a name is stored as
    ``name[1]``."""
    return tuple((name, value) for stored_as, value in stored.items() if (name := _name(stored_as, stored)) not in OURS)


def _name(stored_as: str, stored: Mapping[str, bytes]) -> str:
    repeated = _REPEATED.fullmatch(stored_as)
    return repeated[1] if repeated and repeated[1] in stored else stored_as


def _described(letter: DeadLetterRow) -> Headers:
    """Where a letter was read and what is wrong with it."""
    return (
        *_origin(letter),
        (REPLAY_COUNT, _number(letter.replay_count)),
        (REASON, letter.reason_code.encode()),
        (FIELD_PATH, _short(letter.field_path)),
        (MESSAGE, _short(letter.message)),
        (TRIES, _number(letter.tries)),
        (MASKED, b"true" if letter.masked else b"false"),
    )


def _origin(letter: DeadLetterRow) -> Headers:
    timestamp = () if letter.timestamp is None else ((ORIGIN_TIMESTAMP, _number(letter.timestamp)),)
    return (
        (ORIGIN_TOPIC, letter.source.encode()),
        (ORIGIN_PARTITION, letter.partition.encode()),
        (ORIGIN_OFFSET, _number(letter.offset)),
        *timestamp,
    )


def _number(value: int) -> bytes:
    return str(value).encode()


def _short(text: str) -> bytes:
    """Text of a header. A surrogate, which no UTF-8 holds, becomes a question mark."""
    return text[:_LONGEST_TEXT].encode(errors="replace")


def _size(headers: Headers) -> int:
    return sum(len(name.encode()) + len(value or b"") + _HEADER_BYTES for name, value in headers)
