"""When runs are settled: whenever somebody asks for the comparison, by the mapping that the settings name."""

import json
from unittest.mock import Mock, patch

import pytest

from offramp.config import Settings
from offramp.session import Session
from offramp.shadowing import reach, settle_now
from shadow.mapping import default_text, load
from shadow.settle import Reach
from sinks.comparisons import Comparisons, Settling
from sinks.errors import StoreForbidden
from streams.clock import SystemClock
from tests.offramp.kit import ask, companion, events, new_directory, run, write_lines


@pytest.fixture(scope="module")
def folder():
    directory = new_directory()
    done = run("classify", write_lines(directory / "events.jsonl", list(events()[:3])), "--store", directory / "store")
    assert done.status == 0, done.err
    return directory


def load_exit(folder, number, **fields):
    event = events()[number]
    record = companion("legacy_exit", number, tenant=event["tenant"], event_id=event["event_id"], **fields)
    done = run("load", write_lines(folder / f"{number}.jsonl", [record]), "--store", folder / "store")
    assert done.status == 0, done.err


def test_asking_for_the_comparison_settles_first(folder):
    store = folder / "store"
    assert [row["n"] for row in ask(store, "SELECT count() AS n FROM comparisons")] == [0]
    assert [row["pairing"] for row in ask(store, "SELECT pairing FROM v_comparison")] == ["legacy_missing"] * 3
    load_exit(folder, 0, label="a word that nobody mapped")
    sql = "SELECT legacy_kind, verdict FROM v_comparison WHERE pairing = 'paired'"
    assert ask(store, sql) == [{"legacy_kind": "unmapped", "verdict": "unmapped"}]


def test_the_mapping_of_the_settings_is_used(folder):
    load_exit(folder, 1, label="odd")
    mapping = folder / "mapping.toml"
    mapping.write_text('id = "mine"\nversion = "7"\n[[rules]]\nlabel = "odd"\nkind = "fallback"\n')
    config = folder / "offramp.toml"
    config.write_text(f"[shadow]\nmapping = {json.dumps(str(mapping))}\n")
    sql = "SELECT mapping_version, runs FROM v_settlings LIMIT 1"
    done = run("query", "SELECT count() AS n FROM v_comparison WHERE legacy_kind = 'fallback'", "--format", "json",
               "--store", folder / "store", "--config", config)  # fmt: skip
    assert json.loads(done.out) == [{"n": 1}]
    assert ask(folder / "store", sql) == [{"mapping_version": "7", "runs": 3}]


def test_a_mapping_that_cannot_be_used_is_a_matter_of_configuration(folder):
    mapping = folder / "bad.toml"
    mapping.write_text('id = "mine"\nversion = "7"\n[[rules]]\nlabel = "a"\nkind = "odd"\n[[tests]]\n')
    config = folder / "bad-offramp.toml"
    config.write_text(f"[shadow]\nmapping = {json.dumps(str(mapping))}\n")
    done = run("query", "SELECT * FROM v_readiness", "--store", folder / "store", "--config", config)
    assert done.status == 2
    lines = done.err.splitlines()
    assert lines[0].endswith("bad.toml cannot be used as a label mapping:")
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["rule 1", "test 1"]
    plain = run("query", "SELECT count() FROM v_exits", "--store", folder / "store", "--config", config)
    assert plain.status == 0


@pytest.mark.parametrize(
    ("last", "until"),
    [
        (None, "nothing, so far"),
        (Settling("g", "m", "1", "d", 0, 0, 1, 0), "what was stored before 1970-01-01T00:00:00.000000Z"),
    ],
)
def test_a_user_who_may_not_write_sees_what_others_have_settled(capsys, last, until):
    session = Session(Settings(), SystemClock())
    with (
        patch("offramp.shadowing.settle", side_effect=StoreForbidden("not granted")),
        patch.object(Comparisons, "last", return_value=last),
    ):
        settle_now(session, Mock(), load(default_text()))
    assert capsys.readouterr().err == f"this user may not write, and sees what others have settled: {until}\n"


def test_a_server_is_looked_back_at_further_than_an_embedded_store():
    here = Session(Settings(), SystemClock())
    server = {"store": {"url": "http://h:1"}, "lifecycle": {"overlap_s": 7}}
    there = Session(Settings.model_validate(server), SystemClock())
    assert reach(here) == Reach(1_000_000, None)
    assert reach(there) == Reach(7_000_000, 86_400_000_000)


def test_an_explanation_settles_only_where_something_is_compared():
    folder = new_directory()
    event = events()[0]
    assert run("classify", write_lines(folder / "e.jsonl", [event]), "--store", folder / "store").status == 0
    argv = ("explain", event["event_id"], "--store", folder / "store")
    assert run(*argv).status == 0
    assert ask(folder / "store", "SELECT count() AS n FROM settlings") == [{"n": 0}]
    load_exit(folder, 0, label="ok")
    assert run(*argv).status == 0
    assert ask(folder / "store", "SELECT count() AS n FROM settlings") == [{"n": 1}]
