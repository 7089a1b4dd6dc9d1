"""Partitions move while batches are in flight: nobody's batch is lost, nobody's is doubled."""

import signal
import threading

from tests.faults.deployment import eventually

SLOW = "INSERT INTO terminal_events"


def test_a_partition_moves_while_its_batch_is_in_flight(deployment):
    """The first worker is in its insert when the second joins, and longer than the group waits."""
    deployment.double.delay(4, on=SLOW)
    deployment.send(deployment.book.some("a", 60), partition=None)
    first = deployment.live(batch_records=1_000, max_poll_interval_s=2.0)
    first.until_told("assigned")
    second = deployment.live(batch_records=10, max_poll_interval_s=2.0)
    second.until_told("assigned")
    deployment.send(deployment.book.some("b", 60), partition=None)
    deployment.until_stored()
    assert (first.end(), second.end()) == (0, 0)
    deployment.recount()


def test_a_worker_that_was_stopped_past_the_poll_interval_wakes_behind_its_successor(deployment):
    deployment.double.delay(3, on=SLOW)
    deployment.send(deployment.book.some("a", 80), partition=None)
    first = deployment.live(batch_records=1_000, max_poll_interval_s=2.0)
    first.until_told("assigned")
    first.signal(signal.SIGSTOP)
    second = deployment.live(batch_records=15, max_poll_interval_s=2.0)
    deployment.until_stored()
    deployment.send(deployment.book.some("b", 40), partition=None)
    deployment.until_stored()
    first.signal(signal.SIGCONT)
    deployment.send(deployment.book.some("c", 40), partition=None)
    deployment.until_stored()
    # It is a member again, and both share the partitions.
    eventually(lambda: first.told("assigned") >= 2 or first.told("lost"), first.said)
    assert (first.end(), second.end()) == (0, 0)
    deployment.recount()


def test_a_third_worker_joins_and_leaves_three_times_under_a_burst(deploy, broker):
    deployment = deploy(broker, partitions=3)  # of fewer, the third would have none
    lives = [deployment.live(batch_records=500) for _ in range(2)]
    for life in lives:
        life.until_told("assigned")
    burst = threading.Thread(target=deployment.send, args=(deployment.book.some("e", 8_000), None))
    burst.start()
    for number in range(3):
        third = deployment.live(batch_records=100)
        third.until_told("assigned")
        if number == 1:
            third.kill()
        else:
            assert third.end() == 0
    burst.join()
    deployment.until_stored()
    for life in lives:
        assert life.end() == 0, life.said()
    count = deployment.recount()
    assert len(count.exits) == 8_000


def test_partitions_that_come_while_the_store_cannot_be_asked_wait_for_it(deployment):
    deployment.send(deployment.book.some("a", 40), partition=None)
    first = deployment.live(batch_records=10)
    deployment.until_stored()
    deployment.double.refuse(202, on="FROM ingest_ledger", times=None)
    second = deployment.live(batch_records=10)
    second.until_told("waiting for an outage to end", 2)
    deployment.double.clear()
    deployment.send(deployment.book.some("b", 40), partition=None)
    deployment.until_stored()
    assert (first.end(), second.end()) == (0, 0)
    deployment.recount()
