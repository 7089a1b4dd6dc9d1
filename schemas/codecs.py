"""Codecs of Avro container blocks, with a limit on what a block may unfold to."""

import bz2
import lzma
import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

import zstandard

from schemas.errors import ErrorCode, MessageError

_XZ_MEMORY = 256 << 20
_ZSTD_STEP = 512
_CRC_BYTES = 4


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def decompress(codec: str, data: bytes, max_bytes: int) -> bytes:
    """Decompress a block by one of :data:`CODECS`.

    Raises MessageError: ``too_large`` if it unfolds to more than ``max_bytes``, ``bad_avro`` if it is damaged.
    """
    try:
        plain = CODECS[codec](data, max_bytes)
    except (zlib.error, zstandard.ZstdError, lzma.LZMAError, OSError, ValueError, EOFError):
        raise MessageError(ErrorCode.BAD_AVRO, f"the block does not decompress ({codec})") from None
    if len(plain) > max_bytes:
        raise MessageError(ErrorCode.TOO_LARGE, f"the block unfolds to more than the limit of {max_bytes} bytes")
    return plain


# Each returns the plain bytes, or a little more than the limit of them, and raises if the end is missing.


def _null(data: bytes, _limit: int) -> bytes:
    return data


def _deflate(data: bytes, limit: int) -> bytes:
    # Some writers leave zlib's checksum behind the stream; what follows its end is not looked at.
    return _bounded(zlib.decompressobj(wbits=-15), data, limit)


def _bzip2(data: bytes, limit: int) -> bytes:
    return _bounded(bz2.BZ2Decompressor(), data, limit)


def _xz(data: bytes, limit: int) -> bytes:
    return _bounded(lzma.LZMADecompressor(memlimit=_XZ_MEMORY), data, limit)


def _bounded(decompressor: _Decompressor, data: bytes, limit: int) -> bytes:
    plain = decompressor.decompress(data, limit + 1)
    if len(plain) <= limit and not decompressor.eof:
        raise EOFError
    return plain


def _zstandard(data: bytes, limit: int) -> bytes:
    # Its decompressor has no limit of its own, but 512 bytes unfold to 16 MB at most.
    frame, parts, size = zstandard.ZstdDecompressor().decompressobj(), [b""], 0
    for start in range(0, len(data), _ZSTD_STEP):
        if frame.eof or size > limit:
            break
        parts.append(frame.decompress(data[start : start + _ZSTD_STEP]))
        size += len(parts[-1])
    if size <= limit and not frame.eof:
        raise EOFError
    return b"".join(parts)


def _snappy(data: bytes, limit: int) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - slow to import, and only this codec needs it

    body, checksum = data[:-_CRC_BYTES], data[-_CRC_BYTES:]
    size = _snappy_size(body)
    if size > limit:
        return bytes(limit + 1)
    plain: bytes = pa.Codec("snappy").decompress(body, size, asbytes=True)
    if zlib.crc32(plain).to_bytes(_CRC_BYTES, "big") != checksum:
        raise ValueError
    return plain


def _snappy_size(body: bytes) -> int:
    size = 0
    for position, byte in enumerate(body[:5]):
        size |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            return size
    raise EOFError


CODECS: Mapping[str, Callable[[bytes, int], bytes]] = MappingProxyType(
    {
        "null": _null,
        "deflate": _deflate,
        "bzip2": _bzip2,
        "xz": _xz,
        "zstandard": _zstandard,
        "snappy": _snappy,
    }
)
"""Codecs by the name in a container's header."""
