"""Partitions that come while store or broker cannot be asked where they go on."""

import pytest

from sinks.errors import StoreUnavailable
from streams.kafka.errors import BrokerUnavailable
from tests.streams.memory_sink import MemorySink
from tests.streams.test_classify import Watcher, cluster, drained, event, put, worker_on


@pytest.mark.parametrize("error", [StoreUnavailable("away"), BrokerUnavailable("away")])
@pytest.mark.parametrize("tries", [1, 5])
def test_they_wait_and_are_then_read_from_where_the_ledger_ends(error, tries):
    kafka, sink, watcher = cluster(), MemorySink(), Watcher()
    put(kafka, *(event(f"early-{n}") for n in range(3)))
    drained(worker_on(kafka, sink), kafka)
    put(kafka, *(event(f"late-{n}") for n in range(3)))
    worker = worker_on(kafka, sink, watcher=watcher)
    resume, left = worker.resume, [error] * tries

    def resume_in_an_outage(partition):
        if left:
            raise left.pop()
        return resume(partition)

    worker.resume = resume_in_an_outage
    drained(worker, kafka)
    assert [what for name, what in watcher.told if name == "waits"] == [type(error)] * tries
    assert [name for name, _ in watcher.told if name == "assigned"] == ["assigned"]
    assert watcher.fates.total() == 3
    assert len(sink.seen("terminal_events")) == 6
