"""One store for all tests of the sinks: the engine has one directory per process."""

import json

import pytest

from sinks.store import open_store
from tests.sinks.samples import NOW


def no_wait(seconds):
    raise AssertionError("nothing holds the store")


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "new"
    with open_store(path, holder="test", lock_timeout_s=0, now=lambda: NOW, wait=no_wait) as opened:
        opened.migrate()
        yield opened


@pytest.fixture(scope="session")
def rows_of(store):
    """Rows of a statement, as dicts."""

    def ask(sql):
        return [json.loads(line) for line in store.query(sql).splitlines()]

    return ask
