"""What exit an event would have earned with evidence that it lacks. Asked, never decided by."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from classifier.decide import Classifier
from classifier.fact import Event
from classifier.gaps import Gap, of
from classifier.view import View

_RANK = {"completed": 1, "fallback": 2, "partial": 2, "refusal": 3, "human_queue": 4}
"""From best to worst, behind a verified completion: a completion, a bounded or deterministic result, a plain no, and
last what costs a person's time."""


class Exit(NamedTuple):
    """Where a run ends: enough of a classification to compare it with another."""

    kind: str
    reason_code: str
    rule_id: str
    verified: bool

    @property
    def rank(self) -> int:
        """0 for the best exit, a verified completion, to 4 for a person's queue."""
        return 0 if self.verified else _RANK[self.kind]


def exit_of(classification: dict[str, Any]) -> Exit:
    """The exit that a classification states."""
    return Exit(*(classification[name] for name in Exit._fields))


def gaps_of(classifier: Classifier, event: Event) -> list[Gap]:
    """The evidence gaps of an event, with what would fill them."""
    return of(View(event, classifier.table.thresholds))


def earned(classifier: Classifier, event: Event, now: Exit, gaps: Iterable[Gap]) -> Exit | None:
    """The exit of the event with all of these gaps filled, where it is better than ``now``; else None.

    A gap is filled with the value that promises most, so this is what more evidence could have earned at best.
    """
    for gap in gaps:
        event = gap.filled(event)
    then = exit_of(classifier.classify(event).classification)
    return then if then.rank < now.rank else None
