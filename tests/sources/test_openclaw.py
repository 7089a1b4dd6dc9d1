import json
from typing import Any

import pytest

from sources.base import Document
from sources.openclaw import ADAPTER
from sources.registry import recognised
from tests.sources.harness import check_every_node, check_hostile_bytes, opened, read
from tests.sources.kit import DATA, golden_lines, golden_path, reworded, without_words

FILE = DATA / "openclaw" / "crux1-sample-telemetry.jsonl"


def line(kind: str, second: int, session: str = "s-1", **fields: Any) -> dict[str, Any]:
    return {"type": kind, "sessionKey": session, "agentId": "main", "ts": 1772831300000 + second * 1000, **fields}


def reply(second: int, reason: str | None = "stop", *calls: str) -> dict[str, Any]:
    parts = [{"type": "toolCall", "id": call, "name": "exec", "arguments": {"command": call}} for call in calls]
    content = [{"type": "text", "text": "Words."}, *parts]
    usage = {"input": 3, "output": 2, "totalTokens": 5, "cost": {"total": 0.25}}
    message = {"role": "assistant", "provider": "anthropic", "model": "opus", "usage": usage, "content": content}
    return message | {"stopReason": reason, "timestamp": 1772831300000 + second * 1000}


def result(call: str, second: int = 3, **fields: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": "out"}]
    message = {"role": "toolResult", "toolCallId": call, "isError": False, "content": content}
    return message | {"timestamp": 1772831300000 + second * 1000, **fields}


def ended(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return line("agent.end", 9, **{"durationMs": 8000, "success": True, "messages": list(messages), **fields})


def document(*lines: Any) -> Document:
    return Document("telemetry.jsonl", b"\n".join(json.dumps(each).encode() for each in lines))


def records(*lines: Any) -> list[dict[str, Any]]:
    found, errors = read(ADAPTER, document(*lines))
    assert errors == []
    return found


def outcome(**fields: Any) -> tuple[str, str | None]:
    call = records(ended(reply(2, "toolUse", "c-1"), result("c-1", **fields), reply(4)))[0]["tool_calls"][0]
    return call["outcome"], call.get("error_class")


def test_a_recorded_file_reads_as_its_golden_records() -> None:
    assert golden_lines(ADAPTER, FILE) == golden_path(ADAPTER, FILE).read_text(encoding="utf-8")


def test_a_recorded_file_is_recognised() -> None:
    assert recognised(opened(FILE)) == (ADAPTER,)


def test_an_end_is_a_run_and_its_success_is_the_verdict_and_no_claim() -> None:
    event, verdict = records(line("agent.start", 1, prompt="Do."), ended(reply(2)))
    assert event["request"]["prose"] == "Do."
    assert "completion" not in event
    assert (verdict["dispatcher"], verdict["label"]) == ("openclaw", "success=true")


def test_sessions_interleave_and_every_end_is_a_segment() -> None:
    other = line("agent.end", 2, "s-2", success=True, messages=[])
    events = [each for each in records(ended(), other, ended()) if each["type"] == "terminal_event"]
    assert [(each["run_id"], each["segment"]) for each in events] == [("s-1", 0), ("s-2", 0), ("s-1", 1)]


def test_messages_from_before_the_turn_belong_to_another_run() -> None:
    event = records(ended(reply(0, "toolUse", "old"), reply(2, "toolUse", "c-1"), reply(3)))[0]
    assert [call["call_id"] for call in event["tool_calls"]] == ["c-1"]
    assert event["budget"]["turns"]["used"] == 2


@pytest.mark.parametrize(
    ("reason", "stop_class"),
    [
        ("stop", "end"),
        ("length", "truncated"),
        ("toolUse", "tool_call"),
        ("error", "error"),
        ("aborted", "cancelled"),
        ("tomorrow", "unknown"),
        (None, "absent"),
    ],
)
def test_the_last_stop_reason_is_classed(reason: str | None, stop_class: str) -> None:
    model = records(ended(reply(1), reply(2, reason)))[0]["model"]
    assert (model.get("stop_signal"), model["stop_class"]) == (reason, stop_class)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ("ok", None)),
        ({"details": {"status": "completed", "exitCode": 0}}, ("ok", None)),
        ({"details": {"status": "completed", "exitCode": 1}}, ("error", "exit_code_1")),
        ({"details": {"status": "running"}}, ("unknown", None)),
        ({"isError": True}, ("error", "isError")),
        ({"isError": None}, ("unknown", None)),
    ],
)
def test_a_result_is_the_outcome(fields: dict[str, Any], expected: tuple[str, str | None]) -> None:
    assert outcome(**fields) == expected


def test_a_call_without_a_result_is_unknown() -> None:
    assert records(ended(reply(2, "toolUse", "c-1")))[0]["tool_calls"][0]["outcome"] == "unknown"


def test_without_messages_the_lines_of_tools_are_paired_in_order() -> None:
    starts = [line("tool.start", second, toolName="exec", params={"n": second}) for second in (1, 2, 3)]
    ends = [line("tool.end", second, toolName="exec", success=success) for second, success in ((4, True), (5, False))]
    calls = records(*starts, *ends, ended())[0]["tool_calls"]
    assert [call["outcome"] for call in calls] == ["ok", "error", "unknown"]


def test_a_session_without_an_end_has_an_absent_stop_and_no_verdict() -> None:
    (event,) = records(line("agent.start", 1), line("tool.start", 2, toolName="exec", params={}))
    assert event["model"] == {"stop_class": "absent"}
    assert event["tool_calls"][0]["outcome"] == "unknown"


def test_a_failed_end_without_messages_is_an_error() -> None:
    assert records(ended(success=False))[0]["model"]["stop_class"] == "error"


def test_a_spawned_session_is_stopped_only_if_its_end_stands_before() -> None:
    child = line("agent.end", 4, "child-1", success=True, messages=[])
    results = [result(f"c-{n}", details={"status": "accepted", "childSessionKey": f"child-{n}"}) for n in (1, 2)]
    parent = ended(reply(2, "toolUse", "c-1", "c-2"), *results, reply(5))
    event = next(each for each in records(child, parent) if each["run_id"] == "s-1")
    assert event["children"] == [{"run_id": "child-1", "state": "stopped"}, {"run_id": "child-2", "state": "unknown"}]


def test_one_bad_line_costs_only_itself() -> None:
    good, errors = read(ADAPTER, document(ended(), {"type": "agent.end"}, ended()))
    assert len([each for each in good if each["type"] == "terminal_event"]) == 2
    assert [error.path for error in errors] == ["line 2.sessionKey"]


def test_words_change_nothing_but_prose_and_responses() -> None:
    run = ended(reply(2, "toolUse", "c-1"), result("c-1"), reply(4))
    plain, other = (records(each)[0] | {"event_id": ""} for each in (run, reworded(run, frozenset({"text"}))))
    assert without_words(plain) == without_words(other)


def test_no_node_of_any_type_breaks_the_reader() -> None:
    spawned = {"status": "accepted", "exitCode": 0, "childSessionKey": "child-1"}
    check_every_node(ADAPTER, ended(reply(2, "toolUse", "c-1"), result("c-1", details=spawned), reply(4)))
    check_every_node(ADAPTER, line("tool.start", 2, toolName="exec", params={"n": 1}))


def test_damaged_files_cost_an_error() -> None:
    first = FILE.read_bytes().split(b"\n")[1]
    check_hostile_bytes(ADAPTER, Document("telemetry.jsonl", first))
