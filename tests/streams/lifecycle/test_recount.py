"""The app's state against the engine's recount: two programs, one in Python and one in SQL, of the same meaning."""

import tempfile
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.companions import COMPANIONS
from sinks.open_items import OpenItemsReader
from sinks.rows import (
    COMPANION_TABLES,
    CompanionRow,
    ObligationQueueRow,
    Position,
    TableRow,
    encode_classifications,
    encode_companions,
    encode_tables,
)
from sinks.store import open_store
from streams.lifecycle.exits import exit_of
from streams.lifecycle.items import OpenPartial, OpenReview
from streams.lifecycle.knowledge import Bounds, Knowledge
from streams.lifecycle.records import QueueTerms, note_of
from streams.lifecycle.sync import learn as learn_snapshot
from streams.lifecycle.sync import read_doubts, read_everything, read_since
from tests.streams.lifecycle.samples import DIGESTS, NOW, histories, row_of

BOUNDS = Bounds(grace_us=10**15, most_settled=10**6)
TERMS = QueueTerms("effects", "on call", 4_000_000)
WRITTEN = ("exit_classifications", "active_tables", *COMPANION_TABLES.values())


def no_wait(seconds):
    raise AssertionError("nothing holds the store")


@pytest.fixture(scope="module")
def store():
    with (
        tempfile.TemporaryDirectory() as folder,
        open_store(Path(folder) / "new", holder="test", lock_timeout_s=0, now=lambda: NOW, wait=no_wait) as opened,
    ):
        opened.migrate()
        OpenItemsReader(opened).record_queues([ObligationQueueRow(d, *TERMS, NOW) for d in DIGESTS])
        yield opened


def empty(store):
    for table in WRITTEN:
        store._engine.command(f"TRUNCATE TABLE {table}")


def write(store, history, activated):
    tables = [TableRow(digest, "0.1.0", "default", "1", "", at) for digest, at in activated.items()]
    store.insert("active_tables", encode_tables(tables))
    rows = [row_of(record) for record in history if "envelope" in record]
    if rows:
        store.insert("exit_classifications", encode_classifications(rows))
    for kind in COMPANIONS:
        of_kind = [record for record in history if record.get("type") == kind]
        if of_kind:
            companions = [CompanionRow(record, "sha256:c", Position("file", "p", 0), NOW) for record in of_kind]
            store.insert(COMPANION_TABLES[kind], encode_companions(kind, companions))


def known(history, activated):
    knowledge = Knowledge(BOUNDS)
    knowledge.activate({(digest, "0.1.0"): at for digest, at in activated.items()})
    learn(knowledge, history)
    return knowledge


def learn(knowledge, history):
    for record in history:
        if "envelope" in record:
            knowledge.add_exit(exit_of(record, lambda digest: TERMS), NOW)
        else:
            note = note_of(record, record["type"], stored=True)
            if note is not None:
                knowledge.add_note(note, NOW)


def plain(items):
    """Open items as rows of the views have them."""
    rows = [asdict(item) for item in items]
    return [
        {
            name: [duty._asdict() for duty in value] if name == "duties"
            else list(value) if isinstance(value, tuple) else value
            for name, value in row.items()
        }
        for row in rows
    ]  # fmt: skip


def counted(rows, like):
    """Rows of a view, as far as an open item has their columns."""
    found = [{name: row[name] for name in like.__dataclass_fields__} for row in rows]
    return sorted(
        ({**row, "workflow": row["workflow"] or ""} for row in found),
        key=lambda row: (row["tenant"], row["run_id"], row["segment"] or 0, row["opened_at"], row["event_id"]),
    )


activations = st.fixed_dictionaries({}, optional={digest: st.integers(NOW, NOW + 2) for digest in DIGESTS})


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=histories(), activated=activations)
def test_the_state_equals_the_recount(store, history, activated):
    empty(store)
    write(store, history, activated)
    recount = OpenItemsReader(store).recount()
    items = known(history, activated).open_items()

    def order(row):
        return (row["tenant"], row["run_id"], row["segment"] or 0, row["opened_at"], row["event_id"])

    assert sorted(plain(items.partials), key=order) == counted(recount.partials, OpenPartial)
    assert sorted(plain(items.reviews), key=order) == counted(recount.reviews, OpenReview)
    assert sorted(items.reversals) == sorted(tuple(row.values()) for row in recount.reversals)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=histories(), activated=activations)
def test_after_the_loss_of_all_state_the_store_gives_it_back(store, history, activated):
    """Also shows that no run with an open item is missing among those that are read."""
    empty(store)
    write(store, history, activated)
    lost = Knowledge(BOUNDS)
    learn_snapshot(lost, read_everything(OpenItemsReader(store), NOW), NOW)
    assert lost.open_items() == known(history, activated).open_items()


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=histories(), activated=activations, data=st.data())
def test_what_was_stored_lately_and_what_is_doubted_make_it_whole(store, history, activated, data):
    empty(store)
    cut = data.draw(st.integers(0, len(history)))
    write(store, history[:cut], activated)
    knowledge = Knowledge(BOUNDS)
    learn_snapshot(knowledge, read_everything(OpenItemsReader(store), NOW), NOW)
    write(store, history[cut:], {})
    learn_snapshot(knowledge, read_since(OpenItemsReader(store), 0, NOW), NOW)
    learn_snapshot(knowledge, read_doubts(OpenItemsReader(store), knowledge.doubts()), NOW)
    assert knowledge.open_items() == known(history, activated).open_items()
