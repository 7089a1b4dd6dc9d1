"""Expressions over facts, computed by the embedded engine in a process of its own, since it has one directory each.

Reads one request (a statement, bits), answers with its rows.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import clickhouse_connect

from classifier.sql import COLUMN

ROOT = Path(__file__).parents[2]


def computed(expressions: dict[str, str], bits: Sequence[int]) -> list[dict[str, Any]]:
    """The value of each expression for each of the bits."""
    listed = ", ".join(f"{sql} AS {name}" for name, sql in expressions.items())
    return asked(f"SELECT {listed} FROM facts ORDER BY place", bits)  # noqa: S608


def asked(sql: str, bits: Sequence[int]) -> list[dict[str, Any]]:
    """The rows of a statement over ``facts``, a table of the bits in the column of the store."""
    request = json.dumps({"sql": sql, "bits": list(bits)})
    command = [sys.executable, "-m", "tests.classifier.engine"]
    done = subprocess.run(command, cwd=ROOT, input=request, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def _answer(request: dict[str, Any], directory: str) -> bytes:
    client = clickhouse_connect.get_client(interface="chdb", path=directory)
    client.command(f"CREATE TABLE facts (place UInt32, {COLUMN} UInt64) ENGINE = Memory")
    rows = "".join(f"{place}\t{bits}\n" for place, bits in enumerate(request["bits"]))
    client.raw_insert("facts", ["place", COLUMN], rows, fmt="TSV")
    answer: bytes = client.raw_query(request["sql"], fmt="JSONEachRow")
    client.close()
    return answer


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        sys.stdout.buffer.write(_answer(json.load(sys.stdin), made))
