"""``offramp explain`` of a run that the legacy dispatcher decided too: why both disagree, and what would help."""

import json

import pytest

from classifier.table import default_text
from tests.offramp.kit import as_lines, companion, new_directory, run, write_lines

ENDED = "2026-11-02T08:07:00Z"


def event(name, **blocks):
    head = {"type": "terminal_event", "version": 1, "event_id": name, "run_id": f"run-{name}", "tenant": "acme"}
    return head | {"agent_id": "claims", "occurred_at": ENDED} | blocks


def legacy(name, number, **fields):
    return companion("legacy_exit", number, event_id=name, dispatcher="old", **fields)


RUNS = [
    event("silent"),
    event("alone"),
    event("agreed", completion={"claimed": True, "result": "satisfied"}),
    event("odd"),
    event("early", policy_decisions=[{"effect": "deny", "source": "application"}]),
    event("apart", completion={"claimed": True, "result": "satisfied"}),
    event("failed", completion={"claimed": True, "result": "unsatisfied"}),
    {**event("first", completion={"claimed": True}), "run_id": "long", "segment": 0},
    {**event("last", completion={"claimed": True}), "run_id": "long", "segment": 1},
]
EXITS = [
    legacy("silent", 0, label="ok"),
    legacy("agreed", 1, label="done", http_status=200, decided_at=ENDED),
    legacy("odd", 2, label="a \x1b[2J word of its own"),
    legacy("early", 3, label="done", http_status=200, decided_at="2026-11-02T08:06:59Z"),
    legacy("failed", 4, label="done", http_status=200),
    legacy("apart", 7, label="done", http_status=201),
    legacy("last", 5, label="ticket"),
    legacy("last", 6, label="ok", decided_at="2026-11-02T09:00:00Z"),
]
DID = [companion("recovery_action", 0, event_id="failed", action="reconciled")]


@pytest.fixture(scope="module")
def store():
    directory = new_directory()
    path = write_lines(directory / "runs.jsonl", [*RUNS, *EXITS, *DID])
    done = run("classify", path, "--store", directory / "store")
    assert done.status == 0, done.err
    return directory / "store"


def explained(store, name, *arguments):
    done = run("explain", name, "--store", store, "--format", "json", *arguments)
    assert done.status == 0, done.err
    return json.loads(done.out)["pair"]


def page(store, name, *arguments):
    done = run("explain", name, "--store", store, *arguments)
    assert done.status == 0, done.err
    return " ".join(done.text.split())


def test_where_legacy_said_nothing_nothing_is_said(store):
    assert explained(store, "alone") is None
    assert "legacy" not in page(store, "alone")
    from_file = run("explain", "silent", "--file", "-", "--format", "json", stdin=as_lines(RUNS[:1]))
    assert json.loads(from_file.out)["pair"] is None


def test_missing_evidence_is_the_cause_and_what_would_make_both_agree(store):
    pair = explained(store, "silent")
    assert (pair["verdict"], pair["disagreement"], pair["owner"]) == (
        "disagree",
        "incompleteness_concealed",
        "consumers",
    )
    assert (pair["legacy"]["kind"], pair["legacy"]["label"]) == ("completed", "ok")
    assert pair["cause"]["name"] == "evidence missing"
    [step] = pair["cause"]["change"]
    assert (step["path"], step["before"], step["after"]["result"]) == ("completion", None, "satisfied")
    shown = page(store, "silent")
    assert "Beside the legacy dispatcher It said dispatcher old, label ok, which is completed." in shown
    assert "Cause: evidence missing. Both could agree if this were known: completion." in shown
    assert 'completion: {"claimed": true, "result": "satisfied"} instead of absent' in shown


def test_a_pair_that_agrees_has_no_cause(store):
    pair = explained(store, "agreed")
    assert (pair["verdict"], pair["disagreement"], pair["cause"]) == ("agree", "", None)
    assert pair["legacy"]["decided_at"] == "2026-11-02T08:07:00.000000Z"
    assert "Both agree." in page(store, "agreed")


def test_a_label_that_nobody_mapped_is_told_and_judged_by_nothing(store):
    pair = explained(store, "odd")
    assert (pair["verdict"], pair["legacy"]["kind"], pair["cause"]) == ("unmapped", "unmapped", None)
    shown = page(store, "odd")
    assert "nothing that the label mapping knows" in shown
    assert "\x1b" not in shown


def test_an_exit_from_before_the_end_is_late(store):
    pair = explained(store, "early")
    assert (pair["disagreement"], pair["cause"]["name"]) == ("denial_hidden", "late event")


def test_one_answer_for_two_kinds_of_runs_is_lossy_and_what_operators_did_is_shown(store):
    pair = explained(store, "failed")
    assert pair["cause"]["name"] == "legacy rule lossy"
    assert pair["cause"]["why"].endswith("is the same for completed (1), human_queue (1), refusal (1)")
    assert pair["cause"]["change"] == [{"path": "completion.result", "before": "unsatisfied", "after": "satisfied"}]
    assert (pair["actions"], pair["recovery"]) == (["reconciled"], "supports")
    assert "Operators and reviewers: reconciled. Of the exit, that is: supports." in page(store, "failed")


def test_a_run_is_compared_at_its_latest_segment(store):
    assert explained(store, "first")["compared_at"] == "last"
    assert "Event last ended a later segment of this run" in page(store, "first")
    pair = explained(store, "last")
    assert (pair["compared_at"], pair["legacy"]["contested"], pair["legacy"]["records"]) == (None, True, 2)
    assert pair["legacy"]["kind"] == "completed"
    assert "It has 2 exits of this run, of different kinds; this is the last." in page(store, "last")


def test_what_is_accepted_is_the_cause_while_it_stands(store, tmp_path):
    file, config = tmp_path / "accepted.toml", tmp_path / "offramp.toml"
    config.write_text(f"[shadow]\naccepted = {json.dumps(str(file))}\n", "utf-8")
    entry = '[[accepted]]\nlegacy_label = "ok"\nowner = "o"\nreason = "r"\nticket = "T-1"\nceiling = 1\n'
    file.write_text(f"{entry}expires = 2090-01-01\n", "utf-8")
    cause = explained(store, "silent", "--config", config)["cause"]
    assert (cause["name"], cause["why"]) == ("accepted", "o accepted it until 2090-01-01: r (T-1)")
    assert len(cause["change"]) == 1
    file.write_text(f"{entry}expires = 2020-01-01\n", "utf-8")
    assert explained(store, "silent", "--config", config)["cause"]["name"] == "evidence missing"
    file.unlink()
    assert run("explain", "silent", "--store", store, "--config", config).status == 2


def test_the_verdict_is_on_the_exit_that_is_explained(store, tmp_path):
    table = tmp_path / "mine.toml"
    text = default_text().replace('unverified_completion = "completed"', 'unverified_completion = "human_queue"')
    table.write_text(text, "utf-8")
    assert explained(store, "last")["verdict"] == "agree"
    strict = explained(store, "last", "--table", table)
    assert (strict["verdict"], strict["disagreement"]) == ("disagree", "incompleteness_concealed")
