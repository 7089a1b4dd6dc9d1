"""Decision diagrams say of every condition what trying all of its assignments says."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from classifier.condition import All, Always, Any, Condition, Holds, Not
from classifier.diagram import ALWAYS, NEVER, Diagram, TooComplexError
from classifier.facts import FACTS
from tests.classifier.spaces import parsed

FEW = (FACTS[0], FACTS[1], FACTS[17], FACTS[39], FACTS[40])
OTHERS = len(FACTS) - len(FEW)
CASES = [sum(fact.bit for fact, on in zip(FEW, held, strict=True) if on) for held in product((0, 1), repeat=len(FEW))]


def _joined(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    parts = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return st.one_of(inner.map(Not), parts.map(All), parts.map(Any))


CONDITIONS = st.recursive(st.one_of(st.sampled_from(FEW).map(Holds), st.just(Always())), _joined, max_leaves=12)


def _cases(condition: Condition) -> set[int]:
    return {bits for bits in CASES if condition.holds(bits)}


@given(CONDITIONS)
@settings(max_examples=150, deadline=None)
def test_it_counts_and_finds_the_smallest(condition):
    diagram, cases = Diagram(), _cases(condition)
    node = diagram.of(condition)
    assert diagram.count(node) == len(cases) << OTHERS
    smallest = diagram.smallest(node)
    assert (smallest is None) is not cases
    assert smallest is None or smallest in cases
    assert smallest is None or smallest.bit_count() == min(bits.bit_count() for bits in cases)


@given(CONDITIONS, CONDITIONS)
@settings(max_examples=150, deadline=None)
def test_nodes_are_equal_exactly_where_conditions_are(one, other):
    diagram = Diagram()
    assert (diagram.of(one) == diagram.of(other)) is (_cases(one) == _cases(other))


@given(CONDITIONS, CONDITIONS)
@settings(max_examples=100, deadline=None)
def test_what_is_joined_is_what_both_say(one, other):
    diagram = Diagram()
    left, right = diagram.of(one), diagram.of(other)
    assert diagram.every((left, right)) == diagram.of(All((one, other)))
    assert diagram.any((left, right)) == diagram.of(Any((one, other)))
    assert diagram.without(left, right) == diagram.of(All((one, Not(other))))
    assert (diagram.every(()), diagram.any(())) == (ALWAYS, NEVER)


@given(CONDITIONS, st.sampled_from(FEW))
@settings(max_examples=100, deadline=None)
def test_a_fact_that_is_given_is_spoken_of_no_more(condition, fact):
    diagram = Diagram()
    node = diagram.of(condition)
    off, on = (diagram.given(node, fact, holds=holds) for holds in (False, True))
    assert diagram.count(on) == sum(condition.holds(bits | fact.bit) for bits in CASES) << OTHERS
    assert diagram.count(off) == sum(condition.holds(bits & ~fact.bit) for bits in CASES) << OTHERS
    assert diagram.whatever(node, (fact,)) == diagram.any((off, on))


def test_of_equally_small_ones_the_one_without_earlier_facts_is_found():
    diagram = Diagram()
    either = diagram.of(Any((Holds(FEW[0]), Holds(FEW[3]))))
    assert diagram.smallest(either) == FEW[3].bit


def test_entangled_conditions_end_in_an_error():
    # Pairs whose halves stand far apart: every first half must be remembered until its second one comes.
    pairs = " or ".join(f"({a.name} and {b.name})" for a, b in zip(FACTS[:20], FACTS[20:40], strict=True))
    with pytest.raises(TooComplexError, match="more than 50000 steps"):
        Diagram(most_steps=50_000).of(parsed(pairs))
