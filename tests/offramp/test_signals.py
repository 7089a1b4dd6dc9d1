"""What ends by a signal: at once, in order, with the shell's status, leaving nothing behind."""

import signal
import subprocess
import sys

import pytest

from tests.offramp.kit import ROOT, environment, events, run, write_lines

ENDLESS = "SELECT sum(sipHash64(number)) FROM numbers(20000000000)"
SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
LISTEN = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
"""
# A test run in the background inherits from its shell to ignore Ctrl-C, and so would the command.
QUERY = """
import threading
from offramp import main
from sinks.engine import EmbeddedEngine
ask = EmbeddedEngine.ask
RUNNING = "SELECT count() FROM system.processes WHERE query LIKE '%sipHash64%' AND query NOT LIKE '%processes%'"
def watch(engine):
    while not engine._writer.command(RUNNING):
        pass
    print("under way", flush=True)
def told(engine, sql, fmt, parameters=None):
    if fmt == "CSVWithNames":
        threading.Thread(target=watch, args=(engine,)).start()
    return ask(engine, sql, fmt, parameters)
EmbeddedEngine.ask = told
main.main()
"""
CLASSIFY = """
from offramp import main
from streams.ingest import Report
add = Report.add
def told(report, outcome):
    if not report.read:
        print("under way", flush=True)
    add(report, outcome)
Report.add = told
if __name__ == "__main__":
    main.main()
"""


def _started(program, *arguments, **env):
    """A command in a session of its own, once it has said that it is under way."""
    command = [sys.executable, "-c", LISTEN + program, *map(str, arguments)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT,
        env=environment(**env), start_new_session=True,
    )  # fmt: skip
    assert process.stdout.readline() == b"under way\n"
    return process


def _end(process, number):
    process.send_signal(number)
    # Worker processes hold the standard streams, so that these end where all have ended.
    _, err = process.communicate(timeout=30)
    return process.returncode, err


@pytest.fixture
def store(tmp_path):
    assert run("classify", write_lines(tmp_path / "events", events()[:3]), "--store", tmp_path / "store").status == 0
    return tmp_path / "store"


@pytest.mark.parametrize(("number", "status"), SIGNALS)
def test_a_long_query_ends_at_once_and_gives_the_store_back(store, number, status):
    process = _started(QUERY, "query", ENDLESS, "--format", "csv", "--store", store)
    assert _end(process, number) == (status, b"")
    assert run("query", "SELECT 1", "--store", store, "--lock-timeout", "0").status == 0


@pytest.mark.parametrize(("number", "status"), SIGNALS)
def test_a_classification_ends_with_its_workers_and_temporary_files(tmp_path, number, status):
    path = write_lines(tmp_path / "events", [{**events()[0], "event_id": f"{number}"} for number in range(20_000)])
    spool = tmp_path / "spool"
    spool.mkdir()
    process = _started(CLASSIFY, "classify", path, "--no-store", "--workers", "1", TMPDIR=str(spool))
    assert _end(process, number) == (status, b"")
    assert list(spool.iterdir()) == []
