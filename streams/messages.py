"""Messages of a broker as a batch for the worker: every message is framed by itself and names its own schema."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.errors import ErrorCode, MessageError
from schemas.wire import LocalSchemas, SchemaSource, decode
from streams.batch import PART_RECORDS, Decoded, Wrapping
from streams.cut import Limits
from streams.headers import by_name
from streams.kafka.seam import Fetched, Message
from streams.redrive import replay_count_of


@dataclass(frozen=True)
class Messages:
    """Some messages of one partition, by offset. ``end`` is the offset behind them, past any hole that the broker
    explains, so that the ledger has no other holes."""

    items: Sequence[Message]
    end: int
    consumed: int = 0

    @classmethod
    def of(cls, fetched: Fetched) -> "Messages":
        """What one poll brought of one partition."""
        return cls(fetched.messages, fetched.next_offset)

    def parts(self) -> Iterator["Messages"]:
        """The same in several batches of :data:`PART_RECORDS` messages."""
        return self.pieces(PART_RECORDS)

    def pieces(self, size: int) -> Iterator["Messages"]:
        """The same in several batches of so many messages."""
        for start in range(0, len(self.items), size):
            behind = start + size
            end = self.items[behind].offset if behind < len(self.items) else self.end
            yield Messages(self.items[start:behind], end)

    def plain_text(self) -> bytes | None:
        """All bytes in which a secret would show as it is."""
        return b"\n".join(message.value or b"" for message in self.items)

    def decode(self, limits: Limits, schemas: SchemaSource | None) -> list[Decoded]:
        """What each message holds. Raises what ``schemas`` raises when it is out of reach."""
        if schemas is None:
            raise TypeError("messages name their schemas, so there must be a source of them; see NoRegistry")
        ends = [message.offset for message in self.items[1:]] + [self.end]
        return [_decoded(message, end, limits, schemas) for message, end in zip(self.items, ends, strict=True)]

    def raw_of(self, decoded: Decoded) -> bytes:
        """The bytes of a message that was decoded, and then refused."""
        return next((m.value or b"" for m in self.items if m.offset == decoded.position), b"")


def _decoded(message: Message, end: int, limits: Limits, schemas: SchemaSource) -> Decoded:
    value, span = message.value, end - message.offset
    if value is None:  # a tombstone asks a compacted topic to forget a key, which is none of our business
        return Decoded(message.offset, None, None, span=span)
    try:
        record: dict[str, Any] = decode(value, schemas=schemas, max_bytes=limits.message_bytes)
    except MessageError as error:
        return Decoded(
            message.offset, None, None, error, raw=value, size=len(value), span=span, wrapping=_wrapping(message)
        )
    return Decoded(message.offset, None, record, span=span, wrapping=_wrapping(message))


def _wrapping(message: Message) -> Wrapping:
    headers = message.headers
    return (
        Wrapping(message.key, message.timestamp_us, by_name(headers), replay_count_of(headers))
        if headers
        else (Wrapping(message.key, message.timestamp_us))
    )


class NoRegistry:
    """The schemas that need no registry. A frame that names one of a registry is an error of the message, which says
    what to configure."""

    def __init__(self) -> None:
        self._local = LocalSchemas.published()

    def by_fingerprint(self, fingerprint: int) -> Any:
        """The published schema with this fingerprint."""
        return self._local.by_fingerprint(fingerprint)

    def by_id(self, schema_id: int) -> Any:
        """Raises MessageError: nobody can tell."""
        reason = f"the frame names schema {schema_id} of a registry, and none is configured; set registry.url, redrive"
        raise MessageError(ErrorCode.UNKNOWN_SCHEMA, reason)
