"""Alerts as on-call sees them: when they fire, when they clear, and what never makes them do either."""

import json
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alerts.evaluator import Evaluator
from alerts.judging import MINUTE
from alerts.model import Baseline, Condition, Count, Gauge, Pulse, Scope, Series
from tests.alerts.rule import (
    AGENT,
    AGES,
    DUE,
    FENCES,
    LAG,
    QUEUE,
    REFUSALS,
    SURGES,
    T0,
    WELL,
    Watch,
    minute,
    review,
    rule,
)


def end(number):
    return (T0 + number + 1) * MINUTE - 1


@pytest.mark.parametrize(("refusals", "exits"), [(0, 0), (0, 1), (1, 1), (1, 2), (7, 7), (20, 100), (21, 100)])
def test_few_runs_and_chance_do_not_page(refusals, exits):
    watch = Watch(REFUSALS)
    assert [watch.states(n, minute(n, exits, refusals) if not n else ()) for n in range(8)] == [[]] * 8


@pytest.mark.parametrize(("refusals", "exits"), [(500, 1000), (8, 8), (40, 100)])
def test_many_refusals_page(refusals, exits):
    (alert,) = Watch(REFUSALS).at(0, minute(0, exits, refusals))
    assert alert[:8] == ("refusal_rate", AGENT, "firing", end(0), end(0), None, refusals / exits, 0.2)
    assert alert[8:11] == ("page", "policy", "docs/runbooks/refusal_rate.md")


def test_a_share_says_by_which_runs_of_its_window():
    watch = Watch(rule(window_minutes=1))
    assert watch.at(0, minute(0, 60)) == ()
    # The refusals are of two minutes: only the last is the rule's window, whatever a longer one would say.
    (alert,) = watch.at(1, minute(1, 40, 40))
    assert (alert.value, alert.summary) == (
        1.0, "More runs than usual end in a refusal. 40 of 40 runs since 2027-01-15 08:01 UTC."
    )  # fmt: skip
    (later,) = watch.at(2, minute(2, 10, 5))
    assert (later.value, "5 of 10 runs since 2027-01-15 08:02 UTC." in later.summary) == (0.5, True)


def test_a_share_of_messages_says_so_and_a_number_of_runs_says_no_share():
    letters = rule(series=Series.DEAD_LETTERED, over=Series.READ, by=(), window_minutes=5)
    (alert,) = Watch(letters).at(0, minute(0, 0, scope=Scope(), read=50, dead_lettered=30))
    assert alert.summary.endswith(" 30 of 50 messages since 2027-01-15 08:00 UTC.")
    number = rule(condition=Condition.COUNT, threshold=1.0, window_minutes=5)
    (alert,) = Watch(number).at(0, minute(0, 100, 60))
    assert alert.summary == number.summary


def test_an_alert_keeps_its_identity_while_its_value_moves():
    watch = Watch(REFUSALS)
    seen = [watch.at(n, minute(n, 100, 60 - n))[0] for n in range(20)]
    assert len({alert.value for alert in seen}) > 10
    assert {(alert.rule, alert.scope, alert.since, alert.state) for alert in seen} == {
        ("refusal_rate", AGENT, end(0), "firing")
    }


def test_what_lasts_long_enough_fires_and_what_does_not_is_forgotten():
    watch = Watch(rule(for_minutes=2, window_minutes=1))
    shares = [50, 50, 0, 50, 50, 50]
    states = [watch.states(n, minute(n, 100, share)) for n, share in enumerate(shares)]
    assert states == [["pending"], ["pending"], [], ["pending"], ["pending"], ["firing"]]


def test_a_rule_goes_on_firing_for_a_while_and_is_then_announced_as_resolved_once():
    watch = Watch(rule(keep_firing_minutes=2, window_minutes=1))
    shares = [50, 0, 50, 0, 0, 0, 0]
    states = [watch.states(n, minute(n, 100, share)) for n, share in enumerate(shares)]
    assert states == [["firing"], ["firing"], ["firing"], ["firing"], ["firing"], ["resolved"], []]


def test_firing_again_is_another_occurrence():
    watch = Watch(rule(window_minutes=1))
    seen = [watch.at(n, minute(n, 100, share))[0] for n, share in enumerate([50, 0, 50])]
    assert [alert.state for alert in seen] == ["firing", "resolved", "firing"]
    assert seen[0].since == seen[1].since
    assert (seen[1].resolved_at, seen[2].since) == (end(1), end(2))


def test_what_fires_clears_by_the_share_itself_and_not_by_its_bound():
    watch = Watch(rule(window_minutes=1))
    assert watch.states(0, minute(0, 100, 50)) == ["firing"]
    assert watch.states(1, minute(1, 100, 21)) == ["firing"]
    assert watch.states(2, minute(2, 100, 20)) == ["resolved"]


def test_a_busy_scope_is_judged_by_minutes_and_a_quiet_one_by_runs():
    busy = Watch(rule(window_runs=20, window_limit_minutes=720))
    for n in range(5):
        busy.at(n, minute(n, 100, 40))
    assert busy.at(10, [count for n in range(5, 11) for count in minute(n, 100, 0)])[0].state == "resolved"
    quiet = Watch(rule(window_runs=20, window_limit_minutes=720))
    states = [quiet.states(n, minute(n, 1, 1) if n % 12 == 0 else ()) for n in range(100)]
    # The eighth run of a scope with five runs an hour comes in minute 84.
    assert states == [[]] * 84 + [["firing"]] * 16


def test_a_quiet_stream_closes_its_windows_without_any_event():
    watch = Watch(rule(window_runs=20, window_limit_minutes=30, keep_firing_minutes=1), FENCES)
    watch.at(0, minute(0, 7, 7))
    # Seven are too few to page; without the limit they would be counted still.
    assert watch.states(40, minute(40, 7, 7)) == []


def test_no_data_is_neither_health_nor_resolved():
    watch = Watch(REFUSALS, FENCES)
    assert watch.states(0, minute(0, 100, 50, fence_violation=1)) == ["firing", "firing"]
    for n in (1, 10, 1000, 100_000):
        alerts = watch.at(n)
        assert [alert.state for alert in alerts] == ["firing", "firing"]
    assert all(alert.summary.endswith("Nothing new is known of it.") for alert in alerts)
    assert watch.states(100_001, minute(100_001, 100, 0)) == ["resolved", "resolved"]


def test_counts_that_cannot_be_read_change_nothing_and_are_made_up_for():
    watch, other = Watch(rule(for_minutes=2, window_minutes=2)), Watch(rule(for_minutes=2, window_minutes=2))
    shares = [50, 50, 50, 50, 0, 0, 0, 0]
    counts = [minute(n, 100, share) for n, share in enumerate(shares)]
    seen = [other.at(n, count) for n, count in enumerate(counts)]
    assert watch.states(0, counts[0]) == ["pending"]
    assert [watch.states(n, None) for n in range(1, 7)] == [["pending"]] * 6
    # It fired and was resolved while nobody could see it.
    (alert,) = watch.at(7, [each for count in counts for each in count])
    assert [alert] == [each for alerts in seen for each in alerts if each.state == "resolved"]
    assert (alert.fired_at, alert.resolved_at) == (end(2), end(5))


def test_one_far_step_sees_what_many_small_ones_see():
    shares = [0] * 30 + [50] * 20 + [0] * 30 + [60] * 5
    near, far = Watch(rule(keep_firing_minutes=3, for_minutes=2)), Watch(rule(keep_firing_minutes=3, for_minutes=2))
    seen = [alert for n, share in enumerate(shares) for alert in near.at(n, minute(n, 100, share))]
    alerts = far.at(len(shares) - 1, [count for n, share in enumerate(shares) for count in minute(n, 100, share)])
    assert [alert.state for alert in alerts] == ["firing", "resolved"]
    first = next(alert for alert in seen if alert.state == "resolved")
    assert alerts == (seen[-1], first)


def test_fifty_refusals_that_come_27_hours_late_page_all_the_same():
    watch = Watch(rule(for_minutes=2, keep_firing_minutes=1, minimum=8))
    watch.at(27 * 60)
    now = 27 * 60 + 1
    (alert,) = watch.at(now, minute(0, 50, 50))
    assert (alert.state, alert.since, alert.value) == ("firing", end(now), 1.0)
    assert "late" in alert.summary
    # It stands for the length of its window from then on, and is told again without effect.
    assert [watch.states(now + n, minute(0, 50, 50)) for n in range(1, 8)] == [
        *[["firing"]] * 5, ["resolved"], []
    ]  # fmt: skip


@pytest.mark.parametrize(("for_minutes", "states"), [(4, ["firing"]), (5, [])])
def test_late_runs_page_only_if_their_windows_held_for_long_enough(for_minutes, states):
    live, late = Watch(rule(for_minutes=for_minutes)), Watch(rule(for_minutes=for_minutes))
    healthy = [minute(n, 1000) for n in range(1, 12)]
    seen = [live.states(n, told) for n, told in enumerate([minute(0, 50_000, 25_000), *healthy])]
    assert (["firing"] in seen) == bool(states)
    late.at(11, [*chain(*healthy)])
    assert late.states(12, minute(0, 50_000, 25_000)) == states


def test_what_is_pending_does_not_fire_when_nothing_more_is_known():
    watch = Watch(rule(window_minutes=2, for_minutes=4))
    assert [watch.states(n, minute(n, 100, 50) if not n else ()) for n in range(60)] == [["pending"]] * 60


def test_late_runs_that_make_no_difference_page_nobody():
    watch = Watch(rule(window_minutes=5))
    assert watch.states(0, minute(0, 100, 50)) == ["firing"]
    assert watch.states(6, [count for n in range(1, 7) for count in minute(n, 100, 0)]) == ["resolved"]
    # A straggler of an incident that had its page.
    assert watch.states(60, minute(0, 101, 51)) == []
    # Late, and not beyond the limit together with what was known.
    assert watch.states(61, minute(3, 120, 20)) == []


def test_late_runs_of_a_window_that_is_open_still_count_in_it():
    watch = Watch(rule(window_minutes=5))
    assert watch.states(0, minute(0, 100, 10)) == []
    assert watch.states(1, minute(1, 100, 10)) == []
    assert watch.states(2, minute(0, 200, 110)) == ["firing"]
    assert watch.states(3, minute(0, 200, 110)) == ["firing"]
    assert watch.at(3, minute(0, 200, 110))[0].value == pytest.approx(120 / 300)


def test_what_is_classified_again_counts_as_it_is_now():
    watch = Watch(rule(window_minutes=5))
    assert watch.states(0, minute(0, 100, 50)) == ["firing"]
    assert watch.states(1, minute(0, 100, 5)) == ["resolved"]


def test_a_scope_that_is_born_after_a_restart_pages():
    watch = Watch(REFUSALS)
    watch.at(0, minute(0, 100, 0))
    watch.restart(minute(0, 100, 0))
    born = Scope("acme", "born")
    assert watch.at(1, minute(1, 50, 50, scope=born))[0].scope == born


def test_scopes_are_judged_each_for_itself():
    watch, other = Watch(REFUSALS), Scope("acme", "other")
    alerts = watch.at(0, minute(0, 100, 50, Scope("acme", "refunds", "w")) + minute(0, 1000, 10, other))
    assert [alert.scope for alert in alerts] == [AGENT]
    whole = Watch(rule(by=("tenant",)))
    assert whole.at(0, minute(0, 100, 50) + minute(0, 1000, 10, other)) == ()


def test_where_and_unless_choose_what_is_looked_at():
    chosen = Watch(rule(where=Scope("acme"), unless=(Scope(agent_id="old"),)))
    counts = [minute(0, 100, 50, scope) for scope in (AGENT, Scope("acme", "old"), Scope("other", "refunds"))]
    assert [alert.scope for alert in chosen.at(0, [*chain(*counts)])] == [AGENT]


# --- the scope's own past


def past(share, hours=30):
    """Ten runs a minute for some hours, all but told by the hour."""
    return [c for h in range(1, hours + 1) for c in minute(-60 * h, 600, int(600 * share))]


BASED = rule(baseline=Baseline(10080, 2.0, 200))


def based(share, rule_=BASED):
    watch = Watch(rule_)
    watch.evaluator.load(watch.state, past(share))
    return watch


@pytest.mark.parametrize(("usual", "share", "states"), [
    (0.01, 50, ["firing"]), (0.2, 50, []), (0.2, 60, ["firing"]), (0.6, 80, []), (0.6, 99, ["firing"]), (1, 100, []),
])  # fmt: skip
def test_a_share_has_to_be_beyond_twice_what_is_usual(usual, share, states):
    assert based(usual).states(0, minute(0, 100, share)) == states


def test_a_scope_without_a_past_is_judged_by_the_threshold_alone():
    assert Watch(BASED).states(0, minute(0, 100, 50)) == ["firing"]


def test_a_scope_without_a_past_is_left_alone_where_the_rule_needs_one():
    needing = rule(BASED, baseline=Baseline(10080, 2.0, 200, needed=True))
    assert Watch(needing).states(0, minute(0, 100, 100)) == []
    assert based(0.1, needing).states(0, minute(0, 100, 50)) == ["firing"]


def test_an_incident_does_not_become_usual_while_it_lasts():
    watch = based(0.1)
    limits = [alert.threshold for n in range(2000) for alert in watch.at(n, minute(n, 10, 8))]
    assert len(limits) == 2000
    assert max(limits) == min(limits) == pytest.approx(0.2, abs=0.01)


def test_a_share_that_is_too_small_needs_a_past():
    below = rule(BASED, condition=Condition.SHARE_BELOW, threshold=0.3, minimum=50)
    assert Watch(below).states(0, minute(0, 1000, 0)) == []
    assert based(0.4, below).states(0, minute(0, 1000, 0)) == ["firing"]
    assert based(0.4, below).states(0, minute(0, 1000, 190)) == []
    assert based(0.4, below).states(0, minute(0, 40, 0)) == []


# --- surges


@pytest.mark.parametrize(("refusals", "exits", "states"), [
    (0, 0, []), (0, 1, []), (1, 1, []), (1, 2, []), (2, 2, []), (2, 3, []), (500, 1000, ["firing"]),
])  # fmt: skip
@pytest.mark.parametrize("usual", [None, 0.0, 0.02])
def test_one_or_two_are_no_surge_and_half_of_many_are(usual, refusals, exits, states):
    watch = Watch(SURGES) if usual is None else based(usual, SURGES)
    assert watch.states(0, minute(0, exits, refusals)) == states


def quiet(*refused):
    """An agent that had a run every twelve minutes for a week, 1 in 50 refused; then so many more, a run at a time."""
    watch = Watch(SURGES)
    watch.evaluator.load(watch.state, [c for n in range(840) for c in minute(12 * (n - 840), 1, int(n % 50 == 0))])
    return [watch.states(12 * n, minute(12 * n, 1, each)) for n, each in enumerate(refused)]


def test_at_five_runs_an_hour_three_of_three_are_a_surge():
    # Of 0.8 against 0.05, three hits speak 16 * 16 * 16 = 4,096 to 1, and 3 * 840 is asked for.
    assert quiet(1, 1, 1, 0, 0) == [[], [], ["firing"], ["firing"], ["firing"]]
    # One that was not refused takes 3 / 4 away, or, of 0.4, a third: 16 ** 3 * 4 / 19 = 862; 8 ** 4 * 12 / 19 = 2,587.
    assert quiet(1, 0, 1, 1, 1) == [[], [], [], [], ["firing"]]
    assert quiet(1, 0, 1, 0, 1, 0, 0) == [[]] * 7


def test_the_share_has_to_be_beyond_the_limit_however_many_runs_say_that_it_rose():
    watch = based(0.05, SURGES)
    assert [watch.states(n, minute(n, 100, 19)) for n in range(30)] == [[]] * 30
    assert watch.states(30, minute(30, 100, 60)) == ["firing"]


def test_a_surge_says_by_which_runs_and_ends_by_the_latest():
    watch = Watch(SURGES)
    watch.evaluator.load(watch.state, [c for h in range(1, 31) for c in minute(-60 * h, 600, 12)])
    assert watch.at(0, minute(0, 4, 0)) == ()
    (alert,) = watch.at(1, minute(1, 14, 12))
    since = "2027-01-15 08:01"
    assert alert.summary == f"More runs than usual end in a refusal. 12 of 14 runs since {since} UTC; 2.0% are usual."
    assert (alert.value, alert.threshold) == (12 / 14, 0.2)
    watch.restart([*minute(0, 4, 0), *minute(1, 14, 12)])
    assert watch.at(2)[0].summary == alert.summary
    assert watch.states(40, minute(40, 9, 0)) == ["firing"]  # half of twenty runs: 9 and those of minute 1
    assert watch.states(41, minute(41, 40, 0)) == ["resolved"]


def test_late_runs_that_surged_page_all_the_same():
    watch = Watch(SURGES)
    for n in range(1620):
        watch.at(n)
    (alert,) = watch.at(1620, minute(0, 50, 50))
    assert (alert.state, alert.value) == ("firing", 1.0)
    assert "50 of 50 runs since" in alert.summary


def test_where_everything_is_usual_nothing_is_a_surge():
    assert based(1, SURGES).states(0, minute(0, 1000, 1000)) == []


# --- open items


def test_the_oldest_item_decides_and_its_clock_stands_still_while_it_is_paused():
    watch, pause = Watch(AGES), 20 * MINUTE
    assert watch.states(58, items=[review(0)]) == []
    assert watch.states(61, items=[review(0, paused_us=pause)]) == []
    assert watch.states(62, items=[review(0, paused_since=(T0 + 50) * MINUTE)]) == []
    (alert,) = watch.at(63, items=[review(0), review(60)])
    assert (alert.state, alert.scope, alert.value) == ("firing", QUEUE, pytest.approx(64, abs=0.01))
    assert watch.states(64, items=None) == ["firing"]
    assert watch.states(65, items=[review(60)]) == ["resolved"]


def test_a_quantile_of_ages_is_the_age_that_so_many_have_at_most():
    watch = Watch(rule(AGES, quantile=0.95, minimum=20))
    assert watch.states(100, items=[review(0)] + [review(90)] * 19) == []
    assert watch.states(101, items=[review(0)] * 2 + [review(90)] * 18) == ["firing"]
    assert watch.states(102, items=[review(0)] * 19) == ["resolved"]


def test_partials_and_reviews_are_judged_apart():
    watch = Watch(AGES, rule(AGES, id="partial_age", what="partial", by=("tenant",)))
    partial = review(0, what="partial", scope=Scope("acme", "refunds"))
    assert [alert.rule for alert in watch.at(100, items=[partial])] == ["partial_age"]


@pytest.mark.parametrize(("late", "of", "states"), [
    (0, 0, []), (4, 4, []), (5, 5, ["firing"]), (1, 10, []), (5, 20, []), (12, 40, ["firing"]),
])  # fmt: skip
def test_a_share_past_its_deadline_is_no_chance(late, of, states):
    items = [review(0, deadline=end(0), overdue=number < late) for number in range(of)]
    assert Watch(DUE).states(5, items=[*items, *[review(0)] * 50]) == states


def test_reviews_past_their_deadline_clear_by_the_share_itself():
    def items(late):
        return [review(0, deadline=end(0), overdue=number < late) for number in range(40)]

    watch = Watch(DUE)
    assert [watch.states(n, items=items(late)) for n, late in enumerate([5, 12, 5, 4])] == [
        [], ["firing"], ["firing"], ["resolved"]
    ]  # fmt: skip


# --- the pipeline itself


def test_a_gauge_that_cannot_be_read_is_neither_health_nor_an_alert():
    watch = Watch(rule(LAG, gauge=Gauge.LAG))
    assert watch.states(0, pulse=Pulse()) == []
    assert watch.states(1, pulse=WELL._replace(lag=101)) == ["firing"]
    assert watch.states(2, pulse=Pulse()) == ["firing"]
    assert watch.states(3, pulse=WELL._replace(lag=100)) == ["resolved"]


def test_what_is_unknown_for_long_is_an_alert_of_its_own():
    watch = Watch(rule(LAG, condition=Condition.UNKNOWN, gauge=Gauge.LAG, for_minutes=2))
    assert [watch.states(n, pulse=Pulse()) for n in range(3)] == [["pending"], ["pending"], ["firing"]]
    assert watch.states(3) == ["resolved"]


@pytest.mark.parametrize(("gauge", "pulse", "value"), [
    (Gauge.NEWEST_EVENT_AGE, WELL._replace(newest_event_at=end(0) - 150 * MINUTE), 150),
    (Gauge.LAG, WELL._replace(lag=1000), 1000),
    (Gauge.STORE_REFUSING, WELL._replace(store_refusing=True), 1),
    (Gauge.CLOCK_SKEW, WELL._replace(clock_skew_us=-120_000_000), 120),
])  # fmt: skip
def test_each_gauge_has_its_unit(gauge, pulse, value):
    (alert,) = Watch(rule(LAG, gauge=gauge, threshold=0)).at(0, pulse=pulse)
    assert alert.value == pytest.approx(value)


SILENCE = rule(
    condition=Condition.ABSENCE, id="agent_absent", threshold=60, series=Series.EXITS, over=None,
    baseline=Baseline(20160, 2.0, 100),
)  # fmt: skip


def test_silence_is_told_by_the_longest_that_is_usual():
    watch = Watch(SILENCE)
    # By day every minute, and twelve hours of silence by night.
    for n in range(8 * 1440):
        assert watch.states(n, minute(n, 1) if n % 1440 < 720 else ()) == []
    # Another night is usual, and so is twice its length, less one.
    last = 7 * 1440 + 719
    silent = [n for n in range(8 * 1440, last + 1500) if watch.states(n)]
    assert silent[0] == last + 2 * 721
    assert watch.states(last + 1500, minute(last + 1500, 1)) == ["resolved"]


def test_silence_that_nobody_has_seen_before_says_nothing_of_a_short_past():
    watch = Watch(SILENCE)
    assert [watch.states(n, minute(n, 1) if n < 200 else ()) for n in range(7 * 1440)] == [[]] * 7 * 1440
    assert watch.states(7 * 1440) == ["firing"]


def test_silence_of_a_scope_that_hardly_ever_spoke_says_nothing():
    watch = Watch(SILENCE)
    assert [watch.states(n, minute(n, 1) if n < 99 else ()) for n in range(1000)] == [[]] * 1000


def test_silence_that_lasts_is_not_resolved_when_the_past_is_forgotten():
    watch = Watch(SILENCE)
    for n in range(200):
        watch.at(n, minute(n, 1))
    assert watch.states(7 * 1440) == ["firing"]
    assert watch.states(60 * 1440) == ["firing"]


# --- what survives


def test_alerts_of_rules_that_are_gone_are_resolved_as_they_were_announced():
    watch = Watch(REFUSALS, FENCES)
    watch.at(0, minute(0, 100, 50, fence_violation=1))
    other = Watch(rule(unless=(AGENT,)))
    other.state = other.evaluator.from_json(watch.state.to_json())
    alerts = other.at(1)
    assert [(a.rule, a.scope, a.state, a.severity, a.resolved_at) for a in alerts] == [
        ("fence_violation", AGENT, "resolved", "page", end(1)),
        ("refusal_rate", AGENT, "resolved", "page", end(1)),
    ]
    assert other.at(2) == ()


def test_what_was_pending_under_a_rule_that_is_gone_is_nobodys():
    watch, other = Watch(rule(for_minutes=5)), Watch(FENCES)
    assert watch.states(0, minute(0, 100, 50)) == ["pending"]
    other.state = other.evaluator.from_json(watch.state.to_json())
    assert other.at(1) == ()


@pytest.mark.parametrize(("rules", "minutes"), [
    ([REFUSALS], 2 * 1440 + 60),
    ([rule(window_runs=9, window_limit_minutes=3000)], 3060),
    ([rule(id="based", baseline=Baseline(10080, 2.0, 9)), REFUSALS], 10140),
])  # fmt: skip
def test_counts_are_wanted_as_far_back_as_anything_looks(rules, minutes):
    assert Evaluator(rules).lookback_minutes == minutes


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2}', '{"version": 1, "now": 1, "minute": 1}', "nul"])
def test_what_is_no_state_is_refused(text):
    with pytest.raises(ValueError, match="not the state of an evaluator"):
        Evaluator([REFUSALS]).from_json(text)


def test_a_state_is_plain_json():
    watch = Watch(BASED, FENCES)
    watch.at(0, minute(0, 100, 50, fence_violation=1))
    said = json.loads(watch.state.to_json())
    assert (said["now"], said["minute"]) == (end(0), T0)
    assert watch.evaluator.from_json(watch.state.to_json()).to_json() == watch.state.to_json()


def test_a_clock_that_goes_back_stands_still():
    watch = Watch(REFUSALS)
    watch.at(10, minute(10, 100, 50))
    other = minute(10, 100, 50, Scope("acme", "other"))
    assert [alert.since for alert in watch.at(5, [*minute(10, 100, 50), *other])] == [end(10), end(10)]
    assert watch.state.now == end(10)


TRAFFIC = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 9), st.booleans()), min_size=5, max_size=60
)


@settings(max_examples=150, deadline=None)
@given(TRAFFIC)
def test_restarts_change_nothing(traffic):
    """Somebody who starts anew every now and then says at every minute what somebody says who never did."""
    rules = (
        rule(window_runs=10, window_limit_minutes=30, minimum=4, for_minutes=1, keep_firing_minutes=2, confidence=0.9),
        rule(id="based", minimum=4, confidence=0.9, baseline=Baseline(600, 1.5, 20)),
        rule(FENCES, window_minutes=3),
        rule(
            SURGES,
            id="surge",
            window_minutes=2,
            window_runs=6,
            window_limit_minutes=30,
            chance_days=1,
            threshold=0.05,
            baseline=Baseline(600, 1.5, 20),
            keep_firing_minutes=1,
        ),
        rule(SILENCE, threshold=2, baseline=Baseline(600, 1.1, 5)),
    )
    steady, restarting, told = Watch(*rules), Watch(*rules), {}
    for n, (exits, refusals, back, restarts) in enumerate(traffic):
        at = n - (back if back < 6 else 0)
        told[at] = minute(at, exits, min(exits, refusals), fence_violation=int(exits == 11))
        assert steady.at(n, told[at]) == restarting.at(n, told[at])
        if restarts:
            restarting.restart([count for counts in told.values() for count in counts])


def naively(holds, for_minutes, keep_minutes):
    """The states at every minute, by looking back over all of them."""
    fired, states = False, []
    for n in range(len(holds)):
        true = next((back for back in range(n + 1) if not holds[n - back]), n + 1)
        false = next((back for back in range(n + 1) if holds[n - back]), n + 1)
        if fired and false > keep_minutes:
            states.append(["resolved"])
            fired = False
            continue
        fired = fired or true > for_minutes
        states.append(["firing"] if fired else ["pending"] if true else [])
    return states


@settings(max_examples=200, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(0, 4), st.integers(0, 4))
def test_states_are_what_looking_back_over_all_minutes_says(holds, for_minutes, keep_minutes):
    watch = Watch(rule(window_minutes=1, for_minutes=for_minutes, keep_firing_minutes=keep_minutes))
    states = [watch.states(n, minute(n, 100, 50 * each)) for n, each in enumerate(holds)]
    assert states == naively(holds, for_minutes, keep_minutes)


def test_hostile_scopes_are_only_scopes():
    odd = Scope("Müller & Söhne'; --", '"\\\n\x00', "", "")
    watch = Watch(REFUSALS)
    assert watch.at(0, minute(0, 100, 50, odd))[0].scope == odd
    watch.restart(minute(0, 100, 50, odd))
    assert watch.at(1)[0].scope == odd


def test_counts_below_one_count_nothing():
    watch = Watch(REFUSALS)
    assert watch.at(0, [Count(T0, AGENT, Series.EXITS, 100), Count(T0, AGENT, Series.REFUSAL, -5)]) == ()
