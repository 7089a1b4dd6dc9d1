import os
import subprocess
import sys
from pathlib import Path

import pytest

from sinks.errors import StoreBusy, StoreRejected
from sinks.lock import LOCK, MARKER, Holder, claim_directory, hold

HOLDING = """
import sys, time
from pathlib import Path
from sinks.lock import Holder, hold
import os
with hold(Path(sys.argv[1]), Holder("classify", os.getpid(), "here", 0), 0, time.sleep):
    print("held", flush=True)
    sys.stdin.read()
"""


class Waits:
    """Counts the seconds that are waited, and does something after some of them."""

    def __init__(self, after_s=0.0, then=lambda: None):
        self.total, self.after_s, self.then = 0.0, after_s, then

    def __call__(self, seconds):
        self.total += seconds
        if self.after_s and self.total >= self.after_s:
            self.then()
            self.after_s = 0.0


@pytest.fixture
def other(tmp_path):
    """Another process that holds ``tmp_path`` until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert process.stdout.readline() == b"held\n"
    yield process
    if process.returncode is None:
        process.communicate()


def me(verb="query"):
    return Holder(verb, os.getpid(), "here", 0)


def test_a_second_process_waits_then_names_the_holder(tmp_path, other):
    waits = Waits()
    named = rf"`classify` \(pid {other.pid} on here, since 1970-01-01T"
    with pytest.raises(StoreBusy, match=named) as raised, hold(tmp_path, me(), 1.25, waits):
        raise AssertionError("two processes hold the store")
    assert waits.total == pytest.approx(1.25)
    assert raised.value.directory == str(tmp_path)


def test_no_time_to_wait_is_no_wait(tmp_path, other):
    waits = Waits()
    with pytest.raises(StoreBusy), hold(tmp_path, me(), 0, waits):
        pass
    assert waits.total == 0


@pytest.mark.parametrize("end", ["leaves", "crashes"])
def test_it_is_free_once_the_holder_is_gone(tmp_path, other, end):
    def gone():
        if end == "crashes":
            other.kill()
        other.communicate()

    waits = Waits(after_s=0.3, then=gone)
    with hold(tmp_path, me(), 60, waits):
        assert '"verb": "query"' in (tmp_path / LOCK).read_text()
    assert waits.total < 1
    assert (tmp_path / LOCK).read_text() == ""


def test_the_same_process_cannot_hold_it_twice(tmp_path):
    with (
        hold(tmp_path, me("load"), 0, Waits()),
        pytest.raises(StoreBusy, match="load"),
        hold(tmp_path, me(), 0, Waits()),
    ):
        raise AssertionError("held twice")
    with hold(tmp_path, me(), 0, Waits()):
        pass


def test_an_unreadable_note_is_not_fatal(tmp_path, other):
    (tmp_path / LOCK).write_bytes(b"{")
    with pytest.raises(StoreBusy, match="just started"), hold(tmp_path, me(), 0, Waits()):
        pass


def test_new_and_empty_directories_become_stores(tmp_path):
    for directory in (tmp_path / "empty", tmp_path / "new" / "deep"):
        if directory.name == "empty":
            directory.mkdir()
        claim_directory(directory)
        assert (directory / MARKER).exists()
        claim_directory(directory)


def test_a_store_with_data_is_recognised(tmp_path):
    claim_directory(tmp_path)
    (tmp_path / "engine").mkdir()
    claim_directory(tmp_path)


def test_somebody_elses_directory_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(StoreRejected, match="not empty"):
        claim_directory(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreRejected, match="is a file"):
        claim_directory(tmp_path / "file")


def test_a_directory_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreRejected, match="cannot be used"):
        claim_directory(tmp_path / "file" / "below")
