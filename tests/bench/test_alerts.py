"""What the simulation of incidents counts: on pages that are written by hand, and on a few days."""

from math import exp, inf
from random import Random

import pytest

from alerts.causes import Factor
from alerts.model import Scope, Series
from bench import alerts
from bench.alerts import DAY, JUDGEMENT, KINDS, START, Found, Incident, Page, Thresholds, World, holds, poisson

ROLLOUT, OVERBROAD, STAFFING = KINDS[0], KINDS[7], KINDS[6]
BEGIN = START + 10 * DAY
RIGHT = (Factor.POLICY_VERSION, "refund@8")
INVOICES = Scope("acme", "invoices")


def found(*pages, fixed=(), incidents=None):
    given = [Incident(ROLLOUT, BEGIN, BEGIN + 180, 0.5)] if incidents is None else incidents
    return Found(given, 17, list(pages), {wait: list(fixed) for wait in alerts.WAITS})


def page(after=4, rule="refusal_rate", scope=INVOICES, cause=RIGHT):
    return Page(rule, scope, BEGIN + after, cause)


def test_the_delay_is_to_the_first_page_of_the_right_rule_and_scope():
    other = [page(1, "fallback_rate"), page(1, scope=Scope("acme", "support")), page(-1), page(180)]
    late = found(*other, page(9), page(4), fixed=[page(6, "refusal")])
    assert late.delays(ROLLOUT) == [(5, dict.fromkeys(alerts.WAITS, 7))]
    assert found(*other).delays(ROLLOUT) == [(inf, dict.fromkeys(alerts.WAITS, inf))]


def test_pages_within_a_day_after_an_incident_are_none_of_nothing():
    pages = [page(-1), page(0), page(180 + DAY - 1), page(180 + DAY)]
    counted = found(*pages)
    assert counted.false(pages) == [pages[0], pages[3]]
    assert counted.per_week(pages) == pytest.approx(2 * 7 / (17 - 1 - 3 / 24))


def test_causes_are_right_or_wrong_page_by_page():
    assert found(page(), page(9, cause=("", "")), page(9, "fallback_rate")).named(ROLLOUT) == [True, False]
    queue = page(90, "queue_age_p80", Scope("acme", queue=JUDGEMENT), ("over-broad escalation", ""))
    wrong = queue._replace(cause=("too little review capacity", ""))
    overflowing = found(queue, wrong, incidents=[Incident(OVERBROAD, BEGIN, BEGIN + 360, 0.5)])
    assert overflowing.named(OVERBROAD) == [True, False]
    assert found(wrong, incidents=[Incident(STAFFING, BEGIN, BEGIN + 720, 0.5)]).named(STAFFING) == [True]


@pytest.mark.parametrize(
    ("ours", "theirs", "noise", "held"),
    [
        ([page(4)], [page(4, "refusal")], 0, [True, True, True]),
        ([page(5)], [page(4, "refusal")], 0, [False, True, True]),
        ([page(4), page(-5)], [page(4, "refusal")], 9, [True, False, True]),
        ([page(4), page(-5)], [page(4, "refusal")], 10, [True, True, True]),
        ([page(4, cause=("", ""))], [page(4, "refusal")], 0, [True, True, False]),
        ([], [page(4, "refusal")], 0, [False, True, False]),
    ],
)
def test_claims_hold_or_do_not(ours, theirs, noise, held):
    noisy = [*theirs, *(page(-10 - number, "refusal") for number in range(noise))]
    assert list(holds(found(*ours, fixed=noisy)).values()) == held


def test_a_fixed_threshold_pages_once_it_has_been_passed_for_long_enough():
    world = World(Random(1), [])
    run = alerts.Run(alerts.QUIET, "report", "7", "default 1", Series.REFUSAL, None)
    pages = {wait: Thresholds(wait) for wait in (0, 4, 5)}
    seen = {wait: [] for wait in pages}
    for minute in range(20):
        world.runs[minute] = [run] if minute in (0, 12) else []
        for wait, each in pages.items():
            seen[wait] += [minute for _ in each.step(world, minute)]
    # One run is in the window for five minutes.
    assert seen == {0: [0, 12], 4: [4, 16], 5: []}


def test_a_simulation_is_the_same_for_the_same_seed_and_finds_its_incident(monkeypatch):
    monkeypatch.setattr(alerts, "WARM_UP", 1)
    one, again = (alerts.simulate(3, seed) for seed in (7, 7))
    assert (one.shipped, one.fixed) == (again.shipped, again.fixed)
    assert [each.kind for each in one.incidents] == [ROLLOUT]
    ((ours, _),) = one.delays(ROLLOUT)
    assert ours < 60
    assert one.named(ROLLOUT) == [True]


def test_poisson_numbers_have_their_mean():
    rng = Random(3)
    drawn = [poisson(rng, 2.5) for _ in range(20_000)]
    assert sum(drawn) / len(drawn) == pytest.approx(2.5, abs=0.05)
    assert drawn.count(0) / len(drawn) == pytest.approx(exp(-2.5), abs=0.01)
