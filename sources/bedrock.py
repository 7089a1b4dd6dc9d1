"""AWS Bedrock: Converse and its stream, the InvokeModel bodies of each vendor, and guardrails.

Source of the vocabulary: the published service model. ``guardrail_intervened`` may block or mask, and only the trace
tells: an assessment ``BLOCKED`` denies, one that only anonymised denies nothing, and without a trace the decision is
unknown, which reads as unavailable. A tool result without ``status`` says nothing of its success.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sources import anthropic, cohere
from sources.base import Node, json_text, response
from sources.turns import (
    Dialect,
    Headers,
    Record,
    Result,
    Turn,
    call,
    failed,
    first_event,
    is_error,
    joined,
    keys,
    split_url,
    value,
)

STOPS = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tool_call",
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
    "content_filtered": "filtered",
    "malformed_model_output": "error",
    "malformed_tool_use": "error",
}
# InvokeModel passes the vendors' own spellings through: Titan, Llama, Mistral.
VENDOR_STOPS = {
    "FINISH": "end",
    "FINISHED": "end",
    "STOP_CRITERIA_MET": "end",
    "LENGTH": "truncated",
    "CONTENT_FILTERED": "filtered",
    "stop": "end",
    "length": "truncated",
}
STREAM = frozenset({"messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop"})
GUARDRAIL_ACTION, GUARDRAIL_TRACE = "amazon-bedrock-guardrailAction", "amazon-bedrock-trace"


def speaks(url: str, body: Node) -> bool:
    """Tell whether this is a Converse or InvokeModel response, or came from a Bedrock host."""
    found = keys(first_event(body))
    own = bool(found & STREAM) or "stopReason" in found or bool(found & {GUARDRAIL_ACTION, GUARDRAIL_TRACE})
    return own or "bedrock-runtime" in (split_url(url).hostname or "") or _vendor(first_event(body)) is not None


def read_response(status: int | None, headers: Headers, body: Node) -> Turn:
    """Read one response, whichever vendor's shape it has, and what the guardrail did to it."""
    if isinstance(body.value, list):
        body = Node(_folded(body), body.path)
    if is_error(status, body):
        return failed("aws.bedrock", status, headers, body)
    guardrail = _guardrail(body)
    turn = _unguarded(status, headers, body)
    if guardrail is None:
        return turn
    stop_class = {"deny": "filtered", "unknown": "unknown"}.get(str(guardrail["effect"]))
    masked = "end" if turn.stop_signal == "guardrail_intervened" else turn.stop_class
    return replace(turn, stop_class=stop_class or masked, decisions=[*turn.decisions, guardrail])


def _unguarded(status: int | None, headers: Headers, body: Node) -> Turn:
    if value(body, "type") in ("message", "completion"):
        return replace(anthropic.read_response(status, headers, body), provider="aws.bedrock")
    if cohere.speaks("", body):
        return replace(cohere.read_response(status, headers, body), provider="aws.bedrock")
    return _converse(body) if "stopReason" in keys(body) else _invoked(body)


def _converse(body: Node) -> Turn:
    signal, usage = body.text("stopReason"), body.child("usage")
    blocks = body.child("output").child("message").children("content")
    stop_class = "absent" if signal is None else STOPS.get(signal, "unknown")
    return Turn(
        "aws.bedrock",
        stop_class,
        signal,
        input_tokens=usage.whole("inputTokens"),
        output_tokens=usage.whole("outputTokens"),
        prose=joined([block.text("text") for block in blocks]),
        calls=[_tool_use(block.child("toolUse")) for block in blocks if "toolUse" in keys(block)],
        exhausted=("context",) if signal == "model_context_window_exceeded" else (),
        error={"outcome": "malformed", "error_class": signal} if stop_class == "error" else None,
    )


def _tool_use(item: Node) -> Record:
    return call(item.text("toolUseId"), item.text("name"), value(item, "input"))


def _invoked(body: Node) -> Turn:
    told, text_key, stop_key = _vendor(body) or (body, "text", "stop_reason")
    signal = told.text(stop_key)
    return Turn(
        "aws.bedrock",
        "absent" if signal is None else VENDOR_STOPS.get(signal, "unknown"),
        signal,
        input_tokens=body.whole("inputTextTokenCount") or body.whole("prompt_token_count"),
        output_tokens=told.whole("tokenCount") if text_key == "outputText" else body.whole("generation_token_count"),
        prose=told.text(text_key),
    )


def _vendor(body: Node) -> tuple[Node, str, str] | None:
    """Return where a vendor's body keeps its text and its stop reason: Titan, Mistral, Llama."""
    for key, text, stop in (("results", "outputText", "completionReason"), ("outputs", "text", "stop_reason")):
        items = value(body, key)
        if isinstance(items, list) and items and {text, stop} <= keys(Node(items[0])):
            return Node(items[0], f"{body.path}.{key}[0]"), text, stop
    return (body, "generation", "stop_reason") if {"generation", "stop_reason"} <= keys(body) else None


# --- guardrails ---------------------------------------------------------------------------------------------------


def _guardrail(body: Node) -> Record | None:
    """Return the guardrail's decision where it intervened."""
    action = body.text(GUARDRAIL_ACTION)
    if body.text("stopReason") != "guardrail_intervened" and action != "INTERVENED":
        return None
    trace = body.child("trace").child("guardrail").fields() or body.child(GUARDRAIL_TRACE).child("guardrail").fields()
    assessed = {key: trace.get(key) for key in ("inputAssessment", "outputAssessments", "input", "outputs")}
    actions = list(_actions(assessed, None))
    blocked = next((policy for policy, verdict in actions if verdict == "BLOCKED"), None)
    masked = any(verdict == "ANONYMIZED" for _, verdict in actions)
    effect = "deny" if blocked else "allow" if masked else "unknown"
    return {
        "policy_id": joined(["bedrock.guardrail:", next(_guardrail_ids(assessed), "unknown")]),
        "source": "guardrail",
        "effect": effect,
        "reason_code": blocked or ("masked" if masked else "guardrail_intervened"),
    }


def _guardrail_ids(assessed: Record) -> Iterator[str]:
    for item in assessed.values():
        inner = item[0] if isinstance(item, list) and item else item
        yield from inner if isinstance(inner, dict) else ()


def _actions(value: Any, policy: str | None) -> Iterator[tuple[str | None, str]]:
    """Yield (policy, action) of every assessment, however deep; the policy is the nearest key that ends in Policy."""
    if isinstance(value, list):
        for item in value:
            yield from _actions(item, policy)
    elif isinstance(value, dict):
        if isinstance(value.get("action"), str):
            yield policy or "guardrail", value["action"]
        for key, item in value.items():
            yield from _actions(item, key if key.endswith("Policy") else policy)


# --- requests and streams -----------------------------------------------------------------------------------------


def results(request: Node) -> Iterator[Result]:
    """Yield the tool results of a request, in Converse's shape or in the vendor's."""
    yield from anthropic.results(request)
    for message in request.children("messages"):
        content = message.at("content")
        for block in content.items() if isinstance(content.value, list) else ():
            if "toolResult" in keys(block):
                yield _result(block.child("toolResult"))


def _result(item: Node) -> Result:
    outcome = {"success": "ok", "error": "error"}.get(item.text("status") or "", "unknown")
    content = item.at("content").value
    text = None if content is None else json_text(content)
    return Result(item.need_text("toolUseId"), fields={"outcome": outcome, **response(text)})


def _folded(stream: Node) -> Record:
    """Fold the events of a Converse stream into the response that they build."""
    whole: Record = {"stopReason": None}
    blocks: dict[int, Record] = {}
    for event in stream.items():
        started, changed = event.child("contentBlockStart"), event.child("contentBlockDelta")
        if started.fields():
            blocks[started.whole("contentBlockIndex") or 0] = dict(started.child("start").fields())
        if changed.fields():
            _apply(blocks.setdefault(changed.whole("contentBlockIndex") or 0, {}), changed.child("delta"))
        whole |= event.child("messageStop").fields() | event.child("metadata").fields()
        thrown = next((key for key in sorted(keys(event)) if key.endswith("Exception")), None)
        whole |= {"error": {"type": thrown}} if thrown else {}
    return whole | {"output": {"message": {"content": [blocks[index] for index in sorted(blocks)]}}}


def _apply(block: Record, delta: Node) -> None:
    if isinstance(value(delta, "text"), str):
        block["text"] = str(block.get("text") or "") + delta.value["text"]
    part = delta.child("toolUse").text("input")
    if part is not None:
        used = dict(Node(block).child("toolUse").fields())
        block["toolUse"] = used | {"input": str(used.get("input") or "") + part}


DIALECT = Dialect("bedrock", speaks, read_response, "messages", results)
