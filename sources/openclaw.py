"""OpenClaw telemetry (JSON Lines): from the start of an agent's turn in a session to its ``agent.end`` is one run.

Source: ``examples/sources/openclaw_telemetry_hal`` of meridianlabs-ai/inspect_scout @ 63b481d6. ``agent.end`` repeats
the messages of the whole session; those since the start of the turn belong to the run. A session without an end is a
run whose stop is absent.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from schemas.errors import ErrorCode, MessageError
from sources.base import (
    Adapter,
    Document,
    Node,
    Reading,
    action_key,
    content_text,
    cost_micros,
    digest,
    guarded,
    imported,
    json_text,
    legacy_exit,
    parse_lines,
    response,
    terminal_event,
    unix_time,
)

_STOPS = {"stop": "end", "length": "truncated", "toolUse": "tool_call", "error": "error", "aborted": "cancelled"}
_DONE = frozenset({None, "completed", "accepted"})
_READS = frozenset({"read", "memory_search", "memory_get"})
_MARKS = (b'"agent.start"', b'"agent.end"', b'"tool.start"', b'"tool.end"')


@dataclass(frozen=True)
class _Run:
    """The lines of one run, its session, its number there, and the sessions that had ended before it did."""

    session: str
    segment: int
    lines: tuple[Node, ...]
    ended: frozenset[str]

    @property
    def end(self) -> Node | None:
        """The line that ended it."""
        return self.lines[-1] if self.lines[-1].text("type") == "agent.end" else None

    @property
    def messages(self) -> list[Node]:
        """The messages of this turn: those since it started, as far as both times are known."""
        if self.end is None:
            return []
        started = (self.end.number("ts") or 0) - (self.end.number("durationMs") or float("inf"))
        messages = self.end.children("messages")
        return [message for message in messages if (message.number("timestamp") or float("inf")) >= started]

    def said(self, role: str) -> list[Node]:
        """Return the messages of one role."""
        return [message for message in self.messages if message.text("role") == role]


def _recognises(_name: str, head: bytes) -> bool:
    return head.lstrip().startswith(b"{") and b'"sessionKey"' in head and any(mark in head for mark in _MARKS)


@guarded
def _read(document: Document) -> Reading:
    found = False
    for run in _runs(parse_lines(document.data)):
        found = True
        if isinstance(run, MessageError):
            yield run
            continue
        try:
            yield from _run(document, run)
        except MessageError as error:
            yield error
    if not found:
        Node(None).fail("no OpenClaw telemetry: there is no event of an agent", ErrorCode.MISSING_FIELD)


def _runs(lines: Iterator[Node | MessageError]) -> Iterator[_Run | MessageError]:
    """Gather the lines of every session up to its next end; sessions interleave."""
    unfinished: dict[str, list[Node]] = {}
    segments: dict[str, int] = {}
    for line in lines:
        session = line if isinstance(line, MessageError) else _session(line)
        if isinstance(session, MessageError):
            yield session
        elif session is not None and isinstance(line, Node):
            unfinished.setdefault(session, []).append(line)
            if line.text("type") == "agent.end":
                yield _Run(session, segments.get(session, 0), tuple(unfinished.pop(session)), frozenset(segments))
                segments[session] = segments.get(session, 0) + 1
    for session, rest in unfinished.items():
        yield _Run(session, segments.get(session, 0), tuple(rest), frozenset(segments))


def _session(line: Node) -> str | MessageError | None:
    """Return the session of a line about an agent or its tools; None for any other line."""
    try:
        about_agent = (line.text("type") or "").startswith(("agent.", "tool."))
        return line.need_text("sessionKey") if about_agent else None
    except MessageError as error:
        return error


def _run(document: Document, run: _Run) -> Reading:
    event = imported(_event(document, run))
    yield event
    success = run.end.flag("success") if run.end else None
    if success is not None:
        yield imported(legacy_exit(event.record, dispatcher="openclaw", label=f"success={json_text(success)}"))


def _event(document: Document, run: _Run) -> dict[str, Any]:
    calls = list(_message_calls(run) if run.messages else _line_calls(run))
    return terminal_event(
        document,
        source=ADAPTER.name,
        identity=[digest(json_text([line.value for line in run.lines]))],
        run_id=run.session,
        segment=run.segment,
        agent_id=run.lines[0].text("agentId") or "OpenClaw",
        occurred_at=_milliseconds(run.lines[-1], "ts"),
        request={"prose": _question(run)},
        model=_model(run),
        tool_calls=calls,
        children=list(_children(run)),
        budget=_budget(run, len(calls)),
        steps=[
            {"action_key": action_key(call["tool"] or "", call["arguments"])} for call in calls if call["arguments"]
        ],
        extensions={"import.record": run.lines[-1].path},
    )


def _milliseconds(node: Node, key: str) -> str | None:
    moment = node.number(key)
    return None if moment is None else unix_time(moment / 1000, node.path)


def _question(run: _Run) -> str | None:
    prompts = (line.text("prompt") for line in run.lines if line.text("type") == "agent.start")
    asked = (content_text(message.at("content")) for message in run.said("user"))
    return next((text for text in chain(prompts, asked) if text), None)


# --- tool calls and children -------------------------------------------------------------------------------------


def _message_calls(run: _Run) -> Iterator[dict[str, Any]]:
    results = {result.text("toolCallId"): result for result in run.said("toolResult")}
    parts = [part for message in run.said("assistant") for part in message.children("content")]
    for part in parts:
        if part.fields().get("type") == "toolCall":
            result = results.get(part.text("id"))
            call = _call(part.text("id") or part.path, part.text("name"), part.at("arguments"))
            yield call | (_result(result) if result else {"outcome": "unknown"})


def _result(result: Node) -> dict[str, Any]:
    answer = response(content_text(result.at("content")))
    details = result.at("details").value
    found = Node(details if isinstance(details, dict) else {}, f"{result.path}.details")
    code, failed = found.whole("exitCode"), result.flag("isError")
    if failed or code:
        return {"outcome": "error", "error_class": f"exit_code_{code}" if code else "isError"} | answer
    done = failed is False and found.text("status") in _DONE
    return {"outcome": "ok" if done else "unknown"} | answer


def _line_calls(run: _Run) -> Iterator[dict[str, Any]]:
    """Yield the calls of a run without messages. There is no id: an end belongs to the oldest open call of its tool."""
    ends = [line for line in run.lines if line.text("type") == "tool.end"]
    for start in (line for line in run.lines if line.text("type") == "tool.start"):
        tool = start.text("toolName")
        end = next((line for line in ends if line.text("toolName") == tool), None)
        if end is not None:
            ends.remove(end)
        yield _call(start.path, tool, start.at("params")) | (_ended(end) if end else {"outcome": "unknown"})


def _ended(end: Node) -> dict[str, Any]:
    success = end.flag("success")
    outcome = "unknown" if success is None else "ok" if success else "error"
    return {"outcome": outcome, "duration_ms": end.whole("durationMs")}


def _call(call_id: str, tool: str | None, arguments: Node) -> dict[str, Any]:
    return {
        "call_id": call_id,
        "operation_id": call_id,
        "tool": tool,
        "access": "read" if tool in _READS else "unknown",
        "arguments": None if arguments.value is None else json_text(arguments.value),
    }


def _children(run: _Run) -> Iterator[dict[str, Any]]:
    """Yield the sessions that the run spawned; one that has no end so far may still run."""
    for result in run.said("toolResult"):
        details = result.at("details").value
        child = details.get("childSessionKey") if isinstance(details, dict) else None
        if isinstance(child, str):
            yield {"run_id": child, "state": "stopped" if child in run.ended else "unknown"}


# --- how it ended ------------------------------------------------------------------------------------------------


def _model(run: _Run) -> dict[str, Any] | None:
    if run.end is None:
        return {"stop_class": "absent"}
    replies = run.said("assistant")
    if not replies:
        return {"stop_class": "error"} if run.end.flag("success") is False else None
    last = replies[-1]
    signal, usage = last.text("stopReason"), last.child("usage")
    return {
        "provider": last.text("provider"),
        "model": last.text("model"),
        "stop_signal": signal,
        "stop_class": "absent" if signal is None else _STOPS.get(signal, "unknown"),
        "input_tokens": usage.whole("input"),
        "output_tokens": usage.whole("output"),
        "prose": content_text(last.at("content")),
    }


def _budget(run: _Run, calls: int) -> dict[str, Any]:
    replies = run.said("assistant")
    usages = [reply.child("usage") for reply in replies]
    tokens = [count for usage in usages if (count := usage.whole("totalTokens")) is not None]
    costs = [cost for usage in usages if (cost := usage.child("cost").number("total")) is not None]
    return {
        "turns": {"used": len(replies) or None},
        "tool_calls": {"used": calls},
        "tokens": {"used": sum(tokens) if tokens else None},
        "cost_micros": {"used": cost_micros(sum(costs)) if costs else None},
    }


ADAPTER = Adapter(
    name="openclaw",
    title="OpenClaw telemetry (.jsonl)",
    cannot_tell=(
        "whether the agent claims completion, or what would complete it: an end with success says that nothing threw",
        "which call an event of a tool belongs to: there are no ids, only the order, unless the messages are there",
        "whether a session without an end still runs or was cut off: its stop is absent",
        "whether a spawned session still ran at the end, unless its own end stands before it in the file",
        "what a tool may change, but for reading files and memory: every other tool counts as a write",
    ),
    recognises=_recognises,
    read=_read,
)
