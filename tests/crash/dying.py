"""The command in a process that ends, without any farewell, before the n-th insert into a table; small batches."""

import os
import sys
from dataclasses import astuple
from unittest import mock

from offramp.main import main
from sinks.store import Store
from streams import ingest
from streams.cut import Limits

STATUS = 9


def die_before(table: str, time: int) -> "mock._patch[object]":
    """Patch the store so that it does."""
    insert, seen = Store.insert, {"times": 0}

    def insert_or_die(self: Store, into: str, stream: bytes) -> None:
        seen["times"] += into == table
        if seen["times"] == time:
            os._exit(STATUS)
        insert(self, into, stream)

    return mock.patch.object(Store, "insert", insert_or_die)


if __name__ == "__main__":
    _, name, number, size, *argv = sys.argv
    with (
        die_before(name, int(number)),
        mock.patch.object(Limits.__init__, "__defaults__", (int(size), *astuple(Limits())[1:])),
        mock.patch.object(ingest, "BATCH_RECORDS", int(size)),
        mock.patch.object(sys, "argv", ["offramp", *argv]),
    ):
        main()
