"""Answers for programs: JSON, whole or a line each, in the same words whatever the verb."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from offramp.main import app
from tests.offramp.kit import as_lines, events, new_directory, run, write_lines


@pytest.fixture(scope="module")
def store():
    """Nine events, and two letters that are dead."""
    directory = new_directory()
    path = write_lines(directory / "events", [*events()[:9], "{", "}"])
    assert run("classify", path, "--store", directory / "store").status == 1
    return directory / "store"


def commands(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


def formats() -> dict[str, set[str]]:
    """What ``--format`` takes, by verb."""
    return {
        name: {str(word) for word in param.type_descriptor.annotation}
        for name, command in commands(typer.main.get_command(app))
        for param in command.params
        if "--format" in param.opts
    }


def test_every_verb_has_the_same_words_for_the_same_thing():
    assert len(formats()) > 20
    assert [name for name, words in formats().items() if not words >= {"table", "json", "ndjson"}] == []
    assert {name: words - {"table", "json", "ndjson"} for name, words in formats().items() if len(words) > 3} == {
        "query": {"csv", "parquet"},
        "shadow compare": {"html", "csv", "parquet"},
    }


def test_a_list_is_a_row_a_line(store):
    rows = ("query", "SELECT event_id FROM v_exits ORDER BY event_id", "--store", store)
    for argv, most in (
        (rows, 9),
        (("query", "--schema", "--store", store), None),
        (("schema",), None),
        (("schema", "gaps"), None),
        (("classify", "--no-store", store.parent / "events"), 9 + 2),
    ):
        whole, lines = (run(*argv, "--format", form) for form in ("json", "ndjson"))
        assert lines.lines == json.loads(whole.out), argv
        assert most in (None, len(lines.lines)), argv


def test_a_list_within_an_answer_is_what_has_lines(store):
    letters = json.loads(run("dlq", "list", "--store", store, "--format", "json").out)["newest"]
    assert run("dlq", "list", "--store", store, "--format", "ndjson").lines == letters
    assert len(letters) == 2


@pytest.mark.parametrize("verb", ["status", "audit"])
def test_any_other_answer_is_one_line(store, verb):
    whole, line = (run(verb, "--store", store, "--format", form) for form in ("json", "ndjson"))
    assert line.out.count(b"\n") == 1
    assert json.loads(line.out).keys() == json.loads(whole.out).keys()


def test_no_rows_are_no_lines(store):
    for verb in (("query", "SELECT 1 AS one WHERE 0", "--store", store), ("classify", "--no-store", "-")):
        assert run(*verb, "--format", "ndjson").out == b""
        assert json.loads(run(*verb, "--format", "json").out) == []


def test_an_array_is_whole_though_it_comes_in_pieces():
    many = as_lines(events() * 40)
    whole, lines = (run("classify", "-", "--no-store", "--format", f, stdin=many) for f in ("json", "ndjson"))
    assert json.loads(whole.out) == lines.lines
    assert len(lines.lines) == 40 * len(events())


@pytest.mark.parametrize("form", ["json", "ndjson"])
def test_what_ends_lines_elsewhere_ends_no_row(store, form):
    """Next line, line separator and group separator, which end a line of text but none of JSON Lines."""
    odd = "concat('a', char(0xc2, 0x85), 'b', char(0xe2, 0x80, 0xa8), 'c', char(0x1d), 'd')"
    done = run("query", f"SELECT {odd} AS odd, unhex('ff') AS b", "--store", store, "--format", form)
    row = {"odd": "a\x85b\u2028c\x1dd", "b": "\N{REPLACEMENT CHARACTER}"}
    assert (json.loads(done.out) if form == "json" else [json.loads(done.out)]) == [row]
