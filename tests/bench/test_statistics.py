"""What the simulation counts, on streams that are small or drawn by hand."""

from math import log

import pytest

from bench import statistics
from bench.statistics import Found, Stream
from shadow.statistics import bounds, log_wealth


def stream(ready_on=None, *, missed=False, by_wilson=False, forecast=None):
    return Stream(missed, by_wilson, ready_on, forecast)


def test_a_stream_is_watched_day_by_day(monkeypatch):
    monkeypatch.setattr(statistics, "DAYS", 12)
    days = [(0, 10 * day) for day in range(1, 13)]
    monkeypatch.setattr(statistics, "looks", lambda rng, rate: iter(days))
    found = statistics.watch(0.0001, seed=1)
    # 72 runs without a case are enough, so the eighth day; after 50 runs 22 more are needed.
    assert found == Stream(missed=False, missed_by_wilson=False, ready_on=8, forecast=72)
    # A rate that is outside the bounds once counts as missed, whatever comes after.
    days[3] = (30, 40)
    assert statistics.watch(0.2, seed=1).missed
    assert log_wealth(30, 40, 0.2) >= log(20)
    assert not bounds(30, 40, 0.05).low <= 0.2


def test_streams_are_the_same_for_the_same_seed():
    first, again = (statistics.simulate(0.05, 5, seed=3) for _ in range(2))
    assert first == again
    assert first != statistics.simulate(0.05, 5, seed=4)


def test_what_is_counted():
    found = Found(0.01, (stream(3), stream(9, missed=True), stream(None, by_wilson=True, forecast=80)))
    assert (found.missed, found.missed_by_wilson, found.ready, found.wrongly_ready) == (1, 1, 2, 0)
    assert (found.median_runs, found.median_forecast) == (90, None)
    assert Found(0.05, found.streams).wrongly_ready == 2


@pytest.mark.parametrize(("wrong", "holds"), [(649, False), (500, True)])
def test_more_errors_than_chance_explains_fail(wrong, holds):
    missed = Found(0.3, (stream(missed=True),) * wrong + (stream(),) * (10_000 - wrong))
    ready = Found(0.05, (stream(4),) * wrong + (stream(),) * (10_000 - wrong))
    below = Found(0.01, ready.streams)
    assert (missed.holds, ready.holds, below.holds) == (holds, holds, True)


def test_stated_error_rates_hold_for_a_few_streams(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["bench", "--streams", "60", "--seed", "2"])
    with pytest.raises(SystemExit) as end:
        statistics.main()
    assert end.value.code == 0
    rows = capsys.readouterr().out.splitlines()[3:]
    assert [row.split()[:2] for row in rows] == [["pass", f"{rate:.1%}"] for rate in statistics.RATES]


def test_a_bound_that_does_not_hold_is_found(monkeypatch, capsys):
    """Wilson's interval in place of the sequence: the benchmark must see that it is wrong too often."""
    monkeypatch.setattr(
        statistics, "is_below", lambda c, n, limit, alpha: statistics.wilson(c, n, 1 - alpha).high < limit
    )
    monkeypatch.setattr("sys.argv", ["bench", "--streams", "150", "--seed", "2"])
    with pytest.raises(SystemExit) as end:
        statistics.main()
    assert end.value.code == 1
    assert "FAIL    5.0%" in capsys.readouterr().out
