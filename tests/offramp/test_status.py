"""What ``offramp status`` says of broker and store, alone and together, and what its exit status means."""

import json
from contextlib import closing

import pytest

from alerts.model import Alert, Scope
from offramp import streaming
from offramp.alert_listing import STALE_US
from offramp.config import resolve
from offramp.errors import CHECK_FAILED, COULD_NOT_CHECK, OK
from offramp.session import Session
from offramp.status import Status, age
from sinks.alerts import AlertsStore
from sinks.double import start_double
from sinks.rows import DeadLetterRow, EvaluationRow, LedgerRow, encode_dead_letters, encode_ledger
from streams.alert_inputs import row_of
from streams.clock import FixedClock
from streams.kafka.errors import BrokerUnavailable
from streams.kafka.fake import FakeCluster
from streams.kafka.seam import NewTopic, Outgoing, Subscription
from streams.topics import Sizing, Topics
from tests.offramp.kit import events, run, write_lines

NOW = 1_800_000_000_000_000
HOUR = 3_600_000_000
SIZING = Sizing(prefix="p.", partitions=2, replication_factor=1)
INPUTS = [topic.name for topic in Topics.planned(SIZING).inputs]
EVENTS = INPUTS[0]

START_IT = "; start it, or correct kafka.servers"


@pytest.fixture
def cluster(monkeypatch):
    cluster = FakeCluster()
    monkeypatch.setattr(streaming, "client", lambda settings: cluster.client())
    return cluster


@pytest.fixture(scope="module")
def double(tmp_path_factory):
    with start_double(tmp_path_factory.mktemp("store")) as double:
        with session(double).store("tests"):
            pass
        yield double


def session(double, url=None):
    flags = {
        "kafka": {"servers": ["broker:9092"]},
        "topics": {"prefix": "p.", "partitions": 2, "replication_factor": 1},
        "store": {"url": url or double.url},
    }
    return Session(resolve(None, {}, flags), FixedClock(NOW))


def make_topics(cluster):
    for topic in Topics.planned(SIZING):
        cluster.create(NewTopic(topic.name, topic.partitions, 1, dict(topic.settings)))


def asked(double, **more):
    status = Status(session(double), **more)
    status.ask()
    return status


def test_what_is_unread_is_lag_by_topic_in_the_order_of_the_plan(cluster, double):
    make_topics(cluster)
    for number in range(5):
        cluster.append(Outgoing(EVENTS, str(number).encode(), b"{}", partition=number % 2))
    status = asked(double)
    assert [topic.name for topic in status.topics] == INPUTS
    assert {topic.name: topic.lag for topic in status.topics} == {**dict.fromkeys(INPUTS, 0), EVENTS: 5}
    assert {topic.partitions for topic in status.topics} == {2}
    assert (status.unaccounted, status.unchecked, status.exit_status) == (0, {}, OK)


def test_who_is_at_work_is_said(cluster, double):
    make_topics(cluster)
    consumer = cluster.client().consumer(Subscription("offramp-classify", (EVENTS,)), Listening())
    consumer.poll(0, 1)
    status = asked(double)
    assert {group.name: group.members for group in status.groups} == {"offramp-classify": 1, "offramp-lifecycle": 0}
    assert "group        offramp-lifecycle: 0 at work, not there" in list(status.lines())


class Listening:
    """Reads from the beginning."""

    def on_assigned(self, consumer, partitions):
        for partition in partitions:
            consumer.seek(partition, 0)

    def on_revoked(self, consumer, partitions):
        pass

    on_lost = on_revoked


def test_a_missing_topic_is_a_failure(cluster, double):
    status = asked(double)
    assert status.missing_topics == INPUTS
    assert status.exit_status == CHECK_FAILED
    assert any("missing; run `init`" in line for line in status.lines())


def test_a_broker_out_of_reach_hides_nothing_of_the_store(cluster, double):
    cluster.inject("admin", BrokerUnavailable("no broker answers"))
    status = asked(double)
    assert status.unchecked == {
        "broker": "the broker cannot be asked: no broker answers; start it, or correct kafka.servers"
    }
    assert status.store is not None
    assert (status.unaccounted, status.exit_status) == (0, COULD_NOT_CHECK)


def test_a_broker_that_goes_in_the_middle_leaves_the_audit_unchecked_alone(cluster, double):
    make_topics(cluster)
    cluster.inject("offsets", BrokerUnavailable("gone"))
    status = asked(double)
    assert status.unchecked == {"audit": f"the broker cannot be asked: gone{START_IT}"}
    assert {topic.lag for topic in status.topics} == {None}
    assert status.store is not None
    assert status.exit_status == COULD_NOT_CHECK


@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
def test_a_broker_that_has_never_seen_a_group_is_no_broker_out_of_reach(own_broker, double, client):
    broker = own_broker()
    flags = {"kafka": {"servers": [broker.bootstrap], "client": client, "timeout_s": 5}}
    settings = resolve(None, {}, session(double).settings.model_dump(exclude_unset=True) | flags)
    with closing(streaming.client(settings.kafka).admin()) as admin:
        admin.create_topics([NewTopic(each.name, each.partitions, 1) for each in Topics.planned(SIZING).inputs])
    status = Status(Session(settings, FixedClock(NOW)))
    status.ask()
    assert (status.unchecked, status.exit_status) == ({}, OK)
    assert {topic.lag for topic in status.topics} == {0}


def test_a_store_out_of_reach_hides_nothing_of_the_broker(cluster, double):
    make_topics(cluster)
    status = Status(session(double, url="http://127.0.0.1:1"))
    status.ask()
    assert status.unchecked.keys() == {"store"}
    assert [topic.partitions for topic in status.topics] == [2] * len(INPUTS)
    assert status.exit_status == COULD_NOT_CHECK


def test_without_the_audit_there_is_no_lag_and_nothing_is_held_to_be_accounted_for(cluster, double):
    make_topics(cluster)
    status = asked(double, audits=False)
    assert (status.unaccounted, status.exit_status) == (None, OK)
    assert not any(line.startswith("unaccounted") for line in status.lines())


def test_it_fits_a_screen_of_80_columns(cluster, double, monkeypatch):
    make_topics(cluster)
    lines = list(asked(double).lines())
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 24


def letter(offset, ago, reason="bad_json"):
    return DeadLetterRow(
        "p.x", "0", offset, None, b"x", {}, reason, "", "", masked=False, tries=1, replay_count=0, recorded_at=NOW - ago
    )


def test_dead_letters_are_those_of_the_last_hour_and_day_by_reason(cluster, tmp_path):
    letters = [letter(0, 0), letter(1, HOUR - 1), letter(2, HOUR + 1, "bad_avro"), letter(3, 25 * HOUR)]
    with start_double(tmp_path) as double:
        with session(double).store("tests") as store:
            store.insert("dead_letters", encode_dead_letters(letters))
        status = asked(double)
    assert status.store.dead_letters == {"bad_json": (2, 2), "bad_avro": (0, 1)}
    lines = "\n".join(status.lines())
    assert "dead letters 2 in the last hour, 3 in the last day" in lines
    # No ledger row knows of them.
    assert status.unaccounted > 0
    assert status.exit_status == CHECK_FAILED


def test_a_message_that_the_ledger_lacks_is_unaccounted(cluster, tmp_path):
    make_topics(cluster)
    for _ in range(4):
        cluster.append(Outgoing(EVENTS, b"k", b"{}", partition=0))
    rows = [LedgerRow(EVENTS, "0", n, n + 1, "", "", "", "", "filtered", NOW) for n in (0, 1, 3)]
    with start_double(tmp_path) as double:
        with session(double).store("tests") as store:
            store.insert("ingest_ledger", encode_ledger(rows))
        status = asked(double)
    assert (status.unaccounted, status.exit_status) == (1, CHECK_FAILED)
    assert status.store.ledger["read"] == status.store.ledger["filtered"] == 3
    assert "unaccounted  1; `offramp audit` says where" in list(status.lines())


def alert(rule, severity="page", state="firing", ago=HOUR, scope=Scope("acme", "refunds")):  # noqa: B008 -- a tuple
    resolved_at = NOW - 1 if state == "resolved" else None
    return Alert(rule, scope, state, NOW - 2 * ago, NOW - ago, resolved_at, 0.6, 0.2, severity, "o", "r", "", (), "s")


def judged(double, alerts, ago):
    with session(double).store("tests") as opened:
        store = AlertsStore(opened)
        store.write_alerts([row_of(each, "d", NOW) for each in alerts])
        store.write_evaluation(EvaluationRow("lifecycle", "h", "d", NOW - ago, "{}", NOW - ago))


def alert_lines(status):
    lines = list(status.lines())
    begin = next(number for number, line in enumerate(lines) if line.startswith("alerts"))
    return [line for line in lines[begin:] if line.startswith(("alerts", "  "))]


def test_what_fires_is_shown_pages_first(cluster, tmp_path):
    alerts = [
        alert("slow", "ticket", ago=3 * HOUR),
        alert("gone", state="resolved"),
        alert("refused", scope=Scope("a" * 70)),
    ]
    with start_double(tmp_path) as double:
        judged(double, alerts, ago=40_000_000)
        status = asked(double)
    assert alert_lines(status) == [
        "alerts       1 page and 1 ticket firing; judged 40 s ago",
        f"  page    refused: tenant {'a' * 41}…  60 min ago",
        "  ticket  slow: tenant acme, agent_id refunds                            3 h ago",
        "  `offramp alerts list` says why",
    ]
    assert max(map(len, status.lines())) <= 80
    shown = status.as_json()["store"]["alerts"]
    assert [each["rule"] for each in shown["firing"]] == ["refused", "slow"]
    assert shown["firing"][1]["scope"]["agent_id"] == "refunds"
    assert (shown["is_stale"], status.exit_status) == (False, CHECK_FAILED)  # no topic is there


def test_of_many_that_fire_the_rest_is_counted(cluster, tmp_path):
    with start_double(tmp_path) as double:
        judged(double, [alert(f"rule {n}") for n in range(5)], ago=STALE_US)
        lines = alert_lines(asked(double))
    assert len(lines) == 5
    assert lines[0] == "alerts       5 pages and 0 tickets firing; judged 10 min ago"
    assert lines[-1] == "  and 2 more; `offramp alerts list` says why"


def test_an_old_judgement_says_nothing_of_now(cluster, tmp_path):
    with start_double(tmp_path) as double:
        judged(double, [], ago=STALE_US + 1)
        status = asked(double)
    assert alert_lines(status) == ["alerts       none fires; judged 10 min ago, so what fires now is not known"]
    assert status.as_json()["store"]["alerts"]["is_stale"] is True


def test_that_nobody_judges_is_said(cluster, double):
    status = asked(double)
    assert alert_lines(status) == ["alerts       none fires; nobody judges them; `offramp run lifecycle` does"]
    assert status.as_json()["store"]["alerts"] == {"judged_at": None, "is_stale": True, "firing": []}


def test_it_is_a_verb_over_an_embedded_store(tmp_path):
    store = tmp_path / "store"
    run("classify", write_lines(tmp_path / "runs.jsonl", [*events()[:5], "{"]), "--store", store)
    done = run("status", "--store", store)
    assert (done.status, done.err) == (0, "")
    assert "broker       none is configured" in done.text
    assert "unaccounted  0" in done.text
    found = json.loads(run("status", "--store", store, "--format", "json").out)
    assert found["store"]["ledger"]["read"] == 6
    assert found["store"]["dead_letters"] == {"bad_json": {"hour": 1, "day": 1}}
    assert found["store"]["newest_event_age_s"] > 0


def test_without_a_store_it_could_not_check(tmp_path):
    done = run("status", "--store", tmp_path / "none")
    assert done.status == 3
    assert "not checked  store: there is no store at" in done.text
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("micros", "said"),
    [(0, "0 s ago"), (119_000_000, "119 s ago"), (120_000_000, "2 min ago"), (3 * HOUR, "3 h ago"),
     (48 * HOUR, "2 d ago"), (-2 * HOUR, "2 h ahead of our clock")],
)  # fmt: skip
def test_ages_are_words(micros, said):
    assert age(micros) == said
