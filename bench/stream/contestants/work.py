"""What every contestant of ``make bench-stream`` shares: the job, the decoding and classifying, and the measuring.

Not part of offramp: programs as somebody would write them by hand, whose only offramp is the decoder, the classifier
and the tables. None has a ledger, redaction or dead letters.

A contestant is a script beside this file. Scripts have their own folder first on the path and not the source tree, so
that classifying is done by the installed package, whose core is compiled.
"""

import argparse
import gc
import json
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import clickhouse_connect
from clickhouse_connect.driver.client import Client

import classifier.decide
from classifier.decide import Classifier, Decided
from classifier.table import default_text, load
from schemas.canonical import encode_json
from schemas.wire import LocalSchemas, decode

SCHEMA_ID = 1
"""Id in the Confluent frame of every message; contestants know it and ask no registry."""
LINGER_S = 0.2
"""Longest wait of a loop for a batch to fill."""
FRAMEWORK_LINGER_S = 1.0
"""That of a framework, whose clock runs from the first message even while it is busy: 0.2 s cut batches to a third."""
FRAME_BYTES = 5

_SETTINGS: dict[str, Any] = {"session_timezone": "UTC", "input_format_null_as_default": 0, "optimize_on_insert": 0}


@dataclass(frozen=True)
class Job:
    """What to consume and how much of it, and the prepared store to put it in."""

    servers: str
    topic: str
    group: str
    store: Path
    events: int
    batch: int


def job(batch: int) -> Job:
    """The job of the command line; ``batch`` is the size that was found best for this contestant."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--batch", type=int, default=batch)
    return Job(**vars(parser.parse_args()))


def connect(store: Path) -> Client:
    """The engine on a prepared store, with the settings that were found fastest for offramp."""
    return clickhouse_connect.get_client(interface="chdb", path=str(store / "engine"), settings=dict(_SETTINGS))


FLAT = (
    "tenant",
    "event_id",
    "run_id",
    "segment",
    "agent_id",
    "agent_version",
    "workflow",
    "occurred_at",
    "trace_id",
    "version",
)
"""Fields of an event that are columns of their own."""
_flat = itemgetter(*FLAT)


class Judged(NamedTuple):
    """What is stored of one event: its flat fields, its text, its classification, and the offset it was read from.

    The decoded event is let go at once: it takes ten times its bytes, and thousands of them fall out of the caches.
    """

    flat: tuple[Any, ...]
    text: bytes
    decided: Decided
    offset: int


class Judge:
    """Decodes framed events and classifies them by the default table."""

    def __init__(self) -> None:
        self._schemas = LocalSchemas.published({SCHEMA_ID: "terminal_event"})
        self._classifier = Classifier(load(default_text()))

    def judge(self, value: bytes, offset: int) -> Judged:
        """Decode and classify one message."""
        event = decode(value, schemas=self._schemas)
        return Judged(_flat(event), encode_json(event), self._classifier.classify(event), offset)

    def judge_all(self, messages: Sequence[tuple[bytes, int]]) -> list[Judged]:
        """Decode and classify messages, each a value and its offset."""
        return [self.judge(value, offset) for value, offset in messages]


@dataclass
class Meter:
    """Counts what is stored, and measures from the first message on."""

    events: int
    stored: int = 0
    _began: float | None = None
    _cpu_began: float = 0.0
    _marks: list[tuple[int, int]] = field(default_factory=list)

    def begin(self) -> None:
        """Note that messages are there; only the first call counts."""
        if self._began is None:
            self._began, self._cpu_began = time.perf_counter(), _cpu_s()

    def add(self, count: int) -> bool:
        """Note that so many more events are stored and visible; whether that was all."""
        self.stored += count
        self._marks.append((time.time_ns() // 1000, self.stored))
        return self.stored >= self.events

    def finish(self) -> None:
        """Print what was measured as one line of JSON. ``marks`` are instants in microseconds and events by then."""
        if self._began is None:
            raise RuntimeError("no message came")
        found = {
            "events": self.stored,
            "wall_s": time.perf_counter() - self._began,
            "cpu_s": _cpu_s() - self._cpu_began,
            "peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + sum(map(_peak_rss, _children())),
            "core": "compiled" if classifier.decide.__file__.endswith(".so") else "interpreted",
            "marks": self._marks,
        }
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


def leave() -> None:
    """End the process at once, and its children; what is stored is stored, and taking a framework down is not
    measured."""
    sys.stdout.flush()
    for child in _children():
        os.kill(int(child.name), signal.SIGKILL)
    os._exit(0)


def quiet_collector() -> None:
    """Look for no reference cycles but where :func:`collect_batch` says.

    Left alone, the collector walks every decoded event: about a tenth of a loop's processor time.
    """
    gc.collect()
    gc.freeze()
    gc.disable()


def collect_batch() -> None:
    """Look for reference cycles among the objects of a batch alone, as offramp does."""
    gc.collect(0)


def _cpu_s() -> float:
    """Processor time of all threads of this process and of its children, ended or not."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system + sum(map(_spent_s, _children()))


def _children() -> list[Path]:
    """Where the system tells about each process that this one started and that still runs. Source: proc(5)."""
    mine = f"PPid:\t{os.getpid()}\n"
    return [status.parent for status in Path("/proc").glob("[0-9]*/status") if mine in _read(status)]


def _spent_s(child: Path) -> float:
    # Behind the name, which may hold anything: state is field 3 of all, user time 14, system time 15.
    fields = _read(child / "stat").rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _peak_rss(child: Path) -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", _read(child / "status"))
    return int(found[1]) * 1024 if found else 0


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:  # it has ended meanwhile
        return ""
