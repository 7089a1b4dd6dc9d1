"""Hours without events, against every hour looked at by itself; what else was not seen is counted through the verb."""

from hypothesis import given
from hypothesis import strategies as st

from shadow.coverage import Agent, Apart, Coverage, Silence, apart, silences

HOUR = 3_600_000_000
seen_hours = st.dictionaries(st.integers(0, 40), st.tuples(st.integers(0, 2), st.integers(0, 2)))


def rows(hours):
    return [
        {"hour": hour, "events": events, "legacy": legacy}
        for hour, (events, legacy) in sorted(hours.items())
        if events or legacy
    ]


@given(seen_hours)
def test_silences_are_the_hours_without_events(hours):
    given_rows = rows(hours)
    last = given_rows[-1]["hour"] if given_rows else -1
    silent = {hour for hour in range(last + 1) if not hours.get(hour, (0, 0))[0]}
    found = silences(given_rows, 5 * HOUR)
    begins = [each.since // HOUR - 5 for each in found]
    assert {
        hour for begin, each in zip(begins, found, strict=True) for hour in range(begin, begin + each.hours)
    } == silent
    assert sum(each.hours for each in found) == len(silent)
    for begin, each in zip(begins, found, strict=True):
        assert begin - 1 not in silent
        assert begin + each.hours not in silent
        assert each.legacy == sum(hours.get(hour, (0, 0))[1] for hour in range(begin, begin + each.hours))


def test_before_the_first_and_behind_the_last_is_nothing():
    assert silences(rows({0: (1, 0), 1: (1, 0)}), 0) == ()
    assert silences([], 0) == ()
    assert silences(rows({0: (0, 1)}), 0) == (Silence(0, 1, 1),)


def test_an_agent_is_unseen_only_if_no_run_of_that_version_is_paired():
    agents = (
        Agent("acme", "a", "1", 3, 0, 0), Agent("acme", "a", "2", 3, 1, 0), Agent("other", "a", "2", 1, 0, 0),
        Agent("acme", "", "", 0, 0, 0),
    )  # fmt: skip
    unseen = Coverage(agents=agents).unseen_agents
    assert [(each.tenant, each.agent_version) for each in unseen] == [("acme", "1"), ("other", "2")]


YEAR = 365 * 24


def at(**hours):
    """Rows of so many runs, by the name of their hour."""
    return [{"hour": int(name[1:]), "runs": runs, "events": runs, "legacy": 0} for name, runs in hours.items()]


def test_what_lies_a_year_away_is_named_with_what_leaves_it_out():
    assert apart([], 0) is None
    assert apart(at(h0=1), 0) is None
    assert apart(at(h0=1, **{f"h{YEAR - 1}": 9}), 0) is None
    assert apart(at(h0=1, **{f"h{YEAR}": 9}), 5 * HOUR) == Apart(1, (YEAR + 5) * HOUR, None)
    assert apart(at(h0=8, h3=1, **{f"h{YEAR + 3}": 2}), 5 * HOUR) == Apart(2, None, 9 * HOUR)
    both = {f"h{YEAR}": 3, f"h{YEAR + 9}": 3, f"h{3 * YEAR}": 5}
    assert apart(at(h0=2, **both), 0) == Apart(7, YEAR * HOUR, (YEAR + 10) * HOUR)
    assert apart(at(h0=2, **{f"h{YEAR}": 2}), 0) == Apart(2, YEAR * HOUR, None)


def test_the_bounds_leave_out_what_lies_apart_and_nothing_else():
    hours = at(h0=2, **{f"h{YEAR}": 3, f"h{YEAR + 9}": 3, f"h{3 * YEAR}": 5})
    found = apart(hours, 0)
    inside = [row for row in hours if found.since <= row["hour"] * HOUR < found.until]
    assert sum(row["runs"] for row in hours) - sum(row["runs"] for row in inside) == found.runs
    assert apart(inside, 0) is None
