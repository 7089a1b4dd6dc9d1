"""Importing real files: typed JSON Lines out, errors apart, one file costing the others nothing."""

import gzip
import json
import shutil

import pytest

from sources.registry import adapters
from tests.offramp.kit import as_lines, ask, events, run
from tests.sources.kit import DATA, GOLDEN

SWE_AGENT = DATA / "swe_agent" / "function_calling_simple.traj"
WHISSLE = DATA / "whissle"


def golden(source, stem):
    return [json.loads(line) for line in (GOLDEN / source / f"{stem}.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("source", ["swe-agent", "auto"])
def test_a_file_becomes_its_golden_records(source):
    done = run("import", source, SWE_AGENT)
    assert done.status == 0
    assert done.lines == golden("swe-agent", "function_calling_simple")


def test_every_line_is_typed_and_legacy_exits_come_along():
    done = run("import", "whissle", WHISSLE)
    types = [line["type"] for line in done.lines]
    assert set(types) == {"terminal_event", "legacy_exit"}
    assert f"legacy_exit {types.count('legacy_exit')}, terminal_event {types.count('terminal_event')}" in done.err


def test_a_directory_is_walked_and_each_file_recognised_by_itself(tmp_path):
    (tmp_path / "deep" / ".hidden").mkdir(parents=True)
    shutil.copy(SWE_AGENT, tmp_path / "deep" / "a.traj")
    shutil.copy(WHISSLE / "dental_reschedule.json", tmp_path / "b.json")
    for name in ("LICENSE", "README.md", "deep/LICENSE.upstream", "deep/.hidden/x.json"):
        (tmp_path / name).write_text("not data")
    done = run("import", "auto", tmp_path)
    assert done.status == 0
    assert "files 2: " in done.err
    alone = [run("import", "auto", path).lines for path in (tmp_path / "b.json", tmp_path / "deep" / "a.traj")]
    assert done.lines == [*alone[0], *alone[1]]


def test_what_is_wrong_is_said_with_its_place_and_costs_no_neighbour(tmp_path):
    broken = tmp_path / "a_broken.traj"
    broken.write_bytes(gzip.compress(SWE_AGENT.read_bytes())[:-9])
    (tmp_path / "b_unknown.txt").write_text("hello")
    (tmp_path / "c").mkdir()
    shutil.copy(SWE_AGENT, tmp_path / "c")
    done = run("import", "auto", tmp_path)
    assert done.status == 1
    assert done.lines == golden("swe-agent", "function_calling_simple")
    said = done.err.splitlines()
    assert said[0] == f"{broken}: the gzip data is truncated (bad_framing)"
    assert said[1].startswith(f"{tmp_path / 'b_unknown.txt'}: no source recognises it; `offramp import --list`")
    assert "errors 2" in said[2]


def test_a_defect_of_an_adapter_costs_only_its_file(tmp_path):
    for name in ("a.traj", "b.traj"):
        shutil.copy(SWE_AGENT, tmp_path / name)
    done = run("import", "auto", tmp_path, patches={"sources.swe_agent._event": None})
    assert done.status == 1
    assert done.out == b""
    assert done.err.count("the adapter failed with TypeError; please report it") == 2


def test_standard_input_and_compression(tmp_path):
    packed = gzip.compress(SWE_AGENT.read_bytes())
    done = run("import", "swe-agent", "-", stdin=packed)
    assert [line["event_id"] for line in done.lines if line["type"] == "terminal_event"]


def test_options_reach_the_records():
    done = run("import", "swe-agent", SWE_AGENT, "--tenant", "acme", "--occurred-at", "2026-11-30T09:00:00+01:00")
    assert {line["tenant"] for line in done.lines} == {"acme"}
    assert [line["occurred_at"] for line in done.lines if line["type"] == "terminal_event"] == [
        "2026-11-30T08:00:00.000000Z"
    ]


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["nonsense", SWE_AGENT], "nonsense: no such source; name one of activegraph, "),
        (["auto", "nowhere"], "nowhere: No such file or directory"),
        (["auto", SWE_AGENT, "--tenant", ""], "--tenant: must have 1 to"),
        (["auto", SWE_AGENT, "--occurred-at", "soon"], "--occurred-at: "),
        (["auto"], "FILE"),
    ],
)
def test_usage_errors_end_with_two(argv, says):
    done = run("import", *argv)
    assert done.status == 2
    assert says in done.err


def test_the_sources_are_listed_with_what_they_cannot_tell():
    done = run("import", "--list")
    assert done.status == 0
    words = set(done.text.replace(";", " ").replace(".", " ").split())
    for each in adapters():
        told = f"{each.name} {' '.join(each.cannot_tell)}".replace(";", " ").replace(".", " ")
        assert set(told.split()) <= words


def test_what_is_imported_is_classified_and_stored(tmp_path):
    lines = run("import", "auto", WHISSLE).out
    done = run("classify", "-", "--store", tmp_path / "store", stdin=lines)
    assert done.status == 0
    rows = ask(
        tmp_path / "store",
        "SELECT (SELECT count() FROM v_exits) AS exits, (SELECT count() FROM legacy_exits FINAL) AS legacy",
    )
    types = [json.loads(line)["type"] for line in lines.splitlines()]
    assert rows == [{"exits": types.count("terminal_event"), "legacy": types.count("legacy_exit")}]


@pytest.mark.parametrize("form", [as_lines, lambda records: json.dumps(records, indent=1).encode()])
def test_who_imports_what_is_the_contracts_already_is_told_the_verb(form):
    done = run("import", "auto", "-", stdin=form(list(events()[:2])))
    assert (done.status, done.out) == (1, b"")
    assert done.err.startswith("-: its records are the contract's already; use `offramp classify` (bad_framing)\n")
