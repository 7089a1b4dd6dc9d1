"""How the run stopped, moved and what it claims, at the boundaries."""

# ruff: noqa: E501, FBT003  (one case a line: a sentence, what it expects, the evidence)
from typing import Any

import pytest

from tests.classifier.answers import answer, exit_of, facts

Event = dict[str, Any]
SATISFIED = {"claimed": True, "result": "satisfied"}
CLAIMED = {"claimed": True}


def _call(outcome: str | None, operation: str | None = "op-1", **more: Any) -> Event:
    return {"operation_id": operation, "access": "read", "outcome": outcome, "required": False} | more


def _row(sentence: str, *expected: Any, **parts: Any) -> Any:
    return pytest.param(*expected, parts, id=sentence)


# --- stops

_TOOL = {"stop_class": "tool_call"}
STOPS = [
    _row("end", False, model={"stop_class": "end"}),
    _row("paused", True, model={"stop_class": "paused"}),
    _row("absent", True, model={"stop_class": "absent"}),
    _row("a model block without a stop class", True, model={"provider": "anthropic"}),
    _row("no model block", False),
    _row("a tool call of which nothing was executed", True, model=_TOOL),
    _row("a tool call that was executed", False, model=_TOOL, tool_calls=[_call("ok")]),
    _row("a tool call that was executed and failed", False, model=_TOOL, tool_calls=[_call("error")]),
    *(_row(f"a tool call that was {o}", True, model=_TOOL, tool_calls=[_call(o)]) for o in ("not_executed", "denied", "circuit_open", "unknown", None)),
    _row("tool calls of which one was not executed", True, model=_TOOL, tool_calls=[_call("ok"), _call("not_executed", "op-2")]),
    _row("a tool call executed at the second attempt", False, model=_TOOL, tool_calls=[_call("circuit_open", attempt=1), _call("ok", attempt=2)]),
    _row("calls without operation are apart", True, model=_TOOL, tool_calls=[_call("ok", None), _call("not_executed", None)]),
    _row("an end beside a call that was not executed", False, model={"stop_class": "end"}, tool_calls=[_call("not_executed")]),
]  # fmt: skip


@pytest.mark.parametrize(("open_", "parts"), STOPS)
def test_nonterminal_stop(open_, parts):
    given = answer(**parts, completion=SATISFIED)
    assert ("nonterminal_stop" in given["facts"]) is open_
    assert given["kind"] == ("human_queue" if open_ else "completed")
    assert ("completed" in given["prohibited"]) is open_


CLAIMS = [
    _row("end", ("completed", "completion_unverified"), model={"stop_class": "end"}),
    _row("no model block", ("completed", "completion_unverified")),
    _row("truncated", ("human_queue", "nonterminal_stop"), model={"stop_class": "truncated"}),
    _row("paused", ("human_queue", "nonterminal_stop"), model={"stop_class": "paused"}),
    _row("cancelled", ("human_queue", "insufficient_evidence"), model={"stop_class": "cancelled"}),
    _row("unknown", ("human_queue", "insufficient_evidence"), model={"stop_class": "unknown"}),
    _row("a stop class nobody knows", ("human_queue", "insufficient_evidence"), model={"stop_class": "finished_great"}),
    _row("a tool call, executed", ("human_queue", "insufficient_evidence"), model=_TOOL, tool_calls=[_call("ok")]),
]  # fmt: skip


@pytest.mark.parametrize(("exit_", "parts"), CLAIMS)
def test_a_claim_needs_an_end(exit_, parts):
    assert exit_of(**parts, completion=CLAIMED) == exit_


def test_a_cut_output_completes_if_the_predicate_says_so():
    assert exit_of(model={"stop_class": "truncated"}, completion=SATISFIED) == ("completed", "completion_verified")


EMPTY = [
    _row("no token, no call", True, model={"stop_class": "end", "output_tokens": 0}),
    _row("one token", False, model={"stop_class": "end", "output_tokens": 1}),
    _row("tokens that nobody counted", False, model={"stop_class": "end"}),
    _row("a call", False, model={"stop_class": "end", "output_tokens": 0}, tool_calls=[_call("ok")]),
    _row("an error", False, model={"stop_class": "error", "output_tokens": 0}),
]


@pytest.mark.parametrize(("empty", "parts"), EMPTY)
def test_empty_response(empty, parts):
    assert ("empty_response" in facts(**parts)) is empty
    assert (exit_of(**parts, completion=CLAIMED) == ("human_queue", "empty_response")) is empty


def test_an_empty_response_completes_if_the_predicate_says_so():
    assert exit_of(model={"stop_class": "end", "output_tokens": 0}, completion=SATISFIED)[0] == "completed"


# --- completion

COMPLETIONS = [
    _row("claimed and satisfied", ("completed", "completion_verified"), claimed=True, result="satisfied"),
    _row("satisfied without a claim", ("completed", "completion_verified"), result="satisfied"),
    _row("claimed, not evaluated", ("completed", "completion_unverified"), claimed=True, result="not_evaluated"),
    _row("claimed, no result", ("completed", "completion_unverified"), claimed=True),
    _row("claimed and unsatisfied", ("human_queue", "premature_completion"), claimed=True, result="unsatisfied"),
    _row("claimed and unverifiable", ("human_queue", "completion_unverifiable"), claimed=True, result="unverifiable"),
    _row("a result nobody knows", ("human_queue", "completion_unverifiable"), claimed=True, result="looks_fine"),
    _row("not claimed", ("human_queue", "insufficient_evidence"), claimed=False),
    _row("nobody says claimed", ("human_queue", "insufficient_evidence")),
    _row("not claimed, unsatisfied", ("human_queue", "insufficient_evidence"), claimed=False, result="unsatisfied"),
]


@pytest.mark.parametrize(("exit_", "completion"), COMPLETIONS)
def test_completion(exit_, completion):
    given = answer(completion=completion)
    assert (given["kind"], given["reason_code"]) == exit_
    assert given["verified"] is (exit_[1] == "completion_verified")


def test_nothing_at_all_is_no_completion():
    assert exit_of() == ("human_queue", "insufficient_evidence")


# --- progress and confidence


def _keys(*keys: str | None) -> list[Event]:
    return [{"action_key": key} for key in keys]


def _advanced(*flags: bool | None) -> list[Event]:
    return [{"action_key": f"key-{number}", "advanced": flag} for number, flag in enumerate(flags)]


STUCK = [
    _row("three equal actions", True, steps=_keys("a", "a", "a")),
    _row("three equal actions at the end", True, steps=_keys("b", "a", "a", "a")),
    _row("two equal actions", False, steps=_keys("a", "a")),
    _row("three equal actions, then another", False, steps=_keys("a", "a", "a", "b")),
    _row("two of three", False, steps=_keys("a", "b", "a")),
    _row("three steps without a key", False, steps=_keys(None, None, None)),
    _row("three equal actions that say they advanced", True, steps=[{"action_key": "a", "advanced": True}] * 3),
    _row("three steps that did not advance", True, steps=_advanced(False, False, False)),
    _row("two steps that did not advance", False, steps=_advanced(False, False)),
    _row("the last one advanced", False, steps=_advanced(False, False, False, True)),
    _row("one of three says nothing", False, steps=_advanced(False, None, False)),
    _row("three steps that say nothing", False, steps=_advanced(None, None, None)),
]  # fmt: skip


@pytest.mark.parametrize(("stuck", "parts"), STUCK)
def test_no_progress(stuck, parts):
    assert ("no_progress" in facts(**parts)) is stuck
    assert (exit_of(**parts, completion=CLAIMED) == ("human_queue", "no_progress")) is stuck


def _steps(*confidences: float | None, **checks: float) -> list[Event]:
    steps: list[Event] = [{"confidence_after": confidence} for confidence in confidences]
    steps[-1]["checks"] = checks
    return steps


CONFIDENCES = [
    _row("just below the floor", "confidence_below_floor", steps=_steps(0.59)),
    _row("at the floor", None, steps=_steps(0.6)),
    _row("nothing said", None, steps=_steps(None)),
    _row("low before, fine at last", None, steps=_steps(0.1, 0.9)),
    _row("fine before, nothing said at last", None, steps=_steps(0.1, None)),
    _row("fallen by exactly 0.2", None, steps=_steps(0.9, 0.9, 0.9, 0.7)),
    _row("fallen by more than 0.2", "confidence_declining", steps=_steps(0.9, 0.9, 0.9, 0.69)),
    _row("fallen by exactly 0.2 against two", None, steps=_steps(0.8, 1.0, 0.7)),
    _row("fallen by more than 0.2 against two", "confidence_declining", steps=_steps(0.9, 1.0, 0.7)),
    _row("fallen far against one", None, steps=_steps(1.0, 0.6)),
    _row("a mean that is no finite decimal, just within", None, steps=_steps(0.8, 0.8, 0.8, 0.6)),
    _row("a mean that is no finite decimal, just past", "confidence_declining", steps=_steps(0.8, 0.8, 0.81, 0.6)),
    _row("four before: only the last three count", None, steps=_steps(1.0, 0.8, 0.8, 0.8, 0.6)),
    _row("one of three before says nothing", "confidence_declining", steps=_steps(0.9, None, 0.9, 0.6)),
    _row("two of three before say nothing", None, steps=_steps(None, None, 0.9, 0.6)),
    _row("rising", None, steps=_steps(0.6, 0.6, 0.9)),
    _row("a check just under the veto", "result_confidence_low", steps=_steps(0.9, format=0.29)),
    _row("a check at the veto", None, steps=_steps(0.9, format=0.3)),
    _row("one of two checks under the veto", "result_confidence_low", steps=_steps(0.9, format=1.0, total=0.0)),
    _row("a check without confidence", "result_confidence_low", steps=_steps(None, format=0.0)),
    _row("a check of an earlier step", None, steps=[{"checks": {"format": 0.0}}, {"confidence_after": 0.9}]),
    _row("below the floor before declining", "confidence_below_floor", steps=_steps(0.9, 0.9, 0.5)),
    _row("declining before a veto", "confidence_declining", steps=_steps(0.9, 0.9, 0.6, format=0.1)),
    _row("below the floor before a veto", "confidence_below_floor", steps=_steps(0.5, format=0.1)),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "parts"), CONFIDENCES)
def test_confidence(reason, parts):
    expected = ("human_queue", reason) if reason else ("completed", "completion_unverified")
    assert exit_of(**parts, completion=CLAIMED) == expected


def test_confidence_overrides_no_satisfied_predicate():
    assert exit_of(steps=_steps(0.1, format=0.0), completion=SATISFIED) == ("completed", "completion_verified")


def test_confidence_makes_no_completion():
    assert exit_of(steps=_steps(1.0, 1.0, 1.0)) == ("human_queue", "insufficient_evidence")


# --- takeover, children, budget

TAKEOVERS = [
    *(_row(f"state {s}", "human_takeover", takeover={"state": s}) for s in ("FREEZING", "HUMAN_CONTROL", "RESUMING", "UNKNOWN", "SEIZED", None)),
    *(_row(f"state {s}", None, takeover={"state": s}) for s in ("RUNNING", "CLOSED")),
    _row("no takeover", None),
    _row("a child running", "child_run_open", children=[{"state": "running"}]),
    _row("a child unknown", "child_run_open", children=[{"state": "unknown"}]),
    _row("a child without state", "child_run_open", children=[{"run_id": "run-2"}]),
    _row("a child of a state nobody knows", "child_run_open", children=[{"state": "resting"}]),
    _row("a child stopped", None, children=[{"state": "stopped"}]),
    _row("one of two children stopped", "child_run_open", children=[{"state": "stopped"}, {"state": "running"}]),
    _row("taken over with a child running", "human_takeover", takeover={"state": "FREEZING"}, children=[{"state": "running"}]),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "parts"), TAKEOVERS)
def test_takeover(reason, parts):
    expected = ("human_queue", reason) if reason else ("completed", "completion_verified")
    assert exit_of(**parts, completion=SATISFIED) == expected


BUDGETS = [
    _row("listed", True, False, exhausted=["turns"]),
    _row("listed under a name nobody knows", True, False, exhausted=["patience"]),
    _row("used up to the limit", False, True, turns={"used": 10, "limit": 10}),
    _row("used past the limit", False, True, tokens={"used": 11, "limit": 10}),
    _row("one left", False, False, tool_calls={"used": 9, "limit": 10}),
    _row("used without a limit", False, False, cost_micros={"used": 9}),
    _row("a limit without use", False, False, cost_micros={"limit": 0}),
    _row("listed and used up", True, True, turns={"used": 10, "limit": 10}, exhausted=["turns"]),
]


@pytest.mark.parametrize(("exhausted", "used_up", "budget"), BUDGETS)
def test_budget(exhausted, used_up, budget):
    given = answer(budget=budget, completion=CLAIMED)
    assert ("budget_exhausted" in given["facts"]) is exhausted
    assert ("budget_used_up" in given["findings"]) is used_up
    expected = ("human_queue", "budget_exhausted") if exhausted else ("completed", "completion_unverified")
    assert (given["kind"], given["reason_code"]) == expected
