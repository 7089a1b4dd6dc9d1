"""One contestant's run, in its own process and into its own store; afterwards the store is looked at."""

import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.stream.environments import python_of
from bench.stream.roster import Contestant

SCRIPTS = Path(__file__).parent / "contestants"
ROOT = SCRIPTS.parents[2]
TIMEOUT_S = 900


class RunFailedError(Exception):
    """A contestant did not do its work; the message says which, why, and what it printed last."""


@dataclass(frozen=True)
class Result:
    """What one run took. ``marks`` are instants (microseconds since the epoch) and how many events were visible then.

    ``load`` is the machine's load average when it began, other programs included.
    """

    name: str
    events: int
    wall_s: float
    cpu_s: float
    peak_rss: int
    core: str
    marks: Sequence[tuple[int, int]]
    load: float

    @property
    def rate(self) -> float:
        """Events per second."""
        return self.events / self.wall_s

    @property
    def cpu_us(self) -> float:
        """Microseconds of processor time per event."""
        return 1e6 * self.cpu_s / self.events


@dataclass(frozen=True)
class Course:
    """Where all run: the broker, and a directory for stores."""

    servers: str
    scratch: Path


class Runner:
    """A contestant at work. Use :meth:`result` once."""

    def __init__(self, contestant: Contestant, course: Course, topic: str, group: str, events: int) -> None:
        self._contestant, self._events, self._load = contestant, events, os.getloadavg()[0]
        self._folder = tempfile.TemporaryDirectory(prefix="store-", dir=course.scratch)
        self._store = Path(self._folder.name)
        _script(sys.executable, "prepare.py", str(self._store))
        command = [str(python_of(contestant.environment)), str(SCRIPTS / f"{contestant.name}.py")]
        command += ["--servers", course.servers, "--topic", topic, "--group", group]
        command += ["--store", str(self._store), "--events", str(events)]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self._store, env=_environment()
        )

    def result(self) -> Result:
        """Wait for the end, look at the store, and remove it. Raises RunFailedError."""
        try:
            out, error = self._process.communicate(timeout=TIMEOUT_S)
            found = _measured(out)
            if self._process.returncode or found is None:
                raise RunFailedError(f"{self._contestant.name} ended with {self._process.returncode}: {_tail(error)}")
            if self._contestant.classifies:
                self._check(found["events"])
            return Result(name=self._contestant.name, load=self._load, **found)
        except subprocess.TimeoutExpired as late:
            raise RunFailedError(f"{self._contestant.name} was not done in {TIMEOUT_S} s") from late
        finally:
            self.stop()

    def stop(self) -> None:
        """End the process, if it still runs, and remove its store."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()
        self._folder.cleanup()

    def _check(self, events: int) -> None:
        """Every event is there once, and classified."""
        stored = json.loads(_script(sys.executable, "verify.py", str(self._store)))
        exits = sum(stored["exits"].values())
        if {stored["rows"], stored["distinct"], exits, events} != {self._events}:
            rows = f"{stored['rows']} events ({stored['distinct']} distinct) and {exits} exits"
            raise RunFailedError(f"{self._contestant.name} stored {rows} of {self._events}")


def race(contestant: Contestant, course: Course, topic: str, events: int) -> Result:
    """Run one contestant over a topic that is full, from its beginning. Raises RunFailedError."""
    return Runner(contestant, course, topic, f"{contestant.name}-{uuid.uuid4()}", events).result()


@dataclass
class Feeding:
    """Events on their way to a topic that is there, waiting for :meth:`go`."""

    process: "subprocess.Popen[str]"
    ready: Path

    def go(self) -> None:
        """Let it send."""
        self.ready.touch()

    def appended(self) -> list[list[int]]:
        """When the broker appended each message, by partition, in milliseconds; waits until all are sent."""
        out, _ = self.process.communicate(timeout=TIMEOUT_S)
        if self.process.returncode:
            raise RunFailedError(f"feeding ended with {self.process.returncode}")
        found: list[list[int]] = json.loads(out.splitlines()[-1])["appended"]
        return found


def fill(course: Course, topic: str, events: int, partitions: int) -> None:
    """Make a topic and put events on it."""
    with feeding(course, topic, events, partitions) as feed:
        feed.go()
        feed.appended()


@contextmanager
def feeding(course: Course, topic: str, events: int, partitions: int, rate: float = 0) -> Iterator[Feeding]:
    """Make a topic, and the events for it, which are sent on :meth:`Feeding.go`."""
    ready = course.scratch / f"{topic}.go"
    command = [str(python_of("clients")), "-m", "bench.stream.feed", "--servers", course.servers, "--topic", topic]
    command += ["--events", str(events), "--partitions", str(partitions), "--rate", str(rate), "--ready", str(ready)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        if process.stdout is None or not process.stdout.readline():
            raise RunFailedError(f"no events were made for {topic}")
        yield Feeding(process, ready)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def wait_for_members(course: Course, group: str, topic: str, members: int) -> None:
    """Wait until so many members of a group have a partition of a topic. Raises RunFailedError if they get none."""
    command = [str(python_of("clients")), str(SCRIPTS / "members.py"), course.servers, group, topic, str(members)]
    waited = subprocess.run(command, check=False, stderr=subprocess.PIPE)
    if waited.returncode:
        raise RunFailedError(f"group {group}: {_tail(waited.stderr)}")


def _environment() -> dict[str, str]:
    """Ours without settings of offramp that whoever runs this may have; they are not part of the race."""
    return {name: value for name, value in os.environ.items() if not name.startswith("OFFRAMP_")}


def _script(python: str, name: str, *arguments: str) -> str:
    command = [python, str(SCRIPTS / name), *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def _measured(out: bytes) -> dict[str, Any] | None:
    """The JSON that a contestant printed, last on a line: Faust writes codes for a terminal before it."""
    text = out.decode(errors="replace")
    start = text.find('{"events"')
    return None if start < 0 else json.JSONDecoder().raw_decode(text[start:])[0]


def _tail(error: bytes) -> str:
    return error.decode(errors="replace")[-2000:]
