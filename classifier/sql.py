"""The decision table as SQL: what a table decides, computed by the engine from the stored facts alone.

Text only. Every expression is one of ClickHouse's dialect over one column of fact bits, and agrees with
:class:`classifier.decide.Classifier` for every set of facts, the guard against prohibited exits included.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from classifier.condition import All, Always, Any, Condition, Holds, Not, parse
from classifier.facts import BY_NAME, FACTS
from classifier.invariants import RULES
from classifier.outcomes import BY_CASE, GUARDED, cases_of, outcomes
from classifier.run import PREDICATE_SATISFIED
from classifier.table import CompiledRow, Table
from schemas.exits import KINDS

COLUMN = "fact_bits"
"""The column of the store that holds the facts."""

_TRUE, _FALSE = "1", "0"
_BIT_OF_KIND = {kind: 1 << place for place, kind in enumerate(KINDS)}


@dataclass(frozen=True)
class ExitSql:
    """Expressions of what a table decides; a String where nothing else is said.

    ``outcome`` is the index in :func:`classifier.outcomes.outcomes`, counted from 1. ``rule_id`` is the row that
    decides, ``kind`` its exit, or the safe one where the invariants rule that out. ``reason_code`` is Nullable: NULL
    where it comes from the evidence, which facts do not tell. ``queue`` is NULL for all but human_queue, ``verified`` 0
    or 1, ``prohibited`` an Array(String) in the contract's order.
    """

    outcome: str
    rule_id: str
    kind: str
    reason_code: str
    queue: str
    verified: str
    prohibited: str


def exit_sql(table: Table, column: str = COLUMN) -> ExitSql:
    """What ``table`` decides for the facts in ``column``, an expression of type UInt64."""
    outcome, found = _outcome(table, column), outcomes(table)

    def looked_up(values: Iterable[str | None]) -> str:
        return f"[{', '.join(map(_text, values))}][{outcome}]"

    kind = looked_up(each.kind for each in found)
    return ExitSql(
        outcome=outcome,
        rule_id=looked_up(each.rule_id for each in found),
        kind=kind,
        reason_code=looked_up(each.reason_code for each in found),
        queue=looked_up(each.queue for each in found),
        verified=f"{kind} = 'completed' AND {condition_sql(Holds(PREDICATE_SATISFIED), column)}",
        prohibited=_prohibited(column),
    )


def facts_sql(column: str = COLUMN) -> str:
    """The names of the facts in ``column``, sorted: an Array(String), as :func:`classifier.facts.names` gives them."""
    ordered = sorted(FACTS, key=lambda fact: fact.name)
    names, places = ", ".join(_text(fact.name) for fact in ordered), ", ".join(str(fact.position) for fact in ordered)
    return f"arrayFilter((name, place) -> bitTest({column}, place), [{names}], [{places}])"


def condition_sql(condition: Condition, column: str = COLUMN) -> str:
    """Whether a condition holds for the facts in ``column``: 0 or 1.

    Facts that are asked for together are one comparison under a mask, since the engine pays for each operation.
    """
    match condition:
        case Holds(fact):
            return f"bitTest({column}, {fact.position})"
        case Not(Holds(fact)):
            return f"NOT bitTest({column}, {fact.position})"
        case Not(inner):
            return condition_sql(_negated(inner), column)
        case All(parts):
            return _all(parts, column)
        case Any(parts):
            return _any(parts, column)
    return _TRUE


def _all(parts: Sequence[Condition], column: str) -> str:
    there, absent, others = _apart(parts, All)
    if there & absent:
        return _FALSE
    masked = [f"bitAnd({column}, {there | absent}) = {there}"] if there | absent else []
    return " AND ".join(masked + [f"({condition_sql(other, column)})" for other in others]) or _TRUE


def _any(parts: Sequence[Condition], column: str) -> str:
    there, absent, others = _apart(parts, Any)
    if there & absent:
        return _TRUE
    masked = [f"bitAnd({column}, {there | absent}) != {absent}"] if there | absent else []
    return " OR ".join(masked + [f"({condition_sql(other, column)})" for other in others]) or _FALSE


def _apart(parts: Sequence[Condition], kind: type[All | Any]) -> tuple[int, int, list[Condition]]:
    """Of parts that are joined alike: the facts, as bits, the facts that must not hold, and what else there is."""
    there, absent, others = 0, 0, list[Condition]()
    for part in _flat(parts, kind):
        match part:
            case Holds(fact):
                there |= fact.bit
            case Not(Holds(fact)):
                absent |= fact.bit
            case _:
                others.append(part)
    return there, absent, others


def _flat(parts: Iterable[Condition], kind: type[All | Any]) -> Iterator[Condition]:
    """The parts, those that join parts in the same way taken apart; ``not`` stands before facts alone."""
    for part in parts:
        plain = _negated(part.inner) if isinstance(part, Not) else part
        if isinstance(plain, kind):
            yield from _flat(plain.parts, kind)
        else:
            yield plain


def _negated(condition: Condition) -> Condition:
    match condition:
        case Not(inner):
            return inner
        case All(parts):
            return Any(tuple(Not(part) for part in parts))
        case Any(parts):
            return All(tuple(Not(part) for part in parts))
        case Always():
            return Any(())
    return Not(condition)


def _outcome(table: Table, column: str) -> str:
    """The index, from 1, of the outcome: what the row says, or the safe exit where that is ruled out."""
    case = _case(table, column)
    ruled_out = _ruled_out(column)
    kinds = [str(_BIT_OF_KIND[row.kind]) for row in table.rows for _ in cases_of(row)]
    said = f"[{', '.join(kinds)}][{case}]"
    denied = f"bitAnd({ruled_out}, {_BIT_OF_KIND['human_queue']}) != 0"
    safe = f"if({denied}, {GUARDED.index('refusal') + 1}, {GUARDED.index('human_queue') + 1})"
    guard = f"if(bitAnd({said}, {ruled_out}) != 0, {safe}, 0)"
    return f"{BY_CASE} * ({case} - 1) + {guard} + 1"


def _case(table: Table, column: str) -> str:
    """The number of the case, from 1: of the first row that holds, the first whose reason's condition does."""
    number, rows = 1, list[tuple[Condition, str]]()
    for row in table.rows:
        rows.append((row.condition, _case_of(row, number, column)))
        number += len(cases_of(row))
    return _first(rows, column)


def _case_of(row: CompiledRow, number: int, column: str) -> str:
    """The number of the case of one row, whose first has ``number``."""
    finer = [(condition, str(number + place)) for place, (condition, _) in enumerate(row.reasons)]
    return _first([*finer, (All(()), str(number + len(finer)))], column)


def _first(choices: Sequence[tuple[Condition, str]], column: str) -> str:
    """The value of the first condition that holds; the last is taken to hold."""
    *earlier, (_, last) = choices
    tests = [f"{condition_sql(condition, column)}, {value}" for condition, value in earlier]
    return f"multiIf({', '.join([*tests, last])})" if tests else last


def _ruled_out(column: str) -> str:
    """The kinds that the invariants rule out, as bits. Rules that rule out the same are one."""
    alike: dict[tuple[str, ...], list[Condition]] = {}
    for rule in RULES:
        alike.setdefault(rule.kinds, []).append(parse(rule.when, BY_NAME))
    terms = (
        f"({condition_sql(Any(tuple(conditions)), column)}) * {sum(_BIT_OF_KIND[kind] for kind in kinds)}"
        for kinds, conditions in alike.items()
    )
    return reduce("bitOr({}, {})".format, terms)


def _prohibited(column: str) -> str:
    kinds, bits = ", ".join(map(_text, KINDS)), ", ".join(map(str, _BIT_OF_KIND.values()))
    return f"arrayFilter((kind, bit) -> bitAnd({_ruled_out(column)}, bit) != 0, [{kinds}], [{bits}])"


def _text(value: str | None) -> str:
    """A literal. All are codes of the table, which have neither quotes nor backslashes."""
    return "NULL" if value is None else f"'{value}'"
