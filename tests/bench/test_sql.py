"""What is timed is what a table decides: of every row, counted by the engine, as the classifier counts them."""

import re
from collections import Counter
from random import Random

import pytest

from bench import sql
from classifier.decide import Classifier
from classifier.facts import FACTS
from classifier.outcomes import outcomes
from classifier.table import default_text, load
from tests.classifier.engine import asked
from tests.offramp.kit import run_alone

TABLE = load(default_text())


def some_facts(number):
    """Facts as the benchmark has them, each holding in one of eight."""
    rng = Random(3)
    return [sum(fact.bit for fact in FACTS if rng.random() < 1 / 8) for _ in range(number)]


def test_the_statement_counts_what_the_table_decides():
    bits = some_facts(2_000)
    classifier, known = Classifier(TABLE), outcomes(TABLE)
    expected = Counter()
    for each in bits:
        verdict = classifier._decide(each).verdict
        expected[verdict.row.id, verdict.kind, verdict.reason, verdict.verified] += 1
    found = Counter()
    for row in asked(sql.recomputing(), bits):
        outcome = known[row["outcome"] - 1]
        found[outcome.rule_id, outcome.kind, outcome.reason, bool(row["verified"])] += int(row["count()"])
    assert found == expected
    assert len({rule for rule, *_ in found}) > len(TABLE.rows) // 2


def test_the_fastest_round_counts(monkeypatch):
    ticks = iter((0.0, 9.0, 10.0, 12.0, 20.0, 25.0, 30.0, 33.0, 40.0, 44.0))
    monkeypatch.setattr(sql.time, "perf_counter", lambda: next(ticks))
    calls = []
    assert sql.fastest(lambda: calls.append(1)) == 2.0
    assert len(calls) == sql.ROUNDS


@pytest.mark.parametrize(("seconds", "status", "said"), [(1.0, 0, "pass"), (3.0, 1, "FAIL")])
def test_too_slow_ends_with_one(monkeypatch, capsys, seconds, status, said):
    monkeypatch.setattr(sql, "measure", lambda _events, _directory: seconds)
    monkeypatch.setattr(sql.sys, "argv", ["sql", "--events", "10000000"])
    with pytest.raises(SystemExit) as end:
        sql.main()
    assert end.value.code == status
    assert capsys.readouterr().out.startswith(f"{said}  10,000,000 events in {seconds:.2f} s")


def test_it_measures_rows_on_disk():
    done = run_alone("--events", "20000", program=("-m", "bench.sql"))
    assert done.status in {0, 1}, done.err
    assert re.match(r"(pass|FAIL)  20,000 events in \d+\.\d\d s on \d+ cores: \d+\.\d million a second\n", done.text)
