"""The evidence digest of an answer: over everything but identity and prose."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from schemas.events import TerminalEvent
from schemas.types import Record
from tests.classifier.answers import default_classifier

Event = dict[str, Any]

IDENTITY = {"event_id", "run_id", "segment", "tenant", "trace_id", "span_id"}


def _digests(event: Event) -> tuple[str, str]:
    answer = default_classifier().classify(event).classification
    return answer["evidence_digest"], answer["content_digest"]


def _full(model: type[Record]) -> Event:
    """A record with something in every field, lists with one item."""
    return {name: _something(info.annotation) for name, info in model.model_fields.items()}


def _something(annotation: Any) -> Any:
    kinds = [kind for kind in (annotation, *_arguments(annotation)) if isinstance(kind, type)]
    records = [kind for kind in kinds if issubclass(kind, Record)]
    if str(annotation).startswith("list"):
        return [_full(records[0]) if records else "first"]
    if str(annotation).startswith("dict"):
        return {"key": 0.5 if float in kinds else "1"}
    return _full(records[0]) if records else _SCALARS[next((kind for kind in kinds if kind in _SCALARS), str)]


_SCALARS: dict[type, Any] = {bool: True, int: 7, float: 0.5, str: "first"}


def _arguments(annotation: Any) -> Iterator[Any]:
    for argument in getattr(annotation, "__args__", ()):
        yield argument
        yield from _arguments(argument)


def _leaves(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(node, dict) and path[-1:] != ("checks",) and path[-1:] != ("extensions",):
        for name, value in node.items():
            yield from _leaves(value, (*path, name))
    elif isinstance(node, list) and isinstance(node[0], dict):
        yield from _leaves(node[0], (*path, 0))
    else:
        yield path


def _other(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, dict):
        return value | {"other": next(iter(value.values()))}
    return value + (["other"] if isinstance(value, list) else "x" if isinstance(value, str) else 1)


def _with(event: Event, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Event:
    changed = copy.deepcopy(event)
    place: Any = changed
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = change(place[path[-1]])
    return changed


FULL = _full(TerminalEvent)
LEAVES = [path for path in _leaves(FULL) if path not in {("type",), ("version",)}]


def _is_evidence(path: tuple[Any, ...]) -> bool:
    return path[0] not in IDENTITY and path[-1] != "prose"


def test_every_field_of_the_contract_is_tried():
    tried = {part for path in LEAVES for part in path}
    assert {"reason_code", "checks", "sources", "expires_at", "arguments", "limit", "ack", "extensions"} <= tried
    assert len(LEAVES) > 120
    assert _prose_fields(TerminalEvent) == 2


def _prose_fields(model: type[Record]) -> int:
    infos = model.model_fields.values()
    nested = {k for info in infos for k in _arguments(info.annotation) if isinstance(k, type) and issubclass(k, Record)}
    own = sum("ProseMarker" in repr(info) for info in infos)
    return own + sum(_prose_fields(record) for record in nested)


def _absent(value: Any) -> Any:
    return type(value)() if isinstance(value, list | dict) else None


def _may_be_absent(path: tuple[Any, ...]) -> bool:
    return len(path) > 1 or not TerminalEvent.model_fields[path[0]].is_required()


CHANGES = [(path, _other) for path in LEAVES] + [(path, _absent) for path in LEAVES if _may_be_absent(path)]


@pytest.mark.parametrize(
    ("path", "change"), CHANGES, ids=lambda part: part.__name__ if callable(part) else ".".join(map(str, part))
)
def test_the_evidence_digest_covers_what_is_evidence_alone(path, change):
    before, after = _digests(FULL), _digests(_with(FULL, path, change))
    assert (after[0] != before[0]) is _is_evidence(path)
    assert after[1] != before[1]
