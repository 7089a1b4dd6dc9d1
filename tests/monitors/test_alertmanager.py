"""What arrives at a webhook behind a real Alertmanager, whatever happens on the way."""

import pytest

from alerts.model import Scope
from sinks.alertmanager import Alertmanager
from sinks.posting import DeliveryUnavailable, Poster, Receiver
from streams.alert_channels import ToAlertmanager
from streams.clock import SystemClock
from streams.outbox import Outbox
from tests.alerts.rule import AGENT, REFUSALS
from tests.monitors.alertmanager import AlertmanagerProcess, eventually
from tests.sinks.receiver import receiving
from tests.streams.alerting.test_outbox import alert

SECOND = 1_000_000
now = SystemClock().now_micros


@pytest.fixture
def told():
    with receiving() as state:
        yield state


@pytest.fixture
def started(tmp_path, told):
    process = AlertmanagerProcess(tmp_path, told.url)
    process.start()
    yield process
    process.end()


class Evaluating:
    """Somebody who tells Alertmanager what stands."""

    def __init__(self, process):
        self.outbox = Outbox()
        self.channel = ToAlertmanager(
            Alertmanager(Poster(Receiver(process.url, timeout_s=5))), {"refusal_rate": REFUSALS}, 60 * SECOND
        )

    def tell(self, *alerts):
        at = now()
        self.outbox.take(alerts, at)
        due = self.outbox.due("am", self.channel.habit, at)
        self.channel.send(due, at)
        self.outbox.note("am", due, at)


def firing(scope=AGENT, at=None, **fields):
    return alert(scope=scope, since=at or now(), fired_at=at or now(), **fields)


def ended(of):
    return of._replace(state="resolved", resolved_at=now())


def seen(told):
    """What the webhook was told: states by fingerprint and start, each in the order in which it came, repeats once."""
    states = {}
    for _, _, value in told.posts:
        for each in value["alerts"]:
            known = states.setdefault((each["fingerprint"], each["startsAt"]), [])
            if known[-1:] != [each["status"]]:
                known.append(each["status"])
    return states


def last(told):
    """The state in which each alert was told last, by agent."""
    return {each["labels"].get("agent_id"): each["status"] for _, _, v in told.posts for each in v["alerts"]}


def all_told(told, *states):
    eventually(lambda: sorted(seen(told).values()) == sorted(map(list, states)), lambda: seen(told))


def test_a_page_arrives_once_with_its_owner_and_its_end_is_announced(started, told):
    evaluating, begun = Evaluating(started), firing(cause="policy 7", value=0.5)
    evaluating.tell(begun)
    all_told(told, ["firing"])
    for value in (0.6, 0.7, 0.8):
        evaluating.outbox.said.clear()
        evaluating.tell(begun._replace(value=value))
    evaluating.tell(ended(begun))
    all_told(told, ["firing", "resolved"])
    (page,) = told.posts[0][2]["alerts"]
    assert page["labels"] == {
        "alertname": "refusal_rate", "agent_id": "refunds", "tenant": "acme", "severity": "page", "owner": "policy",
    }  # fmt: skip
    assert page["annotations"]["cause"] == "policy 7"
    assert page["annotations"]["runbook"] == "docs/runbooks/refusal_rate.md"


def test_two_evaluators_page_once(started, told):
    one, other = Evaluating(started), Evaluating(started)
    begun = firing()
    begun_by_other = begun._replace(since=begun.since + 1000, fired_at=begun.fired_at + 1000)
    one.tell(begun)
    other.tell(begun_by_other)
    eventually(lambda: last(told) == {"refunds": "firing"}, lambda: told.posts)
    one.tell(ended(begun), firing(Scope("acme", "claims")))
    other.tell(ended(begun_by_other), firing(Scope("acme", "claims")))
    eventually(lambda: last(told) == {"claims": "firing", "refunds": "resolved"}, lambda: told.posts)
    assert sorted(states[0] for states in seen(told).values()) == ["firing", "firing"]


def test_fire_resolve_fire_inside_a_group_interval_ends_in_the_true_state(tmp_path, told):
    process = AlertmanagerProcess(tmp_path, told.url, group_interval="2s")
    process.start()
    try:
        evaluating, begun = Evaluating(process), firing()
        evaluating.tell(begun)
        eventually(lambda: last(told) == {"refunds": "firing"}, lambda: told.posts)
        evaluating.tell(ended(begun))
        again = firing()
        evaluating.tell(again)
        marker = firing(Scope("acme", "claims"))
        evaluating.tell(again, marker)
        eventually(lambda: last(told).get("claims") == "firing", lambda: told.posts)
        assert last(told)["refunds"] == "firing"
        evaluating.tell(ended(again), ended(marker))
        eventually(lambda: set(last(told).values()) == {"resolved"}, lambda: told.posts)
    finally:
        process.end()


def test_an_end_while_alertmanager_is_away_is_told_when_it_is_back(started, told):
    evaluating, begun = Evaluating(started), firing()
    evaluating.tell(begun)
    all_told(told, ["firing"])
    started.end()
    with pytest.raises(DeliveryUnavailable):
        evaluating.tell(ended(begun))
    started.start()
    evaluating.tell()
    all_told(told, ["firing", "resolved"])


def test_what_stands_while_alertmanager_begins_anew_pages_no_second_time(started, told):
    evaluating, begun = Evaluating(started), firing()
    evaluating.tell(begun)
    all_told(told, ["firing"])
    started.end()
    started.start()
    evaluating.outbox.said.clear()
    evaluating.tell(begun, firing(Scope("acme", "claims")))
    eventually(lambda: last(told) == {"refunds": "firing", "claims": "firing"}, lambda: told.posts)
    assert len(seen(told)) == 2


def test_a_receiver_that_refuses_for_a_while_is_told_in_the_end(started, told):
    told.answers = [500, 503]
    evaluating = Evaluating(started)
    evaluating.tell(firing())
    eventually(lambda: len(told.posts) >= 3, lambda: told.posts)
    assert last(told) == {"refunds": "firing"}


def test_labels_of_any_text_are_taken(started, told):
    tenants = ["über'\\s", '"quoted"', "a\nb", "日本語", "{}", "x" * 256]
    Evaluating(started).tell(*(firing(Scope(tenant, tenant)) for tenant in tenants))
    eventually(lambda: set(last(told)) == set(tenants), lambda: told.posts)
