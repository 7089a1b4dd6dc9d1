"""The worker as it is installed, at full load for a long time: ``python -m bench.stream.endurance --minutes 30``.

A producer keeps some thousands of messages before it, so that it is never idle, and stops in the end. Printed are
memory by stretches of time, the pace, and how long it took then until nothing was left to read. Ends with 1 if not
every message is stored once, if the memory of the last stretch is more than a tenth above that of the second, or if the
worker does not come to the end of the log. How it came out: docs/explanation/streaming-performance.md.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import median

from confluent_kafka import Producer

from bench.generate import bodies
from bench.watch import resident, session
from schemas.wire import frame_single_object
from sinks.store import open_store
from tests.broker.kafka import BrokerOptions, KafkaBroker
from tests.faults.deployment import free_port

TOPIC = "terminal-events"
PARTITIONS = 4
BACKLOG = 60_000
"""Messages that the producer keeps before the worker, and at most half as many more: several batches."""
SAMPLE_S = 5.0
STRETCHES = 6
"""Stretches of time that memory is reported by. The first holds the start, when caches fill."""
LEAST_MINUTES = 3
GROWTH = 1.1
END_S = 120.0
"""Longest time that the worker may take for the rest, once nothing is added."""
RETAINED = {"log.retention.bytes": str(1 << 28), "log.segment.bytes": str(1 << 26)}
"""The broker keeps this much of each partition and deletes what is older, or half an hour would fill the disk."""


@dataclass(frozen=True)
class Sample:
    """The worker at one moment: seconds since the beginning, bytes of its processes, messages that it has stored."""

    at_s: float
    memory: int
    stored: int


@dataclass
class Course:
    """A worker and its producer."""

    process: "subprocess.Popen[bytes]"
    port: int
    producer: Producer
    sent: int = 0
    samples: list[Sample] = field(default_factory=list)

    def stored(self) -> int:
        """Messages that the worker has stored, by what its page of metrics says; 0 while nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
                text = answer.read().decode()
        except OSError:
            return 0
        counts = re.findall(r'^offramp_messages_total\{[^}]*disposition="classified"[^}]*\} (\S+)$', text, re.MULTILINE)
        return int(sum(map(float, counts)))

    def run(self, minutes: float) -> None:
        """Feed and watch. Raises RuntimeError if the worker ends."""
        values, began = bodies(10**9, 1, lambda _: None), time.monotonic()
        while (at := time.monotonic() - began) < 60 * minutes:
            stored = self._watched(at)
            self._send(islice(values, max(0, BACKLOG + BACKLOG // 2 - (self.sent - stored))))
            time.sleep(0.5)

    def _watched(self, at: float) -> int:
        if self.process.poll() is not None:
            raise RuntimeError(f"the worker ended with {self.process.returncode}")
        stored = self.stored()
        if not self.samples or at - self.samples[-1].at_s >= SAMPLE_S:
            self.samples.append(Sample(at, sum(map(resident, session(self.process.pid))), stored))
            if len(self.samples) % 12 == 0:
                megabytes = self.samples[-1].memory >> 20
                print(f"{at / 60:.0f} min: {stored:,} stored, {megabytes:,} MB", file=sys.stderr)
        return stored

    def _send(self, values: Iterator[bytes]) -> None:
        for value in values:
            while True:
                try:
                    self.producer.produce(
                        TOPIC, frame_single_object("terminal_event", value), partition=self.sent % PARTITIONS
                    )
                except BufferError:  # its queue is full
                    self.producer.poll(0.1)
                else:
                    break
            self.sent += 1
        self.producer.flush()

    def rest(self) -> float:
        """Seconds until everything that was sent is stored; infinite if that takes too long."""
        began = time.monotonic()
        while self.stored() < self.sent:
            if time.monotonic() - began > END_S:
                return float("inf")
            time.sleep(0.2)
        return time.monotonic() - began


def stretches(samples: Sequence[Sample]) -> list[tuple[float, int, int]]:
    """Of each stretch of time: minutes until its end, median bytes, events per second."""
    length = samples[-1].at_s / STRETCHES
    found = []
    for number in range(STRETCHES):
        some = [one for one in samples if number * length <= one.at_s <= (number + 1) * length]
        pace = (some[-1].stored - some[0].stored) / (some[-1].at_s - some[0].at_s)
        found.append(((number + 1) * length / 60, int(median(one.memory for one in some)), int(pace)))
    return found


@contextmanager
def worker(servers: str, store: Path, port: int) -> Iterator["subprocess.Popen[bytes]"]:
    """The installed worker, with its topics made."""
    settings = {
        "OFFRAMP_KAFKA__SERVERS": servers, "OFFRAMP_TOPICS__PARTITIONS": str(PARTITIONS),
        "OFFRAMP_TOPICS__REPLICATION_FACTOR": "1", "OFFRAMP_WORKER__PORT": str(port),
        "OFFRAMP_REDACTION__KEY": "0" * 32,
    }  # fmt: skip
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OFFRAMP_")} | settings
    # Not from the source tree: there the core is not compiled.
    command = [str(Path(sys.executable).with_name("offramp"))]
    subprocess.run([*command, "init", "--store", str(store)], check=True, env=environment, stdout=subprocess.DEVNULL)
    process = subprocess.Popen(
        [*command, "run", "classify", "--store", str(store)], env=environment, start_new_session=True, cwd=store.parent
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def counted(store: Path) -> Mapping[str, int]:
    """How many events and exits readers see, and messages the ledger knows."""
    with open_store(
        store, holder="bench", lock_timeout_s=10, now=lambda: time.time_ns() // 1000, wait=time.sleep
    ) as it:
        return {
            "events": it.select("SELECT count() AS n FROM v_events")[0]["n"],
            "exits": it.select("SELECT count() AS n FROM v_exits")[0]["n"],
            "in the ledger": it.select("SELECT uniqExact(source, partition, offset) AS n FROM ingest_ledger")[0]["n"],
        }


def measure(minutes: float, folder: Path) -> bool:
    """Run all of it and print what it was; whether all of it held."""
    port, store = free_port(), folder / "store"
    with KafkaBroker(folder / "broker", BrokerOptions(config=RETAINED)) as broker:
        with worker(broker.bootstrap, store, port) as process:
            course = Course(
                process, port, Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20, "log_level": 2})
            )
            course.run(minutes)
            rest = course.rest()
        found = counted(store)
    table = stretches(course.samples)
    print("| minutes | memory, MB | events/s |\n| ---: | ---: | ---: |")
    for until, memory, pace in table:
        print(f"| to {until:.1f} | {memory >> 20:,} | {pace:,} |")
    growth = table[-1][1] / table[1][1]
    seen = ", ".join(f"{number:,} {what}" for what, number in found.items())
    print(f"\n{course.sent:,} sent; {seen}; memory grew by {growth:.2f}; {rest:.1f} s for the rest")
    return set(found.values()) == {course.sent} and growth <= GROWTH and rest <= END_S


def main() -> None:
    """Measure as the arguments say."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.stream.endurance", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    asked = parser.parse_args()
    if asked.minutes < LEAST_MINUTES:
        parser.error(f"at least {LEAST_MINUTES} minutes, or there is nothing to tell stretches of time by")
    with tempfile.TemporaryDirectory(prefix="offramp-bench-") as scratch:
        sys.exit(0 if measure(asked.minutes, Path(scratch)) else 1)


if __name__ == "__main__":
    main()
