"""The constraints among facts are true, needed, and all that there are."""

from functools import cache
from random import Random

import pytest
from hypothesis import given, settings

from classifier.condition import All, Holds, Not
from classifier.constraints import CONSTRAINTS
from classifier.diagram import NEVER, Diagram
from classifier.facts import names
from classifier.synthesis import event_for
from classifier.table import default_text, load
from classifier.view import View
from tests.classifier.spaces import draw, parsed, possible
from tests.strategies import events, random_event

THRESHOLDS = load(default_text()).thresholds
BY_TEXT = {each.never: each for each in CONSTRAINTS}


@cache
def _seen() -> frozenset[int]:
    """The combinations of facts of 25 000 generated events."""
    rng = Random(31)
    return frozenset(View(random_event(rng), THRESHOLDS).bits for _ in range(25_000))


@pytest.mark.parametrize("never", BY_TEXT)
def test_no_event_violates_it(never):
    condition = parsed(never)
    assert [names(bits) for bits in _seen() if condition.holds(bits)] == []


@given(events())
@settings(max_examples=250, deadline=None)
def test_no_event_violates_any(event):
    bits = View(event, THRESHOLDS).bits
    assert [each for each in CONSTRAINTS if parsed(each.never).holds(bits)] == []


@pytest.mark.parametrize("never", BY_TEXT)
def test_it_is_one_line_that_no_other_says(never):
    diagram = Diagram()
    others = [diagram.negated(diagram.of(parsed(other))) for other in BY_TEXT if other != never]
    assert diagram.every((*others, diagram.of(parsed(never)))) != NEVER
    assert BY_TEXT[never].why.endswith(".")


@pytest.mark.parametrize("never", BY_TEXT)
def test_without_any_of_its_parts_it_happens(never):
    """So that no constraint is true only since the rest of it is never there."""
    condition, diagram = parsed(never), Diagram()
    assert isinstance(condition, All)
    assert all(isinstance(part, Holds | Not) for part in condition.parts)
    for part in condition.parts:
        rest = All(tuple(Not(other) if other is part else other for other in condition.parts))
        bits = diagram.smallest(diagram.every((possible(diagram), diagram.of(rest))))
        assert bits is not None
        assert rest.holds(bits)
        assert event_for(bits, THRESHOLDS) is not None


def test_what_they_leave_is_possible():
    """Combinations drawn from all that are left, each equally likely: there is an event of every one."""
    diagram, rng = Diagram(), Random(32)
    left = possible(diagram)
    drawn = [draw(diagram, left, rng) for _ in range(200)]
    assert [names(bits) for bits in drawn if event_for(bits, THRESHOLDS) is None] == []


def test_what_was_seen_is_left():
    """The same said of the diagram: it holds for every combination that an event had."""
    diagram = Diagram()
    left = possible(diagram)
    for bits in list(_seen())[:200]:
        own = diagram.of(parsed(" and ".join(names(bits)) or "true"))
        assert diagram.every((left, own)) != NEVER
