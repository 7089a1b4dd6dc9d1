"""Google Gemini: generateContent, its streams, and the Interactions API.

Source of the vocabulary: the published SDK types. A prompt block has no candidates at all; ``STOP`` beside a function
call is an open call; a bad call that the response does not even hold
was never dispatched. A function response says how the call went
only by its documented keys ``error`` and ``output``.
"""

from collections.abc import Iterator
from typing import Any

from sources.base import Node, iso_time, json_text, response
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
    worst,
)

FILTERS = frozenset({
    "SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "RECITATION", "MODEL_ARMOR", "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "JAILBREAK",
})  # fmt: skip
BAD_CALLS = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"})
STOPS = {
    "STOP": "end",
    "MAX_TOKENS": "truncated",
    "TOO_MANY_TOOL_CALLS": "truncated",
    "LANGUAGE": "error",
    **dict.fromkeys(FILTERS, "filtered"),
    **dict.fromkeys(BAD_CALLS, "error"),
}
INTERACTIONS = {
    "completed": "end",
    "requires_action": "tool_call",
    "incomplete": "truncated",
    "in_progress": "paused",
    "failed": "error",
    "cancelled": "cancelled",
}
SHAPE = frozenset({"candidates", "promptFeedback", "usageMetadata"})


def speaks(_url: str, body: Node) -> bool:
    """Tell whether this is a generateContent response, an interaction, one of their streams, or a Google error."""
    event = first_event(body)
    error = Node(value(event, "error"))
    google = isinstance(value(error, "status"), str) and isinstance(value(error, "code"), int)
    return google or bool(SHAPE & keys(event)) or _is_interaction(event)


def _is_interaction(event: Node) -> bool:
    return {"id", "status", "steps", "created"} <= keys(event) or str(value(event, "event_type")).startswith(
        "interaction."
    )


def read_response(status: int | None, headers: Headers, body: Node) -> Turn:
    """Read one response. A blocked prompt and a filtered answer are denials of the whole request."""
    interaction = _is_interaction(first_event(body))
    if isinstance(body.value, list):
        body = Node(_folded_interaction(body) if interaction else _folded(body), body.path)
    if is_error(status, body):
        return failed("google", status, headers, body)
    return _interaction(body) if interaction else _content(body)


def _content(body: Node) -> Turn:
    candidates, usage = body.children("candidates"), body.child("usageMetadata")
    blocked = body.child("promptFeedback").text("blockReason")
    classes = ["filtered"] if blocked else [_stop_class(candidate) for candidate in candidates]
    stop_class = worst(classes)
    chosen = Node({}, body.path) if blocked or not candidates else candidates[classes.index(stop_class)]
    signal = blocked or chosen.text("finishReason")
    return Turn(
        "google",
        stop_class,
        signal,
        body.text("responseId"),
        body.text("modelVersion"),
        refusal_category=_category(chosen),
        input_tokens=usage.whole("promptTokenCount"),
        output_tokens=_output_tokens(usage),
        prose=joined([part.text("text") for part in _parts(chosen) if value(part, "thought") is not True]),
        calls=[made for candidate in candidates for made in _calls(candidate)],
        decisions=[denial("google", _reason(signal))] if stop_class == "filtered" else (),
        exhausted=("tool_calls",) if signal == "TOO_MANY_TOOL_CALLS" else (),
        error={"outcome": "malformed" if signal in BAD_CALLS else "error", "error_class": signal}
        if stop_class == "error"
        else None,
        created=_created(body, "createTime"),
    )


def _stop_class(candidate: Node) -> str:
    signal = candidate.text("finishReason")
    found = "absent" if signal is None else STOPS.get(signal, "unknown")
    return "tool_call" if found == "end" and any(_calls(candidate)) else found


def _reason(signal: str | None) -> str | None:
    return signal.lower() if signal in FILTERS else None


def _category(candidate: Node) -> str | None:
    ratings = candidate.children("safetyRatings")
    return next((rating.text("category") for rating in ratings if value(rating, "blocked") is True), None)


def _output_tokens(usage: Node) -> int | None:
    counts = [usage.whole("candidatesTokenCount"), usage.whole("thoughtsTokenCount")]
    return sum(count for count in counts if count) if any(count is not None for count in counts) else None


def _parts(candidate: Node) -> list[Node]:
    return candidate.child("content").children("parts")


def _calls(candidate: Node) -> Iterator[Record]:
    made = [part.child("functionCall") for part in _parts(candidate) if "functionCall" in keys(part)]
    for item in made:
        yield call(item.text("id"), item.text("name"), value(item, "args"))
    if candidate.text("finishReason") in BAD_CALLS and not made:
        # The provider withheld the call, so that nothing can have been sent.
        yield call(None, None, outcome="malformed", effect_possible=False)


def _created(body: Node, key: str) -> str | None:
    text = body.text(key)
    return iso_time(text, f"{body.path}.{key}") if text else None


def results(request: Node) -> Iterator[Result]:
    """Yield the function responses of a request; both spellings of the JSON keys occur."""
    for content in request.children("contents"):
        parts = content.children("parts") if isinstance(content.value, dict) else []
        for part in parts:
            found = part.at("functionResponse") if "functionResponse" in keys(part) else part.at("function_response")
            if found.value is not None:
                yield _result(found)


def _result(item: Node) -> Result:
    answer = item.at("response").value
    told = answer if isinstance(answer, dict) else {}
    outcome = "error" if told.get("error") is not None else "ok" if "output" in told else "unknown"
    text = None if answer is None else json_text(answer)
    return Result(item.text("id") or "", item.text("name"), {"outcome": outcome, **response(text)})


# --- interactions -------------------------------------------------------------------------------------------------


def _interaction(body: Node) -> Turn:
    signal, usage, steps = body.text("status"), body.child("usage"), body.children("steps")
    stop_class = "absent" if signal is None else INTERACTIONS.get(signal, "unknown")
    calls = [
        call(step.text("id"), step.text("name"), value(step, "arguments"))
        for step in steps
        if value(step, "type") == "function_call"
    ]
    return Turn(
        "google",
        stop_class,
        signal,
        body.text("id"),
        body.text("model"),
        input_tokens=usage.whole("total_input_tokens"),
        output_tokens=usage.whole("total_output_tokens"),
        prose=joined([part.text("text") for step in steps for part in step.children("content")]),
        calls=calls,
        error={"outcome": "error", "error_class": signal} if stop_class == "error" else None,
        created=_created(body, "updated"),
    )


# --- streams ------------------------------------------------------------------------------------------------------


def _folded(stream: Node) -> Record:
    """Fold chunks: parts add up, the last value of everything else stays."""
    whole: Record = {}
    candidates: dict[int, Record] = {}
    for chunk in stream.items():
        whole |= {key: item for key, item in chunk.fields().items() if key != "candidates"}
        for candidate in chunk.children("candidates"):
            known = candidates.setdefault(candidate.whole("index") or 0, {"content": {"parts": []}})
            known["content"]["parts"] += candidate.child("content").at("parts").value or []
            known |= {key: item for key, item in candidate.fields().items() if key != "content"}
    return whole | {"candidates": [candidates[index] for index in sorted(candidates)]}


def _folded_interaction(stream: Node) -> Record:
    whole: Record = {"steps": []}
    steps: dict[int, dict[str, Any]] = {}
    for event in stream.items():
        interaction = event.child("interaction").fields()
        whole |= interaction
        if event.text("event_type") == "step.start":
            steps[event.whole("index") or 0] = dict(event.child("step").fields())
        elif event.text("event_type") == "step.delta":
            _apply(steps.setdefault(event.whole("index") or 0, {}), event.child("delta"))
    return whole | {"steps": [steps[index] for index in sorted(steps)]}


def _apply(step: dict[str, Any], delta: Node) -> None:
    if isinstance(value(delta, "arguments"), str):
        before = step.get("arguments")
        step["arguments"] = (before if isinstance(before, str) else "") + delta.value["arguments"]


DIALECT = Dialect("gemini", speaks, read_response, "contents", results)
