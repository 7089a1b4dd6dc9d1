"""A value that no enumeration knows never becomes a good outcome, at any field of the contract."""

# ruff: noqa: E501  (one case a line, so that the tables read as tables)
import copy
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from schemas.events import TerminalEvent
from schemas.types import EnumMarker, Record
from tests.classifier.answers import answer, at

Event = dict[str, Any]
CLAIM = {"claimed": True}
OK = {"operation_id": "op-1", "access": "write", "outcome": "ok", "started_at": at(-10)}
READ_FAILED = {"operation_id": "op-1", "access": "read", "outcome": "timeout"}
GRANT = {"state": "granted", "approver": "person-1", "resolved_at": at(-30)}
ASK = {"operation_id": "op-1", "source": "application", "effect": "require_approval", "approval": GRANT}
ALLOW = {"policy_id": "limits", "source": "application", "effect": "allow", "decided_at": at(-30)}
DENY = ALLOW | {"effect": "deny", "decided_at": at(-60)}
FALLBACK = {
    "version": "1",
    "source": "default",
    "triggers": ["timeout"],
    "access": "read",
    "inputs_digest": "sha256:1f",
}
FALLBACK |= {"shares_failed_dependency": False, "uses_model_judgement": False, "preconditions_met": True}
HANDED_OVER = {"tool_calls": [READ_FAILED], "fallbacks": [FALLBACK]}
PARTS = [{"name": "a", "state": "completed"}, {"name": "b", "state": "omitted", "can_change_result": "no"}]
SETTLED = {"operation_id": "op-1", "status": "not_started", "verified_by": "status_lookup"}

# For each field the parts of an event with a good outcome that rests on it.
GOOD: dict[str, Event] = {
    "model.stop_class": {"model": {"stop_class": "end"}, "completion": CLAIM},
    "policy_decisions.0.source": {"policy_decisions": [ALLOW, DENY], "completion": CLAIM},
    "policy_decisions.0.effect": {"policy_decisions": [ALLOW], "completion": CLAIM},
    "policy_decisions.0.approval.state": {"policy_decisions": [ASK], "tool_calls": [OK], "completion": CLAIM},
    "tool_calls.0.access": {"tool_calls": [READ_FAILED | {"required": False}], "completion": CLAIM},
    "tool_calls.0.outcome": {"tool_calls": [OK], "completion": CLAIM},
    "side_effects.0.status": {"tool_calls": [OK], "side_effects": [SETTLED | {"status": "confirmed"}], "completion": CLAIM},
    "side_effects.0.verified_by": {"tool_calls": [OK | {"outcome": "timeout", "required": False}], "side_effects": [SETTLED], "completion": CLAIM},
    "fallbacks.0.source": HANDED_OVER,
    "fallbacks.0.triggers.0": HANDED_OVER,
    "fallbacks.0.access": HANDED_OVER,
    "components.0.state": {"components": PARTS},
    "components.1.can_change_result": {"components": PARTS},
    "budget.exhausted.0": {"budget": {"exhausted": ["turns"]}, "fallbacks": [FALLBACK | {"triggers": ["budget_exhausted"]}]},
    "completion.result": {"completion": {"claimed": True, "result": "satisfied"}},
    "takeover.state": {"takeover": {"state": "CLOSED"}, "completion": CLAIM},
    "takeover.acks.0.ack": {"takeover": {"state": "CLOSED", "acks": [{"operation_id": "op-1", "ack": "never_started"}]}, "completion": CLAIM},
    "children.0.state": {"children": [{"state": "stopped"}], "completion": CLAIM},
}  # fmt: skip


def _enumerations(model: type[Record], prefix: str = "") -> Iterator[tuple[str, EnumMarker]]:
    for name, info in model.model_fields.items():
        for marker, nested in _parts(info.annotation, info.metadata):
            if marker is not None:
                yield prefix + name, marker
            if nested is not None:
                yield from _enumerations(nested, f"{prefix}{name}.")


def _parts(annotation: Any, metadata: Any = ()) -> Iterator[tuple[EnumMarker | None, type[Record] | None]]:
    yield from ((marker, None) for marker in metadata if isinstance(marker, EnumMarker))
    if isinstance(annotation, type) and issubclass(annotation, Record):
        yield None, annotation
    for argument in get_args(annotation):
        yield from _parts(argument, getattr(argument, "__metadata__", ()))


ENUMERATIONS = dict(_enumerations(TerminalEvent))


def _field(path: str) -> str:
    return ".".join(part for part in path.split(".") if not part.isdigit())


def _with(parts: Event, path: str, value: str) -> Event:
    changed = copy.deepcopy(parts)
    place: Any = changed
    *ahead, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in ahead:
        place = place[part]
    assert place[last] is not None
    place[last] = value
    return changed


def test_every_enumeration_of_the_contract_is_tried():
    assert {_field(path) for path in GOOD} == set(ENUMERATIONS)


@pytest.mark.parametrize("path", GOOD)
def test_an_unknown_value_never_becomes_a_good_outcome(path):
    assert answer(**GOOD[path])["kind"] in ("completed", "fallback", "partial")
    unknown = answer(**_with(GOOD[path], path, "some_new_value"))
    assert unknown["kind"] in ("human_queue", "refusal")


@pytest.mark.parametrize("path", GOOD)
def test_an_unknown_value_reads_as_the_default_symbol(path):
    default = ENUMERATIONS[_field(path)].default
    assert answer(**_with(GOOD[path], path, "some_new_value")) == answer(**_with(GOOD[path], path, default))
