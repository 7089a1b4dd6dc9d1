"""In what two decision tables differ, in words."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from classifier.table import Row, Table


def differences(old: Table, new: Table) -> list[str]:
    """What ``new`` changes of ``old``: rows in the order of the new table, then numbers, switches and queues.

    Empty where both decide everything alike and hand over to the same people. The names of the tables do not count.
    """
    return [
        *_rows(old.file.rows, new.file.rows),
        *_entries("threshold", old.file.thresholds.model_dump(), new.file.thresholds.model_dump()),
        *_entries("switch", old.file.switches, new.file.switches),
        *_entries("queue", _dumped(old), _dumped(new)),
    ]


def _dumped(table: Table) -> dict[str, Any]:
    return {name: queue.model_dump() for name, queue in table.file.queues.items()}


def _rows(old: list[Row], new: list[Row]) -> Iterator[str]:
    before, after = [row.id for row in old], [row.id for row in new]
    yield from (f"row {id_} is gone; it was row {before.index(id_) + 1}" for id_ in before if id_ not in after)
    moved = _moved(before, after)
    for number, row in enumerate(new, 1):
        if row.id not in before:
            yield f"row {row.id} is new: row {number}, {_content(row)}"
            continue
        if row.id in moved:
            yield f"row {row.id} moved from {before.index(row.id) + 1} to {number}"
        yield from _fields(f"row {row.id}", _plain(old[before.index(row.id)]), _plain(row))


def _plain(row: Row) -> dict[str, Any]:
    """A row's fields, the layout of its conditions left out."""
    finer = [f"{reason.code} when {' '.join(reason.when.split())}" for reason in row.reasons]
    return row.model_dump(exclude={"id"}) | {"when": " ".join(row.when.split()), "reasons": finer}


def _content(row: Row) -> str:
    queue = f" in {row.queue}" if row.queue else ""
    return f"{row.exit}{queue} when {' '.join(row.when.split())}"


def _moved(before: list[str], after: list[str]) -> set[str]:
    """Ids that do not stand in their old order among those that both tables have."""
    kept, now = [id_ for id_ in before if id_ in after], [id_ for id_ in after if id_ in before]
    blocks = difflib.SequenceMatcher(None, kept, now, autojunk=False).get_matching_blocks()
    return set(now) - {id_ for block in blocks for id_ in now[block.b : block.b + block.size]}


def _entries(what: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{what} {name} is gone" for name in old if name not in new)
    for name, value in new.items():
        if name not in old:
            yield f"{what} {name} is new: {_said(value)}"
        elif isinstance(value, Mapping):
            yield from _fields(f"{what} {name}", old[name], value)
        elif value != old[name]:
            yield f"{what} {name} is {_said(value)} instead of {_said(old[name])}"


def _fields(place: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name, value in new.items():
        if value != old[name]:
            yield f"{place}: {name} is {_said(value)} instead of {_said(old[name])}"


def _said(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_said(each)}" for name, each in value.items())
    if isinstance(value, list):
        return "; ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)
