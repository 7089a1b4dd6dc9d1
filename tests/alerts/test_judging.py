"""Bounds and verdicts, by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.judging import deviation, past_share, share_limit, wilson
from alerts.model import Baseline, Condition
from alerts.windows import Past
from tests.alerts.rule import REFUSALS, rule


@pytest.mark.parametrize(("hits", "runs", "low", "high"), [
    # Newcombe 1998, table I, 95 % two-sided.
    (81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718),
])  # fmt: skip
def test_wilsons_bounds_are_the_published_ones(hits, runs, low, high):
    assert wilson(hits, runs, deviation(0.975)) == (pytest.approx(low, abs=6e-5), pytest.approx(high, abs=6e-5))


@given(st.integers(0, 10_000), st.integers(1, 10_000), st.floats(0, 8))
def test_bounds_solve_the_equation_that_defines_them(hits, runs, deviations):
    hits = min(hits, runs)
    low, high = wilson(hits, runs, deviations)
    assert 0 <= low <= hits / runs + 1e-9
    assert hits / runs - 1e-9 <= high <= 1
    for bound in (low, high):
        assert abs(hits / runs - bound) == pytest.approx(
            deviations * math.sqrt(max(0.0, bound * (1 - bound)) / runs), abs=1e-6
        )


def test_of_nothing_every_share_is_possible():
    assert wilson(0, 0, 3.0) == (0.0, 1.0)


@pytest.mark.parametrize(("confidence", "deviations"), [(0.975, 1.95996), (0.999, 3.09023), (0.0, 0.0), (0.5, 0.0)])
def test_confidence_is_of_one_side(confidence, deviations):
    assert deviation(confidence) == pytest.approx(deviations, abs=1e-5)


def test_what_is_usual_leaves_out_the_window():
    past, asked = Past(), rule(baseline=Baseline(10080, 2.0, 200))
    past.add(0, {"exits": 300, "refusal": 50})
    assert past_share(asked, past, {"exits": 100, "refusal": 30}) == 20 / 200
    assert past_share(asked, past, {"exits": 101, "refusal": 30}) is None
    assert past_share(REFUSALS, past, {}) is None


@pytest.mark.parametrize(("usual", "limit"), [
    (None, 0.2), (0.0, 0.2), (0.09, 0.2), (0.15, 0.3), (0.3, 0.6), (0.6, 0.8), (0.9, 0.95), (1.0, 1.0),
])  # fmt: skip
def test_the_limit_of_a_share_never_passes_everything(usual, limit):
    assert share_limit(rule(baseline=Baseline(10080, 2.0, 200)), usual) == pytest.approx(limit)
    assert share_limit(REFUSALS, usual) == 0.2


@pytest.mark.parametrize(("usual", "limit"), [(None, 0.0), (0.0, 0.0), (0.3, 0.15), (0.9, 0.2)])
def test_the_limit_of_a_share_that_is_too_small(usual, limit):
    below = rule(condition=Condition.SHARE_BELOW, baseline=Baseline(10080, 2.0, 200))
    assert share_limit(below, usual) == pytest.approx(limit)
