"""Damage to whole files and to every node of a sample, and what an adapter may answer to it: records and errors."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from schemas.errors import MessageError
from sources.base import Adapter, Document, Imported, Options, open_document
from tests.sources.kit import places, replaced

# One value of every JSON type, and the empty and the wrongly filled ones.
STRANGERS: tuple[Any, ...] = (None, "", "text", -1, 2**70, 1e308, 1.5, True, [], [None], {}, {"text": 1})
NO_RUNS = (
    b"",
    b"\x00" * 64,
    b"null",
    b"[]",
    b"{}",
    b"[1]",
    b'"text"',
    b"NaN",
    b"[" * 100_000,
    b"\xff\xfe",
    b"PK\x03\x04",
)


def read(adapter: Adapter, document: Document) -> tuple[list[dict[str, Any]], list[MessageError]]:
    """Read a document to its records and its errors."""
    found = list(adapter.read(document))
    records = [each.record for each in found if isinstance(each, Imported)]
    return records, [each for each in found if isinstance(each, MessageError)]


def opened(path: Path) -> Document:
    """Open a recorded file."""
    return open_document(path.name, path.read_bytes(), Options())


def as_document(value: Any) -> Document:
    """Make a document of a JSON value."""
    return Document("sample.json", json.dumps(value).encode())


def read_value(adapter: Adapter, value: Any) -> list[dict[str, Any]]:
    """Read a JSON value that must be free of errors to its records, of whatever type."""
    records, errors = read(adapter, as_document(value))
    assert errors == []
    return records


def check_hostile_bytes(adapter: Adapter, whole: Document) -> None:
    """Cut the file at many places and replace it by what holds no run: each costs errors, never silence."""
    step = max(1, len(whole.data) // 200)
    cut = [whole.data[:end] for end in range(0, len(whole.data), step)]
    for data in (*cut, *NO_RUNS):
        assert read(adapter, Document(whole.name, data))[1], data[:80]


def check_every_node(adapter: Adapter, value: Any) -> None:
    """Replace and remove every node of the sample: only records and errors come out."""
    assert read(adapter, as_document(value))[0]
    for changed in _changed(value):
        for item in adapter.read(as_document(changed)):
            assert isinstance(item, Imported | MessageError)


def _changed(value: Any) -> Iterator[Any]:
    for path in places(value):
        for stranger in STRANGERS:
            yield replaced(value, path, stranger)
        if path:
            yield _without(value, path)


def _without(value: Any, path: tuple[str | int, ...]) -> Any:
    copy = dict(value) if isinstance(value, dict) else list(value)
    if path[1:]:
        copy[path[0]] = _without(value[path[0]], path[1:])
    else:
        del copy[path[0]]
    return copy
