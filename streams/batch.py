"""What a worker is given: some messages of one source, undecoded, and what each of them turns out to be."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, Self

from schemas.errors import MessageError
from schemas.wire import SchemaSource
from streams.cut import Limits
from streams.headers import by_name, in_order

PART_RECORDS = 32
"""Messages that are decoded at once. A decoded event takes ten times its bytes: few of them stay in the processor's
cache, and their memory is used again instead of being asked for again, which costs as much as classifying."""


class Wrapping(NamedTuple):
    """What a broker keeps beside the bytes of a message. ``timestamp`` is in microseconds since the epoch."""

    key: bytes | None = None
    timestamp: int | None = None
    headers: Mapping[str, bytes] = MappingProxyType({})
    replay_count: int = 0

    def masked(self, mask: Callable[[bytes], tuple[bytes, int]]) -> "tuple[Wrapping, int]":
        """The same without secrets, and how many there were. ``mask`` keeps lengths; a header's name says of its value
        what a field's name does, and may be a secret itself."""
        key, hits = (None, 0) if self.key is None else mask(self.key)
        headers: list[tuple[str, bytes]] = []
        for name, value in in_order(self.headers):
            named = name.encode()
            text, found = mask(named + b"=" + (value or b""))
            headers.append((text[: len(named)].decode(errors="replace"), text[len(named) + 1 :]))
            hits += found
        return self._replace(key=key, headers=by_name(tuple(headers))), hits


class Decoded(NamedTuple):
    """A record, or why there is none, at ``position`` in its source, counted from 0, and, in a text, 1-based ``line``.

    On an error ``raw`` holds the bytes, decompressed where possible: all ``size`` of them or, over the limit and behind
    a damage, the first few. ``span`` positions are covered, up to the next message; ``messages`` are meant, more
    than one where the rest of a block is lost. Neither record nor error: the message says nothing and is left out.
    """

    position: int
    line: int | None
    record: dict[str, Any] | None
    error: MessageError | None = None
    raw: bytes = b""
    size: int = 0
    span: int = 1
    messages: int = 1
    wrapping: Wrapping = Wrapping()


class Batch(Protocol):
    """Consecutive messages of one partition of a source, as small to pickle as they are to store."""

    @property
    def end(self) -> int:
        """The position behind the last."""
        ...

    @property
    def consumed(self) -> int:
        """How many stored bytes of the source were read so far, for whoever waits for its end."""
        ...

    def parts(self) -> Iterator[Self]:
        """The same in several batches of about :data:`PART_RECORDS` messages."""
        ...

    def plain_text(self) -> bytes | None:
        """All bytes in which a secret would show as it is; None if they are compressed."""
        ...

    def decode(self, limits: Limits, schemas: SchemaSource | None) -> list[Decoded]:
        """What stands at each position, in order. Raises nothing, whatever the bytes are, but what ``schemas`` raises
        when it is out of reach."""
        ...

    def raw_of(self, decoded: Decoded) -> bytes:
        """What a record that was decoded, and then refused, was read from."""
        ...
