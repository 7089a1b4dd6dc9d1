"""The protocol, as a client that is not the store speaks it."""

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import clickhouse_connect
import pytest
import urllib3
from clickhouse_connect.driver.exceptions import DatabaseError
from clickhouse_connect.driver.external import ExternalData

from sinks.double import Account, RoleName, start_double
from sinks.double.users import account_from

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def double(tmp_path_factory):
    accounts = [Account("default", "p:w"), Account("writer", "w", RoleName.WRITER), Account("r", "r", RoleName.READER)]
    with start_double(tmp_path_factory.mktemp("double"), accounts) as running:
        yield running


@pytest.fixture
def client(double):
    with connect(double) as connected:
        yield connected


def connect(double, user="default", password="p:w", **given):  # noqa: S107 -- of the fixture above
    return clickhouse_connect.get_client(
        host="127.0.0.1", port=double.port, username=user, password=password, dedicated_pool=True, **given
    )


def ask(double, sql, user="default", password="p:w", **address):  # noqa: S107
    headers = {"X-ClickHouse-User": user, "X-ClickHouse-Key": password}
    url = f"{double.url}/?" + "&".join(f"{name}={value}" for name, value in address.items())
    return urllib3.request("POST", url, body=sql, headers=headers, retries=False)


@pytest.mark.parametrize("compress", [True, False, "gzip", "zstd", "lz4"])
def test_rows_go_in_and_come_back_in_any_encoding(double, compress):
    with connect(double, compress=compress) as client:
        client.command("CREATE OR REPLACE TABLE t (a Int64, b Nullable(String), c Array(Float64)) ENGINE = Memory")
        rows = [(1, None, [0.5]), (2, "x", [])]
        client.insert("t", rows, ["a", "b", "c"])
        assert client.query("SELECT * FROM t ORDER BY a").result_rows == rows
        assert client.query_arrow("SELECT a FROM t ORDER BY a").column("a").to_pylist() == [1, 2]
        assert client.query("SELECT * FROM t LIMIT 0").column_names == ("a", "b", "c")


def test_parameters_are_values(client):
    value = "it's {\\} \n\t"
    assert client.query("SELECT {x:String}", parameters={"x": value}).result_rows == [(value,)]


@pytest.mark.parametrize("session", [True, False])
def test_settings_hold_for_their_request_alone(double, session):
    sql = "SELECT getSetting('max_block_size')"
    with connect(double, autogenerate_session_id=session) as client:
        assert client.query(sql, settings={"max_block_size": 77}).result_rows == [(77,)]
        assert client.query(sql).result_rows != [(77,)]
        assert client.query(sql, settings={"readonly": 1, "max_block_size": 78}).result_rows == [(78,)]
        assert client.query(sql, settings={"max_block_size": 79}).result_rows == [(79,)]


def test_a_table_comes_along(client):
    external = ExternalData(file_name="x.csv", data=b"1,a\n2,b\n", fmt="CSV", structure="n Int8, s String")
    assert client.query("SELECT s FROM x WHERE n = 2", external_data=external).result_rows == [("b",)]
    with pytest.raises(DatabaseError, match="UNKNOWN_TABLE"):
        client.query("SELECT s FROM x")


def test_a_session_keeps_its_temporary_tables_to_itself(double):
    with connect(double, session_id="one") as one, connect(double, session_id="two") as two:
        one.command("CREATE TEMPORARY TABLE mine (a Int8)")
        one.command("INSERT INTO mine VALUES (7)")
        assert one.query("SELECT a FROM mine").result_rows == [(7,)]
        with pytest.raises(DatabaseError, match="UNKNOWN_TABLE"):
            two.query("SELECT a FROM mine")


def test_a_session_does_one_thing_at_a_time(double):
    answers = []
    with ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(ask, double, "SELECT sleep(2)", session_id="busy")
        while not under_way.done():  # whichever of two comes first is answered
            answers.append(ask(double, "SELECT 1", session_id="busy"))
    refused = [answer for answer in [*answers, under_way.result()] if answer.status != 200]
    assert {answer.headers["X-ClickHouse-Exception-Code"] for answer in refused} == {"373"}


@pytest.mark.parametrize(("sql", "status", "code"), [
    ("SELECT nonsense", 500, "47"), ("SELECT FROM WHERE", 400, "62"), ("SELECT * FROM nowhere", 404, "60"),
    ("", 400, "62"),
])  # fmt: skip
def test_an_error_has_its_code_and_words(double, sql, status, code):
    answer = ask(double, sql)
    assert (answer.status, answer.headers["X-ClickHouse-Exception-Code"]) == (status, code)
    assert answer.data.startswith(f"Code: {code}. ".encode())


def test_an_answer_says_its_format_and_what_it_read(double):
    answer = ask(double, "SELECT 1 AS a", query_id="mine", default_format="JSONEachRow")
    assert (answer.data, answer.headers["X-ClickHouse-Format"]) == (b'{"a":1}\n', "JSONEachRow")
    assert answer.headers["X-ClickHouse-Query-Id"] == "mine"
    assert b"read_rows" in answer.headers["X-ClickHouse-Summary"].encode()
    assert ask(double, "SELECT 1 FORMAT CSV").headers["X-ClickHouse-Format"] == "CSV"
    assert "X-ClickHouse-Format" not in ask(double, "CREATE TABLE IF NOT EXISTS x (a Int8) ENGINE = Memory").headers


def test_it_answers_a_ping_to_anybody(double):
    assert urllib3.request("GET", f"{double.url}/ping", retries=False).data == b"Ok.\n"


@pytest.mark.parametrize(("user", "password"), [("default", ""), ("default", "wrong"), ("nobody", "p:w")])
def test_nobody_else_is_let_in(double, user, password):
    answer = ask(double, "SELECT 1", user, password)
    assert (answer.status, answer.headers["X-ClickHouse-Exception-Code"]) == (403, "516")


@pytest.mark.parametrize(("user", "sql", "code"), [
    ("writer", "SELECT 1", None), ("writer", "DROP TABLE t", "497"), ("writer", "CREATE TABLE u (a Int8)", "497"),
    ("r", "SELECT 1", None), ("r", "INSERT INTO t VALUES (1)", "497"), ("r", "KILL QUERY WHERE 1", None),
    ("r", "SELECT 1 SETTINGS max_threads = 1", "164"),
])  # fmt: skip
def test_users_do_what_their_role_allows(double, user, sql, code):
    assert ask(double, sql, user, user[0]).headers.get("X-ClickHouse-Exception-Code") == code


def test_a_read_only_user_can_set_nothing(double):
    assert ask(double, "SELECT 1", "r", "r", max_threads=1).headers["X-ClickHouse-Exception-Code"] == "164"


@pytest.mark.parametrize(("user", "privilege", "granted"), [
    ("default", "DROP TABLE", b"1\n"), ("writer", "INSERT", b"1\n"), ("writer", "DROP TABLE", b"0\n"),
    ("r", "INSERT", b"0\n"),
])  # fmt: skip
def test_rights_can_be_asked_for(double, user, privilege, granted):
    password = "p:w" if user == "default" else user[0]
    assert ask(double, f"CHECK GRANT {privilege} ON default.t", user, password).data == granted


def test_calls_are_counted_by_what_came_of_them(double):
    before = double.calls()
    double.refuse(241, on="SELECT 4711")
    for sql in ("SELECT 4711", "SELECT 4711", "SELECT nonsense"):
        ask(double, sql)
    after = double.calls()
    assert [after.of("select", end) - before.of("select", end) for end in ("ok", "241", "47", None)] == [1, 1, 1, 3]


@pytest.mark.parametrize("framing", ["Content-Length: 1000", "Transfer-Encoding: chunked"])
def test_a_request_that_breaks_off_is_not_half_applied(double, framing):
    ask(double, "CREATE OR REPLACE TABLE whole (a Int64) ENGINE = Memory")
    before = double.calls().of("INSERT")
    rows = b"INSERT INTO whole FORMAT CSV\n" + b"1\n" * 50
    body = rows if framing.startswith("Content") else b"%x\r\n%b\r\n" % (len(rows), rows)
    key = "X-ClickHouse-User: default\r\nX-ClickHouse-Key: p:w"
    with socket.create_connection(("127.0.0.1", double.port)) as connection:
        connection.sendall(f"POST / HTTP/1.1\r\nHost: x\r\n{key}\r\n{framing}\r\n\r\n".encode() + body)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(100) == b""
    assert ask(double, "SELECT count() FROM whole").data == b"0\n"
    assert double.calls().of("INSERT") == before


def test_it_ends_with_whoever_started_it(tmp_path):
    command = [sys.executable, "-m", "sinks.double", f"--path={tmp_path}"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    assert b'"port"' in process.stdout.readline()
    process.stdin.close()
    assert process.wait(timeout=30) == 0
    process.stdout.close()


def test_a_directory_that_is_in_use_is_refused_in_words(double, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RuntimeError, match="does not start on"), start_double(tmp_path / "file"):
        raise AssertionError("started")


def test_an_account_is_written_with_colons():
    assert account_from("a:b:c:reader") == Account("a", "b:c", RoleName.READER)
    with pytest.raises(ValueError, match="nonsense"):
        account_from("a:b:nonsense")
