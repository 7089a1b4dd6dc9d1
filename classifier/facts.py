"""All facts and findings, in one list each. A fact is added in the module that establishes it."""

from functools import lru_cache

from classifier import effects, handover, paths, policy, run
from classifier.fact import Fact, Finding

FACTS: tuple[Fact, ...] = tuple(
    sorted((*effects.FACTS, *policy.FACTS, *paths.FACTS, *handover.FACTS, *run.FACTS), key=lambda fact: fact.position)
)
"""Every fact, by position."""

FINDINGS: tuple[Finding, ...] = tuple(
    sorted((*effects.FINDINGS, *policy.FINDINGS, *handover.FINDINGS, *run.FINDINGS), key=lambda finding: finding.code)
)
"""Every finding, by code."""

BY_NAME: dict[str, Fact] = {fact.name: fact for fact in FACTS}


@lru_cache(maxsize=65536)
def names(bits: int) -> tuple[str, ...]:
    """Names of the facts in a bit set, sorted."""
    return tuple(sorted(fact.name for fact in FACTS if bits & fact.bit))
