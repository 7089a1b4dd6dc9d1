"""What ``offramp publish`` sends, refuses and says: on the cluster in memory, and as a command on a real broker."""

import json
import re
import signal
import subprocess
import sys
import uuid

import pytest

from offramp import publishing, streaming
from offramp.config import resolve
from offramp.errors import CheckFailedError, ConfigurationError, CouldNotCheckError
from offramp.initialising import Initialising
from offramp.publishing import Order, Publishing
from offramp.session import Session
from schemas.contract import INCOMING
from schemas.wire import LocalSchemas, decode
from streams.clock import FixedClock
from streams.kafka.errors import BrokerUnavailable
from streams.kafka.fake import FakeCluster
from streams.kafka.kafka_python.client import KafkaPythonClient
from streams.kafka.seam import Connection, NewTopic, Subscription, TopicPartition
from streams.publish import ForeignGroup, Reading
from streams.registry import Registry, RegistryAccess
from streams.topics import Encoding, Topics
from tests.offramp.kit import ROOT, companion, events, run_alone, write_lines
from tests.offramp.kit import environment as kit_environment
from tests.registry.double import SchemaRegistryDouble

ONE_COPY = {"OFFRAMP_TOPICS__REPLICATION_FACTOR": "1", "OFFRAMP_TOPICS__PARTITIONS": "3"}


class Listener:
    """Starts at the beginning."""

    def on_assigned(self, consumer, partitions):
        for partition in partitions:
            consumer.seek(partition, 0)

    def on_revoked(self, consumer, partitions):
        pass

    def on_lost(self, consumer, partitions):
        pass


@pytest.fixture
def cluster(monkeypatch):
    cluster = FakeCluster()
    monkeypatch.setattr(streaming, "client", lambda settings: cluster.client())
    Initialising(session(), trial=True, dry_run=False).run()
    return cluster


@pytest.fixture
def double():
    with SchemaRegistryDouble().running() as registry:
        yield registry


@pytest.fixture
def file(tmp_path):
    """Three events, a line that is none, and a companion of each type."""
    companions = [companion(kind) for kind in INCOMING if kind != "terminal_event"]
    return str(write_lines(tmp_path / "records.jsonl", [*events()[:2], "{", events()[2], *companions]))


def session(**sections):
    flags = {"kafka": {"servers": ["broker:9092"]}, "topics": {"replication_factor": 1, "partitions": 3}, **sections}
    return Session(resolve(None, {}, flags), FixedClock())


def publish(spool, *files, topic=None, encoding=Encoding.SINGLE_OBJECT, dry_run=False, **sections):
    done = Publishing(session(**sections), Order(files, topic, encoding, None, dry_run))
    done.run(spool)
    return done


def read_from(cluster):
    """The records on the topics of the trial, in no order."""
    messages = [message for topic in Topics.planned() for message in cluster.messages(f"trial.{topic.name}")]
    return [decode(message.value, schemas=LocalSchemas.published()) for message in messages]


def join(cluster, group, topic="trial.terminal-events"):
    consumer = cluster.client().consumer(Subscription(group, (topic,)), Listener())
    consumer.poll(0, 1)
    return consumer


def test_each_record_goes_to_its_topic_and_a_bad_line_is_said_with_its_place(cluster, tmp_path, file):
    done = publish(tmp_path, file)
    assert done.counts.published == {
        ("trial.terminal-events", "terminal_event"): 3,
        ("trial.legacy-exits", "legacy_exit"): 1,
        ("trial.recovery-actions", "recovery_action"): 1,
        ("trial.review-events", "review_event"): 1,
        ("trial.enrichments", "enrichment"): 1,
    }
    assert len(read_from(cluster)) == 7
    assert (done.counts.read, done.counts.refused) == (8, {"bad_json": 1})
    assert done.as_json()["examples"][0]["place"] == f"{file}, line 3"


def test_a_dry_run_checks_everything_and_sends_nothing(cluster, tmp_path, file):
    done = publish(tmp_path, file, dry_run=True)
    assert done.counts.published.total() == 7
    assert read_from(cluster) == []
    join(cluster, "legacy-dispatcher")
    with pytest.raises(ConfigurationError, match="legacy-dispatcher"):
        publish(tmp_path, file, dry_run=True)


def test_one_topic_may_take_everything(cluster, tmp_path, file):
    cluster.create(NewTopic("try-out", 1, 1, {}))
    done = publish(tmp_path, file, topic="try-out")
    assert {topic for topic, _ in done.counts.published} == {"try-out"}
    assert len(cluster.messages("try-out")) == 7


# Never onto a topic that somebody else reads


def test_a_topic_with_a_foreign_active_group_is_refused_and_nothing_is_sent(cluster, tmp_path, file):
    join(cluster, "legacy-dispatcher", "trial.enrichments")
    said = (
        "trial.enrichments is not ours alone: group legacy-dispatcher has members that read it; nothing was published"
    )
    with pytest.raises(ConfigurationError, match=said):
        publish(tmp_path, file)
    assert read_from(cluster) == []


def test_a_topic_that_a_stopped_dispatcher_will_read_on_is_refused(cluster, tmp_path, file):
    consumer = join(cluster, "legacy-dispatcher")
    consumer.commit({TopicPartition("trial.terminal-events", 0): 0})
    consumer.close()
    with pytest.raises(ConfigurationError, match="reads on from there once it starts"):
        publish(tmp_path, file)


def test_our_own_groups_may_read(cluster, tmp_path, file):
    join(cluster, "offramp-classify")
    join(cluster, "offramp-lifecycle")
    assert publish(tmp_path, file).counts.published.total() == 7
    with pytest.raises(ConfigurationError, match="group offramp-classify"):
        publish(tmp_path, file, kafka={"servers": ["broker:9092"], "classify_group": "another"})


def test_a_foreign_group_that_joins_meanwhile_ends_it(cluster, tmp_path, monkeypatch):
    records = [{**event, "event_id": f"e-{number}"} for number in range(20) for event in events()[:50]]
    file = write_lines(tmp_path / "records.jsonl", records)
    done = Publishing(session(), Order([str(file)], None, Encoding.JSON, None, dry_run=False))
    clock, decode_chunk = done.session.clock, publishing.decode_chunk

    def decoded(chunk):
        for number, record in enumerate(decode_chunk(chunk)):
            if number == 100:
                join(cluster, "legacy-dispatcher")
            if number == 300:
                clock.advance(publishing.LOOK_AGAIN_S)
            yield record

    monkeypatch.setattr(publishing, "decode_chunk", decoded)
    with pytest.raises(CheckFailedError, match="group legacy-dispatcher has members that read it now"):
        done.run(tmp_path)
    assert len(cluster.messages("trial.terminal-events")) == done.counts.published.total() == 301


@pytest.fixture
def rebalancing(cluster, monkeypatch):
    """Makes a foreign group that cannot be looked into for so many looks; returns the waits between them."""
    waited = []
    monkeypatch.setattr(publishing, "sleep", waited.append)

    def begin(looks):
        answers = [[ForeignGroup("busy", "trial.enrichments", Reading.UNKNOWN)]] * looks
        monkeypatch.setattr(publishing, "foreign_groups", lambda *_: answers.pop() if answers else [])
        return waited

    return begin


def test_a_group_that_rebalances_is_waited_for(rebalancing, tmp_path, file):
    waited = rebalancing(2)
    assert publish(tmp_path, file).counts.published.total() == 7
    assert waited == [1, 1]


def test_a_group_that_rebalances_for_long_is_a_reader(rebalancing, tmp_path, file):
    waited = rebalancing(100)
    with pytest.raises(ConfigurationError, match=r"busy cannot be looked into, .*; try again"):
        publish(tmp_path, file)
    assert waited == [1] * publishing.LOOKS_WHILE_UNKNOWN


@pytest.mark.parametrize("topic", ["exit-classifications", "trial.terminal-events.dlq", "exit-alerts"])
def test_a_topic_that_carries_what_we_write_is_refused(cluster, tmp_path, file, topic):
    with pytest.raises(ConfigurationError, match=f"--topic: {topic} carries no records of producers"):
        publish(tmp_path, file, topic=topic)


# What has to be there


def test_a_topic_that_is_not_there_is_said_with_what_makes_it(cluster, tmp_path, file):
    with pytest.raises(ConfigurationError, match="there is no topic nowhere; create it first"):
        publish(tmp_path, file, topic="nowhere")
    with pytest.raises(ConfigurationError, match="there is no topic ; create it first"):
        publish(tmp_path, file, topic="")
    topics = {"trial_prefix": "other."}
    with pytest.raises(ConfigurationError, match=r"no topic other\.terminal-events; `offramp init --trial` makes it"):
        publish(tmp_path, file, topics=topics)


def test_an_outage_in_the_middle_keeps_what_was_confirmed(cluster, tmp_path, file):
    cluster.inject("acknowledge", BrokerUnavailable("gone"))
    done = Publishing(session(), Order([file], None, Encoding.JSON, None, dry_run=False))
    with pytest.raises(CouldNotCheckError, match="not confirmed within"):
        done.run(tmp_path)
    assert done.counts.published.total() == 6


def test_the_confluent_frame_carries_the_ids_that_init_registered(cluster, double, tmp_path, file):
    registry = {"url": double.url}
    with pytest.raises(
        ConfigurationError, match=r"terminal-event is not registered under trial\.terminal-events-value"
    ):
        publish(tmp_path, file, encoding=Encoding.CONFLUENT, registry=registry)
    Initialising(session(registry=registry), trial=True, dry_run=False).run()
    publish(tmp_path, file, encoding=Encoding.CONFLUENT, registry=registry)
    schemas = Registry(RegistryAccess(double.url), FixedClock())
    (message,) = cluster.messages("trial.enrichments")
    assert decode(message.value, schemas=schemas)["record_id"] == "enrichment-0"
    with pytest.raises(ConfigurationError, match="--encoding confluent needs a registry"):
        publish(tmp_path, file, encoding=Encoding.CONFLUENT)


@pytest.mark.parametrize("flags", [[], ["--trial", "--topic", "x"]])
def test_where_to_is_said_once(tmp_path, file, flags):
    done = run_alone("publish", file, *flags)
    assert (done.status, "by either --trial or --topic NAME" in done.err) == (2, True)


def test_without_a_broker_nothing_can_be_published(file):
    done = run_alone("publish", file, "--trial")
    assert (done.status, "no broker is configured; set kafka.servers" in done.err) == (2, True)


# On a real broker


@pytest.fixture
def real_settings():
    """The environment of a trial of its own on a real broker."""
    prefix = {"OFFRAMP_TOPICS__TRIAL_PREFIX": f"{uuid.uuid4().hex}."}
    return lambda broker: {"OFFRAMP_KAFKA__SERVERS": broker.bootstrap, **prefix, **ONE_COPY}


@pytest.fixture
def real(broker, real_settings):
    return real_settings(broker)


def on_topics(broker, prefix):
    client = KafkaPythonClient(Connection((broker.bootstrap,)))
    partitions = [
        TopicPartition(f"{prefix}{topic.name}", number) for topic in Topics.planned().inputs for number in (0, 1, 2)
    ]
    reader = client.reader(partitions)
    ends = reader.end_offsets(partitions)
    for partition in partitions:
        reader.seek(partition, 0)
    messages, positions = [], dict.fromkeys(partitions, 0)
    while any(positions[partition] < end for partition, end in ends.items()):
        for fetched in reader.poll(5, 1000):
            messages += fetched.messages
            positions[fetched.partition] = fetched.next_offset
    reader.close()
    return messages


def test_init_and_publish_on_a_real_broker(broker, real, file):
    prefix = real["OFFRAMP_TOPICS__TRIAL_PREFIX"]
    dry = run_alone("init", "--trial", "--dry-run", "--format", "json", **real)
    assert (dry.status, {step["state"] for step in json.loads(dry.out)["steps"]}) == (0, {"missing"}), dry.err
    made = run_alone("init", "--trial", "--format", "json", **real)
    assert (made.status, {step["state"] for step in json.loads(made.out)["steps"]}) == (0, {"made"}), made.err
    again = run_alone("init", "--trial", "--format", "json", **real)
    assert (again.status, {step["state"] for step in json.loads(again.out)["steps"]}) == (0, {"there"}), again.text
    other = run_alone("init", "--trial", **real | {"OFFRAMP_TOPICS__PARTITIONS": "4", "COLUMNS": "200"})
    assert other.status == 1
    assert "partitions is 3, planned 4" in other.text
    assert "what exists was not changed" in other.err

    for encoding in ("single-object", "json"):
        done = run_alone("publish", file, "--trial", "--encoding", encoding, "--format", "json", **real)
        assert (done.status, json.loads(done.out)["read"]) == (1, 8), done.err
        assert f"{file}, line 3: bad_json" in done.err
    messages = on_topics(broker, prefix)
    records = [decode(message.value, schemas=LocalSchemas.published()) for message in messages]
    assert len(records) == 14
    by_key = {message.key: message.partition for message in messages if message.topic == f"{prefix}terminal-events"}
    assert len(by_key) == 3

    client = KafkaPythonClient(Connection((broker.bootstrap,)))
    foreign = client.consumer(Subscription(f"{prefix}dispatcher", (f"{prefix}terminal-events",)), Listener())
    try:
        while not foreign.assignment():
            foreign.poll(0.1, 1)
        refused = run_alone("publish", file, "--trial", **real)
    finally:
        foreign.close()
    assert refused.status == 2
    assert f"group {prefix}dispatcher has members that read it; nothing was published" in refused.err
    assert len(on_topics(broker, prefix)) == 14


def test_more_copies_than_a_real_broker_has(broker, real):
    done = run_alone("init", "--trial", **real | {"OFFRAMP_TOPICS__REPLICATION_FACTOR": "3"})
    assert done.status == 2
    assert "plan it otherwise by the settings of [topics]" in done.err


def test_a_broker_that_dies_in_the_middle_loses_nothing_that_was_confirmed(own_broker, real_settings, tmp_path):
    broker = own_broker()
    environment = real_settings(broker) | {"OFFRAMP_KAFKA__TIMEOUT_S": "3"}
    assert run_alone("init", "--trial", **environment).status == 0
    file = write_lines(tmp_path / "events.jsonl", [{**events()[0], "event_id": f"e-{n}"} for n in range(3_000)])
    command = [sys.executable, "-m", "offramp", "publish", file, "--trial", "--rate", "1500"]
    process = subprocess.Popen(command, cwd=ROOT, env=kit_environment(**environment), stderr=subprocess.PIPE, text=True)
    prefix = environment["OFFRAMP_TOPICS__TRIAL_PREFIX"]
    while len(on_topics(broker, prefix)) < 2_000:  # the first window is confirmed, or about to be
        assert process.poll() is None
    broker.kill()
    _, said = process.communicate(timeout=120)
    assert process.returncode == 3, said
    assert re.search("check the broker|the broker cannot be asked", said)  # by what it was doing just then
    confirmed = int(re.search(r"([\d,]+) published before", said)[1].replace(",", ""))
    broker.start()
    first = [message.value for message in on_topics(broker, prefix)]
    assert 0 < confirmed <= len(set(first))
    again = run_alone("publish", file, "--trial", "--format", "json", **environment)
    assert again.status == 0, again.err
    both = {message.value for message in on_topics(broker, prefix)}
    assert len(both) == 3_000


def test_ctrl_c_says_what_was_published(broker, real, tmp_path):
    assert run_alone("init", "--trial", **real).status == 0
    file = write_lines(tmp_path / "events.jsonl", [{**events()[0], "event_id": f"e-{n}"} for n in range(3_000)])
    command = [sys.executable, "-m", "offramp", "publish", file, "--trial", "--rate", "100"]
    # A shell that runs the tests in the background has Ctrl-C ignored, and whatever it starts would ignore it too.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(command, cwd=ROOT, env=kit_environment(**real), stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, before)
    while not on_topics(broker, real["OFFRAMP_TOPICS__TRIAL_PREFIX"]):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    told = re.search(r"([\d,]+) published before; what is published again counts once, by its id", said)
    # The one that was just being handed over may be there and is not known to be.
    assert len(on_topics(broker, real["OFFRAMP_TOPICS__TRIAL_PREFIX"])) - int(told[1].replace(",", "")) in {0, 1}


def test_passwords_and_certificates_reach_a_secured_broker_and_are_not_shown(secured_broker, tmp_path):
    prefix = uuid.uuid4().hex
    (tmp_path / "password").write_text(secured_broker.passwords["admin"] + "\n")
    environment = {
        "OFFRAMP_KAFKA__SERVERS": secured_broker.address("SASL_SSL"),
        "OFFRAMP_KAFKA__PROTOCOL": "SASL_SSL",
        "OFFRAMP_KAFKA__USERNAME": "admin",
        "OFFRAMP_KAFKA__PASSWORD_FILE": str(tmp_path / "password"),
        "OFFRAMP_KAFKA__CA": str(secured_broker.certificates.authority),
        "OFFRAMP_TOPICS__TRIAL_PREFIX": f"{prefix}.",
        **ONE_COPY,
    }
    assert run_alone("init", "--trial", **environment).status == 0
    file = write_lines(tmp_path / "events.jsonl", [events()[0]])
    assert run_alone("publish", file, "--trial", **environment).status == 0

    guest = environment | {"OFFRAMP_KAFKA__USERNAME": "guest"}
    (tmp_path / "password").write_text(secured_broker.passwords["guest"])
    refused = run_alone("publish", file, "--trial", **guest)
    assert (refused.status, "published" in refused.text) == (2, False), refused.err
    (tmp_path / "password").write_text("a wrong password")
    wrong = run_alone("publish", file, "--trial", **guest | {"OFFRAMP_KAFKA__TIMEOUT_S": "5"})
    assert (wrong.status in {2, 3}, "a wrong password" in wrong.err) == (True, False), wrong.err
