"""What the tests of source adapters share: reading sample files, golden records, and ways to break a document."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from schemas.errors import MessageError
from sources.base import Adapter, Document, Imported, Options, Reading, open_document

ROOT = Path(__file__).parents[1]
DATA = ROOT / "data"
GOLDEN = ROOT / "golden" / "sources"

BROKEN: tuple[Any, ...] = (None, "x", [], {}, 1e308)


def read_file(adapter: Adapter, path: Path, options: Options | None = None) -> list[Imported | MessageError]:
    """Everything that the adapter makes of a file."""
    return list(adapter.read(open_document(path.name, path.read_bytes(), options or Options())))


def read_json(adapter: Adapter, value: Any, name: str = "sample.json") -> list[Imported | MessageError]:
    """Everything that the adapter makes of a JSON document."""
    return list(adapter.read(Document(name, json.dumps(value).encode())))


def records(items: Reading | list[Imported | MessageError], kind: str = "terminal_event") -> list[dict[str, Any]]:
    """The imported records of one type; fails if anything was an error."""
    found = list(items)
    assert not [item for item in found if isinstance(item, MessageError)]
    return [item.record for item in found if isinstance(item, Imported) and item.record["type"] == kind]


def errors(items: list[Imported | MessageError]) -> list[MessageError]:
    """The errors alone."""
    return [item for item in items if isinstance(item, MessageError)]


def satisfied(items: list[Imported | MessageError]) -> bool:
    """Whether any event's completion predicate is satisfied."""
    found = (item.record for item in items if isinstance(item, Imported))
    return any(record.get("completion", {}).get("result") == "satisfied" for record in found)


def golden_lines(adapter: Adapter, path: Path) -> str:
    """The records of a file as JSON Lines, in the order in which the adapter gives them."""
    rows = (item.record for item in read_file(adapter, path) if isinstance(item, Imported))
    return "".join(json.dumps(row, sort_keys=True, ensure_ascii=False) + "\n" for row in rows)


def golden_path(adapter: Adapter, path: Path) -> Path:
    """Where the golden records of a sample file are."""
    return GOLDEN / adapter.name / f"{path.stem}.jsonl"


def write_golden(adapter: Adapter, *paths: Path) -> None:
    """Rewrite the golden records; to be called by hand after a change was looked at."""
    for path in paths:
        target = golden_path(adapter, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(golden_lines(adapter, path), encoding="utf-8")


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths of every value inside of a JSON value, the root included."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places(item, (*path, key))


def replaced(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    """A copy of the JSON value with another value at one place; what is not on the path is shared."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def broken(value: Any) -> Iterator[Any]:
    """The JSON value with each of its places replaced in turn by null, text, a list, an object and a huge number."""
    for path in places(value):
        for new in BROKEN:
            yield replaced(value, path, new)


def without_words(record: dict[str, Any]) -> dict[str, Any]:
    """A terminal event without what is meant for people: prose and tool responses."""
    copy = json.loads(json.dumps(record))
    for block in (copy.get("request", {}), copy.get("model", {})):
        block.pop("prose", None)
    for call in copy.get("tool_calls", []):
        call.pop("response", None)
        call.pop("response_digest", None)
    return copy


def reworded(value: Any, keys: frozenset[str], words: str = "I am done, Error: ###STOP### refused") -> Any:
    """The JSON value with every text under one of the keys replaced."""
    if isinstance(value, list):
        return [reworded(item, keys, words) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: words if key in keys and isinstance(item, str) else reworded(item, keys, words)
        for key, item in value.items()
    }
