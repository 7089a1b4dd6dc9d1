"""The table in SQL says of every set of facts what the classifier says, also where it has to overrule the table."""

from collections import Counter
from dataclasses import asdict
from functools import cache
from random import Random
from typing import Any

import pytest

from classifier.decide import TABLE_VIOLATES_INVARIANT, Classifier
from classifier.facts import FACTS, names
from classifier.outcomes import outcomes
from classifier.sql import condition_sql, exit_sql, facts_sql
from classifier.table import Table, default_text, load
from tests.cases import load_cases
from tests.classifier.answers import default_classifier
from tests.classifier.engine import computed
from tests.classifier.spaces import parsed
from tests.strategies import random_event

DEFAULT = default_text()
HEAD = DEFAULT[: DEFAULT.index("[[rows]]")]
LAST = '[[rows]]\nid = "rest"\nwhen = "true"\nexit = "human_queue"\nqueue = "judgement"\n'
KINDS = ("completed", "refusal", "fallback", "partial", "human_queue")
REASON_FROM = {"refusal": "denial", "fallback": "failure", "partial": "omission"}
ATOMS = tuple(fact.name for fact in FACTS)


@cache
def _random_bits() -> tuple[int, ...]:
    """Sets of facts with few and with many of them, possible or not."""
    rng, whole = Random(3), 2 ** len(FACTS)
    return tuple(rng.randrange(whole) & rng.choice((rng.randrange(whole), whole - 1)) for _ in range(10_000))


def _condition(rng: Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(("", "not ")) + rng.choice(ATOMS)
    parts = [_condition(rng, depth - 1) for _ in range(rng.choice((2, 3)))]
    return rng.choice(("", "not ")) + f"({rng.choice((' and ', ' or ')).join(parts)})"


def _row(rng: Random, number: int) -> str:
    kind = rng.choice(KINDS)
    finer = ", ".join(
        f'{{ code = "finer{place}", when = "{_condition(rng, 1)}" }}' for place in range(rng.choice((0, 0, 1, 3)))
    )
    lines = [f'[[rows]]\nid = "row{number}"\nwhen = "{_condition(rng, 3)}"\nexit = "{kind}"\nreasons = [{finer}]']
    lines += ['queue = "policy"'] if kind == "human_queue" or rng.random() < 0.3 else []
    lines += [f'reason_from = "{REASON_FROM[kind]}"'] if kind in REASON_FROM and rng.random() < 0.5 else []
    return "\n".join(lines) + "\n"


def _random_table(seed: int) -> Table:
    """A table that no proof would let through: what it says is ruled out again and again."""
    rng = Random(seed)
    return load(HEAD + "".join(_row(rng, number) for number in range(8)) + LAST)


def _said(table: Table, bits: int) -> dict[str, Any]:
    """What the classifier says, as far as facts tell it."""
    known = Classifier(table)._decide(bits)
    verdict, ruled_out = known.verdict, known.prohibited
    from_evidence = verdict.row.reason_from and verdict.reason != TABLE_VIOLATES_INVARIANT
    return {
        "rule_id": verdict.row.id,
        "kind": verdict.kind,
        "reason_code": None if from_evidence else verdict.reason,
        "verified": int(verdict.verified),
        "prohibited": ruled_out,
    }


def _agree(table: Table, bits: tuple[int, ...]) -> list[dict[str, Any]]:
    found, known = computed(asdict(exit_sql(table)), bits), outcomes(table)
    for each, row in zip(bits, found, strict=True):
        outcome = known[row.pop("outcome") - 1]
        queue = row.pop("queue")
        assert row == _said(table, each), each
        assert (outcome.rule_id, outcome.kind, outcome.queue) == (row["rule_id"], row["kind"], queue)
    return found


def test_the_default_table_on_any_set_of_facts():
    kinds = Counter(row["kind"] for row in _agree(load(DEFAULT), _random_bits()))
    assert kinds.keys() == set(KINDS)


@pytest.mark.parametrize("seed", range(6))
def test_tables_that_the_invariants_overrule(seed):
    found = _agree(_random_table(seed), _random_bits()[:2_000])
    overruled = Counter(row["kind"] for row in found if row["reason_code"] == TABLE_VIOLATES_INVARIANT)
    assert overruled["refusal"]
    assert overruled["human_queue"]


def test_every_event_gets_what_it_was_given():
    rng = Random(17)
    events = [case.event for case in load_cases()] + [random_event(rng) for _ in range(20_000)]
    decided = [default_classifier().classify(event) for event in events]
    found = computed(asdict(exit_sql(default_classifier().table)), [each.fact_bits for each in decided])
    for row, each in zip(found, decided, strict=True):
        given = each.classification
        envelope = given["envelope"] or {}
        names = ("rule_id", "kind", "verified", "prohibited")
        assert [row[name] for name in names] == [given[name] for name in names]
        assert row["reason_code"] in (given["reason_code"], None)
        assert (row["reason_code"] is None) == (row["kind"] in REASON_FROM)
        assert row["queue"] == (envelope["queue"] if given["kind"] == "human_queue" else None)
    assert {row["rule_id"] for row in found} == {row.row.id for row in default_classifier().table.rows}


CONDITIONS = (
    "true",
    "not true",
    "truncated and not truncated",
    "truncated or not truncated",
    "not (truncated and not (omission or not contradiction))",
    "(truncated or omission) and (not taken_over or not (contradiction and truncated))",
    "not not truncated",
)


def test_conditions():
    expressions = {f"c{place}": condition_sql(parsed(text)) for place, text in enumerate(CONDITIONS)}
    bits = _random_bits()[:500]
    for each, row in zip(bits, computed(expressions, bits), strict=True):
        assert [bool(value) for value in row.values()] == [parsed(text).holds(each) for text in CONDITIONS]


def test_facts_that_are_asked_for_together_are_one_comparison():
    assert condition_sql(parsed("truncated and not omission and taken_over")).count("bitAnd") == 1
    assert condition_sql(parsed("truncated or omission or taken_over")).count("bitAnd") == 1


def test_any_expression_may_stand_for_the_column():
    wanted = exit_sql(load(DEFAULT), "x.bits")
    assert "fact_bits" not in wanted.kind
    assert wanted.kind.replace("x.bits", "fact_bits") == exit_sql(load(DEFAULT)).kind


def test_facts_by_name_of_any_set_of_facts():
    found = computed({"facts": facts_sql("fact_bits")}, _random_bits())
    assert [tuple(row["facts"]) for row in found] == [*map(names, _random_bits())]
    assert max(len(row["facts"]) for row in found) > len(FACTS) / 2
