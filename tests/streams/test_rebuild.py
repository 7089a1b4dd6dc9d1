"""What a rebuild makes of pages of stored events, without a store: which rows, in which batches, counted how."""

import json

import pytest

from classifier.decide import CLASSIFIER_VERSION, Classifier
from classifier.table import default_text, load
from sinks.rows import Position, read_rows
from sinks.store import Standing, StoredEvent
from streams import rebuild
from streams.rebuild import Plan, Rebuild, Report, Task
from tests.cases import load_cases

TABLE = load(default_text())
STRICT = load(default_text().replace('unverified_completion = "completed"', 'unverified_completion = "human_queue"'))
NOW = 1_764_489_600_123_456
EVENTS = [case.event for case in load_cases()[:30]]
OLD = ("completed", "completion_unverified")


def stored(event, text=None):
    """An event as the store keeps it."""
    kept = json.dumps(event).encode() if text is None else text
    return StoredEvent(event["tenant"], event["event_id"], kept, "", "", Position("file", "p", 0), NOW)


def key(event):
    return event["tenant"], event["event_id"]


class Kept:
    """A store that knows ``known`` and takes inserts; ``ends_before`` is the number of the one that fails, from 1."""

    def __init__(self, known=None, ends_before=0):
        self.known, self.ends_before, self.asked = known or {}, ends_before, []
        self.noted: set[tuple[str, str]] = set()
        """Events that were erased on request."""
        self.batches: list[list[dict[str, object]]] = []

    def insert(self, table, stream):
        assert table == "exit_classifications"
        if len(self.batches) + 1 == self.ends_before:
            raise OSError
        self.batches.append(read_rows(stream))

    def standings(self, keys, table_digest, classifier_version):
        self.asked.append((list(keys), table_digest, classifier_version))
        return {each: self.known[each] for each in keys if each in self.known}

    def erased(self, keys, record_type):
        assert record_type == "terminal_event"
        return self.noted & set(keys)

    @property
    def inserted(self):
        return [(row["tenant"], row["event_id"]) for batch in self.batches for row in batch]


def here(plan, tasks):
    """Run every task in this process, one after the other."""
    worker = plan.start()
    return (worker.run(task) for task in tasks)


def pages(size, events=EVENTS):
    return [[stored(event) for event in events[at : at + size]] for at in range(0, len(events), size)]


def run(store, given, table=TABLE, **options):
    report = Report()
    counts = list(Rebuild(store, table, lambda: NOW, **options).run(given, here, report))
    return report, counts


def exit_of(event, table=TABLE):
    answer = Classifier(table).classify(event).classification
    return answer["kind"], answer["reason_code"]


@pytest.mark.parametrize("size", [1, 7, 30, 31])
def test_every_event_is_classified_once_whatever_the_pages(size):
    store = Kept()
    report, counts = run(store, pages(size))
    assert store.inserted == [key(event) for event in EVENTS]
    assert counts == [len(page) for page in pages(size)]
    assert report.read == report.moves.total() == len(EVENTS)
    assert {row["table_digest"] for batch in store.batches for row in batch} == {TABLE.digest}
    assert [(digest, version) for _, digest, version in store.asked] == [(TABLE.digest, CLASSIFIER_VERSION)] * len(
        counts
    )
    for row, event in zip((row for batch in store.batches for row in batch), EVENTS, strict=True):
        assert (row["kind"], row["reason_code"]) == exit_of(event)
        assert (row["classified_at"], row["unproven"]) == (NOW, False)


@pytest.mark.parametrize(("most", "sizes"), [(1, [4] * 7 + [2]), (5, [8, 8, 8, 6]), (8, [8, 8, 8, 6]), (1000, [30])])
def test_whole_pages_are_inserted_together_up_to_the_size_of_a_batch(monkeypatch, most, sizes):
    monkeypatch.setattr(rebuild, "BATCH_RECORDS", most)
    store = Kept()
    run(store, pages(4))
    assert [len(batch) for batch in store.batches] == sizes


def test_what_the_table_decided_is_not_decided_again():
    done, moved = exit_of(EVENTS[0]), exit_of(EVENTS[1])
    store = Kept({key(EVENTS[0]): Standing(OLD, done), key(EVENTS[1]): Standing(OLD, None)})
    report, counts = run(store, pages(10, EVENTS[:3]))
    assert store.inserted == [key(EVENTS[1]), key(EVENTS[2])]
    assert (report.already, report.read, counts) == (1, 3, [3])
    assert report.moves == {(OLD, done): 1, (OLD, moved): 1, (None, exit_of(EVENTS[2])): 1}


def test_where_everything_is_decided_nothing_is_inserted():
    store = Kept({key(event): Standing(exit_of(event), exit_of(event)) for event in EVENTS})
    report, counts = run(store, pages(10))
    assert (store.batches, report.already, counts, report.moved) == ([], len(EVENTS), [10, 10, 10], {})


def test_without_events_nothing_happens():
    store = Kept()
    report, counts = run(store, [[]])
    assert (store.batches, report.read, counts) == ([], 0, [0])
    assert run(store, [])[1] == []


def test_only_what_moves_to_another_exit_moved():
    claimed = next(event for event in EVENTS if exit_of(event) == OLD)
    store = Kept({key(event): Standing(exit_of(event), None) for event in EVENTS})
    report, _ = run(store, pages(7), STRICT)
    moved = [event for event in EVENTS if exit_of(event) == OLD]
    assert report.moved == {(OLD, exit_of(claimed, STRICT)): len(moved)}
    assert report.moves.total() == len(EVENTS)


def test_a_dry_run_counts_and_inserts_nothing():
    store = Kept()
    wet, _ = run(Kept(), pages(7))
    dry, _ = run(store, pages(7), dry_run=True)
    assert store.batches == []
    assert dry == wet


UNREADABLE = {
    "no JSON": b"{",
    "no UTF-8": b'{"type": "\xff"}',
    "another type": b'{"type": 7}',
    "nothing": b"",
    "nested too deeply": b"[" * 10_000,
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
def test_an_event_that_cannot_be_read_costs_itself_alone(text):
    store = Kept()
    page = [stored(EVENTS[0]), stored(EVENTS[1], text), stored(EVENTS[2])]
    report, counts = run(store, [page])
    assert store.inserted == [key(EVENTS[0]), key(EVENTS[2])]
    [failure] = report.failures
    assert (failure.tenant, failure.event_id) == key(EVENTS[1])
    assert failure.reason
    assert (report.read, report.moves.total(), counts) == (3, 2, [3])


def test_a_page_without_a_readable_event_inserts_nothing():
    store = Kept()
    report, _ = run(store, [[stored(EVENTS[0], b"{")]])
    assert (store.batches, report.read, len(report.failures)) == ([], 1, 1)


def test_an_event_that_is_erased_while_its_page_is_decided_gets_an_exit_without_words():
    def meanwhile(plan, tasks):
        for outcome in here(plan, tasks):
            store.noted = {key(EVENTS[1]), key(EVENTS[3])}
            yield outcome

    store = Kept()
    list(Rebuild(store, TABLE, lambda: NOW).run(pages(2), meanwhile, Report()))
    rows = {(row["tenant"], row["event_id"]): row for batch in store.batches for row in batch}
    envelopes = {each: json.loads(row["envelope"] or "null") for each, row in rows.items()}
    assert list(rows) == [key(event) for event in EVENTS]
    assert envelopes[key(EVENTS[1])]["explanation"] == "[erased]"
    assert envelopes[key(EVENTS[3])] is None
    others = [each for at, each in enumerate(envelopes.values()) if each and at != 1]
    assert "[erased]" not in {each.get("explanation") for each in others}
    assert any(each["side_effects"] for each in others)


def test_what_is_not_proved_says_so():
    store = Kept()
    run(store, pages(10, EVENTS[:2]), unproven=True)
    assert [row["unproven"] for batch in store.batches for row in batch] == [True, True]


@pytest.mark.parametrize("ends_before", [1, 2, 3])
def test_after_an_insert_that_fails_nothing_is_inserted_and_running_again_ends_it(monkeypatch, ends_before):
    monkeypatch.setattr(rebuild, "BATCH_RECORDS", 10)
    store = Kept(ends_before=ends_before)
    with pytest.raises(OSError):
        run(store, pages(10))
    assert len(store.batches) == ends_before - 1
    again = Kept({each: Standing(None, OLD) for each in store.inserted})
    run(again, pages(10))
    assert sorted(store.inserted + again.inserted) == sorted(map(key, EVENTS))


def test_whoever_stops_listening_loses_no_batch_that_was_inserted(monkeypatch):
    monkeypatch.setattr(rebuild, "BATCH_RECORDS", 4)
    store, report = Kept(), Report()
    counts = Rebuild(store, TABLE, lambda: NOW).run(pages(4), here, report)
    next(counts)
    counts.close()
    assert store.inserted == [key(event) for event in EVENTS[:4]]
    assert report.read == 4


def test_pages_are_read_no_further_than_they_are_asked_for():
    read = []

    def given():
        for page in pages(10):
            read.append(len(page))
            yield page

    counts = Rebuild(Kept(), TABLE, lambda: NOW).run(given(), here, Report())
    assert read == []
    next(counts)
    assert read == [10]
    counts.close()


def test_outcomes_of_several_tasks_may_wait_at_once():
    """As workers do, which take tasks ahead of what they have done."""

    def ahead(plan, tasks):
        return here(plan, list(tasks))

    store, report = Kept({key(EVENTS[5]): Standing(OLD, None)}), Report()
    list(Rebuild(store, TABLE, lambda: NOW).run(pages(4), ahead, report))
    assert store.inserted == [key(event) for event in EVENTS]
    assert report.moves[OLD, exit_of(EVENTS[5])] == 1


def test_a_task_travels_to_a_worker_and_back():
    outcome = Plan(TABLE.text).start().run(Task([stored(event) for event in EVENTS[:2]], NOW))
    assert list(outcome.exits) == [key(event) for event in EVENTS[:2]]
    assert [row["classified_at"] for row in read_rows(outcome.rows)] == [NOW, NOW]
    assert Plan(TABLE.text).start().run(Task([], NOW)) == (b"", {}, [])


@pytest.mark.parametrize("moment", [1, 86_400_000_000, -86_400_000_000])
def test_a_small_instant_is_read_as_it_was_kept(moment):
    """A producer's small number counts seconds or milliseconds; in the store there are microseconds alone."""
    store = Kept()
    report, _ = run(store, [[stored(EVENTS[0] | {"occurred_at": moment})]])
    assert report.failures == []
    assert store.batches[0][0]["occurred_at"] == moment
