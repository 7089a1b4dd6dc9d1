"""Headers as a map and back: none hides another, whatever their names are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.batch import Wrapping
from streams.headers import by_name, in_order

SECRET = b"hunter2hunter2"


@pytest.mark.parametrize(
    ("headers", "stored"),
    [
        ((("x", b"1"), ("x", b"2"), ("x", b"3")), {"x": b"1", "x[1]": b"2", "x[2]": b"3"}),
        ((("x", b"1"), ("x[1]", b"2"), ("x", b"3")), {"x": b"1", "x[1][0]": b"2", "x[1]": b"3"}),
        ((("x[1]", b"1"),), {"x[1][0]": b"1"}),
        ((("x", b"1"), ("x[1]", b"2")), {"x": b"1", "x[1][0]": b"2"}),
        ((("", b"1"), ("", b"2"), ("[1]", b"3")), {"": b"1", "[1]": b"2", "[1][0]": b"3"}),
    ],
)
def test_each_header_has_a_name_of_its_own(headers, stored):
    assert by_name(headers) == stored
    assert in_order(stored) == headers


def test_what_was_stored_without_a_number_keeps_its_name():
    assert in_order({"list[0]": b"as it was"}) == (("list[0]", b"as it was"),)


NAMES = st.text("ab[]01\n", max_size=7) | st.sampled_from(["x", "x[0]", "x[1]", "x[1][0]", "x[1][1]"])


@given(st.lists(st.tuples(NAMES, st.binary(max_size=2)), max_size=12))
def test_no_header_is_lost_and_none_is_renamed(headers):
    assert in_order(by_name(tuple(headers))) == tuple(headers)


def mask(text):
    """What looks like the one secret, by its value or behind a name at the start, at equal length."""
    masked = text.replace(b"sk-1", b"****").replace(b"sk-2", b"****")
    if masked.startswith(b"password="):
        masked = b"password=" + b"*" * (len(masked) - 9)
    return masked, int(masked != text)


def test_a_secret_is_masked_in_every_header_of_a_name():
    stored = by_name((("password", SECRET), ("password", SECRET), ("password[0]", b"1")))
    masked, hits = Wrapping(headers=stored).masked(mask)
    assert masked.headers == {"password": b"*" * 14, "password[1]": b"*" * 14, "password[0][0]": b"1"}
    assert hits == 2


def test_a_secret_that_is_a_name_is_masked_and_hides_no_other():
    masked, hits = Wrapping(headers={"sk-1": b"a", "sk-2": b"b", "other": b"c"}).masked(mask)
    assert masked.headers == {"****": b"a", "****[1]": b"b", "other": b"c"}
    assert hits == 2
