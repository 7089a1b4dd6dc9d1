"""Dead letters as messages: onto the topic of dead letters, and back from the store to where they are classified.

A copy names the message that it is a copy of by headers of ours: topic, partition and offset of its origin. Texts are
UTF-8, numbers decimal. Headers that came with the message stay; of our own names only the last word counts.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Self

from sinks.rows import DeadLetterRow, RedriveRow
from streams.clock import Clock
from streams.headers import in_order
from streams.kafka.errors import (
    BrokerError,
    BrokerRejected,
    BrokerUnavailable,
    OffsetOutOfRange,
    Rejection,
    Unconfirmed,
)
from streams.kafka.seam import Client, Delivered, Headers, Message, Outgoing, Pending, Producer, Reader, TopicPartition
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

FILE = "file"
"""Source of letters that were read from a file."""
MAX_REPLAYS = 3
"""How often a message is redriven unless more is asked for."""
WINDOW = 500
"""Messages under way before confirmations are waited for, and recorded."""
WINDOW_BYTES = 8 << 20

MOST_REPLAYS = 1_000
"""More than anybody redrives a message; what a header says above it counts as this."""
_DIGITS = re.compile(rb"[0-9]{1,9}")
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
    """Headers of a stored letter as the message had them, ours left out."""
    return tuple(header for header in in_order(stored) if header[0] not in OURS)


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


# --- back from the store


class State(StrEnum):
    """What became of a dead letter, as the view ``v_dead_letter_states`` says it."""

    DEAD = "dead"
    """It was not redriven."""
    WAITING = "waiting"
    """It was redriven, and nobody has read it there yet."""
    DEAD_AGAIN = "dead_again"
    """Its redriven message is no valid record either: a dead letter of its own, which counts the replays."""
    CLASSIFIED = "classified"
    STORED = "stored"
    DUPLICATE = "duplicate"
    """Its record was known already, with the same content."""
    CONFLICTING = "conflicting"
    """Its record was known already, with other content, and is kept apart."""
    FILTERED = "filtered"
    ERASED = "erased"
    """Its bytes were erased on request."""


class Refusal(StrEnum):
    """Why a dead letter is not redriven. The text tells people what to do."""

    advice: str
    fails: bool

    def __new__(cls, code: str, advice: str, fails: bool) -> Self:  # noqa: FBT001 -- a column of the table below
        """A code, what to do, and whether the letter stays dead although it was to be redriven."""
        member = str.__new__(cls, code)
        member._value_, member.advice, member.fails = code, advice, fails
        return member

    OF_FILE = "of_file", "read from a file; correct it there and run `offramp classify` over it", False
    DONE = "done", "what was redriven has been stored, or kept apart", False
    WAITING = "waiting", "redriven before and not read yet; --again sends it once more", False
    DEAD_AGAIN = (
        "dead_again",
        "redriven before and dead again; that is a letter of its own, which counts replays",
        False,
    )
    ERASED = "erased", "its bytes were erased on request", True
    TOO_OFTEN = "too_often", "redriven as often as is allowed; find the cause, then raise --max-replays", True
    SOURCE_GONE = (
        "source_gone",
        "masked, and its message has expired at the source; ask its producer to send it again",
        True,
    )
    TOO_LARGE = "too_large", "the topic does not take it; raise its max.message.bytes", True


_BY_STATE = {State.DEAD: None, State.WAITING: Refusal.WAITING, State.DEAD_AGAIN: Refusal.DEAD_AGAIN,
             State.ERASED: Refusal.ERASED}  # fmt: skip
_OF_THE_MESSAGE = frozenset({Rejection.TOO_LARGE, Rejection.BAD_DATA})

Place = tuple[str, str, int]
"""Source, partition, offset."""


class Candidate(NamedTuple):
    """A dead letter that may be redriven. ``size`` is that of its bytes."""

    place: Place
    state: State
    replay_count: int
    size: int


class Result(NamedTuple):
    """What became of a candidate: where its message stands now (None in a dry run), or why it was left."""

    candidate: Candidate
    refusal: Refusal | None
    delivered: Delivered | None = None


@dataclass(frozen=True)
class Policy:
    """Which letters are redriven. ``again``: also those that wait at the topic already."""

    max_replays: int = MAX_REPLAYS
    again: bool = False

    def refusal(self, candidate: Candidate) -> Refusal | None:
        """Why this letter is left, as far as the store can tell."""
        if candidate.place[0] == FILE and candidate.state is not State.ERASED:
            return Refusal.OF_FILE
        by_state = _BY_STATE.get(candidate.state, Refusal.DONE)
        if by_state is not None and not (self.again and by_state is Refusal.WAITING):
            return by_state
        return Refusal.TOO_OFTEN if candidate.replay_count >= self.max_replays else None


@dataclass
class Redriver:
    """Sends dead letters to ``topic`` and records what is confirmed, some hundreds at a time.

    ``load`` gives stored letters by their places, ``record`` stores where they went. Without ``producer`` nothing is
    sent. What was confirmed and not recorded, because the process ended in between, is sent again by the next run: two
    copies of one record are one record, since the second is a duplicate by its identity.
    """

    client: Client
    producer: Producer | None
    topic: str
    policy: Policy
    load: Callable[[Sequence[Place]], Mapping[Place, DeadLetterRow]]
    record: Callable[[Sequence[RedriveRow]], None]
    clock: Clock
    timeout_s: float
    _errors: list[BrokerError] = field(default_factory=list)

    def run(self, candidates: Iterable[Candidate]) -> Iterator[Result]:
        """Redrive, and say what became of each. Raises BrokerError once what is confirmed is recorded."""
        for window in _windows(candidates):
            left = {candidate: self.policy.refusal(candidate) for candidate in window}
            yield from (Result(candidate, refusal) for candidate, refusal in left.items() if refusal is not None)
            yield from self._redrive([candidate for candidate, refusal in left.items() if refusal is None])

    def _redrive(self, window: list[Candidate]) -> Iterator[Result]:
        messages = self._messages(window)
        results = [Result(candidate, Refusal.SOURCE_GONE) for candidate in window if candidate not in messages]
        results += self._sent(messages)
        self._record(results)
        yield from results
        if self._errors:
            raise self._errors[0]

    def _messages(self, window: list[Candidate]) -> dict[Candidate, Outgoing]:
        """What is to be sent. All is read before anything is sent, so that an outage comes first or last."""
        letters = self.load([candidate.place for candidate in window]) if window else {}
        with ExitStack() as stack:
            sources = _Sources(self.client, self.clock, self.timeout_s, stack)
            found = {
                candidate: self._message(letter, sources)
                for candidate in window
                if (letter := letters.get(candidate.place)) is not None
            }
        return {candidate: message for candidate, message in found.items() if message is not None}

    def _message(self, letter: DeadLetterRow, sources: "_Sources") -> Outgoing | None:
        """The message to send, from the stored copy, or from the source if that is masked; None if it is gone."""
        if not letter.masked:
            return redriven(letter, letter.key, letter.raw, original_headers(letter.headers), self.topic)
        original = sources.message_of(letter)
        return original and redriven(letter, original.key, original.value, original.headers, self.topic)

    def _sent(self, messages: Mapping[Candidate, Outgoing]) -> list[Result]:
        """What became of the messages; what an outage kept from being confirmed is left out, and noted."""
        if self.producer is None:
            return [Result(candidate, None) for candidate in messages]
        pending = {candidate: self.producer.send(message) for candidate, message in messages.items()}
        late = self._flushed(self.producer)
        results = [result for each in pending.items() if (result := self._result(*each)) is not None]
        if late is not None and self._errors:
            self._errors.insert(0, late)
        return results

    def _flushed(self, producer: Producer) -> Unconfirmed | None:
        """Wait for what was sent. Any other error each message is asked for itself."""
        try:
            producer.flush(self.timeout_s)
        except Unconfirmed as late:
            return late
        except BrokerError:
            pass
        return None

    def _result(self, candidate: Candidate, pending: Pending) -> Result | None:
        try:
            return Result(candidate, None, pending.result(0))
        except BrokerRejected as error:
            if error.reason in _OF_THE_MESSAGE:
                return Result(candidate, Refusal.TOO_LARGE)
            self._errors.append(error)
        except BrokerError as error:
            self._errors.append(error)
        return None

    def _record(self, results: list[Result]) -> None:
        now = self.clock.now_micros()
        rows = [
            RedriveRow(*candidate.place, to.partition.topic, str(to.partition.partition), to.offset,
                       candidate.replay_count + 1, now)
            for candidate, _, to in results if to is not None
        ]  # fmt: skip
        if rows:
            self.record(rows)


def _windows(candidates: Iterable[Candidate]) -> Iterator[list[Candidate]]:
    window, size = list[Candidate](), 0
    for candidate in candidates:
        window.append(candidate)
        size += candidate.size
        if len(window) >= WINDOW or size >= WINDOW_BYTES:
            yield window
            window, size = [], 0
    if window:
        yield window


class _Sources:
    """Reads single messages again. Readers are kept until ``stack`` is closed."""

    def __init__(self, client: Client, clock: Clock, timeout_s: float, stack: ExitStack) -> None:
        self._client, self._clock, self._timeout_s, self._stack = client, clock, timeout_s, stack
        self._readers: dict[TopicPartition, Reader] = {}

    def message_of(self, letter: DeadLetterRow) -> Message | None:
        """The message that a letter is a copy of; None if it is gone, or another stands in its place, as in a topic
        that was made anew. Raises BrokerError."""
        if not letter.partition.isdecimal():
            return None
        partition = TopicPartition(letter.source, int(letter.partition))
        try:
            found = self._message_at(partition, letter.offset)
        except OffsetOutOfRange:
            return None
        except BrokerRejected as error:
            if error.reason is Rejection.UNKNOWN_TOPIC:
                return None
            raise
        return found if found is not None and _is_copied_by(found, letter) else None

    def _message_at(self, partition: TopicPartition, offset: int) -> Message | None:
        reader = self._reader(partition)
        # Asked first, because a reader would wait for an offset that is still to come.
        if not reader.beginning_offsets([partition])[partition] <= offset < reader.end_offsets([partition])[partition]:
            return None
        reader.seek(partition, offset)
        deadline = self._clock.monotonic() + self._timeout_s
        while self._clock.monotonic() <= deadline:
            for fetched in reader.poll(min(1.0, self._timeout_s), 1):
                if fetched.next_offset > offset:
                    return next((message for message in fetched.messages if message.offset == offset), None)
        place = f"{partition.topic}[{partition.partition}] offset {offset}"
        raise BrokerUnavailable(
            f"{place} could not be read within {self._timeout_s:g} s; check the broker, run it again"
        )

    def _reader(self, partition: TopicPartition) -> Reader:
        if partition not in self._readers:
            self._readers[partition] = self._stack.enter_context(closing(self._client.reader([partition])))
        return self._readers[partition]


def _is_copied_by(message: Message, letter: DeadLetterRow) -> bool:
    """Whether a masked letter is of this message: masks keep the length."""
    same_time = letter.timestamp in {None, message.timestamp_us}
    return same_time and len(message.value or b"") == len(letter.raw)
