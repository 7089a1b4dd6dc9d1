"""Bounds and verdicts, by hand."""

import math
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from alerts.judging import Evidence, chance_minutes, deviation, odds, of_surge, past_share, share_limit, wilson
from alerts.model import Baseline, Condition
from alerts.windows import Extent, Lane, Past, Track
from tests.alerts.rule import AGENT, REFUSALS, SURGES, rule


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


# --- surges


def lane(*minutes):
    """A window of minutes, each with its runs and hits."""
    made = Lane(Track(0, "exits", Extent(1000, 0, 1000)), AGENT)
    for number, (runs, hits) in enumerate(minutes):
        made.push(number, {"exits": runs, "refusal": hits})
    return made


@st.composite
def windows(draw):
    runs = draw(st.lists(st.integers(0, 8), min_size=1, max_size=12))
    return [(n, draw(st.integers(0, n))) for n in runs]


@given(windows(), st.floats(0.0, 0.4), st.floats(1, 5000))
def test_a_surge_holds_if_a_greater_share_is_likelier_by_enough_since_any_minute(minutes, usual, chance):
    limit = share_limit(SURGES, usual)
    shares, null = [limit + (1 - limit) * part for part in (0.25, 0.5, 0.75)], max(usual, limit / 4)

    def likelihood(share, since):
        return math.prod(share**hits * (1 - share) ** (runs - hits) for runs, hits in minutes[since:])

    def is_surge(since):
        runs, hits = (sum(column) for column in zip(*minutes[since:], strict=True))
        enough = hits >= 3 and hits > limit * runs
        ratio = max(likelihood(share, since) for share in shares) / likelihood(null, since)
        assume(not math.isclose(ratio, 3 * chance, rel_tol=1e-9))
        return enough and ratio > 3 * chance

    found = of_surge(SURGES, lane(*minutes), limit, odds(usual, limit, chance))
    assert (found is not None and found.holds) == any(is_surge(since) for since in range(len(minutes)))
    assert (found is None) == (sum(runs for runs, _ in minutes) == 0)


def test_a_surge_is_said_since_when_most_speaks_for_it():
    found = of_surge(SURGES, lane((5, 0), (4, 4), (3, 2), (2, 2)), 0.2, odds(0.05, 0.2, 500))
    assert found == (True, 8 / 9, 0.2, Evidence(8, 9, 1))
    assert of_surge(SURGES, lane((9, 1)), 0.2, odds(0.05, 0.2, 500)) == (False, 1 / 9, 0.2, None)


def test_what_is_usual_makes_a_surge_by_chance_seldom_enough():
    """Runs one by one at the usual share: on average at least as many go by as were asked for."""
    rng, waits = Random(7), []
    for _ in range(60):
        made, number = lane(), 0
        while True:
            number += 1
            made.push(number, {"exits": 1, "refusal": int(rng.random() < 0.1)})
            if len(made.entries) > 20:
                made.entries.popleft()
            made.sums = {key: sum(sums[key] for _, sums in made.entries) for key in ("exits", "refusal")}
            if of_surge(SURGES, made, 0.2, odds(0.1, 0.2, 200)).holds:
                break
        waits.append(number)
    assert sum(waits) / len(waits) >= 200


def test_chance_has_as_many_minutes_as_have_runs_and_every_minute_where_nothing_is_known():
    past = Past()
    past.add(0, {"exits": 50})
    past.add(999, {"exits": 60})
    assert chance_minutes(SURGES, past, {"exits": 10}, 1000, known=True) == 7 * 1440 * 100 / 1000
    assert chance_minutes(SURGES, past, {"exits": 10}, 50, known=True) == 7 * 1440
    assert chance_minutes(SURGES, past, {"exits": 10}, 1000, known=False) == 7 * 1440
    assert chance_minutes(SURGES, Past(), {}, 1000, known=True) == 7 * 1440


def test_beyond_everything_there_is_nothing():
    assert odds(1.0, 1.0, 10) is None
    assert of_surge(SURGES, lane((9, 9)), 1.0, None) == (False, 1.0, 1.0, None)
