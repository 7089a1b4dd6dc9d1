"""Hours without events, against every hour looked at by itself; what else was not seen is counted through the verb."""

from hypothesis import given
from hypothesis import strategies as st

from shadow.coverage import Agent, Coverage, Silence, silences

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
