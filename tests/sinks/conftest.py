"""One store for all tests of the sinks, in three forms: the tests are the contract of each."""

import json

import pytest

from sinks.double import Account, RoleName, start_double
from sinks.migrations import Layout
from sinks.server import Server, User, open_server
from sinks.store import open_store
from tests.sinks.samples import NOW

ACCOUNTS = [Account("default", "not: easy"), Account("reader", "r", RoleName.READER)]


def no_wait(seconds):
    raise AssertionError("nothing holds the store")


@pytest.fixture(scope="package")
def embedded_store(tmp_path_factory):
    # The engine has one directory per process at a time, so this ends before the tests of other packages.
    path = tmp_path_factory.mktemp("store") / "new"
    with open_store(path, holder="test", lock_timeout_s=0, now=lambda: NOW, wait=no_wait) as opened:
        opened.migrate()
        yield opened


@pytest.fixture(scope="package")
def server_double(tmp_path_factory):
    with start_double(tmp_path_factory.mktemp("server"), ACCOUNTS) as double:
        yield double


@pytest.fixture(scope="package")
def server_store(server_double):
    server = Server(server_double.url, writer=User("default", "not: easy"), reader=User("reader", "r"))
    with open_server(server, lambda: NOW) as opened:
        opened.migrate()
        yield opened


@pytest.fixture(scope="package")
def sharded_store(tmp_path_factory):
    with start_double(tmp_path_factory.mktemp("sharded"), cluster="main") as double:
        server = Server(double.url, layout=Layout(cluster="main", sharded=True))
        with open_server(server, lambda: NOW) as opened:
            opened.migrate()
            yield opened


@pytest.fixture(scope="package", params=["embedded", "server", "sharded"])
def store(request):
    return request.getfixturevalue(f"{request.param}_store")


@pytest.fixture(scope="package")
def rows_of(store):
    """Rows of a statement, as dicts."""

    def ask(sql):
        return [json.loads(line) for line in store.query(sql).splitlines()]

    return ask
