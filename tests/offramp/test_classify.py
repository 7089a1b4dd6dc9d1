"""Classify, end to end: from files to answers, tables and ledger."""

import gzip
import io
import json
from datetime import UTC, datetime
from pathlib import Path

import fastavro
import pytest
import zstandard

from classifier.table import default_text
from schemas.avro import avro_schema
from schemas.contract import INCOMING
from schemas.events import TerminalEvent
from schemas.exits import Classification
from tests.cases import load_cases
from tests.offramp.kit import (
    as_lines,
    ask,
    companion,
    contents,
    counts,
    events,
    in_pieces,
    run,
    run_alone,
    unaccounted,
    write_lines,
)

EVENTS = events()
BAD = '{"type": "terminal_event", "version": 1'


@pytest.fixture(scope="module")
def answer(tmp_path_factory):
    """The answer for all labelled events, as JSON Lines in, nothing stored."""
    path = write_lines(tmp_path_factory.mktemp("answer") / "events", EVENTS)
    done = run("classify", path, "--no-store", "--format", "ndjson")
    assert (done.status, done.err) == (0, "")
    return done.out


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


def classify(store, *files, **more):
    return run("classify", *files, "--store", store, "--format", "ndjson", **more)


def test_the_answer_is_the_contract_in_the_order_of_the_events(answer):
    found = [Classification.model_validate_json(line) for line in answer.splitlines()]
    assert [each.event_id for each in found] == [event["event_id"] for event in EVENTS]
    assert [each.kind for each in found] == [case.kind for case in load_cases()]
    assert all(line["envelope"] is None or line["envelope"].get("deadline", "Z").endswith("Z")
               for line in map(json.loads, answer.splitlines()))  # fmt: skip


# --- forms of input


def in_container(codec):
    parsed = fastavro.parse_schema(avro_schema(INCOMING["terminal_event"]))
    records = [TerminalEvent.model_validate_json(json.dumps(event)).model_dump() for event in EVENTS]
    out = io.BytesIO()
    fastavro.writer(out, parsed, records, codec=codec, sync_interval=5000)
    return out.getvalue()


FORMS = {
    "array": lambda: json.dumps(EVENTS).encode(),
    "pretty": lambda: "\n".join(json.dumps(event, indent=2) for event in EVENTS).encode(),
    "gzip": lambda: gzip.compress(as_lines(EVENTS)),
    "zstd": lambda: zstandard.compress(as_lines(EVENTS)),
    "gzip of an array": lambda: gzip.compress(json.dumps(EVENTS).encode()),
    "avro": lambda: in_container("null"),
    "avro deflate": lambda: in_container("deflate"),
    "zstd of avro": lambda: zstandard.compress(in_container("null")),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_same_answer(tmp_path, answer, form):
    path = tmp_path / "input"
    path.write_bytes(FORMS[form]())
    assert run("classify", path, "--no-store", "--format", "ndjson").out == answer


def test_standard_input_is_a_file_too(answer):
    assert run("classify", "-", "--no-store", "--format", "ndjson", stdin=as_lines(EVENTS)).out == answer


# --- what changes nothing


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """A file of some events, the answer, and what is in a store afterwards."""
    folder = tmp_path_factory.mktemp("reference")
    path = write_lines(folder / "events", [*EVENTS[:30], BAD, EVENTS[2], EVENTS[3] | {"agent_id": "x"}])
    return path, classify(folder / "store", path).out, contents(folder / "store")


@pytest.mark.parametrize(("chunk", "batch"), [(1, 1), (5, 7), (7, 100), (100, 1)])
def test_the_size_of_pieces_changes_nothing(store, reference, chunk, batch):
    path, out, inside = reference
    done = classify(store, path, patches=in_pieces(chunk, batch))
    assert done.out == out
    assert contents(store) == inside


def test_the_number_of_workers_changes_nothing(store, reference):
    path, out, inside = reference
    done = run("classify", path, "--store", store, "--format", "ndjson", "--workers", "2")
    assert done.out == out
    assert contents(store) == inside
    assert sum(map(len, inside.values())) == 30 + 30 + 1 + 33 + 1 + 1


def test_running_twice_changes_nothing_and_adds_no_row(tmp_path, store):
    mixed = [*EVENTS[:20], BAD, companion("legacy_exit"), EVENTS[3], EVENTS[4] | {"agent_id": "another"}]
    path = write_lines(tmp_path / "events", mixed)
    first, before = classify(store, path), (counts(store), counts(store, raw=True))
    again = classify(store, path)
    assert (again.out, again.err) == (first.out, first.err)
    assert (counts(store), counts(store, raw=True)) == before
    assert before[0] == before[1]
    assert unaccounted(store) == 0


def test_the_same_bytes_elsewhere_are_the_same_source(tmp_path, store):
    classify(store, write_lines(tmp_path / "events", EVENTS[:5]))
    before = counts(store, raw=True)
    classify(store, write_lines(tmp_path / "copy", EVENTS[:5]))
    assert counts(store, raw=True) == before


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/Los_Angeles"])
def test_the_time_zone_of_the_host_changes_nothing(tmp_path, store, answer, zone):
    path = write_lines(tmp_path / "events", EVENTS)
    assert run_alone("classify", path, "--store", store, "--format", "ndjson", TZ=zone).out == answer
    rows = ask(store, "SELECT event_id, occurred_at, classified_at FROM v_exits")
    stored = {row["event_id"]: datetime.fromisoformat(row["occurred_at"] + "Z") for row in rows}
    assert stored == {event["event_id"]: datetime.fromisoformat(event["occurred_at"]) for event in EVENTS}
    written = {datetime.fromisoformat(row["classified_at"] + "Z") for row in rows}
    assert all(abs((datetime.now(UTC) - moment).total_seconds()) < 600 for moment in written)


# --- decision tables


def test_another_table_classifies_again_and_becomes_the_current_one(tmp_path, store):
    path, mine = write_lines(tmp_path / "events", EVENTS), tmp_path / "mine.toml"
    text = default_text()
    assert text.count('version = "') >= 1
    mine.write_text(text.replace('version = "', 'version = "mine-', 1))
    classify(store, path)
    before = counts(store, raw=True)
    run("classify", path, "--store", store, "--table", mine)
    after = counts(store, raw=True)
    assert after == before | {"exit_classifications": 2 * len(EVENTS), "active_tables": 2}
    assert versions(store) == [{"mine": True, "n": len(EVENTS)}]
    assert unaccounted(store) == 0

    classify(store, path)
    assert counts(store, raw=True) == after | {"active_tables": 3}
    assert versions(store) == [{"mine": False, "n": len(EVENTS)}]


def versions(store):
    return ask(store, "SELECT startsWith(table_version, 'mine-') AS mine, count() AS n FROM v_exits GROUP BY mine")


def test_an_audit_tells_which_events_the_current_table_has_not_decided(tmp_path, store):
    mine = tmp_path / "mine.toml"
    mine.write_text(default_text().replace('version = "', 'version = "mine-', 1))
    classify(store, write_lines(tmp_path / "old", EVENTS[:3]))
    run("classify", write_lines(tmp_path / "new", EVENTS[3:5]), "--store", store, "--table", mine)
    done = run("audit", "--store", store)
    assert done.status == 0
    assert "other_table: 3, such as acme" in done.err


# --- identity


def test_a_known_event_in_another_file_is_a_duplicate(tmp_path, store):
    classify(store, write_lines(tmp_path / "one", EVENTS[:5]))
    done = run("classify", write_lines(tmp_path / "two", EVENTS[3:8]), "--store", store)
    assert "5 read = 3 classified + 2 duplicate" in done.err
    seen = counts(store, raw=True)
    assert (seen["terminal_events"], seen["exit_classifications"], seen["ingest_ledger"]) == (8, 8, 10)
    assert unaccounted(store) == 0


def test_other_content_under_a_known_id_is_kept_apart_and_reported(tmp_path, store):
    classify(store, write_lines(tmp_path / "one", EVENTS[:2]))
    changed = EVENTS[0] | {"agent_id": "another"}
    done = run("classify", write_lines(tmp_path / "two", [changed]), "--store", store)
    assert done.status == 0
    assert "1 read = 1 conflicting" in done.err
    assert "conflicting: 1, known by their id with other content" in done.err
    assert f"--store {store}" in done.err
    (kept,) = ask(store, "SELECT event_id, known_digest, content_digest, text FROM v_conflicts")
    assert kept["event_id"] == changed["event_id"]
    assert json.loads(kept["text"])["agent_id"] == "another"
    (stored,) = ask(store, f"SELECT agent_id, content_digest FROM v_events WHERE event_id = '{changed['event_id']}'")  # noqa: S608
    assert stored == {"agent_id": EVENTS[0]["agent_id"], "content_digest": kept["known_digest"]}
    assert counts(store)["exit_classifications"] == 2
    assert unaccounted(store) == 0


def test_conflicts_show_where_the_output_is_for_programs(tmp_path, store):
    path = write_lines(tmp_path / "both", [EVENTS[0], EVENTS[0] | {"agent_id": "another"}])
    done = classify(store, path)
    assert len(done.lines) == 2
    assert "conflicting: 1" in done.err


def test_tenants_do_not_share_identities(tmp_path, store):
    done = run("classify", write_lines(tmp_path / "e", [EVENTS[0], EVENTS[0] | {"tenant": "other"}]), "--store", store)
    assert "2 read = 2 classified" in done.err


# --- what is no event


def test_bad_lines_cost_their_neighbours_nothing(tmp_path, store, answer):
    bad = [BAD, "[1]", '{"type": "nonsense"}', json.dumps(EVENTS[0] | {"occurred_at": "yesterday"})]
    lines = [line for event, noise in zip(EVENTS[:4], bad, strict=True) for line in (event, noise)]
    done = classify(store, write_lines(tmp_path / "events", lines))
    assert done.status == 1
    assert done.out.splitlines()[::2] == answer.splitlines()[:4]
    errors = [line["error"] for line in done.lines[1::2]]
    assert [error["line"] for error in errors] == [2, 4, 6, 8]
    assert errors[3]["path"] == "occurred_at"
    letters = ask(store, "SELECT offset, raw, reason_code FROM v_dead_letters ORDER BY offset")
    assert [letter["raw"] for letter in letters] == bad
    assert [letter["reason_code"] for letter in letters] == [error["reason_code"] for error in errors]
    assert "no valid records: 4" in done.err
    assert unaccounted(store) == 0


def test_companions_among_events_are_stored_by_the_same_run(tmp_path, store):
    kinds = ("legacy_exit", "recovery_action", "review_event", "enrichment")
    done = run("classify", write_lines(tmp_path / "mixed", [*EVENTS[:3], *map(companion, kinds)]), "--store", store)
    assert "7 read = 3 classified + 4 stored" in done.err
    assert "7 messages read, 3 events classified" in done.text
    seen = counts(store)
    assert [seen[f"{kind}s"] for kind in kinds] == [1, 1, 1, 1]
    assert unaccounted(store) == 0


def test_dispositions_add_up(tmp_path, store):
    lines = [*EVENTS, BAD, EVENTS[0], EVENTS[1] | {"agent_id": "x"}, companion("enrichment"), companion("enrichment")]
    run("classify", write_lines(tmp_path / "all", lines), "--store", store)
    (row,) = ask(store, "SELECT * FROM v_ledger")
    parts = ("classified", "stored", "duplicate", "conflicting", "dead_lettered", "filtered")
    assert [row[part] for part in parts] == [len(EVENTS), 1, 2, 1, 1, 0]
    assert row["read"] == sum(row[part] for part in parts) == len(lines)


def test_a_damaged_container_loses_only_what_is_behind_the_damage(tmp_path, store):
    whole = in_container("null")
    path = tmp_path / "cut.avro"
    path.write_bytes(whole[: len(whole) * 2 // 3])
    done = classify(store, path)
    assert done.status == 1
    assert 0 < len(done.lines) - 1 < len(EVENTS)
    assert counts(store)["dead_letters"] == 1
    assert unaccounted(store) == 0


# --- usage


def test_the_table_for_people_fits_and_counts(tmp_path, store):
    done = run("classify", write_lines(tmp_path / "events", EVENTS), "--store", store)
    assert f"{len(EVENTS)} messages read" in done.text
    assert max(map(len, done.text.splitlines())) <= 120
    assert "offramp query" in done.err


def test_a_reason_code_that_looks_like_markup_or_takes_over_the_terminal_is_shown_as_it_is(tmp_path, store):
    code = "[/red]\x1b[2Jx"
    denied = EVENTS[0] | {"policy_decisions": [{"source": "application", "effect": "deny", "reason_code": code}]}
    done = run("classify", write_lines(tmp_path / "events", [denied]), "--store", store)
    assert done.status == 0
    assert "[/red]\\x1b[2Jx" in done.text


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["nowhere.jsonl"], "nowhere.jsonl: No such file"),
        (["-", "-"], "- stands twice"),
        (["."], "Is a directory"),
        (["-", "--table", "nowhere.toml"], "nowhere.toml"),
        (["-", "--config", "nowhere.toml"], "nowhere.toml"),
    ],
)
def test_usage_errors_end_with_two_and_say_where(store, argv, says):
    done = run("classify", *argv, "--store", store)
    assert done.status == 2
    assert says in done.err
    assert not store.exists()


def test_somebody_elses_directory_is_refused(tmp_path):
    path = write_lines(tmp_path / "events", EVENTS[:1])
    done = run("classify", path, "--store", tmp_path)
    assert done.status == 2
    assert "is no store" in done.err


def test_the_headline_counts_each_event_once(tmp_path, store):
    path = write_lines(tmp_path / "events", [*EVENTS[:3], *EVENTS[:2], "nonsense"])
    done = run("classify", path, "--store", store)
    assert done.text.startswith("6 messages read, 3 events classified, 2 duplicates\n")
    assert "ledger: 6 read = 3 classified + 2 duplicate + 1 dead_lettered; kept in" in done.err


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that opens and cannot be read")
def test_a_file_that_cannot_be_read_is_named(store):
    done = run("classify", "/proc/self/mem", "--store", store)
    assert (done.status, done.err) == (2, "offramp: /proc/self/mem: Input/output error\n")
    assert run("classify", "", "--store", store).err.startswith("offramp: a file name that is empty: ")


def test_one_of_a_thing_is_said_as_one(tmp_path, store):
    path = write_lines(tmp_path / "events", EVENTS[:1])
    assert run("classify", path, "--store", store).text.startswith("1 message read, 1 event classified\n")
