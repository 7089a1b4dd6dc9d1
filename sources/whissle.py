"""Whissle voice-support benchmark: flow sessions, and by :mod:`sources.whissle_health` its three health benchmarks.

A flow session is a simulated phone call. ``ended`` (the flow reached its end) is the agent's claim of completion,
``task_success`` the benchmark's evaluation after the call and thus the completion predicate, ``end_reason`` the
harness's verdict (legacy exit), of which only ``turn_cap`` names a budget. ``infra_fail`` is a failed dependency; what
failed is only in the words of a finding.
"""

from collections.abc import Sequence
from typing import Any

from schemas.errors import ErrorCode
from sources import whissle_health
from sources.base import (
    Adapter,
    Document,
    Node,
    Reading,
    guarded,
    imported,
    iso_time,
    json_text,
    legacy_exit,
    parse,
    terminal_event,
)


def _tool_calls(session: Node, turns: Sequence[Node]) -> list[dict[str, Any]]:
    used = [tool for turn in turns for tool in turn.children("tools_used")]
    calls = [_tool_call(str(index), tool) for index, tool in enumerate(used)]
    return calls + ([whissle_health.provider_failure()] if session.flag("infra_fail") else [])


def _tool_call(call_id: str, used: Node) -> dict[str, Any]:
    """Return a call of which no more than the name is known, each its own operation."""
    name = used.text("name") if isinstance(used.value, dict) else used.as_text()
    return {"call_id": call_id, "operation_id": call_id, "tool": name, "access": "unknown", "outcome": "unknown"}


def _budget(session: Node) -> dict[str, Any]:
    capped = session.text("end_reason") == "turn_cap"
    return {"turns": {"used": session.whole("num_turns")}, "exhausted": ["turns"] if capped else []}


def _extensions(session: Node) -> dict[str, str]:
    found = {
        "whissle.task_id": session.text("task_id"),
        "whissle.agent": session.text("agent_id"),
        "whissle.states_visited": json_text(session.at("states_visited").value),
        "whissle.findings": json_text([finding.text("type") for finding in session.children("findings")]),
    }
    return {key: value for key, value in found.items() if value is not None}


def _flow(document: Document, root: Node) -> Reading:
    session = root.child("outcome") if "outcome" in root.fields() else root
    turns, started = session.children("turns"), session.text("ts")
    run_id = session.text("conversation_id") or session.text("voice_room") or session.need_text("task_id")
    event = terminal_event(
        document,
        source="whissle",
        identity=("flow", run_id, started or ""),
        run_id=run_id,
        agent_id=session.text("agent_type") or "whissle",
        occurred_at=None if started is None else iso_time(started, session.at("ts").path),
        workflow=session.text("scenario"),
        request={"goal": session.text("task_id"), "prose": session.text("goal")},
        model={"stop_class": "unknown", "prose": turns[-1].text("agent")} if turns else None,
        tool_calls=_tool_calls(session, turns),
        budget=_budget(session),
        completion={
            "claimed": session.flag("ended"),
            "predicate_id": "whissle.task_success",
            "result": whissle_health.predicate(session.flag("task_success")),
        },
        extensions=_extensions(session),
    )
    yield imported(event)
    label = session.text("end_reason")
    if label is not None:
        yield imported(legacy_exit(event, dispatcher="whissle", label=label, decided_at=event["occurred_at"]))


_READERS = {
    "end_reason": _flow,
    "outcome": _flow,
    "eval_mrn": whissle_health.medagentbench,
    "rubric_scores": whissle_health.patientagentbench,
    "max_inferences": whissle_health.agentclinic,
}


def _read(document: Document) -> Reading:
    root = Node(parse(document.data))
    reader = next((reader for key, reader in _READERS.items() if key in root.fields()), None)
    if reader is None:
        root.fail("this is no record of a Whissle benchmark", ErrorCode.MISSING_FIELD)
    yield from reader(document, root)


def _recognises(_name: str, head: bytes) -> bool:
    marks = (
        (b'"goal_met_turn"', b'"end_reason"'),
        (b'"eval_mrn"',),
        (b'"rubric_scores"', b'"case_id"'),
        (b'"max_inferences"', b'"scenario_id"'),
    )
    return head.lstrip().startswith(b"{") and any(all(key in head for key in keys) for keys in marks)


ADAPTER = Adapter(
    name="whissle",
    title="Whissle benchmarks: flow sessions, MedAgentBench, PatientAgentBench, AgentClinic",
    cannot_tell=(
        "how the model stopped, except in AgentClinic",
        "what failed when the infrastructure failed: that is only in words, and so is a spent credit",
        "whether a call that ended in the flow state transfer_human reached a person",
        "when a session ended: its only time is the stamp of its start; some records have none",
        "the outcome of a tool call, except of MedAgentBench's requests",
        "that the model declined: AgentClinic finds it by patterns in the words, which are not read",
        "how far to trust task_success and AgentClinic's correctness: a judge model decides them",
    ),
    recognises=_recognises,
    read=guarded(_read),
)
