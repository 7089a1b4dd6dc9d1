"""Writers that know nothing but to try again, against a server that fails at random: every row once, none missing."""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from sinks.double import start_double
from sinks.errors import StoreUnavailable
from sinks.rows import encode_ledger
from sinks.server import Server, open_server
from tests.sinks.samples import NOW, ledger_row

WRITERS, BLOCKS, ROWS = 2, 12, 20
FAULTS = 12
ATTEMPTS, WAIT_S = 2000, 0.02


def fail(double, chance):
    """Plan or do one thing that goes wrong."""
    kind = chance.choice(("refuse", "status", "before", "after", "delay", "crash"))
    after = chance.randrange(3)
    if kind == "refuse":
        double.refuse(chance.choice((252, 241, 159, 202)), times=chance.randint(1, 3), after=after)
    elif kind == "status":
        double.status(chance.choice((502, 503, 429)), after=after)
    elif kind == "delay":
        double.delay(0.05, after=after)
    elif kind == "crash":
        double.kill()
        double.start()
    else:
        double.cut(kind, after=after)


def write(store, name):
    """Insert all blocks of one writer; how often it had to try again."""
    tries = 0
    for number in range(BLOCKS):
        block = encode_ledger([ledger_row(number * ROWS + row, partition=name) for row in range(ROWS)])
        while not stored(store, block):
            tries += 1
            assert tries < ATTEMPTS
            time.sleep(WAIT_S)
    return tries


def stored(store, block):
    try:
        store.insert("ingest_ledger", block)
    except StoreUnavailable:
        return False
    return True


@pytest.mark.parametrize("seed", range(2))
def test_every_row_is_stored_once(tmp_path, seed):
    chance = random.Random(seed)
    names = [f"writer {number}" for number in range(WRITERS)]
    with start_double(tmp_path) as double, ExitStack() as stack:
        server = Server(double.url)
        stores = [stack.enter_context(open_server(server, lambda: NOW)) for _ in names]
        stores[0].migrate()
        with ThreadPoolExecutor(WRITERS) as pool:
            writers = [pool.submit(write, store, name) for store, name in zip(stores, names, strict=True)]
            for _ in range(FAULTS):
                fail(double, chance)
            assert sum(writer.result() for writer in writers) > 0
        double.clear()
        totals = {total.partition: (total.read, total.missing_offsets) for total in stores[0].ledger_totals()}
        assert totals == dict.fromkeys(names, (BLOCKS * ROWS, 0))
        # Tokens are remembered on disk, so that not even a second copy lies there.
        assert stores[0]._rows("SELECT count() AS n FROM ingest_ledger") == [{"n": WRITERS * BLOCKS * ROWS}]
