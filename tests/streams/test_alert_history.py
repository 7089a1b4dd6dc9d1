"""What was open when, against the store's recount of what is open, and against the past as it was known then."""

import tempfile
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sinks.alerts import AlertsStore
from sinks.open_items import OpenItemsReader
from sinks.rows import ObligationQueueRow
from sinks.store import open_store
from streams.alert_history import OpenNow, notes_about, open_at, stays, stays_of_run
from streams.lifecycle.exits import exit_of
from streams.lifecycle.items import current
from streams.lifecycle.records import QueueTerms, note_of
from tests.streams.lifecycle.samples import DIGESTS, MINUTE, NOW, courses, histories
from tests.streams.lifecycle.test_recount import activations, empty, no_wait, write

TERMS = QueueTerms("effects", "on call", 4_000_000)


@pytest.fixture(scope="module")
def store():
    with (
        tempfile.TemporaryDirectory() as folder,
        open_store(Path(folder) / "new", holder="test", lock_timeout_s=0, now=lambda: NOW, wait=no_wait) as opened,
    ):
        opened.migrate()
        OpenItemsReader(opened).record_queues([ObligationQueueRow(d, *TERMS, NOW) for d in DIGESTS])
        yield opened


def standing(found, now):
    return sorted(stay.item for stay in found if stay.since <= now and (stay.until is None or now < stay.until))


def seen(item):
    """What the store's views know of an open item."""
    return (item.what, *item.scope, item.event_id, item.opened_at, item.paused_us, item.paused_since, item.overdue,
            item.components)  # fmt: skip


def is_late(row, now):
    """Whether a review of the view is overdue at a moment that is not now."""
    moved = 0 if row["paused_since"] is None else max(0, now - row["paused_since"])
    return row["expired"] or (row["deadline"] is not None and row["deadline"] + moved < now)


def of_records(records, activated, until=None):
    """Stays of every run of a history, as far as it had happened by then."""
    exits, notes = defaultdict(lambda: defaultdict(list)), defaultdict(list)
    for record in records:
        if "envelope" in record:
            exit_ = exit_of(record, lambda digest: TERMS)
            if until is None or exit_.occurred_at <= until:
                exits[exit_.run][exit_.event_id].append(exit_)
        elif (note := note_of(record, record["type"])) and (until is None or note.at is None or note.at <= until):
            notes[note.subject].append(note)
    by_version = {(digest, "0.1.0"): at for digest, at in activated.items()}
    runs = [[current(each, by_version) for each in events.values()] for events in exits.values()]
    return [stay for run in runs for stay in stays_of_run(run, notes_about(run, notes))]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=histories(), activated=activations, after=st.integers(-10, 60))
def test_what_is_open_is_what_the_store_counts_as_open_whatever_it_is_dated(store, history, activated, after):
    empty(store)
    write(store, history, activated)
    reader, now = OpenItemsReader(store), NOW + after * MINUTE
    counted = reader.recount()
    right = [("partial", row, "", row["missing"], False) for row in counted.partials]
    right += [("review", row, row["queue"], [], is_late(row, now)) for row in counted.reviews]
    found = sorted(open_at(reader, now))
    assert [seen(item) for item in found] == sorted(
        (what, row["tenant"], row["agent_id"], row["workflow"] or "", queue, row["event_id"], row["opened_at"],
         row.get("paused_us", 0), row.get("paused_since"), late, tuple(missing))
        for what, row, queue, missing, late in right
    )  # fmt: skip


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=histories(), activated=activations, after=st.integers(10, 60))
def test_in_the_end_the_course_of_an_item_comes_to_what_is_open(store, history, activated, after):
    empty(store)
    write(store, history, activated)
    reader, now = OpenItemsReader(store), NOW + after * MINUTE
    found = standing(stays(reader, AlertsStore(store).opened_runs(now)), now)
    assert [seen(item) for item in found] == [seen(item) for item in sorted(open_at(reader, now))]


class Sparing(OpenItemsReader):
    """Is not asked for everything again."""

    def unsettled_runs(self):
        raise AssertionError


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=histories(), activated=activations, cut=st.floats(0, 1), after=st.integers(0, 10))
def test_what_is_remembered_and_what_came_since_is_what_is_open(store, history, activated, cut, after):
    empty(store)
    known, place = OpenNow(), round(cut * len(history))
    write(store, history[:place], activated)
    assert sorted(known.at(OpenItemsReader(store), NOW)) == sorted(open_at(OpenItemsReader(store), NOW))
    write(store, [each | {"classified_at": NOW} if "envelope" in each else each for each in history[place:]], {})
    for now in (NOW + after * MINUTE, NOW + 12 * MINUTE):
        assert sorted(known.at(Sparing(store), now)) == sorted(open_at(OpenItemsReader(store), now))


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=histories(), activated=st.fixed_dictionaries({DIGESTS[0]: st.integers(NOW, NOW + 2)}))
def test_everything_is_read_again_after_a_while_and_where_another_table_counts(store, history, activated):
    empty(store)
    known, reader = OpenNow(), OpenItemsReader(store)
    write(store, history, {})
    known.at(reader, NOW)
    write(store, [], activated)
    assert sorted(known.at(reader, NOW + 1)) == sorted(open_at(reader, NOW + 1))
    remembered = sorted(known.at(reader, NOW + 10 * MINUTE))
    empty(store)
    write(store, [], activated)
    assert sorted(known.at(Sparing(store), NOW + 10 * MINUTE)) == remembered
    assert known.at(reader, NOW + 16 * MINUTE) == []


@settings(deadline=None)
@given(history=histories(most_runs=2), activated=activations, after=st.integers(-10 * MINUTE, 12 * MINUTE))
def test_the_past_is_what_was_open_then(history, activated, after):
    now = NOW + after
    assert standing(of_records(history, activated), now) == standing(of_records(history, activated, until=now), now)


@given(course=courses("acme", "r"))
def test_stays_of_an_item_follow_one_another(course):
    for what in ("partial", "review"):
        found = sorted((s for s in of_records(course, {}) if s.item.what == what), key=lambda stay: stay.since)
        assert all(stay.until is None or stay.since < stay.until for stay in found)
        assert all(one.until <= other.since for one, other in pairwise(found))
