"""Rules that can never fire or clear at some traffic, and rules that can."""

import pytest

from alerts.evaluator import Evaluator
from alerts.judging import deviation, wilson
from alerts.model import Baseline, Condition, Pulse, Scope, Series
from alerts.traffic import doubts, runs_needed
from tests.alerts.rule import AGENT, AGES, DUE, FENCES, REFUSALS, SURGES, minute, review, rule


def told(*spans, scope=AGENT):
    """Counts of exits and refusals, minute by minute."""
    return [count for n, (exits, refusals) in enumerate(spans) if exits for count in minute(n, exits, refusals, scope)]


def found(rules, counts, items=()):
    return [(doubt.rule, doubt.never, doubt.seen, doubt.scopes) for doubt in doubts(rules, counts, items)]


@pytest.mark.parametrize("threshold", [0.01, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("condition", [Condition.SHARE, Condition.SHARE_BELOW])
def test_the_fewest_runs_are_those_with_which_everything_holds_and_one_less_does_not(threshold, condition):
    asked = rule(threshold=threshold, condition=condition, minimum=1)
    fewest, deviations = runs_needed(asked), deviation(0.999)

    def holds(runs):
        low, high = wilson(runs, runs, deviations)[0], wilson(0, runs, deviations)[1]
        return low > threshold if condition is Condition.SHARE else high < threshold

    assert holds(fewest)
    assert fewest == 1 or not holds(fewest - 1)


def test_a_window_that_never_holds_enough_runs_never_fires():
    assert found([REFUSALS], told(*[(1, 1)] * 1000)) == [
        ("refusal_rate", "fires", 1, ((AGENT, "it needs 8 runs in its window, and the fullest window had 5"),))
    ]
    assert found([rule(window_runs=20, window_limit_minutes=60)], told(*[(1, 0)] * 1000)) == []


def test_a_threshold_below_what_is_normal_never_clears():
    assert found([REFUSALS], told(*[(10, 4)] * 100)) == [
        ("refusal_rate", "clears", 1, ((AGENT, "the condition held in every window that had enough runs to say so"),))
    ]
    assert found([REFUSALS], told(*[(10, 4)] * 100, *[(10, 0)] * 10)) == []
    # Of a short bad time nothing is said.
    assert found([REFUSALS], told(*[(10, 4)] * 20)) == []


def test_what_is_never_so_cannot_be_less():
    below = rule(condition=Condition.SHARE_BELOW, baseline=Baseline(600, 2.0, 50))
    assert found([below], told(*[(10, 0)] * 200)) == [
        ("refusal_rate", "fires", 1,
         ((AGENT, "a share of 0 is usual, and no window had enough runs to be beyond its limit"),))
    ]  # fmt: skip
    assert "it needs 50 runs in its past" in found([below], told(*[(10, 0)] * 9))[0][3][0][1]


def test_each_scope_is_judged_for_itself():
    busy = Scope("acme", "busy")
    counts = told(*[(1, 0)] * 100) + told(*[(50, 0)] * 100, scope=busy)
    ((_, never, seen, scopes),) = found([REFUSALS], counts)
    assert (never, seen, [scope for scope, _ in scopes]) == ("fires", 2, [AGENT])


def test_counts_fire_on_the_first_and_are_never_doubted():
    assert found([FENCES], told(*[(1, 0)] * 10)) == []


def test_a_rule_that_looks_at_nothing_is_told():
    asked = rule(where=Scope("another"))
    assert found([asked], told(*[(10, 0)] * 10)) == [
        ("refusal_rate", "fires", 0, ((Scope("another"), "nothing that it looks at was seen"),))
    ]


def test_silence_of_a_scope_that_hardly_speaks_or_is_often_silent_cannot_be_told():
    silence = rule(
        id="absent", condition=Condition.ABSENCE, threshold=60, series=Series.EXITS, over=None,
        baseline=Baseline(1440, 2.0, 100),
    )  # fmt: skip
    assert (
        "it needs 100 in 1,440 minutes, and about 4 come"
        in found([silence], told(*[(1, 0), *[(0, 0)] * 718] * 2))[0][3][0][1]
    )
    rare = told((200, 0), *[(0, 0)] * 1000, (200, 0))
    assert "would wait 2,002 minutes" in found([silence], rare)[0][3][0][1]
    assert found([silence], told(*[(1, 0)] * 1440)) == []


def test_open_items_are_judged_by_how_many_there_are():
    assert found([AGES], [], [review(0)]) == []
    aged = rule(AGES, minimum=10)
    assert found([aged], [], [review(0)])[0][3][0][1] == "it needs 10 open items, and there are 1 now"
    assert found([DUE], [], [review(0)] * 9)[0][3][0][1] == "it needs 5 open items with a deadline, and there are 0 now"
    assert found([DUE], [], [review(0, deadline=5)] * 9) == []


def test_what_is_said_never_to_fire_does_not_fire_at_that_traffic():
    counts = told(*[(1, 1)] * 300)
    assert found([REFUSALS], counts)
    evaluator = Evaluator([REFUSALS])
    state = evaluator.begin((counts[0].minute - 1) * 60_000_000)
    assert evaluator.step(state, counts, [], Pulse(), counts[-1].minute * 60_000_000).alerts == ()


def test_a_surge_needs_runs_by_what_is_usual():
    ((_, never, _, ((_, reason),)),) = found(
        [rule(SURGES, window_runs=0, window_limit_minutes=0)], told(*[(1, 0)] * 99)
    )
    assert (never, reason) == ("fires", "it needs 8 runs in its window, and the fullest window had 5")
    assert found([SURGES], told(*[(1, 0)] * 99)) == []
    # Where 1 in 20 is usual, 16 ** 4 is more than 3 * 7 * 1,440.
    quiet = rule(SURGES, window_runs=4)
    assert found([quiet], told(*[(1, int(n % 20 == 0)) for n in range(999)])) == []
    # Where 3 in 5 are usual, 19 / 12 to 1 is what a hit speaks.
    ((_, never, _, ((_, reason),)),) = found([quiet], told(*[(1, int(n % 5 < 3)) for n in range(999)]))
    assert never == "fires"
    assert "the fullest window had 5" in reason
