"""The loop: what is told, how often, and in what state the receivers end, whatever failed in between."""

import json

import pytest

from alerts.model import Condition, Gauge
from sinks.errors import StoreUnavailable
from streams.alerting import Saved
from streams.outbox import Habit
from tests.alerts.rule import AGENT, LAG, REFUSALS, WELL, review, rule
from tests.streams.alerting.world import OTHER, SECOND, Receiver, World, at, evaluator

BEHIND = rule(LAG, gauge=Gauge.LAG)
BRIEF = rule(window_minutes=2, minimum=8)
REFUSING = rule(LAG, id="store_refusing", gauge=Gauge.STORE_REFUSING, threshold=0)


@pytest.fixture
def world():
    return World()


def incident(world, first, last, scope=AGENT):
    for minute in range(first, last):
        world.record(minute, 100, 90, scope)


def calm(world, first, last, scope=AGENT):
    for minute in range(first, last):
        world.record(minute, 100, 0, scope)


def test_an_incident_is_told_once_when_it_begins_and_once_when_it_ends(world):
    receiver = Receiver(Habit())
    alerting = evaluator(world, receiver, rules=[BRIEF])
    incident(world, 1, 4)
    calm(world, 4, 9)
    for minute in range(9):
        for second in (10, 40):
            assert alerting.turn(at(minute, second)).leads
    assert receiver.states == ["firing", "resolved"]
    (fired, first), (_, last) = receiver.got
    assert (first.scope, first.rule, fired) == (AGENT, "refusal_rate", at(1, 40))
    assert (first.since, first.fired_at) == (last.since, last.fired_at)
    assert last.resolved_at > last.fired_at
    assert world.rows[first.rule, first.scope, first.since].state == "resolved"


def test_what_goes_on_is_told_again_after_the_time_that_the_receiver_wants(world):
    often, never = Receiver(Habit(120 * SECOND)), Receiver(Habit())
    alerting = evaluator(world, often, never)
    incident(world, 1, 11)
    for minute in range(11):
        alerting.turn(at(minute, 40))
    assert [now for now, _ in often.got] == [at(minute, 40) for minute in (1, 3, 5, 7, 9)]
    assert len(never.got) == 1


def test_one_who_is_not_reached_is_told_later_and_keeps_nobody_waiting(world):
    out, there = Receiver(Habit(), is_out=True), Receiver(Habit())
    alerting = evaluator(world, out, there, rules=[BRIEF])
    incident(world, 1, 3)
    calm(world, 3, 20)
    undelivered = [alerting.turn(at(minute, 40)).undelivered for minute in range(8)]
    assert {"receiver 0": "nobody answers"} in undelivered
    assert there.states == ["firing", "resolved"]
    out.is_out = False
    alerting.turn(at(10, 0))
    assert out.states == ["resolved"]
    assert out.got[0][1].fired_at == there.got[0][1].fired_at


def test_one_who_does_not_answer_is_asked_less_often(world):
    out = Receiver(Habit(), refuses=True)
    alerting = evaluator(world, out)
    incident(world, 1, 9)
    for minute in range(1, 9):
        for second in range(0, 60, 10):
            alerting.turn(at(minute, second))
    assert 8 <= out.calls <= 13
    out.refuses = False
    alerting.turn(at(10, 0))
    assert out.states == ["firing"]


def test_an_end_that_was_not_heard_survives_a_restart(world):
    out = Receiver(Habit(), is_out=True)
    first = evaluator(world, out, rules=[BRIEF])
    incident(world, 1, 3)
    calm(world, 3, 30)
    for minute in range(8):
        first.turn(at(minute, 40))
    assert out.got == []
    there = Receiver(Habit())
    evaluator(world, there, rules=[BRIEF], holder="b").turn(at(12))
    assert there.states == ["resolved"]


def test_after_a_restart_the_same_occurrence_goes_on(world):
    before, after = Receiver(Habit()), Receiver(Habit())
    incident(world, 1, 20)
    first = evaluator(world, before)
    for minute in range(4):
        first.turn(at(minute, 40))
    second = evaluator(world, after, holder="b")
    for minute in range(8, 12):
        second.turn(at(minute, 40))
    assert before.states == ["firing"]
    assert after.states == []
    (alert,) = second.turn(at(12, 40)).alerts
    assert (alert.since, alert.fired_at) == (before.got[0][1].since, before.got[0][1].fired_at)


def test_a_crash_between_keeping_and_telling_loses_nothing(world):
    class Crashing(Receiver):
        def send(self, alerts, now):
            raise KeyboardInterrupt

    incident(world, 1, 20)
    first = evaluator(world, Crashing(Habit()))
    first.turn(at(0))
    with pytest.raises(KeyboardInterrupt):
        first.turn(at(1, 40))
    receiver = Receiver(Habit())
    evaluator(world, receiver, holder="b").turn(at(3))
    assert receiver.states == ["firing"]


def test_what_is_told_of_a_minute_after_it_has_ended_is_judged_by_a_window_of_one_minute(world):
    receiver = Receiver(Habit())
    alerting = evaluator(world, receiver, rules=[rule(window_minutes=1)])
    alerting.turn(at(1, 55))
    world.record(1, 100, 60, recorded=at(1, 57))
    alerting.turn(at(2, 5))
    assert receiver.states == ["firing"]


def test_who_was_told_is_kept_at_once(world):
    incident(world, 1, 20)
    before, after = Receiver(Habit()), Receiver(Habit())
    first = evaluator(world, before)
    first.turn(at(0))
    first.turn(at(1, 40))
    evaluator(world, after, holder="b").turn(at(3))
    assert (before.states, after.states) == (["firing"], [])


def test_a_burst_that_came_late_while_nobody_evaluated_is_told(world):
    incident_minutes = range(-27 * 60, -27 * 60 + 10)
    first = evaluator(world, Receiver())
    calm(world, 0, 2)
    first.turn(at(2))
    for minute in incident_minutes:
        world.record(minute, 50, 50, recorded=at(4))
    calm(world, 2, 8)
    receiver = Receiver(Habit())
    evaluator(world, receiver, holder="b").turn(at(6))
    assert receiver.states == ["firing"]


# Two at once


def test_of_two_evaluators_one_tells_and_the_other_goes_on_when_it_is_gone(world):
    incident(world, 1, 20)
    receiver = Receiver(Habit())
    first, second = evaluator(world, receiver, holder="a"), evaluator(world, receiver, holder="b")
    led = [(first.turn(at(minute, 40)).leads, second.turn(at(minute, 41)).leads) for minute in range(5)]
    assert led == [(True, False)] * 5
    assert [second.turn(at(5, second_)).leads for second_ in (10, 35, 50)] == [False, False, True]
    assert receiver.states == ["firing"]


def test_one_that_ended_is_followed_at_once(world):
    first, second = evaluator(world, holder="a"), evaluator(world, holder="b")
    first.turn(at(0))
    assert not second.turn(at(0, 1)).leads
    first.end(at(0, 2))
    assert second.turn(at(0, 3)).leads


def test_of_two_that_begin_at_once_the_later_one_goes_on(world):
    incident(world, 1, 20)
    receivers = {name: Receiver(Habit()) for name in "ab"}
    both = {name: evaluator(world, receivers[name], holder=name) for name in "ab"}
    save, asked = world.save, []

    def meanwhile(saved, alerts):
        save(saved, alerts)
        if not asked:
            asked.append(saved.holder)
            # b had looked before a kept anything, and keeps after it.
            world.kept.append(Saved("b", saved.at + 1, saved.text))

    world.save = meanwhile
    assert not both["a"].turn(at(1, 40)).leads
    assert receivers["a"].got == []
    assert both["b"].turn(at(1, 50)).leads
    assert not both["a"].turn(at(1, 55)).leads
    assert both["b"].turn(at(2, 40)).leads
    assert (receivers["a"].states, receivers["b"].states) == ([], ["firing"])


def test_one_that_was_stopped_for_long_does_not_tell_when_it_wakes(world):
    incident(world, 1, 20)
    stopped, other = Receiver(Habit()), Receiver(Habit())
    first, second = evaluator(world, stopped, holder="a"), evaluator(world, other, holder="b")
    first.turn(at(0))
    second.turn(at(4))
    assert not first.turn(at(4, 5)).leads
    assert stopped.got == []
    assert other.states == ["firing"]


def test_one_whose_clock_is_behind_takes_over_all_the_same(world):
    evaluator(world, holder="a").turn(at(30))
    second = evaluator(world, holder="b")
    assert [second.turn(at(minute)).leads for minute in (1, 2, 3)] == [True, True, True]
    assert world.saved().holder == "b"


# Without the store


def test_a_store_that_cannot_be_asked_ends_nothing_and_is_told(world):
    receiver = Receiver(Habit(60 * SECOND))
    alerting = evaluator(world, receiver, rules=[BRIEF, REFUSING])
    incident(world, 1, 4)
    for minute in range(4):
        alerting.turn(at(minute, 40))
    world.is_out = True
    turns = [alerting.turn(at(minute, 40)) for minute in range(4, 12)]
    assert {turn.store_failure for turn in turns} == {"no store"}
    assert [{alert.rule for alert in turn.alerts} for turn in turns] == [{"refusal_rate", "store_refusing"}] * 8
    assert "resolved" not in receiver.states
    world.is_out = False
    calm(world, 4, 14)
    for minute in range(12, 14):
        alerting.turn(at(minute, 40))
    assert sorted(alert.rule for _, alert in receiver.got if alert.state == "resolved") == [
        "refusal_rate",
        "store_refusing",
    ]


def test_who_begins_without_the_store_tells_of_that_and_goes_on_from_what_was_kept(world):
    incident(world, 1, 30)
    first = evaluator(world, rules=[REFUSALS, REFUSING])
    for minute in range(4):
        first.turn(at(minute, 40))
    world.is_out = True
    receiver = Receiver(Habit())
    second = evaluator(world, receiver, rules=[REFUSALS, REFUSING], holder="b")
    second.turn(at(10))
    assert [alert.rule for _, alert in receiver.got] == ["store_refusing"]
    world.is_out = False
    alerts = second.turn(at(11)).alerts
    assert {alert.rule: alert.state for alert in alerts} == {
        "refusal_rate": "firing",
        "store_refusing": "resolved",
    } or ({alert.rule: alert.state for alert in alerts} == {"refusal_rate": "firing", "store_refusing": "firing"})
    second.turn(at(12))
    assert [alert.state for _, alert in receiver.got if alert.rule == "store_refusing"] == ["firing", "resolved"]
    assert next(alert.fired_at for alert in alerts if alert.rule == "refusal_rate") == at(1, 40)


def test_a_store_that_takes_no_rows_is_told(world):
    receiver = Receiver(Habit())
    alerting = evaluator(world, receiver, rules=[REFUSING])
    alerting.turn(at(0))
    world.refuses_rows = True
    for second in (10, 20, 30):
        alerting.turn(at(0, second))
    assert receiver.states == ["firing"]


def test_nothing_known_of_lag_is_not_health(world):
    unknown = rule(BEHIND, id="lag_unknown", condition=Condition.UNKNOWN)
    alerting = evaluator(world, rules=[BEHIND, unknown])
    world.pulse_is = WELL._replace(lag=5)
    assert [alert.rule for alert in alerting.turn(at(0)).alerts] == ["lag_unknown"]
    alerting.lag = lambda: 1000
    assert {alert.rule: alert.state for alert in alerting.turn(at(1)).alerts} == {
        "lag_unknown": "resolved",
        "consumer_lag": "firing",
    }


def test_what_an_audit_found_is_told_and_what_none_found_resolves_nothing(world):
    unaccounted = rule(LAG, id="unaccounted", gauge=Gauge.UNACCOUNTED, threshold=0)
    alerting = evaluator(world, rules=[unaccounted])
    assert alerting.turn(at(0)).alerts == ()
    alerting.unaccounted = lambda: 3
    assert [alert.state for alert in alerting.turn(at(1)).alerts] == ["firing"]
    alerting.unaccounted = lambda: None
    assert [alert.state for alert in alerting.turn(at(2)).alerts] == ["firing"]
    alerting.unaccounted = lambda: 0
    assert [alert.state for alert in alerting.turn(at(3)).alerts] == ["resolved"]


def test_open_items_are_those_that_are_handed_in_or_those_of_the_store(world):
    ages = rule(LAG, id="age", condition=Condition.AGE, what="review", gauge=None, threshold=60)
    alerting = evaluator(world, rules=[ages])
    old = [review(-120)]
    assert alerting.turn(at(0), old).alerts[0].state == "firing"
    assert alerting.turn(at(1), []).alerts[0].state == "resolved"
    world.items = tuple(old)
    assert alerting.turn(at(2)).alerts[0].state == "firing"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 7}', '{"version": 1, "outbox": {"alerts": [3]}}'])
def test_a_state_that_cannot_be_read_is_begun_anew(world, text):
    world.kept.append(Saved("x", at(-5), text))
    incident(world, 1, 3)
    receiver = Receiver(Habit())
    alerting = evaluator(world, receiver)
    for minute in range(3):
        assert alerting.turn(at(minute, 40)).leads
    assert receiver.states == ["firing"]


def test_what_fires_of_a_rule_that_is_gone_is_told_to_have_ended(world):
    incident(world, 1, 20)
    receiver = Receiver(Habit())
    first = evaluator(world, receiver)
    first.turn(at(0))
    first.turn(at(1, 40))
    evaluator(world, receiver, rules=[BEHIND], holder="b").turn(at(4))
    assert receiver.states == ["firing", "resolved"]


# Causes


def test_what_fires_is_told_with_its_cause_a_few_at_a_time(world):
    asked = []

    def explain(alert, of, items, now):
        asked.append(alert.scope)
        return alert._replace(cause="policy 7", contributors=(("policy 7", 0.5),))

    scopes = [OTHER._replace(agent_id=f"agent {number}") for number in range(12)]
    for scope in scopes:
        incident(world, 1, 9, scope)
    receiver = Receiver(Habit(120 * SECOND))
    alerting = evaluator(world, receiver, explain=explain)
    counts = []
    alerting.turn(at(0))
    for minute in range(1, 6):
        asked.clear()
        alerting.turn(at(minute, 40))
        counts.append(len(asked))
    assert counts == [3, 3, 3, 3, 0]
    assert len({alert.scope for _, alert in receiver.got}) == 12
    assert {alert.cause for alert in world.rows.values()} == {"policy 7"}
    assert receiver.got[-1][1].cause == "policy 7"


def test_a_cause_that_cannot_be_found_keeps_nothing_back(world):
    asked = []

    def explain(alert, of, items, now):
        asked.append(alert.scope)
        raise StoreUnavailable("no memory")

    incident(world, 1, 3)
    incident(world, 1, 3, OTHER)
    receiver = Receiver(Habit())
    alerting = evaluator(world, receiver, explain=explain)
    alerting.turn(at(0))
    alerting.turn(at(1, 40))
    assert [(alert.state, alert.cause) for _, alert in receiver.got] == [("firing", "")] * 2
    assert len(asked) == 1, "a store that fails is not asked again while somebody waits"


def test_what_is_kept_is_one_line_of_json(world):
    incident(world, 1, 3)
    alerting = evaluator(world, Receiver(), explain=lambda alert, *_: alert._replace(cause="ü'\n"))
    alerting.turn(at(0))
    alerting.turn(at(1, 40))
    text = world.saved().text
    assert "\n" not in text
    assert json.loads(text)["outbox"]["alerts"][0]["cause"] == "ü'\n"
