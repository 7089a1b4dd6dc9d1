"""``offramp table diff`` says what an edit does to what is possible and to what is stored, and gates on safety."""

import json
import shutil

import pytest

from classifier.table import default_text
from tests.offramp.kit import events, new_directory, run, run_alone, write_lines

SWITCH = ('unverified_completion = "completed"', 'unverified_completion = "human_queue"')
QUEUE = ('queue = "takeover"', 'queue = "judgement"')
FLOOR = ('floor = "0.6"', 'floor = "0.5"')
PROHIBITED = ('when = "taken_over or child_run_open"\nexit = "human_queue"',
              'when = "taken_over or child_run_open"\nexit = "completed"')  # fmt: skip


def write(directory, *replaced):
    text = default_text()
    for old, new in replaced:
        assert old in text
        text = text.replace(old, new, 1)
    path = directory / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def edited(tmp_path):
    return lambda *replaced: write(tmp_path, *replaced)


@pytest.fixture(scope="module")
def whole():
    directory = new_directory()
    run("classify", write_lines(directory / "events", events()), "--store", directory / "store")
    return directory / "store"


def diff(*argv):
    done = run("table", "diff", *argv, "--format", "json")
    assert done.err == ""
    return done.status, json.loads(done.out)


def exits(store):
    done = run(
        "query", "SELECT event_id, kind, rule_id, occurred_at FROM v_exits", "--format", "json", "--store", store
    )
    return json.loads(done.out)


def test_a_table_and_itself():
    done = run("table", "diff", "default", "default")
    assert done.status == 0
    assert done.text == "From table default 1 to default 1: no run gets another exit\n\nNothing was edited but names\n"


def test_what_loosens_safety_ends_with_one(edited):
    stricter = edited(SWITCH)
    tightened, loosened = diff("default", stricter), diff(stricter, "default")
    assert (tightened[0], tightened[1]["loosens"], loosened[0], loosened[1]["loosens"]) == (0, False, 1, True)
    [region] = loosened[1]["regions"]
    assert region["direction"] == "loosens"
    assert region["before"] == {
        "rule_id": "completion_unverified", "kind": "human_queue", "reason_code": "completion_unverified",
        "reason_from": None, "queue": "judgement",
    }  # fmt: skip
    assert region["after"]["kind"] == "completed"
    assert region["smallest"] == ["completion_claimed", "stopped_normally"]
    assert loosened[1]["differences"] == ["switch unverified_completion is completed instead of human_queue"]


def test_a_lower_threshold_loosens_too(edited):
    status, found = diff("default", edited(FLOOR))
    assert status == 1
    assert found["regions"] == []
    assert found["thresholds"] == [
        {"name": "confidence_floor", "before": "0.6", "after": "0.5", "direction": "loosens"}
    ]


def test_the_event_of_a_change_shows_it(edited, tmp_path):
    mine = edited(SWITCH, QUEUE)
    _, found = diff("default", mine, "--events", tmp_path / "witnesses")
    assert len(found["regions"]) == 3
    for table, side in ((), "before"), (("--table", mine), "after"):
        done = run("classify", "--no-store", "--format", "ndjson", tmp_path / "witnesses", *table)
        assert done.status == 0
        shown = [(line["kind"], line["reason_code"], (line["envelope"] or {}).get("queue")) for line in done.lines]
        sides = [region[side] for region in found["regions"]]
        assert shown == [(each["kind"], each["reason_code"], each["queue"]) for each in sides]
    witnesses = [json.loads(line) for line in (tmp_path / "witnesses").read_text().splitlines()]
    assert witnesses == [region["event"] for region in found["regions"]]


def test_stored_events_are_counted_and_named(whole, edited):
    mine = edited(SWITCH, QUEUE)
    stored = exits(whole)
    _, found = diff("default", mine, "--store", whole, "--list", 2)
    assert found["replayed"] == len(stored)
    assert found["not_replayable"] == {}
    counted = {region["before"]["rule_id"]: 0 for region in found["regions"]}
    for region in found["regions"]:
        counted[region["before"]["rule_id"]] += region["events"]
        assert len(region["sample"]) == min(2, region["events"])
    changed = ("completion_unverified", "human_takeover")
    assert counted == {rule: sum(each["rule_id"] == rule for each in stored) for rule in changed}
    assert min(counted.values()) > 0


def test_what_is_counted_is_what_classifying_again_gives(whole, edited, tmp_path):
    mine = edited(SWITCH)
    [region] = diff("default", mine, "--store", whole, "--list", 1000)[1]["regions"]
    shutil.copytree(whole, tmp_path / "store", symlinks=True)
    before = {each["event_id"]: each["kind"] for each in exits(whole)}
    run("classify", write_lines(tmp_path / "events", events()), "--store", tmp_path / "store", "--table", mine)
    moved = {each["event_id"] for each in exits(tmp_path / "store") if before[each["event_id"]] != each["kind"]}
    assert {each["event_id"] for each in region["sample"]} == moved
    assert region["events"] == len(moved) > 0


def test_a_period(whole, edited):
    mine, moments = edited(SWITCH), sorted(each["occurred_at"] for each in exits(whole))
    assert moments[0] < moments[-1]
    last = moments[-1].replace(" ", "T") + "Z"
    assert diff("default", mine, "--store", whole, "--since", last)[1]["replayed"] == moments.count(moments[-1])
    assert diff("default", mine, "--store", whole, "--since", "2100-01-01")[1]["replayed"] == 0
    done = run("table", "diff", "default", mine, "--since", "yesterday")
    assert done.status == 2
    assert "days back, such as 30" in done.err


def damaged(whole, tmp_path, *statements):
    shutil.copytree(whole, tmp_path / "store", symlinks=True)
    assert run(tmp_path / "store", *statements, entry="tests.offramp.damage.main").status == 0
    return tmp_path / "store"


def test_what_another_version_found_is_not_replayed(whole, edited, tmp_path):
    some = "FROM exit_classifications WHERE cityHash64(event_id) % 2"
    older = f"INSERT INTO exit_classifications SELECT * REPLACE ('0.0.1' AS classifier_version) {some}"
    store = damaged(whole, tmp_path, older)
    assert diff("default", edited(SWITCH), "--store", store)[1]["replayed"] == len(events())
    shutil.rmtree(store)
    store = damaged(whole, tmp_path, older, f"DELETE {some} AND classifier_version != '0.0.1'")
    _, found = diff("default", edited(SWITCH), "--store", store)
    other = found["not_replayable"]["classifier_version"]
    assert other > 0
    assert found["replayed"] + other == len(events())
    done = run("table", "diff", "default", edited(SWITCH), "--store", store)
    assert f"{other} were not: another version of the classifier" in done.text
    assert "      offramp rebuild --dry-run --table " in done.text


def test_facts_that_other_thresholds_judged_are_not_replayed(whole, edited):
    with_steps = sum(bool(event.get("steps")) for event in events())
    for old, new in (("default", edited(SWITCH, FLOOR)), (edited(SWITCH, FLOOR), "default")):
        _, found = diff(old, new, "--store", whole)
        assert found["not_replayable"] == {"thresholds": with_steps}
        assert found["replayed"] == len(events()) - with_steps


def test_for_people(whole, edited):
    done = run_alone("table", "diff", edited(SWITCH, FLOOR), "default", "--store", whole, "--list", "1", COLUMNS="80")
    assert done.status == 1
    assert "safety is loosened" in done.text.splitlines()[0]
    assert "\nLoosens safety\n  human_queue (completion_unverified, queue judgement) becomes" in done.text
    assert "stored events: " in done.text
    [command] = [line for line in done.text.splitlines() if line.startswith("      offramp explain ")]
    assert command.endswith(f" --store {whole}")
    assert run(*command.split()[1:]).status == 0
    assert max(len(line) for line in done.text.splitlines() if "offramp" not in line) <= 80


def test_a_table_that_is_not_proved_is_refused_as_the_new_one_alone(edited):
    broken = edited(PROHIBITED)
    refused = run("table", "diff", "default", broken)
    assert refused.status == 2
    assert "is not proved" in refused.err
    status, found = diff(broken, "default")
    assert status == 0
    assert {region["before"]["reason_code"] for region in found["regions"]} == {"table_violates_invariant"}


def test_a_store_that_is_asked_for_must_be_there(tmp_path):
    assert run("table", "diff", "default", "default", "--store", tmp_path / "none").status == 3


def test_a_file_that_cannot_be_written(edited, tmp_path):
    done = run("table", "diff", "default", edited(SWITCH), "--events", tmp_path / "no" / "file")
    assert done.status == 2
    assert "No such file" in done.err


def test_any_table_may_have_found_the_facts(whole, edited, tmp_path):
    shutil.copytree(whole, tmp_path / "store", symlinks=True)
    run("rebuild", "--store", tmp_path / "store", "--table", edited(FLOOR))
    _, found = diff("default", edited(SWITCH), "--store", tmp_path / "store")
    _, expected = diff("default", edited(SWITCH), "--store", whole)
    assert found == expected
    assert found["replayed"] == len(events())
