"""Anthropic Messages (and the older text completions): responses, streams, server tools, refusals, fallbacks.

Source of the vocabulary: the provider's published SDK types (stop reasons, refusal details, tool error codes). The stop
reason ``refusal`` is its safety classifier, outside the model: a provider filter's denial. A tool result without
``is_error`` is no error, which is the API's documented default.
"""

import json
from collections.abc import Iterator
from typing import Any

from sources.base import Node, json_text, response
from sources.turns import (
    Dialect,
    Headers,
    Record,
    Result,
    Turn,
    call,
    denial,
    failed,
    first_event,
    is_error,
    joined,
    keys,
    value,
    word,
)

STOPS = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tool_call",
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
    "pause_turn": "paused",
    "compaction": "paused",
    "refusal": "filtered",
}
CATEGORIES = frozenset({"cyber", "bio", "frontier_llm", "reasoning_extraction", "general_harms"})
SERVER_ERRORS = {
    "unavailable": "unavailable",
    "too_many_requests": "unavailable",
    "execution_time_exceeded": "timeout",
    "url_not_allowed": "denied",
    "invalid_tool_input": "malformed",
}
READ_TOOLS = frozenset({"web_search", "web_fetch", "tool_search_tool_regex", "tool_search_tool_bm25", "advisor"})
EVENTS = frozenset({
    "message_start", "message_delta", "message_stop", "content_block_start", "content_block_delta",
    "content_block_stop", "ping",
})  # fmt: skip


def speaks(_url: str, body: Node) -> bool:
    """Tell whether this is a message, one of its events, a text completion or an error of this API."""
    kind = word(first_event(body), "type")
    if kind == "error":
        return isinstance(value(body, "error"), dict) and "choices" not in keys(body)
    return kind in EVENTS or (kind == "message" and "content" in keys(first_event(body))) or kind == "completion"


def read_response(status: int | None, headers: Headers, body: Node) -> Turn:
    """Read one response; a stream that ends before its stop reason is ``absent``."""
    if isinstance(body.value, list):
        error = next((event for event in body.items() if value(event, "type") == "error"), None)
        body = error or Node(_folded(body), body.path)
    if is_error(status, body):
        return failed("anthropic", status, headers, body)
    return _completion(body) if value(body, "type") == "completion" else _message(body)


def _completion(body: Node) -> Turn:
    signal = body.text("stop_reason")
    return Turn(
        "anthropic",
        "absent" if signal is None else STOPS.get(signal, "unknown"),
        signal,
        body.text("id"),
        body.text("model"),
        prose=body.text("completion"),
    )


def _message(body: Node) -> Turn:
    signal, usage = body.text("stop_reason"), body.child("usage")
    blocks = body.children("content")
    category = body.child("stop_details").text("category")
    return Turn(
        "anthropic",
        "absent" if signal is None else STOPS.get(signal, "unknown"),
        signal,
        body.text("id"),
        body.text("model"),
        refusal_category=category,
        input_tokens=usage.whole("input_tokens"),
        output_tokens=usage.whole("output_tokens"),
        prose=joined([block.text("text") for block in blocks if value(block, "type") == "text"]),
        calls=list(_calls(blocks)),
        decisions=[denial("anthropic", category if category in CATEGORIES else None)] if signal == "refusal" else (),
        fallbacks=_fallbacks(blocks, usage),
        exhausted=("context",) if signal == "model_context_window_exceeded" else (),
    )


# --- tool calls ---------------------------------------------------------------------------------------------------


def _calls(blocks: list[Node]) -> Iterator[Record]:
    answers = {block.value["tool_use_id"]: block for block in blocks if isinstance(value(block, "tool_use_id"), str)}
    for block in blocks:
        kind = block.text("type") or ""
        made = call(block.text("id"), block.text("name"), value(block, "input"))
        if kind == "tool_use":
            yield made
        elif kind in ("server_tool_use", "mcp_tool_use"):
            access = "read" if block.text("name") in READ_TOOLS else "unknown"
            yield made | {"access": access} | _answer(answers.get(made["call_id"]))


def _answer(block: Node | None) -> Record:
    if block is None:
        return {"outcome": "unknown"}
    content = block.at("content")
    code = value(content, "error_code")
    if str(value(content, "type")).endswith("_tool_result_error"):
        return {"outcome": SERVER_ERRORS.get(str(code), "error"), "error_class": content.text("error_code")}
    return _result_fields(block)


def _result_fields(block: Node) -> Record:
    failing = block.flag("is_error")
    text = _text(block.at("content"))
    return {"outcome": "error" if failing else "ok", **response(text)}


def _text(content: Node) -> str | None:
    if content.value is None or isinstance(content.value, str):
        return content.as_text()
    return json_text(content.value)


def results(request: Node) -> Iterator[Result]:
    """Yield the tool results that a request carries."""
    for message in request.children("messages"):
        content = message.at("content")
        for block in content.items() if isinstance(content.value, list) else ():
            if value(block, "type") == "tool_result":
                yield Result(block.need_text("tool_use_id"), fields=_result_fields(block))


# --- fallbacks ----------------------------------------------------------------------------------------------------


def _fallbacks(blocks: list[Node], usage: Node) -> list[Record]:
    """Return the fallback that served the answer, if any; the usage entry is the marker, the block may be missing."""
    served = [block.child("to").text("model") for block in blocks if value(block, "type") == "fallback"]
    counted = [
        entry.text("model") for entry in usage.children("iterations") if value(entry, "type") == "fallback_message"
    ]
    models = counted or served
    if not models:
        return []
    return [{
        "fallback_id": "anthropic.model_fallback",
        "source": "alternate_source",
        "origin": models[-1],
        "triggers": ["model_declined"],
        "access": "read",
        "uses_model_judgement": True,
        "applied": True,
    }]  # fmt: skip


# --- streams ------------------------------------------------------------------------------------------------------


def _folded(stream: Node) -> Record:
    """Fold the events of a stream into the message that they build."""
    message: Record = {"type": "message", "content": [], "usage": {}}
    blocks: dict[int, Record] = {}
    for event in stream.items():
        kind = event.text("type")
        if kind == "message_start":
            message |= event.child("message").fields()
        elif kind == "content_block_start":
            blocks[event.whole("index") or 0] = dict(event.child("content_block").fields())
        elif kind == "content_block_delta":
            _apply(blocks.setdefault(event.whole("index") or 0, {}), event.child("delta"))
        elif kind == "message_delta":
            usage = Node(message, stream.path).child("usage").fields() | event.child("usage").fields()
            message |= event.child("delta").fields() | {"usage": usage}
    return message | {"content": [_closed(blocks[index]) for index in sorted(blocks)]}


def _apply(block: Record, delta: Node) -> None:
    for key, target in (("text", "text"), ("partial_json", "partial_json")):
        part = delta.text(key)
        if part is not None:
            block[target] = str(block.get(target) or "") + part


def _closed(block: Record) -> Record:
    partial = block.get("partial_json")
    return block | {"input": _parsed(partial)} if isinstance(partial, str) and partial else block


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


DIALECT = Dialect("anthropic", speaks, read_response, "messages", results)
