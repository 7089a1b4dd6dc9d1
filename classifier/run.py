"""The run itself: how it stopped, whether it moved, whether anybody took over, what it claims."""

from decimal import Decimal
from fractions import Fraction

from classifier.fact import Event, Fact, Finding
from classifier.paths import group, last_attempts

TAKEN_OVER = Fact(6, "taken_over", "a person has taken over, or a freeze is not complete")
CHILD_RUN_OPEN = Fact(7, "child_run_open", "a delegated run still runs, or nobody knows")
CONTRADICTION = Fact(8, "contradiction", "two pieces of evidence exclude each other and nobody resolved it")
PREDICATE_SATISFIED = Fact(15, "predicate_satisfied", "the completion predicate was evaluated and holds")
PREDICATE_UNSATISFIED = Fact(16, "predicate_unsatisfied", "the completion predicate was evaluated and does not hold")
PREDICATE_UNVERIFIABLE = Fact(17, "predicate_unverifiable", "the completion predicate cannot be evaluated")
COMPLETION_CLAIMED = Fact(18, "completion_claimed", "the run claims completion")
CONFIDENCE_BELOW_FLOOR = Fact(29, "confidence_below_floor", "the last step's confidence is below the floor")
CONFIDENCE_DECLINING = Fact(30, "confidence_declining", "it fell too far against the mean of the steps before")
RESULT_CONFIDENCE_LOW = Fact(36, "result_confidence_low", "a validator check of the last step is a veto")
NO_PROGRESS = Fact(32, "no_progress", "the last three steps repeat one action, or say that they did not advance")
NONTERMINAL_STOP = Fact(34, "nonterminal_stop", "the run did not come to an end of its own")
EMPTY_RESPONSE = Fact(37, "empty_response", "no output, no call, no error: a silent failure")
STOPPED_NORMALLY = Fact(38, "stopped_normally", "the model ended its turn, or no model is involved")
FACTS: tuple[Fact, ...] = (
    TAKEN_OVER, CHILD_RUN_OPEN, CONTRADICTION, PREDICATE_SATISFIED, PREDICATE_UNSATISFIED, PREDICATE_UNVERIFIABLE,
    COMPLETION_CLAIMED, CONFIDENCE_BELOW_FLOOR, CONFIDENCE_DECLINING, RESULT_CONFIDENCE_LOW, NO_PROGRESS,
    NONTERMINAL_STOP, EMPTY_RESPONSE, STOPPED_NORMALLY,
)  # fmt: skip

BUDGET_USED_UP = Finding("budget_used_up", "a budget is used up to its limit or past it")
FINDINGS: tuple[Finding, ...] = (BUDGET_USED_UP,)

_NEVER_AN_END = frozenset({None, "paused", "absent"})
_NOT_EXECUTED = frozenset({None, "unknown", "not_executed", "denied", "circuit_open"})
_PREDICATE_BITS = {
    "satisfied": PREDICATE_SATISFIED.bit,
    "unsatisfied": PREDICATE_UNSATISFIED.bit,
    "unverifiable": PREDICATE_UNVERIFIABLE.bit,
}
_BUDGETS = ("turns", "tool_calls", "tokens", "cost_micros")


def run_facts(event: Event, thresholds: "Thresholds") -> int:
    """Facts about the run as a whole, as bits."""
    bits = _stop_facts(event)
    completion: Event | None = event["completion"]
    if completion:
        if completion["claimed"] is True:
            bits |= COMPLETION_CLAIMED.bit
        bits |= _PREDICATE_BITS.get(completion["result"], 0)
    if event["steps"]:
        bits |= _step_facts(event["steps"], thresholds)
    takeover = event["takeover"]
    if takeover and takeover["state"] not in ("RUNNING", "CLOSED"):
        bits |= TAKEN_OVER.bit
    for child in event["children"]:
        if child["state"] != "stopped":
            bits |= CHILD_RUN_OPEN.bit
    for contradiction in event["contradictions"]:
        if contradiction["resolved"] is not True:
            bits |= CONTRADICTION.bit
    return bits


def _stop_facts(event: Event) -> int:
    model: Event | None = event["model"]
    if model is None:
        return STOPPED_NORMALLY.bit
    stop, calls = model["stop_class"], event["tool_calls"]
    if stop == "end":
        bits = STOPPED_NORMALLY.bit
    elif stop in _NEVER_AN_END or (stop == "tool_call" and _has_open_call(calls)):
        bits = NONTERMINAL_STOP.bit
    else:
        bits = 0
    empty = model["output_tokens"] == 0 and not calls and stop != "error"
    return bits | EMPTY_RESPONSE.bit if empty else bits


def left_nothing(event: Event, bits: int) -> bool:
    """Whether the last turn gave nothing that may be kept: it was empty, or filtered, whatever became of the filter's
    denial."""
    model = event["model"]
    return bool(bits & EMPTY_RESPONSE.bit) or (model is not None and model["stop_class"] == "filtered")


def _has_open_call(calls: list[Event]) -> bool:
    """Whether nothing, or not everything, of what the model asked for was executed."""
    return not calls or any(call["outcome"] in _NOT_EXECUTED for path in group(calls) for call in last_attempts(path))


class Thresholds:
    """The numbers that confidence and progress are judged by; part of the table file.

    ``floor`` and ``veto`` are confidences, ``decline`` a difference of confidences, ``repeats`` a number of steps. All
    are compared as the decimals that were written. For a single number of at most 15 digits that is the comparison of
    the floats themselves; a mean, which is rounded, is compared exactly where it is close.
    """

    __slots__ = ("decline", "floor", "repeats", "veto")

    def __init__(self, *, floor: str, decline: str, veto: str, repeats: int) -> None:
        self.floor, self.veto, self.decline = float(floor), float(veto), Decimal(decline)
        self.repeats = repeats


def _step_facts(steps: list[Event], thresholds: Thresholds) -> int:
    last, bits = steps[-1], 0
    confidence = last["confidence_after"]
    if confidence is not None:
        if confidence < thresholds.floor:
            bits |= CONFIDENCE_BELOW_FLOOR.bit
        if _has_declined(confidence, steps[-4:-1], thresholds):
            bits |= CONFIDENCE_DECLINING.bit
    if any(check < thresholds.veto for check in last["checks"].values()):
        bits |= RESULT_CONFIDENCE_LOW.bit
    return bits | (NO_PROGRESS.bit if _is_stuck(steps[-thresholds.repeats :], thresholds.repeats) else 0)


def _has_declined(confidence: float, before: list[Event], thresholds: Thresholds) -> bool:
    values = [s["confidence_after"] for s in before if s["confidence_after"] is not None]
    if len(values) < 2:
        return False
    fallen = sum(values) / len(values) - confidence
    if abs(fallen - float(thresholds.decline)) > _CLOSE:
        return bool(fallen > thresholds.decline)
    mean = Fraction(sum(map(_decimal, values))) / len(values)
    return mean - Fraction(_decimal(confidence)) > Fraction(thresholds.decline)


_CLOSE = 1e-9
"""Far more than a mean of confidences can be off by rounding."""


def _is_stuck(tail: list[Event], repeats: int) -> bool:
    if len(tail) < repeats:
        return False
    keys = {step["action_key"] for step in tail}
    repeated = len(keys) == 1 and None not in keys
    return repeated or all(step["advanced"] is False for step in tail)


def _decimal(value: float) -> Decimal:
    return Decimal(repr(value))


def collect_findings(event: Event) -> list[str]:
    """Codes of what is odd about the run."""
    budget = event["budget"]
    if not budget:
        return []
    usages = (budget[name] for name in _BUDGETS if budget[name])
    used_up = any(u["used"] is not None and u["limit"] is not None and u["used"] >= u["limit"] for u in usages)
    return [BUDGET_USED_UP.code] if used_up else []
