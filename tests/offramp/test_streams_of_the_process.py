"""What the command does with standard streams that are full, closed, or not read to the end."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.offramp.kit import ask, environment, events, run_alone, write_lines

ROOT = Path(__file__).parent.parent.parent
DATA = ROOT / "tests" / "data"


def _run(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["/bin/sh", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


def _offramp(arguments: str) -> str:
    return f"{sys.executable} -m offramp {arguments}"


@pytest.fixture
def unread() -> Iterator[int]:
    """A pipe that whoever was to read has left already, so that no write to it succeeds."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


def _status_and_errors(unread: int, *argv: str | Path) -> tuple[int, bytes]:
    done = subprocess.run(
        [sys.executable, "-m", "offramp", *map(str, argv)], cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL,
        stdout=unread, stderr=subprocess.PIPE, check=False, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "argv",
    [("--help",), ("--version",), ("table", "show", "--help"), ("schema",), ("schema", "facts", "--format", "json"),
     ("table", "show"), ("table", "check"), ("import", "auto", str(DATA))],
    ids=lambda argv: "-".join(argv[:2]),
)  # fmt: skip
def test_what_nobody_reads_ends_quietly_as_programs_do_that_sigpipe_ends(unread, argv):
    assert _status_and_errors(unread, *argv) == (141, b"")


def test_a_reader_that_goes_away_opens_no_gate(unread, tmp_path):
    """Whatever the answer would have been."""
    path, store = write_lines(tmp_path / "events", events()), tmp_path / "store"
    for argv in (
        ("classify", path, "--store", store),
        ("audit", "--store", store),
        ("query", "SELECT 1", "--store", store),
        ("shadow", "compare", "--store", store),
        ("shadow", "readiness", "--store", store, "--format", "json"),
    ):
        assert _status_and_errors(unread, *argv) == (141, b""), argv
    # What was to be done before anything is printed, was.
    assert ask(store, "SELECT count() AS n FROM v_exits") == [{"n": len(events())}]


def test_a_reader_that_has_enough_ends_the_command_quietly(tmp_path):
    done = _run(f"({_offramp(f'import auto {DATA}')}; echo $? > {tmp_path}/status) | head -n 1")
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
    assert (tmp_path / "status").read_text() == "141\n"


def test_a_sentence_that_nobody_hears_changes_no_status(unread):
    argv = [sys.executable, "-m", "offramp", "schema", "nonsense"]
    assert subprocess.run(argv, cwd=ROOT, stderr=unread, check=False, timeout=60).returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", ["schema", "table show"])
def test_a_full_output_is_one_sentence_and_status_three(arguments):
    done = _run(f"{_offramp(arguments)} > /dev/full")
    assert (done.returncode, done.stderr) == (3, "offramp: output: No space left on device\n")


def test_closed_streams_are_empty_ones():
    assert _run(f"{_offramp('schema')} >&-").returncode == 0
    assert _run(f"{_offramp('classify --no-store -')} <&-").returncode == 0


def test_no_name_moves_the_cursor(tmp_path):
    done = _run(f"{_offramp('import auto')} 'no\033[31m\nfile'")
    assert done.returncode == 2
    assert "\033" not in done.stderr


def test_what_is_stored_is_seen_though_nobody_reads_the_answer_on(tmp_path):
    path, store = write_lines(tmp_path / "events", events()), tmp_path / "store"
    _run(f"{_offramp(f'classify {path} --store {store} --format ndjson')} > /dev/full")
    done = _run(_offramp(f"audit --store {store}"))
    assert (done.returncode, done.stderr) == (0, "")
    assert ask(store, "SELECT count() AS n FROM v_exits") == [{"n": len(events())}]


@pytest.mark.parametrize(
    ("encoding", "written"),
    [("ascii", rb"gr\xf6\xdfe \u2603"), ("latin-1", b"gr\xf6\xdfe \\u2603"), ("utf-8", "größe ☃".encode())],
)
def test_what_the_locale_has_no_character_for_is_written_as_an_escape(tmp_path, encoding, written):
    path, store = write_lines(tmp_path / "events", events()), tmp_path / "store"
    _run(_offramp(f"classify {path} --store {store}"))
    argv = ("query", "SELECT 'größe ☃' AS word", "--store", store)
    shown = run_alone(*argv, PYTHONIOENCODING=encoding)
    assert (shown.status, written in shown.out) == (0, True), shown.err
    # What is for programs is UTF-8 wherever it is written.
    given = run_alone(*argv, "--format", "csv", PYTHONIOENCODING=encoding)
    assert (given.status, "größe ☃" in given.text) == (0, True), given.err
