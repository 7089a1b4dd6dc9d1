"""OpenAI Chat Completions and the many that speak it (Azure, OpenRouter, Mistral, Groq, DeepSeek, ...).

Source of the vocabulary: the published SDK types, and Azure's content-filter annotations. ``message.refusal`` is the
model's own refusal; ``content_filter`` a filter's denial; an annotation ``content_filter_error`` means that the filter
was down and the content went through unfiltered. A ``tool`` message has no status, so its outcome stays unknown.
"""

from collections.abc import Iterator
from typing import Any

from sources.base import Node, response
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
    filtered_category,
    first_event,
    is_error,
    joined,
    keys,
    value,
    word,
    worst,
)

STOPS = {
    "stop": "end",
    "length": "truncated",
    "model_length": "truncated",
    "tool_calls": "tool_call",
    "function_call": "tool_call",
    "content_filter": "filtered",
    "error": "error",
}
NAME = "openai_chat"
"""Provider of a response that nothing else tells the vendor of: many speak this dialect."""
OBJECTS = frozenset({"chat.completion", "chat.completion.chunk", "text_completion"})


def speaks(url: str, body: Node) -> bool:
    """Tell whether this is a completion, its chunks, or an error from one of this API's paths."""
    event = first_event(body)
    if word(event, "object") in OBJECTS or isinstance(value(event, "choices"), list):
        return True
    error = value(event, "error")
    return "type" not in keys(event) and (isinstance(error, dict) or (bool(url) and error is not None))


def read_response(status: int | None, headers: Headers, body: Node) -> Turn:
    """Read one response; of several choices the most cautious stop class counts."""
    if isinstance(body.value, list):
        body = Node(_folded(body), body.path)
    if is_error(status, body):
        known = {"response_id": value(body, "id"), "model": value(body, "model")}
        blocked_by = "azure" if value(Node(value(body, "error")), "innererror") else NAME
        return failed(blocked_by, status, headers, body, **{k: v for k, v in known.items() if isinstance(v, str)})
    choices, usage = body.children("choices"), body.child("usage")
    classes = [_stop_class(choice) for choice in choices]
    chosen = choices[classes.index(worst(classes))] if choices else Node({}, body.path)
    signal = chosen.text("finish_reason")
    return Turn(
        NAME,
        worst(classes),
        signal,
        body.text("id"),
        body.text("model"),
        refusal_category=filtered_category(chosen.at("content_filter_results")),
        input_tokens=usage.whole("prompt_tokens"),
        output_tokens=usage.whole("completion_tokens"),
        prose=_prose(chosen),
        calls=[made for choice in choices for made in _calls(choice.child("message"))],
        decisions=list(_decisions(body, choices)),
        exhausted=("context",) if signal == "model_length" else (),
        error={"outcome": "error", "error_class": signal} if worst(classes) == "error" else None,
        created=created(body, "created"),
    )


def _stop_class(choice: Node) -> str:
    signal = choice.text("finish_reason")
    found = "absent" if signal is None else STOPS.get(signal, "unknown")
    message = choice.child("message")
    if found in ("end", "truncated") and message.text("refusal"):
        return "refused"
    # A forced tool choice stops with "stop" although a call is open.
    return "tool_call" if found == "end" and any(_calls(message)) else found


def _prose(choice: Node) -> str | None:
    content = choice.child("message").at("content")
    if isinstance(content.value, list):
        return joined([part.text("text") for part in content.items() if isinstance(part.value, dict)])
    return content.as_text() or choice.text("text")


def _calls(message: Node) -> Iterator[Record]:
    for item in message.children("tool_calls"):
        function = item.child("function")
        yield call(item.text("id"), function.text("name"), value(function, "arguments"))
    old = message.child("function_call")
    if old.text("name"):
        yield call(None, old.text("name"), value(old, "arguments"))


# --- filters ------------------------------------------------------------------------------------------------------


def _decisions(body: Node, choices: list[Node]) -> Iterator[Record]:
    for prompt in body.children("prompt_filter_results"):
        yield from _annotation("azure.content_filter.prompt", prompt.child("content_filter_results"))
    for choice in choices:
        results = choice.child("content_filter_results")
        yield from _annotation("azure.content_filter.completion", results)
        # The annotation may be missing, or not admit what the finish reason says.
        if choice.text("finish_reason") == "content_filter" and filtered_category(results) is None:
            yield denial(NAME)


def _annotation(policy: str, results: Node) -> Iterator[Record]:
    if not results.fields():
        return
    down = results.child("error").text("code")
    effect = "deny" if filtered_category(results) else "unavailable" if down else "allow"
    reason = {"deny": "content_filter", "unavailable": down}.get(effect)
    yield {"policy_id": policy, "source": "provider_filter", "effect": effect, "reason_code": reason}


# --- streams ------------------------------------------------------------------------------------------------------


def _folded(stream: Node) -> Record:
    """Fold the chunks of a stream into the completion that they build; an error in any chunk stays."""
    whole: Record = {}
    choices: dict[int, Record] = {}
    for chunk in stream.items():
        for key, item in chunk.fields().items():
            if item is not None and key != "choices":
                whole[key] = item
        for choice in chunk.children("choices"):
            _apply(choices.setdefault(choice.whole("index") or 0, {"message": {}}), choice)
    return whole | {"choices": [choices[index] for index in sorted(choices)]}


def _apply(choice: Record, chunk: Node) -> None:
    for key in ("finish_reason", "content_filter_results"):
        if value(chunk, key) is not None:
            choice[key] = chunk.value[key]
    choice["text"] = joined([choice.get("text"), chunk.text("text")])
    delta, message = chunk.child("delta"), choice["message"]
    for key in ("content", "refusal"):
        part = delta.at(key).value
        if isinstance(part, str):
            message[key] = str(message.get(key) or "") + part
    for item in delta.children("tool_calls"):
        _apply_call(message, item)


def _apply_call(message: Record, item: Node) -> None:
    made: list[Record] = message.setdefault("tool_calls", [])
    index = item.whole("index")
    known: Any = next((old for old in made if old["index"] == index), None)
    if known is None:
        known = {"index": index, "function": {}}
        made.append(known)
    function = item.child("function")
    known["id"] = item.text("id") or known.get("id")
    known["function"] = {
        "name": function.text("name") or known["function"].get("name"),
        "arguments": joined([known["function"].get("arguments"), _argument_part(function)]),
    }


def _argument_part(function: Node) -> str | None:
    given = value(function, "arguments")
    return (
        function.text("arguments") if given is None or isinstance(given, str) else call(None, None, given)["arguments"]
    )


def results(request: Node) -> Iterator[Result]:
    """Yield the tool messages of a request; they carry no status."""
    for message in request.children("messages"):
        if value(message, "role") == "tool" and isinstance(value(message, "tool_call_id"), str):
            content = message.at("content").value
            text = content if content is None or isinstance(content, str) else call(None, None, content)["arguments"]
            fields = {"outcome": "unknown", **response(text)}
            yield Result(message.value["tool_call_id"], message.text("name"), fields)


DIALECT = Dialect(NAME, speaks, read_response, "messages", results)
