"""What ``offramp doctor`` finds: each fault planted, found at its place, with what to do."""

import json
import os

import pytest

from offramp import streaming
from offramp.config import resolve
from offramp.doctor import Level, Patient, examine, fingerprint
from offramp.errors import CHECK_FAILED, COULD_NOT_CHECK, OK
from offramp.session import Session
from sinks.double import start_double
from sinks.rows import TableRow, encode_tables
from streams.clock import FixedClock, SystemClock
from streams.kafka.errors import BrokerRejected, BrokerUnavailable, Rejection
from streams.kafka.fake import FakeCluster
from streams.kafka.seam import NewTopic, Outgoing, Subscription
from streams.topics import Sizing, Topics
from tests.offramp.kit import run, run_alone
from tests.registry.double import SchemaRegistryDouble

SIZING = Sizing(partitions=1, replication_factor=1)
TOPICS = Topics.planned(SIZING)
EVENTS, REDRIVE = TOPICS.terminal_events.name, TOPICS.redrive.name


class Listening:
    """Reads from the beginning."""

    def on_assigned(self, consumer, partitions):
        for partition in partitions:
            consumer.seek(partition, 0)

    def on_revoked(self, consumer, partitions):
        pass

    on_lost = on_revoked


@pytest.fixture
def cluster(monkeypatch):
    cluster = FakeCluster(SystemClock())
    for topic in TOPICS:
        cluster.create(NewTopic(topic.name, topic.partitions, 1, dict(topic.settings)))
    monkeypatch.setattr(streaming, "client", lambda settings: cluster.client())
    return cluster


def examined(clock=None, environment=None, **flags):
    given = {
        "kafka": {"servers": ["broker:9092"]}, "topics": {"partitions": 1, "replication_factor": 1},
        "redaction": {"key": "a key of the tests, long enough"}, **flags,
    }  # fmt: skip
    session = Session(resolve(None, {}, given), clock or SystemClock())
    return examine(Patient(session, environment or {}))


def found(report, level=None):
    """Findings as (part, place) to what is said."""
    return {
        (part.part, finding.place): f"{finding.reason}; {finding.remedy}"
        for part in report.parts
        for finding in part.findings
        if level in {None, finding.level}
    }


def facts(report, part):
    return "\n".join(fact for each in report.parts if each.part == part for fact in each.facts)


def test_a_deployment_as_planned_has_nothing_wrong(cluster, tmp_path):
    report = examined(store={"path": tmp_path / "store"})
    assert (found(report), report.exit_status) == ({}, OK)
    assert [part.level for part in report.parts] == ["ok"] * len(report.parts)
    assert facts(report, "topics") == f"{len(list(TOPICS))} of {len(list(TOPICS))} as planned"
    assert not (tmp_path / "store").exists()


# Configuration


def test_files_that_cannot_be_read_are_said_with_their_setting(cluster, tmp_path):
    report = examined(store={"ca": tmp_path / "ca.pem"}, registry={"ca": tmp_path / "r.pem"})
    assert "No such file" in found(report, Level.WRONG)["configuration", "store.ca"]
    assert ("configuration", "registry.ca") in found(report, Level.WRONG)
    assert report.exit_status == CHECK_FAILED


@pytest.mark.parametrize(("mode", "advised"), [(0o600, False), (0o640, False), (0o644, True)])
def test_a_secret_that_everybody_may_read_is_advised_against(cluster, tmp_path, mode, advised):
    secret = tmp_path / "password"
    secret.write_text("x")
    secret.chmod(mode)
    report = examined(environment={"OFFRAMP_KAFKA__PASSWORD_FILE": str(secret), "OTHER_FILE": "/nowhere"})
    assert (("configuration", "OFFRAMP_KAFKA__PASSWORD_FILE") in found(report, Level.ADVICE)) == advised
    assert report.exit_status == OK


def test_a_private_key_is_a_secret_and_a_certificate_is_not(cluster, tmp_path):
    for name in ("key", "certificate"):
        (tmp_path / name).write_text("x")
        (tmp_path / name).chmod(0o644)
    report = examined(kafka={"servers": ["b:1"], "key": tmp_path / "key", "certificate": tmp_path / "certificate"})
    assert found(report, Level.ADVICE).keys() == {("configuration", "kafka.key")}


def test_a_table_and_paths_that_cannot_be_used_are_wrong(cluster, tmp_path):
    report = examined(
        classify={"table": tmp_path / "no.toml"},
        redaction={"paths": ["request.nonsense"], "key": "a key of the tests, long enough"},
    )
    assert found(report, Level.WRONG).keys() == {
        ("configuration", "classify.table"),
        ("configuration", "redaction.paths"),
    }


def test_workers_need_one_redaction_key(cluster):
    report = examined(redaction={})
    assert "OFFRAMP_REDACTION__KEY_FILE" in found(report, Level.ADVICE)["configuration", "redaction.key"]
    key = "a key of the tests, long enough"
    assert f"redaction key {fingerprint(key)}," in facts(examined(), "configuration")
    assert fingerprint(key) != fingerprint(f"{key}!")
    assert key not in json.dumps(examined().as_json())


def test_nothing_is_written_to_the_home_of_whoever_asks(tmp_path):
    done = run_alone("doctor", HOME=str(tmp_path), OFFRAMP_STORE__PATH=str(tmp_path / "store"))
    assert done.status == 0, done.text
    assert list(tmp_path.iterdir()) == []


def test_settings_that_cannot_be_are_a_finding():
    done = run_alone("doctor", "--format", "json", OFFRAMP_STORE__PTAH="x")
    (part,) = json.loads(done.out)["parts"]
    assert (done.status, part["level"], part["part"]) == (1, "wrong", "configuration")
    assert "store.ptah: no such setting" in part["findings"][0]["reason"]


# Broker


def test_topics_that_are_missing_or_otherwise_are_wrong(cluster):
    report = examined(topics={"partitions": 2, "replication_factor": 1, "prefix": ""})
    assert "partitions is 1, planned 2" in found(report, Level.WRONG)["topics", EVENTS]
    report = examined(topics={"prefix": "other.", "replication_factor": 1})
    assert found(report, Level.WRONG)["topics", f"other.{EVENTS}"] == "there is no such topic; run `offramp init`"


def test_a_broker_out_of_reach_is_unchecked_and_one_that_refuses_is_wrong(cluster, monkeypatch):
    cluster.inject("admin", BrokerUnavailable("nobody answers"), times=100)
    report = examined()
    assert found(report, Level.UNCHECKED).keys() >= {("topics", "topics"), ("groups", "groups")}
    assert report.exit_status == COULD_NOT_CHECK
    refusing = FakeCluster()
    refusing.inject("admin", BrokerRejected(Rejection.AUTHENTICATION, "wrong password"), times=100)
    monkeypatch.setattr(streaming, "client", lambda settings: refusing.client())
    report = examined()
    assert "wrong password" in found(report, Level.WRONG)["topics", "topics"]
    assert report.exit_status == CHECK_FAILED


def test_another_program_in_our_group_is_wrong(cluster):
    cluster.create(NewTopic("orders", 1, 1))
    cluster.client().consumer(Subscription("offramp-classify", ("orders",)), Listening()).poll(0, 1)
    said = found(examined(), Level.WRONG)["groups", "kafka.classify_group"]
    assert "reads orders, so it is another program" in said


def test_who_reads_beside_us_is_said_and_is_as_it_should_be(cluster):
    cluster.client().consumer(Subscription("legacy", (EVENTS,)), Listening()).poll(0, 1)
    report = examined()
    assert f"beside us, group legacy has members that read it: {EVENTS}" in facts(report, "groups")
    assert not found(report, Level.WRONG)


def test_nobody_but_us_may_read_what_is_redriven(cluster):
    cluster.client().consumer(Subscription("legacy", (REDRIVE,)), Listening()).poll(0, 1)
    assert "group legacy has members" in found(examined(), Level.WRONG)["groups", REDRIVE]


def test_a_broker_that_is_ahead_of_our_clock_is_found_by_what_it_stamps(cluster):
    now = SystemClock().now_micros()
    cluster.append(Outgoing(EVENTS, b"k", b"{}", timestamp_us=now))
    assert "no message is stamped ahead" in facts(examined(FixedClock(now)), "clock of the broker")
    assert "no message is stamped ahead" in facts(examined(FixedClock(now - 4_000_000)), "clock of the broker")
    report = examined(FixedClock(now - 27 * 3_600_000_000))
    said = found(report, Level.WRONG)["clock of the broker", "clock"]
    assert "ahead of our clock" in said


def test_empty_topics_tell_no_time(cluster):
    assert facts(examined(), "clock of the broker") == "nothing in the topics tells the broker's time"


# Registry


def test_a_registry_is_looked_at(cluster):
    with SchemaRegistryDouble().running() as registry:
        report = examined(registry={"url": registry.url})
        assert ("registry", f"{EVENTS}-value") in found(report, Level.WRONG)
        registry.status = 503
        report = examined(registry={"url": registry.url})
    assert ("registry", "registry") in found(report, Level.UNCHECKED)


# Store


def test_a_server_is_looked_at_by_its_own_checks(cluster, tmp_path):
    with start_double(tmp_path / "store") as double:
        report = examined(store={"url": double.url})
        assert "run `offramp init`" in found(report, Level.WRONG)["store", "tables_missing"]
        with Session(resolve(None, {}, {"store": {"url": double.url}}), SystemClock()).store("tests") as store:
            report = examined(store={"url": double.url})
            assert not found(report, Level.WRONG)
            rows = [TableRow("digest", "0.0.1", "default", "0", "", 1)]
            store.insert("active_tables", encode_tables(rows))
            report = examined(store={"url": double.url})
    assert "offramp rebuild" in found(report, Level.ADVICE)["store", "classify"]
    report = examined(store={"url": double.url})
    assert ("store", "store.url") in found(report, Level.UNCHECKED)


def test_an_embedded_store_that_lacks_migrations_is_wrong(cluster, monkeypatch):
    monkeypatch.setattr(Session, "may_have_store", True)
    monkeypatch.setattr(Session, "pending_migrations", lambda self, verb: ["0009_more.sql"])
    assert found(examined())["store", "store.path"] == "not applied: 0009_more.sql; run `offramp init`"


def test_an_embedded_store_that_somebody_owns_is_unchecked(tmp_path):
    store = tmp_path / "store"
    assert run("init", "--store", store).status == 0
    assert run("doctor", "--store", store).status == 0
    with Session(resolve(None, {}, {"store": {"path": store}}), SystemClock()).store("tests"):
        done = run("doctor", "--store", store, "--lock-timeout", "0")
    assert done.status == 3
    assert "is in use by" in " ".join(done.text.split())
    assert "; look again when that has ended" in " ".join(done.text.split())


def test_it_is_a_verb(tmp_path):
    done = run("doctor", "--store", tmp_path / "store")
    assert (done.status, done.err) == (0, "")
    assert "ok        store" in done.text
    assert os.linesep in done.text


# A real broker that asks who is there


def secured(broker, password):
    return {
        "OFFRAMP_KAFKA__SERVERS": broker.address("SASL_SSL"), "OFFRAMP_KAFKA__PROTOCOL": "SASL_SSL",
        "OFFRAMP_KAFKA__USERNAME": "admin", "OFFRAMP_KAFKA__PASSWORD": password, "OFFRAMP_KAFKA__TIMEOUT_S": "10",
        "OFFRAMP_KAFKA__CA": str(broker.certificates.authority),
    }  # fmt: skip


def test_a_password_that_is_not_taken_is_found_and_is_not_said(secured_broker, tmp_path):
    environment = secured(secured_broker, "not the password")
    done = run_alone("doctor", "--format", "json", "--store", tmp_path / "store", **environment)
    parts = {part["part"]: part for part in json.loads(done.out)["parts"]}
    # A client that is hung up on cannot tell for sure, and says so.
    assert (done.status, parts["topics"]["level"]) in {(1, "wrong"), (3, "unchecked")}
    assert "refuses" in parts["topics"]["findings"][0]["reason"]
    assert "not the password" not in done.text


def test_a_broker_that_lets_us_in_is_looked_at(secured_broker, tmp_path):
    environment = secured(secured_broker, secured_broker.passwords["admin"])
    done = run_alone("doctor", "--format", "json", "--store", tmp_path / "store", **environment)
    assert done.out, done.err
    parts = {part["part"]: part for part in json.loads(done.out)["parts"]}
    assert {finding["reason"] for finding in parts["topics"]["findings"]} == {"there is no such topic"}
    assert parts["groups"]["level"] == "ok"
