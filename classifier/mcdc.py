"""Which rows and conditions of a table its tests exercise: modified condition/decision coverage, by masking.

Every fact that a row's condition names must be seen to decide it. That takes a pair of runs, both of which reach the
row, since no earlier row holds: in one the fact holds, in the other it does not, the condition holds in one and not in
the other, and in both the condition would turn if the fact alone did. What else the runs have is free. That is the
masking form of the criterion; a fact that stands several times in a condition counts as one.

A pair is infeasible where one of its runs cannot be: the facts' definitions or an earlier row rule it out. That is
proved, by the same diagrams as tables are. Source of the method: J. J. Chilenski, An Investigation of Three Forms of
the Modified Condition Decision Coverage (MCDC) Criterion, DOT/FAA/AR-01/18, 2001.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from classifier.condition import Condition, parse
from classifier.constraints import CONSTRAINTS
from classifier.diagram import MOST_STEPS, NEVER, Diagram
from classifier.fact import Fact
from classifier.facts import BY_NAME
from classifier.table import CompiledRow, Table

METHOD = "masking MC/DC"
"""How conditions are covered."""


@dataclass(frozen=True)
class Side:
    """One run of a pair: whether the fact holds in it, and with that the row's condition.

    ``smallest`` are the facts, as bits, of such a run with the fewest; None where none can be.
    """

    row: CompiledRow
    fact: Fact
    fact_holds: bool
    row_holds: bool
    smallest: int | None
    shown: bool

    @property
    def text(self) -> str:
        """What the run shows, as a sentence."""
        fact = self.fact.name if self.fact_holds else f"not {self.fact.name}"
        return f"{fact} makes row {self.row.row.id} {'hold' if self.row_holds else 'not hold'}"

    def is_shown_by(self, bits: int) -> bool:
        """Whether the facts of a run that reaches the row are such a side."""
        condition = self.row.condition
        return (
            bool(bits & self.fact.bit) is self.fact_holds
            and condition.holds(bits) is self.row_holds
            and condition.holds(bits ^ self.fact.bit) is not self.row_holds
        )


@dataclass(frozen=True)
class Pair:
    """A fact of a row's condition, and the two runs that show that it decides.

    ``ruled_out`` are the sentences that prove that one of the runs cannot be; empty where both can.
    """

    row_id: str
    fact: str
    sides: tuple[Side, ...]
    ruled_out: tuple[str, ...]

    @property
    def is_feasible(self) -> bool:
        """Whether both runs can be."""
        return not self.ruled_out

    @property
    def is_shown(self) -> bool:
        """Whether tests show both."""
        return self.is_feasible and all(side.shown for side in self.sides)


class Missing(NamedTuple):
    """Facts, as bits, that no test has and that would show something; ``shows`` says what, a sentence each."""

    bits: int
    shows: tuple[str, ...]


@dataclass(frozen=True)
class Coverage:
    """What tests exercise of a table. ``decided`` counts the tests that each row decides, by id in the table's order;
    ``missing`` are facts of further tests that would show the rest."""

    decided: dict[str, int]
    pairs: tuple[Pair, ...]
    missing: tuple[Missing, ...]
    method: str = METHOD

    @cached_property
    def feasible(self) -> tuple[Pair, ...]:
        """The pairs that can be."""
        return tuple(pair for pair in self.pairs if pair.is_feasible)

    @cached_property
    def infeasible(self) -> tuple[Pair, ...]:
        """The pairs that cannot be, each with its proof."""
        return tuple(pair for pair in self.pairs if not pair.is_feasible)

    @cached_property
    def shown(self) -> tuple[Pair, ...]:
        """The pairs that tests show."""
        return tuple(pair for pair in self.pairs if pair.is_shown)

    @property
    def is_complete(self) -> bool:
        """Whether every row decides a test, and every pair that can be is shown."""
        return not self.missing


def measure(table: Table, tests: Iterable[int], *, most_steps: int = MOST_STEPS) -> Coverage:
    """What ``tests``, the facts of each as bits, exercise of ``table``.

    Raises TooComplexError for conditions that take more than ``most_steps`` to compare; no such table is proved.
    """
    return _Measure(table, Counter(tests), Diagram(most_steps=most_steps)).coverage()


class _Reached(NamedTuple):
    """A row by its place from 0, where it is reached as a node, and the tests that reach it."""

    place: int
    row: CompiledRow
    node: int
    tests: tuple[int, ...]


class _Measure:
    def __init__(self, table: Table, tests: Counter[int], diagram: Diagram) -> None:
        self._table, self._tests, self._diagram = table, tests, diagram

    def coverage(self) -> Coverage:
        decided = {row.row.id: 0 for row in self._table.rows}
        for bits, count in self._tests.items():
            decided[self._table.decide(bits).row.id] += count
        rows = list(self._rows())
        pairs = tuple(self._pair(at, BY_NAME[name]) for at in rows for name in _in_order(at.row))
        return Coverage(decided, pairs, tuple(self._missing(rows, pairs, decided)))

    def _rows(self) -> Iterator[_Reached]:
        """The rows, and where each is reached: no earlier one holds there."""
        node = self._diagram.every(_allowed(self._diagram))
        tests = tuple(sorted(self._tests))
        for place, row in enumerate(self._table.rows):
            yield _Reached(place, row, node, tests)
            node = self._diagram.without(node, self._diagram.of(row.condition))
            tests = tuple(bits for bits in tests if not row.condition.holds(bits))

    # --- pairs

    def _pair(self, at: _Reached, fact: Fact) -> Pair:
        """The pair that is shown, else one that can be, the most shown first, else one that cannot."""
        ways = [
            tuple(self._side(at, fact, fact_holds=holds, row_holds=holds is straight) for holds in (True, False))
            for straight in (True, False)
            if _matters(self._diagram, at.row.condition, fact, straight=straight) != NEVER
        ]
        if not ways:
            return Pair(at.row.row.id, fact.name, (), (f"Its condition never turns with {fact.name}.",))
        best = max(ways, key=_worth)
        empty = [side for side in best if side.smallest is None]
        ruled_out = tuple(sentence for side in empty[:1] for sentence in _why_not(self._table, at.place, side))
        return Pair(at.row.row.id, fact.name, best, ruled_out)

    def _side(self, at: _Reached, fact: Fact, *, fact_holds: bool, row_holds: bool) -> Side:
        node = _where(self._diagram, at.row.condition, fact, fact_holds=fact_holds, row_holds=row_holds)
        smallest = self._diagram.smallest(self._diagram.every((node, at.node)))
        side = Side(at.row, fact, fact_holds, row_holds, smallest, shown=False)
        return replace(side, shown=any(map(side.is_shown_by, at.tests)))

    # --- what is missing

    def _missing(self, rows: list[_Reached], pairs: tuple[Pair, ...], decided: dict[str, int]) -> Iterator[Missing]:
        """Facts that show together what no test shows: each the smallest for something that those before it do not."""
        wanted = [side for pair in pairs if pair.is_feasible for side in pair.sides if not side.shown]
        found: list[int] = []
        for side in wanted:
            if side.smallest is not None and not any(self._shows(bits, side) for bits in found):
                found.append(side.smallest)
        for at in rows:
            decides = self._diagram.smallest(self._diagram.every((at.node, self._diagram.of(at.row.condition))))
            row_id = at.row.row.id
            unseen = not decided[row_id] and not any(self._deciding(bits) == row_id for bits in found)
            if unseen and decides is not None:
                found.append(decides)
        for bits in found:
            row_id = self._deciding(bits)
            row = () if decided[row_id] else (f"row {row_id} decides",)
            yield Missing(bits, (*row, *(side.text for side in wanted if self._shows(bits, side))))

    def _deciding(self, bits: int) -> str:
        return self._table.decide(bits).row.id

    def _shows(self, bits: int, side: Side) -> bool:
        before = self._table.rows[: self._table.rows.index(side.row)]
        return side.is_shown_by(bits) and not any(row.condition.holds(bits) for row in before)


def _in_order(row: CompiledRow) -> list[str]:
    """The facts that a row's condition names, as they stand there."""
    text = row.row.when
    return sorted(row.condition.names(), key=lambda name: (_place(text, name), name))


def _place(text: str, name: str) -> int:
    words = text.replace("(", " ").replace(")", " ").split()
    return words.index(name)


def _worth(way: Sequence[Side]) -> tuple[bool, int]:
    return all(side.smallest is not None for side in way), sum(side.shown for side in way)


def _matters(diagram: Diagram, condition: Condition, fact: Fact, *, straight: bool) -> int:
    """Where the condition turns with the fact alone: ``straight`` if it holds where the fact does, else the other way
    round."""
    node = diagram.of(condition)
    with_it, without = (diagram.given(node, fact, holds=holds) for holds in (straight, not straight))
    return diagram.without(with_it, without)


def _where(diagram: Diagram, condition: Condition, fact: Fact, *, fact_holds: bool, row_holds: bool) -> int:
    """Where the fact alone makes the condition hold, or not hold."""
    own = diagram.given(diagram.of(condition), fact, holds=fact_holds)
    turned = _matters(diagram, condition, fact, straight=fact_holds is row_holds)
    holds = parse(fact.name if fact_holds else f"not {fact.name}", BY_NAME)
    return diagram.every((turned, own if row_holds else diagram.negated(own), diagram.of(holds)))


def _allowed(diagram: Diagram) -> list[int]:
    """For each constraint where it is not violated."""
    return [diagram.negated(diagram.of(parse(each.never, BY_NAME))) for each in CONSTRAINTS]


def _why_not(table: Table, place: int, side: Side) -> Iterator[str]:
    """Why no run is that side: first what it would be, then a least set of constraints and earlier rows that rule it
    out, constraints rather than rows."""
    # A diagram of its own: every set that is tried is another condition, and none is needed again.
    diagram = Diagram()
    node = _where(diagram, side.row.condition, side.fact, fact_holds=side.fact_holds, row_holds=side.row_holds)
    earlier = [
        (diagram.negated(diagram.of(row.condition)), f"Where {_said(row)}, row {row.row.id} decides first.")
        for row in table.rows[:place]
    ]
    limits = zip(_allowed(diagram), (f"Never {each.never}. {each.why}" for each in CONSTRAINTS), strict=True)
    needed = [*earlier, *limits]
    for each in tuple(needed):
        fewer = [other for other in needed if other is not each]
        if diagram.every((node, *(limit for limit, _ in fewer))) == NEVER:
            needed = fewer
    yield f"No run is such that {side.text}."
    yield from (sentence for _, sentence in needed)


def _said(row: CompiledRow) -> str:
    return " ".join(row.row.when.split())
