"""Shares, what can be said of two of them, and agreement beside chance."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shadow.shares import Change, Share, change, kappa

KINDS = ("completed", "refusal", "error")
cells = st.dictionaries(st.tuples(st.sampled_from(KINDS), st.sampled_from(KINDS)), st.integers(0, 50))


def test_of_nothing_there_is_no_share():
    assert Share(0, 0).as_json() == {"count": 0, "of": 0, "share": None, "low": None, "high": None}


def test_a_known_interval():
    """Newcombe 1998, table I: 81 of 263 is 0.3080, by Wilson's interval 0.2553 to 0.3662."""
    interval = Share(81, 263).interval
    assert interval is not None
    assert (round(interval.low, 4), round(interval.high, 4)) == (0.2553, 0.3662)


@pytest.mark.parametrize(
    ("earlier", "later", "said"),
    [
        # Newcombe 1998, table II: 56/70 - 48/80 has the interval 0.0524 to 0.3339, so it is a change.
        ((48, 80), (56, 70), Change.RISES),
        ((56, 70), (48, 80), Change.FALLS),
        # The same table: 9/10 - 3/10 has 0.1705 to 0.8090; 5/56 - 0/29 has -0.0381.
        ((3, 10), (9, 10), Change.RISES),
        # By the formula 2/7 and 6/7 would differ too (0.0582 to 0.8062), and even 0/3 and 1/1.
        ((2, 7), (6, 7), Change.UNKNOWN),
        ((0, 3), (1, 1), Change.UNKNOWN),
        ((0, 9), (10, 10), Change.UNKNOWN),
        ((0, 10), (10, 10), Change.RISES),
        ((0, 29), (5, 56), Change.UNCLEAR),
        ((1, 1), (0, 0), Change.UNKNOWN),
        ((0, 0), (1, 1), Change.UNKNOWN),
        ((50, 50), (50, 50), Change.UNCLEAR),
    ],
)
def test_what_can_be_said_of_two_shares(earlier, later, said):
    assert change(Share(*earlier), Share(*later)) is said


def test_a_known_kappa():
    """Counted by hand: 35 of 50 agree, chance gives 0.5, so 0.4; its error for large samples is 0.1270."""
    found = kappa({("yes", "yes"): 20, ("yes", "no"): 5, ("no", "yes"): 10, ("no", "no"): 15})
    assert found is not None
    assert found.value == pytest.approx(0.4)
    assert (found.high - found.low) / 2 / 1.959964 == pytest.approx(_error_by_hand(), rel=1e-6)


def _error_by_hand():
    """The formula of 1969, with its sums written out for this table."""
    agreed, chance = 0.7, 0.5 * 0.6 + 0.5 * 0.4
    on = 0.4 * ((1 - chance) - (0.5 + 0.6) * (1 - agreed)) ** 2 + 0.3 * ((1 - chance) - (0.5 + 0.4) * (1 - agreed)) ** 2
    # Row yes, column no: how often the second says yes, and the first says no; and the other way round.
    off = (1 - agreed) ** 2 * (0.1 * (0.6 + 0.5) ** 2 + 0.2 * (0.4 + 0.5) ** 2)
    last = (agreed * chance - 2 * chance + agreed) ** 2
    return (on + off - last) ** 0.5 / ((1 - chance) ** 2 * 50**0.5)


@pytest.mark.parametrize("counts", [{}, {("a", "a"): 0}, {("a", "a"): 9}])
def test_kappa_has_no_meaning_where_chance_always_agrees(counts):
    assert kappa(counts) is None


@given(cells)
def test_kappa_is_what_its_definition_says(counts):
    """Against exact arithmetic over the runs one by one."""
    runs = [pair for pair, count in counts.items() for _ in range(count)]
    firsts, seconds = [first for first, _ in runs], [second for _, second in runs]
    chance = (
        sum((Fraction(firsts.count(k) * seconds.count(k), len(runs) ** 2) for k in KINDS), Fraction()) if runs else 1
    )
    found = kappa(counts)
    if chance == 1:
        assert found is None
        return
    assert found is not None
    agreed = Fraction(sum(first == second for first, second in runs), len(runs))
    assert found.value == pytest.approx(float((agreed - chance) / (1 - chance)), abs=1e-9)
    assert -1 <= found.low <= found.value + 1e-9
    assert found.value - 1e-9 <= found.high <= 1
