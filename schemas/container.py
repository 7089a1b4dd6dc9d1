"""Avro object container files: cut into blocks without decoding, and a block decoded on its own, elsewhere if need be.

The framing is read here, because a hostile file must cost bounded time and memory; the records are read by fastavro.
Source of the format: Avro 1.12 specification, object container files.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any, NamedTuple, Protocol

import fastavro

from schemas.codecs import CODECS, decompress
from schemas.errors import ErrorCode, MessageError
from schemas.skip import check_counts
from schemas.writer import Writer, writer_of

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
HEADER_BYTES = 1 << 20
"""Longest header that is read."""
LARGE_BLOCK_BYTES = 1 << 20
"""Decompressed blocks over this, which writers rarely make, are walked before they are decoded: twice the cost or more.

A byte can become a hundred in memory, so that up to here a hostile block takes about 100 MB.
"""


class ByteSource(Protocol):
    """What a container is read from; BytesIO is one."""

    def read(self, size: int, /) -> bytes:
        """Take the next ``size`` bytes, fewer only at the end."""
        ...

    def tell(self) -> int:
        """Return the position of the next byte."""
        ...


@dataclass(frozen=True)
class Header:
    """Header of a container: the writer's schema as JSON text, the codec's name, the 16 bytes between blocks."""

    schema: bytes
    codec: str
    sync: bytes


class Block(NamedTuple):
    """One block as it is stored: how many records, their bytes (compressed by the codec), where it starts."""

    records: int
    data: bytes
    offset: int


class Lost(NamedTuple):
    """Some ``records`` that cannot be handed on, and the bytes they stand in."""

    error: MessageError
    raw: bytes
    records: int


def read_header(source: ByteSource) -> Header:
    """Read the header at the start of a container.

    Raises MessageError if it is damaged, or names a codec or a schema that cannot be read.
    """
    if source.read(len(MAGIC)) != MAGIC:
        raise MessageError(ErrorCode.BAD_FRAMING, "not an Avro container")
    metadata = _read_metadata(source)
    codec = metadata.get("avro.codec", b"null").decode(errors="replace")
    header = Header(metadata.get("avro.schema", b""), codec, _read(source, SYNC_BYTES))
    if header.codec not in CODECS:
        known = ", ".join(sorted(CODECS))
        raise MessageError(ErrorCode.BAD_AVRO, f"the codec of the container is none of {known}")
    writer_of(header.schema)
    return header


def _read_metadata(source: ByteSource) -> dict[str, bytes]:
    metadata: dict[str, bytes] = {}
    while count := _read_long(source):
        if count < 0:
            _read_long(source)  # size of the entries in bytes, for readers that skip them
        for _ in range(abs(count)):
            key = _read_bytes(source).decode(errors="replace")
            metadata[key] = _read_bytes(source)
    return metadata


def _read_bytes(source: ByteSource) -> bytes:
    size = _read_long(source)
    if not 0 <= size <= HEADER_BYTES - source.tell():
        raise MessageError(ErrorCode.BAD_AVRO, f"absurd length in the header at byte {source.tell()}")
    return _read(source, size)


def _read(source: ByteSource, size: int) -> bytes:
    data = source.read(size)
    if len(data) < size:
        raise MessageError(ErrorCode.BAD_AVRO, f"the container ends at byte {source.tell()}, in the middle")
    return data


def _read_long(source: ByteSource, first: int | None = None) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = _read(source, 1)[0] if shift or first is None else first
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1)
    raise MessageError(ErrorCode.BAD_AVRO, f"a number does not end at byte {source.tell()}")


def read_blocks(source: ByteSource, header: Header, max_bytes: int) -> Iterator[Block]:
    """Yield the blocks that follow the header, undecoded; those without records are left out.

    Raises MessageError, with the position in the container, at the first block whose framing is damaged or that is
    larger than ``max_bytes``: behind it no boundary can be trusted.
    """
    while (block := _read_block(source, header, max_bytes)) is not None:
        if block.records:
            yield block


def _read_block(source: ByteSource, header: Header, max_bytes: int) -> Block | None:
    offset = source.tell()
    if not (first := source.read(1)):
        return None
    count, size = _read_long(source, first[0]), _read_long(source)
    _check_block(count, size, offset, max_bytes)
    block = Block(count, _read(source, size), offset)
    if _read(source, SYNC_BYTES) != header.sync:
        raise MessageError(ErrorCode.BAD_AVRO, f"no sync marker behind the block at byte {offset}")
    return block


def _check_block(count: int, size: int, offset: int, max_bytes: int) -> None:
    if size > max_bytes:
        message = f"the block at byte {offset} says {size} bytes, over the limit of {max_bytes}"
        raise MessageError(ErrorCode.TOO_LARGE, message)
    # No record of ours is empty, so there are at most as many as bytes; decompressed, those are limited too.
    if size < 0 or not 0 <= count <= max_bytes or (count and not size):
        raise MessageError(ErrorCode.BAD_AVRO, f"the block at byte {offset} says {count} records in {size} bytes")


def decode_block(header: Header, block: Block, max_bytes: int) -> Iterator[dict[str, Any] | Lost]:
    """Yield the records of a block as canonical dicts, in order; in place of what cannot be read, what is lost and why.

    Every record of the block is accounted for. ``max_bytes`` limits the decompressed block. Raises nothing.
    """
    try:
        writer = writer_of(header.schema)
        data = decompress(header.codec, block.data, max_bytes)
        _check_block(block.records, len(data), block.offset, len(data))
    except MessageError as error:
        yield Lost(error, block.data, block.records)
        return
    yield from _decode_records(writer, block, data)


def _decode_records(writer: Writer, block: Block, data: bytes) -> Iterator[dict[str, Any] | Lost]:
    stream, read, parsed = BytesIO(data), fastavro.schemaless_reader, writer.parsed
    for done in range(block.records):
        start = stream.tell()
        try:
            if len(data) > LARGE_BLOCK_BYTES:
                check_counts(parsed, data, start)
            record: Any = read(stream, parsed, None)
        except MessageError as error:
            yield Lost(error, data[start:], block.records - done)
            return
        except Exception as error:  # noqa: BLE001 - what fastavro raises on damaged bytes is an open set
            yield Lost(_undecodable(block, done, error), data[start:], block.records - done)
            return
        if done == block.records - 1 and stream.tell() != len(data):
            yield Lost(_trailing(block, len(data) - stream.tell()), data[start:], 1)
            return
        try:
            yield writer.accept(record)
        except MessageError as error:
            yield Lost(error, data[start : stream.tell()], 1)


def _undecodable(block: Block, done: int, error: Exception) -> MessageError:
    lost = block.records - done
    place = f"record {done + 1} of the block at byte {block.offset}"
    return MessageError(
        ErrorCode.BAD_AVRO, f"{place} does not decode ({type(error).__name__}); {lost} records are lost"
    )


def _trailing(block: Block, left: int) -> MessageError:
    # Which record is too short cannot be told; the last one is refused, as it is when it comes as a message of its own.
    return MessageError(ErrorCode.TRAILING_BYTES, f"{left} bytes are left over in the block at byte {block.offset}")
