import hashlib
import re

import pytest

from sinks.errors import StoreRejected
from sinks.migrations import EMBEDDED, EVERYWHERE, SERVER, Layout, Migration, load_migrations
from sinks.store import _check_history


def test_statements_end_at_a_semicolon_that_ends_a_line():
    migration = Migration("0001_x.sql", "SELECT 'a;b';\n-- c; d\nSELECT 2 $on_cluster;\n")
    assert migration.statements(EMBEDDED) == ["SELECT 'a;b'", "-- c; d\nSELECT 2"]


# What the embedded store's tables were made by. A store that exists keeps them, so a new one must get the same.
EMBEDDED_DDL = {
    "0001_events.sql": "b0aa0d1e0193d177087ff68b57f9fbceb63412ebfdf56c666370cc13ce780554",
    "0002_classifications.sql": "8f260d44b44d6271184839f6cfcaaa30d972a472e9db08c2e5b8848a0d814d6b",
    "0003_companions.sql": "be11810f5ae5a58cb1c5be229cd564610ab7bbda61324872147775add89138df",
    "0004_ledger.sql": "293a71d81b28fc765e308998d84dd267475c64fef3a2ee82ddc03cea38eded38",
    "0005_views.sql": "f8c8353b4c02b3ce66e7efdd84d68607cea1f09c678b16690d88d7207d22e218",
}
RETENTION = {"occurred_at": 400, "recorded_at": 30, "ingested_at": 90}
LAYOUTS = {
    "embedded": EMBEDDED,
    "server": SERVER,
    "aged": Layout(retention_days=RETENTION, token_window=10, merge_limit_bytes=2**20),
    "replicated": Layout(replicated=True, retention_days=RETENTION),
    "on a cluster": Layout(cluster="main", replicated=True),
    "sharded": Layout(cluster="my-cluster.eu", replicated=True, sharded=True, retention_days=RETENTION),
    "sharded without replicas": Layout(cluster="main", sharded=True, token_window=10),
}


def statements(layout):
    return [statement for migration in load_migrations() for statement in migration.statements(layout)]


@pytest.mark.parametrize("name", EMBEDDED_DDL)
def test_an_embedded_store_gets_the_tables_it_always_got(name):
    (migration,) = [migration for migration in load_migrations() if migration.name == name]
    text = "\n".join(migration.statements(EMBEDDED))
    assert hashlib.sha256(text.encode()).hexdigest() == EMBEDDED_DDL[name]


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_engine_parses_every_statement_of_every_layout(store, name):
    for statement in statements(LAYOUTS[name]):
        told = store._engine.ask(f"EXPLAIN AST {statement}", None).decode()
        assert told.startswith(("CreateQuery", "AlterQuery")), statement


def test_replicas_have_a_path_for_each_shard_and_one_where_every_shard_joins():
    layout = LAYOUTS["sharded"]
    engines = {name: found for text in statements(layout) for name, found in _engines(text)}
    path = "ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}', ingested_at)"
    assert engines["terminal_events_shard"] == path
    assert engines["active_tables"] == (
        "ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}', '{shard}-{replica}', activated_at)"
    )
    assert "active_tables_shard" not in engines


@pytest.mark.parametrize(("table", "key"), [
    ("terminal_events", "cityHash64(tenant, event_id)"),
    ("exit_classifications", "cityHash64(tenant, event_id)"),
    ("enrichments", "cityHash64(tenant, record_id)"),
    ("ingest_ledger", "cityHash64(source, partition, offset)"),
    ("conflicting_events", "cityHash64(record_type, tenant, event_id, content_digest)"),
])  # fmt: skip
def test_copies_of_a_row_meet_on_one_shard(table, key):
    engines = {name: found for text in statements(LAYOUTS["sharded"]) for name, found in _engines(text)}
    assert engines[table] == f"Distributed('my-cluster.eu', currentDatabase(), '{table}_shard', {key})"


def _engines(text):
    name = re.match(r"(?:--.*\n|\s)*CREATE TABLE IF NOT EXISTS (\w+)", text)
    return [(name[1], re.search(r"^ENGINE = (.*)$", text, re.MULTILINE)[1])] if name else []


@pytest.mark.parametrize("name", ["on a cluster", "sharded", "sharded without replicas"])
def test_every_statement_runs_on_the_whole_cluster(name):
    layout = LAYOUTS[name]
    assert [text for text in statements(layout) if f"ON CLUSTER '{layout.cluster}'" not in text] == []


def test_a_server_without_replicas_remembers_tokens_on_every_table():
    tables = [text for text in statements(SERVER) if "CREATE TABLE" in text]
    assert [text for text in tables if "non_replicated_deduplication_window = 1000" not in text] == []
    assert [text for text in statements(LAYOUTS["replicated"]) if "deduplication_window" in text] == []


def test_a_changed_table_is_changed_on_its_shards_too():
    migration = Migration("0009_x.sql", "-- why\nALTER TABLE dead_letters $on_cluster ADD COLUMN x String;\n")
    assert migration.statements(EMBEDDED) == ["-- why\nALTER TABLE dead_letters  ADD COLUMN x String"]
    assert migration.statements(LAYOUTS["sharded"]) == [
        f"-- why\nALTER TABLE {name} ON CLUSTER 'my-cluster.eu' ADD COLUMN x String"
        for name in ("dead_letters_shard", "dead_letters")
    ]


@pytest.mark.parametrize("change", ["MODIFY SETTING x = 1", "ADD INDEX x a TYPE minmax", "MATERIALIZE INDEX x"])
def test_how_parts_are_kept_is_said_to_the_shards_alone(change):
    migration = Migration("0009_x.sql", f"ALTER TABLE dead_letters $on_cluster {change};\n")
    assert migration.statements(EMBEDDED) == [f"ALTER TABLE dead_letters  {change}"]
    assert migration.statements(LAYOUTS["sharded"]) == [
        f"ALTER TABLE dead_letters_shard ON CLUSTER 'my-cluster.eu' {change}"
    ]


def test_shards_need_a_cluster():
    with pytest.raises(ValueError, match="name it"):
        Layout(sharded=True)


def test_the_name_of_a_cluster_is_no_sql():
    with pytest.raises(ValueError, match="no name of a cluster"):
        Layout(cluster="x' AS SELECT")


def test_nothing_expires_by_default():
    assert all("TTL" not in statement for m in load_migrations() for statement in m.statements(EMBEDDED))


def test_the_engine_accepts_retention_on_every_table_of_rows(store, rows_of):
    layout = LAYOUTS["aged"]
    for migration in load_migrations():
        for statement in migration.statements(layout):
            if "CREATE TABLE" in statement:
                name = statement.split("IF NOT EXISTS ")[1].split()[0]
                store._engine.command(statement.replace(f"IF NOT EXISTS {name}", f"IF NOT EXISTS aged_{name}", 1))
    aged = rows_of("SELECT name, create_table_query AS sql FROM system.tables WHERE startsWith(name, 'aged_')")
    for table in aged:
        store._engine.command(f"DROP TABLE {table['name']}")
    kept = {table["name"] for table in aged if "TTL" not in table["sql"]}
    assert kept == {f"aged_{name}" for name in EVERYWHERE} - {"aged_schema_migrations"}
    assert len(aged) >= 11


def test_an_edited_migration_is_refused():
    with pytest.raises(StoreRejected, match=r"another edition of this program \(its migration 0001_a\.sql differs\)"):
        _check_history({"0001_a.sql": "old"}, {"0001_a.sql": "new"})


def test_a_newer_store_is_refused():
    with pytest.raises(StoreRejected, match="newer than this program"):
        _check_history({"0009_z.sql": "x"}, {"0001_a.sql": "y"})
