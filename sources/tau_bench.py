"""tau-bench results (a list of runs with ``traj``): one terminal event per run, and evidence that is thin.

The format keeps neither times, nor a stop reason, nor a status of a tool call: an error is told only by the words of
the answer, which are not read. So every call's outcome is ``unknown`` and every write is left open. ``reward`` is the
benchmark's evaluation after the run (database and required outputs) and becomes the completion predicate; a run that
was cut at its step limit has no ``reward_info`` and is ``not_evaluated``.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from sources.base import (
    Adapter,
    Document,
    Node,
    Reading,
    action_key,
    digest,
    each,
    guarded,
    imported,
    json_text,
    parse,
    response,
    terminal_event,
)
from sources.tau_tools import access


def _tool_calls(messages: Sequence[Node]) -> list[dict[str, Any]]:
    answers = {message.text("tool_call_id"): message for message in messages if message.text("role") == "tool"}
    requests = (request for message in messages for request in message.children("tool_calls"))
    return [_tool_call(request, answers.get(request.text("id"))) for request in requests]


def _tool_call(request: Node, answer: Node | None) -> dict[str, Any]:
    function = request.child("function")
    tool, arguments = function.text("name") or "", function.text("arguments")
    return {
        "call_id": request.text("id"),
        "operation_id": action_key(tool, arguments),
        "tool": tool,
        "access": access(tool),
        "arguments": arguments,
        "outcome": "unknown",
        **response(answer.text("content") if answer else None),
    }


def _words(messages: Sequence[Node], role: str) -> list[str | None]:
    return [message.text("content") for message in messages if message.text("role") == role]


def _stop(messages: Sequence[Node]) -> dict[str, Any] | None:
    words = _words(messages, "assistant")
    return {"stop_class": "unknown", "prose": words[-1]} if words else None


def _completion(run: Node) -> dict[str, Any]:
    evaluation, reward = run.child("info").child("reward_info"), run.number("reward")
    evaluated = bool(evaluation.fields()) and reward is not None
    result = ("satisfied" if reward == 1 else "unsatisfied") if evaluated else "not_evaluated"
    return {"predicate_id": "tau_bench.reward", "result": result}


def _run(document: Document, run: Node) -> Reading:
    messages = run.children("traj")
    task, trial = run.whole("task_id"), run.whole("trial")
    calls = _tool_calls(messages)
    # Task and trial repeat between files, so the content is part of the identity.
    run_id = f"{task}/{trial}/{digest(json_text(run.fields()))[-16:]}"
    yield imported(
        terminal_event(
            document,
            source="tau-bench",
            identity=(run_id,),
            run_id=run_id,
            agent_id="tau-bench",
            occurred_at=None,
            request={
                "request_ref": None if task is None else str(task),
                "prose": next(iter(_words(messages, "user")), None),
            },
            model=_stop(messages),
            tool_calls=calls,
            steps=[{"action_key": call["operation_id"]} for call in calls],
            completion=_completion(run),
        )
    )


def _read(document: Document) -> Reading:
    root = Node(parse(document.data))
    if root.value is None:
        root.fail("expected a list of runs")
    yield from each(root.items(), partial(_run, document))


def _recognises(_name: str, head: bytes) -> bool:
    return head.lstrip().startswith(b"[") and b'"reward_info"' in head and b'"task_id"' in head


ADAPTER = Adapter(
    name="tau-bench",
    title="tau-bench results (list of runs)",
    cannot_tell=(
        "whether a tool call succeeded: an error is only in the words of its answer",
        "how the run ended: there is no stop reason, neither of the model nor of the harness",
        "that the step limit was reached, or which it was",
        "when anything happened",
        "which agent or model ran",
        "policy decisions, approvals, fallbacks, hand-offs: they exist only in the words of the talk",
    ),
    recognises=_recognises,
    read=guarded(_read),
)
