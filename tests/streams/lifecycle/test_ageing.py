from hypothesis import given
from hypothesis import strategies as st

from streams.lifecycle.ageing import ages_of, deadline_at, due, is_breached, queue_ages, review_age
from tests.streams.lifecycle.kit import after, exit_, known, open_reviews, step
from tests.streams.lifecycle.samples import MINUTE


def review(*steps):
    (item,) = open_reviews(exit_(), *steps)
    return item


def test_a_paused_clock_stands_still():
    paused = review(step("paused", after(4)))
    assert [review_age(paused, after(minutes)) for minutes in (3, 4, 9)] == [3 * MINUTE, 4 * MINUTE, 4 * MINUTE]
    assert [deadline_at(paused, after(minutes)) for minutes in (3, 4, 9)] == [after(10), after(10), after(15)]
    assert not is_breached(paused, after(1000))


def test_pauses_that_ended_count_for_neither_age_nor_deadline():
    resumed = review(step("paused", after(2)), step("resumed", after(5)))
    assert review_age(resumed, after(8)) == 5 * MINUTE
    assert not is_breached(resumed, after(13))
    assert is_breached(resumed, after(13) + 1)


def test_a_pause_that_began_late_saves_nothing():
    assert is_breached(review(step("paused", after(11))), after(1000))


def test_no_age_is_negative_where_clocks_differ():
    assert review_age(review(), after(-120)) == 0
    assert review_age(review(step("paused", after(60)), step("resumed", after(120))), after(1)) == 0


def test_given_up_is_late():
    assert is_breached(review(step("expired", after(1))), after(2))


def test_what_is_late_and_what_will_be_soonest_first():
    exits = [exit_(event_id=f"e{n}", run_id=f"r{n}", deadline=after(n)) for n in (3, 1, 2, 5, 9)]
    undated = exit_(event_id="e0", run_id="r0", deadline=None)
    paused = [exit_(event_id="p", run_id="p", deadline=after(5)), step("paused", after(1), event_id="p")]
    found = due(known(*exits, undated, *paused).open_items().reviews, after(3), 2 * MINUTE)
    assert [item.event_id for item in found.breached] == ["e1", "e2"]
    assert [item.event_id for item in found.breaching] == ["e3", "e5"]


@given(st.lists(st.integers(0, 10**15)))
def test_the_percentile_is_an_age_that_at_most_a_twentieth_exceeds(ages):
    found = ages_of(ages)
    assert found.total == len(ages)
    if ages:
        assert found.oldest_us == max(ages)
        assert found.p95_us in ages
        assert sum(age > found.p95_us for age in ages) * 20 <= len(ages)
        assert sum(age >= found.p95_us for age in ages) * 20 > len(ages) or found.p95_us == min(ages)
    else:
        assert (found.oldest_us, found.p95_us) == (0, 0)


def test_by_queue():
    exits = [exit_(event_id=f"e{n}", run_id=f"r{n}", queue="ab"[n % 2], deadline=after(n)) for n in range(4)]
    first, second = queue_ages(known(*exits).open_items().reviews, after(2), MINUTE)
    assert (first.queue, first.ages.total, first.breached, first.breaching) == ("a", 2, 1, 1)
    assert (second.queue, second.ages.total, second.breached, second.breaching) == ("b", 2, 1, 1)
    assert first.ages.oldest_us == 2 * MINUTE
