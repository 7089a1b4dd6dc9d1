"""Retention on a store that exists: what is too old goes, what is left still adds up."""

import json
import shutil

import pytest

from tests.offramp.kit import ask, companion, counts, events, new_directory, run, run_alone, unaccounted, write_lines

LINES = [*events()[:4], "nonsense", companion("enrichment")]


@pytest.fixture(scope="module")
def made():
    directory = new_directory()
    run("classify", write_lines(directory / "events", LINES), "--store", directory / "store")
    return directory / "store"


@pytest.fixture
def store(made, tmp_path):
    shutil.copytree(made, tmp_path / "store", symlinks=True)
    return tmp_path / "store"


def expire(store, *argv, **days):
    env = {f"OFFRAMP_STORE__KEEP_{name.upper()}_DAYS": str(number) for name, number in days.items()}
    done = run_alone("expire", "--format", "json", *argv, "--store", store, **env)
    assert done.status == 0, done.err
    return {each["table"]: (each["found"], each["planned"]) for each in json.loads(done.out)["tables"]}


def age(store, table, column):
    """Make the rows of a table 40 days older."""
    older = f"SELECT * REPLACE ({column} - INTERVAL 40 DAY AS {column}) FROM {table}"  # noqa: S608 -- names of tests
    back = f"INSERT INTO {table} SELECT * FROM older"  # noqa: S608 -- names of tests
    statements = [f"CREATE TABLE older AS {table}", f"INSERT INTO older {older}", f"TRUNCATE TABLE {table}", back,
                  "DROP TABLE older"]  # fmt: skip
    assert run(store, *statements, entry="tests.offramp.damage.main").status == 0


def test_without_retention_nothing_changes(store):
    before = counts(store)
    assert set(expire(store).values()) == {(None, None)}
    assert counts(store) == before


def test_a_dry_run_changes_nothing(store):
    assert expire(store, "--dry-run", ledger=1)["ingest_ledger"] == (None, 1)
    assert expire(store)["ingest_ledger"] == (None, None)


def test_what_is_too_old_goes_and_the_rest_adds_up(store):
    age(store, "enrichments", "ingested_at")
    assert expire(store, companions=30)["enrichments"] == (None, 30)
    assert counts(store)["enrichments"] == 0
    assert counts(store)["terminal_events"] == 4
    assert unaccounted(store) == 1  # its ledger row is young: that is what a loss looks like
    age(store, "ingest_ledger", "recorded_at")
    assert unaccounted(store) == 0


def test_events_go_with_their_exits_by_when_they_happened(store):
    expire(store, events=1)
    assert (counts(store)["terminal_events"], counts(store)["exit_classifications"]) == (0, 0)
    age(store, "ingest_ledger", "recorded_at")
    assert unaccounted(store) == 0


def test_a_ledger_that_went_leaves_records_that_are_no_loss(store):
    for table, column in (("ingest_ledger", "recorded_at"), ("dead_letters", "recorded_at"),
                          ("terminal_events", "ingested_at"), ("enrichments", "ingested_at")):  # fmt: skip
        age(store, table, column)
    assert expire(store, ledger=30)["dead_letters"] == (None, 30)
    assert (counts(store)["ingest_ledger"], counts(store)["terminal_events"]) == (0, 4)
    assert unaccounted(store) == 0


def test_it_can_be_changed_and_taken_back(store):
    expire(store, ledger=30)
    assert expire(store, ledger=60)["redrives"] == (30, 60)
    assert expire(store)["redrives"] == (60, None)
    assert expire(store)["redrives"] == (None, None)
    assert ask(store, "SELECT count() AS n FROM v_ledger") == [{"n": 1}]
