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
    assert done.text == "From table default 1 to default 1: no run gets another exit\n\nThe tables are identical\n"


@pytest.mark.parametrize(
    ("replaced", "said"),
    [
        (('id = "default"', 'id = "mine"'), "Nothing was edited but id or version"),
        (("truncated or empty", "truncated  or empty"), "Nothing was edited but how it is written"),
        (("# below it, confidence is low", "# so it is"), "The tables are identical"),
    ],
)
def test_what_changes_nothing_is_told_apart(edited, replaced, said):
    done = run("table", "diff", "default", edited(replaced))
    assert done.status == 0
    assert done.text.splitlines()[1:] == ["", said]


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


CATCHING = (
    'id = "completion_verified"',
    """id = "n"
when = "predicate_satisfied and not no_progress"
exit = "human_queue"
queue = "judgement"

[[rows]]
id = "completion_verified"
""",
)
REPEATS = ("repeats = 3", "repeats = 2")


def test_a_lower_threshold_loosens_too(edited):
    status, found = diff("default", edited(FLOOR))
    assert status == 1
    assert found["regions"] == []
    assert found["thresholds"] == [
        {"name": "confidence_floor", "before": "0.6", "after": "0.5", "fact": "confidence_below_floor",
         "turned": "off", "directions": ["loosens", "moves"]}
    ]  # fmt: skip
    loosens, moves = found["shifts"]
    assert (loosens["direction"], moves["direction"]) == ("loosens", "moves")
    assert (loosens["before"]["kind"], loosens["after"]["kind"]) == ("human_queue", "partial")
    assert loosens["thresholds"] == ["confidence_floor"]


def test_a_threshold_loosens_or_tightens_by_what_the_rows_make_of_it(edited, tmp_path):
    (tmp_path / "old").mkdir()
    old, new = write(tmp_path / "old", CATCHING), edited(CATCHING, REPEATS)
    status, found = diff(old, new, "--events", tmp_path / "witnesses")
    assert status == 1
    assert found["loosens"] is True
    assert found["thresholds"][0]["directions"] == ["loosens", "tightens", "moves"]
    for table, side in ((old, "before"), (new, "after")):
        done = run("classify", "--no-store", "--format", "ndjson", tmp_path / "witnesses", "--table", table)
        shown = [(line["kind"], line["reason_code"]) for line in done.lines]
        assert shown == [(shift[side]["kind"], shift[side]["reason_code"]) for shift in found["shifts"]]
    shown = run("table", "diff", old, new)
    assert shown.status == 1
    text = " ".join(shown.text.split())
    assert "Loosens safety With progress_repeats 2, so that no_progress now holds: human_queue (n, queue" in text
    assert "possible combinations of other facts, the smallest before: predicate_satisfied" in text
    assert diff("default", edited(REPEATS))[0] == 0


def test_an_event_of_a_region_has_its_facts_under_both_thresholds(edited, tmp_path):
    """A row about low confidence changes, and the floor with it."""
    mine = edited(
        ('"confidence_below_floor" },', '"confidence_below_floor and omission" },'), ('floor = "0.6"', 'floor = "0"')
    )
    _, found = diff("default", mine, "--events", tmp_path / "witnesses")
    regions = [each for each in found["regions"] if "confidence_below_floor" in each["smallest"]]
    assert regions
    tables = ((), "before"), (("--table", mine), "after")
    for table, side in tables:
        done = run("classify", "--no-store", "--format", "ndjson", tmp_path / "witnesses", *table)
        shown = [(line["kind"], line["rule_id"], line["facts"]) for line in done.lines]
        sides = [(each[side]["kind"], each[side]["rule_id"]) for each in (*found["regions"], *found["shifts"])]
        assert [each[:2] for each in shown] == sides
        assert [each[2] for each in shown][: len(found["regions"])] == [each["smallest"] for each in found["regions"]]


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


@pytest.mark.parametrize("sides", [("mine", "default"), ("default", "mine")])
def test_a_table_that_is_not_proved_is_refused_on_either_side_unless_told_otherwise(edited, sides):
    broken = edited(PROHIBITED)
    tables = [broken if side == "mine" else side for side in sides]
    refused = run("table", "diff", *tables)
    assert (refused.status, refused.out) == (2, b"")
    assert "is not proved" in refused.err
    assert "--unproven" in refused.err
    status, found = diff(*tables, "--unproven")
    assert status == 0
    assert found["unproven"] == [("old", "new")[sides.index("mine")]]
    side = ("before", "after")[sides.index("mine")]
    assert {region[side]["reason_code"] for region in found["regions"]} == {"table_violates_invariant"}
    letter = "AB"[sides.index("mine")]
    assert f"\n{letter} is not proved. Where an" in run("table", "diff", *tables, "--unproven").text


def test_proved_tables_are_not_said_to_be_unproven(edited):
    assert diff("default", edited(SWITCH), "--unproven")[1]["unproven"] == []
    assert "not proved" not in run("table", "diff", "default", edited(SWITCH), "--unproven").text


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
