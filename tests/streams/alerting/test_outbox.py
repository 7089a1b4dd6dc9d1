"""What is due to whom, and what the forms of an alert say."""

import json
from itertools import product

import pytest

from alerts.model import Alert, Scope
from schemas.alerts import ExitAlert
from streams.alert_channels import ToAlertmanager, ToTopic, ToWebhook
from streams.alert_forms import encoded, key_of, message, occurrence, posted
from streams.kafka.fake import FakeCluster
from streams.kafka.seam import NewTopic, Outgoing, Subscription, TopicPartition
from streams.lag import Lag
from streams.outbox import KEPT_US, Habit, Outbox, parts_of, text_of
from tests.alerts.rule import AGENT, REFUSALS, rule

SECOND = 1_000_000
START = 1_800_000_000 * SECOND
AM = Habit(60 * SECOND, 900 * SECOND)


def alert(fired=0, resolved=None, scope=AGENT, **fields):
    """An alert that fired so many seconds after the beginning."""
    ended = None if resolved is None else START + resolved * SECOND
    given = Alert(
        "refusal_rate", scope, "firing" if resolved is None else "resolved", START + fired * SECOND - 60 * SECOND,
        START + fired * SECOND, ended, 0.5, 0.2, "page", "policy", "docs/runbooks/refusal_rate.md", "", (), "Refused.",
    )  # fmt: skip
    return given._replace(**fields)


def due(outbox, to, habit, second):
    """What is due then, noted as told."""
    found = outbox.due(to, habit, START + second * SECOND)
    outbox.note(to, found, START + second * SECOND)
    return [(each.state, (each.fired_at - START) // SECOND) for each in found]


def test_pending_alerts_are_not_told():
    outbox = Outbox()
    outbox.take([alert(fired_at=None, state="pending")], START)
    assert outbox.alerts == {}


def test_alertmanager_is_told_again_and_for_a_while_of_an_end():
    outbox = Outbox()
    outbox.take([alert()], START)
    assert [bool(due(outbox, "am", AM, second)) for second in (0, 59, 60, 100, 120)] == [True, False, True, False, True]
    outbox.take([alert(resolved=130)], START + 130 * SECOND)
    told = {second for second in range(130, 1200, 10) if due(outbox, "am", AM, second)}
    assert told == set(range(130, 1030, 60))


def test_an_end_is_not_told_once_more_after_the_next_beginning():
    outbox = Outbox()
    outbox.take([alert()], START)
    due(outbox, "am", AM, 0)
    outbox.take([alert(resolved=10)], START + 10 * SECOND)
    assert due(outbox, "am", AM, 10) == [("resolved", 0)]
    outbox.take([alert(20)], START + 20 * SECOND)
    assert due(outbox, "am", AM, 80) == [("firing", 20)]


def test_who_was_not_there_is_told_everything_in_the_order_in_which_it_happened():
    outbox = Outbox()
    outbox.take([alert(resolved=10)], START + 10 * SECOND)
    outbox.take([alert(20), alert(15, scope=Scope("b"))], START + 20 * SECOND)
    assert due(outbox, "hook", Habit(), 30) == [("resolved", 0), ("firing", 15), ("firing", 20)]


def test_what_nobody_evaluates_any_more_has_ended():
    outbox = Outbox()
    outbox.take([alert()], START)
    outbox.take([], START + 5 * SECOND)
    (ended,) = outbox.alerts.values()
    assert (ended.state, ended.resolved_at) == ("resolved", START + 5 * SECOND)
    assert "Nobody evaluates it any more." in ended.summary


def test_an_end_is_forgotten_when_all_have_heard_of_it_or_after_a_week():
    outbox, habits = Outbox(), {"hook": Habit(), "am": AM}
    outbox.take([alert(resolved=10)], START + 10 * SECOND)
    due(outbox, "am", AM, 10)
    outbox.forget(habits, START + 2000 * SECOND)
    assert outbox.alerts
    due(outbox, "hook", Habit(), 20)
    outbox.forget(habits, START + 20 * SECOND)
    assert outbox.alerts, "Alertmanager is told for a while"
    outbox.forget(habits, START + 910 * SECOND)
    assert not outbox.alerts
    assert outbox.said == {"hook": {}, "am": {}}
    outbox.take([alert(resolved=10)], START + 10 * SECOND)
    outbox.forget(habits, START + 10 * SECOND + KEPT_US)
    assert not outbox.alerts


def test_a_receiver_that_is_gone_keeps_nothing():
    outbox = Outbox()
    outbox.take([alert(resolved=10)], START + 10 * SECOND)
    due(outbox, "old", Habit(), 10)
    outbox.forget({}, START + 10 * SECOND)
    assert (outbox.alerts, outbox.said) == ({}, {})


def test_it_is_the_same_after_it_was_written_down():
    outbox = Outbox()
    outbox.take([alert(contributors=(("policy 7", 0.5),), cause="ü"), alert(scope=Scope("b'"), resolved=9)], START)
    due(outbox, "hook", Habit(), 10)
    read, state = parts_of(text_of(outbox, "state"))
    assert (read, state) == (outbox, "state")


def test_occurrences_have_ids_of_their_own():
    scopes = [Scope("a", "b"), Scope("ab"), Scope("", "ab"), Scope("a/b"), Scope("a", workflow="b")]
    ids = {occurrence(alert(fired, scope=scope)).id for fired, scope in product((0, 1), scopes)}
    assert len(ids) == 10
    assert occurrence(alert(resolved=7, value=0.9)).id == occurrence(alert()).id
    with pytest.raises(ValueError, match="has not fired"):
        occurrence(alert(fired_at=None, state="pending"))


def test_labels_are_the_same_while_values_move():
    labelled = rule(labels=(("team", "x"),))
    one, other = posted(alert(), labelled, START), posted(alert(value=0.9, cause="c"), labelled, START + 1)
    assert one.labels == other.labels
    assert one.labels == {
        "alertname": "refusal_rate", "severity": "page", "owner": "policy", "team": "x", **AGENT._asdict(),
    }  # fmt: skip
    assert (one.annotations["value"], other.annotations["value"]) == ("0.5", "0.9")
    assert posted(alert(resolved=9), None, START + 99 * SECOND).ends_at == START + 9 * SECOND


@pytest.mark.parametrize("given", [alert(), alert(resolved=9, cause="ü", contributors=(("policy 7", 0.5),))])
def test_a_message_is_a_record_of_the_contract(given):
    read = ExitAlert.model_validate_json(encoded(given, START), context={"as_text": True})
    assert read.model_dump() == message(given, START) | {
        "since": given.since, "fired_at": given.fired_at, "resolved_at": given.resolved_at, "at": START,
    }  # fmt: skip


class Sent:
    def __init__(self):
        self.sent = []

    def send(self, what):
        self.sent += what


def test_alertmanager_is_told_an_end_that_outlives_three_postings():
    kept = Sent()
    channel = ToAlertmanager(kept, {"refusal_rate": REFUSALS}, 60 * SECOND)
    channel.send([alert(), alert(resolved=5)], START + 10 * SECOND)
    going, ended = kept.sent
    assert going.ends_at - (START + 10 * SECOND) >= 3 * channel.habit.repeat_us
    assert (going.starts_at, ended.ends_at) == (START, START + 5 * SECOND)
    assert channel.habit == AM


def test_a_webhook_is_told_messages():
    kept = Sent()
    ToWebhook(kept, 3600 * SECOND).send([alert()], START)
    assert kept.sent == [message(alert(), START)]


def test_key_is_the_identity():
    assert key_of(alert(scope=Scope("ü", "a", "", "q"))) == "refusal_rate/ü/a//q".encode()
    assert key_of(alert()) == key_of(alert(100))
    assert json.loads(encoded(alert(), START))["rule"] == "refusal_rate"


def test_the_topic_gets_a_message_for_each():
    cluster = FakeCluster()
    cluster.create(NewTopic("exit-alerts", 1, 1))
    ToTopic(cluster.client().producer(), "exit-alerts", 3600 * SECOND, 5.0).send([alert(), alert(resolved=9)], START)
    assert [(each.key, json.loads(each.value)["state"]) for each in cluster.messages("exit-alerts")] == [
        (key_of(alert()), "firing"),
        (key_of(alert()), "resolved"),
    ]


def test_lag_is_what_is_not_committed_of_all_topics():
    cluster = FakeCluster()
    client = cluster.client()
    cluster.create(NewTopic("a", 2, 1))
    cluster.create(NewTopic("b", 1, 1))
    for topic, partition, n in (("a", 0, 5), ("a", 1, 2), ("b", 0, 3)):
        for _ in range(n):
            cluster.append(Outgoing(topic, None, b"x", partition=partition))
    lag = Lag(client, "group", ["a", "b", "missing"])
    assert lag() == 10
    consumer = client.consumer(Subscription("group", ("a",)), Quiet())
    consumer.poll(0.0, 1)
    consumer.commit({TopicPartition("a", 0): 4})
    assert lag() == 6


def test_lag_is_unknown_while_the_broker_does_not_answer():
    cluster = FakeCluster()
    cluster.create(NewTopic("a", 1, 1))
    lag = Lag(cluster.client(), "group", ["a"])
    cluster.down = True
    assert lag() is None
    cluster.down = False
    assert lag() == 0


class Quiet:
    def on_assigned(self, consumer, partitions):
        for partition in partitions:
            consumer.seek(partition, 0)

    def on_revoked(self, consumer, partitions):
        pass
