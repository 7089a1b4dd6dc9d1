from pathlib import Path

import pytest

from sinks.errors import StoreRejected
from sinks.rows import encode_events
from tests.sinks.samples import event, event_row

WRITING = [
    "INSERT INTO terminal_events (tenant) VALUES ('x')",
    "INSERT INTO FUNCTION file('{path}') SELECT 1",
    "WITH 1 AS x INSERT INTO terminal_events (tenant) SELECT toString(x)",
    "CREATE TABLE t (a Int8) ENGINE = Memory",
    "CREATE TEMPORARY TABLE t (a Int8)",
    "CREATE VIEW v AS SELECT 1",
    "CREATE FUNCTION f AS (x) -> x",
    "CREATE USER u",
    "GRANT SELECT ON *.* TO u",
    "DROP TABLE terminal_events",
    "DROP VIEW v_events",
    "ALTER TABLE terminal_events DELETE WHERE 1",
    "TRUNCATE TABLE terminal_events",
    "RENAME TABLE terminal_events TO t",
    "EXCHANGE TABLES terminal_events AND ingest_ledger",
    "OPTIMIZE TABLE terminal_events FINAL",
    "ATTACH TABLE t",
    "DETACH TABLE terminal_events",
    "UNDROP TABLE t",
    "SYSTEM FLUSH LOGS",
    "SYSTEM STOP MERGES",
    "SYSTEM SHUTDOWN",
    "KILL QUERY WHERE 1",
    "USE system",
    "SET max_threads = 1",
    "SET readonly = 0",
    "BEGIN TRANSACTION",
    "BACKUP TABLE terminal_events TO File('{path}')",
    "CHECK TABLE terminal_events",
    "SELECT 1 SETTINGS readonly = 0",
    "SELECT 1 SETTINGS max_threads = 1",
    "SELECT 1 INTO OUTFILE '{path}'",
    "SELECT 1 INTO OUTFILE '{path}' FORMAT CSV",
    "SELECT 1 INTO/**/OUTFILE '{path}' TRUNCATE",
    "(SELECT 1) UNION ALL SELECT 2 INTO OUTFILE '{path}' APPEND",
    "EXPLAIN SELECT 1 INTO OUTFILE '{path}'",
    "SHOW TABLES INTO OUTFILE '{path}'",
    "DESCRIBE TABLE v_events INTO OUTFILE '{path}'",
    "SELECT 1 PARALLEL WITH DROP TABLE terminal_events",
    "EXPLAIN AST SELECT 1; DROP TABLE terminal_events",
    "SELECT 1; DROP TABLE terminal_events",
    "SELECT 1; SELECT 2",
    r"SELECT '\xff'",
    "SELECT 1 FORMAT CSV",
    "SELECT file('/etc/hostname')",
    "DESCRIBE (SELECT file('/etc/hostname'))",
    "SELECT * FROM file('/etc/hostname', 'LineAsString')",
    "SELECT * FROM url('http://localhost:1/', 'LineAsString')",
    "SELECT * FROM executable('id', 'TSV', 'x String')",
    "SELECT * FROM remote('127.0.0.1', currentDatabase(), 'terminal_events')",
    "",
    "-- nothing",
    "SELECT 1 /*",
    "not a statement",
]


@pytest.mark.parametrize("sql", WRITING)
def test_nothing_but_reading_is_allowed(store, tmp_path, sql):
    with pytest.raises(StoreRejected):
        store.query(sql.format(path=tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []


def test_the_refused_statements_changed_nothing(store, rows_of):
    record = event("still-here", tenant="query")
    store.insert("terminal_events", encode_events([event_row(record)]))
    for sql in WRITING:
        with pytest.raises(StoreRejected):
            store.query(sql.format(path=Path("nowhere") / "out"))
    assert rows_of("SELECT count() AS n FROM v_events WHERE tenant = 'query'") == [{"n": 1}]
    assert rows_of("SELECT currentDatabase() AS d, getSetting('readonly') AS r") == [{"d": "default", "r": 1}]
    assert rows_of("SHOW TABLES LIKE 't'") == []


@pytest.mark.parametrize(
    ("sql", "answer"),
    [
        ("SELECT 1 AS a", b"1\n"),
        ("SELECT 1 AS a;", b"1\n"),
        ("  select 'a;b' -- trailing", b'"a;b"\n'),
        ("WITH 2 AS x SELECT x", b"2\n"),
        ("SELECT 'x\nINTO OUTFILE y' AS a", b'"x\nINTO OUTFILE y"\n'),
        ("SELECT 'FORMAT CSV' AS `INTO OUTFILE`", b'"FORMAT CSV"\n'),
        ("SELECT 1 UNION ALL SELECT 1", b"1\n1\n"),
        ("EXISTS TABLE v_events", b"1\n"),
        ("SHOW TABLES LIKE 'v_even%'", b'"v_events"\n'),
        ("SELECT toString(timezone())", b'"UTC"\n'),
    ],
)
def test_reading_statements_answer(store, sql, answer):
    assert store.query(sql, "CSV") == answer


def test_an_error_names_what_is_wrong(store):
    with pytest.raises(StoreRejected, match="nowhere"):
        store.query("SELECT * FROM nowhere")
    with pytest.raises(StoreRejected, match="DropQuery"):
        store.query("DROP TABLE v_events")
    with pytest.raises(StoreRejected, match="redirect"):
        store.query("SELECT 1 INTO OUTFILE 'x'")


def test_an_unknown_format_is_rejected(store):
    with pytest.raises(StoreRejected, match="Spreadsheet"):
        store.query("SELECT 1", "Spreadsheet")
