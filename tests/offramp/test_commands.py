"""Commands that reports suggest: a shell reads them as they are meant."""

import shlex
from pathlib import Path

import pytest

from offramp.commands import Commands

COMMANDS = Commands(Path("/my stores/s"), None)


@pytest.mark.parametrize("event_id", ["-e", "-e 1", "e 1", "--", "e's", 'e"$`', ""])
def test_an_event_is_named_whatever_it_is_called(event_id):
    *options, last = shlex.split(COMMANDS.explain("acme's", event_id))
    assert last == event_id
    assert options[:5] == ["offramp", "explain", "--tenant=acme's", "--store", "/my stores/s"]
    assert options[5:] == (["--"] if event_id.startswith("-") else [])


@pytest.mark.parametrize("sql", ["SELECT 1", "SELECT 'a'", "SELECT '$a'", "SELECT `a` = 'b'", "SELECT \"a\", '!'"])
def test_a_query_arrives_as_it_is(sql):
    assert shlex.split(COMMANDS.query(sql)) == ["offramp", "query", "--store", "/my stores/s", sql]
