"""What the provider dialects share: one recorded exchange, and what one response says in the contract's words.

A dialect (Anthropic, OpenAI chat, ...) is one module: it recognises its own responses by their shape and reads them
to a :class:`Turn`. Errors look alike everywhere and are read here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urlsplit

from sources.base import Node, json_text, response, unix_time

PROVIDER_CALL = "provider.call"
"""Operation and tool of the call to the provider itself, listed only where one failed."""

Headers = Mapping[str, str]
Record = dict[str, Any]


@dataclass(frozen=True)
class Exchange:
    """One request and its response as recorded.

    ``body`` holds an object, a list (the events of a stream, in order) or None (no JSON, kept in ``text``); header
    names are lower case; ``status`` and ``recorded_at`` (ISO 8601) are None where the recording has none.
    """

    place: str
    url: str
    request: Node
    status: int | None
    headers: Headers
    body: Node
    text: str | None = None
    recorded_at: str | None = None


@dataclass(frozen=True)
class Turn:
    """What one response says. ``calls`` are tool calls of the contract; one without ``outcome`` is left to the host.

    ``error`` holds the outcome fields of a failed provider call. ``created`` is when the provider says it began.
    """

    provider: str
    stop_class: str
    stop_signal: str | None = None
    response_id: str | None = None
    model: str | None = None
    refusal_category: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    prose: str | None = None
    calls: Sequence[Record] = ()
    decisions: Sequence[Record] = ()
    fallbacks: Sequence[Record] = ()
    exhausted: Sequence[str] = ()
    error: Record | None = None
    created: str | None = None


@dataclass(frozen=True)
class Result:
    """What a request tells the model about an earlier tool call or approval request."""

    call_id: str
    tool: str | None = None
    fields: Record = field(default_factory=dict)
    approved: bool | None = None


@dataclass(frozen=True)
class Dialect:
    """One provider's API: whether a response is its own, how to read it, and where a request keeps its history.

    ``read_response(status, headers, body)`` is pure and raises MessageError for a wrong type at its place.
    """

    name: str
    speaks: Callable[[str, Node], bool]
    read_response: Callable[[int | None, Headers, Node], Turn]
    history: str
    results: Callable[[Node], Iterator[Result]]


# --- small readers ------------------------------------------------------------------------------------------------


def keys(node: Node) -> frozenset[str]:
    """Return the keys of an object; none for anything else."""
    return frozenset(node.value) if isinstance(node.value, dict) else frozenset()


def value(node: Node, key: str) -> Any:
    """Return what lies under ``key``; None if this is no object."""
    return node.value.get(key) if isinstance(node.value, dict) else None


def word(node: Node, key: str) -> str:
    """Return the string under ``key``; empty if there is none, so that it can be looked up."""
    found = value(node, key)
    return found if isinstance(found, str) else ""


def elements(given: Any) -> list[Any]:
    """Return a list as it is; an empty one for anything else."""
    return given if isinstance(given, list) else []


def split_url(url: str) -> SplitResult:
    """Split a URL; one that cannot be split has no parts."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def first_event(body: Node) -> Node:
    """Return the first event of a stream, the body itself if it is no stream."""
    if not isinstance(body.value, list):
        return body
    return next(iter(body.items()), Node(None, body.path))


def joined(parts: Sequence[str | None]) -> str | None:
    """Join prose; None where there is none at all."""
    return "".join(part for part in parts if part) or None


def arguments(given: Any) -> str | None:
    """Return a call's arguments as JSON text; a string is taken as it is."""
    return given if given is None or isinstance(given, str) else json_text(given)


def call(call_id: str | None, tool: str | None, given: Any = None, **fields: Any) -> Record:
    """Build a tool call; without ``outcome`` it is left to the host."""
    base = {"call_id": call_id, "operation_id": call_id, "tool": tool, "access": "unknown"}
    return base | {"arguments": arguments(given)} | fields


def created(node: Node, key: str) -> str | None:
    """Convert epoch seconds under ``key``; zero, a scrubbed value, reads as absent."""
    seconds = node.number(key)
    return unix_time(seconds, f"{node.path}.{key}") if seconds else None


def denial(provider: str, category: str | None = None, source: str = "provider_filter") -> Record:
    """Build the decision that denies the whole request. ``category`` must come from a provider's published list."""
    return {
        "policy_id": f"{provider}.content_filter",
        "source": source,
        "effect": "deny",
        "reason_code": category or "content_filter",
    }


# --- failed calls -------------------------------------------------------------------------------------------------

_TIMEOUTS = {
    "408", "504", "timeout_error", "DEADLINE_EXCEEDED", "ModelTimeoutException", "vector_store_timeout",
}  # fmt: skip
_UNAVAILABLE = {
    "429", "503", "529", "rate_limit_error", "overloaded_error", "rate_limit_exceeded", "insufficient_quota",
    "RESOURCE_EXHAUSTED", "UNAVAILABLE", "ThrottlingException", "ServiceUnavailableException",
    "ModelNotReadyException", "ServiceQuotaExceededException",
}  # fmt: skip
_MALFORMED = {"tool_use_failed"}
_FILTERED = {
    "content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation", "bio_policy",
    "image_content_policy_violation",
}  # fmt: skip
# Providers that tell an authentication failure by a code of their own under another HTTP status, or without any.
_AUTHORITY = {
    "API_KEY_INVALID": "UNAUTHENTICATED",
    "authentication_error": "UNAUTHENTICATED",
    "invalid_api_key": "UNAUTHENTICATED",
    "permission_error": "PERMISSION_DENIED",
    "AccessDeniedException": "PERMISSION_DENIED",
}
_CONTEXT = {"context_length_exceeded"}


def is_error(status: int | None, body: Node) -> bool:
    """Tell whether the call failed: an HTTP error, or an error body under any status."""
    return (status is not None and status >= 400) or bool(value(body, "error")) or value(body, "type") == "error"


def failed(provider: str, status: int | None, headers: Headers, body: Node, **known: Any) -> Turn:
    """Read a failed call. A content filter's error is a denial, not a failure."""
    names = _error_names(headers, body)
    blocked = next((name for name in names if name in _FILTERED), None)
    signal = names[0] if names else None
    if blocked:
        category = _filtered_category(body)
        decision = denial(provider) if blocked != "bio_policy" else denial(provider, blocked)
        return Turn(provider, "filtered", signal, refusal_category=category, decisions=(decision,), **known)
    return Turn(
        provider,
        "error",
        signal,
        exhausted=("context",) if _CONTEXT & set(names) else (),
        error=_error_fields(status, names, body),
        **known,
    )


def _error_fields(status: int | None, names: Sequence[str], body: Node) -> Record:
    code = status if status and status >= 400 else next((int(name) for name in names if _is_status(name)), None)
    marks = {str(code), *names}
    known = next((_AUTHORITY[name] for name in names if name in _AUTHORITY), None)
    outcome = "timeout" if marks & _TIMEOUTS else "unavailable" if marks & _UNAVAILABLE else "error"
    return {
        "outcome": "malformed" if marks & _MALFORMED else outcome,
        "error_class": known or (names[0] if names else None),
        "status_code": code,
        **response(None if body.value is None else json_text(body.value)),
    }


def _error_names(headers: Headers, body: Node) -> list[str]:
    """Return the machine-readable names of the error, the most specific first."""
    error = value(body, "error")
    inner = Node(error if isinstance(error, dict) else body.value, body.path)
    reasons = [value(Node(detail), "reason") for detail in elements(value(inner, "details"))]
    nested = value(Node(value(inner, "innererror")), "code")
    candidates = [*reasons, *(value(inner, key) for key in ("code", "status", "type", "__type")), nested]
    named = [*candidates, headers.get("x-amzn-errortype", "").split(":")[0]]
    texts = [str(name) for name in named if isinstance(name, str | int) and not isinstance(name, bool)]
    # A number says less than any word beside it; "error" is the envelope's own type.
    return sorted((name for name in texts if name not in ("", "error")), key=_is_status)


def _is_status(name: str) -> bool:
    return len(name) == 3 and name.isascii() and name.isdigit()


def _filtered_category(body: Node) -> str | None:
    inner = Node(value(Node(value(Node(value(body, "error")), "innererror")), "content_filter_result"))
    return filtered_category(inner)


def filtered_category(results: Node) -> str | None:
    """Return the first category, by name, that an Azure annotation marks as filtered."""
    hits = (name for name in sorted(keys(results)) if value(Node(value(results, name)), "filtered") is True)
    return next(hits, None)


def worst(classes: Sequence[str]) -> str:
    """Return the most cautious of several stop classes; no choice at all is ``absent``."""
    order = ("filtered", "refused", "error", "unknown", "absent", "paused", "truncated", "tool_call", "end")
    return min(classes, key=order.index, default="absent")
