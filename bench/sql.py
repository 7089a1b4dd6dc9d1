"""How fast the engine recomputes the exits of stored events: ``python -m bench.sql``. Ends with 1 if it is too slow.

The rows have random facts, each holding in one of eight, so that every row of the table decides some and nothing is
gained by remembering. They are read from a table on disk. What is computed and counted is the outcome, which stands for
row, exit, reason and queue, and whether it is verified. The time of the fastest round counts, because on a shared
machine only that is a property of the program.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable

import clickhouse_connect

from classifier.facts import FACTS
from classifier.sql import COLUMN, exit_sql
from classifier.table import default_text, load

TARGET = 5_000_000
"""Events per second, on two cores."""
ROUNDS = 5
_FILL = f"""
    INSERT INTO facts
    SELECT bitAnd(bitAnd(rand64(1), rand64(2)), bitAnd(rand64(3), {2 ** len(FACTS) - 1}))
    FROM numbers({{events:UInt64}})
"""  # noqa: S608 -- constants


def recomputing() -> str:
    """The statement: the outcome of every row by the default table, counted."""
    exits = exit_sql(load(default_text()))
    return f"SELECT {exits.outcome} AS outcome, {exits.verified} AS verified, count() FROM facts GROUP BY ALL"  # noqa: S608


def fastest(work: Callable[[], object]) -> float:
    """Seconds of the fastest of several rounds."""
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def measure(events: int, directory: str) -> float:
    """Seconds to recompute the exits of ``events`` stored rows."""
    client = clickhouse_connect.get_client(interface="chdb", path=directory)
    client.command(f"CREATE TABLE facts ({COLUMN} UInt64) ENGINE = MergeTree ORDER BY tuple()")
    client.command(_FILL, parameters={"events": events})
    seconds = fastest(lambda: client.raw_query(recomputing()))
    client.close()
    return seconds


def main() -> None:
    """Measure as the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m bench.sql", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--events", type=int, default=10_000_000, help="number of stored events")
    events = parser.parse_args().events
    with tempfile.TemporaryDirectory(prefix="offramp-bench-") as made:
        seconds = measure(events, made)
    rate = events / seconds
    verdict = "pass" if rate >= TARGET else "FAIL"
    print(
        f"{verdict}  {events:,} events in {seconds:.2f} s on {os.cpu_count()} cores: {rate / 1e6:.1f} million a second"
    )
    sys.exit(0 if rate >= TARGET else 1)


if __name__ == "__main__":
    main()
