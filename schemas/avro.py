"""Avro schemas, generated from the contract models.

The checked-in files under ``schemas/published/`` are what :func:`avro_schema` returns; a test fails when they differ or
when a change is not fully transitive compatible. An optional field is the union of null and its type with default null,
an absent list is ``[]``, an open enumeration carries its default symbol, an instant is ``timestamp-micros``.
"""

import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from schemas.types import EnumMarker, InstantMarker, Record

NAMESPACE = "offramp.v1"
AvroType = Any
"""A parsed-JSON Avro schema: a name, a list (union) or a dict."""

_PRIMITIVES: dict[Any, str] = {str: "string", int: "long", float: "double", bool: "boolean"}


def avro_schema(contract: Any) -> AvroType:
    """The Avro schema of a contract model or of a union of models, each named type defined at its first use.

    Only the outermost records name the namespace: whatever they enclose inherits it.
    """
    schema = _type(contract, [], set())
    return [_in_namespace(branch) for branch in schema] if isinstance(schema, list) else _in_namespace(schema)


def _in_namespace(record: dict[str, Any]) -> dict[str, Any]:
    return {"type": record["type"], "name": record["name"], "namespace": NAMESPACE} | record


def _record(record: type[Record], seen: set[str]) -> AvroType:
    if record.__name__ in seen:
        return record.__name__
    seen.add(record.__name__)
    fields = [_field(name, info, seen) for name, info in record.model_fields.items()]
    doc = (record.__doc__ or "").strip().split("\n")[0]
    return {"type": "record", "name": record.__name__, "doc": doc, "fields": fields}


def _field(name: str, info: Any, seen: set[str]) -> dict[str, Any]:
    kind = _type(info.annotation, info.metadata, seen)
    field: dict[str, Any] = {"name": name, "type": kind, "doc": info.description or ""}
    if isinstance(kind, list):
        return field | {"default": None}
    if isinstance(kind, dict) and kind["type"] in ("array", "map"):
        return field | {"default": [] if kind["type"] == "array" else {}}
    return field


def _type(annotation: Any, metadata: list[Any], seen: set[str]) -> AvroType:  # noqa: PLR0911 -- a kind each
    for marker in metadata:
        if isinstance(marker, EnumMarker):
            return _enum(marker, seen)
        if isinstance(marker, InstantMarker):
            return {"type": "long", "logicalType": "timestamp-micros"}
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *inner_metadata = get_args(annotation)
        return _type(inner, inner_metadata, seen)
    if origin in (Union, types.UnionType):
        return _union(get_args(annotation), seen)
    if origin is list:
        return {"type": "array", "items": _type(get_args(annotation)[0], [], seen)}
    if origin is dict:
        return {"type": "map", "values": _type(get_args(annotation)[1], [], seen)}
    if origin is Literal:
        return _PRIMITIVES[type(get_args(annotation)[0])]
    if isinstance(annotation, type) and issubclass(annotation, Record):
        return _record(annotation, seen)
    return _PRIMITIVES[annotation]


def _union(members: tuple[Any, ...], seen: set[str]) -> AvroType:
    branches = [_type(member, [], seen) for member in members if member is not type(None)]
    return ["null", *branches] if type(None) in members else branches


def _enum(marker: EnumMarker, seen: set[str]) -> AvroType:
    if marker.name in seen:
        return marker.name
    seen.add(marker.name)
    return {"type": "enum", "name": marker.name, "symbols": list(marker.symbols), "default": marker.default}


def resolved(schema: AvroType, named: dict[str, AvroType] | None = None) -> AvroType:
    """A schema in which every optional type is that type, and every name is replaced by what it stands for."""
    named = {} if named is None else named
    if isinstance(schema, list):
        return resolved(next(branch for branch in schema if branch != "null"), named)
    if isinstance(schema, str):
        return named.get(schema, schema)
    if schema["type"] == "array":
        return schema | {"items": resolved(schema["items"], named)}
    if schema["type"] == "record":
        fields = [field | {"type": resolved(field["type"], named)} for field in schema["fields"]]
        schema = schema | {"fields": fields}
    if "name" in schema:
        named[schema["name"]] = schema
    return schema
