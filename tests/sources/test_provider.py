"""Recordings to runs: golden events of real files, what belongs to one run, and damaged files."""

import json
from typing import Any

import pytest

from schemas.errors import ErrorCode
from sources.base import Document, Options
from sources.provider import ADAPTER
from tests.sources.harness import as_document, check_every_node, check_hostile_bytes, opened, read, read_value
from tests.sources.kit import DATA, golden_lines, golden_path

FOLDER = DATA / "provider"
FILES = sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".json", ".yaml", ".yml", ".txt"))


@pytest.mark.parametrize("name", FILES)
def test_recorded_files_read_as_their_golden_events(name: str) -> None:
    assert golden_lines(ADAPTER, FOLDER / name) == golden_path(ADAPTER, FOLDER / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FILES)
def test_recorded_files_are_recognised(name: str) -> None:
    found = opened(FOLDER / name)
    assert ADAPTER.recognises(found.name, found.head)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\x00\x01",
        b'{"trajectory": []}',
        b'{"error": "text", "history": []}',
        b"name: a\nsteps:\n- b\n",
        b"[]",
        b"7",
    ],
)
def test_other_files_are_not_recognised(head: bytes) -> None:
    assert not ADAPTER.recognises("file", head)


def test_cut_and_foreign_bytes_are_errors() -> None:
    check_hostile_bytes(ADAPTER, opened(FOLDER / "anthropic_refusal.json"))


@pytest.mark.parametrize("name", ["bedrock_guardrail_converse.yaml", "openai_failed.chunks.txt", "gemini_stream.yml"])
def test_a_cut_recording_is_never_passed_over_and_a_cut_stream_never_ended(name: str) -> None:
    whole = opened(FOLDER / name)
    for end in range(0, len(whole.data), max(1, len(whole.data) // 100)):
        records, errors = read(ADAPTER, Document(name, whole.data[:end]))
        assert records or errors
        if name.endswith(".chunks.txt"):
            assert {record["model"]["stop_class"] for record in records} <= {"absent", "error"}


# --- samples ------------------------------------------------------------------------------------------------------


def vcr(*calls: tuple[Any, Any], url: str = "https://api.openai.com/v1/chat/completions", status: int = 200) -> Any:
    return {
        "interactions": [
            {
                "request": {"uri": url, "parsed_body": request},
                "response": {"status": {"code": status}, "headers": {}, "parsed_body": body},
            }
            for request, body in calls
        ]
    }


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def chat(message: dict[str, Any], reason: str | None = "stop", **fields: Any) -> dict[str, Any]:
    return {
        "object": "chat.completion",
        "choices": [{"index": 0, "finish_reason": reason, "message": message}],
        **fields,
    }


def asking(call_id: str) -> dict[str, Any]:
    function = {"name": "pay", "arguments": '{"amount":"1.00"}'}
    return {"role": "assistant", "tool_calls": [{"id": call_id, "type": "function", "function": function}]}


SAMPLES: dict[str, Any] = {
    "chat": vcr(
        ({"model": "m", "messages": [user("a")]}, chat(asking("c1"), "tool_calls", id="r1", created=1700000000)),
        (
            {"messages": [user("a"), asking("c1"), {"role": "tool", "tool_call_id": "c1", "content": "paid"}]},
            chat({"content": "done"}, usage={"prompt_tokens": 1, "completion_tokens": 2}),
        ),
    ),
    "azure": chat({"content": "x"})
    | {"prompt_filter_results": [{"content_filter_results": {"hate": {"filtered": True}}}]},
    "anthropic": {
        "type": "message",
        "content": [
            {"type": "text", "text": "x"},
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
            {
                "type": "web_search_tool_result",
                "tool_use_id": "s1",
                "content": {"type": "web_search_tool_result_error"},
            },
            {"type": "tool_use", "id": "t1", "name": "pay", "input": {"amount": 1}},
        ],
        "stop_reason": "tool_use",
        "stop_details": {"category": "bio"},
        "usage": {"input_tokens": 1, "iterations": [{"type": "fallback_message", "model": "other"}]},
    },
    "responses": {
        "object": "response",
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
        "output": [
            {"type": "mcp_call", "id": "m1", "name": "pay", "status": "failed", "error": {"code": 500, "type": "http"}},
            {"type": "mcp_approval_request", "id": "a1", "name": "pay", "arguments": "{}"},
            {"type": "message", "content": [{"type": "output_text", "text": "x"}]},
        ],
    },
    "gemini": {
        "candidates": [
            {
                "content": {"parts": [{"text": "x"}, {"functionCall": {"name": "pay", "args": {"a": 1}}}]},
                "finishReason": "SAFETY",
                "safetyRatings": [{"category": "HARM", "blocked": True}],
            }
        ],
        "usageMetadata": {"promptTokenCount": 1},
    },
    "bedrock": {
        "output": {
            "message": {"content": [{"text": "x"}, {"toolUse": {"toolUseId": "t", "name": "pay", "input": {}}}]}
        },
        "stopReason": "guardrail_intervened",
        "trace": {"guardrail": {"inputAssessment": {"g": {"topicPolicy": {"topics": [{"action": "BLOCKED"}]}}}}},
    },
    "error": vcr(({"messages": [user("a")]}, {"error": {"code": 429, "details": [{"reason": "R"}]}}), status=429),
    "cohere": {"id": "c", "message": {"content": [{"type": "text", "text": "x"}]}, "finish_reason": "COMPLETE"},
}


@pytest.mark.parametrize("name", SAMPLES)
def test_any_value_at_any_place_gives_records_or_errors_only(name: str) -> None:
    check_every_node(ADAPTER, SAMPLES[name])


# --- what is one run ----------------------------------------------------------------------------------------------


def test_a_request_with_the_result_of_a_call_continues_the_run() -> None:
    (event,) = read_value(ADAPTER, SAMPLES["chat"])
    assert event["model"]["stop_class"] == "end"
    assert event["extensions"]["import.exchanges"] == "2"
    (call,) = event["tool_calls"]
    assert (call["tool"], call["call_id"], call["outcome"], call["response"]) == ("pay", "c1", "unknown", "paid")
    assert call["arguments"] == '{"amount":"1.00"}'


def test_calls_of_the_last_response_are_not_executed() -> None:
    (event,) = read_value(ADAPTER, chat(asking("c1"), "tool_calls"))
    assert [call["outcome"] for call in event["tool_calls"]] == ["not_executed"]


def test_a_call_that_a_later_request_does_not_answer_is_unknown() -> None:
    history = [user("a"), asking("c1"), user("and now?")]
    calls = (
        ({"messages": history[:1]}, chat(asking("c1"), "tool_calls")),
        ({"messages": history}, chat({"content": "x"})),
    )
    (event,) = read_value(ADAPTER, vcr(*calls))
    assert [call["outcome"] for call in event["tool_calls"]] == ["unknown"]


def test_results_of_calls_from_before_the_recording_count() -> None:
    history = [user("a"), asking("c0"), {"role": "tool", "tool_call_id": "c0", "content": "paid"}]
    (event,) = read_value(ADAPTER, vcr(({"messages": history}, chat({"content": "x"}))))
    assert [(call["call_id"], call["outcome"]) for call in event["tool_calls"]] == [("c0", "unknown")]


def test_equal_requests_are_runs_of_their_own() -> None:
    request = {"messages": [user("a")]}
    events = read_value(ADAPTER, vcr((request, chat({"content": "x"})), (request, chat({"content": "y"}))))
    assert len(events) == 2
    assert len({event["event_id"] for event in events}) == 2


def test_a_repeated_request_after_a_failure_is_its_retry() -> None:
    recording = vcr(
        ({"messages": [user("a")]}, chat({"content": "x"})), ({"messages": [user("a")]}, chat({"content": "x"}))
    )
    recording["interactions"][0]["response"] = {"status": {"code": 529}, "body": {"string": "<html>busy</html>"}}
    (event,) = read_value(ADAPTER, recording)
    attempts = [(call["attempt"], call["outcome"], call.get("status_code")) for call in event["tool_calls"]]
    assert attempts == [(1, "unavailable", 529), (2, "ok", None)]
    assert {call["operation_id"] for call in event["tool_calls"]} == {"provider.call"}
    assert {call["access"] for call in event["tool_calls"]} == {"read"}


def test_calls_and_results_without_ids_pair_by_name_in_order() -> None:
    def answer(name: str) -> dict[str, Any]:
        return {
            "candidates": [
                {"content": {"parts": [{"functionCall": {"name": name, "args": {}}}]}, "finishReason": "STOP"}
            ]
        }

    asked = [{"role": "model", "parts": [{"functionCall": {"name": "pay"}}]}]
    told = [{"parts": [{"functionResponse": {"id": "x", "name": "pay", "response": {"error": "no"}}}]}]
    first = [{"parts": [{"text": "a"}]}]
    url = "https://generativelanguage.googleapis.com/v1beta/models/gemini:generateContent"
    calls = (({"contents": first}, answer("pay")), ({"contents": [*first, *asked, *told]}, answer("pay")))
    (event,) = read_value(ADAPTER, vcr(*calls, url=url))
    assert [call["outcome"] for call in event["tool_calls"]] == ["error", "not_executed"]
    assert event["agent_id"] == "gemini"


APPROVAL = {"type": "mcp_approval_request", "id": "a1", "name": "pay", "arguments": "{}", "server_label": "bank"}
PAID = {
    "type": "mcp_call",
    "id": "m1",
    "approval_request_id": "a1",
    "name": "pay",
    "status": "completed",
    "output": "ok",
}


def approving(*output: dict[str, Any], approve: bool | None) -> Any:
    first = {"object": "response", "status": "completed", "output": [APPROVAL], "created_at": 1700000000}
    second = {"object": "response", "status": "completed", "output": list(output), "created_at": 1700000009}
    answer = {"type": "mcp_approval_response", "approval_request_id": "a1", "approve": approve}
    return vcr(({}, first), ({"input": [answer]}, second), url="https://api.openai.com/v1/responses")


def test_an_approval_is_answered_by_the_client_for_its_operation() -> None:
    (event,) = read_value(ADAPTER, approving(PAID, approve=True))
    (decision,) = event["policy_decisions"]
    assert decision["effect"] == "require_approval"
    assert decision["approval"]["state"] == "granted"
    assert decision["approval"]["approver"] == "api_client"
    assert decision["approval"]["resolved_at"] <= event["occurred_at"]
    assert event["tool_calls"][0]["operation_id"] == decision["operation_id"] == "a1"
    assert event["tool_calls"][0]["outcome"] == "ok"


@pytest.mark.parametrize(("approve", "state"), [(False, "denied"), (None, "unknown")])
def test_an_approval_that_was_not_given_is_not_granted(*, approve: bool | None, state: str) -> None:
    (event,) = read_value(ADAPTER, approving(approve=approve))
    assert event["policy_decisions"][0]["approval"]["state"] == state


# --- whole documents ----------------------------------------------------------------------------------------------


def test_calls_to_anything_but_a_model_are_passed_over() -> None:
    recording = vcr(({"messages": [user("a")]}, chat({"content": "x"})))
    other = vcr(({}, {"error": "denied"}), url="https://telemetry.example/batches", status=401)
    recording["interactions"] += other["interactions"]
    assert len(read_value(ADAPTER, recording)) == 1
    records, (error,) = read(ADAPTER, as_document(other))
    assert (records, error.code) == ([], ErrorCode.UNSUPPORTED_TYPE)


def test_a_bad_exchange_costs_only_itself() -> None:
    recording = vcr(*(({"messages": [user(text)]}, chat({"content": text})) for text in "abc"))
    recording["interactions"][1]["response"]["parsed_body"]["choices"] = 7
    records, (error,) = read(ADAPTER, as_document(recording))
    assert len(records) == 2
    assert error.path == "interactions[1].response.parsed_body.choices"


def test_lines_are_read_one_by_one() -> None:
    lines = [json.dumps(chat({"content": "x"})), "{broken", json.dumps(chat({"content": "y"}, "length"))]
    records, (error,) = read(ADAPTER, Document("a.jsonl", "\n".join(lines).encode()))
    assert [record["model"]["stop_class"] for record in records] == ["end", "truncated"]
    assert error.path == "line 2"


def test_a_request_alone_is_an_error_that_says_so() -> None:
    _, (error,) = read(ADAPTER, as_document({"model": "m", "messages": [user("a")]}))
    assert "request" in error.message


def test_without_a_time_the_option_stands_in_and_the_event_says_so() -> None:
    found = Document("a.json", json.dumps(chat({"content": "x"})).encode(), Options("acme", "2026-01-02T03:04:05Z"))
    (event,), _ = read(ADAPTER, found)
    assert (event["tenant"], event["occurred_at"]) == ("acme", "2026-01-02T03:04:05Z")
    assert event["extensions"]["import.occurred_at"] == "absent"


def test_no_response_claims_completion() -> None:
    for name in FILES:
        records, _ = read(ADAPTER, opened(FOLDER / name))
        assert not [record for record in records if "completion" in record]


def test_words_decide_nothing() -> None:
    refusing = chat({"content": "I cannot help with that. Error: request denied by policy."})
    plain = chat({"content": "Paid."})
    (first,), (second,) = read_value(ADAPTER, refusing), read_value(ADAPTER, plain)
    for event in (first, second):
        event["model"].pop("prose")
    identity = ("event_id", "run_id")
    assert {k: v for k, v in first.items() if k not in identity} == {
        k: v for k, v in second.items() if k not in identity
    }
