"""The broker goes and comes back, refuses dead letters, forgets offsets, and has logs with holes."""

import time
from contextlib import closing

import confluent_kafka
import pytest

from streams.kafka.seam import Outgoing, TopicPartition
from tests.faults.deployment import eventually

# kafka-python does not close a socket whose connection was refused or cut off.
pytestmark = pytest.mark.filterwarnings(r"ignore:[\s\S]*unclosed <s:pytest.PytestUnraisableExceptionWarning")
AWAY_S = 8
WAITS = "waiting for an outage to end"


def delete_before(deployment, partition, offset):
    """Let everything before an offset expire."""
    place = confluent_kafka.TopicPartition(deployment.events, partition, offset)
    deployment.order(lambda admin: admin.delete_records([place]))


def test_a_broker_that_is_killed_and_comes_back(deploy, own_broker):
    broker = own_broker()
    deployment = deploy(broker)
    book = deployment.book
    life = deployment.live(pages=True, batch_records=20, flush_s=2.0)
    life.until_told("assigned")
    deployment.send([book.event(f"before-{n}") for n in range(200)] + [b"poison"], partition=None)
    broker.kill()
    gone = time.monotonic()
    eventually(lambda: life.page("/readyz")[0] == 503, life.said)
    eventually(lambda: time.monotonic() > gone + AWAY_S)
    assert life.page("/livez")[0] == 200
    broker.start()
    deployment.send([book.event(f"after-{n}") for n in range(200)] + [b"poison"], partition=None)
    deployment.until_stored()
    eventually(lambda: life.page("/readyz")[0] == 200, life.said)
    assert life.end() == 0
    count = deployment.recount()
    assert len(count.exits) == 400


def test_no_offset_passes_a_dead_letter_that_nobody_takes(deploy, broker):
    """The topic of dead letters goes while the worker runs."""
    deployment = deploy(broker, config={"kafka": {"timeout_s": 3}})
    book = deployment.book
    deployment.send([b"first poison"])
    life = deployment.live(flush_s=1.0)
    deployment.until_stored()
    deployment.drop_dead_letters()
    deployment.send([book.event("a"), b"poison", book.event("b")])
    life.until_told(WAITS, 2)
    part = TopicPartition(deployment.events, 0)
    assert (deployment.recorded()[part], deployment.committed()[part]) == (1, 1)
    deployment.make_topics(deployment.topics.dead_letters)
    deployment.until_stored()
    assert life.end() == 0
    deployment.recount(dead_letters_since=1)


def test_a_topic_of_dead_letters_that_is_not_there_stops_the_worker_and_loses_nothing(deployment):
    book = deployment.book
    deployment.drop_dead_letters()
    deployment.send([book.event("a"), b"poison", book.event("b")])
    life = deployment.live(flush_s=1.0)
    assert life.wait() == 2, life.said()
    assert deployment.topics.dead_letters.name in life.said()
    assert (deployment.recorded(), deployment.committed()) == ({}, {})
    deployment.make_topics(deployment.topics.dead_letters)
    deployment.drain()
    deployment.recount()


def test_a_new_group_on_an_old_topic_begins_with_the_oldest_message_there_is(deployment):
    book = deployment.book
    deployment.send([book.event(f"e-{n}") for n in range(10)])
    delete_before(deployment, 0, 4)
    deployment.drain()
    count = deployment.recount()
    assert set(count.exits) == {f"e-{n}" for n in range(4, 10)}


def test_offsets_that_expire_before_they_are_read_are_told_and_never_taken_for_read(deployment):
    book = deployment.book
    deployment.send([book.event(f"e-{n}") for n in range(5)])
    deployment.drain()
    read = deployment.log()
    deployment.send([book.event(f"e-{n}") for n in range(5, 15)])
    delete_before(deployment, 0, 9)
    life = deployment.drain()
    assert life.told("messages were deleted by the broker before they were read") == 1
    count = deployment.recount([*read, *deployment.log()])
    assert len(count.exits) == 11


def test_a_group_with_offsets_and_no_ledger_does_not_start_until_it_is_told_where(deployment):
    book, part = deployment.book, TopicPartition(deployment.events, 0)
    deployment.send([book.event(f"e-{n}") for n in range(6)])
    settings = {"bootstrap.servers": deployment.broker.bootstrap, "group.id": deployment.group}
    other = confluent_kafka.Consumer(settings | {"enable.auto.commit": False})
    other.commit(offsets=[confluent_kafka.TopicPartition(part.topic, 0, 4)], asynchronous=False)
    other.close()
    refused = deployment.live("--until-end")
    assert refused.wait() == 2
    assert "--start-from" in refused.said()
    assert deployment.recorded() == {}
    deployment.drain(start="committed")
    assert {row["event_id"] for row in deployment.rows("SELECT event_id FROM v_exits")} == {"e-4", "e-5"}


def test_what_a_transaction_undid_is_not_read_and_its_marks_are_no_gap(deployment):
    book = deployment.book
    settings = {"bootstrap.servers": deployment.broker.bootstrap, "transactional.id": deployment.name}
    producer = confluent_kafka.Producer(settings)
    producer.init_transactions()
    for number in range(6):
        producer.begin_transaction()
        for each in range(5):
            producer.produce(deployment.events, book.event(f"{number}-{each}"), b"k", partition=0)
        if number % 2:
            producer.flush()
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    deployment.send([book.event("behind")])
    deployment.drain(batch_records=4)
    count = deployment.recount()
    assert set(count.exits) == {"behind", *(f"{n}-{each}" for n in (0, 2, 4) for each in range(5))}


def test_holes_of_compaction_and_tombstones_are_no_gap(deploy, broker):
    """Our own topics are not compacted; somebody may have set it all the same."""
    deployment = deploy(broker, partitions=1)
    book, topic = deployment.book, deployment.events
    config = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001",
              "min.compaction.lag.ms": "0", "delete.retention.ms": "60000"}  # fmt: skip
    with closing(deployment.client.admin()) as admin:
        admin.set_config(topic, config)
    with closing(deployment.client.producer()) as producer:
        for number in range(20):
            value = None if number == 19 else book.event(f"e-{number}")
            producer.send(Outgoing(topic, b"key-%d" % (number % 3), value, (), 0)).result(60)

    def has_holes():
        # A segment is closed by what comes after it.
        deployment.send([book.event("last")])
        return deployment.ends()[TopicPartition(topic, 0)] - len(deployment.log()) > 10

    eventually(has_holes)
    deployment.drain(batch_records=3)
    deployment.recount()
