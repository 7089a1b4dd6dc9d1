"""Inspect evaluation logs (``.eval``, a ZIP file, and ``.json``): every sample is one run.

Source: ``log/_log.py``, ``event/_tool.py``, ``event/_approval.py``, ``tool/_tool_call.py`` and
``model/_model_output.py`` of UKGovernmentBEIS/inspect_ai @ 499e6152. The status in the header is about the evaluation
as a whole: it is ``success`` although samples hit their limit. What ended a sample is in the sample alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from schemas.errors import ErrorCode, MessageError
from schemas.types import INT64_MAX
from sources.base import (
    Adapter,
    Document,
    Node,
    Reading,
    action_key,
    content_text,
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
    zip_members,
)

_ZIP = b"PK\x03\x04"
_ATTACHMENT = "attachment://"

_STOPS = {
    "stop": "end",
    "max_tokens": "truncated",
    "model_length": "truncated",
    "tool_calls": "tool_call",
    "content_filter": "filtered",
}
_BUDGETS = {
    "message": "turns",
    "turn": "turns",
    "token": "tokens",
    "cost": "cost",
    "time": "time",
    "working": "time",
    "context": "context",
}
# Outcome and error class per type of a tool's error; the class is the type itself unless the contract has its own name.
_TOOL_ERRORS = {
    "timeout": ("timeout", "timeout"),
    "parsing": ("malformed", "parsing"),
    "approval": ("denied", "approval"),
    "permission": ("error", "PERMISSION_DENIED"),
    "cancelled": ("cancelled", "cancelled"),
}
_DECISIONS = {
    "approve": ("allow", "granted"),
    "modify": ("allow", "granted"),
    "reject": ("deny", "denied"),
    "terminate": ("deny", "denied"),
    "escalate": ("require_approval", "requested"),
}
_NO_SAMPLES = "the log holds no samples, so that it says nothing of a run"
_VERDICTS = {"C": "satisfied", "I": "unsatisfied", 1: "satisfied", 0: "unsatisfied"}


def _recognises(_name: str, head: bytes) -> bool:
    if head.startswith(_ZIP):
        return b"header.json" in head or b"_journal/" in head or b"samples/" in head
    return head.lstrip().startswith(b"{") and b'"eval"' in head and (b'"plan"' in head or b'"task_id"' in head)


@dataclass(frozen=True)
class _Sample:
    """One sample, its events with those that earlier versions nested in tool calls and subtasks, and its limit."""

    evaluation: Node
    node: Node
    events: tuple[Node, ...]
    limit: Node

    def of_kind(self, kind: str) -> list[Node]:
        """Return the events of one kind, in order."""
        return [event for event in self.events if event.text("event") == kind]

    @property
    def choice(self) -> Node:
        """The model's last choice; an empty object where there is none."""
        return next(iter(self.node.child("output").children("choices")), Node({}))


@guarded
def _read(document: Document) -> Reading:
    if document.data.startswith(_ZIP):
        yield from _read_zip(document)
        return
    log = Node(parse(document.data))
    if "eval" not in log.fields():
        log.fail("no Inspect log: eval is missing", ErrorCode.MISSING_FIELD)
    samples = log.children("samples")
    if not samples:
        log.at("samples").fail(_NO_SAMPLES, ErrorCode.MISSING_FIELD)
    yield from each(samples, partial(_read_sample, document, log))


def _read_zip(document: Document) -> Reading:
    """Read the members in name order: the journal's start, then the header that replaces it, then the samples."""
    header, samples = Node({}), 0
    for name, content in zip_members(document.data):
        member = content if isinstance(content, MessageError) else _member(name, content)
        if isinstance(member, MessageError):
            yield member
            if member.code is ErrorCode.TOO_LARGE:
                return
        elif name.startswith("samples/"):
            yield from each([member], partial(_read_sample, document, header))
            samples += 1
        elif name in ("_journal/start.json", "header.json"):
            header = member
    if not samples:
        raise MessageError(ErrorCode.MISSING_FIELD, _NO_SAMPLES, "samples")


def _member(name: str, content: bytes) -> Node | MessageError:
    """Parse a member; what is wrong with a header costs the samples nothing."""
    try:
        node = Node(parse(content, name), name)
        return node if not name.endswith(("start.json", "header.json")) else Node(node.fields(), name)
    except MessageError as error:
        return error


# --- one sample --------------------------------------------------------------------------------------------------


def _read_sample(document: Document, log: Node, node: Node) -> Reading:
    events = tuple(event for outer in node.children("events") for event in _nested(outer))
    sample = _Sample(log.child("eval"), node, events, _limit(node, events))
    ended_at = _ended_at(log, sample)
    event = imported(_event(document, sample, ended_at))
    yield event
    label = sample.limit.text("type") or ("error" if node.at("error").value is not None else log.text("status"))
    if label:
        yield imported(legacy_exit(event.record, dispatcher="inspect", label=label, decided_at=ended_at))


def _nested(event: Node) -> Iterator[Node]:
    yield event
    for inner in event.children("events"):
        yield from _nested(inner)


def _limit(node: Node, events: tuple[Node, ...]) -> Node:
    """Return the limit that ended the sample, from its own field or else from its last event of that kind."""
    limits = [event for event in events if event.text("event") == "sample_limit"]
    return limits[-1] if limits and not node.at("limit").value else node.child("limit")


def _event(document: Document, sample: _Sample, ended_at: str | None) -> dict[str, Any]:
    evaluation, node, identity, calls = sample.evaluation, sample.node, _identity(sample), _calls(sample)
    return terminal_event(
        document,
        source=ADAPTER.name,
        identity=identity,
        run_id=node.text("uuid") or ":".join(part for part in identity if part) or document.name,
        agent_id=evaluation.text("solver") or evaluation.text("model") or ADAPTER.name,
        workflow=evaluation.text("task"),
        occurred_at=ended_at,
        request={"request_ref": _id(node), "prose": _question(node)},
        model=_model(sample),
        policy_decisions=_decisions(sample, calls),
        tool_calls=calls,
        budget=_budget(sample, calls),
        steps=[
            {"action_key": action_key(call["tool"] or "", call["arguments"])} for call in calls if call["arguments"]
        ],
        completion=_completion(node, calls),
        extensions={"import.record": node.path},
    )


def _identity(sample: _Sample) -> list[str]:
    """Return evaluation, task, sample and epoch: the same in both forms of the log. A sample without an id goes by its
    place in the log, since several would be one."""
    evaluation, node = sample.evaluation, sample.node
    ids = [evaluation.text("run_id"), evaluation.text("task_id"), _id(node) or node.path, node.whole("epoch")]
    return ["" if part is None else str(part) for part in ids]


def _id(node: Node) -> str | None:
    """Return the sample's id, which is a number or a text."""
    return str(node.whole("id")) if isinstance(node.at("id").value, int | float) else node.text("id")


def _ended_at(log: Node, sample: _Sample) -> str | None:
    """Return the end of the sample; without it the latest of its events; without any the end of the evaluation."""
    if completed := _time(sample.node, "completed_at"):
        return completed
    times = [time for event in sample.events if (time := _time(event, "timestamp"))]
    return max(times) if times else _time(log.child("stats"), "completed_at")


def _time(node: Node, key: str) -> str | None:
    text = node.text(key)
    return iso_time(text, node.at(key).path) if text else None


def _question(node: Node) -> str | None:
    if isinstance(node.at("input").value, str):
        return _resolved(node, node.text("input"))
    users = [turn for turn in node.children("input") if turn.text("role") == "user"]
    return _resolved(node, content_text(users[-1].at("content"))) if users else None


def _resolved(node: Node, text: str | None) -> str | None:
    """Replace a reference to an attachment by what is attached; a dangling one stays."""
    if text is None or not text.startswith(_ATTACHMENT):
        return text
    return node.child("attachments").text(text.removeprefix(_ATTACHMENT)) or text


# --- how it ended ------------------------------------------------------------------------------------------------


def _model(sample: _Sample) -> dict[str, Any] | None:
    node, stopped = sample.node, _stopped(sample)
    if "output" not in node.fields() and not stopped:
        return None
    signal, output = sample.choice.text("stop_reason"), node.child("output")
    usage = output.child("usage")
    return {
        "provider": _provider(sample.evaluation),
        "model": output.text("model") or sample.evaluation.text("model"),
        "stop_signal": stopped[0] if stopped else signal,
        "stop_class": stopped[1] if stopped else _stop_class(signal),
        "refusal_category": sample.choice.child("stop_details").text("category"),
        "input_tokens": usage.whole("input_tokens"),
        "output_tokens": usage.whole("output_tokens"),
        "prose": _resolved(node, content_text(sample.choice.child("message").at("content"))),
    }


def _provider(evaluation: Node) -> str | None:
    provider, slash, _ = (evaluation.text("model") or "").partition("/")
    return provider if slash else None


def _stop_class(signal: str | None) -> str:
    return "absent" if signal is None else _STOPS.get(signal, "unknown")


def _stopped(sample: _Sample) -> tuple[str | None, str] | None:
    """Return signal and class of a stop from outside of the model: an error, an operator, a custom limit."""
    if sample.node.at("error").value is not None:
        return None, "error"
    kind = sample.limit.text("type")
    return None if kind is None or kind in _BUDGETS else (kind, "unknown")


def _budget(sample: _Sample, calls: list[dict[str, Any]]) -> dict[str, Any]:
    config, models = sample.evaluation.child("config"), sample.node.child("model_usage")
    usages = [models.child(model) for model in models.fields()]
    tokens = [count for usage in usages if (count := usage.whole("total_tokens")) is not None]
    costs = [cost for usage in usages if (cost := usage.number("total_cost")) is not None]
    kind = sample.limit.text("type")
    token_limit = sample.limit.whole("limit") if kind == "token" else config.whole("token_limit")
    cost_limit = sample.limit.number("limit") if kind == "cost" else config.number("cost_limit")
    return {
        "tool_calls": {"used": len(calls)},
        "tokens": {"used": sum(tokens) if tokens else None, "limit": token_limit},
        "cost_micros": {"used": cost_micros(sum(costs)) if costs else None, "limit": cost_micros(cost_limit)},
        "exhausted": _exhausted(sample, calls),
    }


def _exhausted(sample: _Sample, calls: list[dict[str, Any]]) -> list[str]:
    if (kind := sample.limit.text("type")) in _BUDGETS:
        return [_BUDGETS[kind]]
    if sample.choice.text("stop_reason") == "model_length":
        return ["context"]
    # A tool's own limit ended the run only if nothing was called after it.
    return ["unknown"] if calls and calls[-1].get("error_class") == "limit" else []


def _completion(node: Node, calls: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the scores as a predicate that was evaluated after the run, and the agent's explicit submission."""
    claimed = any(call["tool"] == "submit" and call["outcome"] == "ok" for call in calls)
    scores = node.child("scores")
    results = {_verdict(scores.child(name)) for name in scores.fields()}
    if not results:
        return {"claimed": True, "result": "not_evaluated"} if claimed else None
    predicate = "inspect:" + "+".join(sorted(scores.fields()))
    return {"claimed": claimed or None, "predicate_id": predicate, "result": _overall(node, results)}


def _verdict(score: Node) -> str:
    value = score.at("value").value
    return _VERDICTS.get(value, "unverifiable") if isinstance(value, str | int | float) else "unverifiable"


def _overall(node: Node, results: set[str]) -> str:
    """Return the verdict of all scorers together: the worst one; that of a sample declared invalid counts nothing."""
    if node.at("invalidation").value is not None:
        return "unverifiable"
    return next(result for result in ("unsatisfied", "unverifiable", "satisfied") if result in results)


# --- tool calls and approvals ------------------------------------------------------------------------------------


def _calls(sample: _Sample) -> list[dict[str, Any]]:
    """Return the calls of the events, then what the messages alone know of."""
    approvals = sample.of_kind("approval")
    calls = [_event_call(sample.node, event, approvals) for event in sample.of_kind("tool")]
    calls += _message_calls(sample.node, {call["call_id"] for call in calls})
    seen: dict[str, int] = {}
    for call in calls:
        # Some providers count their ids anew in every turn; two calls are never attempts of one operation for that.
        number = seen[call["call_id"]] = seen.get(call["call_id"], 0) + 1
        call["operation_id"] = call["call_id"] if number == 1 else f"{call['call_id']}#{number}"
    return calls


def _event_call(node: Node, event: Node, approvals: list[Node]) -> dict[str, Any]:
    call = _call(event.text("id"), event.text("function"), event.at("arguments"))
    own = [approval for approval in approvals if approval.child("call").text("id") == event.text("id")]
    before = [approval for approval in own if approval.text("stage") != "result"]
    # The event is opened before anyone is asked, so that a call starts no earlier than its last approval.
    times = [_time(entry, "timestamp") for entry in (event, *before)]
    return {
        **call,
        **_outcome(event, late=len(before) < len(own)),
        "started_at": max((time for time in times if time), default=None),
        "duration_ms": _milliseconds(event),
        **response(_result(node, event)),
    }


def _milliseconds(event: Node) -> int | None:
    seconds = event.number("working_time")
    if seconds is not None and not 0 <= seconds < INT64_MAX // 1000:
        event.at("working_time").fail("the duration does not fit 64 bits", ErrorCode.OUT_OF_RANGE)
    return None if seconds is None else round(seconds * 1000)


def _call(call_id: str | None, tool: str | None, arguments: Node) -> dict[str, Any]:
    text = None if arguments.value is None else json_text(arguments.value)
    return {"call_id": call_id or "", "tool": tool, "access": "unknown", "arguments": text}


def _outcome(node: Node, *, late: bool = False) -> dict[str, Any]:
    """Return the outcome of a tool event or tool message; ``late`` says that its result was put to an approver too."""
    if node.flag("pending"):
        return {"outcome": "unknown"}
    if node.at("error").value is None:
        return {"outcome": "error", "error_class": "failed"} if node.flag("failed") else {"outcome": "ok"}
    kind = node.child("error").text("type") or "unknown"
    if kind == "approval" and late:
        return {"outcome": "unknown", "error_class": kind}
    outcome, error_class = _TOOL_ERRORS.get(kind, ("error", kind))
    return {"outcome": outcome, "error_class": error_class}


def _result(node: Node, event: Node) -> str | None:
    result = event.at("result")
    if result.value is None:
        return None
    return _resolved(node, content_text(result)) if isinstance(result.value, str | list) else json_text(result.value)


def _message_calls(node: Node, known: set[str]) -> list[dict[str, Any]]:
    """Return the calls without an event. One without a result either may have been started: its outcome is unknown."""
    messages = node.children("messages")
    requests = {_request_id(call): call for turn in messages for call in turn.children("tool_calls")}
    answers = [turn for turn in messages if turn.text("role") == "tool"]
    answered = {answer.text("tool_call_id") or "" for answer in answers}
    calls = [_answered(node, answer, requests) for answer in answers if answer.text("tool_call_id") not in known]
    open_ids = [call_id for call_id in requests if call_id not in known | answered]
    return calls + [_requested(requests[call_id]) | {"outcome": "unknown"} for call_id in open_ids]


def _request_id(call: Node) -> str:
    return call.text("id") or ""


def _requested(call: Node) -> dict[str, Any]:
    return _call(call.text("id"), call.text("function"), call.at("arguments"))


def _answered(node: Node, answer: Node, requests: dict[str, Node]) -> dict[str, Any]:
    call_id = answer.text("tool_call_id") or ""
    call = _call(call_id, answer.text("function"), requests.get(call_id, Node({})).at("arguments"))
    return call | _outcome(answer) | response(_resolved(node, content_text(answer.at("content"))))


def _decisions(sample: _Sample, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the approvers' decisions about calls; one about a result hides what was done and denies nothing."""
    asked = [event for event in sample.of_kind("approval") if event.text("stage") != "result"]
    decisions = [_decision(number, event) for number, event in enumerate(asked, 1)]
    denied = {decision["operation_id"] for decision in decisions if decision["effect"] == "deny"}
    return decisions + [
        _denial(call) for call in calls if call["outcome"] == "denied" and call["call_id"] not in denied
    ]


def _decision(number: int, event: Node) -> dict[str, Any]:
    approver, at = event.text("approver"), _time(event, "timestamp")
    effect, state = _DECISIONS.get(event.text("decision") or "", ("unknown", "unknown"))
    call = event.child("modified") if event.child("modified").value else event.child("call")
    return {
        "decision_id": event.text("uuid") or f"approval-{number}",
        "policy_id": approver,
        "source": "approver",
        "operation_id": event.child("call").text("id"),
        "effect": effect,
        "decided_at": at,
        "attempted_action": {"tool": call.text("function"), "arguments": _requested(call)["arguments"]},
        "approval": {"state": state, "approver": approver, "resolved_at": None if state == "requested" else at},
    }


def _denial(call: dict[str, Any]) -> dict[str, Any]:
    """Return the denial that only the tool's own error tells of."""
    return {
        "decision_id": f"denied-{call['operation_id']}",
        "source": "approver",
        "operation_id": call["operation_id"],
        "effect": "deny",
        "attempted_action": {"tool": call["tool"], "arguments": call["arguments"]},
        "approval": {"state": "denied"},
    }


ADAPTER = Adapter(
    name="inspect",
    title="Inspect evaluation logs (.eval and .json)",
    cannot_tell=(
        "what a tool may change: every tool counts as a write",
        "whether a call without an event and without a result was started: its outcome is unknown",
        "whether an agent claims completion, unless it calls a tool named submit",
        "what a permission error was about: it is read as missing authority, before any effect",
        "what earlier attempts of a sample did that was retried after an error",
        "anything about a sample from the header: its status is that of the evaluation, not of the run",
        "how far a scorer can be trusted: a score is read as a predicate evaluated after the run, a model's grade too",
        "what a score means that is not plainly right or wrong (C, I, 1, 0, true, false): it is unverifiable",
    ),
    recognises=_recognises,
    read=_read,
)
