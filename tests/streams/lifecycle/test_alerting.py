"""Alerts on the leader of the lifecycle app: what is handed to the evaluator, and what is shown of it."""

import asyncio

import pytest
from prometheus_client.parser import text_string_to_metric_families

from alerts.model import OpenItem, Scope
from streams.alert_metrics import EVALUATED, FIRING, Judged, alert_metrics_text
from streams.alerting import Turn
from streams.lifecycle.alerting import AlertTurns, open_items
from streams.lifecycle.app import Evaluation
from streams.lifecycle.items import OpenPartial, OpenReview
from streams.lifecycle.knowledge import OpenItems
from tests.alerts.rule import FENCES, REFUSALS
from tests.streams.alerting.test_outbox import alert

WHOSE = {
    "tenant": "acme", "event_id": "e", "run_id": "r", "segment": None, "agent_id": "refunds", "workflow": "pay",
    "kind": "partial", "reason_code": "timeout", "opened_at": 100,
}  # fmt: skip
PARTIAL = OpenPartial(**WHOSE, missing=("map", "tax"), failed=("tax",), superseded=(), final=(), reverses_result=False)
REVIEW = OpenReview(
    **WHOSE, queue="billing", owner="b", review_packet_id="p", deadline=500, paused_since=450, paused_us=7,
    state="paused", reviewer="", expired=False, decision_owed=True, duties=(),
)  # fmt: skip
ITEMS = OpenItems((PARTIAL,), (REVIEW,), ())


def test_items_are_handed_over_as_they_are_judged():
    partial, review = open_items(ITEMS, now=520)
    scope = Scope("acme", "refunds", "pay")
    assert partial == OpenItem(
        "partial", scope, "e", "r", 100, None, 0, None, overdue=False, reason_code="timeout",
        components=("map", "tax"),
    )  # fmt: skip
    assert review == OpenItem(
        "review", scope._replace(queue="billing"), "e", "r", 100, 570, 7, 450, overdue=False, reason_code="timeout",
        components=(),
    )  # fmt: skip
    running = OpenItems((), (OpenReview(**{**vars(REVIEW), "paused_since": None}),), ())
    assert [item.overdue for now in (500, 501) for item in open_items(running, now)] == [False, True]


class Told:
    """An evaluator that remembers what it was told."""

    rules, channels = (REFUSALS, FENCES), {"webhook": None}

    def __init__(self, answer):
        self.answer, self.seen = answer, []

    def turn(self, now, items):
        self.seen.append((now, items))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def turns(evaluator, *evaluations, wait=True):
    async def at_once(ask):
        return ask()

    async def go():
        leader = AlertTurns(evaluator, at_once)
        for evaluation in evaluations:
            await leader(evaluation)
            if wait:
                await asyncio.wait([leader._under_way])
        await asyncio.wait([leader._under_way])
        return leader

    return asyncio.run(go())


def test_what_is_open_is_known_only_when_all_of_it_is():
    told = Told(Turn(leads=True))
    turns(told, Evaluation(1, ITEMS, complete=False), Evaluation(2, ITEMS, complete=True))
    assert told.seen == [(1, None), (2, open_items(ITEMS, 2))]


def test_there_is_never_more_than_one_turn():
    told = Told(Turn(leads=True))
    turns(told, *(Evaluation(now, ITEMS, complete=True) for now in (1, 2, 3)), wait=False)
    assert [now for now, _ in told.seen] == [1]


def test_what_is_no_outage_ends_the_process():
    with pytest.raises(ZeroDivisionError):
        turns(Told(ZeroDivisionError()), Evaluation(1, ITEMS, complete=True), Evaluation(2, ITEMS, complete=True))


def samples(text):
    return {(s.name, *s.labels.values()): s.value for f in text_string_to_metric_families(text) for s in f.samples}


def test_zeros_are_shown_for_what_does_not_fire():
    other = alert(scope=Scope("b"))
    turn = Turn(True, (alert(), other, alert(resolved=9, scope=Scope("c"))), {"webhook": "no answer"}, unjudged=3)  # noqa: FBT003
    leader = turns(Told(turn), Evaluation(7_500_000, ITEMS, complete=True))
    assert samples(leader.metrics()) == {
        (FIRING, "refusal_rate", "page", "policy"): 2,
        (FIRING, "fence_violation", "page", "policy"): 0,
        (EVALUATED,): 7.5,
        ("offramp_alerts_undelivered", "webhook"): 1,
        ("offramp_alerts_unjudged",): 3,
    }


@pytest.mark.parametrize("judged", [None, Judged(Turn(leads=False), 1)])
def test_who_does_not_evaluate_shows_nothing(judged):
    assert samples(alert_metrics_text([REFUSALS], ["webhook"], judged)) == {}
