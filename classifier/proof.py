"""What is proved of a decision table: for every combination of facts that an event can have, not for a sample of them.

The combinations are those that :mod:`classifier.constraints` leaves. They are not enumerated; a decision diagram holds
all of them at once, so every answer here is exact, and every counter-example is one with the fewest facts.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from classifier.condition import Condition, parse
from classifier.constraints import CONSTRAINTS, Constraint
from classifier.diagram import MOST_STEPS, NEVER, Diagram, TooComplexError
from classifier.effects import AMBIGUOUS_EFFECT, DUPLICATE_EFFECT, EFFECT_TOOK_PLACE
from classifier.fact import Fact
from classifier.facts import BY_NAME, FACTS, names
from classifier.handover import SAFE_PARTIAL
from classifier.invariants import RULES, Rule
from classifier.policy import STANDING_DENIAL, UNAPPROVED_EFFECT
from classifier.run import CONTRADICTION
from classifier.table import CompiledRow, Table

METHOD = "binary decision diagram"
"""How it is proved."""


class Kind(StrEnum):
    """What kind of thing is to be proved."""

    TOTAL = "total"
    REACHABLE = "reachable"
    PROHIBITED = "prohibited"
    MONOTONE = "monotone"
    TOO_COMPLEX = "too_complex"


@dataclass(frozen=True)
class Failure:
    """Why something does not hold. ``rows`` are the ids of the rows at fault, the one of the counter-example first.

    ``bits`` are the facts of a smallest counter-example, None where no combination of facts shows it, as of a row that
    never holds. Of a change that makes an exit bolder, ``bits`` are the facts after it and ``before`` those before it.
    """

    rows: tuple[str, ...]
    bits: int | None
    text: str
    before: int | None = None

    @property
    def facts(self) -> tuple[str, ...]:
        """Names of the facts of the counter-example, sorted; every other fact does not hold in it."""
        return names(self.bits or 0)


@dataclass(frozen=True)
class Obligation:
    """Something to be proved. ``invariant`` is its number in ``docs/exit-contracts.md``, None if it has none there;
    ``cases`` are the combinations of facts that it speaks of, pairs of them where it speaks of a change."""

    kind: Kind
    invariant: int | None
    claim: str
    cases: int
    failure: Failure | None


@dataclass(frozen=True)
class Proof:
    """The outcome for one table. ``assignments`` of ``facts`` facts are possible by ``constraints`` constraints."""

    table: dict[str, str]
    facts: int
    constraints: int
    assignments: int
    obligations: tuple[Obligation, ...]
    method: str = METHOD

    @cached_property
    def failures(self) -> tuple[Failure, ...]:
        """Everything that does not hold."""
        return tuple(obligation.failure for obligation in self.obligations if obligation.failure)

    @property
    def holds(self) -> bool:
        """Whether all of it is proved."""
        return not self.failures


def prove(table: Table, *, most_steps: int = MOST_STEPS) -> Proof:
    """Prove, or refute with smallest counter-examples, what ``docs/exit-contracts.md`` asks of every table.

    A table whose conditions take more than ``most_steps`` to compare fails, as one that nobody can vouch for.
    """
    diagram = Diagram(most_steps=most_steps)
    possible = possible_in(diagram)
    try:
        obligations = tuple(_Prover(table, diagram, possible).obligations())
    except TooComplexError as error:
        failure = Failure((), None, f"The table cannot be proved: {error}. Say its conditions more simply.")
        obligations = (Obligation(Kind.TOO_COMPLEX, None, "The table can be proved.", 0, failure),)
    return Proof(table.ref, len(FACTS), len(CONSTRAINTS), diagram.count(possible), obligations)


def possible_in(diagram: Diagram, constraints: Iterable[Constraint] = CONSTRAINTS) -> int:
    """The combinations of facts that none of the constraints rules out, as a node of a diagram."""
    return diagram.every(diagram.negated(diagram.of(parse(each.never, BY_NAME))) for each in constraints)


class _Decided(NamedTuple):
    """A row, where its condition holds, and where it decides, as nodes of possible combinations."""

    row: CompiledRow
    holds: int
    decides: int

    @property
    def id(self) -> str:
        return self.row.row.id

    @property
    def kind(self) -> str:
        return self.row.kind


_CAUTIOUS = ("human_queue", "refusal")
_BOLD = ("completed", "partial", "fallback")


class _Trouble(NamedTuple):
    """A fact that must never make an exit bolder, and the facts that follow from it and may change with it."""

    fact: Fact
    following: tuple[Fact, ...]


_TROUBLES = (
    _Trouble(STANDING_DENIAL, ()),
    _Trouble(AMBIGUOUS_EFFECT, (SAFE_PARTIAL,)),
    _Trouble(DUPLICATE_EFFECT, (EFFECT_TOOK_PLACE,)),
    _Trouble(UNAPPROVED_EFFECT, (EFFECT_TOOK_PLACE,)),
    _Trouble(CONTRADICTION, ()),
)


class _Prover:
    """One table, and where each of its rows decides."""

    def __init__(self, table: Table, diagram: Diagram, possible: int) -> None:
        self._diagram, self._possible = diagram, possible
        self._rows: list[_Decided] = []
        self._left = possible
        for row in table.rows:
            holds = diagram.every((possible, diagram.of(row.condition)))
            self._rows.append(_Decided(row, holds, diagram.every((self._left, holds))))
            self._left = diagram.without(self._left, holds)

    def obligations(self) -> Iterator[Obligation]:
        """Yield everything that is to be proved, in the order of the invariants."""
        yield self._total()
        for row in self._rows:
            yield self._reachable(row)
        for rule in RULES:
            yield self._prohibited(rule)
        for trouble in _TROUBLES:
            yield self._monotone(trouble)

    # --- every run gets an exit, and every row is of use

    def _total(self) -> Obligation:
        failure = None
        if (bits := self._diagram.smallest(self._left)) is not None:
            failure = Failure((), bits, "No row holds, so the run gets no exit.")
        return self._obligation(Kind.TOTAL, 1, "Every run gets exactly one exit.", self._possible, failure)

    def _reachable(self, row: _Decided) -> Obligation:
        failure = None
        if row.holds == NEVER:
            failure = Failure((row.id,), None, f"Row {row.id} never holds. {' '.join(_why_never(row.row.condition))}")
        elif row.decides == NEVER:
            failure = self._shadowed(row)
        return self._obligation(Kind.REACHABLE, 1, f"Row {row.id} decides some run.", row.holds, failure)

    def _shadowed(self, row: _Decided) -> Failure:
        """Why a row decides nothing: a least set of rows that leave it nothing, that of the counter-example first."""
        shadows = self._shadows(row)
        taken = self._diagram.any(shadow.decides for shadow in shadows)
        bits = self._diagram.smallest(self._diagram.every((row.holds, taken))) or 0
        ids = _ids(sorted(shadows, key=lambda shadow: shadow is not self._deciding(bits)))
        text = f"Row {row.id} decides nothing: wherever it holds, an earlier row does ({', '.join(ids)})."
        return Failure((row.id, *ids), bits, text)

    def _shadows(self, row: _Decided) -> list[_Decided]:
        """The rows before it that hold wherever it does, without those that are not needed for that. The later are left
        out first, so that every row that stays decides somewhere."""
        needed = self._rows[: self._rows.index(row)]
        for each in reversed(needed):
            fewer = [other for other in needed if other is not each]
            if self._diagram.without(row.holds, self._diagram.any(other.holds for other in fewer)) == NEVER:
                needed = fewer
        return needed

    # --- what an exit must not be

    def _prohibited(self, rule: Rule) -> Obligation:
        where = self._diagram.every((self._possible, self._diagram.of(parse(rule.when, BY_NAME))))
        bad = [(row, self._diagram.every((row.decides, where))) for row in self._rows if row.kind in rule.kinds]
        failure = None
        if culprits := self._culprits(bad):
            rows, bits = culprits
            text = f"Row {rows[0].id} decides {rows[0].kind}; invariant {rule.number} rules that out where {rule.when}."
            failure = Failure(_ids(rows), bits, text)
        claim = f"Where {rule.when}: never {_or(rule.kinds)}."
        return self._obligation(Kind.PROHIBITED, rule.number, claim, where, failure)

    def _culprits(self, bad: list[tuple[_Decided, int]]) -> tuple[list[_Decided], int] | None:
        """The rows that are somewhere wrong, and the smallest combination where one is; the row of that one first."""
        bits = self._diagram.smallest(self._diagram.any(node for _, node in bad))
        if bits is None:
            return None
        rows = [row for row, node in bad if node != NEVER]
        return sorted(rows, key=lambda row: row is not self._deciding(bits)), bits

    # --- what a change of facts must not do

    def _monotone(self, trouble: _Trouble) -> Obligation:
        """Compare combinations without the fact with those that have it, all else equal but what follows from it."""
        possible, free = self._possible, 1 + len(trouble.following)
        claim = f"Turning on {trouble.fact.name} never turns {_or(_CAUTIOUS)} into {_or(_BOLD)}."
        cases = self._diagram.count(self._pairs(trouble, possible, possible)) >> free
        return Obligation(Kind.MONOTONE, 11, claim, cases, self._emboldened(trouble))

    def _pairs(self, trouble: _Trouble, before: int, after: int) -> int:
        """What the facts that do not change are, where ``before`` holds without the fact and ``after`` with it."""
        without = self._diagram.given(before, trouble.fact, holds=False)
        with_it = self._diagram.given(after, trouble.fact, holds=True)
        return self._diagram.every(self._diagram.whatever(side, trouble.following) for side in (without, with_it))

    def _emboldened(self, trouble: _Trouble) -> Failure | None:
        cautious = self._diagram.any(row.decides for row in self._rows if row.kind in _CAUTIOUS)
        bold = self._diagram.any(row.decides for row in self._rows if row.kind in _BOLD)
        shared = self._diagram.smallest(self._pairs(trouble, cautious, bold))
        if shared is None:
            return None
        before = self._completed(trouble, cautious, shared)
        after = self._completed(trouble, bold, shared | trouble.fact.bit)
        rows = [self._deciding(after), self._deciding(before)]
        text = (
            f"Row {rows[0].id} decides {rows[0].kind} where, without {trouble.fact.name}, "
            f"row {rows[1].id} decides {rows[1].kind}."
        )
        return Failure(_ids(rows), after, text, before)

    def _completed(self, trouble: _Trouble, node: int, shared: int) -> int:
        """The smallest combination in ``node`` that has the facts of ``shared``, whatever follows from the trouble."""
        for fact in FACTS:
            if fact not in trouble.following:
                node = self._diagram.given(node, fact, holds=bool(shared & fact.bit))
        return shared | (self._diagram.smallest(node) or 0)

    # --- what all of them need

    def _deciding(self, bits: int) -> _Decided:
        """The row that decides a combination."""
        return next(row for row in self._rows if row.row.condition.holds(bits))

    def _obligation(self, kind: Kind, invariant: int, claim: str, where: int, failure: Failure | None) -> Obligation:
        return Obligation(kind, invariant, claim, self._diagram.count(where), failure)


def _why_never(condition: Condition) -> list[str]:
    """The sentences of a least set of constraints that keep a condition from holding."""
    # A diagram of its own: every set that is tried is another condition, and none is needed again.
    diagram, needed = Diagram(), list(CONSTRAINTS)
    node = diagram.of(condition)
    for each in CONSTRAINTS:
        fewer = [other for other in needed if other is not each]
        if diagram.every((possible_in(diagram, fewer), node)) == NEVER:
            needed = fewer
    return list(dict.fromkeys(each.why for each in needed)) or ["Its condition contradicts itself."]


def _ids(rows: Iterable[_Decided]) -> tuple[str, ...]:
    return tuple(row.id for row in rows)


def _or(kinds: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(kinds[:-1]), kinds[-1])))
