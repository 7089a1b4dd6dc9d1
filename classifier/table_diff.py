"""Where two tables decide differently: for every possible set of facts at once, not for a sample of them.

The sets are those that :mod:`classifier.constraints` leaves. A region is all of them that go from one outcome of the
old table to one of the new; the regions do not overlap, and outside of them both tables give the same exit.

Where thresholds differ too, a run may have some facts under one table and others under the other. What a threshold
drives is one fact, in one direction, and nothing else; so the sets before and after differ in these facts alone, and
all such pairs of sets are compared like regions are. They are called shifts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from itertools import chain, combinations
from typing import NamedTuple

from classifier.condition import All, Condition, Holds, Not, deciding, parse
from classifier.diagram import NEVER, Diagram
from classifier.fact import Fact
from classifier.facts import BY_NAME, FACTS, names
from classifier.invariants import RULES
from classifier.outcomes import GUARDED, Outcome, cases_of, outcomes
from classifier.proof import possible_in
from classifier.run import CONFIDENCE_BELOW_FLOOR, CONFIDENCE_DECLINING, NO_PROGRESS, RESULT_CONFIDENCE_LOW
from classifier.table import Table
from schemas.exits import KINDS

CAUTION = {"completed": 0, "fallback": 1, "partial": 1, "refusal": 2, "human_queue": 2}
"""How careful an exit is: nothing is left to do, a bounded result is handed over, nothing happens without a person."""


class Direction(StrEnum):
    """What a change does to safety. Read as: the change ...

    To loosen is to go to a less careful exit, see :data:`CAUTION`.
    """

    LOOSENS = "loosens"
    TIGHTENS = "tightens"
    MOVES = "moves"


@dataclass(frozen=True)
class Region:
    """Sets of facts whose exit changes alike.

    ``index`` are the indexes of both outcomes in :func:`classifier.outcomes.outcomes` of their tables, ``assignments``
    the number of sets of facts, ``bits`` the one with the fewest. ``deciding`` are the facts that decide there, by
    either table: names as conditions write them.
    """

    index: tuple[int, int]
    before: Outcome
    after: Outcome
    assignments: int
    bits: int
    deciding: tuple[str, ...]

    @property
    def direction(self) -> Direction:
        """What the change does to safety."""
        return _direction(self.before, self.after)

    @property
    def facts(self) -> tuple[str, ...]:
        """Names of the facts of the smallest set, sorted; every other fact does not hold in it."""
        return names(self.bits)

    @property
    def sentence(self) -> str:
        """The change in words."""
        return _changed(self.before, self.after, self.deciding)


class ThresholdChange(NamedTuple):
    """A number of the table that changed. ``fact`` is the one that is judged by it, and by it alone: ``turned_on`` if
    some runs have it under the new number alone, else some have it under the old one alone."""

    name: str
    before: str
    after: str
    fact: Fact
    turned_on: bool


@dataclass(frozen=True)
class Shift:
    """Runs whose facts shift with the thresholds, and whose exit changes thereby, alike in what that does to safety.

    ``changes`` are the thresholds whose facts shift together. ``before`` and ``after`` are the outcomes where the facts
    are fewest: ``bits_before`` by the old table, ``bits_after`` by the new one. ``assignments`` is the number of sets
    of the other facts, ``deciding`` are those of them that decide there.
    """

    direction: Direction
    changes: tuple[ThresholdChange, ...]
    before: Outcome
    after: Outcome
    assignments: int
    bits_before: int
    bits_after: int
    deciding: tuple[str, ...]

    @property
    def facts(self) -> tuple[str, ...]:
        """Names of the facts of the smallest set by the old thresholds, sorted."""
        return names(self.bits_before)

    @property
    def sentence(self) -> str:
        """The change in words."""
        turned = (f"{each.fact.name} {'now' if each.turned_on else 'no longer'} holds" for each in self.changes)
        numbers = " and ".join(f"{each.name} {each.after}" for each in self.changes)
        changed = _changed(self.before, self.after, self.deciding)
        return f"With {numbers}, so that {' and '.join(turned)}: {changed}"


def regions(old: Table, new: Table) -> list[Region]:
    """Everything that ``new`` decides differently from ``old``: what loosens first, then what tightens.

    Facts are compared as they are; where thresholds differ, an event may have other facts under each table, see
    :func:`shifts`. Raises TooComplexError if conditions are too entangled to compare.
    """
    diagram = Diagram()
    before, after = (list(_decided(table, diagram)) for table in (old, new))
    found = [
        _region(diagram, was, now, node)
        for was in before
        for now in after
        if _exit(was.outcome) != _exit(now.outcome) and (node := diagram.every((was.node, now.node))) != NEVER
    ]
    order = list(Direction)
    return sorted(found, key=lambda region: (order.index(region.direction), region.index))


def threshold_changes(old: Table, new: Table) -> list[ThresholdChange]:
    """The thresholds that differ as numbers."""
    before, after = (table.file.thresholds.model_dump() for table in (old, new))
    found = []
    for name, (fact, greater_turns_on) in DRIVEN.items():
        change = Decimal(after[name]) - Decimal(before[name])
        if change:
            turned_on = (change > 0) is greater_turns_on
            found.append(ThresholdChange(name, str(before[name]), str(after[name]), fact, turned_on))
    return found


DRIVEN: dict[str, tuple[Fact, bool]] = {
    "confidence_floor": (CONFIDENCE_BELOW_FLOOR, True),
    "confidence_decline": (CONFIDENCE_DECLINING, False),
    "confidence_veto": (RESULT_CONFIDENCE_LOW, True),
    "progress_repeats": (NO_PROGRESS, False),
}
"""The one fact that each threshold drives, and whether a greater number turns it on, or off. No other fact depends on a
threshold, and no fact on two."""


def shifts(old: Table, new: Table) -> list[Shift]:
    """Every way in which other thresholds change exits: what loosens first, then what tightens.

    The runs are those whose facts differ between the tables; :func:`regions` are about all others. Of thresholds whose
    facts shift together that is told alone which does not happen with fewer of them. Raises as ``regions`` does.
    """
    changes = threshold_changes(old, new)
    if not changes:
        return []
    compared = _Shifts(old, new)
    found: list[Shift] = []
    for together in chain.from_iterable(combinations(changes, size) for size in range(1, len(changes) + 1)):
        told = {each.direction for each in found if set(each.changes) <= set(together)}
        found += (each for each in compared.of(together) if each.direction not in told)
    order = list(Direction)
    return sorted(found, key=lambda shift: order.index(shift.direction))


class _Shifts:
    """Two tables, and what each decides."""

    def __init__(self, old: Table, new: Table) -> None:
        self._diagram = Diagram()
        self._before, self._after = (list(_decided(table, self._diagram)) for table in (old, new))

    def of(self, changes: Sequence[ThresholdChange]) -> Iterator[Shift]:
        """The shifts where exactly the facts of these thresholds change."""
        nodes = dict.fromkeys(Direction, NEVER)
        before = [(was, self._shared(was.node, changes, after=False)) for was in self._before]
        after = [(now, self._shared(now.node, changes, after=True)) for now in self._after]
        for was, node in before:
            for now, other in after:
                if _exit(was.outcome) != _exit(now.outcome):
                    direction = _direction(was.outcome, now.outcome)
                    nodes[direction] = self._diagram.any((nodes[direction], self._diagram.every((node, other))))
        for direction, node in nodes.items():
            if node != NEVER:
                yield self._shift(direction, tuple(changes), node)

    def _shared(self, node: int, changes: Sequence[ThresholdChange], *, after: bool) -> int:
        """What the other facts are where ``node`` holds, before or after those of the thresholds have changed."""
        for each in changes:
            node = self._diagram.given(node, each.fact, holds=each.turned_on is after)
        return node

    def _shift(self, direction: Direction, changes: tuple[ThresholdChange, ...], node: int) -> Shift:
        shared = self._diagram.smallest(node) or 0
        bits_before = shared | sum(each.fact.bit for each in changes if not each.turned_on)
        bits_after = shared | sum(each.fact.bit for each in changes if each.turned_on)
        was, now = self._deciding(self._before, bits_before), self._deciding(self._after, bits_after)
        decisive = [*deciding(was.when, bits_before), *deciding(now.when, bits_after)]
        others = [fact for fact in decisive if fact not in {each.fact for each in changes}]
        assignments = self._diagram.count(node) >> len(changes)
        return Shift(direction, changes, was.outcome, now.outcome, assignments, bits_before, bits_after,
                     _literals(others, shared))  # fmt: skip

    def _deciding(self, decided: Sequence["_Decided"], bits: int) -> "_Decided":
        literals = tuple(Holds(fact) if bits & fact.bit else Not(Holds(fact)) for fact in FACTS)
        alone = self._diagram.of(All(literals))
        return next(each for each in decided if self._diagram.every((each.node, alone)) != NEVER)


class _Decided(NamedTuple):
    """An outcome, its index as ``number``, where it is decided, and the conditions that decide."""

    number: int
    outcome: Outcome
    node: int
    when: Condition


def _decided(table: Table, diagram: Diagram) -> Iterator[_Decided]:
    """Every outcome of a table that some possible set of facts has."""
    guards, left, numbered = _Guards(diagram), possible_in(diagram), enumerate(outcomes(table))
    for row in table.rows:
        decides = diagram.every((left, diagram.of(row.condition)))
        for case in cases_of(row):
            of_case = diagram.every((decides, diagram.of(case.when)))
            for node in guards.split(of_case, row.kind):
                number, outcome = next(numbered)
                if node != NEVER:
                    yield _Decided(number, outcome, node, All((row.condition, case.when)))
        left = diagram.without(left, decides)


class _Guards:
    """Where the invariants rule out a kind."""

    def __init__(self, diagram: Diagram) -> None:
        self._diagram = diagram
        self._ruled_out = {
            kind: diagram.any(diagram.of(parse(rule.when, BY_NAME)) for rule in RULES if kind in rule.kinds)
            for kind in KINDS
        }

    def split(self, node: int, kind: str) -> tuple[int, ...]:
        """Where ``kind`` stands, and where each of GUARDED takes its place, in the order of outcomes."""
        overruled = self._diagram.every((node, self._ruled_out[kind]))
        refused = self._diagram.every((overruled, self._ruled_out["human_queue"]))
        safe = {"refusal": refused, "human_queue": self._diagram.without(overruled, refused)}
        return (self._diagram.without(node, overruled), *(safe[each] for each in GUARDED))


def _region(diagram: Diagram, was: _Decided, now: _Decided, node: int) -> Region:
    bits = diagram.smallest(node) or 0
    literals = _literals([*deciding(was.when, bits), *deciding(now.when, bits)], bits)
    return Region((was.number, now.number), was.outcome, now.outcome, diagram.count(node), bits, literals)


def _literals(facts: Sequence[Fact], bits: int) -> tuple[str, ...]:
    """The facts as conditions write them, each once."""
    return tuple(fact.name if bits & fact.bit else f"not {fact.name}" for fact in dict.fromkeys(facts))


def _exit(outcome: Outcome) -> tuple[str | None, ...]:
    """What a run gets, whichever row gives it."""
    return outcome.kind, outcome.reason, outcome.reason_from, outcome.queue


def _direction(before: Outcome, after: Outcome) -> Direction:
    caution = CAUTION[after.kind] - CAUTION[before.kind]
    if caution < 0:
        return Direction.LOOSENS
    return Direction.TIGHTENS if caution > 0 else Direction.MOVES


def _changed(before: Outcome, after: Outcome, where: Sequence[str]) -> str:
    return f"{_said(before)} becomes {_said(after)}" + (f" where {' and '.join(where)}" if where else "")


def _said(outcome: Outcome) -> str:
    reason = f"reason from the {outcome.reason_from}" if outcome.reason_from else outcome.reason
    queue = f", queue {outcome.queue}" if outcome.queue else ""
    row = "" if outcome.rule_id == reason else f" by row {outcome.rule_id}"
    return f"{outcome.kind} ({reason}{queue}){row}"
