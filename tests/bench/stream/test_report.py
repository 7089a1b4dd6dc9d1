import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.stream.race import Result
from bench.stream.report import latencies, percentile, summarise, table
from bench.stream.roster import Contestant

FAST, SLOW = Contestant("fast", "the fast one", "clients"), Contestant("slow", "the slow one", "faust")


def result(name, wall_s, cpu_s=1.0, load=0.5):
    return Result(name, 1000, wall_s, cpu_s, 2**20, "compiled", [], load)


def test_the_middle_run_counts_and_the_extremes_are_told():
    found = summarise([result("fast", 1, 3, load=4), result("fast", 4, 1), result("fast", 2, 2)])
    assert (found.rate, found.slowest, found.fastest) == (500, 250, 1000)
    assert found.cpu_us == 2000
    assert found.loads == (0.5, 4)


def test_the_fastest_stands_first_and_the_ratio_is_the_yardsticks_rate_to_theirs():
    lines = table([SLOW, FAST], {"slow": [result("slow", 4)], "fast": [result("fast", 1)]}, "fast").splitlines()
    assert lines[0].endswith("| offramp's rate to theirs |")
    assert lines[2].startswith("| the fast one | 1,000 | ")
    assert lines[2].endswith("| 1.00 |")
    assert lines[3].startswith("| the slow one | 250 | ")
    assert lines[3].endswith("| 4.00 |")


def test_without_the_yardstick_there_are_no_ratios():
    assert table([SLOW], {"slow": [result("slow", 4)]}, "fast").splitlines()[2].endswith("|  |")


def test_an_event_is_visible_from_the_first_mark_that_counts_it():
    marks = [(1_000_000, 2), (2_500_000, 3)]
    assert latencies([500, 900, 1000], marks) == pytest.approx([0.5, 0.1, 1.5])


@pytest.mark.parametrize("marks", [[], [(1, 1)]])
def test_events_that_never_became_visible_are_an_error(marks):
    with pytest.raises(ValueError, match="of 2 events became visible"):
        latencies([1, 2], marks)


def test_a_percentile_is_one_of_the_values():
    assert percentile([3, 1, 2, 4], 0.5) == 2
    assert percentile([3, 1, 2, 4], 0.99) == 4
    assert percentile([7], 0.0) == 7


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 1))
def test_at_least_the_share_is_no_more_than_the_percentile(values, share):
    found = percentile(values, share)
    assert sum(value <= found for value in values) >= share * len(values)
