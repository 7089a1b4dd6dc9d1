"""What the invariants rule out: the prohibited kinds for an assignment of facts, whatever table decides.

Each rule is one line: facts under which kinds are prohibited. The numbers are those of the invariants in
``docs/exit-contracts.md``.
"""

from typing import NamedTuple

from classifier.condition import Condition, parse
from classifier.facts import BY_NAME
from schemas.exits import KINDS

_REFUSAL = ("refusal",)
_ALL_BUT_REFUSAL = ("completed", "fallback", "partial", "human_queue")
_ALL_BUT_PERSON = ("completed", "fallback", "partial")


class Rule(NamedTuple):
    """An invariant that speaks of facts: ``kinds`` are prohibited where ``when`` holds."""

    number: int
    when: str
    kinds: tuple[str, ...]


RULES: tuple[Rule, ...] = (
    Rule(2, "standing_denial", _ALL_BUT_REFUSAL),
    Rule(2, "not standing_denial", _REFUSAL),
    Rule(3, "ambiguous_effect and not idempotency_protected", _ALL_BUT_PERSON),
    Rule(3, "duplicate_effect or unapproved_effect or fence_violation", _ALL_BUT_PERSON),
    Rule(3, "taken_over or child_run_open or contradiction", _ALL_BUT_PERSON),
    Rule(4, "omission_may_change_result", ("completed", "partial")),
    Rule(4, "unsupported_decision", _ALL_BUT_PERSON),
    Rule(5, "not eligible_fallback_applied and not eligible_fallback_ready", ("fallback",)),
    Rule(5, "ineligible_fallback_applied", _ALL_BUT_PERSON),
    Rule(5, "fallback_applied", ("completed",)),
    Rule(6, "policy_unavailable or approval_needed or authority_missing", _ALL_BUT_PERSON),
    Rule(6, "model_declined and not request_allowed", _ALL_BUT_PERSON),
    Rule(7, "not safe_partial", ("partial",)),
    Rule(7, "confidence_below_floor or confidence_declining or result_confidence_low", ("partial",)),
    Rule(
        7,
        "(confidence_below_floor or confidence_declining or result_confidence_low) and not predicate_satisfied",
        ("completed",),
    ),
    Rule(
        8,
        "not predicate_satisfied and (not completion_claimed or predicate_unsatisfied or predicate_unverifiable)",
        ("completed",),
    ),
    Rule(8, "ambiguous_effect or required_omission or nonterminal_stop", ("completed",)),
    Rule(8, "(empty_response or truncated) and not predicate_satisfied", ("completed",)),
)

_COMPILED: tuple[tuple[Condition, tuple[str, ...]], ...] = tuple((parse(r.when, BY_NAME), r.kinds) for r in RULES)


def prohibited(bits: int) -> list[str]:
    """Kinds that are ruled out for these facts, in the contract's order. Never all of them."""
    ruled_out = {kind for condition, kinds in _COMPILED if condition.holds(bits) for kind in kinds}
    return [kind for kind in KINDS if kind in ruled_out]
