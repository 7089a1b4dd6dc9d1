"""SWE-agent trajectories (``.traj``): one file is one run.

Source: ``sweagent/agent/agents.py`` and ``sweagent/types.py`` of SWE-agent/SWE-agent @ 3ea751c0. ``exit_status`` is the
harness's own verdict. ``submitted`` says that a patch was handed in and nothing about whether it is right;
``submitted (exit_x)`` says that the harness handed it in after the run had failed with ``exit_x``.
"""

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

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
    parse,
    response,
    terminal_event,
)

_AUTOSUBMITTED = re.compile(r"submitted \((.+)\)")
_BUDGETS = {"exit_cost": "cost", "exit_total_execution_time": "time", "exit_context": "context"}
_FAILURES = frozenset({"exit_api", "exit_environment_error", "exit_error"})

# The commands of SWE-agent's own tool bundles. Anything else is the shell, which may do anything.
_READS = frozenset({"open", "goto", "scroll_up", "scroll_down", "find_file", "search_file", "search_dir", "filemap"})
_WRITES = frozenset({"create", "edit", "insert", "undo_edit", "str_replace_editor", "submit"})

# An action is run by a shell, so that only one plain command is known to do what its first word says.
_PLAIN_COMMAND = re.compile(r"\s*\w+[^;&|`$<>()\\\n]*\s*")


def _recognises(name: str, head: bytes) -> bool:
    marks = (b'"trajectory"', b'"history"', b'"environment"')
    return name.endswith(".traj") and head.lstrip().startswith(b"{") and any(mark in head for mark in marks)


@guarded
def _read(document: Document) -> Reading:
    root = Node(parse(document.data))
    if not {"trajectory", "history"} & root.fields().keys():
        root.fail("no SWE-agent trajectory: neither trajectory nor history is there")
    event = imported(_event(document, root))
    yield event
    if status := root.child("info").text("exit_status"):
        verdict = legacy_exit(event.record, dispatcher="swe-agent", label=status)
        yield imported(verdict)


def _event(document: Document, root: Node) -> dict[str, Any]:
    info, config = root.child("info"), _config(root)
    status, actions = info.text("exit_status"), list(_actions(root))
    problem = config.child("problem_statement")
    return terminal_event(
        document,
        source=ADAPTER.name,
        identity=[digest(json_text(root.value))],
        run_id=problem.text("id") or PurePath(document.name).stem or ADAPTER.name,
        agent_id="SWE-agent",
        agent_version=info.text("swe_agent_version"),
        occurred_at=None,
        request={"request_ref": problem.text("github_url"), "prose": _task(root)},
        model=_model(status, config),
        tool_calls=_calls(status, actions),
        steps=[{"action_key": action_key("bash", action)} for action, _ in actions],
        components=_components(status, info),
        budget=_budget(status, info, config, len(actions)),
        completion=_completion(status, info),
    )


def _config(root: Node) -> Node:
    """Return the configuration, which some versions write as JSON text inside the JSON."""
    node = root.at("replay_config")
    if isinstance(node.value, str):
        return Node(Node(parse(node.value.encode(), node.path), node.path).fields(), node.path)
    return root.child("replay_config")


def _actions(root: Node) -> Iterator[tuple[str, str | None]]:
    """Yield action and observation of every step that had an action; demonstrations come from the history alone."""
    if root.at("trajectory").value is None:
        yield from _history_actions(_history(root))
        return
    for step in root.children("trajectory"):
        if (action := step.text("action") or "").strip():
            yield action, step.text("observation")


def _history_actions(history: list[Node]) -> Iterator[tuple[str, str | None]]:
    for turn, following in zip(history, [*history[1:], Node({})], strict=True):
        if (action := turn.text("action") or "").strip():
            yield action, content_text(following.at("content"))


def _history(root: Node) -> list[Node]:
    return [turn for turn in root.children("history") if not turn.flag("is_demo")]


def _task(root: Node) -> str | None:
    return next((content_text(turn.at("content")) for turn in _history(root) if turn.text("role") == "user"), None)


def _calls(status: str | None, actions: list[tuple[str, str | None]]) -> list[dict[str, Any]]:
    calls = [_call(number, *action) for number, action in enumerate(actions, 1)]
    if status == "submitted" and calls:
        # The harness read the patch back after this step, so that the step returned.
        calls[-1]["outcome"] = "ok"
    return calls + _lost_call(status)


def _call(number: int, action: str, observation: str | None) -> dict[str, Any]:
    tool = _tool(action)
    return {
        "call_id": f"step-{number}",
        "operation_id": f"step-{number}",
        "tool": tool,
        "access": _access(tool, action),
        "arguments": json_text({"command": action}),
        # The format has no status: a blocked, cancelled or failed command differs from a good one by its words alone.
        "outcome": "unknown",
        **response(observation),
    }


def _tool(action: str) -> str:
    word = action.split(maxsplit=1)[0]
    return word if word in _READS | _WRITES else "bash"


def _access(tool: str, action: str) -> str:
    if tool in _WRITES:
        return "write"
    return "read" if tool in _READS and _PLAIN_COMMAND.fullmatch(action) else "unknown"


def _lost_call(status: str | None) -> list[dict[str, Any]]:
    """Return the command whose timeout ended the run: the status proves it, the trajectory leaves it out."""
    if _cause(status) != "exit_command_timeout":
        return []
    lost = {"call_id": "timed-out", "operation_id": "timed-out", "tool": "bash", "access": "unknown"}
    return [lost | {"outcome": "timeout", "error_class": "exit_command_timeout"}]


def _cause(status: str | None) -> str | None:
    """Return what ended the run other than the agent's own submission."""
    match = _AUTOSUBMITTED.fullmatch(status or "")
    return match[1] if match else (None if status == "submitted" else status)


def _model(status: str | None, config: Node) -> dict[str, Any] | None:
    """Return the block only where the run's status says how it stopped; the format has no stop reason of the model."""
    cause = _cause(status)
    if cause is None or cause in _BUDGETS:
        return None
    name = config.child("agent").child("model").text("name")
    return {"model": name, "stop_signal": status, "stop_class": "error" if cause in _FAILURES else "unknown"}


def _components(status: str | None, info: Node) -> list[dict[str, Any]]:
    """Return the deliverable of a run that says it submitted; an empty patch is none."""
    if status != "submitted":
        return []
    if (info.text("submission") or "").strip():
        return [{"name": "submission", "required": True, "state": "completed"}]
    return [{"name": "submission", "required": True, "state": "omitted", "reason_code": "empty_submission"}]


def _budget(status: str | None, info: Node, config: Node, actions: int) -> dict[str, Any]:
    stats, limits = info.child("model_stats"), config.child("agent").child("model")
    sent, received = stats.whole("tokens_sent"), stats.whole("tokens_received")
    cost, limit = stats.number("instance_cost"), limits.number("per_instance_cost_limit")
    name = _BUDGETS.get(_cause(status) or "")
    return {
        "turns": {"used": stats.whole("api_calls")},
        "tool_calls": {"used": actions},
        "tokens": {"used": None if sent is None or received is None else sent + received},
        # A limit of 0 means none.
        "cost_micros": {"used": cost_micros(cost), "limit": cost_micros(limit or None)},
        "exhausted": [name] if name else [],
    }


def _completion(status: str | None, info: Node) -> dict[str, Any] | None:
    if not status:
        return None
    patch = info.text("submission")
    claimed = status == "submitted"
    return {"claimed": claimed, "result": "not_evaluated", "result_ref": digest(patch) if patch else None}


ADAPTER = Adapter(
    name="swe-agent",
    title="SWE-agent trajectories (.traj)",
    cannot_tell=(
        "whether a command succeeded, failed, was blocked or was cancelled: there is no exit status, only its output",
        "how the model stopped: there is no stop reason, so that there is no model block unless the harness gave up",
        "whether the patch is right: submitted is a claim, no evaluated predicate",
        "when anything happened: there are no times",
        "what was tried while the model was asked again after a malformed answer",
    ),
    recognises=_recognises,
    read=_read,
)
