"""Bounds hold what they say: against a grid, against exact arithmetic, and over whole streams under daily looking."""

from fractions import Fraction
from math import comb, isclose, log
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shadow.statistics import (
    NOTHING_KNOWN,
    bounds,
    further_trials,
    is_above,
    is_below,
    log_wealth,
    scaled,
    wilson,
)

GRID = [number / 2_000 for number in range(2_001)]
ALPHAS = st.sampled_from((0.2, 0.05, 0.01))
LIMITS = st.sampled_from((0.01, 0.05, 0.1, 0.5))


@st.composite
def counts(draw, least=0):
    trials = draw(st.integers(least, 3_000))
    return draw(st.integers(0, trials)), trials


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    # Worked by hand from Wilson's formula with z = 1.959964.
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634), (1, 100, 0.0018, 0.0545)],
)
def test_wilson_as_tabulated(successes, trials, low, high):
    found = wilson(successes, trials)
    assert (round(found.low, 4), round(found.high, 4)) == (low, high)


@given(counts(least=1))
def test_wilson_solves_its_equation(given_counts):
    successes, trials = given_counts
    share = successes / trials
    for edge in wilson(successes, trials):
        if 0 < edge < 1:
            assert isclose((share - edge) ** 2, 1.959964**2 * edge * (1 - edge) / trials, rel_tol=1e-5, abs_tol=1e-12)
    assert wilson(successes, trials).low <= share <= wilson(successes, trials).high


@given(st.integers(0, 12), st.integers(0, 12), st.sampled_from((Fraction(1, 20), Fraction(1, 2), Fraction(9, 10))))
def test_the_capital_is_that_of_a_bettor_who_learns(cases, others, rate):
    """Exactly: bet each time by the mean of Beta(1/2, 24.5) after what was seen; the order does not matter."""
    a, b, capital = Fraction(1, 2), Fraction(49, 2), Fraction(1)
    for is_case in [True] * cases + [False] * others:
        belief = a / (a + b)
        capital *= belief / rate if is_case else (1 - belief) / (1 - rate)
        a, b = (a + 1, b) if is_case else (a, b + 1)
    assert isclose(log_wealth(cases, cases + others, float(rate)), log(capital), rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.parametrize("rate", [Fraction(1, 50), Fraction(1, 2), Fraction(19, 20)])
def test_the_capital_stays_one_on_average(rate):
    trials = 30
    mean = sum(
        comb(trials, cases)
        * float(rate**cases * (1 - rate) ** (trials - cases))
        * 2.718281828459045 ** log_wealth(cases, trials, float(rate))
        for cases in range(trials + 1)
    )
    assert isclose(mean, 1.0, rel_tol=1e-9)


@given(counts(), ALPHAS)
def test_bounds_are_where_a_naive_search_finds_them(given_counts, alpha):
    cases, trials = given_counts
    low, high = bounds(cases, trials, alpha)
    kept = [rate for rate in GRID if log_wealth(cases, trials, rate) < log(1 / alpha)]
    step = GRID[1]
    if kept:
        assert low <= kept[0] <= low + step + 1e-9
        assert high - step - 1e-9 <= kept[-1] <= high
    else:
        assert high - low <= step
    if trials:
        assert low <= cases / trials <= high


@given(counts(least=1), ALPHAS, st.integers(2, 50))
def test_bounds_shrink_as_the_same_share_goes_on(given_counts, alpha, times):
    cases, trials = given_counts
    once, often = bounds(cases, trials, alpha), bounds(cases * times, trials * times, alpha)
    assert often.high - often.low <= once.high - once.low + 1e-12


@given(counts())
def test_more_certainty_is_wider(given_counts):
    loose, strict = bounds(*given_counts, 0.2), bounds(*given_counts, 0.01)
    assert strict.low <= loose.low
    assert loose.high <= strict.high


@given(counts(), LIMITS, ALPHAS)
def test_being_below_or_above_is_what_the_bounds_say(given_counts, limit, alpha):
    low, high = bounds(*given_counts, alpha)
    if not isclose(high, limit, rel_tol=1e-9):
        assert is_below(*given_counts, limit, alpha) == (high < limit)
    if not isclose(low, limit, rel_tol=1e-9):
        assert is_above(*given_counts, limit, alpha) == (low > limit)


@given(counts(), LIMITS, ALPHAS)
def test_further_trials_are_the_fewest_that_are_enough(given_counts, limit, alpha):
    cases, trials = given_counts
    more = further_trials(cases, trials, limit, alpha)
    rate = cases / trials if trials else 0.0
    if more is None:
        assert rate >= limit or not is_below(cases + rate * 10**9, trials + 10**9, limit, alpha)
        return
    assert is_below(cases + rate * more, trials + more, limit, alpha)
    for fewer in {0, more // 2, more - 1} - {more, -1}:
        assert not is_below(cases + rate * fewer, trials + fewer, limit, alpha)
    for later in (more + 1, 2 * more + 7, 10 * more + 100):
        assert is_below(cases + rate * later, trials + later, limit, alpha)


def test_without_a_trial_nothing_is_known():
    assert wilson(0, 0) == bounds(0, 0, 0.05) == NOTHING_KNOWN
    assert not is_below(0, 0, 0.5, 0.05)
    assert not is_above(0, 0, 0.5, 0.05)
    assert further_trials(0, 0, 0.05, 0.05) == 72


def test_all_or_none():
    assert bounds(0, 1_000, 0.05).low == 0.0
    assert bounds(1_000, 1_000, 0.05).high == 1.0
    assert 0 < bounds(1_000, 1_000, 0.05).low < 1
    assert further_trials(5, 5, 0.05, 0.05) is None


@pytest.mark.parametrize("wrong", [(-1, 5), (6, 5), (float("nan"), 5), (1, float("inf")), (1, float("nan"))])
def test_counts_that_are_none(wrong):
    for ask in (wilson, lambda *them: bounds(*them, 0.05), lambda *them: further_trials(*them, 0.1, 0.05)):
        with pytest.raises(ValueError, match="there cannot be"):
            ask(*wrong)


@pytest.mark.parametrize("alpha", [0, 1, -0.1, float("nan")])
def test_an_alpha_that_is_none(alpha):
    with pytest.raises(ValueError, match="alpha must be between"):
        bounds(1, 5, alpha)


def test_ten_million_trials():
    low, high = bounds(100_000, 10_000_000, 0.05)
    assert 0.0098 < low < 0.01 < high < 0.0102


def test_scaling_rounds_up_and_needs_a_part():
    assert (scaled(10, 1, 3), scaled(10, 3, 10), scaled(0, 3, 10), scaled(1, 0, 10)) == (30, 34, 0, None)


def test_a_stream_that_is_looked_at_daily_is_missed_no_more_than_stated():
    """600 streams; the bench does 10,000. Five in a hundred may be missed at any time; more than nine would be odd."""
    rng, rate, missed = Random(5), 0.05, 0
    for _ in range(600):
        cases = 0
        for trials in range(1, 601):
            cases += rng.random() < rate
            if not trials % 20 and log_wealth(cases, trials, rate) >= log(20):
                missed += 1
                break
    assert missed <= 54
