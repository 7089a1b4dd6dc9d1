"""Records in no figure, against a plain look at them. The tests of the verb have them from files, in either order."""

import tempfile
from pathlib import Path

import pytest

from shadow import strays as module
from shadow.literal import literal
from shadow.scope import Scope
from shadow.shares import Share
from shadow.strays import Strays, strays
from sinks.rows import COMPANION_TABLES
from sinks.store import open_store

NOW, HOUR = 1_772_323_200_000_000, 3_600_000_000
OTHERS = ("recovery_action", "review_event", "enrichment")
WHO = ("acme", "o'größe")


@pytest.fixture(scope="module")
def kept():
    with (
        tempfile.TemporaryDirectory() as folder,
        open_store(Path(folder) / "s", holder="test", lock_timeout_s=0, now=lambda: NOW, wait=lambda _: None) as opened,
    ):
        opened.migrate()
        # Copies stay as they are.
        opened.execute("SYSTEM STOP MERGES")
        yield opened


@pytest.fixture
def store(kept):
    for table in (*COMPANION_TABLES.values(), "terminal_events", "comparisons", "dead_letters", "redrives"):
        kept.execute(f"TRUNCATE TABLE {table}")
    return kept


def insert(store, table, **row):
    values = (
        "NULL" if each is None else literal(each) if isinstance(each, str) else str(each) for each in row.values()
    )
    store.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join(values)})")  # noqa: S608 -- literals


def at(micros):
    return micros / 1_000_000


def companion(store, record_type, record_id, stored=NOW, **columns):
    """One of acme's, unless ``tenant`` says otherwise; ``moment`` is when it happened, in microseconds."""
    moment = columns.pop("moment", None)
    when = {} if moment is None else {"decided_at" if record_type == "legacy_exit" else "at": at(moment)}
    columns = {"tenant": "acme"} | when | columns
    insert(store, COMPANION_TABLES[record_type], record_id=record_id, ingested_at=at(stored), **columns)


def event(store, name, run):
    """An event and the row that its run is settled to."""
    insert(store, "terminal_events", tenant="acme", event_id=name, run_id=run)
    insert(store, "comparisons", tenant="acme", subject=run, unseen="false", event_id=name, pairing="legacy_missing")


def test_where_there_is_nothing_nothing_is_found(store):
    assert strays(store.select, Scope()) == Strays()


@pytest.mark.parametrize("record_type", OTHERS)
def test_a_companion_is_known_by_its_event_or_else_by_its_run(store, record_type):
    event(store, "e", "r")
    for number, (known, names) in enumerate([
        (True, {"event_id": "e"}),
        (True, {"run_id": "r"}),
        (True, {"event_id": "", "run_id": "r"}),
        (True, {"event_id": "e", "run_id": "nobody"}),
        (False, {"event_id": "nobody", "run_id": "r"}),
        # A run's name is no event's, nor the other way round.
        (False, {"event_id": "r"}),
        (False, {"run_id": "e"}),
        (False, {"event_id": "e", "tenant": "other"}),
    ]):  # fmt: skip
        store.execute(f"TRUNCATE TABLE {COMPANION_TABLES[record_type]}")
        companion(store, record_type, str(number), **names)
        expected = {} if known else {record_type: Share(1, 1)}
        assert strays(store.select, Scope()) == Strays(without_event=expected), names


def test_what_only_legacy_knows_of_is_without_an_event_and_is_no_stray_itself(store):
    insert(store, "comparisons", tenant="acme", subject="e", unseen="true", event_id="", pairing="event_missing")
    insert(store, "comparisons", tenant="acme", subject="r", unseen="false", event_id="", pairing="event_missing")
    companion(store, "legacy_exit", "l1", event_id="e")
    companion(store, "legacy_exit", "l2", run_id="r")
    companion(store, "enrichment", "n1", event_id="e")
    companion(store, "enrichment", "n2", run_id="r")
    assert strays(store.select, Scope()) == Strays(without_event={"enrichment": Share(2, 2)})


def test_a_run_of_which_legacy_knows_a_later_segment_has_been_seen(store):
    insert(store, "comparisons", tenant="acme", subject="r", unseen="false", event_id="", superseded=1)
    companion(store, "recovery_action", "a", run_id="r")
    assert strays(store.select, Scope()) == Strays()


def test_what_names_nothing_is_counted_by_itself_and_copies_once(store):
    for record_type in COMPANION_TABLES:
        companion(store, record_type, "null")
        companion(store, record_type, "empty", event_id="", run_id="")
        companion(store, record_type, "empty", event_id="", run_id="", stored=NOW + HOUR)
    companion(store, "legacy_exit", "named", run_id="nobody")
    companion(store, "recovery_action", "named", run_id="nobody")
    companion(store, "recovery_action", "named", run_id="nobody", stored=NOW + HOUR)
    assert strays(store.select, Scope()) == Strays(
        without_event={"recovery_action": Share(1, 1)},
        nameless={name: Share(2, 3 if name in ("legacy_exit", "recovery_action") else 2) for name in COMPANION_TABLES},
    )


def test_a_scope_leaves_out_other_tenants_and_times_but_no_agent(store):
    for place, tenant in enumerate(WHO):
        for record_type in COMPANION_TABLES:
            companion(store, record_type, "dated", tenant=tenant, moment=NOW - 9 * HOUR, stored=NOW)
            companion(store, record_type, "undated", tenant=tenant, stored=NOW + place)
    companion(store, "enrichment", "n", tenant=WHO[1], event_id="nobody", moment=NOW)

    def nameless(**scope):
        found = strays(store.select, Scope(**scope))
        assert set(found.nameless) in ({*COMPANION_TABLES}, set())
        return {share.count for share in found.nameless.values()}, sum(s.count for s in found.without_event.values())

    assert nameless() == ({4}, 1)
    assert nameless(agent="a", workflow="w") == ({4}, 1)
    assert nameless(tenant="acme") == ({2}, 0)
    assert nameless(tenant=WHO[1]) == ({2}, 1)
    assert nameless(since=NOW) == ({2}, 1)
    assert nameless(since=NOW + 1) == ({1}, 0)
    assert nameless(until=NOW) == ({2}, 0)
    assert nameless(until=NOW + 1, tenant=WHO[1]) == ({1}, 1)


def test_of_many_a_part_is_looked_at_and_so_many_are_told(store, monkeypatch):
    """The part is chosen by hashes. Which those are is read from the store, what is among them is counted here."""
    for number in range(60):
        run = number % 2 == 0
        if number % 3:
            event(store, f"e{number}", f"r{number}")
        names = {"run_id": f"r{number}"} if run else {"event_id": f"e{number}"}
        companion(store, "recovery_action", str(number), **names)
    for number in range(30):
        companion(store, "legacy_exit", str(number), **({"event_id": "e1"} if number % 5 else {}))
    monkeypatch.setattr(module, "MOST_COMPANIONS", 31)
    found = strays(store.select, Scope())
    assert found.one_in == 3
    third = 2**64 // 3
    rows = store.select("SELECT record_id, named_hash FROM recovery_actions", {})
    chosen = [int(row["record_id"]) for row in rows if row["named_hash"] < third]
    assert 0 < len(chosen) < 60
    lacking = sum(number % 3 == 0 for number in chosen)
    assert found.without_event == {"recovery_action": Share(lacking, len(chosen))}
    rows = store.select("SELECT record_id, identity FROM legacy_exits", {})
    chosen = [int(row["record_id"]) for row in rows if row["identity"] < third]
    assert found.nameless == {"legacy_exit": Share(sum(number % 5 == 0 for number in chosen), len(chosen))}


def test_dead_letters_are_those_that_were_not_redriven_and_copies_count_once(store):
    for offset in (1, 2, 3, 2):
        insert(store, "dead_letters", source="file", partition="p", offset=offset, recorded_at=at(NOW + offset))
    insert(store, "dead_letters", source="file", partition="q", offset=3, erased="true")
    insert(store, "redrives", source="file", partition="p", offset=3, topic="again", topic_offset=1)
    # At the place that it was redriven to it is dead again.
    insert(store, "dead_letters", source="again", partition="0", offset=1)
    assert strays(store.select, Scope()).dead_letters == 4
    assert strays(store.select, Scope(tenant="nobody", since=NOW + HOUR)).dead_letters == 4
