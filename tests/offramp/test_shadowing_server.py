"""Runs are settled on a ClickHouse server as in an embedded store, by a user that may insert."""

import json

import pytest

from sinks.double import Account, RoleName, start_double
from tests.offramp.kit import companion, events, run_alone, write_lines

ACCOUNTS = [
    Account("admin", "of all: that is"),
    Account("writer", "w", RoleName.WRITER),
    Account("reader", "r", RoleName.READER),
]
PAIRS = "SELECT event_id, pairing, legacy_kind, verdict FROM v_comparison ORDER BY ALL"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def lines(folder):
    chosen = events()[:6]
    exits = [
        companion("legacy_exit", number, tenant=event["tenant"], event_id=event["event_id"], label=label)
        for number, (event, label) in enumerate(zip(chosen, ["ok", "odd", "ERR_GENERIC", "denied"], strict=False))
    ]
    return write_lines(folder / "lines.jsonl", [*chosen, *exits, companion("legacy_exit", 9, event_id="never seen")])


@pytest.fixture(scope="module")
def served(tmp_path_factory, lines):
    """Environment of a command on a server whose tables are made and filled, as a user that may insert and no more."""
    with start_double(tmp_path_factory.mktemp("double"), ACCOUNTS) as double:
        where = {"OFFRAMP_STORE__URL": double.url, "OFFRAMP_CLASSIFY__WORKERS": "0"}
        admin = {"OFFRAMP_STORE__USER": "admin", "OFFRAMP_STORE__PASSWORD": ACCOUNTS[0].password}
        done = run_alone("classify", lines, **where, **admin)
        assert done.status == 0, done.err
        writer = {"OFFRAMP_STORE__USER": "writer", "OFFRAMP_STORE__PASSWORD": "w"}
        yield where | writer | {"OFFRAMP_STORE__READER": "reader", "OFFRAMP_STORE__READER_PASSWORD": "r"}


def pairs(*options, **env):
    done = run_alone("query", PAIRS, "--format", "json", *options, **env)
    assert (done.status, done.err) == (0, "")
    return json.loads(done.out)


def test_the_rows_are_those_of_an_embedded_store(served, folder, lines):
    settled = pairs(**served)
    assert run_alone("classify", lines, "--store", folder / "store").status == 0
    assert pairs("--store", folder / "store") == settled
    assert [row["pairing"] for row in settled].count("paired") == 4


def test_another_mapping_settles_all_though_the_user_may_delete_nothing(served, folder):
    mapping = folder / "mapping.toml"
    mapping.write_text('id = "mine"\nversion = "1"\n[[rules]]\nlabel = "odd"\nkind = "fallback"\n')
    pairs(**served)
    settled = pairs(OFFRAMP_SHADOW__MAPPING=str(mapping), **served)
    kinds = sorted(row["legacy_kind"] for row in settled)
    assert kinds == ["", "", "fallback", "unmapped", "unmapped", "unmapped", "unmapped"]
