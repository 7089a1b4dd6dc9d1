import json
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.companions import COMPANIONS
from schemas.types import EARLIEST, LATEST
from sinks.errors import StoreRejected
from sinks.rows import (
    COMPANION_TABLES,
    SCHEMAS,
    CompanionRow,
    ConflictRow,
    DeadLetterRow,
    Position,
    encode_classifications,
    encode_companions,
    encode_conflicts,
    encode_dead_letters,
    encode_events,
    encode_ledger,
    encode_tables,
)
from sinks.store import Known, Rejected
from tests.sinks.samples import NOW, classification, classification_row, event, event_row, ledger_row, table_row


def test_migrations_apply_once(store):
    assert store.migrate() == []


def test_every_column_has_a_comment(rows_of):
    missing = rows_of(
        "SELECT table, name FROM system.columns WHERE database = currentDatabase() AND comment = ''"
        " AND NOT startsWith(table, 'v_')"
    )
    assert missing == []


def test_every_table_and_view_has_a_comment(rows_of):
    tables = rows_of("SELECT name, comment FROM system.tables WHERE database = currentDatabase() AND NOT is_temporary")
    assert len(tables) > 15
    assert [table["name"] for table in tables if not table["comment"]] == []


def test_every_row_schema_is_its_table(rows_of):
    columns = {}
    for row in rows_of(
        "SELECT table, name, type FROM system.columns WHERE database = currentDatabase() AND default_kind = ''"
    ):
        columns.setdefault(row["table"], {})[row["name"]] = row["type"].startswith(
            ("Nullable", "LowCardinality(Nullable")
        )
    for table, schema in SCHEMAS.items():
        nullable = {field.name: field.nullable for field in schema}
        assert nullable == columns[table], table


def test_a_batch_inserted_twice_counts_once_without_a_merge(store, rows_of):
    records = [event(f"twice-{number}", tenant="twice") for number in range(20)]
    for ingested_at in (NOW, NOW + 1):
        store.insert("terminal_events", encode_events([event_row(r, ingested_at=ingested_at) for r in records]))
        verdicts = [classification_row(r, classification(r), ingested_at) for r in records]
        store.insert("exit_classifications", encode_classifications(verdicts))
        store.insert("ingest_ledger", encode_ledger([ledger_row(o, partition="twice") for o in range(20)]))
    for view in ("v_events", "v_classifications", "v_exits"):
        assert rows_of(f"SELECT count() AS n FROM {view} WHERE tenant = 'twice'") == [{"n": 20}], view  # noqa: S608 -- a name above
    assert store.ledger_totals("file", "twice")[0].read == 20


def test_identities_tell_content_and_first_position(store):
    record = event("known-1", tenant="known")
    store.insert("terminal_events", encode_events([event_row(record, "sha256:1", Position("file", "f", 7))]))
    keys = [("known", "known-1"), ("known", "known-2"), ("other", "known-1")]
    assert store.identities(keys) == {("known", "known-1"): Known("sha256:1", "file", "f", 7)}
    assert store.identities([]) == {}


def test_identities_of_companions(store):
    record = (
        COMPANIONS["enrichment"]
        .model_validate({"type": "enrichment", "version": 1, "record_id": "r-1", "tenant": "known", "at": NOW})
        .model_dump()
    )
    rows = [CompanionRow(record, "sha256:2", Position("file", "f", 8), NOW)]
    store.insert("enrichments", encode_companions("enrichment", rows))
    assert store.identities([("known", "r-1")], "enrichment") == {("known", "r-1"): Known("sha256:2", "file", "f", 8)}
    assert store.identities([("known", "r-1")], "legacy_exit") == {}


def test_an_unknown_record_type_is_refused(store):
    with pytest.raises(StoreRejected, match="unheard_of"):
        store.identities([("a", "b")], "unheard_of")


def test_classified_is_per_table_and_classifier_version(store):
    record = event("done-1", tenant="done")
    row = classification_row(record, classification(record, table_digest="sha256:old"))
    store.insert("exit_classifications", encode_classifications([row]))
    keys = [("done", "done-1"), ("done", "done-2")]
    assert store.classified(keys, "sha256:old", "0.1.0") == {("done", "done-1")}
    assert store.classified(keys, "sha256:new", "0.1.0") == set()
    assert store.classified(keys, "sha256:old", "0.2.0") == set()


def test_the_table_activated_last_is_current_and_an_older_one_fills_in(store, rows_of):
    both, old_only = event("both", tenant="current"), event("old-only", tenant="current")
    # The older table classified last: neither arrival nor insertion decides, only activation.
    rows = [
        classification_row(both, classification(both, kind="completed", table_digest="sha256:2"), NOW),
        classification_row(both, classification(both, kind="refusal", table_digest="sha256:1"), NOW + 5),
        classification_row(old_only, classification(old_only, kind="partial", table_digest="sha256:1"), NOW),
    ]
    store.insert("exit_classifications", encode_classifications(rows))
    store.insert("active_tables", encode_tables([table_row("sha256:1", NOW), table_row("sha256:2", NOW + 1)]))
    query = "SELECT event_id, kind FROM v_exits WHERE tenant = 'current' ORDER BY event_id"
    assert rows_of(query) == [
        {"event_id": "both", "kind": "completed"},
        {"event_id": "old-only", "kind": "partial"},
    ]
    assert store.classification("both", "current")["kind"] == "completed"
    store.insert("active_tables", encode_tables([table_row("sha256:1", NOW + 2)]))
    assert rows_of(query)[0] == {"event_id": "both", "kind": "refusal"}
    assert store.classification("both", "current")["kind"] == "refusal"


def test_standings_tell_what_readers_see_from_what_one_table_says(store):
    names = ("both", "old-only", "new-only")
    records = {name: event(name, tenant="standing") for name in names}

    def row(name, kind, table):
        record = records[name]
        return classification_row(record, classification(record, kind=kind, table_digest=table))

    rows = [row("both", "completed", "sha256:s1"), row("old-only", "partial", "sha256:s1"),
            row("both", "refusal", "sha256:s2"), row("new-only", "fallback", "sha256:s2")]  # fmt: skip
    store.insert("exit_classifications", encode_classifications(rows))
    store.insert("active_tables", encode_tables([table_row("sha256:s1", NOW)]))
    keys = [("standing", name) for name in (*names, "unheard of", "both")]

    def standings():
        found = store.standings(keys, "sha256:s2", "0.1.0")
        return {name: tuple(exit_ and exit_[0] for exit_ in standing) for (_, name), standing in found.items()}

    assert standings() == {
        "both": ("completed", "refusal"),
        "old-only": ("partial", None),
        "new-only": (None, "fallback"),
    }
    assert store.standings(keys[:1], "sha256:s2", "0.2.0") == {keys[0]: (("completed", "no_progress"), None)}
    store.insert("active_tables", encode_tables([table_row("sha256:s2", NOW + 1)]))
    assert standings() == {
        "both": ("refusal", "refusal"), "old-only": ("partial", None), "new-only": ("fallback", "fallback"),
    }  # fmt: skip
    assert store.standings([], "sha256:s2", "0.1.0") == {}


@pytest.mark.parametrize("kind", ["human_queue", "completed"])
def test_a_classification_comes_back_as_it_went_in(store, kind):
    record = event(f"back-{kind}")
    verdict = classification(record, kind=kind)
    store.insert("exit_classifications", encode_classifications([classification_row(record, verdict)]))
    assert store.classification(f"back-{kind}", "acme") == verdict
    assert store.classification("never", "acme") is None


def test_what_the_contract_leaves_out_is_a_column(store, rows_of):
    record = event("columns")
    store.insert("exit_classifications", encode_classifications([classification_row(record, classification(record))]))
    (row,) = rows_of(
        "SELECT toString(fact_bits) AS bits, packet_completeness, queue, deadline, run_id"
        " FROM v_classifications WHERE event_id = 'columns'"
    )
    assert row == {"bits": str(2**63 + 1), "packet_completeness": 0.5, "queue": "runs", "run_id": "run-columns",
                   "deadline": "2025-11-30 08:00:00.123458"}  # fmt: skip


def test_an_event_comes_back_by_id_and_names_its_tenants(store):
    one, other = event("shared", tenant="t1"), event("shared", tenant="t2")
    store.insert("terminal_events", encode_events([event_row(one), event_row(other)]))
    assert json.loads(store.event("shared", "t2").text) == other
    assert store.event("shared", "t3") is None
    assert store.event("nobody's") is None
    with pytest.raises(StoreRejected, match="t1, t2"):
        store.event("shared")


def test_scanning_yields_each_event_once_whatever_the_page(store):
    records = [event(f"scan-{n}", tenant="scan", occurred_at=NOW - n * 1_000_000) for n in range(50)]
    for _ in range(2):
        store.insert("terminal_events", encode_events([event_row(record) for record in records]))
    pages = [[e for page in store.scan_events(page=size) for e in page if e.tenant == "scan"] for size in (1, 7, 10**6)]
    assert all(one == other for one, other in pairwise(pages))
    assert sorted(e.event_id for e in pages[0]) == sorted(record["event_id"] for record in records)


def test_scanning_since_and_until_is_half_open(store):
    records = [event(f"span-{n}", tenant="span", occurred_at=1000 + n) for n in range(4)]
    store.insert("terminal_events", encode_events([event_row(record) for record in records]))
    found = [e.event_id for page in store.scan_events(1001, 1003) for e in page if e.tenant == "span"]
    assert sorted(found) == ["span-1", "span-2"]


@given(st.lists(st.integers(EARLIEST, LATEST), unique=True, min_size=1))
@example([EARLIEST, -1, 0, 1, LATEST])
@settings(max_examples=20, deadline=None)
def test_any_instant_of_the_contract_survives(store, instants):
    records = [event(f"instant-{instant}", tenant="instant", occurred_at=instant) for instant in instants]
    rows = [event_row(record, ingested_at=record["occurred_at"]) for record in records]
    store.insert("terminal_events", encode_events(rows))
    names = store.query(
        "SELECT event_id, toUnixTimestamp64Micro(occurred_at) FROM v_events WHERE tenant = 'instant'", "CSV"
    )
    stored = dict(line.split(",") for line in names.decode().splitlines())
    for instant in instants:
        assert stored[f'"instant-{instant}"'] == str(instant)
        assert store.event(f"instant-{instant}", "instant").ingested_at == instant


def test_conflicting_content_is_kept_apart(store, rows_of):
    record = event("conflict", tenant="conflict")
    store.insert("terminal_events", encode_events([event_row(record, "sha256:first")]))
    other = ConflictRow("conflict", "conflict", "terminal_event", "sha256:second", "sha256:first", b'{"other": 1}',
                        "file", "f", 9, NOW)  # fmt: skip
    for _ in range(2):
        store.insert("conflicting_events", encode_conflicts([other]))
    assert store.identities([("conflict", "conflict")])[("conflict", "conflict")].content_digest == "sha256:first"
    query = "SELECT content_digest, known_digest, text, offset FROM v_conflicts WHERE tenant = 'conflict'"
    assert rows_of(query) == [
        {"content_digest": "sha256:second", "known_digest": "sha256:first", "text": '{"other": 1}', "offset": 9}
    ]


def test_a_dead_letter_keeps_any_bytes(store, rows_of):
    raw = bytes(range(256))
    letter = DeadLetterRow(
        source="file", partition="dead", offset=3, timestamp=None, raw=raw, headers={"h": b"\xff\x00"},
        reason_code="bad_avro", field_path="", message="truncated", masked=True, tries=1, replay_count=0,
        recorded_at=NOW,
    )  # fmt: skip
    store.insert("dead_letters", encode_dead_letters([letter, letter._replace(offset=4, timestamp=NOW, key=b"\xfe")]))
    query = (
        "SELECT hex(raw) AS raw, hex(headers['h']) AS h, masked, timestamp, hex(key) AS key"
        " FROM v_dead_letters WHERE partition = 'dead' ORDER BY offset"
    )
    first, second = rows_of(query)
    assert first == {"raw": raw.hex().upper(), "h": "FF00", "masked": True, "timestamp": None, "key": None}
    assert (second["timestamp"], second["key"]) == ("2025-11-30 08:00:00.123457", "FE")


@pytest.mark.parametrize("record_type", COMPANIONS)
def test_companions_are_stored_field_by_field(store, rows_of, record_type):
    given_fields = {
        "type": record_type,
        "version": 1,
        "record_id": "c-1",
        "tenant": "companion",
        "event_id": "e",
        "segment": 2,
    }
    record = COMPANIONS[record_type].model_validate(given_fields).model_dump() | {"extensions": {"x.y": "1"}}
    rows = [CompanionRow(record, "sha256:c", Position("file", "f", 1), NOW)]
    table = COMPANION_TABLES[record_type]
    for _ in range(2):
        store.insert(table, encode_companions(record_type, rows))
    (row,) = rows_of(f"SELECT * FROM {table} FINAL WHERE tenant = 'companion'")  # noqa: S608 -- our table
    stored = {name: row[name] for name in record if name != "type"}
    assert stored == {name: value for name, value in record.items() if name != "type"}


def test_the_ledger_closes_and_shows_its_holes(store, rows_of):
    rows = [
        ledger_row(0, partition="holes"), ledger_row(1, "duplicate", "holes"), ledger_row(2, "stored", "holes", 4),
        ledger_row(4, "conflicting", "holes"), ledger_row(8, "dead_lettered", "holes"),
        ledger_row(9, "filtered", "holes"),
    ]  # fmt: skip
    store.insert("ingest_ledger", encode_ledger(rows))
    (totals,) = store.ledger_totals("file", "holes")
    by_disposition = (totals.classified, totals.stored, totals.duplicate, totals.conflicting, totals.dead_lettered)
    assert by_disposition == (1, 1, 1, 1, 1)
    assert (totals.read, totals.filtered, totals.first_offset, totals.end_offset) == (6, 1, 0, 10)
    assert totals.missing_offsets == 3  # 5, 6, 7; that 3 follows 2 is what the source said
    ranges = rows_of("SELECT first_offset, end_offset, messages FROM v_ledger_ranges WHERE partition = 'holes'")
    assert [tuple(row.values()) for row in ranges] == [(0, 5, 4), (8, 10, 2)]


def test_a_message_read_again_keeps_its_newest_disposition(store):
    store.insert("ingest_ledger", encode_ledger([ledger_row(0, "dead_lettered", "again", recorded_at=NOW)]))
    store.insert("ingest_ledger", encode_ledger([ledger_row(0, "classified", "again", recorded_at=NOW + 1)]))
    (totals,) = store.ledger_totals("file", "again")
    assert (totals.read, totals.classified, totals.dead_lettered) == (1, 1, 0)


def test_one_bad_row_costs_only_itself(store, rows_of):
    records = [event(f"isolate-{n}", tenant="isolate") for n in range(9)]
    for bad in (2, 7):
        records[bad] = records[bad] | {"agent_id": None}
    rejected = store.insert_rows_isolating("terminal_events", encode_events([event_row(r) for r in records]))
    assert [row.row for row in rejected] == [2, 7]
    assert isinstance(rejected[0], Rejected)
    assert "agent_id" in rejected[0].reason
    assert rows_of("SELECT count() AS n FROM v_events WHERE tenant = 'isolate'") == [{"n": 7}]


def test_a_good_batch_rejects_nothing(store):
    assert store.insert_rows_isolating("ingest_ledger", encode_ledger([ledger_row(0, partition="good")])) == []
    assert store.insert_rows_isolating("ingest_ledger", encode_ledger([])) == []


def test_a_rejected_batch_inserts_nothing(store, rows_of):
    records = [event("all-1", tenant="all"), event("all-2", tenant="all") | {"run_id": None}]
    with pytest.raises(StoreRejected, match="run_id"):
        store.insert("terminal_events", encode_events([event_row(record) for record in records]))
    assert rows_of("SELECT count() AS n FROM v_events WHERE tenant = 'all'") == [{"n": 0}]


def test_an_unknown_table_is_refused_by_name(store):
    with pytest.raises(StoreRejected, match="no table nowhere"):
        store.insert("nowhere", b"")
