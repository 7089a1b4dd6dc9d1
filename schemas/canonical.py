"""One canonical form of an event's content, and the two digests over it.

``content_digest`` covers everything; ``evidence_digest`` leaves out identity and prose. Independent lists are sorted
and maps ordered first, so that neither order of arrival nor wire format changes a digest. Steps and alternatives keep
their order, which means something. The input is an event in memory form with its keys in contract order, as both
decoders deliver it.
"""

import hashlib
from collections.abc import Callable
from operator import itemgetter
from typing import Any, get_args, get_origin

import msgspec
from pydantic.fields import FieldInfo

from schemas.events import TerminalEvent
from schemas.types import ProseMarker, Record, record_in

Event = dict[str, Any]
Canonicalise = Callable[[Any], Any]

IDENTITY = ("event_id", "run_id", "segment", "tenant", "trace_id", "span_id")
"""Fields that say which event it is, not how the run ended."""

_ORDERED = frozenset({"steps", "alternatives"})
_NOT_EVIDENCE = frozenset({"type", "version", *IDENTITY})

_sha256 = hashlib.sha256
encode_json = msgspec.json.Encoder().encode
"""Compact JSON of an event in memory form: keys in contract order, instants as microseconds."""


def digests(event: Event) -> tuple[str, str]:
    """The event's ``(evidence_digest, content_digest)``, each ``sha256:`` and 64 hex digits.

    Records go in as their values without names, which halves what is encoded and hashed. A list of several items is
    hashed as its sorted items; everything else goes through one encoding. The content digest continues the evidence
    digest with identity and prose.
    """
    values = list(_evidence_of(event))
    parts = [b""]
    for index, canonicalise in _RECORDS:
        if values[index]:
            values[index] = canonicalise(values[index])
    for index, canonicalise_item in _LISTS:
        items = values[index]
        if not items:
            continue
        if len(items) == 1:
            values[index] = canonicalise_item(items[0])
        else:
            parts.append(b"%d:" % index + b",".join(sorted([encode_json(canonicalise_item(item)) for item in items])))
            values[index] = len(items)
    parts[0] = encode_json(values)
    digest = _sha256(b"\n".join(parts))
    evidence = digest.hexdigest()
    request, model = event["request"], event["model"]
    prose = (request and request["prose"], model and model["prose"])
    digest.update(encode_json((_identity_of(event), prose)))
    return "sha256:" + evidence, "sha256:" + digest.hexdigest()


def content_digest(record: Event) -> str:
    """Digest over everything of a companion record, which has no evidence to tell apart from prose."""
    extensions = _sorted_map(record["extensions"])
    return "sha256:" + hashlib.sha256(encode_json({**record, "extensions": extensions})).hexdigest()


def _sorted_map(value: dict[str, Any]) -> dict[str, Any]:
    return value if len(value) < 2 else {key: value[key] for key in sorted(value)}


def _sorted_list(value: list[Any]) -> list[Any]:
    return value if len(value) < 2 else sorted(value, key=encode_json)


def _record(model: type[Record]) -> Canonicalise:
    """How a record is canonicalised: its values without names and without prose, what is nested in it ordered."""
    fields = [(name, info) for name, info in model.model_fields.items() if not _is_prose(info)]
    nested = [(i, f) for i, (name, info) in enumerate(fields) if (f := _nested(name, info)) is not None]
    values_of: Canonicalise = itemgetter(*(name for name, _ in fields))
    if not nested:
        return values_of

    def canonicalise(record: Event) -> list[Any]:
        values = list(values_of(record))
        for index, order in nested:
            if values[index]:
                values[index] = order(values[index])
        return values

    return canonicalise


def _nested(name: str, info: FieldInfo) -> Canonicalise | None:
    """How a field is canonicalised; None where it stays as it is."""
    model, origin = record_in(info), get_origin(info.annotation)
    if origin is dict:
        return _sorted_map
    if origin is list:
        return _list(model, ordered=name in _ORDERED)
    return _record(model) if model else None


def _list(model: type[Record] | None, *, ordered: bool) -> Canonicalise | None:
    if model is None:
        return None if ordered else _sorted_list
    canonicalise = _record(model)

    def canonicalise_all(items: list[Event]) -> list[Any]:
        found = [canonicalise(item) for item in items]
        return found if ordered else _sorted_list(found)

    return canonicalise_all


def _is_prose(info: FieldInfo) -> bool:
    annotated = [marker for kind in get_args(info.annotation) for marker in getattr(kind, "__metadata__", ())]
    return any(isinstance(marker, ProseMarker) for marker in (*info.metadata, *annotated))


def _plan() -> tuple[list[tuple[int, Canonicalise]], list[tuple[int, Canonicalise]]]:
    """For each evidence field that is more than a scalar, its index and how it is canonicalised: lists of independent
    records item by item, everything else as a whole."""
    records: list[tuple[int, Canonicalise]] = []
    lists: list[tuple[int, Canonicalise]] = []
    for index, (name, info) in enumerate(_EVIDENCE):
        model, canonicalise = record_in(info), _nested(name, info)
        if model and get_origin(info.annotation) is list and name not in _ORDERED:
            lists.append((index, _record(model)))
        elif canonicalise is not None:
            records.append((index, canonicalise))
    return records, lists


_EVIDENCE = [(name, info) for name, info in TerminalEvent.model_fields.items() if name not in _NOT_EVIDENCE]
_RECORDS, _LISTS = _plan()
_evidence_of = itemgetter(*(name for name, _ in _EVIDENCE))
_identity_of = itemgetter(*IDENTITY)
