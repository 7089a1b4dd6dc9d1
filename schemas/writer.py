"""The schema that Avro bytes were written with, made ready to decode them safely.

A schema comes from a registry or a file header, so it is foreign data. Refused is what lets a few bytes stand for much
memory or time: recursion, values of no size (five bytes can be twenty million of them) and schemas that expand without
end. Bodies are decoded by the writer's schema alone; that the contract can read it is established once, here. Logical
types are dropped, since the bytes are the same and an instant stays the integer that it is everywhere else.
"""

import functools
import sys
from dataclasses import dataclass
from io import BytesIO
from typing import Any, NamedTuple

import fastavro
from fastavro.schema import fingerprint, to_parsing_canonical_form
from pydantic_core import from_json

from schemas.avro import AvroType, avro_schema
from schemas.check import check_record
from schemas.compatibility import why_unreadable
from schemas.contract import INCOMING
from schemas.errors import ErrorCode, MessageError
from schemas.json_form import canonical
from schemas.skip import check_counts
from schemas.types import MAX_ITEMS

MAX_JSON_DEPTH = 64
"""Levels of a schema's JSON text. The contract's own has 14."""
MAX_DEPTH = 32
"""Levels of a value once every name is replaced by what it stands for. The contract's own has 7."""
MAX_TYPES = 4096
"""Types of a schema once every name is replaced by what it stands for. The contract's own has 288."""

# The same bytes under another unit name another instant, and nothing else would tell.
_OTHER_INSTANTS = frozenset(
    {
        "timestamp-millis",
        "timestamp-nanos",
        "local-timestamp-millis",
        "local-timestamp-micros",
        "local-timestamp-nanos",
        "time-millis",
        "time-micros",
        "date",
    }
)


@dataclass(frozen=True, eq=False)
class Writer:
    """A writer's schema that the contract can read.

    ``kind`` is the record type that it writes, ``parsed`` what fastavro decodes by, ``fingerprint`` the CRC-64-AVRO of
    its parsing canonical form as an unsigned integer, ``is_current`` whether it writes what the current contract does.
    """

    kind: str
    parsed: AvroType
    fingerprint: int
    is_current: bool

    @classmethod
    def of(cls, schema: AvroType) -> "Writer":
        """Make a decoded JSON schema ready.

        Raises MessageError: UNSUPPORTED_TYPE if it is no record of the contract, INCOMPATIBLE_SCHEMA if it is no valid
        schema, not safe to decode by, or cannot be read as the contract.
        """
        try:
            return cls._checked(schema)
        except MessageError:
            raise
        except Exception as error:  # noqa: BLE001 - the parser lets malformed schemas through, which fail anywhere then
            raise _incompatible(f"it is no valid Avro schema ({type(error).__name__})") from None

    @classmethod
    def _checked(cls, schema: AvroType) -> "Writer":
        parsed = fastavro.parse_schema(_plain(schema, MAX_JSON_DEPTH))
        kind = _kind(parsed)
        _Survey({}).extent(parsed, ())
        current = avro_schema(INCOMING[kind])
        if reasons := why_unreadable(current, parsed):
            raise _incompatible(reasons[0])
        print_ = fingerprint_of(parsed)
        return cls(kind, parsed, print_, print_ == fingerprint_of(current))

    def decode(self, data: bytes, start: int = 0) -> dict[str, Any]:
        """Decode the body that fills ``data`` from ``start`` to its end into the canonical dict of a valid record.

        Raises MessageError and nothing else. Memory is bounded by the size and by the number of items of one message.
        """
        if len(data) - start > MAX_ITEMS:  # an item takes a byte, so what is shorter cannot hold too many
            check_counts(self.parsed, data, start)
        stream = BytesIO(data)
        stream.seek(start)
        record = _decoded(stream, self.parsed)
        if left := len(data) - stream.tell():
            raise MessageError(ErrorCode.TRAILING_BYTES, f"{left} bytes are left over after the record")
        return self.accept(record)

    def accept(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return the canonical dict of a record that was decoded by this schema. Raises MessageError."""
        if record["type"] != self.kind:
            reason = f"the message was written by the schema of {self.kind}"
            raise MessageError(ErrorCode.UNSUPPORTED_TYPE, reason, "type")
        return check_record(record) if self.is_current else canonical(record)


@functools.lru_cache(maxsize=64)
def writer_of(text: bytes) -> Writer:
    """Read a writer's schema from its JSON text. Raises MessageError, as :meth:`Writer.of` does.

    Remembered, since every message of a topic and every block of a file names the same few.
    """
    try:
        schema = from_json(text)
    except ValueError as error:
        raise _incompatible(f"it is no JSON: {error}") from None
    return Writer.of(schema)


def current_writer(kind: str) -> Writer:
    """Return the writer of the current contract for a record type of :data:`schemas.contract.INCOMING`."""
    return _current_writers()[kind]


@functools.cache
def _current_writers() -> dict[str, Writer]:
    return {kind: Writer.of(avro_schema(model)) for kind, model in INCOMING.items()}


def fingerprint_of(schema: AvroType) -> int:
    """Return the CRC-64-AVRO fingerprint of a schema's parsing canonical form as an unsigned integer."""
    little_endian = fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO")
    return int.from_bytes(bytes.fromhex(little_endian), "little")


def _decoded(stream: BytesIO, schema: AvroType) -> Any:
    try:
        return fastavro.schemaless_reader(stream, schema, None)
    except Exception as error:  # noqa: BLE001 - the decoder documents no exceptions, and there is no I/O but memory
        reason = f"the Avro body does not decode ({type(error).__name__})"
        raise MessageError(ErrorCode.BAD_AVRO, reason) from None


def _incompatible(reason: str) -> MessageError:
    return MessageError(ErrorCode.INCOMPATIBLE_SCHEMA, f"the writer's schema cannot be used: {reason}")


def _plain(schema: AvroType, depth: int) -> AvroType:
    """Copy a schema without logical types and without the marks by which the parser knows its own output."""
    if depth == 0:
        raise _incompatible("it is nested too deeply")
    if isinstance(schema, list):
        return [_plain(part, depth - 1) for part in schema]
    if isinstance(schema, dict):
        if (unit := schema.get("logicalType")) in _OTHER_INSTANTS:
            raise _incompatible(f"it counts instants as {unit}; write timestamp-micros")
        kept = {key: value for key, value in schema.items() if key != "logicalType" and not key.startswith("__")}
        return {key: _plain(value, depth - 1) for key, value in kept.items()}
    # Decoded records have these names as keys and symbols as values, and are asked for them by the interpreter's own.
    return sys.intern(schema) if isinstance(schema, str) else schema


def _kind(parsed: AvroType) -> str:
    name = parsed["name"].rpartition(".")[2] if isinstance(parsed, dict) and "fields" in parsed else None
    for kind, model in INCOMING.items():
        if model.__name__ == name:
            return kind
    names = ", ".join(model.__name__ for model in INCOMING.values())
    raise MessageError(ErrorCode.UNSUPPORTED_TYPE, f"the writer's schema must be a record named one of {names}")


class _Extent(NamedTuple):
    """What a schema expands to: how many types, and how many levels of them."""

    types: int
    levels: int


@dataclass(frozen=True)
class _Survey:
    """Measures a parsed schema; every name is measured where it is defined. Raises MessageError if it is not safe."""

    named: dict[str, _Extent]

    def extent(self, schema: AvroType, within: tuple[str, ...]) -> _Extent:
        """``within`` names the records around the schema."""
        if isinstance(schema, list):
            return self._around([part for part in schema if part != "null"], within)
        if isinstance(schema, str):
            return self._reference(schema, within)
        if schema["type"] in ("array", "map"):
            return self._around([schema["items" if schema["type"] == "array" else "values"]], within)
        if "name" in schema:
            self.named[schema["name"]] = self._definition(schema, within)
            return self.named[schema["name"]]
        return self._reference(schema["type"], within)

    def _definition(self, schema: dict[str, Any], within: tuple[str, ...]) -> _Extent:
        if schema["type"] == "fixed" and not (type(schema["size"]) is int and schema["size"] > 0):
            raise _incompatible(f"{schema['name']} takes no bytes")
        if schema["type"] in ("enum", "fixed"):
            return _Extent(1, 1)
        if not schema["fields"]:
            raise _incompatible(f"{schema['name']} has no fields, so it takes no bytes")
        return self._around([field["type"] for field in schema["fields"]], (*within, schema["name"]))

    def _reference(self, name: str, within: tuple[str, ...]) -> _Extent:
        if name == "null":
            raise _incompatible("it has a null outside of a union, which takes no bytes")
        if name in within:
            raise _incompatible(f"{name} contains itself")
        return self.named.get(name, _Extent(1, 1))

    def _around(self, parts: list[AvroType], within: tuple[str, ...]) -> _Extent:
        extents = [self.extent(part, within) for part in parts]
        whole = _Extent(1 + sum(part.types for part in extents), 1 + max((part.levels for part in extents), default=0))
        if whole.types > MAX_TYPES or whole.levels > MAX_DEPTH:
            raise _incompatible(f"it expands to more than {MAX_TYPES} types or {MAX_DEPTH} levels")
        return whole
