"""One message off the wire: its first bytes say how it is framed, the rest becomes one canonical dict.

=============================  =================================================================
``{`` after optional blanks    JSON
``C3 01`` + fingerprint        Avro single-object encoding: CRC-64-AVRO, little-endian, 8 bytes
``00`` + schema id             Confluent frame: id of a schema registry, big-endian, 4 bytes
anything else                  BAD_FRAMING
=============================  =================================================================
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO
from types import MappingProxyType
from typing import Any, Protocol

import fastavro

from schemas.check import check_record
from schemas.contract import INCOMING
from schemas.errors import ErrorCode, MessageError
from schemas.json_form import MAX_MESSAGE_BYTES, parse_json
from schemas.published import history
from schemas.writer import Writer, current_writer

__all__ = [
    "LocalSchemas",
    "SchemaSource",
    "check_record",
    "decode",
    "encode_body",
    "encode_confluent",
    "encode_single_object",
    "frame_single_object",
]

SINGLE_OBJECT = b"\xc3\x01"
CONFLUENT = b"\x00"
_SINGLE_OBJECT_HEADER = struct.Struct("<2sQ")
_CONFLUENT_HEADER = struct.Struct(">cI")
_BLANKS = b" \t\r\n"


class SchemaSource(Protocol):
    """Where writers' schemas come from.

    Both questions answer None for a schema that does not exist, raise MessageError for one that cannot be used, and
    anything else, which is never a MessageError, when the source is out of reach.
    """

    def by_fingerprint(self, fingerprint: int) -> Writer | None:
        """Return the schema with this CRC-64-AVRO fingerprint, an unsigned integer."""
        ...

    def by_id(self, schema_id: int) -> Writer | None:
        """Return the schema that the registry knows under this id."""
        ...


@dataclass(frozen=True)
class LocalSchemas:
    """The schemas that need no registry: those handed in."""

    fingerprints: Mapping[int, Writer]
    ids: Mapping[int, Writer] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def published(cls, ids: Mapping[int, str] = MappingProxyType({})) -> "LocalSchemas":
        """Return every schema of an incoming record that was ever published; ``ids`` maps registry ids to types."""
        writers = [current_writer(kind) for kind in INCOMING]
        writers += [Writer.of(schema) for kind in INCOMING for schema in history(kind.replace("_", "-"))]
        by_id = {schema_id: current_writer(kind) for schema_id, kind in ids.items()}
        return cls({writer.fingerprint: writer for writer in reversed(writers)}, by_id)

    def by_fingerprint(self, fingerprint: int) -> Writer | None:
        """Return the schema with this CRC-64-AVRO fingerprint."""
        return self.fingerprints.get(fingerprint)

    def by_id(self, schema_id: int) -> Writer | None:
        """Return the schema under this id."""
        return self.ids.get(schema_id)


def decode(data: bytes, *, schemas: SchemaSource, max_bytes: int = MAX_MESSAGE_BYTES) -> dict[str, Any]:
    """Decode one message into the canonical dict of a terminal event or companion.

    Whatever the bytes are, raises MessageError and nothing else, unless the source of schemas is out of reach. fastavro
    reads a negative index of a union or enumeration from the end; no writer produces one, and the record is valid.
    """
    if len(data) > max_bytes:
        raise MessageError(ErrorCode.TOO_LARGE, f"the message has {len(data)} bytes, more than {max_bytes}")
    if data.startswith(CONFLUENT):
        return _decode_confluent(data, schemas)
    if data.startswith(SINGLE_OBJECT):
        return _decode_single_object(data, schemas)
    if data.lstrip(_BLANKS).startswith(b"{"):
        return parse_json(data, max_bytes=max_bytes)
    raise MessageError(ErrorCode.BAD_FRAMING, "the first byte starts neither JSON nor Avro" if data else "no bytes")


def _decode_confluent(data: bytes, schemas: SchemaSource) -> dict[str, Any]:
    if len(data) < _CONFLUENT_HEADER.size:
        raise MessageError(ErrorCode.BAD_FRAMING, "the frame ends within the schema id")
    _, schema_id = _CONFLUENT_HEADER.unpack_from(data)
    writer = schemas.by_id(schema_id)
    if writer is None:
        raise MessageError(ErrorCode.UNKNOWN_SCHEMA, f"no schema has the id {schema_id}")
    return writer.decode(data, _CONFLUENT_HEADER.size)


def _decode_single_object(data: bytes, schemas: SchemaSource) -> dict[str, Any]:
    if len(data) < _SINGLE_OBJECT_HEADER.size:
        raise MessageError(ErrorCode.BAD_FRAMING, "the message ends within the schema fingerprint")
    _, fingerprint = _SINGLE_OBJECT_HEADER.unpack_from(data)
    writer = schemas.by_fingerprint(fingerprint)
    if writer is None:
        raise MessageError(ErrorCode.UNKNOWN_SCHEMA, f"no schema has the fingerprint {fingerprint:016x}")
    return writer.decode(data, _SINGLE_OBJECT_HEADER.size)


def encode_body(record: dict[str, Any]) -> bytes:
    """Encode a canonical dict by the current schema of its type, without any frame."""
    body = BytesIO()
    fastavro.schemaless_writer(body, current_writer(record["type"]).parsed, record)
    return body.getvalue()


def encode_single_object(record: dict[str, Any]) -> bytes:
    """Encode a canonical dict in Avro single-object encoding."""
    return frame_single_object(record["type"], encode_body(record))


def frame_single_object(kind: str, body: bytes) -> bytes:
    """Put the frame of single-object encoding before a body that the current schema of a record type encoded."""
    return _SINGLE_OBJECT_HEADER.pack(SINGLE_OBJECT, current_writer(kind).fingerprint) + body


def encode_confluent(record: dict[str, Any], schema_id: int) -> bytes:
    """Encode a canonical dict in the Confluent frame, under the id that a registry gave the current schema."""
    return _CONFLUENT_HEADER.pack(CONFLUENT, schema_id) + encode_body(record)
