"""What the facts' own definitions rule out: combinations of facts that no event has.

Each constraint is one line: facts that never hold together, ``not`` those that never fail to, and why. They follow from
the modules that establish the facts, whatever the thresholds of a table are. A combination that no constraint rules out
is taken as possible, so one that is missing here costs a proof nothing but its being told of a table that is right.
"""

from typing import NamedTuple


class Constraint(NamedTuple):
    """A condition over facts that never holds, and the sentence that says why."""

    never: str
    why: str


CONSTRAINTS: tuple[Constraint, ...] = (
    # side effects
    Constraint("duplicate_effect and not effect_took_place", "What took effect twice took effect."),
    Constraint("unapproved_effect and not effect_took_place", "What took effect without approval took effect."),
    Constraint("fence_violation and not write_attempted", "What crosses the fence is a write."),
    Constraint(
        "fence_violation and not effect_took_place and not ambiguous_effect",
        "A write that had no effect was turned away at the fence; it did not cross it.",
    ),
    Constraint("idempotency_protected and not ambiguous_effect", "Protection is that of ambiguous operations."),
    Constraint("idempotency_protected and not write_attempted", "Protection is one key on attempts that were made."),
    # how the run stopped: one stop class
    Constraint("stopped_normally and nonterminal_stop", "A run has one stop class."),
    Constraint("stopped_normally and truncated", "A run has one stop class."),
    Constraint("stopped_normally and model_declined", "A run has one stop class."),
    Constraint("nonterminal_stop and truncated", "A run has one stop class."),
    Constraint("nonterminal_stop and model_declined", "A run has one stop class."),
    Constraint("truncated and model_declined", "A run has one stop class."),
    # an empty response: no call, and no error of the model
    Constraint("empty_response and write_attempted", "A run with a call has not answered with nothing."),
    Constraint("empty_response and required_path_failed", "Without a call or an error, no path failed."),
    # completion: one result of the predicate
    Constraint("predicate_satisfied and predicate_unsatisfied", "A predicate has one result."),
    Constraint("predicate_satisfied and predicate_unverifiable", "A predicate has one result."),
    Constraint("predicate_unsatisfied and predicate_unverifiable", "A predicate has one result."),
    # required paths
    Constraint("authority_missing and not required_path_failed", "A path refused for lack of authority failed."),
    Constraint("dependency_failed and not required_path_failed", "A required dependency that failed is a path."),
    Constraint("malformed_observation and not required_path_failed", "An answer that cannot be read fails its path."),
    # fallbacks
    Constraint(
        "fallback_applied and not eligible_fallback_applied and not ineligible_fallback_applied",
        "A fallback that was applied is eligible or not.",
    ),
    Constraint("eligible_fallback_applied and not fallback_applied", "A fallback that was applied was applied."),
    Constraint("ineligible_fallback_applied and not fallback_applied", "A fallback that was applied was applied."),
    Constraint(
        "eligible_fallback_ready and not required_path_failed and not truncated and not model_declined"
        " and not budget_exhausted",
        "A fallback is ready where something failed that it serves.",
    ),
    Constraint(
        "eligible_fallback_ready and required_path_failed and not dependency_failed and not malformed_observation",
        "Ready fallbacks serve every failed call, and only these failures are served.",
    ),
    Constraint(
        "empty_response and eligible_fallback_applied and not truncated and not model_declined"
        " and not budget_exhausted",
        "Without a call, only the run itself can have triggered a fallback.",
    ),
    # components of the result
    Constraint("omission_may_change_result and not omission", "An omission that may change the result is one."),
    Constraint("required_omission and not omission", "An omission that is required is one."),
    Constraint("safe_partial and not omission", "A result without an omission is not partial."),
    Constraint("safe_partial and omission_may_change_result", "A partial that an omission may change is not safe."),
    Constraint("safe_partial and ambiguous_effect", "A partial with an open effect is not safe."),
    Constraint("safe_partial and unsupported_decision", "A partial that asserts an unsupported decision is not safe."),
    Constraint("safe_partial and empty_response", "A response without content is not partial."),
)
"""Every constraint, each once."""
