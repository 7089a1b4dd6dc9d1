"""A run that ends anywhere, run again: every message once in every table, nothing missing, and the ledger closes."""

import pytest

from tests.crash.dying import STATUS
from tests.offramp.kit import (
    companion,
    contents,
    counts,
    events,
    in_pieces,
    new_directory,
    run,
    run_alone,
    unaccounted,
    write_lines,
)

LINES = [
    *events()[:8],
    companion("enrichment"),
    "nonsense",
    events()[2],
    events()[3] | {"agent_id": "another"},
    *events()[8:16],
    companion("legacy_exit"),
    '{"type": "nonsense"}',
    events()[0] | {"agent_id": "another"},
]
BATCH = 12

# Before the n-th insert into a table: whether a crash there leaves something that the ledger does not know yet.
POINTS = {
    ("terminal_events", 1): False,
    ("enrichments", 1): True,
    ("conflicting_events", 1): True,
    ("exit_classifications", 1): True,
    ("dead_letters", 1): True,
    ("ingest_ledger", 1): True,
    ("terminal_events", 2): False,
    ("ingest_ledger", 2): True,
    ("active_tables", 1): False,
}


@pytest.fixture(scope="module")
def clean():
    """The file, and what is in a store after a run that nothing disturbed."""
    directory = new_directory()
    path = write_lines(directory / "events", LINES)
    run("classify", path, "--store", directory / "store")
    return path, contents(directory / "store"), counts(directory / "store", raw=True)


@pytest.mark.parametrize(("table", "time"), POINTS)
def test_a_crash_before_any_insert_is_mended_by_running_again(tmp_path, clean, table, time):
    path, inside, rows = clean
    store = tmp_path / "store"
    program = ("-m", "tests.crash.dying", table, str(time), str(BATCH))
    assert run_alone("classify", path, "--store", store, "--workers", "0", program=program).status == STATUS
    assert (unaccounted(store) > 0) == POINTS[table, time]

    again = run("classify", path, "--store", store, patches=in_pieces(5, 5))
    assert again.status == 1
    assert contents(store) == inside
    assert unaccounted(store) == 0
    raw = counts(store, raw=True)
    assert (raw["terminal_events"], raw["exit_classifications"]) == (rows["terminal_events"], rows["terminal_events"])
    assert f"{len(LINES)} read = 16 classified + 2 stored + 1 duplicate + 2 conflicting + 2 dead_lettered" in again.err


def test_another_file_first_is_no_harm(tmp_path, clean):
    path, _, rows = clean
    store, other = tmp_path / "store", write_lines(tmp_path / "other", events()[:16])
    program = ("-m", "tests.crash.dying", "exit_classifications", "1", str(BATCH))
    assert run_alone("classify", path, "--store", store, "--workers", "0", program=program).status == STATUS
    run("classify", other, "--store", store)
    assert counts(store)["exit_classifications"] == 16
    assert unaccounted(store) > 0
    run("classify", path, "--store", store)
    assert unaccounted(store) == 0
    raw = counts(store, raw=True)
    assert (raw["terminal_events"], raw["exit_classifications"]) == (rows["terminal_events"], rows["terminal_events"])
