"""``offramp shadow label``: what people decided becomes labelled events, which ``offramp table test`` runs."""

import json

import pytest

from classifier.table import default_text
from tests.cases import load_cases
from tests.offramp.kit import companion, new_directory, run, write_lines

COMPLETED = [case for case in load_cases() if case.kind == "completed" and not case.verified][:3]
VERIFIED = next(case for case in load_cases() if case.kind == "completed" and case.verified)
DENIED = next(case for case in load_cases() if case.kind == "refusal")
AMBIGUOUS = next(case for case in load_cases() if case.id == "mutation_timeout_before_acknowledgement-base")


def about(case, kind, number, **fields):
    whose = {name: case.json[name] for name in ("tenant", "event_id")}
    return companion(kind, number, **whose, **fields)


@pytest.fixture(scope="module")
def store():
    directory = new_directory()
    cases = [*COMPLETED, VERIFIED, DENIED, AMBIGUOUS]
    labels = ["ticket", "ticket", "ok", "ticket", "ok", "ok"]
    exits = [
        about(case, "legacy_exit", number, dispatcher="old", label=label)
        for number, (case, label) in enumerate(zip(cases, labels, strict=True))
    ]
    actions = [
        about(COMPLETED[0], "recovery_action", 0, action="overrode"),
        about(COMPLETED[2], "recovery_action", 1, action="overrode"),
        about(DENIED, "recovery_action", 2, action="rejected"),
        about(AMBIGUOUS, "recovery_action", 3, action="reconciled"),
    ]
    path = write_lines(directory / "runs.jsonl", [*(case.json for case in cases), *exits, *actions])
    done = run("classify", path, "--store", directory / "store")
    assert done.status == 0, done.err
    return directory / "store"


def label(store, *arguments):
    return run("shadow", "label", *arguments, "--store", store)


def test_disagreements_that_were_reviewed_are_written_and_nothing_else(store):
    done = label(store)
    assert done.status == 0, done.err
    by_id = {record["id"]: record for record in done.lines}
    reviewed = (COMPLETED[0], DENIED, AMBIGUOUS)
    assert set(by_id) == {f"{case.json['tenant']}/{case.json['event_id']}" for case in reviewed}
    assert "events: labelled 2, to be labelled 1, erased 0" in done.err


def test_what_operators_support_is_the_label_and_what_they_contradict_has_none(store):
    by_event = {record["event"]["event_id"]: record for record in label(store).lines}
    denied = by_event[DENIED.json["event_id"]]
    assert denied["expect"]["kind"] == "refusal"
    assert set(denied["prohibited"]) >= DENIED.prohibited
    assert denied["comment"]["actions"] == ["rejected"]
    overridden = by_event[COMPLETED[0].json["event_id"]]
    assert (overridden["expect"], overridden["prohibited"]) == (None, None)
    assert overridden["comment"]["table_says"]["kind"] == "completed"
    assert overridden["comment"]["recovery"] == "contradicts"


def outcome(path, *arguments):
    done = run("table", "test", path, "--format", "json", *arguments)
    return done.status, json.loads(done.text)["fates"]


def test_the_output_is_what_table_test_runs(store, tmp_path):
    cases = tmp_path / "cases.jsonl"
    assert label(store, "-o", cases).status == 0
    assert outcome(cases) == (0, {"passed": 2, "failed": 0, "unlabelled": 1})


def test_a_kind_that_a_reviewer_names_fails_until_the_table_gives_it(store, tmp_path):
    cases, table = tmp_path / "cases.jsonl", tmp_path / "mine.toml"
    event_id = COMPLETED[0].json["event_id"]
    assert label(store, event_id, "--expect", "human_queue", "-o", cases).status == 0
    assert outcome(cases) == (1, {"passed": 0, "failed": 1, "unlabelled": 0})
    mended = default_text().replace('unverified_completion = "completed"', 'unverified_completion = "human_queue"')
    table.write_text(mended, "utf-8")
    assert outcome(cases, "--table", table) == (0, {"passed": 1, "failed": 0, "unlabelled": 0})


def test_a_named_completion_is_verified_where_its_predicate_holds(store, tmp_path):
    cases = tmp_path / "cases.jsonl"
    for case in (VERIFIED, COMPLETED[1]):
        assert label(store, case.json["event_id"], "--expect", "completed", "-o", cases).status == 0
        assert json.loads(cases.read_text("utf-8"))["expect"]["verified"] is case.verified
        assert outcome(cases)[0] == 0


def test_a_kind_that_the_evidence_rules_out_is_no_label(store):
    done = label(store, DENIED.json["event_id"], "--expect", "completed")
    assert done.status == 1
    assert done.out == b""
    assert "can never be completed, whatever the table; its evidence leaves refusal." in done.err


def test_misuse_is_told(store, tmp_path):
    assert label(store, "--expect", "refusal").status == 2
    unknown = label(store, "'nobody")
    assert (unknown.status, "no run is compared at event 'nobody" in unknown.err) == (1, True)
    assert label(tmp_path / "none").status == 3
    assert label(store, "--until", "1990-01-01").out == b""


def test_erased_evidence_is_counted_and_cannot_be_written(tmp_path):
    exits = [about(DENIED, "legacy_exit", 0, dispatcher="old", label="ok")]
    actions = [about(DENIED, "recovery_action", 1, action="rejected")]
    path, place = write_lines(tmp_path / "runs.jsonl", [DENIED.json, *exits, *actions]), tmp_path / "store"
    assert run("classify", path, "--store", place).status == 0
    assert len(label(place).lines) == 1
    erased = run("erase", "--run", DENIED.json["tenant"], DENIED.json["run_id"], "--store", place)
    assert erased.status == 0, erased.err
    done = label(place)
    assert (done.out, "erased 1" in done.err) == (b"", True)
