"""An event is found for the facts that are asked for, and is one that anybody can classify."""

from functools import cache
from random import Random

import pytest

from classifier.decide import Classifier
from classifier.diagram import NEVER, Diagram
from classifier.facts import BY_NAME, names
from classifier.synthesis import event_for
from classifier.table import default_text, load
from classifier.view import View
from schemas.events import TerminalEvent
from schemas.json_form import parse_json, to_json
from tests.classifier.answers import default_classifier
from tests.classifier.spaces import possible
from tests.strategies import random_event

TEXT = default_text()
TABLE = load(TEXT)


def _bits(*facts: str) -> int:
    return sum(BY_NAME[name].bit for name in facts)


@cache
def _smallest_of_rows() -> dict[str, int]:
    """For every row of the default table the smallest combination of facts that it decides."""
    diagram = Diagram()
    left, found = possible(diagram), {}
    for row in TABLE.rows:
        holds = diagram.of(row.condition)
        found[row.row.id] = diagram.smallest(diagram.every((left, holds))) or 0
        left = diagram.without(left, holds)
    assert left == NEVER
    return found


@pytest.mark.parametrize("row", [row.row.id for row in TABLE.rows])
def test_there_is_an_event_for_every_row(row):
    bits = _smallest_of_rows()[row]
    event = event_for(bits, TABLE.thresholds)
    assert event is not None
    decided = default_classifier().classify(event)
    assert (decided.classification["rule_id"], decided.fact_bits) == (row, bits)


def test_there_is_an_event_for_what_events_have():
    rng = Random(41)
    seen = {View(random_event(rng), TABLE.thresholds).bits for _ in range(2_500)}
    assert len(seen) > 500
    for bits in seen:
        event = event_for(bits, TABLE.thresholds)
        assert event is not None, names(bits)
        assert View(event, TABLE.thresholds).bits == bits


def test_it_is_read_as_it_was_written():
    for bits in _smallest_of_rows().values():
        event = event_for(bits, TABLE.thresholds)
        assert event is not None
        assert parse_json(to_json(event, TerminalEvent)) == event


def test_equal_facts_give_equal_events_of_their_own_name():
    one, same, other = (event_for(bits, TABLE.thresholds) for bits in (1, 1, 0))
    assert one is not None
    assert other is not None
    assert one == same
    assert one["event_id"] != other["event_id"]


IMPOSSIBLE = {
    "facts that exclude each other": _bits("truncated", "model_declined"),
    "a fact without what it follows from": _bits("duplicate_effect"),
}


@pytest.mark.parametrize("bits", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_there_is_none_for_what_cannot_be(bits):
    assert event_for(bits, TABLE.thresholds) is None


CONFIDENCES = {
    "low": _bits("confidence_below_floor"),
    "falling": _bits("confidence_declining"),
    "low, and fallen there": _bits("confidence_below_floor", "confidence_declining"),
    "stuck and low": _bits("confidence_below_floor", "no_progress"),
    "stuck and falling": _bits("confidence_declining", "no_progress"),
    "a veto of a sure step": _bits("result_confidence_low"),
    "everything": _bits("confidence_below_floor", "confidence_declining", "no_progress", "result_confidence_low"),
}


@pytest.mark.parametrize("bits", CONFIDENCES.values(), ids=CONFIDENCES)
@pytest.mark.parametrize("floor", ["0.6", "0.1", "0.75"])
@pytest.mark.parametrize("repeats", [2, 5])
def test_confidence_is_that_of_the_tables_thresholds(bits, floor, repeats):
    text = TEXT.replace('floor = "0.6"', f'floor = "{floor}"').replace("repeats = 3", f"repeats = {repeats}")
    table = load(text)
    event = event_for(bits, table.thresholds)
    assert event is not None
    assert Classifier(table).classify(event).fact_bits == bits


def test_there_is_none_where_the_thresholds_leave_no_room():
    table = load(TEXT.replace('floor = "0.6"', 'floor = "0"'))
    assert event_for(_bits("confidence_below_floor"), table.thresholds) is None
