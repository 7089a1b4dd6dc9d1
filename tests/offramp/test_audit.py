"""An audit closes where nothing is wrong, and finds each thing that can be."""

import json
import shutil

import pytest

from offramp.auditing import CHECKS
from tests.offramp.kit import ask, companion, events, new_directory, run, write_lines

E0, E1 = events()[0], events()[1]
LINES = [*events()[:4], "nonsense", companion("enrichment"), E0, E1 | {"agent_id": "another"}]


def damage(store, *statements):
    assert run(store, *statements, entry="tests.offramp.damage.main").status == 0


@pytest.fixture(scope="module")
def whole():
    directory = new_directory()
    run("classify", write_lines(directory / "events", LINES), "--store", directory / "store")
    return directory / "store"


@pytest.fixture
def broken(whole, tmp_path):
    """A copy of the store after some statements, as an audit in JSON."""

    def after(*statements):
        shutil.copytree(whole, tmp_path / "store", symlinks=True)
        damage(tmp_path / "store", *statements)
        done = run("audit", "--store", tmp_path / "store", "--format", "json")
        result = json.loads(done.out)
        assert done.status == (1 if result["unaccounted"] else 0)
        return result

    return after


def found(result):
    return {check["code"]: check["count"] for check in result["checks"] if check["count"]}


def test_a_store_that_closes(whole):
    done = run("audit", "--store", whole)
    assert done.status == 0
    assert done.err == ""
    assert done.text.startswith("unaccounted: 0\n")
    assert "4 classified + 1 stored + 1 duplicate + 1 conflicting + 1" in done.text


def test_the_numbers_of_a_partition(whole):
    (partition,) = json.loads(run("audit", "--store", whole, "--format", "json").out)["partitions"]
    assert partition.pop("partition")
    assert partition == {
        "source": "file", "read": 8, "classified": 4, "stored": 1, "duplicate": 1, "conflicting": 1,
        "dead_lettered": 1, "filtered": 0, "unknown": 0, "holes": 0, "overlaps": 0, "unaccounted": 0, "log": None,
    }  # fmt: skip


def without(table, where="1"):
    return f"DELETE FROM {table} WHERE {where}"  # noqa: S608 -- names of tests


DUPLICATE_IDS = f"event_id = '{E0['event_id']}'"
DAMAGES = {
    "an event": (
        [without("terminal_events", f"event_id = '{events()[2]['event_id']}'")],
        {"record_missing": 1, "classification_of_nothing": 1},
    ),
    "an event with a duplicate": (
        [without("terminal_events", DUPLICATE_IDS)],
        {"record_missing": 1, "duplicate_of_nothing": 1, "classification_of_nothing": 1},
    ),
    "a companion": ([without("enrichments")], {"record_missing": 1}),
    "a classification": ([without("exit_classifications", DUPLICATE_IDS)], {"unclassified": 1}),
    "a conflict": ([without("conflicting_events")], {"conflict_missing": 1}),
    "a dead letter": ([without("dead_letters")], {"dead_letter_missing": 1}),
    "the last row of the ledger": ([without("ingest_ledger", "offset = 7")], {"conflict_unrecorded": 1}),
    "ledger rows of an event and a dead letter": (
        [without("ingest_ledger", "offset IN (0, 4)")],
        {"record_unrecorded": 1, "dead_letter_unrecorded": 1},
    ),
    "an overwrite": (
        [f"INSERT INTO terminal_events SELECT * REPLACE ('sha256:x' AS content_digest, now64(6) AS ingested_at) FROM terminal_events WHERE {DUPLICATE_IDS}"],  # noqa: E501, S608
        {"record_missing": 1, "duplicate_of_nothing": 1, "record_unrecorded": 1, "unclassified": 1,
         "several_contents": 1},
    ),
    "the activation of another table": (
        ["INSERT INTO active_tables SELECT * REPLACE ('sha256:x' AS table_digest, now64(6) AS activated_at) FROM active_tables"],  # noqa: E501
        {"other_table": 4},
    ),
    "the activation of every table": ([without("active_tables")], {"no_table": 4}),
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGES)
def test_what_is_missing_is_found(broken, what):
    statements, expected = DAMAGES[what]
    result = broken(*statements)
    assert found(result) == expected
    gaps = sum(part["holes"] + part["overlaps"] + part["unknown"] for part in result["partitions"])
    assert result["unaccounted"] == gaps + sum(count for code, count in expected.items() if code != "other_table")


def test_files_that_the_engine_has_set_aside_are_found(whole, tmp_path):
    store = shutil.copytree(whole, tmp_path / "store", symlinks=True)
    for table in ("terminal_events", "ingest_ledger"):
        for data in folder_of(store, table).rglob("data.bin"):
            data.write_bytes(b"cut off")
    done = run("audit", "--store", store)
    assert done.status == 1
    assert "part_unreadable: 2, such as ingest_ledger " in done.err


def folder_of(store, table):
    """Where the engine keeps a table. Its path may be that of the store that this one is a copy of."""
    (row,) = ask(store, f"SELECT data_paths[1] AS path FROM system.tables WHERE name = '{table}'")  # noqa: S608
    return store / "engine" / row["path"].partition("/engine/")[2]


def test_every_check_has_a_damage_that_it_finds():
    by_hand = {"part_unreadable"}
    assert {code for _, expected in DAMAGES.values() for code in expected} | by_hand == {check.code for check in CHECKS}


def rewritten(change, offset):
    rows = f"SELECT * REPLACE ({change}) FROM ingest_ledger WHERE offset = {offset}"  # noqa: S608 -- names of tests
    return f"INSERT INTO ingest_ledger {rows}"


def test_holes_overlaps_and_unknown_dispositions_are_counted(broken):
    result = broken(
        without("ingest_ledger", "offset IN (0, 3)"),
        rewritten("next_offset + 1 AS next_offset", 5),
        rewritten("'lost' AS disposition", 6),
    )
    (part,) = result["partitions"]
    assert (part["holes"], part["overlaps"], part["unknown"]) == (2, 1, 1)


def test_what_is_found_is_named_with_what_to_do(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "store", symlinks=True)
    damage(tmp_path / "store", without("exit_classifications", DUPLICATE_IDS))
    done = run("audit", "--store", tmp_path / "store")
    assert done.status == 1
    assert f"unclassified: 1, such as acme {E0['event_id']}: " in done.err
    assert "run the command again over that file" in done.err
    assert run("classify", write_lines(tmp_path / "events", LINES), "--store", tmp_path / "store").status == 1
    assert run("audit", "--store", tmp_path / "store").status == 0


def test_lost_evidence_comes_back_when_the_file_is_read_again(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "store", symlinks=True)
    damage(tmp_path / "store", without("terminal_events", DUPLICATE_IDS))
    run("classify", write_lines(tmp_path / "events", LINES), "--store", tmp_path / "store")
    assert run("audit", "--store", tmp_path / "store").status == 0
