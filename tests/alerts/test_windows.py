"""Windows that slide are the windows that anybody would sum up anew."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alerts.model import Count, Scope
from alerts.windows import DAY, HOUR, LATE_MINUTES, Extent, Past, Reach, Track, View, Windows, covers

ALL = View((), Scope(), ())
A, B = Scope("acme", "a"), Scope("acme", "b")
BY_AGENT = View(("tenant", "agent_id"), Scope(), ())
EXTENTS = (Extent(3, 0, 3), Extent(3, 6, 20), Extent(1, 4, 9))


def summed_anew(minutes, scope, clock, extent):
    """Exits and refusals of the window, by definition: the last minutes, and further back until it holds the runs."""
    exits = refusals = 0
    for minute in range(clock, clock - extent.limit, -1):
        if minute <= clock - extent.minutes and exits >= extent.runs:
            break
        counts = minutes.get(minute, {}).get(scope, {})
        exits, refusals = exits + counts.get("exits", 0), refusals + counts.get("refusal", 0)
    return exits, refusals


def positive(sums):
    return {series: n for series, n in sums.items() if n}


def told(minute, cells):
    rows = [Count(minute, scope, series, n) for scope, sums in cells.items() for series, n in sums.items()]
    return rows or [Count(minute, A, "exits", 0)]


CELLS = st.dictionaries(
    st.sampled_from([A, B]),
    st.fixed_dictionaries({"exits": st.integers(0, 5), "refusal": st.integers(0, 5)}),
)
STEPS = st.lists(st.lists(st.tuples(st.integers(0, 25), CELLS), max_size=3), min_size=1, max_size=40)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_windows_are_what_summing_up_anew_says_whatever_comes_late_or_is_told_again(steps):
    tracks = [Track(0, "exits", extent) for extent in EXTENTS]
    windows, known = Windows([BY_AGENT], tracks, [], 1000), {}
    for clock, tells in enumerate(steps, 1001):
        for back, cells in tells:
            windows.tell(told(clock - back, cells), clock)
            known[clock - back] = cells
        windows.advance()
        for track in tracks:
            for scope in (A, B):
                sums = windows.lane(track, scope).sums
                found = (sums.get("exits", 0), sums.get("refusal", 0))
                assert found == summed_anew(known, scope, clock, track.extent), (clock, track.extent, scope)


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_windows_that_are_loaded_are_those_that_slid_there(steps):
    tracks = [Track(0, "exits", extent) for extent in EXTENTS]
    reach = Reach(0, 2 * HOUR, "exits")
    windows, known = Windows([BY_AGENT], tracks, [reach], 1000), {}
    for clock, tells in enumerate(steps, 1001):
        for back, cells in tells:
            windows.tell(told(clock - back, cells), clock)
            known[clock - back] = cells
        windows.advance()
    loaded = Windows([BY_AGENT], tracks, [reach], windows.clock)
    loaded.load([count for minute, cells in known.items() for count in told(minute, cells)])
    for track in tracks:
        for scope in (A, B):
            assert positive(loaded.lane(track, scope).sums) == positive(windows.lane(track, scope).sums)
    for scope in (A, B):
        assert positive(loaded.past(reach, scope).sums) == positive(windows.past(reach, scope).sums)


def test_a_minute_that_is_told_again_replaces_what_was_known_of_it():
    track = Track(0, "exits", Extent(5, 0, 5))
    windows = Windows([ALL], [track], [], 100)
    for _ in range(3):
        windows.tell([Count(101, A, "exits", 4), Count(101, B, "exits", 3)], 101)
    windows.advance()
    for _ in range(3):
        windows.tell([Count(101, A, "exits", 4), Count(101, B, "exits", 4)], 101)
    assert windows.lane(track, Scope()).sums["exits"] == 8
    windows.tell([Count(101, A, "exits", 0)], 101)
    assert positive(windows.lane(track, Scope()).sums) == {}


@pytest.mark.parametrize(("minute", "unjudged"), [
    (1000 - LATE_MINUTES, 1), (1001 - LATE_MINUTES, 0), (1000, 0), (1000 + DAY, 0), (1001 + DAY, 1),
])  # fmt: skip
def test_what_is_history_or_far_ahead_is_counted_as_not_judged(minute, unjudged):
    windows = Windows([ALL], [Track(0, "exits", Extent(5, 0, 5))], [], 1000)
    assert windows.tell([Count(minute, A, "exits", 1)], 1000).unjudged == unjudged


def test_late_counts_say_what_was_known_before_them():
    track = Track(0, "exits", Extent(5, 0, 5))
    windows = Windows([BY_AGENT], [track], [], 100)
    windows.load([Count(90, A, "exits", 2)])
    late = windows.tell([Count(90, A, "exits", 5), Count(91, A, "exits", 1)], 100).late
    assert late == {windows.lane(track, A): {90: {"exits": 2}, 91: {}}}
    before = late[windows.lane(track, A)]
    replayed = [dict(lane.sums) for lane in windows.replay(windows.lane(track, A), before, known=False)]
    assert [sums.get("exits", 0) for sums in replayed] == [5, 6, 6, 6, 6, 1]
    known = [lane.sums.get("exits", 0) for lane in windows.replay(windows.lane(track, A), before, known=True)]
    assert known == [2, 2, 2, 2, 2, 0]


def test_a_view_keeps_the_fields_it_tells_apart_and_leaves_out_what_it_does_not_look_at():
    view = View(("agent_id",), Scope(tenant="acme"), (Scope(agent_id="old"), Scope(workflow="trial")))
    assert view.of(Scope("acme", "new", "refunds")) == Scope(agent_id="new")
    assert view.of(Scope("acme", "old", "refunds")) is None
    assert view.of(Scope("acme", "new", "trial")) is None
    assert view.of(Scope("other", "new", "refunds")) is None


def test_a_wide_scope_covers_the_narrow_ones():
    assert covers(Scope(), A)
    assert covers(Scope("acme"), A)
    assert not covers(A, Scope("acme"))


def test_the_past_goes_by_whole_hours():
    past = Past()
    past.add(30, {"exits": 1})
    past.add(HOUR * 3 + 5, {"exits": 2})
    past.add(HOUR * 3 + 1, {"exits": 4})
    past.add(HOUR * 9, {"exits": 8})
    assert past.newest() == HOUR * 9
    assert past.longest_silence() == HOUR * 6 - 5
    past.prune(HOUR * 5, HOUR * 5)
    assert past.sums["exits"] == 14
    past.prune(HOUR * 9, HOUR * 5)
    assert past.sums["exits"] == 8
    assert past.longest_silence() == HOUR


def test_nothing_is_kept_of_minutes_that_no_window_reaches():
    windows = Windows([ALL], [Track(0, "exits", Extent(5, 0, 5))], [], 0)
    for clock in range(1, LATE_MINUTES + 50):
        windows.tell([Count(clock, A, "exits", 1)], clock)
        windows.advance()
    assert len(windows._minutes) == LATE_MINUTES
    assert len(windows._visits) <= 6
