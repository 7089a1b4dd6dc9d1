"""Reads events from files and standard input: JSON Lines, JSON arrays, JSON texts, Avro containers; gzip and zstd too.

Two halves with a process boundary in mind: :func:`chunks` cuts a file, which is cheap, and :func:`decode_chunk` decodes
what was cut, which is not, and needs nothing but the chunk.

A file is recognised by its content, never by its name. ``{`` alone on the first line means pretty-printed JSON: one
text or several, each a record that ends where its brackets balance. A labelled case, as decision tables are tested
with, is read as the event that it labels.
"""

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Literal

from schemas.canonical import encode_json
from schemas.container import MAGIC, Block, Header, Lost, decode_block, read_blocks, read_header
from schemas.errors import ErrorCode, MessageError
from schemas.json_form import parse_json
from schemas.wire import SchemaSource
from streams.batch import PART_RECORDS, Decoded
from streams.cut import BOM, Failure, Limits, Text, cut_array, cut_lines, cut_texts
from streams.pieces import ByteReader, Compression, Meter, compression_of, read_pieces

Form = Literal["lines", "array", "texts", "container", "unknown"]
STDIN = "-"
SOURCE_KIND = "file"
"""Kind of a file as a source in the ingest ledger."""

_DEFAULT_LIMITS = Limits()
_PARTITION_DIGITS = 32
_HEAD_BYTES = 64 << 10
_ARRAY = re.compile(rb"\s*\[")
_TEXTS = re.compile(rb"\s*\{[ \t\r]*\n")
_BINARY = re.compile(rb".{0,3}[\x00-\x08\x0e-\x1f]", re.DOTALL)


@dataclass(frozen=True)
class Source:
    """A file that can be read, again and again, to the same records at the same positions.

    ``partition`` is a digest of its bytes as they are stored, so the same file has the same positions wherever it lies;
    ``size`` is their number. ``name`` is what the user gave; standard input and pipes are read from a spooled copy.
    """

    name: str
    path: Path
    size: int
    partition: str
    compression: Compression
    form: Form


@dataclass(frozen=True)
class Chunk:
    """Some consecutive records of a source, undecoded, as small to pickle as they are to store.

    ``first`` is the position of the first record, counted from 0, ``count`` the number of positions, ``consumed`` how
    many stored bytes of the source were read so far. ``header`` is there if the items are blocks.
    """

    first: int
    count: int
    consumed: int
    items: tuple[Text | Block | Failure, ...]
    header: Header | None = None

    @property
    def end(self) -> int:
        """The position behind the last."""
        return self.first + self.count

    def parts(self) -> "Iterator[Chunk]":
        """The same as several chunks of about :data:`PART_RECORDS` messages; a block stays whole."""
        first, count, items = self.first, 0, list[Text | Block | Failure]()
        for item in self.items:
            items.append(item)
            count += item.records if isinstance(item, Block) else 1
            if count >= PART_RECORDS:
                yield replace(self, first=first, count=count, items=tuple(items))
                first, count, items = first + count, 0, []
        if items:
            yield replace(self, first=first, count=count, items=tuple(items))

    def plain_text(self) -> bytes | None:
        """All bytes in which a secret would show as it is; None if the blocks are compressed."""
        if self.header is not None and self.header.codec != "null":
            return None
        items = (item for item in self.items if not isinstance(item, Failure))
        return b"\n".join(item.data if isinstance(item, Block) else item[1] for item in items)

    def decode(self, limits: Limits, schemas: SchemaSource | None = None) -> list[Decoded]:  # noqa: ARG002 -- a file brings its own
        """See :func:`decode_chunk`."""
        return decode_chunk(self, limits)

    def raw_of(self, decoded: Decoded) -> bytes:
        """What a record that was decoded, then refused, was read from; of a block, which holds many, only its own."""
        if decoded.record is None:
            return b""
        return encode_json(decoded.record) if self.header else self.items[decoded.position - self.first][1]


def place_of(source: Source, decoded: Decoded) -> str:
    """Where a record stood, for people: file, and line in a text, else number of the record, counted from 1."""
    name = "standard input" if source.name == STDIN else source.name
    return f"{name}, line {decoded.line}" if decoded.line else f"{name}, record {decoded.position + 1}"


def open_source(location: str, spool: Path, stdin: BinaryIO) -> Source:
    """Identify a file by path, or ``-`` for ``stdin``. Raises OSError if it cannot be read.

    What cannot be read twice is copied to a file in the directory ``spool``, which the caller removes when done. The
    bytes that are there now are the source: what is appended later is not read.
    """
    path = _readable(location, spool, stdin)
    with path.open("rb") as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
        size = handle.tell()
        handle.seek(0)
        compression = compression_of(handle.read(4))
        handle.seek(0)
        form = _form(read_pieces(handle, size, compression, Meter()))
    return Source(location, path, size, digest[:_PARTITION_DIGITS], compression, form)


def _readable(location: str, spool: Path, stdin: BinaryIO) -> Path:
    if location == STDIN:
        return _spooled(stdin, spool)
    with Path(location).open("rb") as handle:
        return Path(location) if handle.seekable() else _spooled(handle, spool)


def _spooled(handle: BinaryIO, spool: Path) -> Path:
    descriptor, name = tempfile.mkstemp(dir=spool)
    with os.fdopen(descriptor, "wb") as copy:
        shutil.copyfileobj(handle, copy)
    return Path(name)


def _form(pieces: Iterator[bytes]) -> Form:
    try:
        head = next(pieces, b"")[:_HEAD_BYTES]
    except MessageError:
        return "lines"  # damaged from the start, which reading it reports
    text = head.removeprefix(BOM)
    if head.startswith(MAGIC):
        return "container"
    if _BINARY.match(head):
        return "unknown"
    return "array" if _ARRAY.match(text) else "texts" if _TEXTS.match(text) else "lines"


def chunks(source: Source, limits: Limits = _DEFAULT_LIMITS) -> Iterator[Chunk]:
    """Cut a source into chunks that cover all of its positions in order, whatever its bytes are.

    Holds one chunk, one record and one piece in memory. Raises OSError, nothing else.
    """
    meter = Meter()
    with source.path.open("rb") as handle:
        pieces = read_pieces(handle, source.size, source.compression, meter)
        if source.form == "container":
            yield from _block_chunks(ByteReader(pieces), limits, meter)
        else:
            items = _CUTTERS[source.form](_without_bom(pieces), limits)
            yield from _grouped(((1, _weight(item), item) for item in items), None, limits, meter)


def _without_bom(pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield next(pieces, b"").removeprefix(BOM)
    yield from pieces


def _weight(item: Text | Failure) -> int:
    return len(item[1])


def _cut_unknown(pieces: Iterator[bytes], limits: Limits) -> Iterator[Text | Failure]:
    head = next(pieces, b"")[: limits.kept_bytes]
    message = "neither JSON in UTF-8 nor an Avro container, plain or in gzip or zstd"
    yield Failure(MessageError(ErrorCode.BAD_FRAMING, message), head, len(head))


_CUTTERS: dict[Form, Callable[[Iterator[bytes], Limits], Iterator[Text | Failure]]] = {
    "lines": cut_lines,
    "array": cut_array,
    "texts": cut_texts,
    "unknown": _cut_unknown,
}


def _block_chunks(reader: ByteReader, limits: Limits, meter: Meter) -> Iterator[Chunk]:
    header = None
    try:
        header = read_header(reader)
    except MessageError as error:
        yield Chunk(0, 1, meter.taken, (_rest(reader, error, limits),))
        return
    yield from _grouped(_cut_blocks(reader, header, limits), header, limits, meter)


def _cut_blocks(reader: ByteReader, header: Header, limits: Limits) -> Iterator[tuple[int, int, Block | Failure]]:
    reader.mark()
    try:
        for block in read_blocks(reader, header, limits.message_bytes):
            yield block.records, len(block.data), block
            reader.mark()
    except MessageError as error:
        yield 1, 0, _rest(reader, error, limits)


def _rest(reader: ByteReader, error: MessageError, limits: Limits) -> Failure:
    raw = reader.since_mark(limits.kept_bytes)
    return Failure(error, raw, len(raw))


def _grouped(
    items: Iterator[tuple[int, int, Text | Block | Failure]], header: Header | None, limits: Limits, meter: Meter
) -> Iterator[Chunk]:
    first, count, size = 0, 0, 0
    group: list[Text | Block | Failure] = []
    for records, weight, item in items:
        group.append(item)
        count += records
        size += weight
        if count >= limits.chunk_records or size >= limits.chunk_bytes:
            yield Chunk(first, count, meter.taken, tuple(group), header)
            first, count, size, group = first + count, 0, 0, []
    if group:
        yield Chunk(first, count, meter.taken, tuple(group), header)


def decode_chunk(chunk: Chunk, limits: Limits = _DEFAULT_LIMITS) -> list[Decoded]:
    """Decode a chunk into what stands at each of its positions, in order. Pure; raises nothing, whatever the bytes are.

    Give it the limits that the chunk was cut with.
    """
    decoded: list[Decoded] = []
    index = chunk.first
    for item in chunk.items:
        if isinstance(item, Failure):
            decoded.append(Decoded(index, item.line, None, item.error, item.raw, item.size))
            index += 1
        elif isinstance(item, Block):
            decoded.extend(_decode_block(chunk.header, item, index, limits))
            index += item.records
        else:
            decoded.append(_decode_text(item, index, limits))
            index += 1
    return decoded


def _decode_text(item: Text, index: int, limits: Limits) -> Decoded:
    line, body = item
    try:
        return Decoded(index, line, parse_json(body, max_bytes=limits.message_bytes, labelled=True))
    except MessageError as error:
        return Decoded(index, line, None, error, body, len(body))


def _decode_block(header: Header | None, block: Block, index: int, limits: Limits) -> Iterator[Decoded]:
    if header is None:
        raise TypeError("a chunk of blocks has a header")
    for outcome in decode_block(header, block, limits.message_bytes):
        if isinstance(outcome, Lost):
            lost = outcome.records
            yield Decoded(index, None, None, outcome.error, outcome.raw, len(outcome.raw), span=lost, messages=lost)
            index += outcome.records
        else:
            yield Decoded(index, None, outcome)
            index += 1
