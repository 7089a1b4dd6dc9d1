"""Runs the command as its users do, and looks at what it left behind."""

import atexit
import base64
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from schemas.companions import COMPANIONS
from streams.cut import Limits
from tests.cases import load_cases

ROOT = Path(__file__).parents[2]
TABLES = ("terminal_events", "exit_classifications", "active_tables", "ingest_ledger", "dead_letters",
          "conflicting_events", "legacy_exits", "recovery_actions", "review_events", "enrichments")  # fmt: skip
VOLATILE = ("ingested_at", "classified_at", "recorded_at", "activated_at")
"""Columns that say when something was done."""


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    status: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


def environment(**extra: str) -> dict[str, str]:
    """The environment of a command: no configuration but a fixed redaction key, and no home to write to."""
    given = ("OFFRAMP_", "XDG_", "COLUMNS", "LINES")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(given)}
    return clean | {"OFFRAMP_REDACTION__KEY": "a key of the tests, long enough", "HOME": "/nonexistent"} | extra


@functools.cache
def _driver() -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.offramp.driver"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT,
        env=environment(PYTHONWARNINGS="error"),
    )  # fmt: skip
    atexit.register(process.communicate)
    return process


def run(
    *argv: str | Path, stdin: bytes = b"", patches: dict[str, Any] | None = None, entry: str = "offramp.main.main"
) -> Done:
    """Run a command in the driver's process; ``patches`` sets attributes of modules meanwhile."""
    process = _driver()
    request = {
        "entry": entry,
        "argv": [str(each) for each in argv],
        "stdin": base64.b64encode(stdin).decode(),
        "patches": patches or {},
    }
    assert process.stdin
    assert process.stdout
    process.stdin.write(json.dumps(request).encode() + b"\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    return Done(answer["status"], base64.b64decode(answer["out"]), base64.b64decode(answer["err"]).decode())


def in_pieces(chunk: int, batch: int) -> dict[str, Any]:
    """Patches under which a chunk and a batch have that many messages."""
    return {
        "streams.cut.Limits.__init__.__defaults__": [chunk, *astuple(Limits())[1:]],
        "streams.ingest.BATCH_RECORDS": batch,
    }


def run_alone(*argv: str | Path, program: Sequence[str] = ("-m", "offramp"), **env: str) -> Done:
    """Run a command in a process of its own."""
    command = [sys.executable, *program, *map(str, argv)]
    done = subprocess.run(command, cwd=ROOT, env=environment(**env), capture_output=True, check=False)
    return Done(done.returncode, done.stdout, done.stderr.decode())


def ask(store: Path, sql: str) -> list[dict[str, Any]]:
    """Rows of a statement."""
    done = run("query", sql, "--format", "json", "--store", store)
    assert done.status == 0, done.err
    rows: list[dict[str, Any]] = json.loads(done.out)
    return rows


def counts(store: Path, *, raw: bool = False) -> dict[str, int]:
    """Rows of every table, as readers see them or as they lie there."""
    final = "" if raw else "FINAL"
    sql = " UNION ALL ".join(f"SELECT '{table}' AS t, count() AS n FROM {table} {final}" for table in TABLES)  # noqa: S608
    return {row["t"]: row["n"] for row in ask(store, sql)}


def contents(store: Path) -> dict[str, list[str]]:
    """Everything that readers see in every table, but when it was written."""
    stable = f"* EXCEPT ({', '.join(VOLATILE)})"
    sql = " UNION ALL ".join(f"SELECT '{t}' AS t, toJSONString(tuple({stable})) AS row FROM {t} FINAL" for t in TABLES)  # noqa: S608
    found: dict[str, list[str]] = {table: [] for table in TABLES}
    for row in ask(store, sql):
        found[row["t"]].append(row["row"])
    return {table: sorted(rows) for table, rows in found.items()}


def unaccounted(store: Path) -> int:
    """What an audit of the store says."""
    done = run("audit", "--format", "json", "--store", store)
    number: int = json.loads(done.out)["unaccounted"]
    assert done.status == (1 if number else 0)
    return number


@functools.cache
def events() -> tuple[dict[str, Any], ...]:
    """The labelled events as producers send them."""
    return tuple(case.json for case in load_cases())


def companion(kind: str, number: int = 0, **fields: Any) -> dict[str, Any]:
    """A companion record."""
    assert kind in COMPANIONS
    return {"type": kind, "version": 1, "record_id": f"{kind}-{number}", "tenant": "acme", "event_id": "e", **fields}


def as_lines(records: Sequence[dict[str, Any] | str]) -> bytes:
    """JSON Lines; text stays as it is."""
    texts = (record if isinstance(record, str) else json.dumps(record) for record in records)
    return "".join(f"{text}\n" for text in texts).encode()


def write_lines(path: Path, records: Sequence[dict[str, Any] | str]) -> Path:
    """A file of JSON Lines."""
    path.write_bytes(as_lines(records))
    return path


def new_directory() -> Path:
    """A directory that ends with this process."""
    directory = tempfile.TemporaryDirectory(prefix="offramp-tests-")
    atexit.register(directory.cleanup)
    return Path(directory.name)
