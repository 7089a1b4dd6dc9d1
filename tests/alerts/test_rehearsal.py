"""Tests of rules: they pass, and they can fail."""

from pathlib import Path

import pytest

from alerts.rehearsal import load
from alerts.rules import default_text
from alerts.rules import load as load_rules
from alerts.toml_file import FileError

RULES = load_rules(default_text()).rules
EXAMPLE = Path(__file__).parents[2] / "examples" / "alert_rules_test.toml"
HALF = """
[[tests]]
name = "half"
rules = ["refusal_rate"]
series = [
  { series = "exits", scope = { tenant = "acme" }, values = "100*30" },
  { series = "refusal", scope = { tenant = "acme" }, values = "0*10 50*20" },
]
"""
FIRES = '[{ rule = "refusal_rate", tenant = "acme" }]'


def failures(text):
    return [failure for outcome in load(text).run(RULES) for failure in outcome.failures]


def test_the_example_passes():
    outcomes = list(load(EXAMPLE.read_text(encoding="utf-8")).run(RULES))
    assert len(outcomes) == 7
    assert [outcome.failures for outcome in outcomes] == [()] * 7


@pytest.mark.parametrize("expect", [
    f"{{ at = 9, firing = [], pending = [] }}, {{ at = 20, firing = {FIRES} }}", "{ at = 20, pending = [] }",
])  # fmt: skip
def test_what_is_as_expected_passes(expect):
    assert failures(f"{HALF}expect = [{expect}]") == []


@pytest.mark.parametrize(("expect", "said"), [
    ("{ at = 20, firing = [] }", "minute 20: refusal_rate of tenant acme is firing, at 0.5; it should not be"),
    (f"{{ at = 5, firing = {FIRES} }}", "minute 5: refusal_rate of tenant acme is not firing"),
    (f"{{ at = 20, pending = {FIRES} }}", "minute 20: refusal_rate of tenant acme is not pending, but firing"),
    ('{ at = 5, firing = [{ rule = "refusal_rate" }] }', "minute 5: refusal_rate is not firing"),
])  # fmt: skip
def test_what_is_not_as_expected_fails_with_the_minute(expect, said):
    assert failures(f"{HALF}expect = [{expect}]") == [said]


def test_rules_that_a_test_does_not_name_are_run_when_it_names_none():
    everything = HALF.replace('rules = ["refusal_rate"]\n', "")
    assert failures(f"{everything}expect = [{{ at = 20, firing = {FIRES} }}]") == []


def test_values_are_told_in_one_minute_when_they_come_late():
    text = HALF.replace('values = "0*10 50*20"', 'values = "50*3", told_at = 25')
    assert failures(f"{text}expect = [{{ at = 24, firing = [] }}, {{ at = 25, firing = {FIRES} }}]") == []


@pytest.mark.parametrize(("text", "said"), [
    ("", "tests: missing"),
    (HALF, "test 1 (half): expect: missing"),
    (HALF.replace("100*30", "100x30") + "expect = [{ at = 1 }]",
     'test 1 (half): series 1: values: must be counts, minute by minute, such as "10*60 0 7"'),
    (HALF.replace("100*30", "1*86401") + "expect = [{ at = 1 }]",
     "test 1 (half): series 1: values: must be of at most 86,400 minutes"),
    (HALF + "expect = [{ at = 1, fires = [] }]", "test 1 (half): expect 1: fires: nothing of that name may stand here"),
])  # fmt: skip
def test_a_file_that_cannot_be_used_says_where_and_why(text, said):
    with pytest.raises(FileError) as raised:
        load(text)
    assert said in raised.value.problems


@pytest.mark.parametrize("place", ['rules = ["refusal_rat"]', None])
def test_a_rule_that_there_is_not_is_told(place):
    text = f'{HALF}expect = [{{ at = 1, firing = [{{ rule = "refusal_rat" }}] }}]'
    if place:
        text = HALF.replace('rules = ["refusal_rate"]', place) + "expect = [{ at = 1 }]"
    with pytest.raises(FileError, match=r"test 1 \(half\): refusal_rat: there is no rule of this id"):
        list(load(text).run(RULES))
