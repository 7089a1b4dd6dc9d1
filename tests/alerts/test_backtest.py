"""When rules would have fired: the same as live, minute by minute; and two sets of firings side by side."""

from collections import defaultdict
from random import Random

import pytest

from alerts.backtest import Firing, History, Stay, difference, flaps, lookback_minutes, replay
from alerts.judging import MINUTE
from alerts.model import Baseline, Condition, Gauge, Scope
from tests.alerts.rule import AGENT, AGES, DUE, FENCES, LAG, QUEUE, REFUSALS, T0, Watch, minute, review, rule

OTHER = Scope("acme", "invoices")


def history(counts, length, stays=(), begin=0):
    minutes = defaultdict(list)
    for count in counts:
        minutes[count.minute].append(count)
    return History(T0 + begin, T0 + length, minutes, stays)


def at(number):
    return (T0 + number) * MINUTE


def traffic(seed, length):
    random = Random(seed)
    counts = []
    for number in range(length):
        for scope in (AGENT, OTHER):
            exits = random.choice([0, 0, 3, 10, 40])
            refusals = sum(random.random() < (0.7 if number % 97 < 20 else 0.1) for _ in range(exits))
            counts += minute(number, exits, refusals, scope, fence_violation=random.random() < 0.01)
    return counts


@pytest.mark.parametrize("seed", range(3))
def test_it_fires_when_it_fires_live(seed):
    length = 400
    counts, opened = traffic(seed, length), [review(n, event_id=f"e{n}") for n in range(10, 200, 9)]
    stays = [Stay(item.opened_at, item.opened_at + 90 * MINUTE, item) for item in opened]
    rules = [rule(for_minutes=2, keep_firing_minutes=3), FENCES, rule(AGES, threshold=45)]
    live, watch = [], Watch(*rules)
    for number in range(length):
        told = [count for count in counts if count.minute == T0 + number]
        now = at(number + 1) - 1
        # Open items are looked at every five minutes, and in between nobody can say.
        items = [stay.item for stay in stays if stay.since <= now < stay.until] if number % 5 == 4 else None
        live += [alert for alert in watch.at(number, told, items) if alert.state == "resolved"]
    found = replay(rules, history(counts, length, stays))
    assert found.items_every == 5
    resolved = [each[:5] for each in found.firings if each.resolved_at is not None]
    assert sorted(resolved) == sorted((a.rule, a.scope, a.since, a.fired_at, a.resolved_at) for a in live)
    assert {each.rule for each in found.firings} == {"refusal_rate", "fence_violation", "queue_age"}


def test_what_came_before_the_period_is_known_and_fires_only_in_it():
    counts = [count for number in range(20) for count in minute(number, 100, 50)]
    (firing,) = replay([rule(window_minutes=10)], history(counts, 40, begin=30)).firings or (None,)
    assert firing is None
    (firing,) = replay([rule(window_minutes=10)], history(counts, 40, begin=15)).firings
    assert (firing.fired_at, firing.resolved_at) == (at(16) - 1, None)


def test_the_peak_is_what_was_furthest_beyond():
    shares = [30, 90, 40, 0, 0]
    counts = [count for number, share in enumerate(shares) for count in minute(number, 100, share)]
    (firing,) = replay([rule(window_minutes=1)], history(counts, 5)).firings
    assert (firing.peak, firing.limit, firing.resolved_at) == (0.9, 0.2, at(4) - 1)
    low = rule(condition=Condition.SHARE_BELOW, baseline=Baseline(120, 2.0, 1), window_minutes=1, threshold=0.9)
    counts = [count for number, n in enumerate([80] * 100 + [20, 0, 20]) for count in minute(number, 100, n)]
    (firing,) = replay([low], history(counts, 103, begin=90)).firings
    assert (firing.peak, firing.fired_at) == (0.0, at(101) - 1)


def test_reviews_age_and_become_overdue():
    late = review(0, deadline=at(30))
    stays = [
        cut
        for n in range(20)
        for cut in (
            Stay(at(0), at(30) + 1, late._replace(event_id=f"{n}")),
            Stay(at(30) + 1, at(70), late._replace(event_id=f"{n}", overdue=True)),
        )
    ]
    found = replay([AGES, DUE], history([], 200, stays))
    times = {each.rule: (each.fired_at, each.resolved_at, each.peak) for each in found.firings}
    assert times["queue_past_deadline"] == (at(35) - 1, at(75) - 1, 1.0)
    assert times["queue_age"][:2] == (at(65) - 1, at(75) - 1)
    assert {each.scope for each in found.firings} == {QUEUE}
    assert (found.lasted(found.firings[0]), found.of("queue_past_deadline").minutes) == (40, 40)


def test_what_nothing_is_known_of_is_not_judged():
    lag = rule(LAG, condition=Condition.GAUGE, gauge=Gauge.LAG)
    assert replay([lag, FENCES], history([], 10)).unjudged == (lag,)
    assert replay([AGES, FENCES], history([], 10, stays=None)).unjudged == (AGES,)
    assert replay([], history([], 10)).firings == ()


def test_many_open_items_are_looked_at_less_often():
    stays = [Stay(at(0), None, review(0, event_id=f"{n}")) for n in range(2000)]
    found = replay([AGES], history([], 50_000, stays))
    assert found.items_every == 20
    (firing,) = found.firings
    assert (firing.fired_at, firing.resolved_at) == (at(80) - 1, None)


def firing(start, end, scope=AGENT, rule_id="refusal_rate"):
    return Firing(rule_id, scope, at(start), at(start), None if end is None else at(end), 0.5, 0.2)


def test_what_begins_soon_after_the_end_of_the_one_before_flaps():
    assert flaps([firing(0, 10), firing(69, 80), firing(140, 150), firing(11, 12, OTHER)]) == 1
    assert flaps([firing(0, None), firing(0, 5, rule_id="other")]) == 0
    tally = replay([REFUSALS], history([], 7 * 1440)).of("refusal_rate")
    assert tally == (0, 0, 0, 0, 0, 0.0, 0)


def test_numbers_of_a_rule():
    length = 14 * 1440
    shares = dict.fromkeys([*range(10), *range(30, 35), *range(200, 210)], 50)
    counts = [count for n in range(length) for count in minute(n, 100, shares.get(n, 0))]
    tally = replay([rule(window_minutes=1)], history(counts, length)).of("refusal_rate")
    assert tally == (3, 1, 25, 10, 1, 1.5, 0)


def test_firings_that_overlap_are_kept_and_the_others_appear_or_vanish():
    before = [firing(0, 10), firing(50, 60), firing(100, None), firing(5, 8, OTHER)]
    after = [firing(4, 12), firing(70, 80), firing(100, 110), firing(5, 8, OTHER, "another")]
    found = difference(before, after)
    assert found.appear == (firing(5, 8, OTHER, "another"), firing(70, 80))
    assert found.vanish == (firing(5, 8, OTHER), firing(50, 60))
    assert found.kept == ((firing(0, 10), firing(4, 12)), (firing(100, None), firing(100, 110)))
    assert found.moved == ((firing(0, 10), firing(4, 12)),)
    assert difference(before, before).kept == tuple((each, each) for each in sorted(before, key=lambda f: f.fired_at))


def test_one_that_ends_as_another_begins_does_not_overlap_it():
    found = difference([firing(0, 10)], [firing(10, 20)])
    assert (found.appear, found.vanish, found.kept) == ((firing(10, 20),), (firing(0, 10),), ())


def test_several_that_one_covers_are_kept_by_it():
    found = difference([firing(0, 10), firing(20, 30)], [firing(5, 25)])
    assert (found.appear, found.vanish) == ((), ())
    assert found.kept == ((firing(0, 10), firing(5, 25)),)


def test_rules_look_back_as_far_as_their_baselines():
    assert lookback_minutes([FENCES]) < lookback_minutes([rule(baseline=Baseline(20_000, 2.0, 10))])
