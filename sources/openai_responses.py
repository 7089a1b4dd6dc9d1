"""OpenAI Responses: status, incomplete details, refusal parts, hosted tools, MCP calls and their approvals, streams.

Source of the vocabulary: the published SDK types. ``completed`` says only that the response object was closed: it may
hold a refusal, open function calls or an unanswered approval request. A function output has no status of success.
"""

from collections.abc import Iterator

from sources.base import Node, json_text, response
from sources.turns import (
    Dialect,
    Headers,
    Record,
    Result,
    Turn,
    call,
    created,
    denial,
    failed,
    first_event,
    is_error,
    joined,
    split_url,
    value,
    word,
)

STOPS = {
    "completed": "end",
    "failed": "error",
    "cancelled": "cancelled",
    "in_progress": "paused",
    "queued": "paused",
    "max_output_tokens": "truncated",
    "content_filter": "filtered",
}
ENDINGS = frozenset({"response.completed", "response.incomplete", "response.failed"})
HOST_ITEMS = frozenset({
    "function_call", "custom_tool_call", "computer_call", "local_shell_call", "shell_call", "apply_patch_call",
})  # fmt: skip
HOSTED_ITEMS = {
    "web_search_call": "read",
    "file_search_call": "read",
    "code_interpreter_call": "unknown",
    "image_generation_call": "unknown",
}
ITEM_OUTCOMES = {"completed": "ok", "failed": "error"}
API_CLIENT = "api_client"
"""Who answers approvals: only the client of the API can, never the model."""


def speaks(url: str, body: Node) -> bool:
    """Tell whether this is a response object, a stream of its events, or an error from its path."""
    event = first_event(body)
    if value(event, "object") == "response" or str(value(event, "type")).startswith("response."):
        return True
    return bool(value(event, "error")) and split_url(url).path.endswith("/responses")


def read_response(status: int | None, headers: Headers, body: Node) -> Turn:
    """Read one response; a stream without exactly one final event that agrees with its status is no end."""
    if isinstance(body.value, list):
        return _read_stream(status, headers, body)
    if is_error(status, body):
        known = {"response_id": value(body, "id"), "model": value(body, "model")}
        return failed("openai", status, headers, body, **{k: v for k, v in known.items() if isinstance(v, str)})
    signal, items, usage = _signal(body), body.children("output"), body.child("usage")
    found = "absent" if signal is None else STOPS.get(signal, "unknown")
    return Turn(
        "openai",
        _stop_class(found, items),
        signal,
        body.text("id"),
        body.text("model"),
        input_tokens=usage.whole("input_tokens"),
        output_tokens=usage.whole("output_tokens"),
        prose=joined([part.text("text") for item in items for part in _parts(item)]),
        calls=[made for item in items for made in _call(item)],
        decisions=[
            *(_approval(item) for item in items if value(item, "type") == "mcp_approval_request"),
            *([denial("openai")] if found == "filtered" else []),
        ],
        error={"outcome": "error", "error_class": signal} if found == "error" else None,
        created=created(body, "completed_at") or created(body, "created_at"),
    )


def _signal(body: Node) -> str | None:
    status = body.text("status")
    return (body.child("incomplete_details").text("reason") or status) if status == "incomplete" else status


def _stop_class(found: str, items: list[Node]) -> str:
    if found != "end":
        return found
    kinds = {word(item, "type") for item in items}
    if any(value(part, "type") == "refusal" for item in items for part in _parts(item)):
        return "refused"
    if "mcp_approval_request" in kinds:
        return "paused"
    return "tool_call" if kinds & HOST_ITEMS else "end"


def _parts(item: Node) -> list[Node]:
    return item.children("content") if value(item, "type") == "message" else []


# --- output items -------------------------------------------------------------------------------------------------


def _call(item: Node) -> Iterator[Record]:
    kind = item.text("type") or ""
    if kind in HOST_ITEMS:
        given = next(
            (item.value[key] for key in ("arguments", "input", "action", "operation") if key in item.value), None
        )
        yield call(item.text("call_id"), item.text("name") or kind, given)
    elif kind in HOSTED_ITEMS:
        yield call(item.text("id"), kind, value(item, "action")) | {"access": HOSTED_ITEMS[kind]} | _outcome(item)
    elif kind == "mcp_call":
        yield _mcp_call(item)
    elif kind == "mcp_list_tools" and value(item, "error"):
        yield call(item.text("id"), kind) | {"access": "read"} | _mcp_outcome(item)


def _mcp_call(item: Node) -> Record:
    operation = item.text("approval_request_id") or item.text("id")
    made = call(item.text("id"), item.text("name"), value(item, "arguments"), operation_id=operation)
    return made | _mcp_outcome(item) | response(item.text("output"))


def _mcp_outcome(item: Node) -> Record:
    error = item.at("error")
    if not error.value:
        # Older recordings have no status; an output without an error is then the completed call.
        finished = {"outcome": "ok"} if value(item, "status") is None and value(item, "output") is not None else {}
        return _outcome(item) | finished
    code = value(error, "code")
    status = code if isinstance(code, int) and not isinstance(code, bool) else None
    kind = value(error, "type")
    return {"outcome": "error", "error_class": kind if isinstance(kind, str) else None, "status_code": status}


def _outcome(item: Node) -> Record:
    return {"outcome": ITEM_OUTCOMES.get(item.text("status") or "", "unknown")}


def _approval(item: Node) -> Record:
    action = {"tool": item.text("name"), "arguments": item.text("arguments")}
    return {
        "policy_id": joined(["mcp_approval:", item.text("server_label")]),
        "source": "application",
        "effect": "require_approval",
        "operation_id": item.need_text("id"),
        "attempted_action": action,
        "approval": {"state": "requested", "operation_id": item.need_text("id")},
    }


def results(request: Node) -> Iterator[Result]:
    """Yield the outputs and the approval answers that a request carries."""
    given = request.at("input")
    for item in given.items() if isinstance(given.value, list) else ():
        kind = str(value(item, "type"))
        if kind == "mcp_approval_response":
            yield Result(item.need_text("approval_request_id"), approved=item.flag("approve"))
        elif kind.endswith("_output") and isinstance(value(item, "call_id"), str):
            output = item.at("output").value
            text = output if output is None or isinstance(output, str) else json_text(output)
            yield Result(item.value["call_id"], fields={"outcome": "unknown", **response(text)})


# --- streams ------------------------------------------------------------------------------------------------------


def _read_stream(status: int | None, headers: Headers, stream: Node) -> Turn:
    events = stream.items()
    endings = [event for event in events if word(event, "type") in ENDINGS]
    if not endings:
        error = next((event for event in events if value(event, "type") == "error"), None)
        return failed("openai", status, headers, error) if error else _unfinished(stream)
    final = endings[-1].child("response")
    if len(endings) > 1 or f"response.{final.text('status')}" != endings[-1].text("type"):
        return _unfinished(stream, "unknown")
    return read_response(status, headers, final)


def _unfinished(stream: Node, stop_class: str = "absent") -> Turn:
    """Read what a stream had delivered; its items count, its status does not."""
    whole: Record = {"output": []}
    for event in stream.items():
        whole |= {key: item for key, item in event.child("response").fields().items() if key in ("id", "model")}
        if value(event, "type") == "response.output_item.done":
            whole["output"].append(event.child("item").fields())
    items = Node(whole, stream.path).children("output")
    calls = [made for item in items for made in _call(item)]
    prose = joined([part.text("text") for item in items for part in _parts(item)])
    node = Node(whole, stream.path)
    return Turn("openai", stop_class, None, node.text("id"), node.text("model"), prose=prose, calls=calls)


DIALECT = Dialect("openai_responses", speaks, read_response, "input", results)
