"""The fields of a terminal event, walked by the contract: each with other values that it could have had."""

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

from classifier.change import Path
from classifier.fact import Event
from schemas.avro import AvroType, avro_schema, resolved
from schemas.events import TerminalEvent
from schemas.types import EARLIEST, LATEST

_OTHER_TEXT = "\N{SYMBOL FOR NULL}"
"""A text that no producer writes: equal to nothing else in the event."""


class FieldAt(NamedTuple):
    """One field of one event: where it stands, its value, values of its type that it does not have, and its type."""

    path: Path
    value: Any
    others: tuple[Any, ...]
    is_instant: bool


class Piece(NamedTuple):
    """A piece that evidence comes in: an item of a list of the event, or without index a block or the fencing token."""

    name: str
    item: int | None

    @property
    def path(self) -> Path:
        """Where it stands."""
        return (self.name,) if self.item is None else (self.name, self.item)


def pieces_of(event: Event) -> list[Piece]:
    """The pieces that an event holds: blocks, then items of lists, in contract order."""
    blocks, lists = _top_level()
    found = [Piece(name, None) for name in blocks if event[name] is not None]
    return found + [Piece(name, index) for name in lists for index in range(len(event[name]))]


def reduced(event: Event, kept: list[Piece]) -> Event:
    """The event without the pieces that are not ``kept``; identity and time stay, and so does the order of items."""
    blocks, lists = _top_level()
    copy = event | dict.fromkeys(blocks)
    for name in lists:
        copy[name] = []
    for name, index in sorted(kept, key=lambda piece: piece.item or 0):
        if index is None:
            copy[name] = event[name]
        else:
            copy[name].append(event[name][index])
    return copy


def fields_of(event: Event, piece: Piece) -> Iterator[FieldAt]:
    """The fields of a piece and of the records in it, in contract order."""
    kind, value = _types()[piece.name], event[piece.name]
    if piece.item is None:
        return _walk(kind, value, piece.path)
    return _walk(kind["items"], value[piece.item], piece.path)


def _walk(kind: AvroType, value: Any, path: Path) -> Iterator[FieldAt]:
    if _is_list(kind):
        for index, item in enumerate(value):
            yield from _walk(kind["items"], item, (*path, index))
    elif _is(kind, "record"):
        for field in kind["fields"] if value is not None else ():
            yield from _walk(field["type"], value[field["name"]], (*path, field["name"]))
    else:
        others = tuple(other for other in _values(kind) if other != value)
        yield FieldAt(path, value, others, _is(kind, "long"))


def _values(kind: AvroType) -> tuple[Any, ...]:
    if _is(kind, "array") or _is(kind, "map"):
        return ([] if kind["type"] == "array" else {},)
    if _is(kind, "enum"):
        return (None, *kind["symbols"])
    return _OF_PRIMITIVE[kind if isinstance(kind, str) else "instant"]


_OF_PRIMITIVE: dict[str, tuple[Any, ...]] = {
    "string": (None, _OTHER_TEXT),
    "boolean": (None, True, False),
    "long": (None, 0, 2**53),
    "double": (None, 0.0, 1.0),
    "instant": (None, EARLIEST, LATEST),
}


@functools.cache
def _top_level() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the event's blocks, the fencing token counted with them, and of its lists of records."""
    kinds = _types().items()
    blocks = tuple(name for name, kind in kinds if _is(kind, "record") or name == "fencing_token")
    return blocks, tuple(name for name, kind in kinds if _is_list(kind))


@functools.cache
def _types() -> dict[str, AvroType]:
    return {field["name"]: field["type"] for field in resolved(avro_schema(TerminalEvent))["fields"]}


def _is(kind: AvroType, name: str) -> bool:
    return isinstance(kind, dict) and kind["type"] == name


def _is_list(kind: AvroType) -> bool:
    """Whether it is a list of records; one of texts is a value."""
    return _is(kind, "array") and _is(kind["items"], "record")
