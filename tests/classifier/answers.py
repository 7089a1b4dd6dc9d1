"""What the classifier's tests share: one classifier of the default table, and short ways to ask it."""

from functools import cache
from typing import Any

from classifier.decide import Classifier, Decided
from classifier.facts import names
from classifier.table import default_text, load
from classifier.view import View
from schemas.events import TerminalEvent
from tests.strategies import OCCURRED_AT

IDENTITY = {
    "type": "terminal_event",
    "version": 1,
    "event_id": "event-1",
    "run_id": "run-1",
    "tenant": "acme",
    "agent_id": "agent-1",
    "occurred_at": OCCURRED_AT,
}
"""The fields that an event must have; everything else is absent until a test says it."""


@cache
def default_classifier() -> Classifier:
    """The classifier of the default table, one for all tests."""
    return Classifier(load(default_text()))


def event(**parts: Any) -> dict[str, Any]:
    """An event in memory form of the parts given, as a producer writes them."""
    return TerminalEvent.model_validate(IDENTITY | parts).model_dump()


def decided(**parts: Any) -> Decided:
    """The decision on an event of these parts."""
    return default_classifier().classify(event(**parts))


def answer(**parts: Any) -> dict[str, Any]:
    """The classification of an event of these parts."""
    return decided(**parts).classification


def exit_of(**parts: Any) -> tuple[str, str]:
    """Kind and reason code of an event of these parts."""
    given = answer(**parts)
    return given["kind"], given["reason_code"]


def view(**parts: Any) -> View:
    """What is derived from an event of these parts."""
    return View(event(**parts), default_classifier().table.thresholds)


def facts(**parts: Any) -> set[str]:
    """Names of the facts of an event of these parts."""
    return set(names(view(**parts).bits))


def at(offset: float) -> int:
    """The instant ``offset`` seconds after the end of the run."""
    return OCCURRED_AT + round(offset * 1_000_000)
