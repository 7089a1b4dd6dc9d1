"""The classify worker on a cluster and a store in memory: what it stores, whatever ends, fails or moves."""

import json
from collections import Counter
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from classifier.table import default_text, load
from schemas.redaction import Redactor
from schemas.wire import encode_confluent, encode_single_object
from schemas.writer import current_writer
from sinks.errors import StoreUnavailable
from streams.classify import ClassifyWorker, Pace, Publisher
from streams.clock import FixedClock
from streams.cut import Limits
from streams.ingest import Report, Writer
from streams.kafka.errors import BrokerUnavailable
from streams.kafka.fake import FakeCluster
from streams.kafka.seam import NewTopic, Outgoing, Subscription, TopicPartition
from streams.messages import NoRegistry
from streams.parallel import Pool
from streams.registry import RegistryUnavailable
from streams.start import Start, StartUnknownError
from streams.topics import Sizing, Topics
from streams.worker import Setup
from tests.schemas.samples import minimal
from tests.streams.memory_sink import MemorySink

TOPICS = Topics.planned(Sizing(partitions=2, replication_factor=1))
TABLE = load(default_text())
REDACTOR = Redactor(b"a key of the tests, long enough")
SCHEMAS = NoRegistry()
GROUP = "offramp-classify"
EVENTS = TOPICS.terminal_events.name


class KilledError(BaseException):
    """What kill -9 is to a test: nothing of this process runs any more."""


class Mortal:
    """Ends the process at its ``at``-th deed with the outside, before it or right after it; 0: never."""

    def __init__(self, at=0, *, after=False):
        self.deeds, self.at, self.after = 0, at, after

    def __call__(self, deed):
        def done(*arguments, **named):
            self.deeds += 1
            if 0 < self.at < self.deeds:
                raise KilledError
            mine = self.deeds == self.at
            if mine and not self.after:
                raise KilledError
            result = deed(*arguments, **named)
            if mine:
                raise KilledError
            return result

        return done


class Watcher:
    """Remembers what the worker tells."""

    def __init__(self):
        self.told, self.fates, self.idled = [], Counter(), 0

    def assigned(self, starts):
        self.told.append(("assigned", dict(starts)))

    def released(self, partitions, *, lost):
        self.told.append(("lost" if lost else "revoked", set(partitions)))

    def expired(self, partition, first, end):
        self.told.append(("expired", (partition, first, end)))

    def stored(self, report: Report, batch, seconds):
        self.fates.update(report.fates)

    def idle(self):
        self.idled += 1

    def waits(self, error, attempt):
        self.told.append(("waits", type(error)))

    def not_sent(self, message, error):
        self.told.append(("not_sent", message.topic))


def cluster():
    made = FakeCluster()
    for topic in TOPICS:
        made.create(NewTopic(topic.name, topic.partitions, 1, {"max.message.bytes": str(topic.max_message_bytes)}))
    return made


def event(event_id, **fields):
    return minimal("terminal_event") | {"event_id": event_id, "run_id": f"r-{event_id}"} | fields


def put(to, *values, topic=EVENTS, partition=0, headers=()):
    for value in values:
        body = encode_single_object(value) if isinstance(value, dict) else value
        to.append(Outgoing(topic, b"k", body, headers, partition))


def worker_on(  # noqa: PLR0913 -- what a case differs in
    kafka, sink, *, watcher=None, mortal=None, batch=4, start=None, schemas=None, limits=None, group=GROUP
):
    """A worker over the cluster and the sink; every deed with either counts for ``mortal``."""
    mortal, watcher = mortal or Mortal(), watcher or Watcher()
    clock = Ticking()
    producer = kafka.client().producer()
    producer.send, producer.flush = mortal(producer.send), mortal(producer.flush)
    publish = Publisher(producer, TOPICS, 1.0, watcher.not_sent)
    source = schemas or SCHEMAS
    setup = Setup(TABLE.text, REDACTOR, announcements=True, schemas=lambda: source, limits=limits or Limits())
    return ClassifyWorker(
        client=Client(kafka, mortal),
        subscription=Subscription(group, tuple(topic.name for topic in TOPICS.inputs)),
        judge=in_this_process(setup),
        writer=Writer(MortalSink(sink, mortal), TABLE, clock.now_micros, publish),
        resume=lambda partition: sink.ledger_end(partition.topic, str(partition.partition)),
        clock=clock,
        observer=watcher,
        pace=Pace(batch_records=batch, linger_s=0, poll_s=0.02, retry_s=0.01, retry_most_s=0.02),
        start=start,
    )


def in_this_process(setup):
    with Pool(0).started(setup) as judge:
        return judge


class Ticking(FixedClock):
    """A clock that a look at moves on, so that no wait is for ever."""

    def monotonic(self):
        self.advance(0.001)
        return self.seconds


class MortalSink:
    """The sink, with its inserts counted."""

    def __init__(self, sink, mortal):
        self._sink, self.insert = sink, mortal(sink.insert)

    def __getattr__(self, name):
        return getattr(self._sink, name)


class Client:
    """The client, with its commits counted."""

    def __init__(self, kafka, mortal):
        self._kafka, self._mortal = kafka, mortal

    def consumer(self, *arguments):
        made = self._kafka.client().consumer(*arguments)
        made.commit = self._mortal(made.commit)
        return made


def drained(worker, kafka, rounds=200):
    """Run until everything is stored, or fail."""
    ends = {p: len(kafka._log(p).messages) and max(kafka._log(p).messages) + 1
            for topic in TOPICS.inputs for p in kafka.partitions(topic.name)}  # fmt: skip
    turns = count()

    def stop():
        assert next(turns) < rounds, (worker.positions, ends)
        return bool(worker.positions) and all(worker.positions.get(p, -1) >= end for p, end in ends.items())

    worker.run(stop)


MESSAGES = [
    event("1"), event("2"), b"nonsense", event("1"), event("2", agent_id="b"), minimal("enrichment"), event("3"),
    b"", b"\x00\x00\x00\x00\x07body", event("4"), minimal("review_event"), event("3"), b"\xc3\x01" + bytes(8),
]  # fmt: skip


def filled():
    kafka = cluster()
    for number, message in enumerate(MESSAGES):
        put(kafka, message, partition=number % 2)
    return kafka


def reference():
    sink = MemorySink()
    drained(worker_on(filled(), sink), filled())
    return sink


def test_every_message_has_one_fate_and_the_ledger_has_no_hole():
    kafka, sink, watcher = filled(), MemorySink(), Watcher()
    drained(worker_on(kafka, sink, watcher=watcher), kafka)
    assert watcher.fates.total() == len(MESSAGES) == len(sink.seen("ingest_ledger"))
    for partition in kafka.partitions(EVENTS):
        rows = [r for r in sink.seen("ingest_ledger") if r["partition"] == str(partition.partition)]
        offsets = sorted((row["offset"], row["next_offset"]) for row in rows)
        assert offsets == [(offset, offset + 1) for offset in range(len(offsets))]
    assert {row["event_id"] for row in sink.seen("terminal_events")} == {"1", "2", "3", "4"}
    assert len(sink.seen("exit_classifications")) == 4
    assert len(sink.seen("dead_letters")) == 4


def test_dead_letters_and_classifications_are_sent_where_nobody_of_the_dispatcher_reads():
    kafka, sink = filled(), MemorySink()
    before = {topic.name: len(kafka.messages(topic.name)) for topic in TOPICS}
    drained(worker_on(kafka, sink), kafka)
    after = {topic.name: len(kafka.messages(topic.name)) for topic in TOPICS}
    written = {name for name in after if after[name] != before[name]}
    assert written == {TOPICS.dead_letters.name, TOPICS.exit_classifications.name}
    assert after[TOPICS.dead_letters.name] == 4
    announced = [json.loads(m.value)["event_id"] for m in kafka.messages(TOPICS.exit_classifications.name)]
    assert sorted(set(announced)) == ["1", "2", "3", "4"]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("then", [1, 3, 100])
def test_killed_between_any_two_deeds_and_begun_again_with_another_batch_size_it_stores_the_same(after, then):
    whole = Mortal()
    sink = MemorySink()
    kafka = filled()
    drained(worker_on(kafka, sink, mortal=whole, batch=4), kafka)
    wanted = contents(sink)
    for at in range(1, whole.deeds + 1):
        kafka, sink = filled(), MemorySink()
        with pytest.raises(KilledError):
            drained(worker_on(kafka, sink, mortal=Mortal(at, after=after), batch=4), kafka)
        committed = kafka.client().admin().group_offsets(GROUP)
        for partition, offset in committed.items():
            assert offset.offset <= (sink.ledger_end(partition.topic, str(partition.partition)) or 0)
        drained(worker_on(kafka, sink, batch=then), kafka)
        assert contents(sink) == wanted, at


def contents(sink):
    """What readers see. Which of two copies of a record counts as the first depends on how partitions are batched, and
    so, of one identity with two contents, which of them is kept apart."""
    rows = {table: sorted(map(repr, map(_steady, sink.seen(table)))) for table in sink.tables}
    rows["ingest_ledger"] = sorted(repr((r["source"], r["partition"], r["offset"], r["next_offset"]))
                                   for r in sink.seen("ingest_ledger"))  # fmt: skip
    return {table: len(found) if table == "conflicting_events" else found for table, found in rows.items()}


def _steady(row):
    volatile = ("ingested_at", "classified_at", "recorded_at", "activated_at", "source", "partition", "offset")
    of_content = ("agent_id", "content_digest", "evidence_digest", "event")
    return {name: value for name, value in row.items() if name not in (*volatile, *of_content)}


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(range(len(MESSAGES))), max_size=14), st.integers(1, 9), st.data())
def test_any_messages_in_any_batches_with_outages_anywhere_end_in_one_row_each(chosen, batch, data):
    kafka, sink, watcher = cluster(), MemorySink(), Watcher()
    for index in chosen:
        put(kafka, MESSAGES[index], partition=data.draw(st.integers(0, 1)))
    for _ in range(data.draw(st.integers(0, 4))):
        operation = data.draw(st.sampled_from(["poll", "commit", "send", "acknowledge"]))
        kafka.inject(operation, BrokerUnavailable("away"), data.draw(st.integers(1, 3)))
    sink.outages = data.draw(st.lists(st.integers(1, 12), max_size=4))
    drained(worker_on(kafka, sink, watcher=watcher, batch=batch), kafka, rounds=2000)
    assert len(sink.seen("ingest_ledger")) == len(chosen)
    wanted = {MESSAGES[i]["event_id"] for i in chosen if isinstance(MESSAGES[i], dict) and "event_id" in MESSAGES[i]}
    assert {row["event_id"] for row in sink.seen("terminal_events")} == {e for e in wanted if e}
    assert len(sink.seen("exit_classifications")) == len(sink.seen("terminal_events"))


def test_an_outage_of_the_store_moves_no_offset_and_is_told():
    kafka, sink, watcher = filled(), MemorySink(), Watcher()
    sink.outages = [2, 3, 4, 5]
    drained(worker_on(kafka, sink, watcher=watcher), kafka)
    assert [what for name, what in watcher.told if name == "waits"] == [StoreUnavailable] * 4
    assert contents(sink) == contents(reference())


def test_an_outage_of_the_registry_is_no_fault_of_a_message():
    class Registry:
        asked = 0

        def by_fingerprint(self, fingerprint):
            raise AssertionError(fingerprint)

        def by_id(self, schema_id):
            self.asked += 1
            if self.asked < 4:
                raise RegistryUnavailable("503")
            return None if schema_id == 404 else current_writer("terminal_event")

    kafka, sink, watcher = cluster(), MemorySink(), Watcher()
    put(kafka, encode_confluent(event("1"), 1), encode_confluent(event("2"), 404), encode_confluent(event("3"), 1))
    drained(worker_on(kafka, sink, watcher=watcher, schemas=Registry()), kafka)
    assert {row["event_id"] for row in sink.seen("terminal_events")} == {"1", "3"}
    assert [(row["offset"], row["reason_code"]) for row in sink.seen("dead_letters")] == [(1, "unknown_schema")]
    assert ("waits", RegistryUnavailable) in watcher.told


def test_a_group_with_offsets_and_no_ledger_does_not_start_until_told_where():
    kafka = filled()
    drained(worker_on(kafka, MemorySink()), kafka)
    put(kafka, event("9"))
    with pytest.raises(StartUnknownError, match="--start-from committed or beginning or end"):
        drained(worker_on(kafka, MemorySink()), kafka)
    found = {}
    for start in Start:
        sink = MemorySink()
        drained(worker_on(kafka, sink, start=start), kafka)
        found[start] = {row["event_id"] for row in sink.seen("terminal_events")}
    assert found == {Start.COMMITTED: {"9"}, Start.BEGINNING: {"1", "2", "3", "4", "9"}, Start.END: set()}


def idle(worker, watcher, times=1):
    """Run a worker until it had nothing to do so many times."""
    worker.run(lambda: watcher.idled >= times)


def ledger_ends(kafka, sink):
    """Where the ledger ends, of the partitions that it knows."""
    partitions = [partition for topic in TOPICS.inputs for partition in kafka.partitions(topic.name)]
    ends = {each: sink.ledger_end(each.topic, str(each.partition)) for each in partitions}
    return {each: end for each, end in ends.items() if end is not None}


def committed(kafka, group):
    return {each: at.offset for each, at in kafka.client().admin().group_offsets(group).items()}


def test_a_group_of_another_name_commits_what_the_ledger_knows_though_nothing_comes():
    kafka, sink = filled(), MemorySink()
    drained(worker_on(kafka, sink), kafka)
    ends = ledger_ends(kafka, sink)
    assert 0 < len(ends) < sum(topic.partitions for topic in TOPICS.inputs)
    # The poll that brings the partitions may be over before the broker could say that it has no such offset.
    for times, known in ((1, {}), (2, ends)):
        watcher = Watcher()
        idle(worker_on(kafka, sink, watcher=watcher, group="renamed"), watcher, times)
        assert committed(kafka, "renamed") == known


def test_where_something_comes_the_partitions_that_are_quiet_are_committed_with_it():
    kafka, sink = filled(), MemorySink()
    drained(worker_on(kafka, sink), kafka)
    put(kafka, event("9"))
    watcher = Watcher()
    worker = worker_on(kafka, sink, watcher=watcher, group="renamed")
    # It ends once that is stored. No poll brought nothing but the one that brought partitions.
    worker.run(lambda: bool(watcher.fates))
    assert (committed(kafka, "renamed"), watcher.idled) == (ledger_ends(kafka, sink), 1)


def test_what_the_ledger_does_not_know_is_not_committed_by_whoever_starts_at_the_end():
    kafka, sink, watcher = filled(), MemorySink(), Watcher()
    idle(worker_on(kafka, sink, watcher=watcher, start=Start.END), watcher)
    assert committed(kafka, GROUP) == {}


def test_what_the_broker_did_not_hear_is_committed_by_the_next_turn_and_then_no_more():
    kafka, sink, watcher = filled(), MemorySink(), Watcher()
    drained(worker_on(kafka, sink), kafka)
    kafka.inject("commit", BrokerUnavailable("away"), 2)
    deeds = Mortal()
    idle(worker_on(kafka, sink, watcher=watcher, mortal=deeds, group="renamed"), watcher, times=6)
    assert committed(kafka, "renamed") == ledger_ends(kafka, sink)
    assert (deeds.deeds, watcher.told.count(("waits", BrokerUnavailable))) == (3, 2)


def test_an_offset_that_the_topic_does_not_have_is_never_committed():
    kafka, sink = filled(), MemorySink()
    drained(worker_on(kafka, sink), kafka)
    with pytest.raises(StartUnknownError, match="made anew"):
        drained(worker_on(cluster_again := cluster(), sink), cluster_again)
    assert committed(cluster_again, GROUP) == {}


def test_a_new_group_reads_an_old_topic_from_its_beginning():
    kafka, sink = cluster(), MemorySink()
    put(kafka, *(event(str(number)) for number in range(5)))
    kafka.expire(TopicPartition(EVENTS, 0), 2)
    drained(worker_on(kafka, sink), kafka)
    assert {row["event_id"] for row in sink.seen("terminal_events")} == {"2", "3", "4"}


def test_offsets_that_expired_are_told_and_stay_a_hole():
    kafka, sink, watcher = cluster(), MemorySink(), Watcher()
    put(kafka, *(event(str(number)) for number in range(3)))
    drained(worker_on(kafka, sink), kafka)
    put(kafka, *(event(str(number)) for number in range(3, 9)))
    kafka.expire(TopicPartition(EVENTS, 0), 6)
    drained(worker_on(kafka, sink, watcher=watcher), kafka)
    assert ("expired", (TopicPartition(EVENTS, 0), 3, 6)) in watcher.told
    (totals,) = sink.ledger_totals(EVENTS, "0")
    assert (totals.read, totals.end_offset, totals.missing_offsets) == (6, 9, 3)


def test_a_topic_that_was_made_anew_is_refused():
    kafka, sink = cluster(), MemorySink()
    put(kafka, *(event(str(number)) for number in range(3)))
    drained(worker_on(kafka, sink), kafka)
    again = cluster()
    put(again, event("0"))
    with pytest.raises(StartUnknownError, match="made anew"):
        drained(worker_on(again, sink), again)


def test_holes_are_explained_tombstones_left_out_and_sizes_held():
    kafka, sink = cluster(), MemorySink()
    body = encode_single_object(event("0"))
    limit = len(body)
    put(kafka, body, None, body + b"!", encode_single_object(event("00")))
    kafka.skip(TopicPartition(EVENTS, 0), 3)
    put(kafka, encode_single_object(event("1"))[:-1])
    drained(worker_on(kafka, sink, limits=Limits(message_bytes=limit), batch=100), kafka)
    ledger = {row["offset"]: (row["disposition"], row["next_offset"]) for row in sink.seen("ingest_ledger")}
    assert ledger == {
        0: ("classified", 1), 1: ("filtered", 2), 2: ("dead_lettered", 3), 3: ("dead_lettered", 7),
        7: ("dead_lettered", 8),
    }  # fmt: skip
    codes = {row["offset"]: row["reason_code"] for row in sink.seen("dead_letters")}
    assert codes == {2: "too_large", 3: "too_large", 7: "bad_avro"}


def test_a_dead_letter_is_the_whole_message_with_secrets_masked_everywhere():
    kafka, sink = cluster(), MemorySink()
    secret = "hunter" + "2hunter2"
    headers = (("trace", b"1"), ("authorization", f"password={secret}".encode()), ("trace", b"2"), ("none", None))
    kafka.append(
        Outgoing(EVENTS, f"password={secret}".encode(), f"password={secret} nonsense".encode(), headers, 1, 5_000)
    )
    drained(worker_on(kafka, sink), kafka)
    (row,) = sink.seen("dead_letters")
    assert dict(row["headers"]).keys() == {"trace", "authorization", "trace[1]", "none"}
    assert (row["masked"], row["partition"], row["offset"], row["timestamp"]) == (True, "1", 0, 5_000)
    assert len(row["raw"]) == len(f"password={secret} nonsense")
    (copy,) = kafka.messages(TOPICS.dead_letters.name)
    assert secret not in repr((row, copy))


def test_a_secret_in_the_second_header_of_a_name_or_in_a_name_is_masked():
    kafka, sink = cluster(), MemorySink()
    secret, key = "hunter" + "2hunter2", "sk-ant-" + "api03-" + "a1" * 20
    headers = (("password", secret.encode()), ("password", secret.encode()), (key, b"1"))
    kafka.append(Outgoing(EVENTS, b"k", b"nonsense", headers, 0, 5_000))
    drained(worker_on(kafka, sink), kafka)
    (row,) = sink.seen("dead_letters")
    assert dict(row["headers"]) == {"password": b"*" * 14, "password[1]": b"*" * 14, "*" * len(key): b"1"}
    (copy,) = kafka.messages(TOPICS.dead_letters.name)
    assert secret not in repr((row, copy))
    assert key not in repr((row, copy))
