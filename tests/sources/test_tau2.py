import json

import pytest

from schemas.errors import ErrorCode
from sources.base import Document, Imported, Options
from sources.registry import recognised
from sources.tau2 import ADAPTER
from tests.sources.kit import (
    DATA,
    broken,
    errors,
    golden_lines,
    golden_path,
    read_file,
    read_json,
    records,
    reworded,
    satisfied,
    without_words,
)

FILES = sorted((DATA / "tau2").glob("*.json"))
MAX_STEPS = json.loads((DATA / "tau2" / "mock_max_steps.json").read_text(encoding="utf-8"))
AIRLINE = DATA / "tau2" / "airline.subset.json"


def changed(**fields):
    """The simulation that ended at its step limit, with other fields."""
    return {**MAX_STEPS, "simulations": [{**MAX_STEPS["simulations"][0], **fields}]}


def with_message(index, **fields):
    messages = [dict(message) for message in MAX_STEPS["simulations"][0]["messages"]]
    messages[index] |= fields
    return changed(messages=messages)


def only(value):
    (event,) = records(read_json(ADAPTER, value))
    return event


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden(path):
    assert golden_lines(ADAPTER, path) == golden_path(ADAPTER, path).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_recognised(path):
    assert recognised(Document(path.name, path.read_bytes())) == (ADAPTER,)


def test_write_before_the_step_limit_is_kept_beside_the_spent_budget():
    event = only(MAX_STEPS)
    assert event["budget"]["exhausted"] == ["turns"]
    assert event["budget"]["turns"] == {"limit": 6, "used": 6}
    assert event["completion"]["result"] == "not_evaluated"
    assert [(call["tool"], call["access"], call["outcome"]) for call in event["tool_calls"]] == [
        ("get_users", "read", "ok"),
        ("create_task", "write", "ok"),
    ]


def test_legacy_exit_is_the_termination_reason_verbatim():
    items = read_json(ADAPTER, MAX_STEPS)
    (exit_,) = records(items, "legacy_exit")
    (event,) = records(items)
    assert (exit_["dispatcher"], exit_["label"], exit_["event_id"]) == ("tau2", "max_steps", event["event_id"])
    assert exit_["decided_at"] == event["occurred_at"]


def test_local_times_become_utc_by_the_providers_clock():
    assert only(MAX_STEPS)["occurred_at"] == "2026-05-31T17:06:25.117537Z"
    silent = only(changed(messages=[{**m, "raw_data": None} for m in MAX_STEPS["simulations"][0]["messages"]]))
    assert silent["occurred_at"] == "2026-05-31T10:06:25.117537Z"
    assert silent["extensions"]["import.utc_offset"] == "absent"


def test_error_flag_is_the_outcome_and_not_the_words():
    first, second = records(read_file(ADAPTER, AIRLINE))
    outcomes = [call["outcome"] for event in (first, second) for call in event["tool_calls"]]
    assert (outcomes.count("error"), set(outcomes)) == (4, {"ok", "error"})
    assert only(with_message(3, error=None))["tool_calls"][0]["outcome"] == "unknown"
    assert only(with_message(3, content="Error: it failed"))["tool_calls"][0]["outcome"] == "ok"


def test_call_without_an_answer_is_unknown():
    messages = MAX_STEPS["simulations"][0]["messages"]
    event = only(changed(messages=[m for m in messages if m["role"] != "tool"]))
    assert [call["outcome"] for call in event["tool_calls"]] == ["unknown", "unknown"]


def test_equal_calls_are_attempts_of_one_operation():
    calls = [call for event in records(read_file(ADAPTER, AIRLINE)) for call in event["tool_calls"]]
    again = [call for call in calls if call["attempt"] == 2]
    assert [call["tool"] for call in again] == ["book_reservation"]
    assert sum(call["operation_id"] == again[0]["operation_id"] for call in calls) == 2


def test_the_simulated_users_own_tools_are_not_the_agents():
    (event,) = records(read_file(ADAPTER, DATA / "tau2" / "mock_user_tools.json"))
    assert {call["tool"] for call in event["tool_calls"]} == {"get_users", "update_task_status"}


@pytest.mark.parametrize(
    ("reason", "claimed", "exhausted", "stop_class", "failed"),
    [
        ("user_stop", None, None, "end", None),
        ("agent_stop", True, None, "end", None),
        ("timeout", None, ["time"], "end", None),
        ("context_window_exceeded", None, ["context"], "end", None),
        ("too_many_errors", None, ["unknown"], "end", None),
        ("agent_error", None, None, "error", None),
        ("infrastructure_error", None, None, "end", ("tau2.infrastructure", "unavailable")),
        ("something new", None, None, "end", None),
        (None, None, None, "end", None),
    ],
)
def test_termination_reasons(reason, claimed, exhausted, stop_class, failed):
    event = only(changed(termination_reason=reason))
    assert event["completion"].get("claimed") == claimed
    assert event["budget"].get("exhausted") == exhausted
    assert event["model"]["stop_class"] == stop_class
    last = event["tool_calls"][-1]
    assert (last["tool"], last["outcome"]) == (failed or ("create_task", "ok"))


@pytest.mark.parametrize(
    ("signal", "stop_class"),
    [("length", "truncated"), ("content_filter", "filtered"), ("tool_calls", "tool_call"), ("eos", "unknown")],
)
def test_stop_signal_is_kept_and_classed(signal, stop_class):
    event = only(with_message(6, raw_data={"choices": [{"finish_reason": signal}]}))
    assert (event["model"]["stop_signal"], event["model"]["stop_class"]) == (signal, stop_class)


def test_missing_stop_signal_is_told_from_a_missing_response():
    assert only(with_message(6, raw_data={"choices": [{}]}))["model"]["stop_class"] == "absent"
    assert only(with_message(6, raw_data=None))["model"]["stop_class"] == "unknown"
    pending = with_message(6, raw_data=None, tool_calls=[{"id": "c", "name": "get_users", "arguments": {}}])
    assert only(pending)["model"]["stop_class"] == "tool_call"


def test_refusal_of_the_model_wins_over_its_stop_signal():
    choice = {"finish_reason": "stop", "message": {"refusal": "no"}}
    assert only(with_message(6, raw_data={"choices": [choice]}))["model"]["stop_class"] == "refused"


@pytest.mark.parametrize(
    ("reward_info", "result"),
    [
        ({"reward": 1.0, "reward_basis": ["DB"]}, "satisfied"),
        ({"reward": 0.5, "reward_basis": ["DB"]}, "unsatisfied"),
        ({"reward": 1.0, "reward_basis": None}, "not_evaluated"),
        ({"reward": 1.0, "reward_basis": []}, "not_evaluated"),
        ({"reward": None, "reward_basis": ["DB"]}, "not_evaluated"),
        (None, "not_evaluated"),
    ],
)
def test_predicate_is_satisfied_only_by_a_full_reward_that_was_evaluated(reward_info, result):
    assert only(changed(reward_info=reward_info))["completion"]["result"] == result


def test_predicate_names_its_basis():
    basis = {"reward": 1.0, "reward_basis": ["DB", "COMMUNICATE"]}
    assert only(changed(reward_info=basis))["completion"]["predicate_id"] == "tau2.reward:DB+COMMUNICATE"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_words_change_nothing(path):
    value = json.loads(path.read_text(encoding="utf-8"))
    before = [without_words(event) for event in records(read_json(ADAPTER, value))]
    after = records(read_json(ADAPTER, reworded(value, frozenset({"content", "note"}))))
    assert [without_words(event) for event in after] == before


def test_tenant_is_the_callers():
    assert {item.record["tenant"] for item in read_file(ADAPTER, AIRLINE, Options(tenant="acme"))} == {"acme"}


def test_broken_simulation_costs_only_itself():
    items = read_json(ADAPTER, {**MAX_STEPS, "simulations": [{"id": 1}, None, *MAX_STEPS["simulations"]]})
    assert [error.path for error in errors(items)] == ["simulations[0].id", "simulations[1]"]
    assert len(items) == 4


def test_wrong_types_anywhere_are_errors_and_nothing_else():
    for value in broken(MAX_STEPS):
        items = read_json(ADAPTER, value)
        assert items or value["simulations"] == []
        assert not satisfied(items)


def test_truncated_file_is_one_error():
    data = json.dumps(MAX_STEPS).encode()
    for length in range(0, len(data), 997):
        (error,) = ADAPTER.read(Document("results.json", data[:length]))
        assert error.code == ErrorCode.BAD_JSON


def test_foreign_document_is_one_error():
    for value in ({}, {"a": 1}, [], 3, "x"):
        (error,) = read_json(ADAPTER, value)
        assert not isinstance(error, Imported)
