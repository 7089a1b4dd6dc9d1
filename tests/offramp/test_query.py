"""Asking the store: formats, refusals, and what is said when it cannot be asked."""

import csv
import io
import json
import os
import pty
import subprocess
import sys
from contextlib import contextmanager

import pyarrow.parquet as pq
import pytest

from offramp.querying import MAX_ROWS
from sinks.lock import Holder, hold
from tests.offramp.kit import ROOT, environment, events, new_directory, run, write_lines


@pytest.fixture(scope="module")
def store():
    directory = new_directory()
    bad = b'{"type": "nonsense", "prose": "\xff"}\n'
    path = write_lines(directory / "events", events()[:9])
    path.write_bytes(path.read_bytes() + bad)
    assert run("classify", path, "--store", directory / "store").status == 1
    return directory / "store"


@pytest.fixture
def query(store):
    return lambda *argv, **more: run("query", *argv, "--store", store, **more)


def test_json_is_one_array(query):
    done = query("SELECT kind, count() AS n FROM v_exits GROUP BY kind ORDER BY kind", "--format", "json")
    assert sum(row["n"] for row in json.loads(done.out)) == 9
    assert json.loads(query("SELECT 1 AS one WHERE 0", "--format", "json").out) == []


def test_json_is_valid_whatever_bytes_the_store_holds(query):
    (row,) = json.loads(query("SELECT raw FROM v_dead_letters", "--format", "json").out)
    assert row["raw"] == '{"type": "nonsense", "prose": "\N{REPLACEMENT CHARACTER}"}'


def test_csv_has_a_header(query):
    done = query("SELECT event_id, kind FROM v_exits ORDER BY event_id", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.text)))
    assert [row["event_id"] for row in rows] == sorted(event["event_id"] for event in events()[:9])


@pytest.mark.parametrize("where", ["file", "pipe"])
def test_parquet_keeps_types(query, tmp_path, where):
    sql, out = "SELECT event_id, occurred_at, facts FROM v_classifications", tmp_path / "out.parquet"
    done = query(sql, "--format", "parquet", *(["-o", out] if where == "file" else []))
    table = pq.read_table(out if where == "file" else io.BytesIO(done.out))
    assert table.num_rows == 9
    assert str(table.schema.field("occurred_at").type).startswith("timestamp[us")
    assert all(isinstance(facts, list) for facts in table["facts"].to_pylist())


def test_binary_does_not_go_to_a_terminal(store):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "offramp", "query", "SELECT 1", "--format", "parquet", "--store", str(store)]
    done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, cwd=ROOT, env=environment(), check=False)
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 2
    assert b"-o FILE" in done.stderr


def test_a_table_shows_names_values_and_numbers_as_they_are(query):
    done = query("SELECT 'x' AS name, 1234567 AS number, NULL AS nothing, [1, 2] AS list, '[b]' AS mark")
    assert done.text.splitlines()[0] == "rows: 1"
    assert done.text.split()[-5:] == ["1234567", "NULL", "[1,", "2]", "[b]"]


@pytest.mark.parametrize("sql", ["SELECT * FROM v_events LIMIT 2", "SELECT * FROM v_exits LIMIT 2",
                                 "SELECT event_id, run_id, kind, reason_code, rule_id FROM v_exits"])  # fmt: skip
def test_a_table_fits_the_terminal(query, sql):
    done = query(sql, patches={"os.environ": os.environ | {"COLUMNS": "80"}})
    assert max(map(len, done.text.splitlines())) <= 80


def test_what_is_too_wide_is_shown_row_by_row(query):
    done = query("SELECT * FROM v_events ORDER BY event_id LIMIT 2")
    assert "row 2 of 2" in done.text
    assert " tenant " in done.text


def test_a_long_answer_is_cut_and_says_so(query):
    done = query(f"SELECT number FROM numbers({MAX_ROWS + 5})")  # noqa: S608 -- a number
    assert f"rows: {MAX_ROWS + 5:,}" in done.text
    assert str(MAX_ROWS - 1) in done.text.split()
    assert str(MAX_ROWS) not in done.text.split()
    assert "--format csv" in done.err


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELEC 1", "Syntax error: failed at position 7 (1): 1"),
        ("SELECT kindd FROM v_exits", "`kindd`. Maybe you meant: ['kind']; `offramp query --schema`"),
        ("SELECT * FROM nowhere", "identifier 'nowhere'; `offramp query --schema`"),
        ("DROP TABLE terminal_events", "only reading is allowed"),
        ("SELECT 1 FORMAT CSV", "choose the format with the command's option"),
        ("SELECT throwIf(1)", "'throwIf' function is non-zero"),
    ],
)
def test_a_bad_statement_ends_with_two_and_the_engines_sentence(query, sql, says):
    done = query(sql)
    assert (done.status, done.out) == (2, b"")
    assert says in done.err
    assert len(done.err.splitlines()) == 1
    assert not any(noise in done.err for noise in ("Expected one of", "In scope", "SYNTAX_ERROR", "while executing"))


@pytest.mark.parametrize("argv", [[], ["SELECT 1", "--schema"], ["SELECT 1", "-o", "x"],
                                  ["--schema", "--format", "parquet"]])  # fmt: skip
def test_usage_errors_end_with_two(query, argv):
    assert query(*argv).status == 2


def test_an_output_that_cannot_be_written_is_said(query, tmp_path):
    done = query("SELECT 1", "--format", "csv", "-o", tmp_path / "no" / "file")
    assert done.status == 2
    assert "No such file or directory" in done.err


def test_the_schema_says_what_every_column_means(query):
    columns = json.loads(query("--schema", "--format", "json").out)
    assert [each for each in columns if not each["meaning"]] == []
    views = {each["view"] for each in columns}
    assert {"v_events", "v_exits", "v_ledger", "v_conflicts", "legacy_exits"} <= views
    meanings = {(each["view"], each["column"]): each["meaning"] for each in columns}
    assert meanings["v_exits", "kind"].startswith("exit kind")
    rows = list(csv.DictReader(io.StringIO(query("--schema", "--format", "csv").text)))
    assert rows == columns
    shown = query("--schema").text
    assert all(f"{view}: " in shown for view in views)
    assert max(map(len, shown.splitlines())) <= 120


@pytest.mark.parametrize("argv", [["query", "SELECT 1"], ["query", "--schema"], ["audit"]])
def test_reading_makes_no_store(tmp_path, argv):
    done = run(*argv, "--store", tmp_path / "none")
    assert done.status == 3
    assert f"there is no store at {tmp_path / 'none'}; `offramp classify FILE" in done.err
    assert list(tmp_path.iterdir()) == []


@contextmanager
def held(store):
    with hold(store, Holder("offramp classify", 4711, "here", 0), 0, wait=lambda _: None):
        yield


@pytest.mark.parametrize("argv", [["query", "SELECT 1"], ["audit"], ["classify", "-"], ["load", "-"]])
def test_a_busy_store_ends_with_three_and_names_the_holder(store, argv):
    with held(store):
        done = run(*argv, "--store", store, "--lock-timeout", "0")
    assert done.status == 3
    assert "in use by `offramp classify` (pid 4711 on here" in done.err
    assert done.err.endswith("; wait for it, longer by --lock-timeout\n")


def test_asking_changes_nothing(query, store):
    sql = "SELECT sum(total_rows) AS n FROM system.tables WHERE database = currentDatabase()"
    before = query(sql, "--format", "json").out
    for argv in (["SELECT * FROM v_exits"], ["--schema"]):
        query(*argv)
    assert query(sql, "--format", "json").out == before


def test_numbers_that_json_has_not_are_shown(query):
    done = query("SELECT nan AS a, inf AS b, -inf AS c, NULL AS d")
    assert done.text.split()[-4:] == ["nan", "inf", "-inf", "NULL"]
    assert json.loads(query("SELECT nan AS a, 1.5 AS b", "--format", "json").out) == [{"a": "nan", "b": 1.5}]


def test_a_description_of_a_view_is_one_table(query):
    done = query("DESCRIBE v_exits", patches={"os.environ": os.environ | {"COLUMNS": "80"}})
    assert done.text.startswith("rows: ")
    assert " event_id " in done.text


def test_nothing_that_is_asked_or_answered_moves_the_cursor(query):
    done = query("SELECT 1 AS \"x\033[32m\", '\033[31m' AS y")
    assert "x\\x1b[32m" in done.text
    refused = query("SELECT \033[31m")
    assert refused.status == 2
    assert "\033" not in done.text + refused.text + refused.err
