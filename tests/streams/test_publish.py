"""Publishing on the cluster in memory: what is confirmed is counted, and nobody foreign is made to read it."""

from contextlib import closing
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest

from schemas.contract import INCOMING
from schemas.errors import ErrorCode, MessageError
from schemas.json_form import to_json
from schemas.wire import LocalSchemas, decode
from streams.batch import Decoded
from streams.clock import FixedClock, SystemClock
from streams.files import Source
from streams.kafka.errors import BrokerRejected, BrokerUnavailable, Rejection, Unconfirmed
from streams.kafka.fake import FakeCluster
from streams.kafka.kafka_python.client import KafkaPythonClient
from streams.kafka.seam import Connection, Group, Member, NewTopic, Subscription, TopicPartition
from streams.publish import (
    KEPT_REFUSALS,
    WINDOW,
    ForeignGroup,
    Pace,
    Publisher,
    Reading,
    encoder,
    foreign_groups,
)
from streams.topics import Encoding, Sizing, Topics, key_of
from tests.schemas.samples import full, minimal

TOPICS = Topics.planned(Sizing(prefix="trial."))
IDS = dict(zip(INCOMING, range(11, 16), strict=True))
LOCAL = LocalSchemas.published({number: kind for kind, number in IDS.items()})
SOURCE = Source("events.jsonl", Path("events.jsonl"), 1, "p", "none", "lines")


class Listener:
    def on_assigned(self, consumer, partitions):
        for partition in partitions:
            consumer.seek(partition, 0)

    def on_revoked(self, consumer, partitions):
        pass

    def on_lost(self, consumer, partitions):
        pass


@pytest.fixture
def cluster():
    cluster = FakeCluster()
    for topic in TOPICS:
        cluster.create(NewTopic(topic.name, 3, 1, {"max.message.bytes": "20000"}))
    return cluster


def publisher(cluster, *, encoding=Encoding.JSON, dry_run=False, pace=None):
    return Publisher(
        producer=None if dry_run else cluster.client().producer(),
        topic_of=lambda record_type: TOPICS.of_record(record_type).name,
        encode=encoder(encoding, IDS),
        largest={topic.name: 20_000 for topic in TOPICS},
        pace=pace or Pace(None, FixedClock(), lambda seconds: None),
        timeout_s=1,
    )


def read(*records):
    return [Decoded(number, number + 1, record) for number, record in enumerate(records)]


def event(number=0, **fields):
    return minimal("terminal_event") | {"event_id": f"e-{number}", **fields}


@pytest.mark.parametrize("encoding", Encoding)
def test_every_record_type_goes_to_its_topic_under_its_key_and_comes_out_as_it_was(cluster, encoding):
    records = [full(kind) for kind in INCOMING]
    publish = publisher(cluster, encoding=encoding)
    publish.take(SOURCE, read(*records))
    publish.settle()
    for record in records:
        (message,) = cluster.messages(TOPICS.of_record(record["type"]).name)
        assert decode(message.value, schemas=LOCAL) == record
        assert message.key == key_of(record)
    assert publish.counts.published.total() == publish.counts.read == 5


def test_the_three_encodings_are_the_three_framings():
    record = full("enrichment")
    first = {encoding: encoder(encoding, IDS)(record)[:5] for encoding in Encoding}
    assert first[Encoding.CONFLUENT] == b"\x00\x00\x00\x00\x0f"
    assert first[Encoding.SINGLE_OBJECT][:2] == b"\xc3\x01"
    assert first[Encoding.JSON][:1] == b"{"


def test_one_runs_events_lie_in_one_partition(cluster):
    publish = publisher(cluster)
    publish.take(SOURCE, read(*(event(n, run_id=f"r-{n % 5}") for n in range(50))))
    publish.settle()
    partitions = {}
    for message in cluster.messages("trial.terminal-events"):
        partitions.setdefault(message.key, set()).add(message.partition)
    assert len(partitions) == 5
    assert all(len(found) == 1 for found in partitions.values())


def test_a_bad_record_costs_its_neighbours_nothing(cluster):
    bad = Decoded(1, 2, None, MessageError(ErrorCode.BAD_JSON, "no valid JSON"), b"{", 1)
    block = Decoded(3, None, None, MessageError(ErrorCode.BAD_AVRO, "damaged"), b"", 0, span=40)
    publish = publisher(cluster)
    publish.take(SOURCE, [*read(event(0)), bad, Decoded(2, 3, event(1)), block])
    publish.settle()
    counts = publish.counts
    assert counts.published == {("trial.terminal-events", "terminal_event"): 2}
    assert counts.refused == {"bad_json": 1, "bad_avro": 40}
    assert counts.read == 43
    assert [refused.place for refused in counts.examples] == ["events.jsonl, line 2", "events.jsonl, record 4"]


def sized(size):
    """An event whose key and JSON have that many bytes."""
    model = INCOMING["terminal_event"]
    empty = event(request={**full("terminal_event")["request"], "prose": ""})
    missing = size - len(to_json(empty, model)) - len(key_of(empty))
    record = event(request={**full("terminal_event")["request"], "prose": "x" * missing})
    assert len(to_json(record, model)) + len(key_of(record)) == size
    return record


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(("size", "published"), [(19_999, 3), (20_000, 3), (20_001, 2)])
def test_a_message_over_the_topics_limit_is_refused_alone(cluster, size, published, dry_run):
    publish = publisher(cluster, dry_run=dry_run)
    publish.take(SOURCE, read(event(0), sized(size), event(1)))
    publish.settle()
    assert publish.counts.published.total() == published
    assert publish.counts.refused.total() == 3 - published
    if published == 2:
        assert publish.counts.examples[0].place == "events.jsonl, line 2"
        assert "20001 bytes are over the 20000 of topic trial.terminal-events" in str(publish.counts.examples[0].error)
    assert len(cluster.messages("trial.terminal-events")) == (0 if dry_run else published)


def test_a_message_that_the_broker_finds_too_large_is_refused_alone(cluster):
    cluster.client().admin().set_config("trial.terminal-events", {"max.message.bytes": "15000"})
    publish = publisher(cluster)
    publish.take(SOURCE, read(event(0), sized(18_000), event(1)))
    publish.settle()
    assert publish.counts.published.total() == 2
    assert publish.counts.refused == {"too_large": 1}
    assert publish.counts.examples[0].place == "events.jsonl, line 2"


def test_only_the_first_refusals_are_kept(cluster):
    error = MessageError(ErrorCode.BAD_JSON, "no valid JSON")
    publish = publisher(cluster)
    publish.take(SOURCE, (Decoded(n, n + 1, None, error) for n in range(100)))
    assert publish.counts.refused.total() == 100
    assert len(publish.counts.examples) == KEPT_REFUSALS


def test_what_was_not_confirmed_is_an_outage_and_not_counted(cluster):
    publish = publisher(cluster)
    publish.take(SOURCE, read(event(0)))
    publish.settle()
    cluster.inject("acknowledge", BrokerUnavailable("gone"))
    publish.take(SOURCE, read(event(1), event(2)))
    with pytest.raises(Unconfirmed):
        publish.settle()
    assert publish.counts.published.total() == 2  # the first, and the one whose acknowledgement was not lost


def test_a_rejection_that_is_not_the_messages_fault_ends_it(cluster):
    cluster.inject("send", BrokerRejected(Rejection.AUTHORIZATION, "may not write"))
    publish = publisher(cluster)
    publish.take(SOURCE, read(event(0), event(1)))
    with pytest.raises(BrokerRejected, match="may not write"):
        publish.settle()
    assert not publish.counts.refused
    assert publish.counts.published.total() == 1


def test_no_more_than_a_window_is_on_its_way(cluster):
    publish = publisher(cluster)
    publish.take(SOURCE, read(*(event(n) for n in range(WINDOW))))
    assert publish.counts.published.total() == WINDOW


def test_a_dry_run_counts_and_sends_nothing(cluster):
    publish = publisher(cluster, dry_run=True)
    publish.take(SOURCE, read(event(0), event(1)))
    publish.settle()
    assert publish.counts.published.total() == 2
    assert cluster.messages("trial.terminal-events") == []


# Pace


def test_a_pace_is_held_evenly_and_lost_time_is_not_made_up_for():
    clock = FixedClock()
    waited = []

    def wait(seconds):
        waited.append(round(seconds, 6))
        clock.advance(seconds)

    pace = Pace(4, clock, wait)
    for _ in range(3):
        pace.hold()
    assert waited == [0.25, 0.25]
    clock.advance(10)
    pace.hold()
    pace.hold()
    assert waited == [0.25, 0.25, 0.25]


# Who else reads


def joined(cluster, group, *topics):
    consumer = cluster.client().consumer(Subscription(group, topics), Listener())
    consumer.poll(0, 10)
    return consumer


def test_a_group_with_members_is_a_foreign_reader_and_ours_is_none(cluster):
    joined(cluster, "legacy-dispatcher", "trial.terminal-events", "trial.enrichments")
    joined(cluster, "offramp-classify", "trial.terminal-events")
    joined(cluster, "elsewhere", "trial.exit-alerts")
    ask = partial(foreign_groups, cluster.client().admin(), ["trial.terminal-events", "trial.legacy-exits"])
    assert ask(["offramp-classify"]) == [ForeignGroup("legacy-dispatcher", "trial.terminal-events", Reading.MEMBERS)]
    assert len(ask([])) == 2


def test_a_group_at_rest_that_would_go_on_reading_is_a_foreign_reader(cluster):
    consumer = joined(cluster, "legacy-dispatcher", "trial.terminal-events")
    consumer.commit({TopicPartition("trial.terminal-events", 0): 0})
    consumer.close()
    admin = cluster.client().admin()
    assert foreign_groups(admin, ["trial.terminal-events"], []) == [
        ForeignGroup("legacy-dispatcher", "trial.terminal-events", Reading.OFFSETS)
    ]
    assert foreign_groups(admin, ["trial.enrichments"], []) == []


def test_a_group_that_left_without_a_trace_is_none(cluster):
    joined(cluster, "passer-by", "trial.terminal-events").close()
    assert foreign_groups(cluster.client().admin(), ["trial.terminal-events"], []) == []


class Opaque:
    """An admin that lists a group which it cannot describe."""

    def __init__(self, admin, listed, groups=None):
        self._admin, self._listed, self._groups = admin, listed, groups or {}

    def groups(self):
        return frozenset(self._listed.pop(0) if len(self._listed) > 1 else self._listed[0])

    def describe_groups(self, names):
        return self._groups

    def group_offsets(self, group):
        return self._admin.group_offsets(group)


def test_a_group_that_cannot_be_looked_into_may_read_and_one_that_is_gone_does_not(cluster):
    admin = cluster.client().admin()
    assert foreign_groups(Opaque(admin, [["new-kind"]]), ["trial.enrichments"], []) == [
        ForeignGroup("new-kind", "trial.enrichments", Reading.UNKNOWN)
    ]
    assert foreign_groups(Opaque(admin, [["gone"], []]), ["trial.enrichments"], []) == []


@pytest.mark.parametrize(("state", "found"), [("PreparingRebalance", [Reading.UNKNOWN]), ("Stable", []), ("Empty", [])])
def test_a_group_in_the_middle_of_a_rebalance_may_read_anything(cluster, state, found):
    member = Member("m", "c", "h", None, frozenset(), frozenset())
    admin = Opaque(cluster.client().admin(), [["g"]], {"g": Group("g", state, (member,))})
    assert [each.reading for each in foreign_groups(admin, ["trial.enrichments"], [])] == found


# On a real broker


@pytest.fixture
def new_protocol(broker, fresh):
    """A group of Kafka's new consumer protocol, its topic, and its only member, which has joined."""
    confluent_kafka = pytest.importorskip("confluent_kafka")
    group, topic = fresh("group"), fresh("topic")
    with closing(KafkaPythonClient(Connection((broker.bootstrap,))).admin()) as admin:
        admin.create_topics([NewTopic(topic, 1, 1, {}), NewTopic(f"{topic}-other", 1, 1, {})])
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": group, "group.protocol": "consumer"}
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe([topic])
    deadline = SystemClock().monotonic() + 60
    while not consumer.assignment() and SystemClock().monotonic() < deadline:
        consumer.poll(0.1)
    yield group, topic, consumer
    consumer.close()


def readings(client, topic, group):
    with closing(client.admin()) as admin:
        return [each.reading for each in foreign_groups(admin, [topic], []) if each.group == group]


def test_a_group_of_the_new_protocol_is_a_reader_and_for_a_client_that_does_not_know_it_perhaps(broker, new_protocol):
    group, topic, consumer = new_protocol
    where = Connection((broker.bootstrap,))
    knowing, other = import_module("streams.kafka.confluent.client").ConfluentClient(where), KafkaPythonClient(where)
    assert readings(knowing, topic, group) == [Reading.MEMBERS]
    assert readings(knowing, f"{topic}-other", group) == []
    assert readings(other, topic, group) == readings(other, f"{topic}-other", group) == [Reading.UNKNOWN]
    consumer.close()
    for client in (knowing, other):
        assert readings(client, topic, group) == []
