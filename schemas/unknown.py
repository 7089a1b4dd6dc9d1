"""What a raw record holds that the contract does not know: fields, and values of open enumerations.

The reader keeps such fields in ``extensions`` and reads such values as the enumeration's default, so that neither stops
the stream. Whoever instruments a producer wants to see them.
"""

import functools
from collections.abc import Iterator
from io import BytesIO
from typing import Any, NamedTuple

import fastavro

from schemas.avro import AvroType, avro_schema, resolved
from schemas.codecs import decompress
from schemas.container import Block, Header
from schemas.contract import INCOMING
from schemas.upcast import RawRecord, upcast
from schemas.writer import writer_of


class Unknown(NamedTuple):
    """An unknown field, or with a ``value`` an unknown value of a known field; ``path`` has ``[]`` for list items."""

    path: str
    value: str | None


def unknown_in(raw: RawRecord) -> Iterator[Unknown]:
    """What the contract does not know of a decoded record. The record must be one that the reader accepts."""
    current = upcast(raw)
    yield from _walk(_contract(current["type"]), current, "")


@functools.cache
def _contract(kind: str) -> AvroType:
    return resolved(avro_schema(INCOMING[kind]))


def _walk(kind: AvroType, value: Any, path: str) -> Iterator[Unknown]:
    if value is None or isinstance(kind, str):
        return
    if kind["type"] == "record":
        fields = _fields(kind)
        for name, each in value.items():
            place = f"{path}.{name}" if path else name
            if name in fields:
                yield from _walk(fields[name], each, place)
            else:
                yield Unknown(place, None)
    elif kind["type"] == "array":
        for item in value:
            yield from _walk(kind["items"], item, f"{path}[]")
    elif kind["type"] == "enum" and value not in kind["symbols"]:
        yield Unknown(path, value)


def _fields(record: dict[str, Any]) -> dict[str, AvroType]:
    return {field["name"]: field["type"] for field in record["fields"]}


def foreign_records(header: Header, block: Block, max_bytes: int) -> Iterator[RawRecord]:
    """The records of a container's block as their writer named them, up to the first that does not decode.

    None where the writer's schema is the current one, which says nothing that the contract does not know.
    """
    writer = writer_of(header.schema)
    if writer.is_current:
        return
    stream = BytesIO(decompress(header.codec, block.data, max_bytes))
    for _ in range(block.records):
        try:
            record: Any = fastavro.schemaless_reader(stream, writer.parsed, None)
        except Exception:  # noqa: BLE001 - what fastavro raises on damaged bytes is an open set; the reader reports it
            return
        yield record
