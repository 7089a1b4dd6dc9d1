import json

import pytest

from schemas.errors import ErrorCode
from sources import tau2
from sources.activegraph import ADAPTER
from sources.base import Document
from sources.registry import recognised
from tests.sources.kit import (
    DATA,
    broken,
    errors,
    golden_lines,
    golden_path,
    read_file,
    records,
    reworded,
    satisfied,
    without_words,
)

FILES = sorted((DATA / "activegraph").glob("*.jsonl"))
MAX_STEPS, USER_STOP = FILES
# What the adapter reads; the rest of the log repeats the messages and makes the sweep below slow.
READ = {
    "trace_bootstrap_start", "simulation_start", "orchestrator_run_start", "user_response", "agent_response",
    "tool_call_requested", "tool_dispatch_end", "orchestrator_run_end", "simulation_execution_end", "simulation_end",
}  # fmt: skip


def log(path=MAX_STEPS):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read(events):
    data = "\n".join(json.dumps(event) for event in events).encode()
    return list(ADAPTER.read(Document("runtime_events.jsonl", data)))


def only(events):
    (event,) = records(read(events))
    return event


def with_dispatch(*, error, before, after):
    """The log in which the write, its last call, came back otherwise."""
    events = log()
    trace = [event for event in events if event["event_type"] == "tool_dispatch_end"][-1]["payload"]["runtime_trace"]
    trace["response"]["raw"]["error"] = error
    trace["state_hash_before"], trace["state_hash_after"] = before, after
    return events


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden(path):
    assert golden_lines(ADAPTER, path) == golden_path(ADAPTER, path).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_recognised(path):
    assert recognised(Document(path.name, path.read_bytes())) == (ADAPTER,)


def test_step_limit_after_a_write_that_changed_the_state():
    event = only(log())
    assert event["budget"] == {"turns": {"limit": 6, "used": 6}, "exhausted": ["turns"]}
    (effect,) = event["side_effects"]
    assert (effect["tool"], effect["status"], effect["verified_by"]) == ("create_task", "confirmed", "read_back")
    assert effect["operation_id"] == event["tool_calls"][1]["operation_id"]


def test_hand_off_is_a_tool_call_and_changes_nothing():
    (event,) = records(read_file(ADAPTER, USER_STOP))
    assert [(call["tool"], call["access"], call["outcome"]) for call in event["tool_calls"]] == [
        ("transfer_to_human_agents", "unknown", "ok")
    ]
    assert "side_effects" not in event


def test_status_ok_of_the_log_is_no_success():
    assert only(log())["completion"] == {"predicate_id": "tau2.reward", "result": "not_evaluated"}


@pytest.mark.parametrize(
    ("error", "after", "outcome", "possible", "effect"),
    [
        (False, "same", "ok", None, None),
        (False, "other", "ok", None, ("confirmed", "read_back")),
        (True, "same", "error", False, None),
        (True, "other", "error", None, ("ambiguous", "none")),
        (True, None, "error", None, None),
        (None, "other", "unknown", None, ("ambiguous", "none")),
    ],
)
def test_state_digests_settle_what_a_call_did(error, after, outcome, possible, effect):
    event = only(with_dispatch(error=error, before="same", after=after))
    call = event["tool_calls"][1]
    assert (call["outcome"], call.get("effect_possible")) == (outcome, possible)
    found = [(entry["status"], entry["verified_by"]) for entry in event.get("side_effects", [])]
    assert found == ([effect] if effect else [])


def test_call_that_never_came_back_is_unknown():
    event = only([event for event in log() if event["event_type"] != "tool_dispatch_end"])
    assert [call["outcome"] for call in event["tool_calls"]] == ["unknown", "unknown"]


def test_log_that_ends_before_the_simulation_does_has_no_stop():
    items = read([event for event in log() if event["event_type"] != "simulation_end"])
    (event,) = records(items)
    assert event["model"]["stop_class"] == "absent"
    assert records(items, "legacy_exit") == []


def test_run_is_that_of_the_results_and_the_event_is_its_own():
    (same,) = records(read_file(tau2.ADAPTER, DATA / "tau2" / "mock_max_steps.json"))
    event = only(log())
    assert event["run_id"] == same["run_id"]
    assert event["event_id"] != same["event_id"]


def test_run_ends_with_the_orchestrator_and_not_with_its_evaluation():
    (end,) = [event["timestamp"] for event in log() if event["event_type"] == "orchestrator_run_end"]
    assert only(log())["occurred_at"] == end.replace("+00:00", "Z")


def test_two_simulations_of_one_log_are_told_apart():
    second = [event | {"task_id": "other"} for event in log() if event["task_id"]]
    found = records(read(log() + second))
    assert [event["request"]["goal"] for event in found] == ["create_task_1_with_env_assertions", "other"]


def test_words_change_nothing():
    words = frozenset({"content", "content_preview", "note"})
    assert without_words(only(reworded(log(), words))) == without_words(only(log()))


def test_wrong_types_anywhere_are_errors_and_nothing_else():
    events = [event for event in log() if event["event_type"] in READ]
    for value in broken(events):
        if isinstance(value, list):
            items = read(value)
            assert items
            assert not satisfied(items)


def test_truncated_log_costs_its_last_line():
    data = MAX_STEPS.read_bytes()
    for length in range(0, len(data), 4999):
        items = list(ADAPTER.read(Document("x", data[:length])))
        assert 1 <= len(errors(items)) <= 2


def test_log_without_a_simulation_is_one_error():
    (error,) = ADAPTER.read(Document("x", b""))
    assert error.code == ErrorCode.MISSING_FIELD
