r"""What a fetched partition holds, as messages of the seam: in place of the library's own reading of record batches.

The library makes three objects a record and counts header sizes that nobody asks for: a third of what reading costs by
``python -m bench.consume``. And one header whose name is not UTF-8 makes it fail, after which its next poll never
returns: one such message would stop a partition for good. Here such bytes are shown as ``\xff``, and the message is
delivered.

The format is record batch version 2 of Kafka's protocol guide, "Record Batch".
"""

from collections.abc import Iterator
from typing import Any

from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError
from kafka.protocol.consumer import IsolationLevel

from streams.kafka.seam import Headers, Message

_LOG_APPEND_TIME = 1
_VARINT_BITS = 64


def varint(buffer: memoryview, position: int) -> tuple[int, int]:
    """A zigzag-encoded number at ``position``, and where it ends. CorruptRecordError if it has over 64 bits."""
    byte = buffer[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    number, shift = byte & 0x7F, 7
    while byte & 0x80:
        if shift >= _VARINT_BITS:
            raise CorruptRecordError("a number in a record is longer than 64 bits")
        byte = buffer[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
    return (number >> 1) ^ -(number & 1), position


def nullable(buffer: memoryview, position: int) -> tuple[bytes | None, int]:
    """Bytes behind their length at ``position``, None for length -1, and where they end."""
    length, position = varint(buffer, position)
    if length < 0:
        return None, position
    return bytes(buffer[position : position + length]), position + length


def headers(buffer: memoryview, position: int) -> tuple[Headers, int]:
    """The headers behind their count at ``position``, and where they end."""
    count, position = varint(buffer, position)
    found = []
    for _ in range(count):
        name, position = nullable(buffer, position)
        value, position = nullable(buffer, position)
        found.append(((name or b"").decode("utf-8", "backslashreplace"), value))
    return tuple(found), position


def messages(topic: str, partition: int, batch: Any) -> Iterator[Message]:
    """The messages of one batch of the library's, uncompressed if need be. Raises CorruptRecordError."""
    batch._maybe_uncompress()  # noqa: SLF001 -- the library has no other way to the bytes
    buffer, position = memoryview(batch._buffer), batch._pos  # noqa: SLF001
    base, first = batch.base_offset, batch.first_timestamp
    appended = batch.max_timestamp if batch.timestamp_type == _LOG_APPEND_TIME else None
    for _ in range(batch.records_count):
        try:
            length, position = varint(buffer, position)
            end = position + length
            delta, position = varint(buffer, position + 1)  # one byte of attributes, all unused
            ahead, position = varint(buffer, position)
            key, position = nullable(buffer, position)
            value, position = nullable(buffer, position)
            found, position = headers(buffer, position) if buffer[position] else ((), position + 1)
        except IndexError:
            raise CorruptRecordError(f"a record of the batch at offset {base} is cut short") from None
        if position != end:
            raise CorruptRecordError(f"a record of the batch at offset {base} is not as long as it says")
        stamp = first + delta if appended is None else appended
        yield Message(topic, partition, base + ahead, stamp * 1000 if stamp >= 0 else None, key, value, found)


def old_messages(topic: str, partition: int, batch: Any) -> Iterator[Message]:
    """The messages of a batch from before version 2, as a topic may still hold them."""
    for record in batch:
        stamp = record.timestamp
        micros = None if stamp is None or stamp < 0 else stamp * 1000
        yield Message(topic, partition, record.offset, micros, record.key, record.value, ())


class PartitionRecords(Fetcher.PartitionRecords):  # type: ignore[misc]
    """The library's own, but that it yields messages of the seam.

    The library reads ``next_fetch_offset`` as the position behind what was taken, holes included.
    """

    def _unpack_records(self, tp: Any, records: Any, _key: Any, _value: Any) -> Iterator[Message]:
        while (batch := records.next_batch()) is not None:
            if self.check_crcs and not batch.validate_crc():
                raise CorruptRecordError(f"the batch at offset {batch.base_offset} of {tp} fails its checksum")
            if batch.magic < 2:
                yield from self._taken(old_messages(tp.topic, tp.partition, batch), batch)
                continue
            self.leader_epoch = batch.leader_epoch
            if not self._is_hidden(batch):
                yield from self._taken(messages(tp.topic, tp.partition, batch), batch)
            self.next_fetch_offset = batch.next_offset
        self.drain()

    def _taken(self, found: Iterator[Message], batch: Any) -> Iterator[Message]:
        self.bytes_read += batch.size_in_bytes
        for message in found:
            self.records_read += 1
            self.next_fetch_offset = message.offset + 1
            yield message

    def _is_hidden(self, batch: Any) -> bool:
        """Whether the batch holds control records, or belongs to a transaction that was aborted."""
        if self.isolation_level == IsolationLevel.READ_COMMITTED and batch.has_producer_id():
            self._consume_aborted_transactions_up_to(batch.last_offset)
            if self._contains_abort_marker(batch):
                self.aborted_producer_ids.discard(batch.producer_id)
                return True
        return bool(batch.is_control_batch or self._is_batch_aborted(batch))
