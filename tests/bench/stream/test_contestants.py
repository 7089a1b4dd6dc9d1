"""Contestants do the same work: rows and raw blocks leave the same store, and every one of the roster is there."""

import json
import re
import subprocess
import sys

import pytest

from bench.generate import bodies
from bench.stream.environments import python_of
from bench.stream.race import SCRIPTS, _measured
from bench.stream.roster import PROJECT, ROSTER, chosen

EVENTS = 60
# Runs in a process of its own, as contestants do, and prints what is stored but for the instants of storing.
DRIVER = """
import json, sys
from pathlib import Path
import storing
from work import Judge
store, kind, *values = sys.argv[1:]
way = getattr(storing, kind)(Path(store))
way.store(Judge().judge_all([(bytes.fromhex(value), offset) for offset, value in enumerate(values)]))
for table, at in (("terminal_events", "ingested_at"), ("exit_classifications", "classified_at")):
    sql = f"SELECT * EXCEPT {at} FROM {table} ORDER BY tenant, event_id FORMAT JSONEachRow"
    print(json.dumps(way._client.raw_query(sql).decode()))
"""


def stored(directory, kind):
    subprocess.run([sys.executable, SCRIPTS / "prepare.py", directory], check=True)
    values = [(b"\0\0\0\0\1" + body).hex() for body in bodies(EVENTS, 7, lambda _: None)]
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(SCRIPTS)!r})\n{DRIVER}", directory, kind]
    out = subprocess.run([*command, *values], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [[json.loads(line) for line in json.loads(table).splitlines()] for table in out.splitlines()]


def test_rows_and_blocks_store_the_same(tmp_path):
    blocks = stored(tmp_path / "blocks", "Blocks")
    assert stored(tmp_path / "rows", "Rows") == blocks
    events, exits = blocks
    assert len(events) == len(exits) == EVENTS
    assert [row["event_id"] for row in events] == [row["event_id"] for row in exits]
    assert json.loads(events[0]["event"])["event_id"] == events[0]["event_id"]
    assert len({row["kind"] for row in exits}) > 2


def is_program(text):
    return "from work import" in text and "__main__" in text


def test_everybody_has_a_script_and_every_script_is_somebodys():
    programs = {path.stem for path in SCRIPTS.glob("*.py") if is_program(path.read_text())}
    assert programs - {"verify"} == {contestant.name for contestant in ROSTER}


def test_chosen_are_those_named_in_their_order_or_all():
    assert [one.name for one in chosen(["quix", "floor"])] == ["quix", "floor"]
    assert chosen([]) == ROSTER
    with pytest.raises(KeyError):
        chosen(["nobody"])


def test_the_environment_of_offramp_is_this_one():
    assert str(python_of(PROJECT)) == sys.executable


def test_all_that_is_installed_for_contestants_is_pinned():
    for file in (SCRIPTS.parent / "requirements").glob("*.txt"):
        for line in file.read_text().splitlines():
            assert line.startswith("# ") or re.fullmatch(r"[\w.-]+==[\w.]+", line), line


def test_what_was_measured_is_found_behind_codes_for_a_terminal():
    found = {"events": 3, "marks": [[1, 2]]}
    assert _measured(b"\x1b[?25l\x1b[?25h" + json.dumps(found).encode() + b"\n\x1b[?25h") == found
    assert _measured(b"Traceback") is None
