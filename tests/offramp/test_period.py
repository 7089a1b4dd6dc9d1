"""Periods as people write them."""

import pytest

from offramp.errors import ConfigurationError
from offramp.period import Period, period
from schemas.types import EARLIEST, LATEST

DAY = 86_400_000_000
NOW = 20_000 * DAY + 7


def asked(since=None, until=None):
    return period(since, until, lambda: NOW)


def test_what_is_not_given_bounds_nothing():
    assert asked() == Period(EARLIEST, LATEST + 1)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("0", NOW),
        ("30", NOW - 30 * DAY),
        ("99999", EARLIEST),
        ("1970-01-03", 2 * DAY),
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1970-01-01T05:30:00+05:30", 0),
    ],
)
def test_moments(text, moment):
    assert asked(since=text).since == asked(until=text).until == moment


@pytest.mark.parametrize("text", ["yesterday", "-3", "1970-13-01", "1970-01-01T00:00", "3 days", ""])
def test_what_is_no_moment_is_named_with_its_option(text):
    with pytest.raises(ConfigurationError, match=r"^--until .*such as 30"):
        asked(until=text)


@pytest.mark.parametrize(("since", "until"), [("2026-01-01", "2025-01-01"), ("2026-01-01", "2026-01-01"), ("1", "30")])
def test_a_period_that_ends_before_it_begins_is_refused(since, until):
    with pytest.raises(ConfigurationError, match=f"^--until {until} is not later than --since {since}"):
        asked(since, until)


def test_a_period_may_be_as_short_as_can_be_told():
    assert asked("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000001Z") == Period(0, 1)
