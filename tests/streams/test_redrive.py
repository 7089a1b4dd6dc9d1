"""Dead letters as messages: what is whole, what is named, what fits, and what a hostile header can do."""

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.rows import DeadLetterRow
from streams.clock import SystemClock
from streams.kafka.errors import BrokerRejected
from streams.kafka.fake import FakeCluster
from streams.kafka.kafka_python.client import KafkaPythonClient
from streams.kafka.seam import Connection, NewTopic, Outgoing, TopicPartition
from streams.redrive import (
    CUT_FROM,
    MASKED,
    MESSAGE,
    MOST_REPLAYS,
    ORIGIN_OFFSET,
    ORIGIN_PARTITION,
    ORIGIN_TOPIC,
    OURS,
    REASON,
    REPLAY_COUNT,
    Candidate,
    Policy,
    Redriver,
    Refusal,
    State,
    dlq_message,
    dlq_notice,
    original_headers,
    redriven,
    replay_count_of,
)
from streams.topics import Sizing, Topics

DLQ = Topics.planned(Sizing(replication_factor=1, max_message_bytes=4096)).dead_letters
LETTER = DeadLetterRow(
    source="terminal-events", partition="3", offset=41, timestamp=1_764_489_600_123_000, raw=b"{",
    headers={"traceparent": b"00-1", "h": b"", "h[1]": b"b"}, reason_code="bad_json", field_path="", message="no JSON",
    masked=False, tries=1, replay_count=1, recorded_at=1_764_489_600_123_457, key=b"acme/r",
)  # fmt: skip

# The count of replays


@pytest.mark.parametrize(
    ("values", "count"),
    [([], 0), ([b"2"], 2), ([b"2", b"1"], 2), ([b"", None, b"-1", b"1e3", b" 1", "٣".encode(), b"0x1"], 0),
     ([b"9" * 9], MOST_REPLAYS), ([b"9" * 5000], 0), ([b"007"], 7)],
)  # fmt: skip
def test_the_count_of_replays_is_bounded_whatever_the_header_says(values, count):
    assert replay_count_of(tuple((REPLAY_COUNT, value) for value in values)) == count


@given(st.lists(st.tuples(st.sampled_from([REPLAY_COUNT, "other"]), st.none() | st.binary(max_size=12))))
def test_no_header_breaks_the_count(headers):
    assert 0 <= replay_count_of(tuple(headers)) <= MOST_REPLAYS


@given(st.integers(0, MOST_REPLAYS - 1))
def test_a_redriven_message_counts_one_more(count):
    letter = LETTER._replace(replay_count=count)
    sent = redriven(letter, b"k", b"v", ((REPLAY_COUNT, b"%d" % count),), "redrive")
    assert replay_count_of(sent.headers) == count + 1


# On the way back


def test_a_redriven_message_is_whole_and_names_its_origin():
    headers = (("traceparent", b"00-1"), ("a", None), ("a", b"2"), (ORIGIN_TOPIC, b"hostile"), (REPLAY_COUNT, b"900"))
    sent = redriven(LETTER, b"key", b"value", headers, "redrive")
    assert (sent.topic, sent.key, sent.value, sent.partition) == ("redrive", b"key", b"value", None)
    assert sent.headers[:3] == headers[:3]
    ours = dict(sent.headers[3:])
    assert ours[ORIGIN_TOPIC] == b"terminal-events"
    assert (ours[ORIGIN_PARTITION], ours[ORIGIN_OFFSET]) == (b"3", b"41")
    assert (ours[REPLAY_COUNT], ours[REASON]) == (b"2", b"bad_json")
    assert len(ours) == len(sent.headers) - 3


def test_repeated_headers_come_back_under_their_name():
    assert original_headers(LETTER.headers) == (("traceparent", b"00-1"), ("h", b""), ("h", b"b"))
    assert original_headers({"list[0]": b"as it was"}) == (("list[0]", b"as it was"),)


# Onto the topic of dead letters


def test_a_dead_letter_is_a_whole_message_with_its_reason():
    sent = dlq_message(LETTER, DLQ)
    assert (sent.topic, sent.key, sent.value) == ("terminal-events.dlq", b"acme/r", b"{")
    headers = dict(sent.headers)
    assert (headers["traceparent"], headers[REASON], headers[MASKED]) == (b"00-1", b"bad_json", b"false")
    assert headers[ORIGIN_OFFSET] == b"41"
    assert CUT_FROM not in headers
    assert replay_count_of(sent.headers) == 1


def test_a_header_that_pretends_to_be_ours_does_not_count():
    stored = {ORIGIN_OFFSET: b"7", f"{ORIGIN_OFFSET}[1]": b"8", REPLAY_COUNT: b"999"}
    sent = dlq_message(LETTER._replace(headers=stored), DLQ)
    assert [value for name, value in sent.headers if name == ORIGIN_OFFSET] == [b"41"]
    assert replay_count_of(sent.headers) == 1


def test_a_long_message_is_shortened_and_a_lone_surrogate_breaks_nothing():
    headers = dict(dlq_message(LETTER._replace(message="\ud800" + "x" * 10_000), DLQ).headers)
    assert headers[MESSAGE].startswith(b"?xxx")
    assert len(headers[MESSAGE]) == 1000


def test_a_message_at_the_limit_of_its_topic_fits_whole():
    letter = LETTER._replace(raw=b"x" * 4096)
    assert dlq_message(letter, DLQ).value == letter.raw


def test_what_does_not_fit_loses_its_headers_first_and_its_end_last():
    limit = DLQ.max_message_bytes
    no_headers = dlq_message(LETTER._replace(raw=b"x" * (limit - 8_000), headers={"h": b"h" * 8_000}), DLQ)
    assert len(no_headers.value) == limit - 8_000
    assert {name for name, _ in no_headers.headers} <= OURS
    cut = dlq_message(LETTER._replace(raw=b"x" * limit), DLQ)
    assert 0 < len(cut.value) < limit
    assert dict(cut.headers)[CUT_FROM] == str(limit).encode()


@pytest.mark.parametrize("key", [None, b"k" * 100_000])
def test_a_notice_has_nothing_of_the_message_and_names_it(key):
    notice = dlq_notice(LETTER._replace(key=key, raw=b"secret"), DLQ)
    assert (notice.key, notice.value) == (None, b"")
    assert dict(notice.headers)[CUT_FROM] == b"6"
    assert dict(notice.headers)[ORIGIN_TOPIC] == b"terminal-events"


SIZES = [0, 4096, DLQ.max_message_bytes - 3_000, DLQ.max_message_bytes, DLQ.max_message_bytes * 2]


def test_every_letter_can_be_sent_in_memory():
    cluster = FakeCluster()
    cluster.create(NewTopic(DLQ.name, 1, 1, dict(DLQ.settings)))
    for size in SIZES:
        cluster.client().producer().send(dlq_message(LETTER._replace(raw=b"x" * size), DLQ)).result(0)
    assert len(cluster.messages(DLQ.name)) == len(SIZES)


def test_every_letter_can_be_sent_to_a_real_broker(broker, fresh):
    topic = replace(DLQ, name=fresh("dlq"))
    client = KafkaPythonClient(Connection((broker.bootstrap,)))
    admin, producer = client.admin(), client.producer()
    try:
        admin.create_topics([NewTopic(topic.name, 1, 1, dict(topic.settings))])
        for size in SIZES:
            letter = LETTER._replace(raw=b"x" * size, headers={"h": b"h" * 2_000})
            assert producer.send(dlq_message(letter, topic)).result(20).partition.topic == topic.name
        with pytest.raises(BrokerRejected):
            producer.send(replace(dlq_message(LETTER, topic), value=b"x" * topic.max_message_bytes)).result(20)
    finally:
        producer.close()
        admin.close()


# From the source, on a real broker


def test_on_a_real_broker_a_masked_letter_comes_from_its_source_and_an_expired_one_does_not(broker, fresh):
    source, target = fresh("events"), fresh("redrive")
    client = KafkaPythonClient(Connection((broker.bootstrap,), timeout_s=20))
    admin, producer = client.admin(), client.producer()
    try:
        admin.create_topics([NewTopic(source, 1, 1, {}), NewTopic(target, 2, 1, {})])
        at = producer.send(Outgoing(source, b"key", b"secret", (("h", b"1"), ("h", None)))).result(20)
        masked = LETTER._replace(
            source=source, partition="0", offset=at.offset, raw=b"******", masked=True, timestamp=None
        )
        letters = {_place(each): each for each in (masked, masked._replace(offset=99), LETTER)}
        rows, results = [], []
        redriver = Redriver(
            client, producer, target, Policy(), lambda places: {place: letters[place] for place in places},
            rows.extend, SystemClock(), 20,
        )  # fmt: skip
        results += redriver.run(Candidate(place, State.DEAD, 0, 6) for place in letters)
        assert [result.refusal for result in results if result.refusal] == [Refusal.SOURCE_GONE]
        reader = client.reader([TopicPartition(target, number) for number in (0, 1)])
        found = {}
        for number in (0, 1):
            reader.seek(TopicPartition(target, number), 0)
        deadline = time.monotonic() + 20
        while len(found) < 2 and time.monotonic() < deadline:
            for fetched in reader.poll(1, 10):
                found |= {(m.topic, str(m.partition), m.offset): m for m in fetched.messages}
        reader.close()
        assert {message.value for message in found.values()} == {b"secret", LETTER.raw}
        assert {(row.topic, row.topic_partition, row.topic_offset) for row in rows} == set(found)
        (secret,) = (message for message in found.values() if message.value == b"secret")
        assert (secret.key, secret.headers[:2]) == (b"key", (("h", b"1"), ("h", b"")))
    finally:
        producer.close()
        admin.close()


def _place(letter):
    return letter.source, letter.partition, letter.offset
