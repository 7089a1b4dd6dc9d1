import json

import pytest

from schemas.errors import ErrorCode
from sources.base import Document
from sources.registry import recognised
from sources.whissle import ADAPTER
from tests.sources.kit import (
    DATA,
    broken,
    golden_lines,
    golden_path,
    read_json,
    records,
    reworded,
    satisfied,
    without_words,
)

FILES = sorted((DATA / "whissle").glob("*.json"))
SAMPLES = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in FILES}
FLOW, WROTE = SAMPLES["cs_feature_question"], SAMPLES["medagentbench_task10_1"]
DIED, INVALID = SAMPLES["medagentbench_task4_2"], SAMPLES["medagentbench_task3_4"]
CLINIC, PATIENT = SAMPLES["agentclinic_MedQA-2"], SAMPLES["patientagentbench_cf4a450a"]


def only(value):
    (event,) = records(read_json(ADAPTER, value))
    return event


def label(value):
    return [record["label"] for record in records(read_json(ADAPTER, value), "legacy_exit")]


def calls(event):
    return [(call["tool"], call["access"], call["outcome"]) for call in event["tool_calls"]]


def with_write(**fields):
    return {**WROTE, "write_attempts": [{**WROTE["write_attempts"][0], **fields}]}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden(path):
    assert golden_lines(ADAPTER, path) == golden_path(ADAPTER, path).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_recognised(path):
    assert recognised(Document(path.name, path.read_bytes())) == (ADAPTER,)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_wrong_types_anywhere_are_errors_and_nothing_else(path):
    # Its diagnostics repeat the record; of them only these are read.
    value = SAMPLES[path.stem]
    seen = {key: value["diagnostics"][key] for key in ("provenance", "tools") if key in value.get("diagnostics", {})}
    may_be = satisfied(read_json(ADAPTER, value))
    for changed in broken({**value, "diagnostics": seen} if seen else value):
        items = read_json(ADAPTER, changed)
        assert items
        assert may_be or not satisfied(items)


WORDS = frozenset(
    {"agent", "user", "goal", "detail", "task_success_reason", "infra_reason", "observation", "agent_reply", "text"}
    | {"content", "reply", "reason", "explanation", "summary", "said_evidence", "instruction", "error", "evidence"}
)


@pytest.mark.parametrize("name", SAMPLES)
def test_words_change_nothing(name):
    def facts(value):
        event = without_words(only(value))
        # Records without a run id are told apart by their content.
        return {key: event[key] for key in event if key not in ("event_id", "run_id")}

    assert facts(reworded(SAMPLES[name], WORDS)) == facts(SAMPLES[name])


# --- flow sessions


def test_flow_that_ended_without_success_claims_completion():
    event = only(FLOW)
    assert event["completion"] == {
        "claimed": True,
        "predicate_id": "whissle.task_success",
        "result": "unsatisfied",
    }
    assert label(FLOW) == ["user_done"]
    assert event["occurred_at"] == "2026-08-07T01:21:41.000000Z"


def test_only_the_turn_cap_is_a_spent_budget():
    assert only({**FLOW, "end_reason": "turn_cap"})["budget"] == {"turns": {"used": 7}, "exhausted": ["turns"]}
    assert "exhausted" not in only({**FLOW, "end_reason": "post_goal_allowance_exhausted"})["budget"]


def test_failed_infrastructure_is_a_failed_dependency():
    event = only(SAMPLES["dental_reschedule"])
    assert calls(event) == [("provider.call", "read", "unavailable")]
    assert event["completion"]["result"] == "not_evaluated"
    assert label(SAMPLES["dental_reschedule"]) == []


def test_credit_that_ran_out_is_only_in_words_and_stays_unknown():
    event = only(SAMPLES["debt_hardship"])
    assert "tool_calls" not in event
    assert "model" not in event


def test_session_file_holds_the_session_under_outcome():
    assert only({"outcome": FLOW, "flow_trace": []}) == only(FLOW)


def test_used_tools_are_known_by_name_only():
    turns = [{**FLOW["turns"][0], "tools_used": ["lookup", {"name": "refund"}]}]
    assert calls(only({**FLOW, "turns": turns})) == [
        ("lookup", "unknown", "unknown"),
        ("refund", "unknown", "unknown"),
    ]


# --- MedAgentBench


def test_verified_write_is_confirmed_by_reading_back():
    event = only(WROTE)
    (effect,) = event["side_effects"]
    assert (effect["status"], effect["verified_by"]) == ("confirmed", "read_back")
    assert effect["target"] == "ServiceRequest/786006"
    assert effect["operation_id"] == event["tool_calls"][1]["operation_id"]
    assert calls(event) == [("GET", "read", "unknown"), ("POST", "write", "ok")]
    assert event["completion"] == {"claimed": True, "predicate_id": "medagentbench.correct", "result": "unsatisfied"}


def test_verified_write_before_the_provider_died_keeps_both():
    """No recorded run of this kind is small enough to ship, so two records are joined: the run that died, the write."""
    joined = {**DIED, "turns": DIED["turns"] + [WROTE["turns"][1]], "write_attempts": WROTE["write_attempts"]}
    event = only(joined)
    assert calls(event)[2:] == [("POST", "write", "ok"), ("provider.call", "read", "unavailable")]
    assert [(entry["status"], entry["verified_by"]) for entry in event["side_effects"]] == [("confirmed", "read_back")]
    assert event["model"]["stop_class"] == "absent"
    assert event["completion"] == {
        "claimed": False,
        "predicate_id": "medagentbench.correct",
        "result": "not_evaluated",
    }
    assert label(joined) == ["infra_fail"]


@pytest.mark.parametrize(
    ("fields", "outcome", "effect"),
    [
        ({"verified_write": None}, "ok", ("confirmed", "provider_ack")),
        ({"verified_write": False}, "ok", ("ambiguous", "none")),
        ({"accepted": False, "status_code": 422}, "error", None),
        ({"accepted": None, "status_code": None}, "unknown", None),
    ],
)
def test_write_attempts(fields, outcome, effect):
    event = only(with_write(**fields))
    assert calls(event)[1] == ("POST", "write", outcome)
    found = [(entry["status"], entry["verified_by"]) for entry in event.get("side_effects", [])]
    assert found == ([effect] if effect else [])


def test_write_without_its_attempt_and_attempt_without_its_turn_are_both_kept():
    assert calls(only({**WROTE, "write_attempts": []}))[1] == ("POST", "write", "unknown")
    assert calls(only({**WROTE, "turns": []})) == [("POST", "write", "ok")]


def test_invalid_action_is_malformed_and_sent_nothing():
    event = only(INVALID)
    assert calls(event) == [("invalid", "unknown", "malformed")]
    assert event["tool_calls"][0]["effect_possible"] is False
    assert label(INVALID) == ["agent_invalid_action"]


def test_ok_flag_of_a_read_is_its_outcome():
    assert [call["outcome"] for call in only(DIED)["tool_calls"]] == ["ok", "ok", "unavailable"]


def test_words_about_a_write_that_was_never_sent_contradict_the_store():
    said = {**INVALID, "integrity": {"said_not_emitted": True}}
    assert only(said)["contradictions"] == [
        {"subject": "write", "sources": ["agent", "record store"], "resolved": False}
    ]


def test_round_limit_is_a_spent_budget():
    assert only({**INVALID, "status": "task_limit_reached"})["budget"]["exhausted"] == ["turns"]


# --- PatientAgentBench and AgentClinic


@pytest.mark.parametrize(
    ("verdicts", "result"), [([True, True], "unverifiable"), ([True, False], "unsatisfied"), ([], "not_evaluated")]
)
def test_rubric_can_fail_a_run_and_never_verifies_one(verdicts, result):
    rubric = {str(index): {"pass": verdict} for index, verdict in enumerate(verdicts)}
    event = only({**PATIENT, "status": "scored", "evaluation": {"rubric_results": rubric}})
    assert event["completion"]["result"] == result


def test_failed_patient_case_is_a_failed_dependency():
    event = only(PATIENT)
    assert calls(event) == [("provider.call", "read", "unavailable")]
    assert event["model"]["stop_class"] == "absent"
    assert label(PATIENT) == ["infra_fail"]


def test_diagnosis_is_the_claim_and_its_correctness_the_predicate():
    event = only(CLINIC)
    assert (event["model"]["stop_signal"], event["model"]["stop_class"]) == ("end_turn", "end")
    assert event["completion"] == {
        "claimed": True,
        "predicate_id": "agentclinic.correctness",
        "result": "satisfied",
    }


def test_refusal_found_in_words_is_not_read():
    declined = {**CLINIC, "score": {**CLINIC["score"], "declined": True, "decline_source": "pattern"}}
    assert without_words(only(declined))["model"] == without_words(only(CLINIC))["model"]


def test_spent_inferences_without_a_diagnosis_are_a_spent_budget():
    asked = [{**turn, "kind": "question"} for turn in CLINIC["doctor_turns"]]
    event = only({**CLINIC, "inferences_used": 20, "doctor_turns": asked})
    assert event["budget"] == {"turns": {"used": 20, "limit": 20}, "exhausted": ["turns"]}


@pytest.mark.parametrize(("signal", "stop_class"), [(None, "absent"), ("SAFETY", "filtered"), ("new", "unknown")])
def test_stop_reasons(signal, stop_class):
    turns = [{**CLINIC["doctor_turns"][-1], "stop_reason": signal}]
    assert only({**CLINIC, "doctor_turns": turns})["model"]["stop_class"] == stop_class


# --- what is no record


def test_truncated_or_foreign_file_is_one_error():
    data = FILES[0].read_bytes()
    for text, code in ((data[:-9], ErrorCode.BAD_JSON), (b"", ErrorCode.BAD_JSON), (b"{}", ErrorCode.MISSING_FIELD)):
        (error,) = ADAPTER.read(Document("x", text))
        assert error.code == code
