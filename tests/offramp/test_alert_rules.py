"""``offramp alerts check`` and ``offramp alerts test``, as their users run them."""

import json

import pytest

from alerts.rules import default_text, load
from tests.offramp.kit import ROOT, run, run_alone, write_lines

EXAMPLE = ROOT / "examples" / "alert_rules_test.toml"


@pytest.fixture
def bad(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text(default_text().replace("threshold = 0.2", "threshold = 20"))
    return path


def test_the_shipped_rules_can_be_used():
    done = run_alone("alerts", "check", "--no-traffic", COLUMNS="80")
    assert done.status == 0, done.err
    assert max(map(len, done.text.splitlines())) <= 80
    rules = load(default_text())
    assert f"the shipped rules can be used: default 1, {len(rules.rules)} rules" in " ".join(done.text.split())
    assert all(rule.id in done.text for rule in rules.rules)


def test_a_file_that_cannot_be_used_ends_with_1_and_every_problem(bad):
    done = run("alerts", "check", bad)
    assert done.status == 1
    assert "rule 1 (refusal_rate): threshold: a share must be between 0 and 1" in " ".join(done.text.split())
    said = json.loads(run("alerts", "check", bad, "--format", "json").out)
    assert said["valid"] is False
    assert len(said["problems"]) >= 4


def test_a_file_that_is_not_there_ends_with_2(tmp_path):
    done = run("alerts", "check", tmp_path / "none.toml")
    assert (done.status, done.out) == (2, b"")
    assert "No such file" in done.err


def test_without_a_store_nothing_is_said_of_traffic(tmp_path):
    done = run("alerts", "check", "--store", tmp_path / "none", "--format", "json")
    assert done.status == 0
    assert json.loads(done.out)["warnings"] is None
    assert "nothing is stored yet" in done.err
    assert not (tmp_path / "none").exists()


def event(number, **fields):
    at = f"2026-01-05T{number // 60 % 24:02}:{number % 60:02}:00Z"
    return {
        "type": "terminal_event", "version": 1, "event_id": f"e{number}", "run_id": f"r{number}", "tenant": "acme",
        "agent_id": "refunds", "occurred_at": at, **fields,
    }  # fmt: skip


def test_rules_are_held_against_the_stored_traffic(tmp_path):
    events, store = write_lines(tmp_path / "events.jsonl", [event(n) for n in range(0, 300, 60)]), tmp_path / "store"
    assert run("classify", events, "--store", store).status == 0
    done = run("alerts", "check", "--since", "2026-01-01", "--store", store, "--format", "json")
    assert done.status == 0, done.err
    warnings = {(each["rule"], each["never"]): each for each in json.loads(done.out)["warnings"]}
    refusals = warnings["refusal_rate", "fires"]
    assert refusals["seen"] == 1
    assert refusals["scopes"][0]["scope"]["agent_id"] == "refunds"
    assert "the fullest window had 5" in refusals["scopes"][0]["reason"]
    shown = " ".join(run("alerts", "check", "--since", "2026-01-01", "--store", store).text.split())
    assert "warning: never fires for 1 of 1 scope, such as tenant acme, agent_id refunds: it needs 8 runs" in shown


def test_the_example_passes():
    done = run_alone("alerts", "test", EXAMPLE)
    assert done.status == 0, done.err
    assert "7 of 7 tests passed, of rules default 1" in done.text


def test_a_test_that_fails_ends_with_1(tmp_path):
    path = tmp_path / "tests.toml"
    path.write_text(EXAMPLE.read_text().replace("at = 64\nfiring = [{", "at = 59\nfiring = [{"))
    done = run("alerts", "test", path)
    assert done.status == 1
    assert "minute 59: refusal_rate of tenant acme, agent_id refunds is not firing" in " ".join(done.text.split())
    said = json.loads(run("alerts", "test", path, "--format", "json").out)
    assert (said["passes"], sum(bool(each["failures"]) for each in said["tests"])) == (False, 1)


def test_tests_name_their_rules_beside_them_and_others_can_be_given(tmp_path):
    (tmp_path / "mine.toml").write_text(default_text().replace('id = "default"', 'id = "mine"'))
    path = tmp_path / "tests.toml"
    path.write_text('rules = "mine.toml"\n' + EXAMPLE.read_text())
    assert json.loads(run("alerts", "test", path, "--format", "json").out)["rules"]["id"] == "mine"
    other = tmp_path / "other.toml"
    other.write_text(default_text().replace('id = "default"', 'id = "other"'))
    done = run("alerts", "test", path, "--rules", other, "--format", "json")
    assert json.loads(done.out)["rules"]["id"] == "other"


def test_tests_of_a_rule_file_that_cannot_be_used_end_with_2(tmp_path, bad):
    done = run("alerts", "test", EXAMPLE, "--rules", bad)
    assert done.status == 2
    assert "offramp alerts check" in done.err
    broken = tmp_path / "tests.toml"
    broken.write_text("[[tests]]\n")
    done = run("alerts", "test", broken)
    assert done.status == 2
    assert "test 1: name: missing" in done.err
