"""A batch that was given up is read again before anything behind it is stored: the ledger's end hides no hole."""

import pytest

from tests.streams.memory_sink import MemorySink
from tests.streams.test_classify import Watcher, cluster, drained, event, put, worker_on


def offsets(sink):
    return sorted(row["offset"] for row in sink.seen("ingest_ledger"))


def test_told_to_stop_in_an_outage_it_stores_nothing_behind_what_it_gives_up():
    kafka, sink, watcher = cluster(), MemorySink(), Watcher()
    put(kafka, *(event(f"e-{n}") for n in range(12)))
    sink.outages = [2]  # the first batch's evidence; by the next insert the store is back
    worker = worker_on(kafka, sink, watcher=watcher)
    worker.run(lambda: any(name == "waits" for name, _ in watcher.told))
    stored = offsets(sink)
    assert stored == list(range(len(stored)))
    drained(worker_on(kafka, sink), kafka)
    assert offsets(sink) == list(range(12))


@pytest.mark.parametrize("at", range(1, 12))
def test_a_batch_that_fails_while_other_partitions_go_leaves_no_hole(at):
    """A partition comes or goes in the middle of an outage; those that are kept lose nothing."""
    kafka, sink, watcher = cluster(), MemorySink(), Watcher()
    put(kafka, *(event(f"e-{n}") for n in range(40)))
    worker = worker_on(kafka, sink, watcher=watcher)
    sink.outages = [at]
    poll, turns = worker._poll, []

    def poll_and_move(consumer):
        fetched = poll(consumer)
        turns.append(fetched)
        if len(turns) in {2, 4, 6}:
            worker.on_revoked(consumer, frozenset())
        return fetched

    worker._poll = poll_and_move
    drained(worker, kafka)
    assert offsets(sink) == list(range(40))
