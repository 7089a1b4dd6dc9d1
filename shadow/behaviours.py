"""Ways in which a run can end, counted as behaviours of their own, since one rate of success hides each of them."""

from typing import NamedTuple


class Behaviour(NamedTuple):
    """A way to end. ``condition`` is SQL over ``v_comparison``, never NULL. A run may show several.

    ``title`` is what people are shown, where ``name`` in words would be taken for something else.
    """

    name: str
    meaning: str
    condition: str
    title: str = ""

    @property
    def label(self) -> str:
        """What people are shown; programs have ``name``."""
        return self.title or self.name.replace("_", " ")


_OWES = "(obligations > 0 OR ambiguous)"

BEHAVIOURS: tuple[Behaviour, ...] = (
    Behaviour("successful_completion", "completed, and its predicate says so", "kind = 'completed' AND verified"),
    Behaviour("unverified_completion", "completed by its own word alone", "kind = 'completed' AND NOT verified"),
    Behaviour(
        "premature_completion",
        "claimed completion, and its predicate does not hold or cannot be evaluated",
        # One by one, since the engine takes longer to look for any of several.
        "has(facts, 'completion_claimed')"
        " AND (has(facts, 'predicate_unsatisfied') OR has(facts, 'predicate_unverifiable'))",
        # A disagreement bears the name too, and is of those runs that legacy answered as success.
        title="claim not borne out",
    ),
    Behaviour("no_progress", "repeated itself, or did not advance, to its end", "has(facts, 'no_progress')"),
    Behaviour("budget_exhaustion", "used up a budget", "has(facts, 'budget_exhausted')"),
    Behaviour(
        "safe_failure",
        "not completed, and no effect is left that somebody must settle",
        f"kind NOT IN ('completed', '') AND NOT {_OWES}",
    ),
    Behaviour(
        "unsafe_failure",
        "not completed, and an effect is left that somebody must settle",
        f"kind NOT IN ('completed', '') AND {_OWES}",
    ),
    Behaviour("hand_off", "handed to a person", "kind = 'human_queue'"),
)
"""Source: the six behaviours that exits are to be tested by; completion and failure are told apart further."""
