"""Every verb works on a ClickHouse server as on the embedded store, and several processes at once."""

import json
import subprocess
import sys

import pytest

from sinks.double import Account, RoleName, start_double
from tests.offramp.kit import ROOT, companion, environment, events, run_alone, write_lines

ACCOUNTS = [
    Account("admin", "of all: that is"),
    Account("writer", "w", RoleName.WRITER),
    Account("reader", "r", RoleName.READER),
]
EXITS = "SELECT tenant, event_id, kind, reason_code FROM v_exits ORDER BY ALL"


@pytest.fixture(scope="module")
def double(tmp_path_factory):
    with start_double(tmp_path_factory.mktemp("double"), ACCOUNTS) as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def served(double, folder):
    """Environment of a command that works on the server, whose tables are made and filled."""
    (folder / "password").write_text(f"{ACCOUNTS[0].password}\n")
    admin = {"OFFRAMP_STORE__URL": double.url, "OFFRAMP_STORE__USER": "admin",
             "OFFRAMP_STORE__PASSWORD_FILE": str(folder / "password"), "OFFRAMP_CLASSIFY__WORKERS": "0"}  # fmt: skip
    absent = run_alone("audit", **admin)
    assert (absent.status, absent.err) == (
        3, f"offramp: there is no store at {double.url}, database default; `offramp init` makes one\n",
    )  # fmt: skip
    lines = write_lines(folder / "events.jsonl", [*events()[:20], companion("enrichment"), "nonsense"])
    done = run_alone("classify", str(lines), **admin)
    assert done.status == 1, done.err
    assert f"22 read = 20 classified + 1 stored + 1 dead_lettered; kept in {double.url}" in done.err
    writer = {"OFFRAMP_STORE__USER": "writer", "OFFRAMP_STORE__PASSWORD": "w", "OFFRAMP_STORE__READER": "reader",
              "OFFRAMP_STORE__READER_PASSWORD": "r"}  # fmt: skip
    return {name: value for name, value in admin.items() if name != "OFFRAMP_STORE__PASSWORD_FILE"} | writer


def test_the_answers_are_those_of_the_embedded_store(served, folder, tmp_path):
    embedded = run_alone("classify", str(folder / "events.jsonl"), "--store", str(tmp_path / "store"))
    assert embedded.status == 1
    one = run_alone("query", EXITS, "--format", "json", "--store", str(tmp_path / "store"))
    other = run_alone("query", EXITS, "--format", "json", **served)
    assert len(json.loads(one.out)) == 20
    assert one.out == other.out


@pytest.mark.parametrize("output", ["table", "csv", "json"])
def test_query_answers_in_every_format(served, output):
    done = run_alone("query", "SELECT count() AS n FROM v_events", "--format", output, **served)
    assert (done.status, b"20" in done.out) == (0, True), done.err


@pytest.mark.parametrize("sql", ["DROP TABLE terminal_events", "SELECT * FROM nowhere", "SELECT 1 SETTINGS readonly=0"])
def test_query_refuses_what_it_refuses_elsewhere(served, sql):
    assert run_alone("query", sql, **served).status == 2


def test_explain_reads_an_event(served):
    done = run_alone(
        "explain", events()[0]["event_id"], "--tenant", events()[0]["tenant"], "--format", "json", **served
    )
    assert done.status == 0, done.err
    assert json.loads(done.out)


def test_running_it_again_changes_nothing(served, folder):
    before = run_alone("query", EXITS, "--format", "json", **served).out
    assert run_alone("classify", str(folder / "events.jsonl"), **served).status == 1
    assert run_alone("query", EXITS, "--format", "json", **served).out == before


def test_load_rebuild_and_audit_work(served, tmp_path):
    lines = write_lines(tmp_path / "companions.jsonl", [companion("legacy_exit", 7)])
    assert run_alone("load", str(lines), **served).status == 0
    rebuilt = run_alone("rebuild", **served)
    assert rebuilt.status == 0, rebuilt.err
    audited = run_alone("audit", "--format", "json", **served)
    assert (audited.status, json.loads(audited.out)["unaccounted"]) == (0, 0)


def test_two_classify_at_once_the_same_events(served, double, tmp_path):
    # Long enough for each to look for what the other has not inserted yet.
    double.delay(2, on="INSERT INTO terminal_events", times=2)
    files = [write_lines(tmp_path / f"{number}.jsonl", [*events()[20:60], *([""] * number)]) for number in range(2)]
    both = [
        subprocess.Popen(
            [sys.executable, "-m", "offramp", "classify", str(file)], cwd=ROOT, env=environment(**served),
            stdout=subprocess.DEVNULL,
        )
        for file in files
    ]  # fmt: skip
    assert [each.wait() for each in both] == [0, 0]
    sql = "SELECT count() AS n, uniqExact(tenant, event_id) AS ids FROM v_exits"
    assert json.loads(run_alone("query", sql, "--format", "json", **served).out) == [{"n": 60, "ids": 60}]
    assert run_alone("audit", **served).status == 0


def test_who_is_not_let_in_ends_with_2(served):
    done = run_alone("audit", **served | {"OFFRAMP_STORE__PASSWORD": "wrong"})
    assert (done.status, "check store.user and store.password" in done.err) == (2, True)
    assert "wrong" not in done.err


def test_an_outage_ends_with_3_in_one_line(served, double, folder, tmp_path):
    fresh = write_lines(tmp_path / "fresh.jsonl", [events()[0] | {"event_id": "during an outage"}])
    double.refuse(252, times=None, on="INSERT INTO ingest_ledger")
    done = run_alone("classify", str(fresh), **served)
    double.clear()
    assert (done.status, done.err.count("\n")) == (3, 1), done.err
    assert "TOO_MANY_PARTS" in done.err
    assert done.err.endswith("; end the outage, then run the command again\n")
    assert run_alone("classify", str(fresh), **served).status == 0
    assert run_alone("audit", **served).status == 0


def test_nobody_there_ends_with_3():
    done = run_alone("audit", OFFRAMP_STORE__URL="http://127.0.0.1:1")
    assert (done.status, done.err.count("\n")) == (3, 1)
    assert "cannot be reached" in done.err


def test_a_directory_named_with_the_command_wins(served, tmp_path):
    done = run_alone("audit", "--store", str(tmp_path / "none"), **served)
    assert (done.status, f"there is no store at {tmp_path / 'none'}" in done.err) == (3, True)


@pytest.mark.parametrize(("given", "wrong"), [
    ({"OFFRAMP_STORE__PATH": "x", "OFFRAMP_STORE__URL": "http://localhost"}, "exclude each other"),
    ({"OFFRAMP_STORE__SHARDED": "true"}, "set store.cluster"),
    ({"OFFRAMP_STORE__CLUSTER": "x' y"}, "store.cluster"),
    ({"OFFRAMP_STORE__URL": "localhost:8123"}, "http://HOST:PORT"),
    ({"OFFRAMP_STORE__URL": "http://me:secret@localhost"}, "store.user"),
    ({"OFFRAMP_STORE__PASSWORD_FILE": "/nonexistent"}, "OFFRAMP_STORE__PASSWORD_FILE"),
])  # fmt: skip
def test_settings_that_cannot_be_are_refused(given, wrong):
    done = run_alone("audit", **given)
    assert (done.status, wrong in done.err) == (2, True), done.err
    assert "secret" not in done.err


def test_a_writer_alone_is_told_who_makes_the_tables(tmp_path):
    with start_double(tmp_path, ACCOUNTS) as fresh:
        done = run_alone("classify", "-", OFFRAMP_STORE__URL=fresh.url, OFFRAMP_STORE__USER="writer",
                         OFFRAMP_STORE__PASSWORD="w")  # fmt: skip  # noqa: S106
    assert (done.status, "run `offramp init` once as one that may" in done.err) == (2, True), done.err


def test_the_verbs_work_over_shards(tmp_path):
    lines = write_lines(tmp_path / "events.jsonl", [*events()[:5], companion("enrichment")])
    with start_double(tmp_path / "store", cluster="main") as sharded:
        env = {"OFFRAMP_STORE__URL": sharded.url, "OFFRAMP_STORE__CLUSTER": "main", "OFFRAMP_STORE__SHARDED": "true",
               "OFFRAMP_CLASSIFY__WORKERS": "0"}  # fmt: skip
        verbs = [["classify", str(lines)], ["rebuild"], ["explain", events()[0]["event_id"]], ["audit"]]
        assert [(verb, run_alone(*verb, **env).status) for verb in verbs] == [(verb, 0) for verb in verbs]
        spread = run_alone(
            "query", "SELECT engine FROM system.tables WHERE name = 'terminal_events'", "--format", "json", **env
        )
        assert json.loads(spread.out) == [{"engine": "Distributed"}]
