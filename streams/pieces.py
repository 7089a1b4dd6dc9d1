"""A file as pieces of bounded size: decompressed if need be, however much a hostile archive would unfold to."""

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, Literal, Protocol

import zstandard

from schemas.errors import ErrorCode, MessageError

Compression = Literal["none", "gzip", "zstd"]
MAGIC: dict[bytes, Compression] = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
PIECE_BYTES = 1 << 20


@dataclass
class Meter:
    """How many bytes of the file, as it is stored, were taken so far."""

    taken: int = 0


class _Member(Protocol):
    """Decompressor of one gzip member or zstd frame."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


@dataclass(frozen=True)
class _Format:
    """A compression: ``step`` bytes of input unfold to 8 MB at the very most, which bounds the memory of a bomb."""

    new_member: Callable[[], _Member]
    step: int
    padding: bytes


def _zstd_frame() -> _Member:
    return zstandard.ZstdDecompressor().decompressobj()


_FORMATS: dict[Compression, _Format] = {
    # Deflate unfolds at most 1032 times. Tapes and some tools pad gzip with zeros.
    "gzip": _Format(partial(zlib.decompressobj, wbits=31), step=1 << 12, padding=b"\0"),
    # Four bytes of zstd can be a block of 128 KB.
    "zstd": _Format(_zstd_frame, step=256, padding=b""),
}


def compression_of(head: bytes) -> Compression:
    """Recognise a compression by the first four bytes of a file."""
    return next((kind for magic, kind in MAGIC.items() if head.startswith(magic)), "none")


def read_pieces(handle: BinaryIO, size: int, compression: Compression, meter: Meter) -> Iterator[bytes]:
    """Yield the first ``size`` bytes of ``handle``, decompressed, in non-empty pieces of about 1 MB (at most 9 MB).

    ``meter`` counts the stored bytes taken. Concatenated members and frames are read through. Raises MessageError
    ``bad_framing`` after everything before a damage was yielded.
    """
    raw = _raw_pieces(handle, size, meter)
    return raw if compression == "none" else _coalesced(_decompressed(raw, compression))


def _raw_pieces(handle: BinaryIO, size: int, meter: Meter) -> Iterator[bytes]:
    while piece := handle.read(min(PIECE_BYTES, size - meter.taken)):
        meter.taken += len(piece)
        yield piece


def _coalesced(pieces: Iterable[bytes]) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    try:
        for piece in pieces:
            parts.append(piece)
            size += len(piece)
            if size >= PIECE_BYTES:
                yield b"".join(parts)
                parts, size = [], 0
    except MessageError:
        if size:
            yield b"".join(parts)
        raise
    if size:
        yield b"".join(parts)


def _decompressed(raw: Iterable[bytes], compression: Compression) -> Iterator[bytes]:
    form = _FORMATS[compression]
    member: _Member | None = None
    for data in _steps(raw, form.step):
        rest = data
        while rest := rest if member else rest.lstrip(form.padding):
            member = member or form.new_member()
            yield _decompress(member, rest, compression)
            rest, member = (member.unused_data, None) if member.eof else (b"", member)
    if member is not None:
        raise MessageError(ErrorCode.BAD_FRAMING, f"the {compression} stream is cut short")


def _steps(pieces: Iterable[bytes], step: int) -> Iterator[bytes]:
    for piece in pieces:
        for start in range(0, len(piece), step):
            yield piece[start : start + step]


def _decompress(member: _Member, data: bytes, compression: Compression) -> bytes:
    try:
        return member.decompress(data)
    except (zlib.error, zstandard.ZstdError):
        raise MessageError(ErrorCode.BAD_FRAMING, f"the {compression} stream is damaged") from None


class ByteReader:
    """Reads given numbers of bytes from pieces, and remembers what it read since the last :meth:`mark`."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._data = b""
        self._next = self._marked = self._dropped = 0

    def tell(self) -> int:
        """Return the position of the next byte."""
        return self._dropped + self._next

    def mark(self) -> None:
        """Forget what was read so far."""
        self._marked = self._next

    def since_mark(self, limit: int) -> bytes:
        """Return up to ``limit`` bytes from the mark on, as far as they were taken from the pieces."""
        return self._data[self._marked : self._marked + limit]

    def read(self, size: int, /) -> bytes:
        """Take the next ``size`` bytes; fewer only at the end. Raises what the pieces raise."""
        end = self._next + size
        if end > len(self._data):
            self._fill(size)
            end = min(self._next + size, len(self._data))
        taken = self._data[self._next : end]
        self._next = end
        return taken

    def _fill(self, size: int) -> None:
        parts = [self._data[self._marked :]]
        missing = size - (len(self._data) - self._next)
        self._dropped += self._marked
        self._next -= self._marked
        self._marked = 0
        try:
            while missing > 0 and (piece := next(self._pieces, b"")):
                parts.append(piece)
                missing -= len(piece)
        finally:
            self._data = b"".join(parts)
