import json
from typing import Any

import pytest

from sources.base import digest
from sources.registry import recognised
from sources.swe_agent import ADAPTER
from tests.sources.harness import check_every_node, check_hostile_bytes, opened, read_value
from tests.sources.kit import DATA, golden_lines, golden_path

FILES = ("6e44b9__sweagenttestrepo-1c2844.traj", "function_calling_simple.traj")
RUN: dict[str, Any] = {
    "environment": "main",
    "trajectory": [
        {"action": "open a.py", "observation": "1: x", "response": "Look.", "thought": "Look."},
        {"action": "rm a.py", "observation": "", "response": "Remove.", "thought": "Remove."},
        {"action": "", "observation": "Exited", "response": "Exit due to cost limit", "thought": ""},
    ],
    "history": [
        {"role": "user", "content": "A demonstration.", "is_demo": True},
        {"role": "user", "content": [{"type": "text", "text": "Fix it."}], "message_type": "observation"},
        {"role": "assistant", "content": "Look.", "action": "open a.py", "message_type": "action"},
        {"role": "tool", "content": "1: x", "message_type": "observation"},
    ],
    "info": {
        "exit_status": "submitted",
        "submission": "diff",
        "swe_agent_version": "1.1.0",
        "model_stats": {"instance_cost": 1.5, "tokens_sent": 100, "tokens_received": 10, "api_calls": 3},
    },
    "replay_config": {
        "agent": {"model": {"name": "gpt-4o", "per_instance_cost_limit": 3.0}},
        "problem_statement": {"id": "repo-1", "github_url": "issue-1"},
    },
}


def event(status: str | None, **changes: Any) -> dict[str, Any]:
    info = {**RUN["info"], "exit_status": status, **changes}
    return read_value(ADAPTER, {**RUN, "info": info})[0]


@pytest.mark.parametrize("name", FILES)
def test_a_recorded_file_reads_as_its_golden_records(name: str) -> None:
    path = DATA / "swe_agent" / name
    assert golden_lines(ADAPTER, path) == golden_path(ADAPTER, path).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FILES)
def test_a_recorded_file_is_recognised(name: str) -> None:
    assert recognised(opened(DATA / "swe_agent" / name)) == (ADAPTER,)


def test_submitted_is_a_claim_and_no_proof() -> None:
    found = event("submitted")
    assert found["completion"] == {"claimed": True, "result": "not_evaluated", "result_ref": digest("diff")}
    assert found["components"] == [{"name": "submission", "required": True, "state": "completed"}]
    assert "model" not in found


@pytest.mark.parametrize("patch", ["", " \n", None])
def test_an_empty_submission_is_an_omitted_deliverable(patch: str | None) -> None:
    omitted = {"name": "submission", "required": True, "state": "omitted", "reason_code": "empty_submission"}
    assert event("submitted", submission=patch)["components"] == [omitted]


@pytest.mark.parametrize(
    ("status", "budget"),
    [
        ("exit_cost", "cost"),
        ("submitted (exit_cost)", "cost"),
        ("submitted (exit_context)", "context"),
        ("exit_total_execution_time", "time"),
    ],
)
def test_a_limit_is_an_exhausted_budget_also_where_the_harness_submitted(status: str, budget: str) -> None:
    records = read_value(ADAPTER, {**RUN, "info": {**RUN["info"], "exit_status": status}})
    assert records[0]["budget"]["exhausted"] == [budget]
    assert records[0]["completion"]["claimed"] is False
    assert "components" not in records[0]
    assert records[1]["label"] == status


@pytest.mark.parametrize(
    ("status", "stop_class"),
    [
        ("exit_api", "error"),
        ("submitted (exit_environment_error)", "error"),
        ("exit_format", "unknown"),
        ("exit_forfeit", "unknown"),
        ("a status of tomorrow", "unknown"),
    ],
)
def test_a_failure_is_a_stop_that_is_no_end(status: str, stop_class: str) -> None:
    found = event(status)
    assert found["model"] == {"model": "gpt-4o", "stop_signal": status, "stop_class": stop_class}
    assert found["completion"]["claimed"] is False


def test_an_unfinished_run_has_neither_claim_nor_verdict() -> None:
    records = read_value(ADAPTER, {**RUN, "info": {}})
    assert len(records) == 1
    assert "completion" not in records[0]


def test_the_timeout_that_ended_the_run_is_a_call_though_the_trajectory_leaves_it_out() -> None:
    calls = event("submitted (exit_command_timeout)")["tool_calls"]
    assert [call["outcome"] for call in calls] == ["unknown", "unknown", "timeout"]


def test_only_the_step_that_the_harness_read_a_patch_from_is_known_to_have_returned() -> None:
    assert [call["outcome"] for call in event("submitted")["tool_calls"]] == ["unknown", "ok"]


@pytest.mark.parametrize(
    ("action", "access"),
    [
        ("open a.py", "read"),
        ("find_file 'b.py'\n", "read"),
        ("open a.py; rm a.py", "unknown"),
        ("open $(rm a.py)", "unknown"),
        ("open a.py\nrm a.py", "unknown"),
        ("openssl rand 4", "unknown"),
        ("edit 1:2", "write"),
        ("submit", "write"),
    ],
)
def test_only_a_plain_command_of_the_table_reads(action: str, access: str) -> None:
    trajectory = [{"action": action, "observation": ""}]
    assert read_value(ADAPTER, {**RUN, "trajectory": trajectory})[0]["tool_calls"][0]["access"] == access


def test_words_change_nothing_but_prose_and_responses() -> None:
    said = [{**step, "thought": "Denied!", "response": "I refuse. Timed out."} for step in RUN["trajectory"]]
    changed = read_value(ADAPTER, {**RUN, "trajectory": said})[0]
    plain = event("submitted")
    assert {**changed, "event_id": ""} == {**plain, "event_id": ""}


def test_a_configuration_as_text_reads_like_one_as_an_object() -> None:
    text = read_value(ADAPTER, {**RUN, "replay_config": json.dumps(RUN["replay_config"])})[0]
    assert {**text, "event_id": ""} == {**event("submitted"), "event_id": ""}


def test_no_node_of_any_type_breaks_the_reader() -> None:
    check_every_node(ADAPTER, RUN)


def test_damaged_files_cost_an_error() -> None:
    check_hostile_bytes(ADAPTER, opened(DATA / "swe_agent" / FILES[1]))
