import io
import json
import zipfile
from typing import Any

import pytest

from schemas.errors import ErrorCode
from sources.base import Document
from sources.inspect_log import ADAPTER
from sources.registry import recognised
from tests.sources.harness import as_document, check_every_node, check_hostile_bytes, opened, read, read_value
from tests.sources.kit import DATA, golden_lines, golden_path

FILES = (
    "2024-11-05T13-31-45-05-00_input-task_8zXjbRzCWrL9GXiXo2vus9.json",
    "2025-05-12T20-28-13-04-00_no-samples.json",
    "log_message_deduplication.eval",
    "log_tool_call_error.json",
    "scout_websearch-addition-problem.eval",
)
HEADER: dict[str, Any] = {
    "version": 2,
    "status": "success",
    "eval": {"run_id": "r-1", "task_id": "t-1", "task": "task", "model": "openai/gpt", "config": {"token_limit": 900}},
    "plan": {},
    "stats": {"completed_at": "2026-01-01T10:00:09+00:00"},
}
REQUEST = {"id": "c-1", "function": "pay", "arguments": {"amount": 1}}


def at(second: int) -> str:
    return f"2026-01-01T10:00:{second:02}+00:00"


def tool(second: int = 1, **fields: Any) -> dict[str, Any]:
    return {"event": "tool", "timestamp": at(second), "working_time": 0.5, **REQUEST, "result": "paid", **fields}


def approval(decision: str, second: int = 2, **fields: Any) -> dict[str, Any]:
    event = {"event": "approval", "timestamp": at(second), "uuid": f"a-{second}", "approver": "human"}
    return {**event, "call": REQUEST, "decision": decision, "message": "May I?", "explanation": "Words.", **fields}


def sample(*events: dict[str, Any], **fields: Any) -> dict[str, Any]:
    choice = {"message": {"role": "assistant", "content": "Done."}, "stop_reason": "stop"}
    return {
        "id": "s-1",
        "epoch": 1,
        "input": [{"role": "user", "content": [{"type": "text", "text": "Pay."}]}],
        "messages": [],
        "output": {"model": "gpt-4o", "choices": [choice], "usage": {"input_tokens": 3, "output_tokens": 2}},
        "events": list(events),
        "model_usage": {"openai/gpt": {"total_tokens": 5, "total_cost": 0.5}},
        **fields,
    }


def log(*samples: Any) -> dict[str, Any]:
    return {**HEADER, "samples": list(samples)}


def event(*events: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return read_value(ADAPTER, log(sample(*events, **fields)))[0]


def archive(members: dict[str, Any]) -> Document:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content if isinstance(content, bytes) else json.dumps(content))
    return Document("log.eval", buffer.getvalue())


@pytest.mark.parametrize("name", FILES)
def test_a_recorded_file_reads_as_its_golden_records(name: str) -> None:
    path = DATA / "inspect_log" / name
    assert golden_lines(ADAPTER, path) == golden_path(ADAPTER, path).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FILES)
def test_a_recorded_file_is_recognised(name: str) -> None:
    assert recognised(opened(DATA / "inspect_log" / name)) == (ADAPTER,)


def test_other_files_are_not_recognised() -> None:
    assert not ADAPTER.recognises("results.json", b'{"info": {"plan": 1}}')
    assert not ADAPTER.recognises("log.eval", archive({"other.json": {}}).head)


def test_a_success_of_the_evaluation_says_nothing_of_a_sample_at_its_limit() -> None:
    found, verdict = read_value(ADAPTER, log(sample(limit={"type": "message", "limit": 50})))
    assert found["budget"]["exhausted"] == ["turns"]
    assert "completion" not in found
    assert verdict["label"] == "message"


@pytest.mark.parametrize(
    ("kind", "budget"),
    [
        ("turn", "turns"),
        ("token", "tokens"),
        ("cost", "cost"),
        ("time", "time"),
        ("working", "time"),
        ("context", "context"),
    ],
)
def test_a_limit_is_an_exhausted_budget(kind: str, budget: str) -> None:
    assert event(limit={"type": kind, "limit": 10})["budget"]["exhausted"] == [budget]


@pytest.mark.parametrize("kind", ["operator", "custom", "tomorrow"])
def test_a_limit_that_is_no_budget_is_an_unknown_stop(kind: str) -> None:
    found = event(limit={"type": kind, "limit": 1})
    assert "exhausted" not in found["budget"]
    assert (found["model"]["stop_signal"], found["model"]["stop_class"]) == (kind, "unknown")


def test_a_limit_known_from_the_events_alone_counts() -> None:
    limit = {"event": "sample_limit", "timestamp": at(3), "type": "token", "limit": 10, "message": "Words."}
    found = event(limit)
    assert found["budget"]["exhausted"] == ["tokens"]
    assert found["budget"]["tokens"] == {"used": 5, "limit": 10}


@pytest.mark.parametrize(
    ("reason", "stop_class"),
    [
        ("stop", "end"),
        ("max_tokens", "truncated"),
        ("model_length", "truncated"),
        ("tool_calls", "tool_call"),
        ("content_filter", "filtered"),
        ("unknown", "unknown"),
        ("tomorrow", "unknown"),
    ],
)
def test_the_stop_reason_is_classed(reason: str, stop_class: str) -> None:
    model = event(output={"choices": [{"stop_reason": reason}]})["model"]
    assert (model["stop_signal"], model["stop_class"]) == (reason, stop_class)


def test_no_choice_is_an_absent_stop_and_no_output_says_nothing() -> None:
    assert event(output={"model": "", "choices": []})["model"]["stop_class"] == "absent"
    without = sample()
    del without["output"]
    assert "model" not in read_value(ADAPTER, log(without))[0]


def test_a_filled_context_is_an_exhausted_budget() -> None:
    assert event(output={"choices": [{"stop_reason": "model_length"}]})["budget"]["exhausted"] == ["context"]


def test_a_sample_that_crashed_stopped_with_an_error_whatever_the_model_said() -> None:
    found, verdict = read_value(ADAPTER, log(sample(error={"message": "boom", "traceback": "..."})))
    assert found["model"]["stop_class"] == "error"
    assert verdict["label"] == "error"


@pytest.mark.parametrize(
    ("kind", "outcome", "error_class"),
    [
        ("timeout", "timeout", "timeout"),
        ("parsing", "malformed", "parsing"),
        ("permission", "error", "PERMISSION_DENIED"),
        ("approval", "denied", "approval"),
        ("cancelled", "cancelled", "cancelled"),
        ("file_not_found", "error", "file_not_found"),
        ("output_limit", "error", "output_limit"),
        ("tomorrow", "error", "tomorrow"),
    ],
)
def test_a_tools_error_has_an_outcome(kind: str, outcome: str, error_class: str) -> None:
    call = event(tool(error={"type": kind, "message": "Words."}))["tool_calls"][0]
    assert (call["outcome"], call["error_class"]) == (outcome, error_class)


def test_a_tools_own_limit_ended_the_run_only_if_it_was_the_last_call() -> None:
    limited = tool(error={"type": "limit", "message": "Words."})
    assert event(limited)["budget"]["exhausted"] == ["unknown"]
    assert "exhausted" not in event(limited, tool(id="c-2"))["budget"]


@pytest.mark.parametrize(
    ("fields", "outcome"), [({}, "ok"), ({"pending": True}, "unknown"), ({"failed": True}, "error")]
)
def test_a_call_without_an_error_is_ok_only_if_it_ended_well(fields: dict[str, Any], outcome: str) -> None:
    call = event(tool(**fields))["tool_calls"][0]
    assert call["outcome"] == outcome
    assert call["access"] == "unknown"


def test_calls_of_nested_events_count() -> None:
    assert len(event({"event": "subtask", "timestamp": at(1), "events": [tool()]})["tool_calls"]) == 1


def test_calls_that_only_the_messages_know_of_count_and_without_a_result_are_unknown() -> None:
    asked = {"role": "assistant", "content": "", "tool_calls": [REQUEST, {**REQUEST, "id": "c-2"}]}
    answer = {"role": "tool", "tool_call_id": "c-1", "function": "pay", "content": "paid"}
    calls = event(messages=[asked, answer])["tool_calls"]
    assert [(call["call_id"], call["outcome"]) for call in calls] == [("c-1", "ok"), ("c-2", "unknown")]
    assert calls[0]["arguments"] == '{"amount":1}'


def test_a_call_in_both_events_and_messages_counts_once() -> None:
    asked = {"role": "assistant", "content": "", "tool_calls": [REQUEST]}
    answer = {"role": "tool", "tool_call_id": "c-1", "function": "pay", "content": "paid"}
    assert len(event(tool(), messages=[asked, answer])["tool_calls"]) == 1


def test_calls_under_a_reused_id_are_operations_of_their_own() -> None:
    calls = event(tool(1), tool(2))["tool_calls"]
    assert [call["operation_id"] for call in calls] == ["c-1", "c-1#2"]


@pytest.mark.parametrize(
    ("decision", "effect", "state"),
    [
        ("approve", "allow", "granted"),
        ("modify", "allow", "granted"),
        ("reject", "deny", "denied"),
        ("terminate", "deny", "denied"),
        ("escalate", "require_approval", "requested"),
        ("tomorrow", "unknown", "unknown"),
    ],
)
def test_an_approvers_decision_is_a_policy_decision(decision: str, effect: str, state: str) -> None:
    (found,) = event(approval(decision), tool())["policy_decisions"]
    assert (found["source"], found["effect"], found["operation_id"]) == ("approver", effect, "c-1")
    assert (found["approval"]["state"], found["approval"]["approver"]) == (state, "human")
    assert found["decided_at"] == "2026-01-01T10:00:02.000000Z"


def test_a_modified_call_is_granted_as_modified() -> None:
    (found,) = event(approval("modify", modified={**REQUEST, "arguments": {"amount": 2}}))["policy_decisions"]
    assert found["attempted_action"] == {"tool": "pay", "arguments": '{"amount":2}'}


def test_a_call_starts_no_earlier_than_its_last_approval() -> None:
    assert event(tool(1), approval("approve", 5))["tool_calls"][0]["started_at"] == "2026-01-01T10:00:05.000000Z"


def test_a_rejection_recorded_twice_is_one_denial_and_one_known_from_the_tool_alone_counts() -> None:
    rejected = tool(error={"type": "approval", "message": "Words."})
    assert len(event(approval("reject"), rejected)["policy_decisions"]) == 1
    (alone,) = event(rejected)["policy_decisions"]
    assert (alone["source"], alone["effect"], alone["operation_id"]) == ("approver", "deny", "c-1")


def test_a_rejected_result_denies_nothing_and_proves_nothing() -> None:
    found = event(approval("reject", stage="result"), tool(error={"type": "approval", "message": "Words."}))
    assert "policy_decisions" not in found
    assert found["tool_calls"][0]["outcome"] == "unknown"


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("C", "satisfied"),
        (1.0, "satisfied"),
        (True, "satisfied"),
        ("I", "unsatisfied"),
        (0, "unsatisfied"),
        (False, "unsatisfied"),
        ("P", "unverifiable"),
        ("N", "unverifiable"),
        (0.37, "unverifiable"),
        ({"a": 1}, "unverifiable"),
        (None, "unverifiable"),
    ],
)
def test_only_a_plain_score_is_a_predicate(value: Any, result: str) -> None:
    completion = event(scores={"match": {"value": value, "explanation": "Words."}})["completion"]
    assert completion == {"predicate_id": "inspect:match", "result": result}


def test_of_several_scores_the_worst_counts() -> None:
    scores = {"b": {"value": "C"}, "a": {"value": "I"}, "c": {"value": 0.5}}
    assert event(scores=scores)["completion"] == {"predicate_id": "inspect:a+b+c", "result": "unsatisfied"}


def test_the_score_of_an_invalid_sample_counts_nothing() -> None:
    found = event(scores={"match": {"value": "C"}}, invalidation={"author": "x"})
    assert found["completion"]["result"] == "unverifiable"


def test_a_successful_submission_is_a_claim() -> None:
    assert event(tool(function="submit"))["completion"] == {"claimed": True, "result": "not_evaluated"}
    assert "completion" not in event(tool(function="submit", error={"type": "parsing", "message": ""}))


def test_attachments_are_resolved_and_a_dangling_one_stays() -> None:
    found = event(tool(result="attachment://a"), tool(result="attachment://b"), attachments={"a": "long"})
    assert [call["response"] for call in found["tool_calls"]] == ["long", "attachment://b"]


def test_one_bad_sample_costs_only_itself() -> None:
    records, errors = read(ADAPTER, as_document(log(sample(), sample(epoch="x"), sample(epoch=3))))
    assert [record["type"] for record in records] == ["terminal_event", "legacy_exit"] * 2
    assert [error.path for error in errors] == ["samples[1].epoch"]


def test_both_forms_of_a_log_give_the_same_identity() -> None:
    zipped, errors = read(ADAPTER, archive({"header.json": HEADER, "samples/s-1_epoch_1.json": sample()}))
    assert errors == []
    assert zipped[0]["event_id"] == event()["event_id"]


def test_a_damaged_header_or_sample_of_an_archive_costs_only_itself() -> None:
    members = {"_journal/start.json": HEADER, "header.json": b"{", "samples/a.json": b"{", "samples/b.json": sample()}
    records, errors = read(ADAPTER, archive(members))
    assert records[0]["workflow"] == "task"
    assert [error.path for error in errors] == ["header.json", "samples/a.json"]


@pytest.mark.parametrize("value", [log(), {"eval": {}}])
def test_a_log_without_samples_says_so(value: Any) -> None:
    records, errors = read(ADAPTER, as_document(value))
    assert (records, [error.path for error in errors]) == ([], ["samples"])
    assert read(ADAPTER, archive({"header.json": HEADER}))[1][0].path == "samples"


def test_a_bomb_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = archive({"header.json": HEADER} | {f"samples/{number}.json": b" " * 9_000 for number in range(9)})
    monkeypatch.setattr("sources.base.zip_members.__defaults__", (10_000,))
    records, errors = read(ADAPTER, bomb)
    assert records == []
    assert errors[-1].code is ErrorCode.TOO_LARGE
    assert len(errors) == 2


def test_words_change_nothing_but_prose_and_responses() -> None:
    plain = event(tool(error={"type": "timeout", "message": "a"}), approval("reject", explanation="a"))
    other = event(
        tool(error={"type": "timeout", "message": "denied"}), approval("reject", explanation="b", message="c")
    )
    assert plain == other


def test_no_node_of_any_type_breaks_the_reader() -> None:
    asked = {"role": "assistant", "content": [{"type": "text", "text": ""}], "tool_calls": [REQUEST]}
    answer = {"role": "tool", "tool_call_id": "c-9", "function": "pay", "content": "paid"}
    full = sample(
        tool(error={"type": "approval", "message": "Words."}),
        approval("modify", modified=REQUEST),
        {"event": "sample_limit", "type": "token", "limit": 10, "timestamp": at(3)},
        messages=[asked, answer],
        scores={"match": {"value": "C"}},
        limit={"type": "message", "limit": 50},
        attachments={"a": "x"},
    )
    check_every_node(ADAPTER, log(full))


@pytest.mark.parametrize("name", FILES[3:])
def test_damaged_files_cost_an_error(name: str) -> None:
    check_hostile_bytes(ADAPTER, opened(DATA / "inspect_log" / name))


def test_samples_without_an_id_are_told_apart_by_their_place():
    whole = list(read_value(ADAPTER, HEADER | {"samples": [{}, {}, {"id": 0}]}))
    ids = [record["event_id"] for record in whole if record["type"] == "terminal_event"]
    assert len(set(ids)) == len(ids) == 3
    assert whole[0]["run_id"] == "r-1:t-1:samples[0]"
    assert "request_ref" not in whole[0]["request"]
