"""Runbooks: one for each shipped rule, from the alert to a remedy, with questions that the store can answer."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from alerts.rules import default_text, load
from offramp.main import app
from offramp.period import period
from sinks.store import open_store

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "runbooks"
RULES = load(default_text()).rules
PAGES = {path.stem: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.md"))}
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def commands():
    """Each command of each page, as words."""
    for name, text in PAGES.items():
        for block in _BLOCK.findall(text):
            lexer = shlex.shlex(block, posix=True, punctuation_chars="\n")
            lexer.whitespace, lexer.whitespace_split = " \t", True
            words = []
            for word in [*lexer, "\n"]:
                if set(word) == {"\n"}:
                    if words:
                        yield name, words
                    words = []
                else:
                    words.append(word)


COMMANDS = list(commands())


def test_each_shipped_rule_has_a_page_and_each_page_a_rule():
    assert {rule.id: rule.runbook for rule in RULES} == {name: f"docs/runbooks/{name}.md" for name in PAGES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_page_leads_from_the_alert_to_a_remedy(rule):
    text = PAGES[rule.id]
    assert text.startswith(f"# {rule.id}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Look", "Cause and remedy", "It is over"]
    assert f"Owner: {rule.owner}." in " ".join(text.split())
    remedies = re.findall(r"^\| .+ \| .+ \| .+ \|$", text, re.MULTILINE)
    assert len(remedies) >= 4, "a heading, and at least two causes beside the line under it"


def test_commands_are_those_that_there_are():
    group = typer.main.get_command(app)
    for name, words in COMMANDS:
        assert words[0] == "offramp", (name, words)
        command = group
        for word in words[1:]:
            command = command.commands[word] if hasattr(command, "commands") else command
        options = {option for each in command.params for option in each.opts}
        assert {word for word in words if word.startswith("--")} <= options, (name, words)


def test_every_question_can_be_answered(tmp_path):
    asked = [(name, words[2]) for name, words in COMMANDS if words[1] == "query"]
    assert len(asked) > len(RULES)
    with open_store(tmp_path / "store", holder="test", lock_timeout_s=0, now=lambda: 0, wait=print) as store:
        store.migrate()
        for name, question in asked:
            assert store.select(question) == [], f"{name}: {question}"


def test_every_period_can_be_read():
    periods = [
        (name, words[place], words[place + 1])
        for name, words in COMMANDS
        for place, word in enumerate(words)
        if word in ("--since", "--until")
    ]
    assert periods
    for name, option, text in periods:
        assert period(text if option == "--since" else None, text if option == "--until" else None, lambda: 0), name
