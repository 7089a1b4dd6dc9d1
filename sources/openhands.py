"""OpenHands runs: the evaluation harness's ``output.jsonl`` (one run per line) and trajectory files (one run each).

Source: ``openhands/events`` and ``evaluation/utils/shared.py`` of All-Hands-AI/OpenHands @ 156d0686. A history is a
list of events: actions of the agent, and observations that name the action they answer as their ``cause``.
"""

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from schemas.errors import ErrorCode
from sources.base import (
    Adapter,
    Document,
    Node,
    Reading,
    action_key,
    content_text,
    cost_micros,
    digest,
    each,
    guarded,
    imported,
    iso_time,
    json_text,
    legacy_exit,
    parse,
    parse_lines,
    response,
    terminal_event,
)

_STOPS = {"stop": "end", "length": "truncated", "tool_calls": "tool_call", "content_filter": "filtered"}
# Actions that talk to the user or steer the controller; nothing is executed for them.
_NO_CALLS = frozenset({"system", "message", "recall", "change_agent_state", "condensation", "condensation_request"})
_READS = frozenset({"read", "think", "finish", "reject"})
_WRITES = frozenset({"write", "edit"})
# Arguments that are words of the model, not part of the action.
_WORDS = frozenset({"thought", "final_thought"})


def _recognises(_name: str, head: bytes) -> bool:
    start = head.lstrip()
    if start.startswith(b"{"):
        return b'"instance_id"' in head and b'"test_result"' in head
    return start.startswith(b"[") and b'"source"' in head and (b'"action"' in head or b'"observation"' in head)


@guarded
def _read(document: Document) -> Reading:
    if document.data.lstrip().startswith(b"["):
        events = Node(parse(document.data))
        run = Node({"history": events.value})
        if not events.items() or "source" not in events.items()[0].fields():
            events.fail("no OpenHands trajectory: no event with a source", ErrorCode.MISSING_FIELD)
        yield from _run(document, run)
        return
    lines = list(parse_lines(document.data))
    if not lines:
        Node(None).fail("the file holds no runs", ErrorCode.MISSING_FIELD)
    yield from each(lines, lambda line: _run(document, line))


def _run(document: Document, run: Node) -> Reading:
    history = run.children("history")
    if not history:
        run.at("history").fail("no OpenHands run: there are no events", ErrorCode.MISSING_FIELD)
    event = imported(_event(document, run, history))
    yield event
    states = [entry for entry in history if entry.text("observation") == "agent_state_changed"]
    state = states[-1].child("extras").text("agent_state") if states else None
    if state:
        yield imported(legacy_exit(event.record, dispatcher="openhands", label=state))


def _event(document: Document, run: Node, history: list[Node]) -> dict[str, Any]:
    instance, metadata = run.text("instance_id"), run.child("metadata")
    calls = list(_calls(history))
    return terminal_event(
        document,
        source=ADAPTER.name,
        identity=[digest(json_text(run.value))],
        run_id=instance or PurePath(document.name).stem or ADAPTER.name,
        agent_id=metadata.text("agent_class") or "OpenHands",
        agent_version=metadata.text("git_commit"),
        workflow=metadata.text("dataset"),
        occurred_at=_ended_at(history),
        request={"request_ref": instance, "prose": run.text("instruction") or _question(history)},
        model=_model(run, history),
        policy_decisions=[_rejection(call) for call in calls if call["outcome"] == "denied"],
        tool_calls=calls,
        components=_components(run, history),
        budget=_budget(run, history, len(calls)),
        steps=[{"action_key": action_key(call["tool"], call["arguments"])} for call in calls],
        completion=_completion(run, history),
        extensions={"import.record": run.path} if run.path else {},
    )


def _ended_at(history: list[Node]) -> str | None:
    times = [(text, entry.path) for entry in history if (text := entry.text("timestamp"))]
    return max(iso_time(text, path) for text, path in times) if times else None


def _question(history: list[Node]) -> str | None:
    asked = (entry for entry in history if entry.text("source") == "user" and entry.text("action") == "message")
    return next((entry.child("args").text("content") for entry in asked), None)


# --- tool calls --------------------------------------------------------------------------------------------------


def _calls(history: list[Node]) -> Iterator[dict[str, Any]]:
    answers = {entry.whole("cause"): entry for entry in history if entry.text("observation")}
    for entry in history:
        action = entry.text("action")
        if action and entry.text("source") == "agent" and action not in _NO_CALLS:
            yield _call(entry, action, answers.get(entry.whole("id")))


def _call(entry: Node, action: str, answer: Node | None) -> dict[str, Any]:
    call_id = entry.child("tool_call_metadata").text("tool_call_id") or f"event-{entry.whole('id')}"
    arguments = {key: value for key, value in entry.child("args").fields().items() if key not in _WORDS}
    access = "read" if action in _READS else "write" if action in _WRITES else "unknown"
    text = entry.text("timestamp")
    return {
        "call_id": call_id,
        # A provider may count its ids anew; the number of the event never repeats.
        "operation_id": f"event-{entry.whole('id')}",
        "tool": action,
        "access": access,
        "arguments": json_text(arguments),
        "started_at": iso_time(text, entry.path) if text else None,
        **_outcome(action, answer),
        **response(content_text(answer.at("content")) if answer else None),
    }


def _outcome(action: str, answer: Node | None) -> dict[str, Any]:
    if action in ("finish", "reject"):
        return {"outcome": "ok"}
    kind = answer.text("observation") if answer else None
    if answer is None or kind is None:
        return {"outcome": "unknown"}
    if kind == "error":
        return {"outcome": "error", "error_class": answer.child("extras").text("error_id") or "error"}
    if kind == "user_rejected":
        return {"outcome": "denied"}
    return _returned(kind, answer)


def _returned(kind: str, answer: Node) -> dict[str, Any]:
    """Return the outcome of an observation of the action's own kind: an exit code, a diff, or nothing that can tell."""
    extras = answer.child("extras")
    code = extras.child("metadata").whole("exit_code")
    if kind == "run" and code is not None and code > 0:
        return {"outcome": "error", "error_class": f"exit_code_{code}"}
    # Exit code -1 stands for a command that still ran. A failed edit is told by its words and by its empty diff; an
    # empty diff may also be an edit that changed nothing.
    done = (kind == "run" and code == 0) or (kind == "edit" and bool(extras.text("diff"))) or kind == "think"
    return {"outcome": "ok" if done else "unknown"}


def _rejection(call: dict[str, Any]) -> dict[str, Any]:
    """Return the user's refusal to confirm an action."""
    return {
        "decision_id": f"rejected-{call['operation_id']}",
        "source": "approver",
        "operation_id": call["operation_id"],
        "effect": "deny",
        "attempted_action": {"tool": call["tool"], "arguments": call["arguments"]},
        "approval": {"state": "denied", "approver": "user"},
    }


# --- how it ended ------------------------------------------------------------------------------------------------


def _last(history: list[Node], *actions: str) -> Node | None:
    found = [entry for entry in history if entry.text("source") == "agent" and entry.text("action") in actions]
    return found[-1] if found else None


def _replies(history: list[Node]) -> list[Node]:
    """Return the provider's responses, each once, in order."""
    actions = [entry for entry in history if entry.text("action") and entry.text("source") == "agent"]
    replies = [entry.child("tool_call_metadata").child("model_response") for entry in actions]
    return list({reply.text("id"): reply for reply in replies if reply.value}.values())


def _model(run: Node, history: list[Node]) -> dict[str, Any] | None:
    """Return how the last recorded turn stopped; an error of the run, or the agent's own rejection, comes first."""
    reply = (_replies(history) or [Node({})])[-1]
    choices = reply.children("choices")
    signal = choices[0].text("finish_reason") if choices else None
    stopped = _stopped(run, history)
    if not choices and not stopped:
        return None
    usage = reply.child("usage")
    return {
        "model": reply.text("model"),
        "stop_signal": signal,
        "stop_class": stopped or ("absent" if signal is None else _STOPS.get(signal, "unknown")),
        "input_tokens": usage.whole("prompt_tokens"),
        "output_tokens": usage.whole("completion_tokens"),
        "prose": content_text(choices[0].child("message").at("content")) if choices else None,
    }


def _stopped(run: Node, history: list[Node]) -> str | None:
    if _last(history, "reject"):
        return "refused"
    return "error" if run.text("error") and not _turns_spent(run, history) else None


def _turns(history: list[Node]) -> int:
    """Count the turns: every response, and every answer so malformed that only an error without a cause is kept."""
    malformed = [entry for entry in history if entry.text("observation") == "error" and entry.whole("cause") is None]
    return len(_replies(history)) + len(malformed)


def _turns_spent(run: Node, history: list[Node]) -> bool:
    """Tell whether the run ended at its limit of turns: by the numbers, since the error itself is words."""
    limit = run.child("metadata").whole("max_iterations")
    unfinished = run.text("error") and not _last(history, "finish", "reject")
    return bool(unfinished and limit and _turns(history) >= limit)


def _budget(run: Node, history: list[Node], calls: int) -> dict[str, Any]:
    metrics = run.child("metrics")
    usage = metrics.child("accumulated_token_usage")
    sent, received = usage.whole("prompt_tokens"), usage.whole("completion_tokens")
    return {
        "turns": {"used": _turns(history), "limit": run.child("metadata").whole("max_iterations")},
        "tool_calls": {"used": calls},
        "tokens": {"used": None if sent is None or received is None else sent + received},
        "cost_micros": {"used": cost_micros(metrics.number("accumulated_cost"))},
        "exhausted": ["turns"] if _turns_spent(run, history) else [],
    }


def _claimed(history: list[Node]) -> bool | None:
    """Return the agent's own word: it may finish and say that the task is not completed."""
    finish = _last(history, "finish")
    if finish is None:
        return None
    return finish.child("args").at("task_completed").value in (None, "true", True)


def _patch(run: Node) -> str | None:
    return run.child("test_result").text("git_patch")


def _components(run: Node, history: list[Node]) -> list[dict[str, Any]]:
    """Return the deliverable of a run that claims completion, where the harness kept one; an empty patch is none."""
    patch = _patch(run)
    if not _claimed(history) or patch is None:
        return []
    if patch.strip():
        return [{"name": "git_patch", "required": True, "state": "completed"}]
    return [{"name": "git_patch", "required": True, "state": "omitted", "reason_code": "empty_patch"}]


def _completion(run: Node, history: list[Node]) -> dict[str, Any] | None:
    claimed, patch = _claimed(history), _patch(run)
    if claimed is None and patch is None:
        return None
    return {"claimed": claimed, "result": "not_evaluated", "result_ref": digest(patch) if patch else None}


ADAPTER = Adapter(
    name="openhands",
    title="OpenHands evaluation output (.jsonl) and trajectories (.json)",
    cannot_tell=(
        "whether a read, a browse or an edit without a diff succeeded: its observation has no status",
        "what a command changed: every command counts as a write, and an exit code other than 0 settles nothing",
        "why a run ended with an error: the error is words; only a spent limit of turns is told, by its numbers",
        "which action an error without a cause was about: it is counted as a turn, not as a call",
        "the time zone: times carry none and are read as UTC",
        "whether the patch is right: finish is a claim, no evaluated predicate",
    ),
    recognises=_recognises,
    read=_read,
)
