"""tau2-bench results (``results.json``): one terminal event and one legacy exit per simulation.

Facts taken over: the tool messages' ``error`` flag is the outcome of a call; ``termination_reason`` says which budget
ended the run; ``reward_info`` is the benchmark's evaluation after the run and becomes the completion predicate, named
by its reward basis, where it was evaluated at all (an absent basis is ``not_evaluated``). The stop class is the raw
``finish_reason`` of the agent's last message; where the harness kept no raw response it is ``unknown``. A simulated
user's stop is not a claim of the agent; only ``agent_stop`` is one.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from schemas.errors import ErrorCode
from sources.base import (
    Adapter,
    Document,
    Node,
    Reading,
    action_key,
    cost_micros,
    each,
    guarded,
    imported,
    iso_time,
    json_text,
    legacy_exit,
    parse,
    response,
    terminal_event,
)
from sources.tau_tools import access

DISPATCHER = "tau2"

_STOP_CLASSES = {
    "stop": "end",
    "tool_calls": "tool_call",
    "function_call": "tool_call",
    "length": "truncated",
    "content_filter": "filtered",
}
# The limit on errors is a budget that the contract has no name for.
_EXHAUSTED = {
    "max_steps": "turns",
    "timeout": "time",
    "context_window_exceeded": "context",
    "too_many_errors": "unknown",
}
_HARNESS_FAILURES = {
    "user_error": ("tau2.user", "error"),
    "infrastructure_error": ("tau2.infrastructure", "unavailable"),
    "unexpected_error": ("tau2.harness", "error"),
}
_QUARTER_HOUR, _WIDEST_OFFSET = 900, 14 * 3600


@dataclass(frozen=True)
class Call:
    """A tool call that the agent asked for, the tool message that answered it, and when it was asked (ISO 8601)."""

    request: Node
    answer: Node | None
    asked_at: str | None

    @property
    def tool(self) -> str:
        """Name of the tool."""
        return self.request.text("name") or ""

    @property
    def operation_id(self) -> str:
        """Equal for equal tool and arguments: the format has no identity of a logical operation."""
        return action_key(self.tool, self.request.at("arguments").value)

    @property
    def outcome(self) -> str:
        """What the answer's ``error`` flag says; unknown without answer or flag."""
        failed = self.answer.flag("error") if self.answer else None
        return "unknown" if failed is None else "error" if failed else "ok"


def tool_calls(calls: Sequence[Call], reason: str | None) -> list[dict[str, Any]]:
    """Return the contract's tool calls, and one more where the harness itself failed."""
    attempts: Counter[str] = Counter()
    records = []
    for call in calls:
        attempts[call.operation_id] += 1
        records.append(_tool_call(call, attempts[call.operation_id]))
    return records + _harness_failure(reason)


def _tool_call(call: Call, attempt: int) -> dict[str, Any]:
    arguments = call.request.at("arguments").value
    return {
        "call_id": call.request.text("id"),
        "operation_id": call.operation_id,
        "tool": call.tool,
        "access": access(call.tool),
        "attempt": attempt,
        "arguments": arguments if arguments is None or isinstance(arguments, str) else json_text(arguments),
        "outcome": call.outcome,
        **response(call.answer.text("content") if call.answer else None),
        "started_at": call.asked_at,
    }


def _harness_failure(reason: str | None) -> list[dict[str, Any]]:
    if reason not in _HARNESS_FAILURES:
        return []
    tool, outcome = _HARNESS_FAILURES[reason]
    return [{"call_id": tool, "operation_id": tool, "tool": tool, "access": "read", "outcome": outcome}]


def steps(calls: Sequence[Call]) -> list[dict[str, Any]]:
    """Return one step per tool call."""
    return [{"action_key": call.operation_id} for call in calls]


def model(message: Node | None, name: str | None, reason: str | None) -> dict[str, Any] | None:
    """Return the model block of the agent's last message; None if the agent never spoke and did not fail."""
    if message is None:
        return {"model": name, "stop_class": "error"} if reason == "agent_error" else None
    choice = next(iter(message.child("raw_data").children("choices")), Node({}))
    usage = message.child("usage")
    return {
        "model": name,
        "stop_signal": choice.text("finish_reason"),
        "stop_class": "error" if reason == "agent_error" else _stop_class(message, choice),
        "input_tokens": usage.whole("prompt_tokens"),
        "output_tokens": usage.whole("completion_tokens"),
        "prose": message.text("content"),
    }


def _stop_class(message: Node, choice: Node) -> str:
    signal, raw = choice.text("finish_reason"), choice.child("message")
    if raw.text("refusal") or raw.child("provider_specific_fields").text("refusal"):
        return "refused"
    if signal is not None:
        return _STOP_CLASSES.get(signal, "unknown")
    if message.children("tool_calls"):
        return "tool_call"
    return "unknown" if message.at("raw_data").value is None else "absent"


def completion(reason: str | None, reward_info: Node, version: str | None) -> dict[str, Any]:
    """Return the claim and the benchmark's own evaluation of the run."""
    reward, basis = (
        reward_info.number("reward"),
        [item.as_text() or "" for item in reward_info.children("reward_basis")],
    )
    evaluated = reward is not None and basis
    return {
        "claimed": True if reason == "agent_stop" else None,
        "predicate_id": "tau2.reward" + (":" + "+".join(basis) if basis else ""),
        "predicate_version": version,
        "result": ("satisfied" if reward == 1 else "unsatisfied") if evaluated else "not_evaluated",
    }


def budget(reason: str | None, limit: int | None, used: int | None, cost: float | None) -> dict[str, Any]:
    """Return the budgets; ``limit`` and ``used`` count the orchestrator's steps, ``cost`` is in currency units."""
    used = limit if used is None and reason == "max_steps" else used
    return {
        "turns": None if limit is None and used is None else {"limit": limit, "used": used},
        "cost_micros": None if cost is None else {"used": cost_micros(cost)},
        "exhausted": [_EXHAUSTED[reason]] if reason in _EXHAUSTED else [],
    }


# --- results.json ------------------------------------------------------------------------------------------------


def naive_ahead_s(messages: Sequence[Node]) -> int | None:
    """Return by how many seconds the harness's local clock was ahead of UTC, to the quarter of an hour.

    Its times have no offset, but raw responses carry the provider's Unix time, which is taken a moment earlier.
    """
    for message in messages:
        created, local = message.child("raw_data").whole("created"), message.text("timestamp")
        if created is not None and local is not None:
            ahead = round((_naive_seconds(message.at("timestamp")) - created) / _QUARTER_HOUR) * _QUARTER_HOUR
            return ahead if abs(ahead) <= _WIDEST_OFFSET else None
    return None


def _naive_seconds(node: Node) -> float:
    return datetime.fromisoformat(iso_time(node.as_text() or "", node.path)).timestamp()


def _by(messages: Sequence[Node], role: str) -> list[Node]:
    return [message for message in messages if message.text("role") == role]


def _calls(messages: Sequence[Node], ahead_s: int) -> list[Call]:
    """Pair the agent's calls with their answers by id; the user simulator's own calls are not the agent's."""
    answers: dict[str | None, list[Node]] = {}
    for answer in _by(messages, "tool"):
        if answer.text("requestor") != "user":
            answers.setdefault(answer.text("id"), []).append(answer)
    calls = []
    for message in _by(messages, "assistant"):
        asked_at = _instant(message, "timestamp", ahead_s)
        for request in message.children("tool_calls"):
            waiting = answers.get(request.text("id"))
            calls.append(Call(request, waiting.pop(0) if waiting else None, asked_at))
    return calls


def _instant(node: Node, key: str, ahead_s: int) -> str | None:
    text = node.text(key)
    return None if text is None else iso_time(text, node.at(key).path, ahead_s)


def _simulation(document: Document, root: Node, run: Node) -> Reading:
    info, messages, reason = root.child("info"), run.children("messages"), run.text("termination_reason")
    ahead_s = naive_ahead_s(messages)
    ended = _instant(run, "end_time", ahead_s or 0) or _instant(run, "timestamp", ahead_s or 0)
    event = terminal_event(
        document,
        source="tau2",
        identity=("results", run.need_text("id")),
        run_id=run.need_text("id"),
        agent_id=info.child("agent_info").text("implementation") or "tau2",
        occurred_at=ended,
        workflow=info.child("environment_info").text("domain_name"),
        extensions={"import.utc_offset": "absent" if ahead_s is None else "derived"},
        **_blocks(info, run, messages, _calls(messages, ahead_s or 0)),
    )
    yield imported(event)
    if reason is not None:
        version = info.text("git_commit")
        exit_ = legacy_exit(event, dispatcher=DISPATCHER, dispatcher_version=version, label=reason, decided_at=ended)
        yield imported(exit_)


def _blocks(info: Node, run: Node, messages: Sequence[Node], calls: Sequence[Call]) -> dict[str, Any]:
    reason, spoken = run.text("termination_reason"), _by(messages, "assistant")
    asked = next(iter(_by(messages, "user")), Node({}))
    task = run.text("task_id")
    return {
        "request": {"request_ref": task, "goal": task, "prose": asked.text("content")},
        "model": model(spoken[-1] if spoken else None, info.child("agent_info").text("llm"), reason),
        "tool_calls": tool_calls(calls, reason),
        "steps": steps(calls),
        "budget": budget(reason, info.whole("max_steps"), None, run.number("agent_cost")),
        "completion": completion(reason, run.child("reward_info"), info.text("git_commit")),
    }


def _read(document: Document) -> Reading:
    root = Node(parse(document.data))
    runs = root.at("simulations")
    if runs.value is None:
        runs.fail("missing: these are no tau2 results", ErrorCode.MISSING_FIELD)
    yield from each(runs.items(), partial(_simulation, document, root))


def _recognises(_name: str, head: bytes) -> bool:
    marks = (b'"num_trials"', b'"agent_info"', b'"environment_info"')
    return head.lstrip().startswith(b"{") and all(mark in head for mark in marks)


ADAPTER = Adapter(
    name="tau2",
    title="tau2-bench results (results.json)",
    cannot_tell=(
        "whether a write that returned an error had changed something before it failed",
        "whether two equal calls are one logical operation: equal tool and arguments are read as one",
        "whether the agent claims completion when the simulated user ended the talk",
        "policy decisions, approvals and fallbacks: they exist only in the words of the talk",
        "whether a hand-off to a human reached one: transfer_to_human_agents is a tool call like others",
        "the UTC offset of its times, unless a raw response carries the provider's clock",
    ),
    recognises=_recognises,
    read=guarded(_read),
)
