"""The classify worker with others that judge for it: later, in another order, or not at all."""

import os
from concurrent.futures import Future

import pytest

from schemas.redaction import Redactor
from streams.classify import joined
from streams.kafka.seam import Fetched, Message, TopicPartition
from streams.messages import NoRegistry
from streams.parallel import Pool, WorkerLostError
from streams.worker import Setup
from tests.streams.memory_sink import MemorySink
from tests.streams.test_classify import (
    REDACTOR,
    TABLE,
    Watcher,
    cluster,
    contents,
    drained,
    event,
    filled,
    in_this_process,
    put,
    reference,
    worker_on,
)

SETUP = Setup(TABLE.text, REDACTOR, announcements=True, schemas=NoRegistry)


class Dying(Redactor):
    """Ends the process that uses it."""

    def suspicious(self, block: bytes) -> bool:
        os._exit(9)


class Late:
    """Judges only when its answer is asked for by ``after`` further tasks, the newest first."""

    def __init__(self, after):
        self.judge, self.after, self.waiting = in_this_process(SETUP), after, []

    def __call__(self, task):
        outcome = Future()
        self.waiting.append((outcome, task))
        if len(self.waiting) > self.after:
            while self.waiting:
                last, its = self.waiting.pop()
                last.set_result(self.judge(its).result())
        return outcome


def offsets(sink):
    return sorted(row["offset"] for row in sink.seen("ingest_ledger"))


def test_other_processes_judge_and_what_is_stored_is_the_same():
    kafka, sink = filled(), MemorySink()
    worker = worker_on(kafka, sink)
    with Pool(2).started(SETUP) as worker.judge:
        drained(worker, kafka)
    assert contents(sink) == contents(reference())


def test_a_batch_that_is_judged_first_is_not_stored_before_the_one_before_it():
    kafka, sink, watcher = cluster(), MemorySink(), Watcher()
    put(kafka, *(event(f"e-{n}") for n in range(12)))
    worker = worker_on(kafka, sink, watcher=watcher, batch=3)
    worker.judge = Late(after=1)
    insert, order = sink.insert, []

    def noted(table, stream):
        insert(table, stream)
        order.append((table, offsets(sink)))

    worker.writer.sink.insert = noted
    drained(worker, kafka)
    ledgers = [seen for table, seen in order if table == "ingest_ledger"]
    assert ledgers == [list(range(end)) for end in (3, 6, 9, 12)]


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_what_was_judged_before_an_outage_is_stored_as_it_was(failing):
    """The same bytes again, so that a store that has them already knows them; and nothing is judged twice."""
    kafka, sink, judged = cluster(), MemorySink(), []
    put(kafka, *(event(f"e-{n}") for n in range(12)))
    worker = worker_on(kafka, sink, batch=3)
    judge = worker.judge

    def counted(task):
        judged.append(task.batch.items[0].offset)
        return judge(task)

    worker.judge = counted
    sink.outages = list(range(1, 1 + failing))
    drained(worker, kafka)
    assert judged == [0, 3, 6, 9]
    assert offsets(sink) == list(range(12))


def test_a_process_that_is_lost_ends_the_worker_and_stores_nothing_of_its_batch():
    kafka, sink = filled(), MemorySink()
    worker = worker_on(kafka, sink)
    setup = Setup(TABLE.text, Dying(b"a key of the tests, long enough"), schemas=NoRegistry)
    with pytest.raises(WorkerLostError), Pool(1).started(setup) as worker.judge:
        drained(worker, kafka)
    assert offsets(sink) == []
    drained(worker_on(kafka, sink), kafka)
    assert contents(sink) == contents(reference())


@pytest.mark.parametrize("processes", [0, 1])
def test_an_error_of_the_work_is_raised_where_its_outcome_is_asked_for(processes):
    with Pool(processes).started(SETUP) as judge:
        outcome = judge(None)
        with pytest.raises(AttributeError):
            outcome.result()


def fetched(partition, start, *offsets, end):
    place = TopicPartition("events", partition)
    return Fetched(place, start, [Message(*place, offset, None, None, b"", ()) for offset in offsets], end)


def test_what_many_polls_brought_of_a_partition_is_one_part_unless_something_lies_between():
    parts = [
        fetched(0, 3, 3, 4, end=5), fetched(1, 0, end=2), fetched(0, 5, 6, end=9), fetched(1, 2, 2, end=3),
        fetched(0, 3, 3, end=4), fetched(0, 4, 4, end=5), fetched(0, 7, 7, end=8),
    ]  # fmt: skip
    found = [(part.partition.partition, part.start_offset, [m.offset for m in part.messages], part.next_offset)
             for part in joined(parts)]  # fmt: skip
    assert found == [(0, 3, [3, 4, 6], 9), (1, 0, [2], 3), (0, 3, [3, 4], 5), (0, 7, [7], 8)]
