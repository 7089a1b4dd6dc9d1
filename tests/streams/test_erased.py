"""What was erased on request stays erased in what is announced, however its event comes again."""

import json
from collections import Counter

import pytest

from schemas.exits import KINDS
from sinks.erasure import ERASED_WORDS
from streams.exit_message import decode_exit
from streams.kafka.errors import BrokerUnavailable
from streams.parallel import Pool
from tests.cases import load_cases
from tests.streams.memory_sink import MemorySink
from tests.streams.test_classify import cluster, drained, event, put, worker_on
from tests.streams.test_judging import SETUP

EXITS = "exit-classifications"
ONE = ("terminal_event", ("acme", "1"))


def announced(kafka):
    """What stands on the topic, in its order: id of the event, and explanation."""
    exits = [decode_exit(message.value) for message in kafka.messages(EXITS)]
    return [(each["event_id"], each["envelope"]["explanation"]) for each in exits]


def told(kafka, since=0):
    """Of each event that was announced after the first ``since`` messages, whether its words were."""
    return Counter((event_id, words != ERASED_WORDS) for event_id, words in announced(kafka)[since:])


def noted(sink):
    """Erase event 1 in a sink, as the command does it."""
    sink.noted.add(ONE)


def expired(sink):
    """The same, and its rows are gone by their age since."""
    noted(sink)
    sink.tables["terminal_events"].clear()
    sink.tables["exit_classifications"].clear()


@pytest.mark.parametrize("erase", [noted, expired])
@pytest.mark.parametrize("batch", [1, 4])
def test_an_event_that_comes_again_is_announced_without_words(erase, batch):
    kafka, sink = cluster(), MemorySink()
    put(kafka, event("1"), event("2"))
    drained(worker_on(kafka, sink), kafka)
    assert told(kafka) == {("1", True): 1, ("2", True): 1}
    erase(sink)
    put(kafka, event("1"), event("2"), event("1"), event("3"))
    drained(worker_on(kafka, sink, batch=batch), kafka)
    assert told(kafka, since=2) == {("1", False): 2, ("2", True): 1, ("3", True): 1}


class ErasedAt(MemorySink):
    """Somebody erases event 1 right after rows of a table were inserted."""

    def __init__(self, table):
        super().__init__()
        self.table = table

    def insert(self, table, stream):
        super().insert(table, stream)
        if table == self.table:
            noted(self)


@pytest.mark.parametrize("again", [(), ("2",)])
def test_what_is_erased_once_its_event_is_stored_is_announced_without_words(again):
    kafka, sink = cluster(), ErasedAt("terminal_events")
    put(kafka, *map(event, ("1", "2", *again)))
    drained(worker_on(kafka, sink), kafka)
    assert told(kafka) == {("1", False): 1, ("2", True): 1 + len(again)}


def test_what_is_erased_while_the_broker_is_away_is_announced_without_words_once_it_is_back():
    kafka, sink = cluster(), ErasedAt("exit_classifications")
    kafka.inject("send", BrokerUnavailable("away"))
    put(kafka, event("1"), event("2"))
    drained(worker_on(kafka, sink), kafka)
    assert set(told(kafka)) == {("1", False), ("2", True)}


def test_other_processes_that_judge_give_no_words_either():
    kafka, sink = cluster(), MemorySink()
    put(kafka, event("1"), event("2"))
    drained(worker_on(kafka, sink), kafka)
    noted(sink)
    put(kafka, event("1"), event("2"))
    put(kafka, event("1"), event("2"), partition=1)
    with Pool(2).started(SETUP) as judge:
        worker = worker_on(kafka, sink)
        worker.judge = judge
        drained(worker, kafka)
    assert told(kafka, since=2) == {("1", False): 2, ("2", True): 2}


def test_an_exit_of_each_kind_is_announced_with_what_the_store_has_of_it():
    cases = {case.id: json.dumps(case.json | {"event_id": case.id, "tenant": "acme"}).encode() for case in load_cases()}
    kafka, sink = cluster(), MemorySink()
    sink.noted = {("terminal_event", ("acme", name)) for name in cases}
    put(kafka, *cases.values())
    drained(worker_on(kafka, sink, batch=1000), kafka)
    stored = {row["event_id"]: json.loads(row["envelope"] or "null") for row in sink.seen("exit_classifications")}
    exits = {each["event_id"]: each for each in (decode_exit(message.value) for message in kafka.messages(EXITS))}
    assert (exits.keys(), {each["kind"] for each in exits.values()}) == (cases.keys(), set(KINDS))
    envelopes = {name: each["envelope"] for name, each in exits.items()}
    assert {name: given_of(each) for name, each in envelopes.items()} == {
        n: given_of(each) for n, each in stored.items()
    }
    for each in filter(None, envelopes.values()):
        said = (each.get("explanation", ERASED_WORDS), each["side_effects"], each.get("result_ref"))
        assert said == (ERASED_WORDS, [], None)


def given_of(envelope):
    """The fields of an envelope that are there, which the store leaves out where they are null."""
    return envelope and {name: value for name, value in envelope.items() if value is not None}
