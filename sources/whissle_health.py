"""Whissle's health benchmarks, one record per file: MedAgentBench, PatientAgentBench, AgentClinic.

MedAgentBench runs against a real record store. A GET is a read and a POST a write, as HTTP defines them. Each write
attempt says whether the store accepted it and whether reading it back found it; that settles the ledger, whatever the
run says about itself. ``correct`` is a deterministic comparison after the run and becomes the completion predicate; so
does AgentClinic's ``correctness``, a comparison with the known diagnosis. PatientAgentBench has no known answer, only
a judge's rubric: that can fail a run, and cannot verify one.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from sources.base import (
    Document,
    Node,
    Reading,
    action_key,
    digest,
    imported,
    iso_time,
    json_text,
    legacy_exit,
    response,
    terminal_event,
)

_STOP_CLASSES = {
    **dict.fromkeys(("end_turn", "stop", "STOP", "stop_sequence"), "end"),
    **dict.fromkeys(("tool_use", "tool_calls"), "tool_call"),
    **dict.fromkeys(("max_tokens", "length", "MAX_TOKENS", "model_context_window_exceeded"), "truncated"),
    **dict.fromkeys(("refusal", "content_filter", "SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST"), "filtered"),
    "pause_turn": "paused",
}


def predicate(verdict: bool | None) -> str:  # noqa: FBT001 - it is the verdict itself, not an option
    """Return the predicate's result for an evaluation; None means that there was none."""
    return {True: "satisfied", False: "unsatisfied", None: "not_evaluated"}[verdict]


def provider_failure() -> dict[str, Any]:
    """Return the failed call of the model that ``infra_fail`` stands for."""
    name = "provider.call"
    return {"call_id": name, "operation_id": name, "tool": name, "access": "read", "outcome": "unavailable"}


def _event(document: Document, root: Node, name: str, case: str, **blocks: Any) -> dict[str, Any]:
    """Build the event of a record that has no run id: its content is its identity."""
    provenance = root.child("diagnostics").child("provenance")
    captured = provenance.text("captured_at")
    run_id = f"{case}/{digest(json_text(root.fields()))[-16:]}"
    return terminal_event(
        document,
        source="whissle",
        identity=(name, run_id),
        run_id=run_id,
        agent_id=provenance.text("agent_id") or "whissle",
        occurred_at=None if captured is None else iso_time(captured, provenance.at("captured_at").path),
        workflow=name,
        **blocks,
    )


def _exit(event: dict[str, Any], label: str | None) -> Reading:
    if label is not None:
        yield imported(legacy_exit(event, dispatcher=event["workflow"], label=label))


def _model(root: Node, words: str | None, stop_class: str | None) -> dict[str, Any]:
    """Return the model block; where the infrastructure failed, the last turn never stopped."""
    name = root.child("diagnostics").child("provenance").text("model")
    return {"model": name, "stop_class": stop_class, "prose": words}


# --- MedAgentBench -----------------------------------------------------------------------------------------------


def medagentbench(document: Document, root: Node) -> Reading:
    """Read one MedAgentBench record."""
    status, failed = root.text("status"), bool(root.flag("infra_fail"))
    turns = root.children("turns")
    calls = list(_requests(root, turns))
    words = turns[-1].text("agent_reply") if turns else None
    event = _event(
        document,
        root,
        "medagentbench",
        root.need_text("task_id"),
        request={"goal": root.text("task_id"), "prose": root.text("instruction")},
        model=_model(root, words, "absent" if failed else "unknown") if turns or failed else None,
        tool_calls=calls + ([provider_failure()] if failed else []),
        side_effects=[effect for attempt in root.children("write_attempts") for effect in _effects(attempt)],
        contradictions=_contradictions(root.child("integrity")),
        budget=_rounds(root, status),
        steps=[{"action_key": call["operation_id"]} for call in calls],
        completion=_graded(root, status),
    )
    yield imported(event)
    yield from _exit(event, status)


def _requests(root: Node, turns: Sequence[Node]) -> Iterator[dict[str, Any]]:
    """Yield the requests in order: a GET with its ``ok`` flag, a POST with its write attempt, where they exist."""
    logged = iter(root.child("diagnostics").child("tools").children("calls"))
    writes = iter(root.children("write_attempts"))
    for turn in turns:
        kind = turn.text("action_kind")
        if kind in ("get", "post"):
            entry = next(logged, Node({}))
            yield _get(turn, entry) if kind == "get" else _post(turn, next(writes, Node({})))
        elif kind != "finish":
            yield _no_request(turn, kind)
    yield from (_post(attempt, attempt) for attempt in writes)


def _request(turn: Node, tool: str) -> dict[str, Any]:
    url, payload = turn.text("url"), turn.at("payload").value
    return {
        "call_id": turn.path,
        "operation_id": action_key(tool, [url, payload]),
        "tool": tool,
        "arguments": json_text({"url": url, "payload": payload}),
        **response(turn.text("observation")),
    }


def _get(turn: Node, entry: Node) -> dict[str, Any]:
    outcome = {True: "ok", False: "error", None: "unknown"}[entry.flag("ok")]
    return {**_request(turn, "GET"), "access": "read", "outcome": outcome}


def _post(turn: Node, attempt: Node) -> dict[str, Any]:
    outcome = {True: "ok", False: "error", None: "unknown"}[attempt.flag("accepted")]
    status = attempt.whole("status_code")
    return {**_request(turn, "POST"), "access": "write", "outcome": outcome, "status_code": status}


def _no_request(turn: Node, kind: str | None) -> dict[str, Any]:
    """Return what was no request the harness knows: of an ``invalid`` one it is certain that nothing was sent."""
    invalid = kind == "invalid"
    return {
        "call_id": turn.path,
        "operation_id": turn.path,
        "tool": kind,
        "access": "unknown",
        "outcome": "malformed" if invalid else "unknown",
        "effect_possible": False if invalid else None,
        **response(turn.text("observation")),
    }


def _effects(attempt: Node) -> Iterator[dict[str, Any]]:
    """Yield the ledger entry of an accepted write: confirmed by reading back, or ambiguous if that did not find it."""
    if attempt.flag("accepted"):
        verified = attempt.flag("verified_write")
        created = attempt.text("created_id")
        yield {
            "operation_id": _request(attempt, "POST")["operation_id"],
            "tool": "POST",
            "status": "ambiguous" if verified is False else "confirmed",
            "target": None if created is None else f"{attempt.text('resource_type')}/{created}",
            "verified_by": {True: "read_back", False: "none", None: "provider_ack"}[verified],
        }


def _contradictions(integrity: Node) -> list[dict[str, Any]]:
    """Return the one that the benchmark found: the agent says that it acted, and no write was sent."""
    said = integrity.flag("said_not_emitted")
    return [{"subject": "write", "sources": ["agent", "record store"], "resolved": False}] if said else []


def _rounds(root: Node, status: str | None) -> dict[str, Any]:
    limit = root.child("diagnostics").child("provenance").whole("max_round")
    exhausted = ["turns"] if status == "task_limit_reached" else []
    return {"turns": {"used": root.whole("rounds"), "limit": limit}, "exhausted": exhausted}


def _graded(root: Node, status: str | None) -> dict[str, Any]:
    graded = root.at("grade").value is not None
    result = predicate(root.flag("correct") if graded else None)
    return {"claimed": status == "completed", "predicate_id": "medagentbench.correct", "result": result}


# --- PatientAgentBench -------------------------------------------------------------------------------------------


def patientagentbench(document: Document, root: Node) -> Reading:
    """Read one PatientAgentBench record; its tools are simulated, and what came of them is not recorded."""
    status = root.text("status")
    failed = status == "infra_fail"
    talk, case = root.children("transcript"), root.need_text("case_id")
    calls = [_simulated(call) for call in root.children("tool_calls")]
    said = [line.text("content") for line in talk if line.text("role") == "ai"]
    event = _event(
        document,
        root,
        "patientagentbench",
        case,
        request={
            "goal": root.child("scenario").text("task_type"),
            "prose": next((line.text("content") for line in talk if line.text("role") == "human"), None),
        },
        model=_model(root, said[-1] if said else None, "absent" if failed else "unknown") if said or failed else None,
        tool_calls=calls + ([provider_failure()] if failed else []),
        steps=[{"action_key": call["operation_id"]} for call in calls],
        budget={"turns": {"used": root.child("meta").whole("num_turns")}},
        completion={"predicate_id": "patientagentbench.rubric", "result": _rubric(root)},
    )
    yield imported(event)
    yield from _exit(event, status)


def _simulated(call: Node) -> dict[str, Any]:
    tool, arguments = call.text("name") or "", call.at("args").value
    return {
        "call_id": call.text("id"),
        "operation_id": action_key(tool, arguments),
        "tool": tool,
        "access": "unknown",
        "arguments": json_text(arguments),
        "outcome": "unknown",
    }


def _rubric(root: Node) -> str:
    """Return the predicate's result: a judge's opinion of quality may say no, and its yes proves nothing."""
    results = root.child("evaluation").child("rubric_results")
    verdicts = [results.child(part).flag("pass") for part in results.fields()]
    return "not_evaluated" if not verdicts else "unverifiable" if all(verdicts) else "unsatisfied"


# --- AgentClinic -------------------------------------------------------------------------------------------------


def agentclinic(document: Document, root: Node) -> Reading:
    """Read one AgentClinic record; committing to a diagnosis is the agent's claim of completion."""
    turns, score = root.children("doctor_turns"), root.child("score")
    failed = bool(root.flag("infra_fail"))
    last = turns[-1] if turns else Node({})
    claimed = last.text("kind") == "diagnosis"
    event = _event(
        document,
        root,
        "agentclinic",
        root.need_text("scenario_id"),
        request={"goal": root.text("scenario_id")},
        model=_clinic_model(root, last, failed=failed) if turns or failed else None,
        tool_calls=[provider_failure()] if failed else [],
        budget=_inferences(root, claimed=claimed),
        completion={
            "claimed": claimed,
            "predicate_id": "agentclinic.correctness",
            "result": predicate(None if failed else score.flag("correctness")),
        },
    )
    yield imported(event)
    yield from _exit(event, score.text("outcome"))


def _clinic_model(root: Node, last: Node, *, failed: bool) -> dict[str, Any]:
    signal, usage = last.text("stop_reason"), last.child("usage")
    stop_class = "absent" if failed or signal is None else _STOP_CLASSES.get(signal, "unknown")
    return {
        **_model(root, last.text("reply"), stop_class),
        "stop_signal": None if failed else signal,
        "input_tokens": usage.whole("input_tokens"),
        "output_tokens": usage.whole("output_tokens"),
    }


def _inferences(root: Node, *, claimed: bool) -> dict[str, Any]:
    """Return the budget of model turns, exhausted if all were used without a diagnosis."""
    used, limit = root.whole("inferences_used"), root.whole("max_inferences")
    spent = used is not None and limit is not None and used >= limit and not claimed
    return {"turns": {"used": used, "limit": limit}, "exhausted": ["turns"] if spent else []}
