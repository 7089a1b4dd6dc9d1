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
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import clickhouse_connect
from clickhouse_connect.driver.client import Client

import classifier.decide
from classifier.decide import Classifier, Decided
from classifier.table import default_text, load
from schemas.wire import LocalSchemas, decode

SCHEMA_ID = 1
"""Id in the Confluent frame of every message; contestants know it and ask no registry."""
LINGER_S = 0.2
"""Longest wait for a batch to fill."""
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


class Judged(NamedTuple):
    """One event, decoded and classified, and the offset that it was read from."""

    event: dict[str, Any]
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
        return Judged(event, self._classifier.classify(event), offset)

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
            "peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "core": "compiled" if classifier.decide.__file__.endswith(".so") else "interpreted",
            "marks": self._marks,
        }
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


def leave() -> None:
    """End the process at once; what is stored is stored, and taking a framework down is not measured."""
    sys.stdout.flush()
    os._exit(0)


def quiet_collector() -> None:
    """Leave what was there at the start out of every later search for reference cycles, and search seldom.

    Without, the collector walks every decoded event several times over: a quarter of the time of all contestants.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 50, 100)


def _cpu_s() -> float:
    """Processor time of all threads of this process and of its ended children."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system
