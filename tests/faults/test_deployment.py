"""What the faults are judged by can itself be wrong."""

import subprocess
import sys
from pathlib import Path

from tests.faults.deployment import Life, family

CHILD = "held = b'x' * 60_000_000; print(flush=True); input()"
PARENT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}])
child.wait()
"""


def test_the_memory_of_a_worker_is_that_of_its_child_processes_too():
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        life = Life(Path(), Path(), 0, process)
        assert process.stdout.readline() == b"\n"
        life.measure()
        assert len(family(process.pid)) == 2
        held = life.peak_mb
        process.communicate(b"\n")
    assert 60 < held < 200
    life.measure()
    assert life.peak_mb == held
