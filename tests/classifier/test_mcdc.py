"""Which pairs of a table can be, and which tests show them, agree with trying out every combination."""

from itertools import product
from random import Random

import pytest

from classifier.facts import BY_NAME
from classifier.mcdc import Coverage, measure
from classifier.synthesis import event_for
from classifier.table import Table, default_text, load
from classifier.view import View
from tests.cases import load_cases

TEXT = default_text()
HEAD = TEXT.split("[[rows]]")[0]
DEFAULT = load(TEXT)
CASES = {case.id: View(case.event, DEFAULT.thresholds).bits for case in load_cases()}
_WHEN = {row.row.id: row.row.when for row in DEFAULT.rows}
FREE = ("contradiction", "taken_over", "no_progress", "child_run_open")
"""Facts that no constraint ties to any other."""


def _bits(*facts: str) -> int:
    return sum(BY_NAME[name].bit for name in facts)


def _table(*conditions: str) -> Table:
    rows = (
        f'[[rows]]\nid = "r{number}"\nwhen = "{when}"\nexit = "human_queue"\nqueue = "judgement"\n'
        for number, when in enumerate((*conditions, "true"))
    )
    return load(HEAD + "".join(rows))


def _pairs(coverage: Coverage) -> dict[tuple[str, str], tuple[bool, bool]]:
    return {(pair.row_id, pair.fact): (pair.is_feasible, pair.is_shown) for pair in coverage.pairs}


# --- the default table


def test_the_cases_show_all_of_the_default_table():
    coverage = measure(DEFAULT, CASES.values())
    assert coverage.is_complete
    assert all(coverage.decided.values())
    assert coverage.shown == coverage.feasible
    assert (len(coverage.pairs), len(coverage.feasible)) == (49, 45)


def test_what_cannot_be_shown_is_known():
    infeasible = {(pair.row_id, pair.fact): pair.ruled_out for pair in measure(DEFAULT, ()).infeasible}
    assert set(infeasible) == {
        ("partial", "omission"),
        ("completion_unverified", "predicate_satisfied"),
        ("completion_unverified", "predicate_unsatisfied"),
        ("completion_unverified", "predicate_unverifiable"),
    }
    assert infeasible["partial", "omission"] == (
        "No run is such that not omission makes row partial not hold.",
        "Never safe_partial and not omission. A result without an omission is not partial.",
    )
    assert infeasible["completion_unverified", "predicate_unsatisfied"] == (
        "No run is such that predicate_unsatisfied makes row completion_unverified not hold.",
        f"Where {_WHEN['premature_completion']}, row premature_completion decides first.",
    )


@pytest.mark.parametrize("case_id", [case_id for case_id in CASES if case_id.startswith("M")])
def test_no_case_for_coverage_is_idle(case_id):
    assert not measure(DEFAULT, (bits for other, bits in CASES.items() if other != case_id)).is_complete


def test_there_is_an_event_for_everything_that_can_be():
    sides = [side for pair in measure(DEFAULT, ()).feasible for side in pair.sides]
    for bits in {side.smallest for side in sides}:
        assert bits is not None
        assert event_for(bits, DEFAULT.thresholds) is not None


# --- any table


def _random_condition(rng: Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(("", "not ")) + rng.choice(FREE)
    parts = [_random_condition(rng, depth - 1) for _ in range(rng.choice((2, 2, 3)))]
    return rng.choice(("", "not ")) + f"({rng.choice((' and ', ' or ')).join(parts)})"


def _shown_by_trying(table: Table, tests: list[int]) -> dict[tuple[str, str], bool]:
    """The definition, run by run: the fact and the row turn together, and the fact alone would turn the row."""
    found = {}
    for place, row in enumerate(table.rows):
        reaching = [bits for bits in tests if not any(r.condition.holds(bits) for r in table.rows[:place])]
        for name in row.condition.names():
            fact, holds = BY_NAME[name].bit, row.condition.holds
            deciding = [bits for bits in reaching if holds(bits) is not holds(bits ^ fact)]
            found[row.row.id, name] = any(
                bool(one & fact) is not bool(other & fact) and holds(one) is not holds(other)
                for one, other in product(deciding, deciding)
            )
    return found


@pytest.mark.parametrize("seed", range(25))
def test_it_agrees_with_trying_every_combination(seed):
    rng = Random(seed)
    table = _table(*(_random_condition(rng, 2) for _ in range(3)))
    everything = [_bits(*(name for name, on in zip(FREE, flags, strict=True) if on))
                  for flags in product((False, True), repeat=len(FREE))]  # fmt: skip
    tests = rng.sample(everything, 6)
    can_be, shown = _shown_by_trying(table, everything), _shown_by_trying(table, tests)
    assert _pairs(measure(table, tests)) == {pair: (can_be[pair], shown[pair]) for pair in can_be}
    missing = [missing.bits for missing in measure(table, tests).missing]
    assert measure(table, [*tests, *missing]).is_complete


def test_a_run_that_an_earlier_row_decides_shows_nothing_of_a_later_one():
    table = _table("contradiction", "taken_over")
    both, none = _bits("contradiction", "taken_over"), 0
    assert _pairs(measure(table, [both, none])) == {
        ("r0", "contradiction"): (True, True),
        ("r1", "taken_over"): (True, False),
    }


def test_a_fact_may_turn_a_condition_either_way():
    differ = "(contradiction and not taken_over) or (taken_over and not contradiction)"
    rising = [_bits("contradiction"), 0]
    falling = [_bits("contradiction", "taken_over"), _bits("taken_over")]
    for tests in (rising, falling):
        assert _pairs(measure(_table(differ), tests))["r0", "contradiction"] == (True, True)
    assert _pairs(measure(_table(differ), [rising[0], falling[0]]))["r0", "contradiction"] == (True, False)


def test_a_fact_that_never_turns_its_condition_is_told():
    [pair] = measure(_table("contradiction or (contradiction and taken_over)"), ()).infeasible
    assert (pair.fact, pair.ruled_out) == ("taken_over", ("Its condition never turns with taken_over.",))


def test_what_is_missing_says_what_it_shows():
    coverage = measure(_table("contradiction and taken_over"), [0])
    assert [(missing.bits, missing.shows) for missing in coverage.missing] == [
        (_bits("contradiction", "taken_over"), (
            "row r0 decides",
            "contradiction makes row r0 hold",
            "taken_over makes row r0 hold",
        )),
        (_bits("taken_over"), ("not contradiction makes row r0 not hold",)),
        (_bits("contradiction"), ("not taken_over makes row r0 not hold",)),
    ]  # fmt: skip


def test_a_row_without_conditions_is_missing_where_no_test_is_decided_by_it():
    coverage = measure(_table("contradiction"), [_bits("contradiction")])
    assert coverage.decided == {"r0": 1, "r1": 0}
    assert [missing.shows for missing in coverage.missing] == [
        ("row r1 decides", "not contradiction makes row r0 not hold")
    ]


def test_tests_count_as_often_as_they_stand_and_in_any_order():
    tests = [0, 0, _bits("contradiction")]
    assert measure(_table("contradiction"), tests).decided == {"r0": 1, "r1": 2}
    assert measure(DEFAULT, CASES.values()) == measure(DEFAULT, reversed(CASES.values()))
