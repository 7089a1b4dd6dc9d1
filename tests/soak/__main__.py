"""Long faults one by one, then random ones for some minutes, each with a recount: ``make soak``, or
``python -m tests.soak --minutes 20 --seed 1``.

The long ones are those of :mod:`tests.soak.long`. For the random ones workers, store and broker are killed, stopped,
slowed and cut off in an order that the seed decides, while a producer goes on. Writes a report in Markdown to stdout.
Ends with 1 if anything does not add up.
"""

import argparse
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from sinks.double import Double, start_double
from streams.kafka.errors import BrokerError
from streams.kafka.seam import Outgoing
from tests.broker.kafka import KafkaBroker
from tests.faults.book import Count
from tests.faults.deployment import Deployment, Life
from tests.soak import long

if TYPE_CHECKING:
    from collections.abc import Callable

PARTITIONS = 4
BURST = 50
PAUSE_S = 0.3
BATCHES = (20, 200, 2_000)
CODES = (252, 241, 159, 202)
TABLES = ("terminal_events", "exit_classifications", "dead_letters", "ingest_ledger", "")
OUTAGE = 3
"""Exit status of a worker that was started while store or broker was away."""
EARLY = frozenset({-signal.SIGTERM, 128 + signal.SIGTERM})
"""Exit statuses of a worker that was told to end while Python, or the command, started on a machine that does other
work too."""


class Source(threading.Thread):
    """Sends events with ids that are known, some twice, some of other content, some no events at all, until told."""

    def __init__(self, deployment: Deployment, seed: int) -> None:
        super().__init__(daemon=True)
        self.deployment, self.random = deployment, random.Random(seed)
        self.stop, self.sent, self.refused = threading.Event(), 0, 0
        self.confirmed: set[bytes] = set()

    def run(self) -> None:
        with closing(self.deployment.client.producer()) as producer:
            while not self.stop.wait(PAUSE_S):
                burst = [value for n in range(BURST) for value in self._values(self.sent + n)]
                pending = [
                    (value, producer.send(Outgoing(self.deployment.events, b"k", value, (), n % PARTITIONS)))
                    for n, value in burst
                ]
                for value, each in pending:
                    self._await(value, each)
                self.sent += BURST

    def _await(self, value: bytes, pending: object) -> None:
        try:
            pending.result(120)  # type: ignore[attr-defined]
            self.confirmed.add(value)
        except BrokerError:
            self.refused += 1  # whether the log has it, the log says

    def _values(self, number: int) -> list[tuple[int, bytes]]:
        """Copies lie in the partition of the first: where they do not, two workers may take them at once."""
        book, chance = self.deployment.book, self.random.random()
        value = book.event(f"e-{number}", packed=number % 2 == 0)
        if chance < 0.02:
            return [(number, b"poison %d" % number), (number, value)]
        if chance < 0.05:
            return [(number, value), (number, value)]
        if chance < 0.06:
            return [(number, value), (number, book.event(f"e-{number}", content="other"))]
        return [(number, value)]


class Soak:
    """The deployment, its workers, and every fault by name."""

    def __init__(self, deployment: Deployment, seed: int) -> None:
        self.deployment, self.random = deployment, random.Random(seed)
        self.workers = [self._live(), self._live()]
        self.done, self.ended = Counter[str](), Counter[int]()
        self.faults: dict[str, Callable[[], None]] = {
            "worker killed": self.kill, "worker told to end": self.terminate, "worker stopped for a while": self.pause,
            "third worker for a while": self.third, "store refuses": self.refuse, "store cuts": self.cut,
            "store slow": self.slow, "store killed": self.kill_store, "broker killed": self.kill_broker,
        }  # fmt: skip

    def turn(self) -> None:
        """One fault, and whoever ended by itself is started again."""
        name = self.random.choice(list(self.faults))
        say(name)
        self.faults[name]()
        self.done[name] += 1
        self._wait(1, 4)
        self.revive()

    def revive(self) -> None:
        for place, life in enumerate(self.workers):
            life.measure()
            if not life.is_running:
                self.ended[life.wait()] += 1
                self.workers[place] = self._live()

    def _end(self, life: Life) -> None:
        status = life.end()
        assert status not in EARLY or not life.told("assigned"), life.said()
        self.ended[status] += 1

    def _live(self) -> Life:
        return self.deployment.live(batch_records=self.random.choice(BATCHES), max_poll_interval_s=6.0, flush_s=5.0)

    def _wait(self, least_s: float, most_s: float) -> None:
        time.sleep(self.random.uniform(least_s, most_s))

    def _one(self) -> int:
        return self.random.randrange(len(self.workers))

    def kill(self) -> None:
        place = self._one()
        self.workers[place].kill()
        self.workers[place] = self._live()

    def terminate(self) -> None:
        place = self._one()
        if self.workers[place].is_running:
            self._end(self.workers[place])
            self.workers[place] = self._live()

    def pause(self) -> None:
        life = self.workers[self._one()]
        if life.is_running:
            life.signal(signal.SIGSTOP)
            self._wait(4, 9)
            life.signal(signal.SIGCONT)

    def third(self) -> None:
        life = self._live()
        self._wait(4, 8)
        if life.is_running:
            self._end(life)

    def _into(self) -> str:
        return f"INSERT INTO {self.random.choice(TABLES)}"

    def refuse(self) -> None:
        self.deployment.double.refuse(self.random.choice(CODES), times=self.random.randint(1, 8), on=self._into())

    def cut(self) -> None:
        when = self.random.choice(("before", "after", "within"))
        self.deployment.double.cut(when, times=self.random.randint(1, 8), on=self._into())  # type: ignore[arg-type]

    def slow(self) -> None:
        self.deployment.double.delay(self.random.uniform(0.5, 4), times=self.random.randint(1, 5), on=self._into())

    def kill_store(self) -> None:
        self.deployment.double.kill()
        self._wait(1, 6)
        self.deployment.double.start()

    def kill_broker(self) -> None:
        self.deployment.broker.kill()
        self._wait(2, 10)
        self.deployment.broker.start()

    def settle(self) -> None:
        """No more faults; whoever was started lately stores everything that is there, and the workers end."""
        self.deployment.double.clear()
        self.terminate()
        self.revive()
        self.deployment.until_stored(within_s=300)
        for life in self.workers:
            self._end(life)


def report(soak: Soak, source: Source, count: Count, seconds: float) -> str:
    """What was done and what was found."""
    lives = soak.deployment.lives
    fates = Counter(count.fates.values())
    rows = [
        ("minutes of faults", f"{seconds / 60:.1f}"),
        ("messages in the log", f"{len(count.fates):,}"),
        ("distinct events, each with one exit", f"{len(count.exits):,}"),
        *((f"messages {fate}", f"{number:,}") for fate, number in sorted(fates.items())),
        ("confirmed to the producer, all found", f"{len(source.confirmed):,}"),
        ("not confirmed to the producer", f"{source.refused:,}"),
        ("runs of the worker", f"{len(lives)}"),
        ("ends by exit status", ", ".join(f"{status}: {n}" for status, n in sorted(soak.ended.items()))),
        ("most memory of a worker with its child processes, MB", f"{max(life.peak_mb for life in lives):.0f}"),
        ("unaccounted", "0"),
        *((name, str(number)) for name, number in sorted(soak.done.items())),
    ]
    return "\n".join(["| what | how much |", "| --- | --- |", *(f"| {what} | {much} |" for what, much in rows)])


def long_ones(ground: long.Ground) -> bool:
    """Bring about the long faults, write what was counted of each as soon as it is, and say whether all hold."""
    _write("| fault | seconds with recount | what was counted |\n| --- | --- | --- |\n")
    held = []
    for each in long.run(ground):
        _write(f"| {each.fault} | {each.seconds:.0f} | {each.counted} |\n")
        held.append(each.held)
    _write("\n")
    return all(held)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def say(what: str) -> None:
    """Say on stderr what is under way."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {what}\n")


def run(broker: KafkaBroker, double: Double, folder: Path, minutes: float, seed: int) -> str:
    """Random faults, and their report. Raises AssertionError with what does not add up."""
    deployment = Deployment(broker, double, folder, "soak", partitions=PARTITIONS)
    deployment.make()
    try:
        began = time.monotonic()
        soak, source = Soak(deployment, seed), Source(deployment, seed)
        source.start()
        while time.monotonic() < began + 60 * minutes:
            soak.turn()
        seconds = time.monotonic() - began
        source.stop.set()
        source.join()
        soak.settle()
        log = deployment.log()
        lost = source.confirmed - {message.value for message in log}
        assert not lost, f"{len(lost)} confirmed messages are not in the log"
        count = deployment.recount(log)
        assert soak.ended.keys() <= {0, OUTAGE, *EARLY}, soak.ended
        return report(soak, source, count, seconds)
    finally:
        deployment.end_all()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="of random faults; 0: none")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--skip-long", action="store_true", help="random faults alone")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as name,
        KafkaBroker(Path(name, "kafka")) as broker,
        start_double(Path(name, "store")) as double,
    ):
        hold = given.skip_long or long_ones(long.Ground(broker, double, Path(name), say))
        try:
            if given.minutes:
                told = run(broker, double, Path(name), given.minutes, given.seed)
                _write(f"Seed {given.seed}.\n\n{told}\n")
        except AssertionError as error:
            sys.exit(f"seed {given.seed}: {error}")
    if not hold:
        sys.exit("a long fault does not hold")


if __name__ == "__main__":
    main()
