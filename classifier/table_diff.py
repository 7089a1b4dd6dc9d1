"""Where two tables decide differently: for every possible set of facts at once, not for a sample of them.

The sets are those that :mod:`classifier.constraints` leaves. A region is all of them that go from one outcome of the
old table to one of the new; the regions do not overlap, and outside of them both tables give the same exit.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from classifier.condition import All, Condition, deciding, parse
from classifier.diagram import NEVER, Diagram
from classifier.facts import BY_NAME, names
from classifier.invariants import RULES
from classifier.outcomes import GUARDED, Outcome, cases_of, outcomes
from classifier.proof import possible_in
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
        return _direction(CAUTION[self.after.kind] - CAUTION[self.before.kind])

    @property
    def facts(self) -> tuple[str, ...]:
        """Names of the facts of the smallest set, sorted; every other fact does not hold in it."""
        return names(self.bits)

    @property
    def sentence(self) -> str:
        """The change in words."""
        where = f" where {' and '.join(self.deciding)}" if self.deciding else ""
        return f"{_said(self.before)} becomes {_said(self.after)}{where}"


class ThresholdChange(NamedTuple):
    """A number of the table that changed, and with it which runs have the facts that are judged by it."""

    name: str
    before: str
    after: str
    direction: Direction


def regions(old: Table, new: Table) -> list[Region]:
    """Everything that ``new`` decides differently from ``old``: what loosens first, then what tightens.

    Facts are compared as they are; where thresholds differ, an event may have other facts under each table, see
    :func:`threshold_changes`. Raises TooComplexError if conditions are too entangled to compare.
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
    """The thresholds that differ. One under which fewer runs are taken to be in doubt, or stuck, loosens."""
    before, after = (table.file.thresholds.model_dump() for table in (old, new))
    found = []
    for name, stricter in _STRICTER.items():
        change = Decimal(after[name]) - Decimal(before[name])
        if change:
            found.append(ThresholdChange(name, str(before[name]), str(after[name]), _direction(change * stricter)))
    return found


_STRICTER = {"confidence_floor": 1, "confidence_decline": -1, "confidence_veto": 1, "progress_repeats": -1}
"""Whether a greater number means that more runs are in doubt or stuck, or fewer."""


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
    decisive = dict.fromkeys([*deciding(was.when, bits), *deciding(now.when, bits)])
    literals = tuple(fact.name if bits & fact.bit else f"not {fact.name}" for fact in decisive)
    return Region((was.number, now.number), was.outcome, now.outcome, diagram.count(node), bits, literals)


def _exit(outcome: Outcome) -> tuple[str | None, ...]:
    """What a run gets, whichever row gives it."""
    return outcome.kind, outcome.reason, outcome.reason_from, outcome.queue


def _direction(caution: Decimal | int) -> Direction:
    if caution < 0:
        return Direction.LOOSENS
    return Direction.TIGHTENS if caution > 0 else Direction.MOVES


def _said(outcome: Outcome) -> str:
    reason = f"reason from the {outcome.reason_from}" if outcome.reason_from else outcome.reason
    queue = f", queue {outcome.queue}" if outcome.queue else ""
    row = "" if outcome.rule_id == reason else f" by row {outcome.rule_id}"
    return f"{outcome.kind} ({reason}{queue}){row}"
