import json
from typing import Any

import pytest

from sources.base import Document
from sources.openhands import ADAPTER
from sources.registry import recognised
from tests.sources.harness import as_document, check_every_node, check_hostile_bytes, opened, read, read_value
from tests.sources.kit import DATA, golden_lines, golden_path, reworded, without_words

FILES = ("basic.json", "basic_interactions.json", "multi_swe_bench__output.subset.jsonl.gz")


def action(number: int, kind: str, **args: Any) -> dict[str, Any]:
    choice = {"finish_reason": "stop", "message": {"content": "Next."}}
    reply = {"id": f"r-{number}", "model": "llama", "choices": [choice], "usage": {"completion_tokens": 4}}
    event = {"id": number, "timestamp": f"2025-04-30T10:00:{number:02}", "source": "agent", "action": kind}
    return {**event, "args": args, "tool_call_metadata": {"tool_call_id": f"c-{number}", "model_response": reply}}


def answer(cause: int | None, kind: str, **fields: Any) -> dict[str, Any]:
    event = {"id": 90, "timestamp": "2025-04-30T10:01:00", "source": "agent", "observation": kind, "content": "out"}
    return {**event, "cause": cause, **fields}


def exited(code: int) -> dict[str, Any]:
    return {"extras": {"metadata": {"exit_code": code}}}


ASKED = {"id": 0, "timestamp": "2025-04-30T10:00:00", "source": "user", "action": "message", "args": {"content": "Do."}}
HISTORY = [
    ASKED,
    action(1, "run", command="make", thought="Build."),
    answer(1, "run", **exited(0)),
    action(2, "finish", task_completed="true", final_thought="Done."),
]
RUN: dict[str, Any] = {
    "instance_id": "i-1",
    "instruction": "Do.",
    "test_result": {"git_patch": "diff"},
    "metadata": {"agent_class": "CodeActAgent", "max_iterations": 3, "dataset": "bench", "git_commit": "abc"},
    "metrics": {"accumulated_cost": 0.5, "accumulated_token_usage": {"prompt_tokens": 5, "completion_tokens": 2}},
    "error": None,
    "history": HISTORY,
}


def event(*history: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return read_value(ADAPTER, {**RUN, "history": list(history) or HISTORY, **fields})[0]


def outcome(kind: str, found: dict[str, Any] | None) -> tuple[str, str | None]:
    history = [action(1, kind), *([found] if found else [])]
    call = event(*history)["tool_calls"][0]
    return call["outcome"], call.get("error_class")


@pytest.mark.parametrize("name", FILES)
def test_a_recorded_file_reads_as_its_golden_records(name: str) -> None:
    path = DATA / "openhands" / name
    assert golden_lines(ADAPTER, path) == golden_path(ADAPTER, path).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FILES)
def test_a_recorded_file_is_recognised(name: str) -> None:
    assert recognised(opened(DATA / "openhands" / name)) == (ADAPTER,)


@pytest.mark.parametrize(
    ("kind", "found", "expected"),
    [
        ("run", answer(1, "run", **exited(0)), ("ok", None)),
        ("run", answer(1, "run", **exited(2)), ("error", "exit_code_2")),
        ("run", answer(1, "run", **exited(-1)), ("unknown", None)),
        ("run", answer(1, "run"), ("unknown", None)),
        ("run", None, ("unknown", None)),
        ("run", answer(7, "run", **exited(0)), ("unknown", None)),
        ("edit", answer(1, "edit", extras={"diff": "+x"}), ("ok", None)),
        ("edit", answer(1, "edit", extras={"diff": ""}), ("unknown", None)),
        ("read", answer(1, "read"), ("unknown", None)),
        ("edit", answer(1, "error", extras={"error_id": ""}), ("error", "error")),
        ("edit", answer(1, "error", extras={"error_id": "AGENT_ERROR"}), ("error", "AGENT_ERROR")),
        ("run", answer(1, "user_rejected"), ("denied", None)),
    ],
)
def test_an_observation_is_the_outcome(
    kind: str, found: dict[str, Any] | None, expected: tuple[str, str | None]
) -> None:
    assert outcome(kind, found) == expected


def test_an_action_that_the_user_did_not_confirm_is_a_denial() -> None:
    (decision,) = event(action(1, "run", command="rm a"), answer(1, "user_rejected"))["policy_decisions"]
    assert (decision["source"], decision["effect"], decision["operation_id"]) == ("approver", "deny", "event-1")


@pytest.mark.parametrize(
    ("completed", "claimed"), [("true", True), (True, True), (None, True), ("false", False), ("partial", False)]
)
def test_finishing_claims_what_its_field_says(completed: Any, *, claimed: bool) -> None:
    found = event(action(1, "finish", task_completed=completed, final_thought="I did everything."))
    assert found["completion"]["claimed"] is claimed
    assert found["completion"]["result"] == "not_evaluated"


def test_a_claim_without_a_patch_lacks_its_deliverable() -> None:
    assert event(test_result={"git_patch": ""})["components"][0]["state"] == "omitted"
    assert event()["components"][0]["state"] == "completed"
    assert "components" not in event(test_result={})


def test_a_spent_limit_of_turns_is_told_by_numbers_and_malformed_answers_count() -> None:
    spent = event(action(1, "run"), action(2, "run"), answer(None, "error"), error="Any words.")
    assert spent["budget"]["exhausted"] == ["turns"]
    assert spent["budget"]["turns"] == {"used": 3, "limit": 3}
    assert spent["model"]["stop_class"] == "end"


def test_an_error_before_the_limit_is_an_error_whatever_it_says() -> None:
    failed = event(action(1, "run"), error="Agent reached maximum iteration")
    assert "exhausted" not in failed["budget"]
    assert failed["model"]["stop_class"] == "error"


def test_a_rejecting_agent_refused() -> None:
    assert event(action(1, "reject", reason="Words."))["model"]["stop_class"] == "refused"


def test_the_last_agent_state_is_the_harness_verdict() -> None:
    states = [answer(None, "agent_state_changed", extras={"agent_state": state}) for state in ("running", "finished")]
    _, verdict = read_value(ADAPTER, {**RUN, "history": [*HISTORY, *states]})
    assert (verdict["dispatcher"], verdict["label"]) == ("openhands", "finished")


def test_words_of_the_model_are_no_arguments() -> None:
    keys = frozenset({"thought", "final_thought", "message", "content"})
    assert without_words(event(**reworded({"history": HISTORY}, keys))) | {"event_id": ""} == (
        without_words(event()) | {"event_id": ""}
    )
    assert event()["tool_calls"][0]["arguments"] == '{"command":"make"}'


def test_a_trajectory_is_one_run_and_a_bad_line_costs_only_itself() -> None:
    assert len(read_value(ADAPTER, HISTORY)) == 1
    lines = b"\n".join([json.dumps(RUN).encode(), b"{", json.dumps({**RUN, "history": []}).encode()])
    records, errors = read(ADAPTER, Document("output.jsonl", lines))
    assert len(records) == 1
    assert [error.path for error in errors] == ["line 2", "line 3.history"]


@pytest.mark.parametrize("value", [RUN, HISTORY])
def test_no_node_of_any_type_breaks_the_reader(value: Any) -> None:
    check_every_node(ADAPTER, value)


def test_what_holds_no_events_is_one_error() -> None:
    assert len(read(ADAPTER, as_document([{"role": "user"}]))[1]) == 1


def test_damaged_files_cost_an_error() -> None:
    check_hostile_bytes(ADAPTER, opened(DATA / "openhands" / FILES[0]))
