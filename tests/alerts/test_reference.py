"""The page that explains rules names every key that a rule or a test of rules may have."""

from pathlib import Path

import pytest

from alerts import rehearsal, rules
from alerts.model import Condition, Gauge, Series
from alerts.toml_file import Part

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "alert-rules.md").read_text(encoding="utf-8")


def parts(module):
    return [
        each for each in vars(module).values() if isinstance(each, type) and issubclass(each, Part) and each is not Part
    ]


@pytest.mark.parametrize("part", [*parts(rules), *parts(rehearsal)])
def test_every_key_is_explained(part):
    written = ("`{}`", "{} = ", "[[{}]]")
    assert [key for key in part.model_fields if not any(form.format(key) in PAGE for form in written)] == []


@pytest.mark.parametrize("symbols", [Condition, Series, Gauge])
def test_every_symbol_is_explained(symbols):
    assert [symbol for symbol in symbols if f"`{symbol}`" not in PAGE] == []


@pytest.mark.parametrize("condition", Condition)
def test_every_condition_has_its_keys(condition):
    (line, *_) = (line for line in PAGE.splitlines() if line.startswith(f"| `{condition}` |"))
    _, _, _, must, may, _ = line.split("|")
    if must.strip() != "the same":
        assert {key.strip("` ") for key in must.split(",")} == set(rules.NEEDS[condition].must)
    assert all(f"`{key}`" in may for key in rules.NEEDS[condition].may)


def test_its_examples_are_a_shipped_rule_and_a_test_of_it():
    blocks = [block.split("```")[0] for block in PAGE.split("```toml\n")[1:]]
    book = rules.load(blocks[1])
    assert book.rules[0] == rules.load(rules.default_text()).rules[0]
    tests = rehearsal.load(blocks[2])
    assert tests.rules == "alerts.toml"
    assert [outcome.failures for outcome in tests.run(book.rules)] == [()]
