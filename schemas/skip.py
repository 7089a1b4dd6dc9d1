"""A walk over an Avro body that builds nothing: it counts the items of large bodies before anything is decoded.

Every item takes a byte on the wire and up to a kilobyte in memory, so a large body is walked first. Text is jumped
over; the cost follows the number of values, not of bytes, and ends at the limits.
"""

from dataclasses import dataclass
from typing import Any

from schemas.avro import AvroType
from schemas.errors import ErrorCode, MessageError
from schemas.types import MAX_ITEMS

MAX_TOTAL_ITEMS = 16 * MAX_ITEMS
"""Items of all lists and maps of one message together."""

_FIXED_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}


def check_counts(schema: AvroType, data: bytes, start: int = 0) -> int:
    """Walk one record from ``start`` and return where it ends.

    ``schema`` is a parsed writer's schema. Raises MessageError: TOO_LARGE if one list or map has more than MAX_ITEMS
    items or all together more than MAX_TOTAL_ITEMS, BAD_AVRO if the bytes do not follow the schema.
    """
    walk = _Walk(data, start, _names(schema))
    try:
        walk.skip(schema, "")
    except IndexError:
        raise _bad("the body ends early, or names a branch that is not there") from None
    return walk.position


def _names(schema: AvroType) -> dict[str, Any]:
    return dict(schema.get("__named_schemas", {})) if isinstance(schema, dict) else {}


@dataclass
class _Walk:
    data: bytes
    position: int
    names: dict[str, Any]
    items: int = 0

    def skip(self, schema: AvroType, path: str) -> None:
        kind = self.names.get(schema, schema) if isinstance(schema, str) else schema
        if isinstance(kind, list):
            self.skip(kind[self._index(len(kind))], path)
        elif isinstance(kind, dict) and kind["type"] in ("record", "error"):
            for field in kind["fields"]:
                self.skip(field["type"], f"{path}.{field['name']}" if path else field["name"])
        elif isinstance(kind, dict) and kind["type"] in ("array", "map"):
            self._skip_blocks(kind, path)
        elif isinstance(kind, dict) and kind["type"] == "fixed":
            self._advance(kind["size"])
        else:
            self._skip_primitive(kind["type"] if isinstance(kind, dict) else kind)

    def _skip_primitive(self, kind: str) -> None:
        if kind in ("string", "bytes"):
            self._advance(self._long())
        elif kind in _FIXED_SIZES:
            self._advance(_FIXED_SIZES[kind])
        else:
            self._long()

    def _skip_blocks(self, kind: dict[str, Any], path: str) -> None:
        is_map, inside = kind["type"] == "map", 0
        while count := self._count():
            inside, self.items = inside + count, self.items + count
            if inside > MAX_ITEMS or self.items > MAX_TOTAL_ITEMS:
                raise MessageError(ErrorCode.TOO_LARGE, f"must not have more than {MAX_ITEMS} items", path)
            for _ in range(count):
                if is_map:
                    self._advance(self._long())
                self.skip(kind["values" if is_map else "items"], f"{path}[]")

    def _count(self) -> int:
        count = self._long()
        if count < 0:
            self._long()  # a negative count is followed by the size of the block in bytes
        return abs(count)

    def _index(self, branches: int) -> int:
        index = self._long()
        if not 0 <= index < branches:
            raise IndexError
        return index

    def _long(self) -> int:
        result = shift = 0
        while (byte := self.data[self.position]) & 0x80:
            result |= (byte & 0x7F) << shift
            shift += 7
            self.position += 1
            if shift > 63:
                raise _bad("an integer is longer than 64 bits")
        self.position += 1
        result |= byte << shift
        return (result >> 1) ^ -(result & 1)

    def _advance(self, size: int) -> None:
        if not 0 <= size <= len(self.data) - self.position:
            raise _bad("a length reaches beyond the body")
        self.position += size


def _bad(reason: str) -> MessageError:
    return MessageError(ErrorCode.BAD_AVRO, reason)
