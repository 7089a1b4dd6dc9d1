"""Each provider's stop signals, filters, guardrails, tool outcomes and failures, as its pure reader sees them."""

from typing import Any

import pytest

from schemas.events import TerminalEvent
from sources import anthropic, bedrock, cohere, gemini, openai_chat, openai_responses
from sources.base import Node
from sources.turns import Dialect, Turn


def turn(dialect: Dialect, body: Any, status: int | None = 200, headers: dict[str, str] | None = None) -> Turn:
    return dialect.read_response(status, headers or {}, Node(body))


def effects(found: Turn) -> list[str]:
    return [decision["effect"] for decision in found.decisions]


def message(stop_reason: Any, *content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "content": list(content), "stop_reason": stop_reason, **fields}


def choice(reason: Any, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"finish_reason": reason, "message": {"content": "x"}, **fields}]}


def candidate(reason: Any, *parts: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts)}, "finishReason": reason}]}


def converse(reason: Any, **fields: Any) -> dict[str, Any]:
    return {"output": {"message": {"content": [{"text": "x"}]}}, "stopReason": reason, **fields}


CLASSES = [
    (anthropic, message("end_turn"), "end"),
    (anthropic, message("stop_sequence"), "end"),
    (anthropic, message("tool_use"), "tool_call"),
    (anthropic, message("max_tokens"), "truncated"),
    (anthropic, message("model_context_window_exceeded"), "truncated"),
    (anthropic, message("pause_turn"), "paused"),
    (anthropic, message("compaction"), "paused"),
    (anthropic, message("refusal"), "filtered"),
    (anthropic, message("brand_new"), "unknown"),
    (anthropic, message(None), "absent"),
    (anthropic, {"type": "completion", "stop_reason": "stop_sequence"}, "end"),
    (openai_chat, choice("stop"), "end"),
    (openai_chat, choice("length"), "truncated"),
    (openai_chat, choice("model_length"), "truncated"),
    (openai_chat, choice("tool_calls"), "tool_call"),
    (openai_chat, choice("content_filter"), "filtered"),
    (openai_chat, choice("error"), "error"),
    (openai_chat, choice("eos"), "unknown"),
    (openai_chat, choice(None), "absent"),
    (openai_chat, {"choices": []}, "absent"),
    (openai_chat, choice("stop", message={"refusal": "no"}), "refused"),
    (openai_chat, choice("stop", message={"refusal": ""}), "end"),
    (openai_chat, choice("stop", message={"tool_calls": [{"id": "c"}]}), "tool_call"),
    (openai_responses, {"status": "completed", "output": []}, "end"),
    (openai_responses, {"status": "queued"}, "paused"),
    (openai_responses, {"status": "in_progress"}, "paused"),
    (openai_responses, {"status": "cancelled"}, "cancelled"),
    (openai_responses, {"status": "failed"}, "error"),
    (openai_responses, {"status": "failed", "error": {"code": "server_error"}}, "error"),
    (openai_responses, {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "truncated"),
    (openai_responses, {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "filtered"),
    (openai_responses, {"status": "incomplete"}, "unknown"),
    (openai_responses, {"status": "completed", "output": [{"type": "function_call", "call_id": "c"}]}, "tool_call"),
    (
        openai_responses,
        {"status": "completed", "output": [{"type": "message", "content": [{"type": "refusal"}]}]},
        "refused",
    ),
    (openai_responses, {"status": "completed", "output": [{"type": "mcp_approval_request", "id": "a"}]}, "paused"),
    (gemini, candidate("STOP"), "end"),
    (gemini, candidate("STOP", {"functionCall": {"name": "f"}}), "tool_call"),
    (gemini, candidate("MAX_TOKENS"), "truncated"),
    (gemini, candidate("RECITATION"), "filtered"),
    (gemini, candidate("SPII"), "filtered"),
    (gemini, candidate("BLOCKLIST"), "filtered"),
    (gemini, candidate("MODEL_ARMOR"), "filtered"),
    (gemini, candidate("LANGUAGE"), "error"),
    (gemini, candidate("OTHER"), "unknown"),
    (gemini, candidate(None), "absent"),
    (gemini, {"promptFeedback": {"blockReason": "OTHER"}}, "filtered"),
    (gemini, {"id": "i", "status": "incomplete", "steps": [], "created": "x"}, "truncated"),
    (gemini, {"id": "i", "status": "requires_action", "steps": [], "created": "x"}, "tool_call"),
    (bedrock, converse("end_turn"), "end"),
    (bedrock, converse("content_filtered"), "filtered"),
    (bedrock, converse("malformed_tool_use"), "error"),
    (bedrock, converse("invalid_query"), "unknown"),
    (bedrock, {"results": [{"outputText": "x", "completionReason": "FINISH"}]}, "end"),
    (bedrock, {"results": [{"outputText": "x", "completionReason": "LENGTH"}]}, "truncated"),
    (bedrock, {"generation": "x", "stop_reason": "length"}, "truncated"),
    (bedrock, {"outputs": [{"text": "x", "stop_reason": "stop"}]}, "end"),
    (bedrock, {"generations": [{"text": "x", "finish_reason": "COMPLETE"}]}, "end"),
    (bedrock, message("max_tokens"), "truncated"),
    (cohere, {"finish_reason": "TOOL_CALL", "message": {}}, "tool_call"),
    (cohere, {"finish_reason": "ERROR_TOXIC", "text": "x"}, "filtered"),
    (cohere, {"finish_reason": "TIMEOUT", "message": {}}, "error"),
    (cohere, {"finish_reason": "USER_CANCEL", "message": {}}, "cancelled"),
]


@pytest.mark.parametrize(("module", "body", "expected"), CLASSES)
def test_stop_signals(module: Any, body: Any, expected: str) -> None:
    assert turn(module.DIALECT, body).stop_class == expected


def test_every_stop_class_and_outcome_is_one_of_the_contract() -> None:
    event = {"type": "terminal_event", "version": 1, "event_id": "e", "run_id": "r", "tenant": "t", "agent_id": "a"}
    for module, body, _ in CLASSES:
        found = turn(module.DIALECT, body)
        calls = [*found.calls, *([found.error] if found.error else [])]
        given = event | {"occurred_at": 0, "model": {"stop_class": found.stop_class}, "tool_calls": calls}
        read = TerminalEvent.model_validate(given)
        assert read.model is not None
        assert read.model.stop_class == found.stop_class
        assert [call.outcome for call in read.tool_calls] == [call.get("outcome") for call in calls]


def test_a_stream_without_its_end_is_absent() -> None:
    text = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Pa"}}
    assert turn(anthropic.DIALECT, [{"type": "message_start", "message": {"id": "m"}}, text]).stop_class == "absent"
    assert turn(openai_chat.DIALECT, [{"choices": [{"index": 0, "delta": {"content": "Pa"}}]}]).stop_class == "absent"
    assert turn(bedrock.DIALECT, [{"contentBlockDelta": {"delta": {"text": "Pa"}}}]).stop_class == "absent"
    assert turn(gemini.DIALECT, [{"candidates": [{"content": {"parts": [{"text": "Pa"}]}}]}]).stop_class == "absent"
    created = {"type": "response.created", "response": {"id": "r", "status": "in_progress"}}
    assert turn(openai_responses.DIALECT, [created]).stop_class == "absent"


def test_streams_add_up() -> None:
    found = turn(
        openai_chat.DIALECT,
        [
            {"choices": [{"index": 0, "delta": {"content": "Pa"}}]},
            {"choices": [{"index": 0, "delta": {"content": "id"}}]},
            {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f"}}]}}]},
            {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]}}]},
            {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
            {"choices": [], "usage": {"completion_tokens": 3}},
        ],
    )
    assert (found.prose, found.stop_class, found.output_tokens) == ("Paid", "tool_call", 3)
    assert [(call["tool"], call["arguments"]) for call in found.calls] == [("f", '{"a":1}')]


def test_an_error_inside_a_stream_beats_its_finish_reason() -> None:
    chunks = [{"choices": [{"index": 0, "finish_reason": "stop"}]}, {"error": {"code": 502}, "choices": []}]
    found = turn(openai_chat.DIALECT, chunks)
    assert found.stop_class == "error"
    assert found.error is not None
    assert found.error["status_code"] == 502
    overloaded = [{"type": "message_start", "message": {}}, {"type": "error", "error": {"type": "overloaded_error"}}]
    assert turn(anthropic.DIALECT, overloaded).error is not None


def test_a_responses_stream_whose_end_contradicts_its_status_is_unknown() -> None:
    ending = {"type": "response.completed", "response": {"status": "failed"}}
    assert turn(openai_responses.DIALECT, [ending]).stop_class == "unknown"
    twice = [{"type": "response.completed", "response": {"status": "completed"}}] * 2
    assert turn(openai_responses.DIALECT, twice).stop_class == "unknown"


# --- policies -----------------------------------------------------------------------------------------------------


def test_the_safety_classifier_denies_with_its_category() -> None:
    found = turn(anthropic.DIALECT, message("refusal", stop_details={"category": "cyber"}))
    (decision,) = found.decisions
    assert (decision["source"], decision["effect"], decision["reason_code"]) == ("provider_filter", "deny", "cyber")
    assert "operation_id" not in decision
    unlisted = turn(anthropic.DIALECT, message("refusal", stop_details={"category": "brand new"}))
    assert (unlisted.decisions[0]["reason_code"], unlisted.refusal_category) == ("content_filter", "brand new")


def azure(**results: Any) -> dict[str, Any]:
    return choice("stop", content_filter_results=results)


def test_azure_annotations_are_decisions() -> None:
    assert effects(turn(openai_chat.DIALECT, azure(hate={"filtered": False, "severity": "safe"}))) == ["allow"]
    assert effects(turn(openai_chat.DIALECT, azure(jailbreak={"filtered": False, "detected": True}))) == ["allow"]
    assert effects(turn(openai_chat.DIALECT, azure(hate={"filtered": True}))) == ["deny"]
    down = turn(openai_chat.DIALECT, azure(error={"code": "content_filter_error"}))
    assert [(d["effect"], d["reason_code"]) for d in down.decisions] == [("unavailable", "content_filter_error")]


@pytest.mark.parametrize("status", [200, 400])
def test_azure_blocks_a_prompt_with_an_error_that_is_a_denial(status: int) -> None:
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"filtered": True}}}
    found = turn(openai_chat.DIALECT, {"error": {"code": "content_filter", "innererror": inner}}, status)
    assert (found.stop_class, effects(found), found.refusal_category, found.error) == (
        "filtered",
        ["deny"],
        "hate",
        None,
    )


def guarded(**policies: Any) -> dict[str, Any]:
    return converse("guardrail_intervened", trace={"guardrail": {"outputAssessments": {"g": [policies]}}})


def test_a_guardrail_that_blocks_denies() -> None:
    found = turn(bedrock.DIALECT, guarded(topicPolicy={"topics": [{"action": "BLOCKED"}]}))
    (decision,) = found.decisions
    assert (found.stop_class, decision["source"], decision["effect"]) == ("filtered", "guardrail", "deny")
    assert (decision["policy_id"], decision["reason_code"]) == ("bedrock.guardrail:g", "topicPolicy")


def test_a_guardrail_that_masks_denies_nothing() -> None:
    found = turn(bedrock.DIALECT, guarded(sensitiveInformationPolicy={"regexes": [{"action": "ANONYMIZED"}]}))
    assert (found.stop_class, effects(found)) == ("end", ["allow"])


def test_a_guardrail_that_blocks_one_thing_and_masks_another_denies() -> None:
    both = {"piiEntities": [{"action": "ANONYMIZED"}, {"action": "BLOCKED"}]}
    assert effects(turn(bedrock.DIALECT, guarded(sensitiveInformationPolicy=both))) == ["deny"]


def test_a_guardrail_without_a_trace_is_undecided() -> None:
    found = turn(bedrock.DIALECT, converse("guardrail_intervened"))
    assert (found.stop_class, effects(found)) == ("unknown", ["unknown"])
    invoked = {"results": [{"outputText": "x", "completionReason": "FINISH"}], bedrock.GUARDRAIL_ACTION: "INTERVENED"}
    assert turn(bedrock.DIALECT, invoked).stop_class == "unknown"


# --- failures -----------------------------------------------------------------------------------------------------

ERRORS = [
    (anthropic, 401, {"type": "error", "error": {"type": "authentication_error"}}, "error", "UNAUTHENTICATED"),
    (anthropic, None, {"type": "error", "error": {"type": "permission_error"}}, "error", "PERMISSION_DENIED"),
    (anthropic, 529, {"type": "error", "error": {"type": "overloaded_error"}}, "unavailable", "overloaded_error"),
    (anthropic, 504, {"type": "error", "error": {"type": "timeout_error"}}, "timeout", "timeout_error"),
    (openai_chat, 404, {"error": {"code": "model_not_found"}}, "error", "model_not_found"),
    (openai_chat, 500, {"error": {"code": None, "type": "server_error"}}, "error", "server_error"),
    (openai_chat, 400, {"error": {"code": "tool_use_failed"}}, "malformed", "tool_use_failed"),
    (openai_chat, 404, {"error": "model not found"}, "error", None),
    (openai_responses, None, {"error": {"code": "rate_limit_exceeded"}}, "unavailable", "rate_limit_exceeded"),
    (gemini, 429, {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}, "unavailable", "RESOURCE_EXHAUSTED"),
    (gemini, 400, {"error": {"status": "X", "details": [{"reason": "API_KEY_INVALID"}]}}, "error", "UNAUTHENTICATED"),
    (bedrock, 403, {"message": "words"}, "error", None),
]


@pytest.mark.parametrize(("module", "status", "body", "outcome", "error_class"), ERRORS)
def test_failed_calls(module: Any, status: int | None, body: Any, outcome: str, error_class: str | None) -> None:
    found = turn(module.DIALECT, body, status)
    assert found.stop_class == "error"
    assert found.error is not None
    assert (found.error["outcome"], found.error["error_class"]) == (outcome, error_class)
    assert found.error["status_code"] == status


def test_bedrock_names_its_error_in_a_header() -> None:
    headers = {"x-amzn-errortype": "ThrottlingException:http://internal"}
    found = turn(bedrock.DIALECT, {"message": "words"}, 400, headers)
    assert found.error is not None
    assert (found.stop_signal, found.error["outcome"]) == ("ThrottlingException", "unavailable")


def test_a_full_context_is_an_exhausted_budget_where_a_code_says_so() -> None:
    assert turn(anthropic.DIALECT, message("model_context_window_exceeded")).exhausted == ("context",)
    assert turn(openai_chat.DIALECT, {"error": {"code": "context_length_exceeded"}}, 400).exhausted == ("context",)
    words = {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long"}}
    assert turn(anthropic.DIALECT, words, 400).exhausted == ()


# --- tools --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("unavailable", "unavailable"),
        ("too_many_requests", "unavailable"),
        ("execution_time_exceeded", "timeout"),
        ("url_not_allowed", "denied"),
        ("brand_new", "error"),
    ],
)
def test_server_tools_fail_inside_a_normal_message(code: str, outcome: str) -> None:
    use = {"type": "server_tool_use", "id": "s", "name": "web_fetch", "input": {}}
    result = {"type": "web_fetch_tool_result_error", "error_code": code}
    found = turn(
        anthropic.DIALECT,
        message("end_turn", use, {"type": "web_fetch_tool_result", "tool_use_id": "s", "content": result}),
    )
    assert [(c["outcome"], c["access"]) for c in found.calls] == [(outcome, "read")]


def test_a_server_tool_without_a_result_is_unknown() -> None:
    use = {"type": "server_tool_use", "id": "s", "name": "code_execution", "input": {}}
    found = turn(anthropic.DIALECT, message("pause_turn", use))
    assert [(c["outcome"], c["access"]) for c in found.calls] == [("unknown", "unknown")]


@pytest.mark.parametrize(
    ("item", "outcome"),
    [
        ({"status": "completed", "error": None, "output": "x"}, "ok"),
        ({"error": None, "output": "x"}, "ok"),
        ({"status": "failed", "error": {"code": 500, "type": "http_error"}}, "error"),
        ({"status": "completed", "error": {"code": 500}}, "error"),
        ({"status": "calling"}, "unknown"),
        ({"status": "incomplete", "output": "x"}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_mcp_calls(item: dict[str, Any], outcome: str) -> None:
    body = {"status": "completed", "output": [{"type": "mcp_call", "id": "m", "name": "pay"} | item]}
    assert [c["outcome"] for c in turn(openai_responses.DIALECT, body).calls] == [outcome]


@pytest.mark.parametrize(("flag", "outcome"), [({}, "ok"), ({"is_error": False}, "ok"), ({"is_error": True}, "error")])
def test_anthropic_results_default_to_no_error(flag: dict[str, Any], outcome: str) -> None:
    request = {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"} | flag]}]}
    assert [result.fields["outcome"] for result in anthropic.results(Node(request))] == [outcome]


@pytest.mark.parametrize(
    ("status", "outcome"), [({}, "unknown"), ({"status": "success"}, "ok"), ({"status": "error"}, "error")]
)
def test_bedrock_results_say_nothing_without_status(status: dict[str, Any], outcome: str) -> None:
    request = {"messages": [{"content": [{"toolResult": {"toolUseId": "t", "content": []} | status}]}]}
    assert [result.fields["outcome"] for result in bedrock.results(Node(request))] == [outcome]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [({"output": 1}, "ok"), ({"error": "no"}, "error"), ({"sum": 1}, "unknown"), (None, "unknown")],
)
def test_gemini_results_speak_by_their_documented_keys(answer: Any, outcome: str) -> None:
    request = {"contents": [{"parts": [{"functionResponse": {"name": "f", "response": answer}}]}]}
    assert [result.fields["outcome"] for result in gemini.results(Node(request))] == [outcome]


def test_a_withheld_function_call_cannot_have_been_sent() -> None:
    found = turn(gemini.DIALECT, candidate("MALFORMED_FUNCTION_CALL"))
    assert [(c["outcome"], c["effect_possible"]) for c in found.calls] == [("malformed", False)]
    assert found.error is not None
    assert found.error["outcome"] == "malformed"


def test_an_unexpected_call_that_was_handed_out_is_left_to_the_host() -> None:
    found = turn(gemini.DIALECT, candidate("UNEXPECTED_TOOL_CALL", {"functionCall": {"name": "f"}}))
    assert [("outcome" in c, c["tool"]) for c in found.calls] == [(False, "f")]


def test_a_fallback_model_is_a_judgement() -> None:
    usage = {"iterations": [{"type": "message", "model": "a"}, {"type": "fallback_message", "model": "b"}]}
    (fallback,) = turn(anthropic.DIALECT, message("end_turn", usage=usage)).fallbacks
    assert (fallback["applied"], fallback["uses_model_judgement"], fallback["origin"]) == (True, True, "b")
    assert "disclosed" not in fallback
    block = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}
    assert len(turn(anthropic.DIALECT, message("end_turn", block)).fallbacks) == 1


def test_of_several_choices_the_most_cautious_counts() -> None:
    body = {"choices": [{"finish_reason": "stop"}, {"finish_reason": "content_filter"}, {"finish_reason": "length"}]}
    found = turn(openai_chat.DIALECT, body)
    assert (found.stop_class, found.stop_signal) == ("filtered", "content_filter")
