"""Runtime event logs of tau2 simulations (``runtime_events.jsonl``): one terminal event per simulation of the log.

The log knows more than ``results.json``: digests of the environment's state before and after every tool call. They
settle what happened: a call that failed and left the state as it was had no effect, one that returned and changed it is
confirmed by reading back, one that failed and changed it is ambiguous. The event has its own identity,
since it is other evidence about the same run. ``status: ok`` in the log means "no exception", not success.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from schemas.errors import ErrorCode, MessageError
from sources import tau2
from sources.base import (
    Adapter,
    Document,
    Node,
    Reading,
    each,
    guarded,
    imported,
    iso_time,
    legacy_exit,
    parse_lines,
    terminal_event,
)


def _trace(event: Node) -> Node:
    return event.child("payload").child("runtime_trace")


def _instant(event: Node) -> str:
    return iso_time(event.need_text("timestamp"), event.at("timestamp").path)


def _raw(event: Node) -> Node:
    return _trace(event).child("message").child("raw")


class _Log:
    """The events of one file: those of each simulation, and what belongs to the file as a whole."""

    def __init__(self) -> None:
        self.simulations: list[list[Node]] = []
        self.arguments: Node = Node({})
        self.dispatched: dict[str | None, Node] = {}
        self._open: dict[str | None, list[Node]] = {}

    def add(self, event: Node) -> None:
        """File the event. Raises MessageError where it cannot be told what it is about."""
        kind, task = event.text("event_type"), event.text("task_id")
        if kind == "trace_bootstrap_start":
            self.arguments = event
        elif kind == "tool_dispatch_end":
            self.dispatched[_trace(event).child("response").child("raw").text("id")] = event
        elif kind == "simulation_start":
            self._open[task] = [event]
            self.simulations.append(self._open[task])
        elif task in self._open:
            self._open[task].append(event)


class _Simulation:
    """The events of one simulation by type."""

    def __init__(self, events: Sequence[Node]) -> None:
        self.start, self.end = events[0], events[-1]
        self._events = events

    def every(self, kind: str) -> list[Node]:
        return [event for event in self._events if event.text("event_type") == kind]

    def last(self, kind: str) -> Node:
        return next(reversed(self.every(kind)), Node({}))


def _flags(log: _Log) -> dict[str, str]:
    """Return the command line's options; where two follow each other the first is mapped to the second, unread."""
    words = [word.as_text() or "" for word in _trace(log.arguments).children("argv")]
    return dict(pairwise(words))


def _calls(log: _Log, run: _Simulation) -> Iterator[tuple[tau2.Call, Node]]:
    """Yield the agent's calls, each with the trace of its dispatch (empty where it never returned)."""
    for event in run.every("tool_call_requested"):
        request = _trace(event).child("tool_call")
        if request.text("requestor") != "user":
            found = log.dispatched.get(request.text("id"))
            trace = Node({}) if found is None else _trace(found)
            answer = None if found is None else trace.child("response").child("raw")
            yield tau2.Call(request, answer, _instant(event)), trace


def _changed(trace: Node) -> bool | None:
    """Return whether the environment's state changed during the call; None if the log does not say."""
    before, after = trace.text("state_hash_before"), trace.text("state_hash_after")
    return None if before is None or after is None else before != after


def _tool_calls(calls: Sequence[tuple[tau2.Call, Node]], reason: str | None) -> list[dict[str, Any]]:
    """Return the tool calls; one that failed and left the state as it was is proven to have had no effect."""
    records = tau2.tool_calls([call for call, _ in calls], reason)
    for record, (call, trace) in zip(records, calls, strict=False):  # the harness's own failure comes last
        if call.outcome == "error" and _changed(trace) is False:
            record["effect_possible"] = False
    return records


def _side_effects(calls: Iterable[tuple[tau2.Call, Node]]) -> list[dict[str, Any]]:
    """Return a ledger entry for every call that changed the state: what a failed one changed is anyone's guess."""
    statuses = {"ok": "confirmed", "error": "ambiguous", "unknown": "ambiguous"}
    return [
        {
            "operation_id": call.operation_id,
            "tool": call.tool,
            "status": statuses[call.outcome],
            "verified_by": "read_back" if call.outcome == "ok" else "none",
        }
        for call, trace in calls
        if _changed(trace)
    ]


def _simulation(document: Document, log: _Log, run: _Simulation) -> Reading:
    reason = _trace(run.last("simulation_end")).text("termination_reason")
    ended = (run.every("orchestrator_run_end") or [run.end])[-1]
    task = run.start.text("task_id")
    run_id = _trace(run.last("orchestrator_run_start")).text("simulation_id")
    run_id = run_id or f"{run.start.text('run_id')}/{task}"
    event = terminal_event(
        document,
        source="activegraph",
        identity=("runtime_events", run_id),
        run_id=run_id,
        agent_id=_flags(log).get("--agent") or "tau2",
        occurred_at=_instant(ended),
        workflow=_trace(run.start).text("domain"),
        **_blocks(log, run, task, reason),
    )
    yield imported(event)
    if reason is not None:
        yield imported(legacy_exit(event, dispatcher=tau2.DISPATCHER, label=reason, decided_at=_instant(ended)))


def _blocks(log: _Log, run: _Simulation, task: str | None, reason: str | None) -> dict[str, Any]:
    calls, flags = list(_calls(log, run)), _flags(log)
    requests = [call for call, _ in calls]
    limit, used = flags.get("--max-steps", ""), _trace(run.last("orchestrator_run_end")).whole("steps")
    evaluation = _trace(run.last("simulation_execution_end")).child("reward_info")
    first = next(iter(run.every("user_response")), Node({}))
    return {
        "request": {"request_ref": task, "goal": task, "prose": _raw(first).text("content")},
        "model": _model(run, flags.get("--agent-llm"), reason),
        "tool_calls": _tool_calls(calls, reason),
        "side_effects": _side_effects(calls),
        "steps": tau2.steps(requests),
        "budget": tau2.budget(reason, int(limit) if limit.isdecimal() and len(limit) < 10 else None, used, None),
        "completion": tau2.completion(reason, evaluation, None),
    }


def _model(run: _Simulation, name: str | None, reason: str | None) -> dict[str, Any] | None:
    """Return the model block; a log that ends before the simulation does has seen no end of the model's turn."""
    if not run.every("simulation_end"):
        return {"model": name, "stop_class": "absent"}
    spoken = run.every("agent_response")
    return tau2.model(_raw(spoken[-1]) if spoken else None, name, reason)


def _read(document: Document) -> Reading:
    log = _Log()
    for line in parse_lines(document.data):
        try:
            if isinstance(line, MessageError):
                yield line
            else:
                log.add(line)
        except MessageError as error:
            yield error
    if not log.simulations:
        raise MessageError(ErrorCode.MISSING_FIELD, "the log holds no simulation_start event")
    yield from each(map(_Simulation, log.simulations), partial(_simulation, document, log))


def _recognises(_name: str, head: bytes) -> bool:
    return head.lstrip().startswith(b"{") and b'"runtime_trace"' in head and b'"event_type"' in head


ADAPTER = Adapter(
    name="activegraph",
    title="runtime event logs of tau2 simulations (runtime_events.jsonl)",
    cannot_tell=(
        "which of two trials of one task an event belongs to, if they ran at the same time",
        "effects outside of the environment's state, such as a hand-off to a human",
        "the version of the harness",
        "policy decisions, approvals and fallbacks: they exist only in the words of the talk",
    ),
    recognises=_recognises,
    read=guarded(_read),
)
