"""Cohere chat, version 2, and the older shapes that Bedrock still serves.

Source of the vocabulary: the published SDK types. A tool message has no status, so its outcome stays unknown.
"""

from collections.abc import Iterator

from sources import openai_chat
from sources.base import Node
from sources.turns import Dialect, Headers, Record, Turn, call, denial, failed, is_error, joined, keys, value

STOPS = {
    "COMPLETE": "end",
    "STOP_SEQUENCE": "end",
    "TOOL_CALL": "tool_call",
    "MAX_TOKENS": "truncated",
    "ERROR": "error",
    "TIMEOUT": "error",
    "ERROR_TOXIC": "filtered",
    "ERROR_LIMIT": "truncated",
    "USER_CANCEL": "cancelled",
}


def speaks(_url: str, body: Node) -> bool:
    """Tell whether this is a Cohere response."""
    chat = {"finish_reason", "message"} <= keys(body) or {"finish_reason", "text"} <= keys(body)
    return chat or isinstance(value(body, "generations"), list)


def read_response(status: int | None, headers: Headers, body: Node) -> Turn:
    """Read one response; an older one with several generations is judged by its first."""
    if is_error(status, body):
        return failed("cohere", status, headers, body)
    told = next(iter(body.children("generations")), body)
    signal, message, tokens = told.text("finish_reason"), body.child("message"), body.child("usage").child("tokens")
    stop_class = "absent" if signal is None else STOPS.get(signal, "unknown")
    return Turn(
        "cohere",
        stop_class,
        signal,
        body.text("id") or body.text("response_id"),
        input_tokens=tokens.whole("input_tokens"),
        output_tokens=tokens.whole("output_tokens"),
        prose=told.text("text") or joined([part.text("text") for part in message.children("content")]),
        calls=list(_calls(message)),
        decisions=[denial("cohere")] if stop_class == "filtered" else (),
        exhausted=("context",) if signal == "ERROR_LIMIT" else (),
        error=_error(signal) if stop_class == "error" else None,
    )


def _error(signal: str | None) -> Record:
    return {"outcome": "timeout" if signal == "TIMEOUT" else "error", "error_class": signal}


def _calls(message: Node) -> Iterator[Record]:
    for item in message.children("tool_calls"):
        function = item.child("function")
        yield call(item.text("id"), function.text("name"), value(function, "arguments"))


DIALECT = Dialect("cohere", speaks, read_response, "messages", openai_chat.results)
