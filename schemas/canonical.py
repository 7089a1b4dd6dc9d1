"""One canonical form of an event's content, and the two digests over it.

``content_digest`` covers everything; ``evidence_digest`` leaves out identity and prose. Independent lists are sorted
and maps ordered first, so that neither order of arrival nor wire format changes a digest. Steps and alternatives keep
their order, which means something. The input is an event in memory form with its keys in contract order, as both
decoders deliver it.
"""

import hashlib
from collections.abc import Callable
from typing import Any, get_args, get_origin

import msgspec
from pydantic.fields import FieldInfo

from schemas.events import TerminalEvent
from schemas.types import ProseMarker, Record

Event = dict[str, Any]
Canonicalise = Callable[[Any], Any]

IDENTITY = ("event_id", "run_id", "segment", "tenant", "trace_id", "span_id")
"""Fields that say which event it is, not how the run ended."""

_ORDERED = frozenset({"steps", "alternatives"})
_NOT_EVIDENCE = frozenset({"type", "version", *IDENTITY})

encode_json = msgspec.json.Encoder().encode
"""Compact JSON of an event in memory form: keys in contract order, instants as microseconds."""


def digests(event: Event) -> tuple[str, str]:
    """The event's ``(evidence_digest, content_digest)``, each ``sha256:`` and 64 hex digits."""
    digest = hashlib.sha256(encode_json([field(event[name]) for name, field in _EVIDENCE]))
    evidence = digest.hexdigest()
    digest.update(encode_json([[event[name] for name in IDENTITY], *_prose(event)]))
    return f"sha256:{evidence}", f"sha256:{digest.hexdigest()}"


def _prose(event: Event) -> list[Any]:
    return [record and record[name] for record, name in ((event[outer], name) for outer, name in _PROSE)]


def _same(value: Any) -> Any:
    return value


def _sorted_map(value: dict[str, Any]) -> dict[str, Any]:
    return value if len(value) < 2 else {key: value[key] for key in sorted(value)}


def _sorted_strings(value: list[str]) -> list[str]:
    return value if len(value) < 2 else sorted(value)


def _record(model: type[Record]) -> Canonicalise:
    """Drop the prose of a record and order what is nested in it; the record itself is left alone."""
    prose = tuple(name for name, info in model.model_fields.items() if _is_prose(info))
    nested = tuple((n, f) for n, i in model.model_fields.items() if (f := _field(n, i)) is not _same)

    def canonicalise(value: Any) -> Any:
        if value is None or not (prose or any(value[name] for name, _ in nested)):
            return value
        changed = {name: item for name, item in value.items() if name not in prose}
        for name, field in nested:
            changed[name] = field(changed[name])
        return changed

    return canonicalise if prose or nested else _same


def _list(item: Canonicalise, *, ordered: bool) -> Canonicalise:
    def canonicalise(value: list[Any]) -> list[Any]:
        items = value if item is _same else [item(one) for one in value]
        return items if ordered or len(items) < 2 else sorted(items, key=encode_json)

    return canonicalise


def _field(name: str, info: FieldInfo) -> Canonicalise:
    for kind in (info.annotation, *get_args(info.annotation)):
        if isinstance(kind, type) and issubclass(kind, Record):
            listed = get_origin(info.annotation) is list
            return _list(_record(kind), ordered=name in _ORDERED) if listed else _record(kind)
    if get_origin(info.annotation) is dict:
        return _sorted_map
    return _sorted_strings if get_origin(info.annotation) is list and name not in _ORDERED else _same


def _is_prose(info: FieldInfo) -> bool:
    return "ProseMarker" in repr(info.annotation) or any(isinstance(m, ProseMarker) for m in info.metadata)


def _prose_paths() -> tuple[tuple[str, str], ...]:
    paths = []
    for outer, info in TerminalEvent.model_fields.items():
        for kind in get_args(info.annotation):
            if isinstance(kind, type) and issubclass(kind, Record):
                paths += [(outer, name) for name, inner in kind.model_fields.items() if _is_prose(inner)]
    return tuple(paths)


_EVIDENCE = tuple(
    (name, _field(name, info)) for name, info in TerminalEvent.model_fields.items() if name not in _NOT_EVIDENCE
)
_PROSE = _prose_paths()
