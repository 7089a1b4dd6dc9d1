"""The generators reach what they promise; a property test is only as good as the events that it is given."""

import types
from collections import defaultdict
from collections.abc import Iterator
from random import Random
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.events import TerminalEvent
from schemas.types import EnumMarker, ProseMarker, Record
from tests.strategies import INDEPENDENT, OCCURRED_AT, PROSE, events, random_event, shuffled, with_prose


def _parts(annotation: Any, metadata: tuple[Any, ...] = ()) -> tuple[Any, tuple[Any, ...], bool]:
    """The bare type of a field, all of its markers, and whether it may be None."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _parts(arguments[0], metadata + arguments[1:])
    if origin in (Union, types.UnionType):
        inner = next(argument for argument in arguments if argument is not type(None))
        bare, markers, _ = _parts(inner, metadata)
        return bare, markers, True
    return annotation, metadata, False


def _fields(record: type[Record], prefix: str = "") -> Iterator[tuple[str, Any, tuple[Any, ...], bool]]:
    """Every field at any depth: dotted path, bare type, markers, optional."""
    for name, info in record.model_fields.items():
        bare, markers, optional = _parts(info.annotation, tuple(info.metadata))
        yield prefix + name, bare, markers, optional
        inner = _parts(get_args(bare)[0])[0] if get_origin(bare) is list else bare
        if isinstance(inner, type) and issubclass(inner, Record):
            yield from _fields(inner, f"{prefix}{name}.")


def _values(node: Any, path: list[str]) -> Iterator[Any]:
    if not path:
        yield node
    elif isinstance(node, list):
        for item in node:
            yield from _values(item, path)
    elif node is not None:
        yield from _values(node[path[0]], path[1:])


def _marked(markers: tuple[Any, ...], kind: type) -> Any:
    return next((marker for marker in markers if isinstance(marker, kind)), None)


FIELDS = list(_fields(TerminalEvent))


@pytest.fixture(scope="module")
def sample() -> list[dict[str, Any]]:
    rng = Random(7)
    return [random_event(rng) for _ in range(5_000)]


@pytest.fixture(scope="module")
def seen(sample) -> dict[str, set[Any]]:
    """Per field what it was seen to be: scalars as they are, lists and blocks by whether anything is in them."""
    found: dict[str, set[Any]] = defaultdict(set)
    for path, *_ in FIELDS:
        steps = path.split(".")
        for event in sample:
            for value in _values(event, steps):
                found[path].add(bool(value) if isinstance(value, list | dict) else value)
    return found


def test_every_symbol_of_every_enumeration_is_reached(seen):
    enums = {path: marker for path, _, markers, _ in FIELDS if (marker := _marked(markers, EnumMarker))}
    assert len(enums) >= 16
    assert {path: set(marker.symbols) - seen[path] for path, marker in enums.items()} == {path: set() for path in enums}


def test_every_symbol_of_a_list_of_symbols_is_reached(sample):
    for path in ("fallbacks.triggers", "budget.exhausted"):
        item = next(bare for name, bare, _, _ in FIELDS if name == path)
        marker = _marked(_parts(get_args(item)[0])[1], EnumMarker)
        reached = {symbol for event in sample for items in _values(event, path.split(".")) for symbol in items}
        assert reached == set(marker.symbols)


def test_every_optional_field_is_both_absent_and_present(seen):
    optional = [path for path, _, _, optional in FIELDS if optional]
    assert [path for path in optional if None not in seen[path] or len(seen[path]) < 2] == []


def test_every_list_and_map_is_both_empty_and_filled(seen):
    collections = [path for path, bare, _, _ in FIELDS if get_origin(bare) in (list, dict)]
    assert len(collections) >= 17
    assert [path for path in collections if seen[path] != {False, True}] == []


def test_events_are_in_canonical_form(sample):
    for event in sample:
        dumped = TerminalEvent.model_validate(event).model_dump()
        assert dumped == event
        assert list(dumped) == list(event)


def test_a_seed_decides_and_every_event_has_its_own_identity(sample):
    rng = Random(7)
    assert [random_event(rng) for _ in range(20)] == sample[:20]
    assert len({event["event_id"] for event in sample}) == len(sample)


def test_a_time_is_before_at_and_after_the_end_of_the_run(seen):
    for path in ("policy_decisions.decided_at", "fallbacks.observed_at", "policy_decisions.approval.resolved_at"):
        known = seen[path] - {None}
        assert min(known) < OCCURRED_AT < max(known)
        assert OCCURRED_AT in known


def test_several_attempts_share_an_operation_with_equal_and_with_changed_keys(sample):
    relations = set()
    for event in sample:
        for first, second in zip(event["tool_calls"], event["tool_calls"][1:], strict=False):
            if first["operation_id"] == second["operation_id"] == "op-1":
                keys = first["idempotency_key"], second["idempotency_key"]
                relations.add("none" if None in keys else "same" if keys[0] == keys[1] else "changed")
    assert relations == {"none", "same", "changed"}


def test_some_runs_are_approved_by_the_agent_itself(sample):
    approvers = {
        decision["approval"]["approver"] == event["agent_id"]
        for event in sample
        for decision in event["policy_decisions"]
        if decision["approval"]
    }
    assert approvers == {False, True}


@settings(max_examples=50, deadline=None)
@given(events())
def test_drawn_events_are_in_canonical_form(event):
    assert TerminalEvent.model_validate(event).model_dump() == event


@settings(max_examples=50, deadline=None)
@given(events(), st.text())
def test_prose_is_all_that_with_prose_changes(event, text):
    changed = with_prose(event, text)
    for block, name in PROSE:
        if event[block] is not None:
            assert changed[block].pop(name) == text
            event[block].pop(name)
    assert changed == event


def test_every_prose_field_is_known():
    assert {path for path, _, markers, _ in FIELDS if _marked(markers, ProseMarker)} == {
        ".".join(path) for path in PROSE
    }


def test_every_list_is_independent_or_known_to_be_ordered():
    lists = {path for path, bare, _, _ in FIELDS if get_origin(bare) is list}
    assert lists == {*INDEPENDENT, "steps", "policy_decisions.alternatives"}


def _sorted(node: Any) -> Any:
    if isinstance(node, dict):
        return {name: _sorted(value) for name, value in node.items()}
    return sorted((_sorted(item) for item in node), key=repr) if isinstance(node, list) else node


def test_shuffling_keeps_content_and_ordered_lists_and_moves_the_rest(sample):
    rng, moved = Random(3), set()
    for event in sample:
        before = repr(event)
        other = shuffled(event, rng)
        assert repr(event) == before
        assert _sorted(other) == _sorted(event)
        assert other["steps"] == event["steps"]
        moved |= {
            path
            for path in INDEPENDENT
            if list(_values(other, path.split("."))) != list(_values(event, path.split(".")))
        }
    assert moved == set(INDEPENDENT)


def test_shuffling_leaves_alternatives_in_their_order():
    event = next(event for event in map(random_event, [Random(5)] * 500) if event["policy_decisions"])
    event["policy_decisions"] = event["policy_decisions"][:1]
    event["policy_decisions"][0]["alternatives"] = [str(number) for number in range(50)]
    assert shuffled(event, Random(1))["policy_decisions"] == event["policy_decisions"]
