"""The smallest change of evidence with which a run would end otherwise.

It is found by experiment, as everything is that explains a classification: change the event, classify it again. It says
what the evidence would have had to be, never what it was.
"""

import functools
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain, combinations, islice, product
from typing import Any, NamedTuple

from classifier.change import Path, changed, path_text
from classifier.counterfactual import gaps_of
from classifier.decide import Classifier
from classifier.fact import Event
from classifier.fields import FieldAt, fields_of, pieces_of
from schemas.events import TerminalEvent
from schemas.types import to_iso

MOST_TRIES = 2_000
"""So many changes of one sort are tried; those nearest to the decision come first."""
MOST_GROUPS = 8
"""So many sorts of what is missing are tried in every combination."""


class Step(NamedTuple):
    """One piece of evidence, changed. ``before`` is None where it was absent, ``after`` where it is left out; a piece
    that is added is a record. ``fills`` says that it was missing."""

    path: Path
    before: Any
    after: Any
    fills: bool
    is_instant: bool = False

    @property
    def text(self) -> str:
        """The change in words."""
        return f"{path_text(self.path)}: {self._said(self.after)} instead of {self._said(self.before)}"

    def _said(self, value: Any) -> str:
        if value is None:
            return "absent"
        if isinstance(value, dict):
            value = {name: each for name, each in value.items() if each not in (None, [])}
        return to_iso(value) if self.is_instant else json.dumps(value, ensure_ascii=False)


Change = tuple[Step, ...]


class Search:
    """Looks for changes of one event with which ``wanted`` holds for its classification.

    Tried are every other symbol of every field, and what is missing; then one of these that moves the decision to
    another row, with a second behind it; then everything of a sort that is missing, in every combination of sorts, and
    with a second behind it. ``near`` are the fields that the decision rests on, which come first. ``exhausted`` says
    whether there was more than was tried.
    """

    def __init__(
        self,
        event: Event,
        classifier: Classifier,
        near: Collection[Path],
        wanted: Callable[[Mapping[str, Any]], bool],
    ) -> None:
        self._event, self._classifier, self._wanted = event, classifier, wanted
        self._row = self._answer(())["rule_id"]
        self._sorts = _sorts(event, classifier)
        named = [*chain.from_iterable(self._sorts), _denial(event)]
        fields = sorted(_fields(event), key=lambda field: field.path not in near)
        steps = [step for field in fields for step in steps_of(field)]
        self._alone = [*named, *sorted(steps, key=lambda step: not step.fills)]
        self._behind = [*named, *(step for step in self._alone if step.path in near or _is_of_run(step.path))]
        self.exhausted = len(self._sorts) > MOST_GROUPS

    def holds(self, change: Iterable[Step]) -> bool:
        """Whether the event with this change is classified as wanted."""
        return self._wanted(self._answer(change))

    def _answer(self, change: Iterable[Step]) -> Mapping[str, Any]:
        event = self._event
        for step in change:
            event = changed(event, step.path, step.after)
        return self._classifier.classify(event).classification

    @functools.cached_property
    def filling(self) -> Change | None:
        """The smallest change found that only adds what is missing."""
        return self._least(lambda step: step.fills)

    @functools.cached_property
    def smallest(self) -> Change | None:
        """The smallest change found, of equally small ones what only adds."""
        if self.filling is not None and len(self.filling) == 1:
            return self.filling
        least = self._least(lambda _: True)
        if least is None or (self.filling is not None and len(self.filling) <= len(least)):
            return self.filling
        return least

    def _least(self, may: Callable[[Step], bool]) -> Change | None:
        alone, behind = filter(may, self._alone), [*filter(may, self._behind)]
        found, moving = self._tried((step,) for step in alone)
        if found is None:
            found, _ = self._tried(_followed(moving, behind))
        if found is None:
            found, moving = self._tried(self._combined())
        if found is None:
            found, _ = self._tried(_followed(moving, behind))
        return None if found is None else self._trimmed(found)

    def _tried(self, changes: Iterator[Change]) -> tuple[Change | None, list[Change]]:
        """The first change that is wanted, and those before it that move the decision to another row."""
        moving: list[Change] = []
        for change in islice(changes, MOST_TRIES):
            answer = self._answer(change)
            if self._wanted(answer):
                return change, moving
            if answer["rule_id"] != self._row:
                moving.append(change)
        self.exhausted |= next(changes, None) is not None
        return None, moving

    def _combined(self) -> Iterator[Change]:
        """All of what is missing, by sorts, few sorts first. Filling one may make another contradict it."""
        sorts = self._sorts[:MOST_GROUPS]
        for number in range(1, len(sorts) + 1):
            for chosen in combinations(sorts, number):
                yield tuple(chain.from_iterable(chosen))

    def _trimmed(self, change: Change) -> Change:
        """What of a change cannot be left out."""
        for step in change if len(change) > 1 else ():
            fewer = tuple(each for each in change if each is not step)
            change = fewer if self.holds(fewer) else change
        return change


def _followed(moving: Iterable[Change], behind: Iterable[Step]) -> Iterator[Change]:
    for change, step in product(moving, behind):
        if step.path not in (each.path for each in change):
            yield (*change, step)


def _is_of_run(path: Path) -> bool:
    """Whether a field is of the run as a whole, and not of an item of a list."""
    return not any(isinstance(key, int) for key in path)


def _fields(event: Event) -> list[FieldAt]:
    return [field for piece in pieces_of(event) for field in fields_of(event, piece)]


def steps_of(field: FieldAt) -> Iterator[Step]:
    """Other values of a field that say something: symbols and truth values before leaving it out. A made-up text or
    number would say nothing to anybody."""
    for other in sorted(field.others, key=lambda other: other is None):
        if _says_something(other) or (other is None and field.value not in SAYS_NOTHING):
            yield Step(field.path, field.value, other, field.value in SAYS_NOTHING, field.is_instant)


SAYS_NOTHING = (None, "unknown", "UNKNOWN", "not_evaluated")


def _says_something(other: Any) -> bool:
    return isinstance(other, bool) or (isinstance(other, str) and other.isascii() and other not in SAYS_NOTHING)


def _sorts(event: Event, classifier: Classifier) -> list[list[Step]]:
    """What the classification itself misses, by sort; and an evaluated predicate, where there is none."""
    sorts: dict[tuple[str, str], list[Step]] = {}
    for gap in gaps_of(classifier, event):
        step = Step(gap.path, _at(event, gap.path), gap.best, fills=True, is_instant=gap.field in _INSTANTS)
        sorts.setdefault((gap.kind.code, gap.field), []).append(step)
    if event["completion"] is None:
        sorts["", ""] = [Step(("completion",), None, _records()[0], fills=True)]
    return [*sorts.values()]


def _denial(event: Event) -> Step:
    """A denial of the whole request that nobody recorded."""
    return Step(("policy_decisions", len(event["policy_decisions"])), None, _records()[1], fills=True)


def _at(place: Any, path: Path) -> Any:
    """The value at a path; None behind the end of a list."""
    for key in path:
        if isinstance(key, int) and key >= len(place):
            return None
        place = place[key]
    return place


_INSTANTS = frozenset({"observed_at", "resolved_at", "decided_at"})
"""Fields of gaps that are instants."""


@functools.cache
def _records() -> tuple[Event, Event]:
    """A predicate that is satisfied, and a denial of the whole request, in memory form."""
    identity = dict.fromkeys(("event_id", "run_id", "tenant", "agent_id"), "-")
    said = {
        "completion": {"claimed": True, "result": "satisfied"},
        "policy_decisions": [{"effect": "deny", "source": "application"}],
    }
    head = {"type": "terminal_event", "version": 1, "occurred_at": "2026-01-01T00:00:00Z"}
    event = TerminalEvent.model_validate({**head, **identity, **said}).model_dump()
    return event["completion"], event["policy_decisions"][0]
