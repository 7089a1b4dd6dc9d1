import pytest

from sinks.errors import StoreRejected
from sinks.migrations import EMBEDDED, Layout, Migration, load_migrations
from sinks.store import _check_history


def test_statements_end_at_a_semicolon_that_ends_a_line():
    migration = Migration("0001_x.sql", "SELECT 'a;b';\n-- c; d\nSELECT 2 $on_cluster;\n")
    assert migration.statements(EMBEDDED) == ["SELECT 'a;b'", "-- c; d\nSELECT 2"]


def test_a_deployment_fills_in_engine_cluster_and_retention():
    layout = Layout("ReplicatedReplacingMergeTree", "ON CLUSTER main", None, {"occurred_at": 400})
    (events,) = [m for m in load_migrations() if m.name == "0001_events.sql"]
    table = events.statements(layout)[0]
    assert "ON CLUSTER main" in table
    assert "ReplicatedReplacingMergeTree(ingested_at)" in table
    assert "TTL occurred_at + INTERVAL 400 DAY DELETE" in table
    assert "max_bytes_to_merge" not in table


def test_nothing_expires_by_default():
    assert all("TTL" not in statement for m in load_migrations() for statement in m.statements(EMBEDDED))


def test_the_engine_accepts_retention_on_every_table_of_rows(store, rows_of):
    layout = Layout("ReplacingMergeTree", "", 2**20, {"occurred_at": 400, "recorded_at": 30, "ingested_at": 90})
    for migration in load_migrations():
        for statement in migration.statements(layout):
            if "CREATE VIEW" not in statement:
                name = statement.split("IF NOT EXISTS ")[1].split()[0]
                store._engine.command(statement.replace(f"IF NOT EXISTS {name}", f"IF NOT EXISTS aged_{name}", 1))
    aged = rows_of("SELECT name, create_table_query AS sql FROM system.tables WHERE startsWith(name, 'aged_')")
    for table in aged:
        store._engine.command(f"DROP TABLE {table['name']}")
    kept = [table["name"] for table in aged if "TTL" not in table["sql"]]
    assert kept == ["aged_active_tables"]
    assert len(aged) == 10


def test_an_edited_migration_is_refused():
    with pytest.raises(StoreRejected, match=r"another edition of this program \(its migration 0001_a\.sql differs\)"):
        _check_history({"0001_a.sql": "old"}, {"0001_a.sql": "new"})


def test_a_newer_store_is_refused():
    with pytest.raises(StoreRejected, match="newer than this program"):
        _check_history({"0009_z.sql": "x"}, {"0001_a.sql": "y"})
