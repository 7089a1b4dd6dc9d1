"""Sample records that cover every field of the contract, built from its types so that a new field is covered too."""

from collections.abc import Iterator
from typing import Any

from schemas.avro import avro_schema
from schemas.companions import COMPANIONS
from schemas.contract import INCOMING

NOON = 1_796_040_000_123_456
"""2026-11-30T12:00:00.123456Z."""

REQUIRED = {
    "terminal_event": {"event_id": "e-1", "run_id": "r-1", "tenant": "acme", "agent_id": "a-1", "occurred_at": NOON},
    **{kind: {"record_id": "c-1", "tenant": "acme"} for kind in COMPANIONS},
}

_PRIMITIVES = {"string": "text", "long": 7, "double": 0.5, "boolean": True}


def full(kind: str) -> dict[str, Any]:
    """A canonical record with every field present and every list and map of one item."""
    return _filled(avro_schema(INCOMING[kind]), {}) | {"type": kind, "version": 1}


def minimal(kind: str) -> dict[str, Any]:
    """A canonical record with nothing but what is required."""
    empty = {field["name"]: _empty(field["type"]) for field in avro_schema(INCOMING[kind])["fields"]}
    return empty | {"type": kind, "version": 1} | REQUIRED[kind]


def places(kind: str, wanted: str) -> Iterator[tuple[str | int, ...]]:
    """Where ``full(kind)`` holds a value of a type: an Avro one, or ``timestamp-micros``."""
    yield from _places(avro_schema(INCOMING[kind]), wanted, (), {})


def replaced(record: Any, place: tuple[str | int, ...], value: Any) -> Any:
    """A copy of ``record`` with another value at one place."""
    if not place:
        return value
    head, *rest = place
    if isinstance(record, list):
        return [replaced(item, tuple(rest), value) if i == head else item for i, item in enumerate(record)]
    return record | {head: replaced(record[head], tuple(rest), value)}


def at(record: Any, place: tuple[str | int, ...]) -> Any:
    """The value at a place."""
    for step in place:
        record = record[step]
    return record


def path_of(place: tuple[str | int, ...]) -> str:
    """A place as errors name it."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")


def _resolved(schema: Any, names: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return _resolved(next(branch for branch in schema if branch != "null"), names)
    if isinstance(schema, str):
        return names.get(schema, schema)
    if "name" in schema:
        names[schema["name"]] = schema
    return schema


def _filled(schema: Any, names: dict[str, Any]) -> Any:
    kind = _resolved(schema, names)
    if isinstance(kind, str):
        return _PRIMITIVES[kind]
    if "logicalType" in kind:
        return NOON
    if kind["type"] == "enum":
        return kind["symbols"][0]
    if kind["type"] == "record":
        return {field["name"]: _filled(field["type"], names) for field in kind["fields"]}
    return [_filled(kind["items"], names)] if kind["type"] == "array" else {"key": _filled(kind["values"], names)}


def _empty(schema: Any) -> Any:
    return {"array": [], "map": {}}.get(schema["type"]) if isinstance(schema, dict) else None


def _places(
    schema: Any, wanted: str, place: tuple[str | int, ...], names: dict[str, Any]
) -> Iterator[tuple[str | int, ...]]:
    kind = _resolved(schema, names)
    if wanted == (kind if isinstance(kind, str) else kind.get("logicalType", kind["type"])):
        yield place
    if isinstance(kind, dict) and kind["type"] == "record":
        for field in kind["fields"]:
            yield from _places(field["type"], wanted, (*place, field["name"]), names)
    elif isinstance(kind, dict) and kind["type"] == "array":
        yield from _places(kind["items"], wanted, (*place, 0), names)
    elif isinstance(kind, dict) and kind["type"] == "map":
        yield from _places(kind["values"], wanted, (*place, "key"), names)
