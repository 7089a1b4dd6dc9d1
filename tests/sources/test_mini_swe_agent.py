from typing import Any

import pytest

from sources.mini_swe_agent import ADAPTER
from sources.registry import recognised
from tests.sources.harness import as_document, check_every_node, check_hostile_bytes, opened, read, read_value
from tests.sources.kit import DATA, golden_lines, golden_path

FILES = (
    "official__github_issue.traj.json",
    "gemini3__plain__django__django-16255.traj.json.gz",
    "gemini3__cmd_timeout__matplotlib__matplotlib-25287.traj.json.gz",
)
CODE_FIRST = "<returncode>{{output.returncode}}</returncode>\n<output>{{output.output}}</output>"


def reply(reason: str | None, **extra: Any) -> dict[str, Any]:
    choice = {"finish_reason": reason, "message": {"content": "Next.", "refusal": None}}
    usage = {"prompt_tokens": 9, "completion_tokens": 2}
    response = {"model": "gemini", "provider": "Google", "created": 1763510523, "choices": [choice], "usage": usage}
    return {"role": "assistant", "content": "Next.", "extra": {"response": response, **extra}}


def observation(code: int | None, **extra: Any) -> dict[str, Any]:
    return {"role": "tool", "content": "out", "extra": {"returncode": code, "timestamp": 1763510600.5, **extra}}


START = [{"role": "system", "content": "You are."}, {"role": "user", "content": "Fix it."}]
# Format 1.1: actions and return codes are fields.
FIELDS: dict[str, Any] = {
    "info": {
        "exit_status": "Submitted",
        "submission": "diff",
        "model_stats": {"instance_cost": 0.25, "api_calls": 2},
        "mini_version": "2.0.0",
        "config": {"agent": {"step_limit": 250, "cost_limit": 3.0}},
    },
    "messages": [
        *START,
        reply("tool_calls", actions=[{"command": "ls", "tool_call_id": "c-1"}]),
        observation(0),
        reply("tool_calls", actions=[{"command": "submit", "tool_call_id": "c-2"}]),
        {"role": "exit", "content": "diff", "extra": {"exit_status": "Submitted", "submission": "diff"}},
    ],
    "trajectory_format": "mini-swe-agent-1.1",
    "instance_id": "repo-1",
}
# Format 1: both stand in the text.
TEXTS: dict[str, Any] = {
    "info": {**FIELDS["info"], "config": {"agent": {"action_observation_template": CODE_FIRST}}},
    "messages": [
        *START,
        reply("stop"),
        {"role": "user", "content": "<returncode>0</returncode>\n<output>a</output>"},
        reply("stop"),
        {"role": "user", "content": "diff"},
    ],
    "trajectory_format": "mini-swe-agent-1",
}


def with_info(base: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**base, "info": {**base["info"], **changes}}


def outcomes(value: dict[str, Any]) -> list[str]:
    return [call["outcome"] for call in read_value(ADAPTER, value)[0]["tool_calls"]]


def one_observation(answer: dict[str, Any]) -> dict[str, Any]:
    messages = [*START, reply("tool_calls", actions=[{"command": "x"}]), answer]
    return {**with_info(FIELDS, exit_status=""), "messages": messages}


@pytest.mark.parametrize("name", FILES)
def test_a_recorded_file_reads_as_its_golden_records(name: str) -> None:
    path = DATA / "mini_swe_agent" / name
    assert golden_lines(ADAPTER, path) == golden_path(ADAPTER, path).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FILES)
def test_a_recorded_file_is_recognised(name: str) -> None:
    assert recognised(opened(DATA / "mini_swe_agent" / name)) == (ADAPTER,)


def test_other_json_is_not_recognised() -> None:
    assert not ADAPTER.recognises("chat.json", b'[{"role": "user"}]')
    assert not ADAPTER.recognises("results.json", b'{"info": {}}')


def test_submitted_is_a_claim_and_no_proof() -> None:
    found, verdict = read_value(ADAPTER, FIELDS)
    assert found["completion"]["claimed"] is True
    assert found["completion"]["result"] == "not_evaluated"
    assert verdict["label"] == "Submitted"
    assert verdict["event_id"] == found["event_id"]


@pytest.mark.parametrize("patch", ["", "\n", None])
def test_an_empty_submission_is_an_omitted_deliverable(patch: str | None) -> None:
    found = read_value(ADAPTER, with_info(FIELDS, submission=patch))[0]
    assert [part["state"] for part in found["components"]] == ["omitted"]


def test_commands_that_are_fields_are_read_and_those_in_the_text_are_not() -> None:
    calls = read_value(ADAPTER, FIELDS)[0]["tool_calls"]
    assert [call["arguments"] for call in calls] == ['{"command":"ls"}', '{"command":"submit"}']
    assert all("arguments" not in call for call in read_value(ADAPTER, TEXTS)[0]["tool_calls"])


@pytest.mark.parametrize(
    ("answer", "outcome", "error_class"),
    [
        (observation(0), "ok", None),
        (observation(2), "error", "exit_code_2"),
        (observation(-1), "unknown", None),
        (observation(None), "unknown", None),
        (observation(-1, exception_type="TimeoutExpired"), "timeout", "TimeoutExpired"),
        (observation(-1, exception_type="OSError"), "unknown", "OSError"),
    ],
)
def test_a_return_code_is_the_outcome(answer: dict[str, Any], outcome: str, error_class: str | None) -> None:
    call = read_value(ADAPTER, one_observation(answer))[0]["tool_calls"][0]
    assert (call["outcome"], call.get("error_class")) == (outcome, error_class)


def test_a_call_without_an_observation_is_unknown_unless_it_submitted() -> None:
    assert outcomes(FIELDS) == ["ok", "ok"]
    assert outcomes(with_info(FIELDS, exit_status="RuntimeError")) == ["ok", "unknown"]


def test_of_several_actions_of_the_last_turn_any_may_have_submitted() -> None:
    last = reply("tool_calls", actions=[{"command": "rm a"}, {"command": "submit"}])
    assert outcomes({**FIELDS, "messages": [*START, last]}) == ["unknown", "unknown"]


def test_a_return_code_in_the_text_counts_only_where_the_recorded_template_puts_it_first() -> None:
    assert outcomes(TEXTS) == ["ok", "ok"]
    other = with_info(TEXTS, config={"agent": {"action_observation_template": "{{output.output}}"}})
    assert outcomes(other) == ["unknown", "ok"]


def test_an_answer_that_the_harness_marked_malformed_is_no_call() -> None:
    again = {"role": "user", "content": "Again.", "extra": {"interrupt_type": "FormatError"}}
    assert "tool_calls" not in read_value(ADAPTER, {**FIELDS, "messages": [*START, reply("stop"), again]})[0]


@pytest.mark.parametrize(
    ("reason", "stop_class"),
    [
        ("stop", "end"),
        ("length", "truncated"),
        ("tool_calls", "tool_call"),
        ("content_filter", "filtered"),
        ("tomorrow", "unknown"),
        (None, "absent"),
    ],
)
def test_the_last_finish_reason_is_the_stop(reason: str | None, stop_class: str) -> None:
    model = read_value(ADAPTER, {**FIELDS, "messages": [*START, reply(reason)]})[0]["model"]
    assert (model.get("stop_signal"), model["stop_class"]) == (reason, stop_class)


def test_a_refusal_part_is_the_models_own_refusal() -> None:
    last = reply("stop")
    last["extra"]["response"]["choices"][0]["message"]["refusal"] = "No."
    assert read_value(ADAPTER, {**FIELDS, "messages": [*START, last]})[0]["model"]["stop_class"] == "refused"


@pytest.mark.parametrize(
    ("stats", "exhausted"),
    [
        ({"api_calls": 250, "instance_cost": 1.0}, ["turns"]),
        ({"api_calls": 9, "instance_cost": 3.01}, ["cost"]),
        ({"api_calls": 250, "instance_cost": 3.01}, ["turns", "cost"]),
        ({}, ["unknown"]),
    ],
)
def test_one_verdict_for_two_limits_is_told_apart_by_what_was_used(stats: dict[str, Any], exhausted: list[str]) -> None:
    found, verdict = read_value(ADAPTER, with_info(FIELDS, exit_status="LimitsExceeded", model_stats=stats))
    assert found["budget"]["exhausted"] == exhausted
    assert found["completion"]["claimed"] is False
    assert verdict["label"] == "LimitsExceeded"


def test_an_exception_is_an_error_and_an_unlisted_verdict_is_unknown() -> None:
    crash = {"role": "exit", "content": "boom", "extra": {"exit_status": "RuntimeError", "traceback": "..."}}
    crashed = {**with_info(FIELDS, exit_status="RuntimeError"), "messages": [*START, crash]}
    assert read_value(ADAPTER, crashed)[0]["model"]["stop_class"] == "error"
    unlisted = read_value(ADAPTER, with_info(FIELDS, exit_status="RepeatedFormatError"))[0]
    assert unlisted["model"]["stop_class"] == "unknown"


def test_the_latest_recorded_time_is_when_the_run_ended() -> None:
    assert read_value(ADAPTER, FIELDS)[0]["occurred_at"] == "2025-11-19T00:03:20.500000Z"


def test_a_bare_list_says_neither_how_the_run_ended_nor_how_its_commands_did() -> None:
    records, errors = read(ADAPTER, opened(DATA / "mini_swe_agent" / FILES[0]))
    assert errors == []
    assert len(records) == 1
    assert "completion" not in records[0]
    assert {call["outcome"] for call in records[0]["tool_calls"]} == {"unknown"}


@pytest.mark.parametrize("value", [[], {"messages": []}, [{"type": "event"}]])
def test_what_holds_no_messages_is_one_error(value: Any) -> None:
    records, errors = read(ADAPTER, as_document(value))
    assert (records, len(errors)) == ([], 1)


@pytest.mark.parametrize("value", [FIELDS, TEXTS])
def test_no_node_of_any_type_breaks_the_reader(value: dict[str, Any]) -> None:
    check_every_node(ADAPTER, value)


def test_damaged_files_cost_an_error() -> None:
    check_hostile_bytes(ADAPTER, opened(DATA / "mini_swe_agent" / FILES[0]))
