"""Runs a command and watches what it costs: wall time, processor time, and the memory of its whole process tree."""

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

SAMPLE_S = 0.05
LOOK_AROUND_S = 1.0
"""How often new processes are looked for, which takes longer than reading the memory of those that are known."""
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Cost:
    """What a command took. ``cpu_s`` is user and system time of all its processes; ``peak_bytes`` the highest sum of
    their resident memory seen at one moment, which counts shared pages once per process and so is an upper bound.
    """

    wall_s: float
    cpu_s: float
    peak_bytes: int


def run(command: Sequence[str], output: Path) -> Cost:
    """Run a command to its end, what it prints in the file ``output``. Raises CalledProcessError with that if it fails.

    A status of 1 is no failure: it is how a verb says that some of its input was no valid record.
    """
    with output.open("wb") as out:
        started = time.perf_counter()
        # A session of its own, by which all its processes are found.
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        peak, members, looked = 0, [process.pid], started
        while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            if time.perf_counter() - looked > LOOK_AROUND_S:
                members, looked = list(session(process.pid)), time.perf_counter()
            peak = max(peak, sum(map(resident, members)))
            time.sleep(SAMPLE_S)
        wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(ended[1])
    if process.returncode not in (0, 1):
        raise subprocess.CalledProcessError(process.returncode, command, output.read_bytes())
    return Cost(wall, ended[2].ru_utime + ended[2].ru_stime, peak)


def session(leader: int) -> Iterator[int]:
    """The processes of the session that a process leads."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and _session_of(int(entry.name)) == leader:
            yield int(entry.name)


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def resident(pid: int) -> int:
    """Resident memory of a process in bytes, 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (FileNotFoundError, ProcessLookupError):
        return 0
