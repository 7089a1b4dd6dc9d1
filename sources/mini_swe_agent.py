"""mini-SWE-agent trajectories (``.traj.json``): one file is one run.

Source: ``agents/default.py``, ``environments/local.py`` and ``models/utils/actions_toolcall.py`` of
SWE-agent/mini-swe-agent @ a83fcae8. Three forms are read: the bare list of messages of the first releases, format
``mini-swe-agent-1`` (commands and return codes inside the messages' text) and ``mini-swe-agent-1.1`` (both as fields).
``Submitted`` says that something was handed in, an empty patch too, and nothing about whether it is right.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
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
    guarded,
    imported,
    json_text,
    legacy_exit,
    parse,
    response,
    terminal_event,
    unix_time,
)

_STOPS = {"stop": "end", "length": "truncated", "tool_calls": "tool_call", "content_filter": "filtered"}

# A file of format 1 records the template that rendered its observations. Where that template puts the return code
# first, the harness wrote this tag, and neither the model nor the command can have.
_CODE_TEMPLATE = "<returncode>{{output.returncode}}</returncode>"
_CODE = re.compile(r"<returncode>(-?\d{1,9})</returncode>")


@dataclass(frozen=True)
class _Turn:
    """An assistant's message and the messages up to the next one."""

    assistant: Node
    answers: tuple[Node, ...]

    @property
    def extra(self) -> Node:
        return self.assistant.child("extra")


@dataclass(frozen=True)
class _Trajectory:
    """What the three forms have in common. ``status`` is the harness's verdict; None: none, or an unfinished run."""

    root: Node
    info: Node
    messages: tuple[Node, ...]
    turns: tuple[_Turn, ...]
    status: str | None

    @property
    def submitted(self) -> bool:
        return self.status == "Submitted"

    @property
    def task(self) -> str | None:
        users = (message for message in self.messages if message.text("role") == "user")
        return next((content_text(message.at("content")) for message in users), None)


def _recognises(name: str, head: bytes) -> bool:
    start = head.lstrip()[:1]
    return (start == b"[" and name.endswith(".traj.json")) or (
        start == b"{" and (b'"mini_version"' in head or b'"mini-swe-agent-1' in head)
    )


@guarded
def _read(document: Document) -> Reading:
    trajectory = _trajectory(Node(parse(document.data)))
    event = imported(_event(document, trajectory))
    yield event
    if trajectory.status:
        yield imported(legacy_exit(event.record, dispatcher="mini-swe-agent", label=trajectory.status))


def _trajectory(root: Node) -> _Trajectory:
    bare = isinstance(root.value, list)
    messages = root.items() if bare else root.children("messages")
    if not any("role" in message.fields() for message in messages):
        root.fail("no mini-SWE-agent trajectory: there are no messages", ErrorCode.MISSING_FIELD)
    info = Node({}) if bare else root.child("info")
    return _Trajectory(root, info, tuple(messages), tuple(_turns(messages)), info.text("exit_status") or None)


def _turns(messages: list[Node]) -> Iterator[_Turn]:
    starts = [index for index, message in enumerate(messages) if message.text("role") == "assistant"]
    for start, end in pairwise([*starts, len(messages)]):
        yield _Turn(messages[start], tuple(messages[start + 1 : end]))


def _event(document: Document, run: _Trajectory) -> dict[str, Any]:
    instance = None if isinstance(run.root.value, list) else run.root.text("instance_id")
    calls = list(_calls(run))
    return terminal_event(
        document,
        source=ADAPTER.name,
        identity=[digest(json_text(run.root.value))],
        run_id=instance or PurePath(document.name).name.removesuffix(".traj.json") or ADAPTER.name,
        agent_id="mini-swe-agent",
        agent_version=run.info.text("mini_version"),
        occurred_at=_occurred_at(run),
        request={"request_ref": instance, "prose": run.task},
        model=_model(run),
        tool_calls=calls,
        steps=[{"action_key": action_key("bash", call["arguments"])} for call in calls if "arguments" in call],
        components=_components(run),
        budget=_budget(run, len(calls)),
        completion=_completion(run),
    )


def _occurred_at(run: _Trajectory) -> str | None:
    """Return the latest time that the file records; the run ended then or soon after."""
    times = [time for turn in run.turns for time in _times(turn)]
    return unix_time(max(times)) if times else None


def _times(turn: _Turn) -> Iterator[float]:
    nodes = (turn.extra, *(answer.child("extra") for answer in turn.answers))
    found = [node.number("timestamp") for node in nodes] + [_reply(turn).number("created")]
    return (time for time in found if time is not None)


def _reply(turn: _Turn) -> Node:
    """Return the provider's response of a turn; an empty object where the file keeps none."""
    return turn.extra.child("response")


# --- tool calls --------------------------------------------------------------------------------------------------


def _calls(run: _Trajectory) -> Iterator[dict[str, Any]]:
    coded = _codes_in_text(run)
    for number, turn in enumerate(run.turns, 1):
        returned = run.submitted and turn is run.turns[-1]
        if turn.extra.at("actions").value is not None:
            yield from _recorded_calls(number, turn, returned)
        elif not _asked_again(turn):
            yield _texted_call(number, turn, coded, returned)


def _asked_again(turn: _Turn) -> bool:
    """Tell whether the harness, by its own mark, executed nothing and asked the model for another answer."""
    return any(answer.child("extra").text("interrupt_type") == "FormatError" for answer in turn.answers)


def _recorded_calls(number: int, turn: _Turn, returned: bool) -> Iterator[dict[str, Any]]:  # noqa: FBT001 - private
    """Yield the calls of format 1.1: every action is a field, every observation carries its return code."""
    actions = turn.extra.children("actions")
    observations = [answer for answer in turn.answers if "returncode" in answer.child("extra").fields()]
    for index, action in enumerate(actions):
        call = _call(f"step-{number}.{index + 1}") | {"arguments": json_text({"command": action.text("command")})}
        if index < len(observations):
            yield call | _observed(observations[index])
        else:
            # Submitting ends the turn before any observation is kept; of several actions, any may have done it.
            yield call | {"outcome": "ok" if returned and len(actions) == 1 else "unknown"}


def _observed(observation: Node) -> dict[str, Any]:
    extra = observation.child("extra")
    outcome = _outcome(extra.whole("returncode"))
    exception = extra.text("exception_type")
    if exception is not None:
        outcome = {"outcome": "timeout" if exception == "TimeoutExpired" else "unknown", "error_class": exception}
    return outcome | response(content_text(observation.at("content")))


def _texted_call(number: int, turn: _Turn, coded: bool, returned: bool) -> dict[str, Any]:  # noqa: FBT001 - private
    """Return the call of an earlier format, whose command stands in the assistant's text alone and stays unknown."""
    text = content_text(turn.answers[0].at("content")) if turn.answers else None
    match = _CODE.match(text or "") if coded else None
    outcome = {"outcome": "ok"} if returned else _outcome(int(match[1]) if match else None)
    return _call(f"step-{number}") | outcome | response(text)


def _call(call_id: str) -> dict[str, Any]:
    return {"call_id": call_id, "operation_id": call_id, "tool": "bash", "access": "unknown"}


def _outcome(code: int | None) -> dict[str, Any]:
    """Return the outcome of a return code; -1 is the harness's own mark for a command that it lost track of."""
    if code == 0:
        return {"outcome": "ok"}
    if code is None or code < 0:
        return {"outcome": "unknown"}
    return {"outcome": "error", "error_class": f"exit_code_{code}"}


def _codes_in_text(run: _Trajectory) -> bool:
    template = run.info.child("config").child("agent").text("action_observation_template")
    return (template or "").startswith(_CODE_TEMPLATE)


# --- how it ended ------------------------------------------------------------------------------------------------


def _model(run: _Trajectory) -> dict[str, Any] | None:
    """Return how the last turn stopped; no block where the file keeps no response and no verdict says more."""
    last, stopped = run.turns[-1] if run.turns else _Turn(Node({}), ()), _stopped(run)
    choices = _reply(last).children("choices")
    if not choices and not stopped:
        return None
    signal = choices[0].text("finish_reason") if choices else None
    refused = bool(choices and choices[0].child("message").text("refusal"))
    usage = _reply(last).child("usage")
    return {
        "provider": _reply(last).text("provider"),
        "model": _reply(last).text("model"),
        "stop_signal": run.status if stopped else signal,
        "stop_class": stopped or ("refused" if refused else _stop_class(signal)),
        "input_tokens": usage.whole("prompt_tokens"),
        "output_tokens": usage.whole("completion_tokens"),
        "prose": content_text(last.assistant.at("content")),
    }


def _stop_class(signal: str | None) -> str:
    return "absent" if signal is None else _STOPS.get(signal, "unknown")


def _stopped(run: _Trajectory) -> str | None:
    """Return the stop class of a verdict that is neither a submission nor a limit; an exception leaves a traceback."""
    if run.status is None or run.submitted or run.status in ("LimitsExceeded", "TimeExceeded"):
        return None
    last = run.messages[-1].child("extra")
    crashed = "traceback" in run.info.fields() or "traceback" in last.fields()
    return "error" if crashed else "unknown"


def _components(run: _Trajectory) -> list[dict[str, Any]]:
    """Return the deliverable of a run that says it submitted; an empty patch is none."""
    if not run.submitted:
        return []
    if (run.info.text("submission") or "").strip():
        return [{"name": "submission", "required": True, "state": "completed"}]
    return [{"name": "submission", "required": True, "state": "omitted", "reason_code": "empty_submission"}]


def _budget(run: _Trajectory, calls: int) -> dict[str, Any]:
    stats, limits = run.info.child("model_stats"), run.info.child("config").child("agent")
    # A limit of 0 means none.
    turns = {"used": stats.whole("api_calls"), "limit": limits.whole("step_limit") or None}
    costs = (stats.number("instance_cost"), limits.number("cost_limit") or None)
    cost = {"used": cost_micros(costs[0]), "limit": cost_micros(costs[1])}
    return {
        "turns": turns,
        "tool_calls": {"used": calls},
        "cost_micros": cost,
        "exhausted": _exhausted(run, turns, cost),
    }


def _exhausted(run: _Trajectory, turns: dict[str, int | None], cost: dict[str, int | None]) -> list[str]:
    if run.status == "TimeExceeded":
        return ["time"]
    if run.status != "LimitsExceeded":
        return []
    # One verdict stands for both limits; which of them it was is told by comparing them with what was used.
    reached = [name for name, usage in (("turns", turns), ("cost", cost)) if _reached(usage)]
    return reached or ["unknown"]


def _reached(usage: dict[str, int | None]) -> bool:
    used, limit = usage["used"], usage["limit"]
    return used is not None and limit is not None and used >= limit


def _completion(run: _Trajectory) -> dict[str, Any] | None:
    if run.status is None:
        return None
    patch = run.info.text("submission")
    return {"claimed": run.submitted, "result": "not_evaluated", "result_ref": digest(patch) if patch else None}


ADAPTER = Adapter(
    name="mini-swe-agent",
    title="mini-SWE-agent trajectories (.traj.json)",
    cannot_tell=(
        "which command was run, before format 1.1: it stands in the assistant's text alone",
        "how a command ended, before format 1.1, unless the file records a template that puts the return code first",
        "timeouts and malformed answers, before format 1.1: they differ by their words alone and are unknown outcomes",
        "how the run ended, in the bare list of messages of the first releases",
        "what a command changed: every command counts as a write, and a return code other than 0 settles nothing",
        "whether the patch is right: Submitted is a claim, no evaluated predicate",
    ),
    recognises=_recognises,
    read=_read,
)
