"""Loading companions: stored once, counted by type, and the current decision table left as it is."""

import json

from classifier.table import default_text
from tests.offramp.kit import ask, companion, counts, events, run, unaccounted, write_lines
from tests.schemas.samples import full

KINDS = ("legacy_exit", "recovery_action", "review_event", "enrichment")


def shown(done):
    """Rows of the table on stdout, split into words."""
    return [line.split() for line in done.text.splitlines()[4:] if line.strip()]


def test_every_type_is_stored_and_counted(tmp_path):
    path = write_lines(tmp_path / "c", [companion(kind, number) for kind in KINDS for number in range(2)])
    done = run("load", path, "--store", tmp_path / "store")
    assert done.status == 0
    assert shown(done) == [[kind, "stored", "2"] for kind in sorted(KINDS)]
    assert "8 read = 8 stored" in done.err
    seen = counts(tmp_path / "store")
    assert [seen[table] for table in ("legacy_exits", "recovery_actions", "review_events", "enrichments")] == [2] * 4
    assert seen["active_tables"] == 0
    assert unaccounted(tmp_path / "store") == 0


def test_every_field_arrives(tmp_path):
    record = full("review_event")
    run("load", write_lines(tmp_path / "c", [record]), "--store", tmp_path / "store")
    (row,) = ask(tmp_path / "store", "SELECT * EXCEPT at, toUnixTimestamp64Micro(at) AS at FROM review_events")
    assert {name: row[name] for name in ("record_id", "event", "decision", "extensions", "at")} == {
        name: record[name] for name in ("record_id", "event", "decision", "extensions", "at")
    }


def test_twice_changes_nothing(tmp_path):
    store = tmp_path / "store"
    path = write_lines(tmp_path / "c", [companion("legacy_exit"), companion("legacy_exit", label="other"), "nonsense"])
    first, before = run("load", path, "--store", store), counts(store, raw=True)
    assert first.status == 1
    assert "1 stored + 1 conflicting + 1 dead_lettered" in first.err
    assert shown(first)[0] == ["no", "valid", "record", "dead_lettered", "1"]
    again = run("load", path, "--store", store)
    assert (again.status, again.text, again.err) == (1, first.text, first.err)
    assert counts(store, raw=True) == before
    assert unaccounted(store) == 0


def test_a_companion_in_conflict_is_kept_apart_whole(tmp_path):
    # A review event has a column named like the text of a terminal event.
    pair = [companion("review_event", event="opened"), companion("review_event", event="decided")]
    run("load", write_lines(tmp_path / "c", pair), "--store", tmp_path / "store")
    (kept,) = ask(tmp_path / "store", "SELECT record_type, text FROM v_conflicts")
    assert kept["record_type"] == "review_event"
    assert json.loads(kept["text"])["event"] == "decided"
    assert ask(tmp_path / "store", "SELECT event FROM review_events FINAL") == [{"event": "opened"}]


def test_events_among_companions_are_classified_by_the_same_code(tmp_path):
    path = write_lines(tmp_path / "c", [companion("enrichment"), *events()[:3]])
    done = run("load", path, "--store", tmp_path / "store")
    assert shown(done) == [["enrichment", "stored", "1"], ["terminal_event", "classified", "3"]]
    assert ask(tmp_path / "store", "SELECT count() AS n FROM v_exits") == [{"n": 3}]


def test_companions_alone_leave_the_current_table_alone(tmp_path):
    store, mine = tmp_path / "store", tmp_path / "mine.toml"
    mine.write_text(default_text().replace('version = "', 'version = "mine-', 1))
    run("classify", write_lines(tmp_path / "e", events()[:2]), "--store", store, "--table", mine)
    run("load", write_lines(tmp_path / "c", [companion("enrichment")]), "--store", store)
    (newest,) = ask(store, "SELECT table_version FROM v_tables LIMIT 1")
    assert newest["table_version"].startswith("mine-")


def test_companions_and_events_may_share_an_id(tmp_path):
    record = companion("enrichment", record_id=events()[0]["event_id"], tenant=events()[0]["tenant"])
    done = run("load", write_lines(tmp_path / "c", [events()[0], record]), "--store", tmp_path / "store")
    assert "2 read = 1 classified + 1 stored" in done.err
