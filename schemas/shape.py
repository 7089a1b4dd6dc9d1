"""How the records of the contract nest: which fields are records, lists, maps, instants, floating-point numbers.

Derived from the Avro schema, so from the models. It lets code that walks every event touch only what it must.
"""

import functools
from dataclasses import dataclass
from typing import Any

from schemas.avro import AvroType, avro_schema
from schemas.contract import INCOMING

Children = tuple[tuple[str, "Shape"], ...]


@dataclass(frozen=True)
class Shape:
    """The fields of one record type, by what they hold; any value but that of a list or map may be None."""

    names: frozenset[str]
    records: Children
    record_lists: Children
    sized: tuple[str, ...]
    instants: tuple[str, ...]
    doubles: tuple[str, ...]
    double_maps: tuple[str, ...]

    def all_names(self) -> frozenset[str]:
        """Return the field names of this record and of all that it encloses."""
        children = (child for _, child in (*self.records, *self.record_lists))
        return self.names.union(*(child.all_names() for child in children))


@functools.cache
def shape_of(kind: str) -> Shape:
    """Return the shape of the incoming record type ``kind``, one of :data:`schemas.contract.INCOMING`."""
    return _shape(avro_schema(INCOMING[kind]), {})


def _shape(record: dict[str, Any], defined: dict[str, AvroType]) -> Shape:
    fields = {field["name"]: _value(field["type"], defined) for field in record["fields"]}
    lists = {name: kind["items"] for name, kind in fields.items() if _is(kind, "array")}
    return Shape(
        names=frozenset(fields),
        records=_children(fields, defined),
        record_lists=_children(lists, defined),
        sized=tuple(name for name, kind in fields.items() if _is(kind, "array") or _is(kind, "map")),
        instants=tuple(name for name, kind in fields.items() if isinstance(kind, dict) and "logicalType" in kind),
        doubles=tuple(name for name, kind in fields.items() if kind == "double"),
        double_maps=tuple(name for name, kind in fields.items() if _is(kind, "map") and kind["values"] == "double"),
    )


def _value(kind: AvroType, defined: dict[str, AvroType]) -> AvroType:
    """Return the type of a value that is there; a type that an earlier field defined is referred to by its name."""
    if isinstance(kind, list):
        return _value(next(branch for branch in kind if branch != "null"), defined)
    if isinstance(kind, dict) and "name" in kind:
        defined[kind["name"]] = kind
    return defined.get(kind, kind) if isinstance(kind, str) else kind


def _is(kind: AvroType, name: str) -> bool:
    return isinstance(kind, dict) and kind["type"] == name


def _children(fields: dict[str, AvroType], defined: dict[str, AvroType]) -> Children:
    values = {name: _value(kind, defined) for name, kind in fields.items()}
    return tuple((name, _shape(kind, defined)) for name, kind in values.items() if _is(kind, "record"))
