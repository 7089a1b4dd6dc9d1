"""``offramp rebuild`` gives stored events the exits that classifying their files again would, all at once."""

import json
import shutil

import pytest

from classifier.table import default_text
from tests.offramp.kit import (
    ask,
    contents,
    counts,
    events,
    new_directory,
    run,
    run_alone,
    unaccounted,
    write_lines,
)

SWITCH = ('unverified_completion = "completed"', 'unverified_completion = "human_queue"')
NEWER = {
    f"{module}.CLASSIFIER_VERSION": "9.9.9" for module in ("classifier.decide", "streams.ingest", "streams.rebuild")
}
"""Patches under which the classifier has another version."""
EXITS = (
    "SELECT tenant, event_id, kind, reason_code, table_digest, classifier_version FROM v_classifications ORDER BY ALL"
)


@pytest.fixture(scope="module")
def made():
    """A directory with the events, a table, a store of the default table, and one that the table decided after it."""
    directory = new_directory()
    mine, lines = directory / "mine.toml", write_lines(directory / "events", events())
    mine.write_text(default_text().replace(*SWITCH), encoding="utf-8")
    run("classify", lines, "--store", directory / "store")
    shutil.copytree(directory / "store", directory / "twice", symlinks=True)
    run("classify", lines, "--store", directory / "twice", "--table", mine)
    return directory


@pytest.fixture
def store(made, tmp_path):
    shutil.copytree(made / "store", tmp_path / "store", symlinks=True)
    return tmp_path / "store"


@pytest.fixture
def rebuilt(made, store):
    """Rebuild the store by the table, or another one; what the command prints as JSON."""

    def again(*argv, patches=None, status=0, table=made / "mine.toml"):
        done = run("rebuild", "--store", store, "--table", table, "--format", "json", *argv, patches=patches)
        assert done.status == status, done.err
        return json.loads(done.out)

    return again


def damage(store, *statements):
    assert run(store, *statements, entry="tests.offramp.damage.main").status == 0


def test_it_is_as_if_the_files_were_classified_again(made, store, rebuilt):
    found = rebuilt()
    assert contents(store) == contents(made / "twice")
    assert counts(store, raw=True) == counts(made / "twice", raw=True)
    assert unaccounted(store) == 0
    assert (found["read"], found["already"], found["failures"]) == (len(events()), 0, [])


def test_what_moved_is_counted(made, store, rebuilt):
    old = {row["event_id"]: row for row in ask(store, EXITS)}
    found = rebuilt()
    new = {row["event_id"]: row for row in ask(store, EXITS)}
    moved = [id_ for id_ in old if old[id_]["kind"] != new[id_]["kind"]]
    assert found["moved"] == [
        {
            "from": {"kind": "completed", "reason_code": "completion_unverified"},
            "to": {"kind": "human_queue", "reason_code": "completion_unverified"},
            "events": len(moved),
        }
    ]
    assert len(moved) > 1
    assert found["unchanged"] == len(old) - len(moved)


def test_a_dry_run_writes_nothing_and_counts_the_same(made, store, rebuilt):
    before = contents(store)
    dry = rebuilt("--dry-run")
    assert contents(store) == before
    wet = rebuilt()
    assert dry.pop("dry_run") is True
    assert wet.pop("dry_run") is False
    assert dry == wet


def test_running_it_again_changes_nothing(store, rebuilt):
    rebuilt()
    inside, raw = contents(store), counts(store, raw=True)
    found = rebuilt()
    assert (found["already"], found["moved"]) == (len(events()), [])
    assert (contents(store), counts(store, raw=True)) == (inside, raw)


def test_back_to_a_table_that_decided_before(made, store, rebuilt, tmp_path):
    old = ask(store, EXITS)
    rebuilt()
    default = tmp_path / "default.toml"
    default.write_text(default_text(), encoding="utf-8")
    found = rebuilt(table=default)
    assert ask(store, EXITS) == old
    assert (found["already"], found["unchanged"] < len(events())) == (len(events()), True)


def test_several_processes_do_the_same(made, store):
    done = run_alone("rebuild", "--store", store, "--table", made / "mine.toml", "--workers", "2")
    assert done.status == 0, done.err
    assert contents(store) == contents(made / "twice")


def test_a_new_version_of_the_classifier_is_not_seen_until_it_is_complete(store, rebuilt):
    damage(store, "OPTIMIZE TABLE exit_classifications FINAL")
    old = ask(store, EXITS)
    rebuilt(patches=NEWER)
    new = ask(store, EXITS)
    assert {row["classifier_version"] for row in new} == {"9.9.9"}
    half = "DELETE FROM exit_classifications WHERE classifier_version = '9.9.9' AND cityHash64(event_id) % 2"
    damage(store, half, "DELETE FROM active_tables WHERE classifier_version = '9.9.9'")
    assert ask(store, EXITS) == old
    shown = json.loads(
        run("explain", old[0]["event_id"], "--tenant", old[0]["tenant"], "--store", store, "--format", "json").out
    )
    assert shown["classification"]["classifier_version"] != "9.9.9"

    found = rebuilt(patches=NEWER)
    assert 0 < found["already"] < len(old)
    assert ask(store, EXITS) == new


def test_a_period(store, rebuilt):
    moments = sorted(row["at"] for row in ask(store, "SELECT toString(occurred_at) AS at FROM v_exits"))
    last = moments[-1].replace(" ", "T") + "Z"
    assert rebuilt("--until", last, "--dry-run")["read"] == len(moments) - moments.count(moments[-1])
    found = rebuilt("--since", last)
    assert found["read"] == moments.count(moments[-1])
    by_mine = "SELECT count() AS n FROM v_classifications WHERE table_digest = '{}'"
    assert ask(store, by_mine.format(found["table"]["digest"])) == [{"n": found["read"]}]


def test_nothing_in_the_period_changes_no_table(made, store, rebuilt):
    assert rebuilt("--since", "2200-01-01")["read"] == 0
    assert counts(store)["active_tables"] == 1


def test_an_event_that_cannot_be_read_keeps_its_exit(store, rebuilt):
    lost = events()[0]
    of_it = f"FROM terminal_events WHERE event_id = '{lost['event_id']}'"
    damage(
        store,
        f"INSERT INTO terminal_events SELECT * REPLACE ('{{\"type\": 7}}' AS event, now64(6) AS ingested_at) {of_it}",
    )
    old = {row["event_id"]: row for row in ask(store, EXITS)}
    found = rebuilt(status=1)
    new = {row["event_id"]: row for row in ask(store, EXITS)}
    [failure] = found["failures"]
    assert (failure["tenant"], failure["event_id"]) == (lost["tenant"], lost["event_id"])
    assert "type" in failure["reason"]
    assert new[lost["event_id"]] == old[lost["event_id"]]
    assert {id_ for id_ in old if new[id_]["table_digest"] == old[id_]["table_digest"]} == {lost["event_id"]}
    assert found["read"] == len(events())


def test_an_event_that_nobody_classified_is(store, rebuilt):
    damage(store, f"DELETE FROM exit_classifications WHERE event_id = '{events()[0]['event_id']}'")  # noqa: S608
    moved = [each for each in rebuilt()["moved"] if each["from"] is None]
    assert [each["events"] for each in moved] == [1]
    assert unaccounted(store) == 0


def test_a_table_that_is_not_proved_says_so(store, tmp_path, rebuilt):
    broken = tmp_path / "broken.toml"
    text = default_text().replace('exit = "human_queue"\nqueue = "effects"', 'exit = "completed"', 1)
    broken.write_text(text, encoding="utf-8")
    assert run("rebuild", "--store", store, "--table", broken).status == 2
    rebuilt("--unproven", table=broken)
    assert ask(store, "SELECT DISTINCT unproven FROM v_exits") == [{"unproven": True}]


def test_for_people(made, store):
    command = ("rebuild", "--store", store, "--table", made / "mine.toml")
    dry = run_alone(*command, "--dry-run", COLUMNS="80")
    assert "would move to another exit" in dry.text
    assert " completed completion_unverified   human_queue completion_unverified" in dry.text
    assert "dry run: nothing was written" in dry.err
    assert max(map(len, dry.text.splitlines())) <= 80
    assert "is the current one now" in run(*command).err
    assert f"not decided again: {len(events())}" in run(*command).err


def test_there_must_be_a_store(tmp_path):
    done = run("rebuild", "--store", tmp_path / "none")
    assert done.status == 3
    assert not (tmp_path / "none").exists()
