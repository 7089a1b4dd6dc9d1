"""Events with one field changed: what explaining and counterfactuals try out."""

from typing import Any

from classifier.fact import Event

Path = tuple[str | int, ...]
"""Where a value stands in an event: field names, and indexes of list items counted from 0."""


def changed(event: Event, path: Path, value: Any) -> Event:
    """The event with ``value`` at ``path``; a path that ends in an index appends to its list.

    The event given is not touched: what lies on the path is copied, the rest is shared.
    """
    copy: Event = _changed(event, path, value)
    return copy


def _changed(place: Any, path: Path, value: Any) -> Any:
    key, rest = path[0], path[1:]
    if not isinstance(place, list):
        return place | {key: _changed(place[key], rest, value) if rest else value}
    if not rest:
        return [*place, value]
    return [_changed(item, rest, value) if index == key else item for index, item in enumerate(place)]


def path_text(path: Path) -> str:
    """A path as messages write it: ``tool_calls[2].outcome``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def pattern_text(path: Path) -> str:
    """A path without its indexes, the same for all items of a list: ``tool_calls[].outcome``."""
    return "".join("[]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
