"""What every source adapter shares: its contract, and the small tools to read foreign formats without trusting them.

An adapter turns a foreign file into terminal events and companions. It reads machine-readable fields only and guesses
no success. Whatever is wrong with a record is one :class:`MessageError` with its place, and costs only that record.
"""

import hashlib
import io
import json
import math
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import PurePath
from typing import Any, NoReturn, TypeVar
from uuid import UUID, uuid5

import zstandard
from pydantic import ValidationError
from pydantic_core import from_json

from schemas.companions import COMPANIONS
from schemas.errors import ErrorCode, MessageError
from schemas.events import TerminalEvent
from schemas.types import INT64_MAX, INT64_MIN, Record, to_iso, to_micros

HEAD_BYTES = 64 * 1024
MAX_DOCUMENT_BYTES = 512 * 1024 * 1024
RESPONSE_CHARACTERS = 2000
NO_TIME = "1970-01-01T00:00:00Z"

_IDS = UUID("6f3c1d0e-3b0a-5c52-9a54-0d4f7a1e8c11")
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_MODELS: dict[str, type[Record]] = {"terminal_event": TerminalEvent, **COMPANIONS}
_CODES = {
    "missing": ErrorCode.MISSING_FIELD,
    "bad_time": ErrorCode.BAD_TIME,
    "naive_time": ErrorCode.BAD_TIME,
    "time_out_of_range": ErrorCode.OUT_OF_RANGE,
    "string_too_short": ErrorCode.OUT_OF_RANGE,
    "string_too_long": ErrorCode.OUT_OF_RANGE,
    "greater_than_equal": ErrorCode.OUT_OF_RANGE,
    "less_than_equal": ErrorCode.OUT_OF_RANGE,
    "finite_number": ErrorCode.OUT_OF_RANGE,
}

Reading = Iterator["Imported | MessageError"]
T = TypeVar("T")


@dataclass(frozen=True)
class Options:
    """What the caller decides: the tenant, and the instant for records of formats that carry no time (ISO 8601)."""

    tenant: str = "import"
    occurred_at: str = NO_TIME


@dataclass(frozen=True)
class Document:
    """One file to import, already decompressed. ``name`` is its path as the user gave it, without ``.gz``/``.zst``."""

    name: str
    data: bytes
    options: Options = Options()

    @property
    def head(self) -> bytes:
        """The first 64 KiB, which is all that recognition may look at."""
        return self.data[:HEAD_BYTES]


@dataclass(frozen=True)
class Imported:
    """One imported record in the contract's JSON form: instants as ISO strings, absent fields left out, validated."""

    record: dict[str, Any]


@dataclass(frozen=True)
class Adapter:
    """A source format. Each module of this package that exports one as ``ADAPTER`` is found by the registry.

    ``name`` is what the user types, ``title`` what it reads, ``cannot_tell`` what this format leaves unknown, for
    people. ``recognises`` sees the file's name and its first 64 KiB.
    """

    name: str
    title: str
    cannot_tell: tuple[str, ...]
    recognises: Callable[[str, bytes], bool]
    read: Callable[[Document], Reading]


# --- opening -----------------------------------------------------------------------------------------------------


def open_document(name: str, data: bytes, options: Options, max_bytes: int = MAX_DOCUMENT_BYTES) -> Document:
    """Decompress gzip and Zstandard, recognised by content, reading at most ``max_bytes``.

    Raises MessageError: BAD_FRAMING for a damaged or truncated file, TOO_LARGE beyond the limit.
    """
    if not data.startswith((_GZIP, _ZSTD)):
        return Document(name, _limited(data, max_bytes), options)
    unpack = _gunzip if data.startswith(_GZIP) else _unzstd
    return Document(re.sub(r"\.(gz|zst)$", "", name), unpack(data, max_bytes), options)


def _limited(data: bytes, max_bytes: int) -> bytes:
    if len(data) > max_bytes:
        raise MessageError(ErrorCode.TOO_LARGE, f"the file is larger than {max_bytes} bytes")
    return data


def _gunzip(data: bytes, max_bytes: int) -> bytes:
    out = bytearray()
    while data.startswith(_GZIP) and len(out) <= max_bytes:
        member = zlib.decompressobj(wbits=31)
        try:
            out += member.decompress(data, max_bytes + 1 - len(out))
        except zlib.error:
            raise MessageError(ErrorCode.BAD_FRAMING, "the gzip data is damaged") from None
        if not member.eof and len(out) <= max_bytes:
            raise MessageError(ErrorCode.BAD_FRAMING, "the gzip data is truncated")
        data = member.unused_data
    return _limited(bytes(out), max_bytes)


def _unzstd(data: bytes, max_bytes: int) -> bytes:
    reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True)
    try:
        out = _limited(reader.read(max_bytes + 1), max_bytes)
        _check_zstd_end(data)
    except zstandard.ZstdError:
        raise MessageError(ErrorCode.BAD_FRAMING, "the Zstandard data is damaged") from None
    return out


def _check_zstd_end(data: bytes) -> None:
    """Raise if a frame is cut off, which the bounded reader passes over. Only for data known to unpack to little."""
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        frame.decompress(data)
        if not frame.eof:
            raise MessageError(ErrorCode.BAD_FRAMING, "the Zstandard data is truncated")
        data = frame.unused_data


def zip_members(data: bytes, max_bytes: int = MAX_DOCUMENT_BYTES) -> Iterator[tuple[str, bytes | MessageError]]:
    """Yield the members of a ZIP file in name order; a damaged or oversized member is an error in its place.

    ``max_bytes`` bounds all members together. Raises MessageError BAD_FRAMING if the file is no ZIP.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        raise MessageError(ErrorCode.BAD_FRAMING, "the ZIP file is damaged") from None
    with archive:
        for info in sorted(archive.infolist(), key=lambda member: member.filename):
            content = _zip_member(archive, info, max_bytes)
            max_bytes -= len(content) if isinstance(content, bytes) else 0
            yield info.filename, content


def _zip_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, max_bytes: int) -> bytes | MessageError:
    try:
        with archive.open(info) as member:
            content = member.read(max_bytes + 1)
    # zipfile leaks the errors of every layer below it; none of them is ours.
    except (zipfile.BadZipFile, ValueError, OSError, EOFError, RuntimeError, NotImplementedError, zlib.error):
        return MessageError(ErrorCode.BAD_FRAMING, "the member of the ZIP file cannot be read", info.filename)
    if len(content) > max_bytes:
        return MessageError(ErrorCode.TOO_LARGE, "the ZIP file unpacks to more than the limit", info.filename)
    return content


def parse(data: bytes, path: str = "") -> Any:
    """Parse one JSON text. Raises MessageError BAD_JSON, also for bad UTF-8, lone surrogates, absurd nesting."""
    try:
        return from_json(data.removeprefix(b"\xef\xbb\xbf"), cache_strings="keys")
    except ValueError as error:
        # The parser's message gives the place and never the content.
        raise MessageError(ErrorCode.BAD_JSON, str(error), path) from None


def parse_lines(data: bytes) -> Iterator["Node | MessageError"]:
    """Parse JSON Lines to nodes whose path is the line (``line 3``); a bad line is an error and costs only itself."""
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                yield Node(parse(line, f"line {number}"), f"line {number}")
            except MessageError as error:
                yield error


# --- reading foreign JSON ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Node:
    """A foreign JSON value and its path. Absent and null read as None; a wrong type is a MessageError at its place."""

    value: Any
    path: str = ""

    def fail(self, message: str, code: ErrorCode = ErrorCode.BAD_TYPE) -> NoReturn:
        """Raise a MessageError at this place."""
        raise MessageError(code, message, self.path)

    def fields(self) -> dict[str, Any]:
        """Return the object."""
        return self.value if isinstance(self.value, dict) else self.fail("expected an object")

    def at(self, key: str) -> "Node":
        """Return the value under ``key``, of any type; None where absent."""
        return Node(self.fields().get(key), f"{self.path}.{key}" if self.path else key)

    def child(self, key: str) -> "Node":
        """Return the object under ``key``; an empty one where absent or null."""
        node = self.at(key)
        return Node({}, node.path) if node.value is None else Node(node.fields(), node.path)

    def items(self) -> list["Node"]:
        """Return the elements of this list, unchecked; none for null."""
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            self.fail("expected a list")
        return [Node(element, f"{self.path}[{index}]") for index, element in enumerate(self.value)]

    def children(self, key: str) -> list["Node"]:
        """Return the elements of the list under ``key``, unchecked; none where absent or null."""
        return self.at(key).items()

    def text(self, key: str) -> str | None:
        """Return the string under ``key``."""
        return self.at(key).as_text()

    def need_text(self, key: str) -> str:
        """Return the string under ``key``, which must be there and not empty."""
        node = self.at(key)
        return node.as_text() or node.fail("missing", ErrorCode.MISSING_FIELD)

    def as_text(self) -> str | None:
        """Return this value as a string."""
        return self.value if self.value is None or isinstance(self.value, str) else self.fail("expected text")

    def whole(self, key: str) -> int | None:
        """Return the whole number under ``key``, of 64 bits; ``3.0`` counts as one."""
        node, number = self.at(key), self.number(key)
        if number is None or number != int(number):
            return None if number is None else node.fail("expected a whole number")
        if not INT64_MIN <= number <= INT64_MAX:
            node.fail("the number does not fit 64 bits", ErrorCode.OUT_OF_RANGE)
        return int(number)

    def number(self, key: str) -> int | float | None:
        """Return the number under ``key``; NaN and infinities read as absent."""
        node = self.at(key)
        if node.value is None or isinstance(node.value, bool) or not isinstance(node.value, int | float):
            return None if node.value is None else node.fail("expected a number")
        return node.value if isinstance(node.value, int) or math.isfinite(node.value) else None

    def flag(self, key: str) -> bool | None:
        """Return the boolean under ``key``."""
        node = self.at(key)
        return node.value if node.value is None or isinstance(node.value, bool) else node.fail("expected true or false")


def content_text(content: Node) -> str | None:
    """Return the text of a chat message's content: a string, or the text parts of a list joined by newlines."""
    if not isinstance(content.value, list):
        return content.as_text()
    parts = [part.text("text") for part in content.items() if part.fields().get("type") == "text"]
    return "\n".join(part for part in parts if part) or None


def cost_micros(cost: float | None) -> int | None:
    """Convert an amount of money, in units of the currency, to millionths of it. Raises MessageError OUT_OF_RANGE."""
    if cost is not None and not abs(cost) < INT64_MAX // 1_000_000:
        raise MessageError(ErrorCode.OUT_OF_RANGE, "the amount of money does not fit 64 bits")
    return None if cost is None else round(cost * 1_000_000)


def each(items: Iterable[T | MessageError], read: Callable[[T], Reading]) -> Reading:
    """Read every item; what is wrong with one costs only that one, and what it had already yielded stays."""
    for item in items:
        if isinstance(item, MessageError):
            yield item
            continue
        try:
            yield from read(item)
        except MessageError as error:
            yield error


def guarded(read: Callable[[Document], Reading]) -> Callable[[Document], Reading]:
    """Make the MessageErrors that an adapter's ``read`` raises its last item instead of an exception."""

    def reading(document: Document) -> Reading:
        try:
            yield from read(document)
        except MessageError as error:
            yield error

    return reading


# --- writing records ---------------------------------------------------------------------------------------------


def json_text(value: Any) -> str:
    """Write canonical compact JSON text: sorted keys, no spaces, so that equal values have equal texts and digests."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(text: str) -> str:
    """Digest the text in UTF-8: ``sha256:`` and 64 hexadecimal digits."""
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def stable_id(*parts: str) -> str:
    """Return a UUID (version 5) that depends on the parts alone: the same run imported twice has the same identity."""
    return str(uuid5(_IDS, json_text(parts)))


def response(text: str | None) -> dict[str, Any]:
    """Return the fields ``response`` (cut to 2000 characters) and ``response_digest`` (of the whole) of a tool call."""
    return {} if text is None else {"response": text[:RESPONSE_CHARACTERS], "response_digest": digest(text)}


def action_key(tool: str, arguments: Any) -> str:
    """Digest an action; equal tool and arguments have equal keys, whatever the order of the arguments."""
    return digest(json_text([tool, arguments]))


def iso_time(text: str, path: str = "", naive_ahead_s: int = 0) -> str:
    """Convert a foreign ISO 8601 time to UTC. Raises MessageError BAD_TIME.

    A time without an offset is read as UTC, or as ahead of UTC by ``naive_ahead_s`` seconds where that is known.
    """
    try:
        moment = datetime.fromisoformat(text)
        utc = moment if moment.tzinfo else moment.replace(tzinfo=UTC) - timedelta(seconds=naive_ahead_s)
        return to_iso(to_micros(utc))
    except (ValueError, OverflowError):
        raise MessageError(ErrorCode.BAD_TIME, "the time is not a valid ISO 8601 date and time", path) from None


def unix_time(seconds: float, path: str = "") -> str:
    """Convert seconds since the epoch to ISO 8601 in UTC. Raises MessageError BAD_TIME."""
    try:
        return to_iso(round(seconds * 1_000_000))
    except (ValueError, OverflowError):
        raise MessageError(ErrorCode.BAD_TIME, "the time is outside of what a date can hold", path) from None


def terminal_event(  # noqa: PLR0913 - the required identity of the contract, one argument each
    document: Document,
    *,
    source: str,
    identity: Sequence[str],
    run_id: str,
    agent_id: str,
    occurred_at: str | None,
    **blocks: Any,
) -> dict[str, Any]:
    """Build a terminal event as a plain record, to be passed to :func:`imported`.

    ``identity`` names the run within its source format and alone decides ``event_id``; ``occurred_at`` None means that
    the format has no time, so that the option's instant stands in and ``extensions`` says so. Of the file only its
    name is kept, so that the same file read from another folder gives the same event.
    """
    marks = {"import.source": source, "import.file": PurePath(document.name).name}
    marks |= {} if occurred_at else {"import.occurred_at": "absent"}
    return {
        "type": "terminal_event",
        "version": 1,
        "event_id": stable_id(source, *identity),
        "run_id": run_id,
        "tenant": document.options.tenant,
        "agent_id": agent_id,
        "occurred_at": occurred_at or document.options.occurred_at,
        **blocks,
        "extensions": marks | blocks.get("extensions", {}),
    }


def legacy_exit(event: dict[str, Any], *, dispatcher: str, label: str, **fields: Any) -> dict[str, Any]:
    """Build the companion that holds the harness's own verdict, verbatim; to be passed to :func:`imported`."""
    return {
        "type": "legacy_exit",
        "version": 1,
        "record_id": stable_id("legacy_exit", dispatcher, event["event_id"]),
        "tenant": event["tenant"],
        "event_id": event["event_id"],
        "run_id": event["run_id"],
        "dispatcher": dispatcher,
        "label": label,
        **fields,
    }


def imported(record: dict[str, Any]) -> Imported:
    """Drop absent values and validate. Raises MessageError where the record does not keep the contract."""
    pruned = _pruned(record)
    try:
        _MODELS[pruned["type"]].model_validate(pruned)
    except ValidationError as error:
        raise _first_error(error) from None
    return Imported(pruned)


def _pruned(value: Any) -> Any:
    """Without None and empty lists, both of which mean absent. An empty object stays: a block may speak by existing."""
    if isinstance(value, dict):
        return {key: _pruned(item) for key, item in value.items() if item is not None and item != []}
    return [_pruned(item) for item in value] if isinstance(value, list) else value


def _first_error(error: ValidationError) -> MessageError:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    return MessageError(_CODES.get(first["type"], ErrorCode.BAD_TYPE), first["msg"], place)
