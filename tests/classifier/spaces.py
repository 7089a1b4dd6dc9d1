"""What tests of proofs share: the space of possible combinations of facts, and draws from it, each equally likely."""

from random import Random

from classifier.condition import Condition, parse
from classifier.constraints import CONSTRAINTS
from classifier.diagram import Diagram
from classifier.facts import BY_NAME, FACTS


def parsed(text: str) -> Condition:
    """A condition over the facts."""
    return parse(text, BY_NAME)


def possible(diagram: Diagram) -> int:
    """Where no constraint is violated."""
    return diagram.every(diagram.negated(diagram.of(parsed(each.never))) for each in CONSTRAINTS)


def draw(diagram: Diagram, node: int, rng: Random) -> int:
    """The bits of one combination of a node, every combination of it equally likely."""
    bits = 0
    for fact in FACTS:
        sides = [diagram.given(node, fact, holds=holds) for holds in (False, True)]
        without, with_it = (diagram.count(side) for side in sides)
        takes = rng.randrange(without + with_it) >= without
        node, bits = sides[takes], bits | (fact.bit if takes else 0)
    return bits
