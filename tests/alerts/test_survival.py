"""Ages with what is still open counted: by hand, and against the definition of the estimate."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from alerts.survival import MINUTE, Span, Step, Times, Wait, ageing, curve, waits_of

HOUR = 60 * MINUTE
spans = st.lists(st.builds(Span, st.integers(0, 8), st.booleans()), max_size=25)


def test_by_hand():
    # Of four one closes at 1; one of the three left is lost sight of at 2; of the two at risk at 3 one closes.
    found = curve([Span(4, True), Span(1, True), Span(3, True), Span(2, False)])  # noqa: FBT003 -- reads as what it is
    assert found == (Step(1, 0.75), Step(3, 0.375), Step(4, 0.0))
    assert (found.quantile(0.25), found.quantile(0.5), found.quantile(0.95)) == (1, 3, 4)
    assert (found.chance(0, 2), found.chance(1, 3), found.chance(2, 9)) == (0.25, 0.5, 1.0)
    assert found.chance(4, 5) == 1.0  # older than all that ever came


def test_without_closing_nothing_is_reached():
    for nothing in ([], [Span(5, False), Span(9, False)]):  # noqa: FBT003 -- as above
        assert curve(nothing) == ()
        assert curve(nothing).quantile(0.5) is None
        assert curve(nothing).chance(0, 1) == 1.0


@given(spans)
def test_the_share_still_open_is_the_product_over_lengths(given_spans):
    still, steps = Fraction(1), []
    for length in range(9):
        at_risk = sum(span.length >= length for span in given_spans)
        closed = sum(span.length == length and span.is_closed for span in given_spans)
        if closed:
            still *= 1 - Fraction(closed, at_risk)
            steps.append((length, float(still)))
    found = curve(given_spans)
    assert [step.length for step in found] == [length for length, _ in steps]
    assert all(abs(step.open - still) < 1e-12 for step, (_, still) in zip(found, steps, strict=True))


def came(component, opened, after):
    return Wait(component, opened, opened + after, 10**15)


def waits(component, opened, failures=0):
    return Wait(component, opened, None, 10**15, failures)


def history(component):
    """One each minute for five hours, which came after 10 minutes."""
    return [came(component, number * MINUTE, 10 * MINUTE) for number in range(300)]


SINCE, NOW = 310 * MINUTE, 370 * MINUTE


def test_the_component_that_comes_no_more_is_named():
    stuck = [waits("tax", SINCE + number * MINUTE, failures=2) for number in range(60)]
    going = [came("weather", SINCE + number * MINUTE, 10 * MINUTE) for number in range(60)]
    found = ageing(history("tax") + history("weather") + stuck + going, SINCE, NOW)
    tax, weather = found.components
    # Those of the last nine minutes are not due yet.
    assert (tax.component, tax.expected, tax.came, tax.open, tax.missing) == ("tax", 51.0, 0, 60, 51.0)
    assert (tax.oldest_us, tax.failures) == (HOUR, 120)
    assert (tax.usual, tax.lately) == (Times(10 * MINUTE, 10 * MINUTE), Times(None, None))
    assert (weather.expected, weather.came, weather.open) == (51.0, 51, 9)
    assert (found.open, found.named) == (69, tax)
    assert found.contributors == (("component tax", 51.0), ("component weather", 0.0))
    assert found.sentence == (
        "60 of 69 waits are for tax, the oldest for 60 min, 120 reported as failed."
        " In the window 0 came where 51.0 were to be expected. Time until it comes, open ones counted:"
        " p50 10 min before, not reached now and p95 10 min before, not reached now."
    )


def test_closed_ones_alone_would_say_that_all_is_well():
    quick = [came("tax", SINCE + number * MINUTE, MINUTE) for number in range(20)]
    stuck = [waits("tax", SINCE + number * MINUTE) for number in range(30)]
    (tax,) = ageing(history("tax") + quick + stuck, SINCE, NOW).components
    assert tax.lately == Times(None, None)


def test_a_component_without_a_past_is_judged_by_all():
    (first, second) = ageing([*history("tax"), waits("new", SINCE), waits("tax", NOW - MINUTE)], SINCE, NOW).components
    assert (first.component, first.expected, first.open) == ("new", 1.0, 1)
    assert (second.component, second.expected, second.open) == ("tax", 0.0, 1)


def test_what_waits_since_longer_than_ever_should_have_come():
    (tax,) = ageing([*history("tax"), waits("tax", 0)], SINCE, NOW).components
    assert (tax.expected, tax.oldest_us) == (1.0, NOW)


def test_a_later_segment_ends_the_waiting_without_closing_it():
    gone = Wait("tax", SINCE, None, SINCE + 5 * MINUTE)
    (tax,) = ageing([*history("tax"), gone], SINCE, NOW).components
    assert (tax.expected, tax.came, tax.open) == (0.0, 0, 0)
    assert ageing([*history("tax"), gone], SINCE, NOW).named is None


def test_what_is_not_yet_is_not_seen():
    future = [came("tax", NOW + 1, 1), came("tax", SINCE, NOW)]
    (tax,) = ageing(history("tax") + future, SINCE, NOW).components
    assert (tax.came, tax.open) == (0, 1)


def test_nothing_waits():
    nothing = ageing([], SINCE, NOW)
    assert (nothing.components, nothing.named, nothing.contributors) == ((), None, ())
    assert nothing.sentence == "No partial waits for a component."


def test_rows_of_the_store_become_waits():
    row = {"component": "tax", "opened_at": 1, "closed_at": None, "failures": 2, "superseded_at": None}
    assert waits_of([row, row | {"closed_at": 3, "superseded_at": 7}, row | {"superseded_at": 70}], 9) == [
        Wait("tax", 1, None, 9, 2), Wait("tax", 1, 3, 7, 2), Wait("tax", 1, None, 9, 2),
    ]  # fmt: skip
