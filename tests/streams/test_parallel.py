"""Worker processes: same outcomes, same order, bounded, and a loss that is said."""

import gc
import io
import json
import os
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import pytest

from classifier.table import default_text
from schemas.redaction import Redactor
from streams import parallel
from streams.cut import Limits
from streams.files import SOURCE_KIND, chunks, open_source
from streams.parallel import Pool, WorkerLostError
from streams.worker import Setup, Task
from tests.cases import load_cases

KEY = b"a key of the tests, long enough"


class Dying(Redactor):
    """Ends the process that uses it."""

    def suspicious(self, block: bytes) -> bool:
        os._exit(9)


@pytest.fixture
def tasks(tmp_path):
    path = tmp_path / "events"
    path.write_text("".join(json.dumps(case.json) + "\n" for case in load_cases()))
    source = open_source(str(path), tmp_path, io.BytesIO())
    return [Task(chunk, SOURCE_KIND, source.partition, 1) for chunk in chunks(source, Limits(chunk_records=10))]


def test_processes_give_the_same_outcomes_in_the_same_order(tasks):
    setup = Setup(default_text(), Redactor(KEY), lines=True)
    assert list(Pool(2).run(setup, tasks)) == list(Pool(0).run(setup, tasks))
    assert len(tasks) > 8


def test_a_lost_process_is_an_error_that_says_what_to_do(tasks):
    with pytest.raises(WorkerLostError, match="fewer workers"):
        list(Pool(1).run(Setup(default_text(), Dying(KEY)), tasks))


def test_no_more_is_under_way_than_is_allowed():
    under_way, most = set(), []

    def submit(task):
        under_way.add(task)
        most.append(len(under_way))
        future = Future()
        future.set_result(task)
        return future

    for task in parallel._in_order(submit, iter(range(50)), 4):
        under_way.remove(task)
    assert max(most) == 5
    assert under_way == set()


def test_without_processes_nothing_is_read_ahead(tasks):
    taken = []

    def watched():
        for task in tasks:
            taken.append(task)
            yield task

    running = Pool(0).run(Setup(default_text(), Redactor(KEY)), watched())
    next(running)
    assert len(taken) == 1
    running.close()


def test_the_collector_is_as_it_was_when_a_run_ends_early(tasks):
    assert gc.isenabled()
    running = Pool(0).run(Setup(default_text(), Redactor(KEY)), iter(tasks))
    next(running)
    running.close()
    assert gc.isenabled()


def test_workers_end_with_whoever_started_them(tmp_path):
    events = tmp_path / "events.jsonl"
    events.write_text((json.dumps(load_cases()[0].json) + "\n") * 60_000)
    command = [sys.executable, "-m", "offramp", "classify", "--no-store", "--workers", "2", str(events)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while process.poll() is None and len(children.read_text().split()) < 3:
            os.sched_yield()
        process.kill()
        # Every worker holds the pipe's other end: it is at its end only when all of them are gone.
        said, _ = process.communicate(timeout=60)
        assert said == b""
