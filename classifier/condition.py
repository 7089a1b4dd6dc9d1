"""Conditions over facts: names, ``and``, ``or``, ``not``, parentheses, ``true``. Parsed once, evaluated over bits."""

import ast
import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from classifier.fact import Fact

_STRANGE = re.compile(r"[^ -~]")


class ConditionError(ValueError):
    """A condition that does not parse, or names no fact. The message says where and what to do."""


class Condition(Protocol):
    """A boolean function of facts."""

    def holds(self, bits: int) -> bool:
        """Whether it holds for a set of facts."""

    def names(self) -> frozenset[str]:
        """Names of the facts that it reads."""


@dataclass(frozen=True)
class Always:
    """The condition ``true``."""

    def holds(self, bits: int) -> bool:  # noqa: ARG002  (the protocol's)
        """Always."""
        return True

    def names(self) -> frozenset[str]:
        """No facts."""
        return frozenset()


@dataclass(frozen=True)
class Holds:
    """A fact holds."""

    fact: Fact

    def holds(self, bits: int) -> bool:
        """Whether the fact is in the set."""
        return bool(bits & self.fact.bit)

    def names(self) -> frozenset[str]:
        """The fact."""
        return frozenset({self.fact.name})


@dataclass(frozen=True)
class Not:
    """The other one does not hold."""

    inner: Condition

    def holds(self, bits: int) -> bool:
        """Whether the inner condition fails."""
        return not self.inner.holds(bits)

    def names(self) -> frozenset[str]:
        """Those of the inner condition."""
        return self.inner.names()


@dataclass(frozen=True)
class All:
    """All of them hold."""

    parts: tuple[Condition, ...]

    def holds(self, bits: int) -> bool:
        """Whether every part holds."""
        return all(part.holds(bits) for part in self.parts)

    def names(self) -> frozenset[str]:
        """Those of all parts."""
        return frozenset().union(*(part.names() for part in self.parts))


@dataclass(frozen=True)
class Any:
    """One of them holds."""

    parts: tuple[Condition, ...]

    def holds(self, bits: int) -> bool:
        """Whether some part holds."""
        return any(part.holds(bits) for part in self.parts)

    def names(self) -> frozenset[str]:
        """Those of all parts."""
        return frozenset().union(*(part.names() for part in self.parts))


def deciding(condition: Condition, bits: int) -> list[Fact]:
    """The facts that make a condition hold, or not hold, for ``bits``, in the order in which they stand, each once.

    A fact of ``bits`` decided by holding, any other by not holding. Nothing decides the condition ``true``.
    """
    return list(dict.fromkeys(_deciding(condition, bits)))


def _deciding(condition: Condition, bits: int) -> list[Fact]:
    match condition:
        case Holds(fact):
            return [fact]
        case Not(inner):
            return _deciding(inner, bits)
        case All(parts) | Any(parts):
            holds = condition.holds(bits)
            return [fact for part in parts if part.holds(bits) is holds for fact in _deciding(part, bits)]
    return []


MAX_DEPTH = 64
"""Levels of a condition. More than anybody can read, and fewer than would exhaust the stack of whoever walks it."""

_TOO_DEEP = "not a condition: nested too deeply"


def parse(text: str, facts: Mapping[str, Fact]) -> Condition:
    """Parse a condition over ``facts``. Raises ConditionError with the column and, for a typo, the likely name."""
    line = " ".join(text.split())
    # Python takes letters of other widths and styles for their plain ones, so one name could be written in many ways.
    if strange := _STRANGE.search(line):
        raise ConditionError(f"column {strange.start() + 1}: only ASCII may stand, and {strange[0]!a} is none")
    try:
        tree = ast.parse(line, mode="eval")
    except SyntaxError as error:
        raise ConditionError(f"not a condition: {error.msg}") from None
    except (RecursionError, MemoryError):
        raise ConditionError(_TOO_DEEP) from None
    return _build(tree.body, facts, MAX_DEPTH)


def _build(node: ast.expr, facts: Mapping[str, Fact], depth: int) -> Condition:
    if not depth:
        raise ConditionError(_TOO_DEEP)
    match node:
        case ast.BoolOp(op=ast.And(), values=values):
            return All(tuple(_build(value, facts, depth - 1) for value in values))
        case ast.BoolOp(op=ast.Or(), values=values):
            return Any(tuple(_build(value, facts, depth - 1) for value in values))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return Not(_build(operand, facts, depth - 1))
        case ast.Name(id="true"):
            return Always()
        case ast.Name(id=name) if name in facts:
            return Holds(facts[name])
        case ast.Name(id=name):
            raise ConditionError(f"column {node.col_offset + 1}: {_unknown(name, facts)}")
    raise ConditionError(f"column {node.col_offset + 1}: only fact names, and, or, not, true and parentheses may stand")


def _unknown(name: str, facts: Mapping[str, Fact]) -> str:
    near = difflib.get_close_matches(name, facts, n=1)
    hint = f"did you mean {near[0]}?" if near else "`offramp schema facts` lists those that exist"
    return f"{name} is no fact; {hint}"
