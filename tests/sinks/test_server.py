"""What only a server does, or fails to do: faults on the way, rights, several at once, TLS, tokens."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sinks.double import Account, RoleName, start_double
from sinks.errors import StoreDamaged, StoreForbidden, StoreRejected, StoreUnavailable
from sinks.migrations import SERVER, Layout
from sinks.rows import encode_ledger
from sinks.server import Server, Tls, User, deduplication_token, open_server
from tests.sinks.conftest import ACCOUNTS
from tests.sinks.samples import NOW, ledger_row

ROOT = Path(__file__).parents[2]
WRITER = User("default", ACCOUNTS[0].password)


def server_of(double, **given):
    return Server(**{"url": double.url, "writer": WRITER, **given})


@pytest.fixture
def double(server_store, server_double):
    """The double of the shared store, with its tables; no fault is left behind."""
    yield server_double
    server_double.clear()


@pytest.fixture
def rows(request):
    """A block of the ledger that no other test writes."""
    return encode_ledger([ledger_row(offset, partition=request.node.name) for offset in range(3)])


@pytest.fixture
def stored(server_store, request):
    """How often each row of ``rows`` is stored, before any is replaced."""

    def count():
        sql = "SELECT count() AS n FROM ingest_ledger WHERE partition = {name:String} GROUP BY offset"
        stored = server_store._rows(sql, {"name": request.node.name})
        return sorted(row["n"] for row in stored)

    return count


OUTAGES = {
    "too many parts": lambda double: double.refuse(252),
    "out of memory": lambda double: double.refuse(241),
    "timeout": lambda double: double.refuse(159),
    "too many queries": lambda double: double.refuse(202),
    "server overloaded": lambda double: double.refuse(745),
    "503 without a body": lambda double: double.status(503),
    "502 without a body": lambda double: double.status(502),
    "429 without a body": lambda double: double.status(429),
    "cut before the body": lambda double: double.cut("before"),
    "cut after it was applied": lambda double: double.cut("after"),
}


@pytest.mark.parametrize("outage", OUTAGES)
def test_an_outage_is_no_fault_of_the_rows_and_the_next_attempt_stores_them_once(
    server_store, double, rows, stored, outage
):
    OUTAGES[outage](double)
    before = double.calls()
    with pytest.raises(StoreUnavailable):
        server_store.insert("ingest_ledger", rows)
    # The client made one attempt; whoever called decides about the next.
    assert double.calls().of("INSERT") == before.of("INSERT") + 1
    assert stored() == ([1, 1, 1] if outage == "cut after it was applied" else [])
    server_store.insert("ingest_ledger", rows)
    assert stored() == [1, 1, 1]


def test_an_outage_is_raised_and_not_taken_for_bad_rows(server_store, double, rows, stored):
    double.refuse(252, times=None)
    before = double.calls().of("INSERT")
    with pytest.raises(StoreUnavailable, match="TOO_MANY_PARTS"):
        server_store.insert_rows_isolating("ingest_ledger", rows)
    assert (double.calls().of("INSERT") - before, stored()) == (1, [])


def test_a_server_that_takes_too_long_is_an_outage(tmp_path, rows):
    # One of its own, which ends with the test: what it does late would be counted among what others ask.
    with start_double(tmp_path) as slow, open_server(Server(slow.url, timeout_s=1), lambda: NOW) as store:
        slow.delay(30)  # the next one only: whoever asked again would have an answer, as would whoever waited
        begun = time.monotonic()
        with pytest.raises(StoreUnavailable, match=r"timed out. \(read timeout=1\)"):
            store.insert("ingest_ledger", rows)
        assert time.monotonic() - begun >= 1


def test_a_slow_server_is_waited_for(server_store, double, rows, stored):
    double.delay(0.3)
    begun = time.monotonic()
    server_store.insert("ingest_ledger", rows)
    assert time.monotonic() - begun >= 0.3
    assert stored() == [1, 1, 1]


def test_an_answer_cut_short_is_no_answer(server_store, double):
    double.cut("within", on="SELECT 77", times=None)
    with pytest.raises(StoreUnavailable):
        server_store.query("SELECT 77")


def test_a_lookup_that_is_refused_is_an_outage(server_store, double):
    double.refuse(241, on="FROM terminal_events WHERE identity IN")
    with pytest.raises(StoreUnavailable, match="MEMORY_LIMIT"):
        server_store.identities([("a", "b")])


def test_every_attempt_bears_the_same_token_and_other_rows_another(server_store, double, rows):
    double.refuse(252, times=2)
    told = len(double.calls().tokens)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            server_store.insert("ingest_ledger", rows)
    server_store.insert("ingest_ledger", rows)
    server_store.insert("ingest_ledger", encode_ledger([ledger_row(9, partition="another")]))
    tokens = double.calls().tokens[told:]
    assert tokens[:3] == [deduplication_token("ingest_ledger", rows)] * 3
    assert tokens[3] not in tokens[:3]


def test_a_token_says_the_table_too():
    assert deduplication_token("a", b"rows") != deduplication_token("b", b"rows")
    assert deduplication_token("a", b"rows") != deduplication_token("a", b"rows2")
    assert deduplication_token("a" * 64 + "b", b"rows") == deduplication_token("a" * 64 + "b", b"rows")


def test_data_survive_a_restart(tmp_path):
    with start_double(tmp_path) as double, open_server(Server(double.url), lambda: NOW) as store:
        store.migrate()
        store.insert("ingest_ledger", encode_ledger([ledger_row(0)]))
        port = double.port
        double.stop()
        with pytest.raises(StoreUnavailable, match="refused"):
            store.ledger_totals()
        double.start()
        assert double.port == port
        assert [total.read for total in store.ledger_totals()] == [1]
        double.kill()
        double.start()
        assert [total.read for total in store.ledger_totals()] == [1]
        # A connection that is kept open, and is closed by the other side meanwhile, is no outage.
        double.restart()
        store.insert("ingest_ledger", encode_ledger([ledger_row(1)]))
        assert [total.read for total in store.ledger_totals()] == [2]


# Who is let in


def test_a_wrong_password_says_what_to_check(double):
    with (
        pytest.raises(StoreForbidden, match=r"^516\. .*check store.user and store.password$"),
        open_server(server_of(double, writer=User("default", "wrong")), lambda: NOW),
    ):
        raise AssertionError("let in")


def test_a_password_is_in_no_message_and_no_repr(double):
    server = server_of(double, writer=User("default", "hunter2"), reader=User("reader", "hunter2"))
    with pytest.raises(StoreForbidden) as raised, open_server(server, lambda: NOW):
        raise AssertionError("let in")
    assert "hunter2" not in f"{raised.value} {raised.value.__cause__} {server!r}"


def test_lost_rights_are_no_fault_of_the_rows(server_store, double, rows, stored):
    double.refuse(497, times=None)
    before = double.calls().of("INSERT")
    with pytest.raises(StoreForbidden, match="grant it"):
        server_store.insert_rows_isolating("ingest_ledger", rows)
    assert (double.calls().of("INSERT") - before, stored()) == (1, [])


def test_a_lost_table_is_no_fault_of_the_rows(server_store, double, rows):
    double.refuse(60)
    with pytest.raises(StoreDamaged, match="table ingest_ledger is not as this program made it"):
        server_store.insert_rows_isolating("ingest_ledger", rows)


def test_a_database_that_is_not_there_is_said(double):
    with pytest.raises(StoreRejected, match="nowhere"), open_server(server_of(double, database="nowhere"), lambda: NOW):
        raise AssertionError("let in")


@pytest.mark.parametrize("reader", [None, User("reader", "r")])
def test_statements_of_people_cannot_write_even_unchecked(double, reader):
    with open_server(server_of(double, reader=reader), lambda: NOW) as store:
        for sql in ("CREATE TABLE t (a Int8) ENGINE = Memory", "INSERT INTO ingest_ledger (source) VALUES ('x')",
                    "SELECT 1 SETTINGS readonly = 0"):  # fmt: skip
            with pytest.raises((StoreRejected, StoreForbidden)):
                store._engine.ask(sql, None)


def test_a_writer_that_may_not_make_tables_works_where_they_are_made(tmp_path):
    accounts = [Account("default"), Account("writer", "w", RoleName.WRITER)]
    with start_double(tmp_path, accounts) as fresh:
        writing = Server(fresh.url, writer=User("writer", "w"))
        with open_server(writing, lambda: NOW) as store, pytest.raises(StoreForbidden, match="CREATE"):
            store.migrate()
        with open_server(Server(fresh.url), lambda: NOW) as store:
            store.migrate()
        with open_server(writing, lambda: NOW) as store:
            assert store.migrate() == []
            store.insert("ingest_ledger", encode_ledger([ledger_row(0)]))
            assert store.ledger_totals()[0].read == 1


@pytest.mark.parametrize(("url", "wrong"), [
    ("localhost:8123", "not an address"),
    ("ftp://localhost", "not an address"),
    ("http://", "not an address"),
    ("http://someone:secret@localhost", "give them as store.user"),
    ("http://localhost:8123/path", "goes on after the port"),
    ("http://localhost:8123?a=b", "goes on after the port"),
    ("http://localhost:80000", "no valid port"),
])  # fmt: skip
def test_an_address_that_is_none_is_refused_without_its_password(url, wrong):
    with pytest.raises(StoreRejected, match=wrong) as raised, open_server(Server(url), lambda: NOW):
        raise AssertionError("let in")
    assert "secret" not in str(raised.value)


def test_nobody_there_is_an_outage():
    with pytest.raises(StoreUnavailable, match="refused"), open_server(Server("http://127.0.0.1:1"), lambda: NOW):
        raise AssertionError("let in")


# Several at once

WRITING = """
import sys
from sinks.rows import encode_ledger
from sinks.server import Server, User, open_server
from tests.sinks.samples import ledger_row
with open_server(Server(sys.argv[1], writer=User("default", sys.argv[2])), lambda: 0) as store:
    for batch in range(5):
        rows = [ledger_row(batch * 100 + n, partition=sys.argv[3]) for n in range(100)]
        store.insert("ingest_ledger", encode_ledger(rows))
"""


def test_several_processes_write_at_once(server_store, double):
    command = [sys.executable, "-c", WRITING, double.url, WRITER.password]
    writers = [subprocess.Popen([*command, f"process {number}"], cwd=ROOT) for number in range(3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert [server_store.ledger_totals("file", f"process {number}")[0].read for number in range(3)] == [500] * 3


def test_lookups_of_one_store_run_side_by_side(server_store, double):
    rows = [ledger_row(offset, partition="side by side") for offset in range(10)]
    server_store.insert("ingest_ledger", encode_ledger(rows))
    together = threading.Barrier(4)

    def look(_):
        together.wait()
        return server_store.identities([("side", "by side")]), server_store.ledger_totals("file", "side by side")[
            0
        ].read

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(look, range(4))) == [({}, 10)] * 4


# Layouts


def test_a_layout_with_a_token_window_drops_a_block_that_comes_twice(tmp_path):
    with start_double(tmp_path) as double:
        for layout, copies in ((SERVER, 1), (Layout(), 2)):
            with open_server(Server(double.url, layout=layout), lambda: NOW) as store:
                store.migrate()
                for _ in range(2):
                    store.insert("ingest_ledger", encode_ledger([ledger_row(0)]))
                assert store._rows("SELECT count() AS n FROM ingest_ledger") == [{"n": copies}]
                # A key gives correctness, a token only saves work.
                assert store.ledger_totals()[0].read == 1
                for made in store._rows("SELECT name FROM system.tables WHERE database = currentDatabase()"):
                    store._engine.command(f"DROP TABLE {made['name']} SYNC")


# TLS


KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def openssl(*arguments, cwd):
    subprocess.run(["openssl", *arguments], cwd=cwd, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """An authority (ca.pem), what it signed for a server named store.test and for a client, and another authority."""
    folder = tmp_path_factory.mktemp("certificates")
    for authority in ("ca", "other"):
        openssl("req", "-x509", *KEY, "-days", "2", "-subj", f"/CN={authority}", "-keyout", f"{authority}.key",
                "-out", f"{authority}.pem", cwd=folder)  # fmt: skip
    for name in ("store.test", "client"):
        (folder / "ext").write_text(f"subjectAltName=DNS:{name}\n")
        openssl("req", *KEY, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", "request", cwd=folder)
        openssl("x509", "-req", "-in", "request", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2",
                "-extfile", "ext", "-out", f"{name}.pem", cwd=folder)  # fmt: skip
    both = (folder / "store.test.pem").read_text() + (folder / "store.test.key").read_text()
    (folder / "server.pem").write_text(both)
    return folder


@pytest.fixture(scope="module")
def secure(tmp_path_factory, certificates):
    path = tmp_path_factory.mktemp("secure")
    accounts = [Account("default", "a password")]
    with start_double(
        path, accounts, certificate=certificates / "server.pem", client_ca=certificates / "ca.pem"
    ) as double:
        yield double


def tls(folder, **given):
    whole = {"ca": folder / "ca.pem", "certificate": folder / "client.pem", "key": folder / "client.key",
             "server_host_name": "store.test"}  # fmt: skip
    return Tls(**whole | given)


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")  # which is what verify = false asks for
@pytest.mark.parametrize("given", [{}, {"verify": False, "ca": None}])
def test_a_server_is_trusted_by_its_authority_and_name(secure, certificates, given):
    server = Server(secure.url, User("default", "a password"), tls=tls(certificates, **given))
    with open_server(server, lambda: NOW) as store:
        store.migrate()
        store.insert("ingest_ledger", encode_ledger([ledger_row(0)]))
        assert store.ledger_totals()[0].read == 1


@pytest.mark.parametrize(("given", "wrong"), [
    ({"ca": "other.pem"}, "certificate verify failed"),
    ({"ca": None}, "certificate verify failed"),
    ({"server_host_name": None}, "doesn't match|mismatch"),
    ({"server_host_name": "another.test"}, "doesn't match|mismatch"),
    ({"certificate": None, "key": None}, "certificate required|reset|EOF|closed|Broken"),
])  # fmt: skip
def test_a_connection_that_is_not_trusted_is_not_made(secure, certificates, given, wrong):
    found = {name: certificates / value if name == "ca" and value else value for name, value in given.items()}
    server = Server(secure.url, User("default", "a password"), tls=tls(certificates, **found))
    with pytest.raises(StoreUnavailable, match=wrong), open_server(server, lambda: NOW):
        raise AssertionError("let in")


def test_a_certificate_that_cannot_be_read_is_said(secure, certificates):
    server = Server(secure.url, User("default", "a password"), tls=tls(certificates, ca=certificates / "absent.pem"))
    with (
        pytest.raises((StoreRejected, StoreUnavailable), match=r"absent|No such file"),
        open_server(server, lambda: NOW),
    ):
        raise AssertionError("let in")


def test_nothing_is_left_running(tmp_path):
    with start_double(tmp_path) as double:
        pid = double._process.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
