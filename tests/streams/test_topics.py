"""The declared topics: complete, safe for evidence, and refused before a broker could misunderstand them."""

import pickle
import uuid
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.contract import INCOMING, PUBLISHED
from streams.clock import SystemClock
from streams.kafka.errors import BrokerRejected
from streams.kafka.kafka_python.client import KafkaPythonClient
from streams.kafka.seam import Connection, NewTopic, Outgoing, TopicPartition
from streams.topics import RECORD_TOPICS, Sizing, TopicError, Topics, key_of
from tests.schemas.samples import full, minimal

TOPICS = Topics.planned()


def test_the_names_are_those_that_the_pipeline_speaks_of():
    assert [topic.name for topic in TOPICS] == [
        "terminal-events", "legacy-exits", "recovery-actions", "review-events", "enrichments", "exit-classifications",
        "terminal-events.dlq", "terminal-events.redrive", "exit-alerts",
    ]  # fmt: skip
    assert TOPICS.dead_letters.id == "terminal-events.dlq"
    assert TOPICS.redrive.id == "terminal-events.redrive"
    assert TOPICS.exit_alerts.id == "exit-alerts"


def test_every_record_type_that_may_arrive_has_a_topic_of_its_own_that_carries_it():
    assert set(RECORD_TOPICS) == set(INCOMING)
    for kind in INCOMING:
        assert TOPICS.of_record(kind).records == (kind.replace("_", "-"),)
    assert len({TOPICS.of_record(kind).name for kind in INCOMING}) == len(INCOMING)
    assert {topic.id for topic in TOPICS.inputs} == {TOPICS.of_record(kind).id for kind in INCOMING} | {
        TOPICS.redrive.id
    }


def test_every_topic_says_who_writes_who_reads_and_what():
    for topic in TOPICS:
        assert topic.purpose
        assert topic.writers
        assert topic.readers
        assert topic.key
        assert set(topic.records) <= set(PUBLISHED)


def test_no_topic_that_we_write_is_read_by_the_dispatcher():
    ours = {"classify worker", "lifecycle app", "offramp dlq redrive"}
    for topic in TOPICS:
        if ours & set(topic.writers):
            assert "legacy dispatcher" not in topic.readers


def test_nothing_is_compacted_or_lost_by_a_producers_clock_or_an_unclean_leader():
    for topic in TOPICS:
        assert topic.settings["cleanup.policy"] == "delete"
        assert topic.settings["message.timestamp.type"] == "LogAppendTime"
        assert topic.settings["unclean.leader.election.enable"] == "false"
        assert topic.settings["retention.bytes"] == "-1"


def test_a_dead_letter_has_room_for_the_largest_message_and_more_headers_and_lives_longer():
    largest = TOPICS.terminal_events.max_message_bytes
    assert TOPICS.dead_letters.max_message_bytes >= largest + 32_000
    assert TOPICS.redrive.max_message_bytes >= largest + 32_000
    retention = int(TOPICS.dead_letters.settings["retention.ms"])
    assert retention > int(TOPICS.terminal_events.settings["retention.ms"]) == 14 * 86_400_000


@pytest.mark.parametrize(("copies", "confirming"), [(1, "1"), (2, "1"), (3, "2"), (5, "4")])
def test_all_copies_but_one_confirm_a_write(copies, confirming):
    for topic in Topics.planned(Sizing(replication_factor=copies)):
        assert (topic.replication_factor, topic.settings["min.insync.replicas"]) == (copies, confirming)


def test_a_prefix_stands_before_every_name_and_leaves_the_ids():
    topics = Topics.planned(Sizing(prefix="eu.", partitions=3))
    assert [topic.name for topic in topics] == [f"eu.{topic.id}" for topic in TOPICS]
    assert {topic.partitions for topic in topics if topic.id != "exit-alerts"} == {3}
    assert topics.exit_alerts.partitions == 1


def test_one_topic_may_differ_in_anything():
    overrides = ("terminal-events:partitions=24", "terminal-events:retention.ms=1000", "exit-alerts:segment.ms=60000",
                 "enrichments:replication.factor=5")  # fmt: skip
    topics = Topics.planned(Sizing(overrides=overrides))
    assert topics.terminal_events.partitions == 24
    assert topics.terminal_events.settings["retention.ms"] == "1000"
    assert topics.exit_alerts.settings["segment.ms"] == "60000"
    assert topics.enrichments.replication_factor == 5
    assert topics.legacy_exits == TOPICS.legacy_exits


REFUSED = {
    "no override": (Sizing(overrides=("partitions=3",)), "must be TOPIC:SETTING=VALUE"),
    "an unknown topic": (Sizing(overrides=("events:partitions=3",)), "there is no topic events; there are terminal-ev"),
    "no number": (Sizing(overrides=("exit-alerts:partitions=many",)), "must be a whole number, not many"),
    "a negative number": (Sizing(overrides=("exit-alerts:partitions=-1",)), "must be a whole number, not -1"),
    "no partition": (Sizing(overrides=("exit-alerts:partitions=0",)), "partitions and replication.factor must be"),
    "compaction": (
        Sizing(overrides=("terminal-events:cleanup.policy=compact,delete",)),
        "cleanup.policy must be delete",
    ),
    "more to confirm than copies": (
        Sizing(replication_factor=1, overrides=("enrichments:min.insync.replicas=2",)),
        "min.insync.replicas is 2 and the replication factor is 1; no write could be confirmed",
    ),
    "none to confirm": (Sizing(overrides=("enrichments:min.insync.replicas=0",)), "no write could be confirmed"),
    "no size": (Sizing(overrides=("enrichments:max.message.bytes=1MB",)), "must be a whole number, not 1MB"),
    "a name that Kafka has not": (Sizing(prefix="a/b"), "a/bterminal-events: a topic's name has up to 249"),
    "a name that is too long": (Sizing(prefix="x" * 240), "a topic's name has up to 249"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_with_its_place(case):
    sizing, said = REFUSED[case]
    with pytest.raises(TopicError) as caught:
        Topics.planned(sizing)
    assert said in str(caught.value)


def test_topics_can_be_handed_to_another_process():
    assert pickle.loads(pickle.dumps(TOPICS)) == TOPICS  # noqa: S301 -- our own


# Keys


def test_all_segments_of_a_run_and_companions_that_name_it_share_a_key():
    event = full("terminal_event") | {"tenant": "acme", "run_id": "r-1"}
    assert key_of(event) == key_of(event | {"event_id": "e-2", "segment": 2}) == b"acme/r-1"
    assert key_of(full("enrichment") | {"tenant": "acme", "run_id": "r-1", "event_id": "e-9"}) == b"acme/r-1"


def test_a_companion_without_a_run_is_keyed_by_its_event_else_by_itself():
    companion = minimal("review_event")
    assert key_of(companion) == b"acme/c-1"
    assert key_of(companion | {"event_id": "e-1"}) == b"acme/e-1"
    assert key_of(companion | {"event_id": "e-1", "run_id": ""}) == b"acme/e-1"


@given(st.sampled_from([*INCOMING]), st.text(min_size=1), st.text(min_size=1))
def test_every_record_has_a_key_and_the_same_record_always_the_same(kind, tenant, run):
    record = full(kind) | {"tenant": tenant, "run_id": run}
    assert key_of(record) == key_of(dict(record)) == f"{tenant}/{run}".encode()


# On a real broker: why the settings are what they are

HOUR_US = 3_600_000_000


def test_a_clock_two_hours_ahead_is_taken_as_planned_and_refused_otherwise(broker):
    client, name = KafkaPythonClient(Connection((broker.bootstrap,))), uuid.uuid4().hex
    topic = Topics.planned(Sizing(prefix=f"{name}.", replication_factor=1)).terminal_events
    by_producer = {**topic.settings, "message.timestamp.type": "CreateTime"}
    with closing(client.admin()) as admin, closing(client.producer()) as producer:
        admin.create_topics([NewTopic(topic.name, 1, 1, topic.settings), NewTopic(name, 1, 1, by_producer)])
        ahead = SystemClock().now_micros() + 2 * HOUR_US
        assert producer.send(Outgoing(topic.name, b"k", b"v", timestamp_us=ahead)).result(30).offset == 0
        with pytest.raises(BrokerRejected):
            producer.send(Outgoing(name, b"k", b"v", timestamp_us=ahead)).result(30)


def test_a_topic_stamps_by_arrival_so_that_a_replay_is_not_deleted_as_it_comes(broker):
    client = KafkaPythonClient(Connection((broker.bootstrap,)))
    topic = Topics.planned(Sizing(prefix=f"{uuid.uuid4().hex}.", replication_factor=1)).terminal_events
    now = SystemClock().now_micros()
    with closing(client.admin()) as admin, closing(client.producer()) as producer:
        admin.create_topics([NewTopic(topic.name, 1, 1, topic.settings)])
        producer.send(Outgoing(topic.name, b"k", b"v", timestamp_us=now - 400 * 24 * HOUR_US)).result(30)
    partition = TopicPartition(topic.name, 0)
    with closing(client.reader([partition])) as reader:
        reader.seek(partition, 0)
        (fetched,) = reader.poll(30, 10)
    (message,) = fetched.messages
    assert abs(message.timestamp_us - now) < HOUR_US
