"""Why a queue grows, and what will be late: rates and places by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.flow import HOUR, Arrivals, Flow, Reason, Windows, queue
from alerts.model import OpenItem, Scope

QUIET = Flow(240, 240, 2400, 24 * HOUR)
"""Before: of 100 runs an hour ten are escalated, and all are decided."""
AT = 100 * HOUR


def item(deadline=None, paused_since=None, *, overdue=False):
    scope = Scope("acme", "a", "pay", "judgement")
    return OpenItem("review", scope, "e", "r", 0, deadline, 0, paused_since, overdue, "low_confidence", ())


def of(now, items=(), before=QUIET, arrivals=()):
    return queue(Windows(before, now, arrivals), items, AT, 4 * HOUR)


def test_too_few_decisions():
    found = of(Flow(40, 8, 400, 4 * HOUR))
    assert dict(found.parts) == {Reason.CAPACITY: 8.0, Reason.TRAFFIC: 0.0, Reason.ESCALATION: 0.0}
    assert found.named is Reason.CAPACITY


def test_rules_that_escalate_more():
    more = [
        Arrivals(is_current, reason, workflow, n)
        for reason, workflow, counts in [("low_confidence", "pay", (120, 100)), ("no_progress", "", (120, 20))]
        for is_current, n in enumerate(counts)
    ]
    found = of(Flow(120, 40, 400, 4 * HOUR), arrivals=more)
    assert dict(found.parts) == {Reason.CAPACITY: 0.0, Reason.TRAFFIC: 0.0, Reason.ESCALATION: pytest.approx(20.0)}
    assert found.arriving == (("low_confidence in pay", 20.0),)
    assert found.contributors[0] == (Reason.ESCALATION, pytest.approx(20.0))
    assert found.sentence.startswith(
        "30.0 come and 10.0 are decided an hour (before: 10.0 and 10.0)."
        " over-broad escalation, most of all low_confidence in pay: +20.0 of +20.0 an hour."
    )


def test_more_runs_of_the_same_kind():
    found = of(Flow(120, 40, 1200, 4 * HOUR))
    assert (found.named, dict(found.parts)[Reason.TRAFFIC]) == (Reason.TRAFFIC, pytest.approx(20.0))


def test_what_always_came_too_much_is_capacity():
    found = of(Flow(40, 20, 400, 4 * HOUR), before=QUIET._replace(decisions=120))
    assert found.parts[0] == (Reason.CAPACITY, 5.0)


def test_without_a_before_only_the_growth_is_known():
    found = of(Flow(40, 20, 400, 4 * HOUR), before=Flow(0, 0, 0, 0))
    assert found.parts == ((Reason.CAPACITY, 5.0),)


flows = st.builds(
    Flow, st.integers(0, 50), st.integers(0, 50), st.integers(0, 200), st.integers(1, 48).map(lambda h: h * HOUR)
)


@given(flows, flows)
def test_parts_sum_to_the_growth(earlier, later):
    found = of(later, before=earlier)
    assert sum(size for _, size in found.parts) == pytest.approx(later.growth, abs=1e-9)
    sizes = [size for _, size in found.parts]
    assert sizes == sorted(sizes, reverse=True)
    assert (found.named is None) == (later.growth <= 1e-9)


@pytest.mark.parametrize(
    ("arrivals", "decisions", "clears"), [(40, 60, 2 * HOUR), (40, 40, None), (41, 40, None), (0, 0, None)]
)
def test_time_to_clear(arrivals, decisions, clears):
    found = of(Flow(arrivals, decisions, 400, 4 * HOUR), [item()] * 10)
    assert found.clears_us == clears
    assert ("never clears" in found.sentence) == (clears is None)
    assert of(Flow(arrivals, decisions, 400, 4 * HOUR)).clears_us == 0


def test_what_will_be_late():
    # One decision each half hour: the first is in time, the second and third are not, the fourth is after the horizon.
    items = [item(AT + HOUR), item(AT + HOUR - 1), item(AT + HOUR + 1), item(AT + 4 * HOUR + 1), item()]
    assert of(Flow(0, 8, 400, 4 * HOUR), items).late_soon == 1
    assert of(Flow(0, 0, 400, 4 * HOUR), items).late_soon == 3
    # What is late already takes its place in the line, and is not counted again.
    waiting = [*items, item(AT - HOUR, overdue=True), item(AT - 1, overdue=True)]
    found = of(Flow(0, 8, 400, 4 * HOUR), waiting)
    assert (found.overdue, found.late_soon, found.waiting) == (2, 3, 7)


def test_a_paused_clock_stands_still():
    items = [item(AT + 1, paused_since=AT - HOUR)] * 3 + [item(AT + HOUR)]
    found = of(Flow(0, 8, 400, 4 * HOUR), items)
    assert (found.paused, found.late_soon, found.waiting) == (3, 0, 4)
    assert ", 3 paused," in found.sentence


def test_an_empty_queue_does_not_grow():
    found = of(Flow(0, 0, 0, 4 * HOUR))
    assert (found.waiting, found.clears_us, found.late_soon) == (0, 0, 0)
    assert found.named is None
    assert found.sentence.endswith("It does not grow.")
