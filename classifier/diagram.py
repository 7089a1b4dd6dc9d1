"""Reduced ordered binary decision diagrams over facts: every assignment of facts at once, exactly.

A condition is a node. Equal conditions are the same node, so a condition never holds exactly if its node is
:data:`NEVER`, and counting the assignments under which it holds, or finding the one with the fewest true facts, is one
walk. Source of the method: R. E. Bryant, Graph-Based Algorithms for Boolean Function Manipulation, 1986.
"""

from collections.abc import Iterable
from typing import NamedTuple

from classifier.condition import All, Any, Condition, Holds, Not
from classifier.fact import Fact
from classifier.facts import FACTS

NEVER, ALWAYS = 0, 1
"""The nodes of the condition that never holds, and of the one that always does."""

MOST_STEPS = 400_000
"""So many steps are made at most: some seconds, some 100 MB. The default table's proof makes twenty thousand."""


class TooComplexError(ValueError):
    """Conditions so entangled that their diagram outgrows :data:`MOST_STEPS`."""


class _Node(NamedTuple):
    """Which of two nodes holds, by one fact, given as its index in FACTS; the two constants stand behind all facts."""

    level: int
    low: int
    high: int


class Diagram:
    """All conditions of one question, sharing their nodes. Nodes are ints, good for this diagram alone.

    ``most_steps`` bounds the work; what goes beyond it raises TooComplexError.
    """

    def __init__(self, *, most_steps: int = MOST_STEPS) -> None:
        self._nodes = [_Node(len(FACTS), NEVER, NEVER), _Node(len(FACTS), ALWAYS, ALWAYS)]
        self._known: dict[_Node, int] = {}
        self._chosen: dict[tuple[int, int, int], int] = {}
        self._level = {fact.name: level for level, fact in enumerate(FACTS)}
        self._most_steps = most_steps

    def of(self, condition: Condition) -> int:
        """The node of a condition."""
        match condition:
            case Holds(fact):
                return self._node(self._level[fact.name], NEVER, ALWAYS)
            case Not(inner):
                return self.negated(self.of(inner))
            case All(parts):
                return self.every(self.of(part) for part in parts)
            case Any(parts):
                return self.any(self.of(part) for part in parts)
        return ALWAYS

    def negated(self, node: int) -> int:
        """Where ``node`` does not hold."""
        return self._choose(node, NEVER, ALWAYS)

    def every(self, nodes: Iterable[int]) -> int:
        """Where all of them hold."""
        result = ALWAYS
        for node in nodes:
            result = self._choose(result, node, NEVER)
        return result

    def any(self, nodes: Iterable[int]) -> int:
        """Where one of them holds."""
        result = NEVER
        for node in nodes:
            result = self._choose(result, ALWAYS, node)
        return result

    def without(self, node: int, other: int) -> int:
        """Where ``node`` holds and ``other`` does not."""
        return self._choose(other, NEVER, node)

    def given(self, node: int, fact: Fact, *, holds: bool) -> int:
        """What ``node`` says of the other facts where the fact holds, or does not; it no longer speaks of the fact."""
        return self._given(node, self._level[fact.name], holds, {})

    def whatever(self, node: int, facts: Iterable[Fact]) -> int:
        """Where ``node`` holds for some values of these facts; it no longer speaks of them."""
        for fact in facts:
            node = self.any((self.given(node, fact, holds=False), self.given(node, fact, holds=True)))
        return node

    def count(self, node: int) -> int:
        """Number of assignments of all facts under which it holds, exactly."""
        return self._count(node, {}) << self._nodes[node].level

    def smallest(self, node: int) -> int | None:
        """The facts, as bits, of an assignment under which it holds with as few of them as can be; None if it never
        holds. Of several, one without the earlier facts."""
        if node == NEVER:
            return None
        fewest: dict[int, int] = {}
        self._fewest(node, fewest)
        bits = 0
        while node != ALWAYS:
            level, low, high = self._nodes[node]
            takes = fewest[high] + 1 < fewest[low]
            bits |= FACTS[level].bit if takes else 0
            node = high if takes else low
        return bits

    # --- how it is done

    def _choose(self, test: int, then: int, otherwise: int) -> int:
        """Where ``then`` holds if ``test`` does, else ``otherwise``: the one operation that all others are."""
        if test == ALWAYS or then == otherwise:
            return then
        if test == NEVER:
            return otherwise
        key = (test, then, otherwise)
        known = self._chosen.get(key)
        if known is None:
            level = min(self._nodes[node].level for node in key)
            low, high = ([self._side(node, level, holds) for node in key] for holds in (False, True))
            known = self._chosen[key] = self._node(level, self._choose(*low), self._choose(*high))
        return known

    def _side(self, node: int, level: int, holds: bool) -> int:  # noqa: FBT001  (which side)
        at, low, high = self._nodes[node]
        return node if at != level else high if holds else low

    def _node(self, level: int, low: int, high: int) -> int:
        if low == high:
            return low
        if len(self._chosen) > self._most_steps:
            raise TooComplexError(f"its conditions take more than {self._most_steps} steps to compare")
        number = self._known.setdefault(_Node(level, low, high), len(self._nodes))
        if number == len(self._nodes):
            self._nodes.append(_Node(level, low, high))
        return number

    def _given(self, node: int, level: int, holds: bool, done: dict[int, int]) -> int:  # noqa: FBT001  (which side)
        at, low, high = self._nodes[node]
        if at >= level:
            return self._side(node, level, holds)
        if node not in done:
            done[node] = self._node(at, self._given(low, level, holds, done), self._given(high, level, holds, done))
        return done[node]

    def _count(self, node: int, done: dict[int, int]) -> int:
        """Assignments of the facts from the node's own on."""
        if node in (NEVER, ALWAYS):
            return node
        if node not in done:
            level, *sides = self._nodes[node]
            done[node] = sum(self._count(side, done) << (self._nodes[side].level - level - 1) for side in sides)
        return done[node]

    def _fewest(self, node: int, done: dict[int, int]) -> int:
        """Fewest true facts under which a node holds; more than there are where it never does."""
        if node not in done:
            ends, (_, low, high) = {NEVER: len(FACTS) + 1, ALWAYS: 0}, self._nodes[node]
            done[node] = ends[node] if node in ends else min(self._fewest(low, done), self._fewest(high, done) + 1)
        return done[node]
