"""offramp and others at the same work on real Kafka: ``python -m bench.stream``.

How, and what came out: docs/explanation/streaming-performance.md. Ends with 1 if a contestant did not do its work.
"""

import argparse
import json
import os
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from bench.stream.race import Course, Result, RunFailedError, Runner, feeding, fill, race, wait_for_members
from bench.stream.report import latencies, percentile, summarise, table
from bench.stream.roster import ROSTER, Contestant, chosen
from tests.broker.kafka import KafkaBroker

YARDSTICK = "offramp_kafka_python"
TOPIC = "terminal-events"
LATENCY_S = 20
"""How long events are sent at half load."""

_SCALING = ("one worker, CPU µs/event", "two", "ratio")
_LATENCY = ("events/s sent", "p50 s", "p99 s", "worst s")

Results = dict[str, list[Result]]


def rounds(roster: Sequence[Contestant], course: Course, topic: str, events: int, count: int) -> Results:
    """Every contestant once a round, each round starting one further, so that none always follows the same one."""
    found: Results = {contestant.name: [] for contestant in roster}
    for number in range(count):
        first = number % len(roster)
        for contestant in (*roster[first:], *roster[:first]):
            result = race(contestant, course, topic, events)
            found[contestant.name].append(result)
            cost = f"{result.rate:,.0f} events/s, {result.cpu_us:.0f} µs of processor time an event"
            say(f"round {number + 1}: {contestant.name} {cost}; {result.core} core, load {result.load:.1f}")
    return found


def cpu_of_workers(contestant: Contestant, course: Course, events: int, workers: int) -> float:
    """Microseconds of processor time per event with so many workers on as many partitions of a topic.

    All have their partition before the events come, and each ends with its share of them.
    """
    group = f"{contestant.name}-{workers}-{uuid.uuid4()}"
    topic = f"{group}.{TOPIC}"
    share = events // workers
    with feeding(course, topic, share * workers, workers) as feed:
        running = [Runner(contestant, course, topic, group, share) for _ in range(workers)]
        try:
            wait_for_members(course, group, topic, workers)
            feed.go()
            return sum(runner.result().cpu_s for runner in running) / (share * workers) * 1e6
        finally:
            for runner in running:
                runner.stop()


def latency(contestant: Contestant, course: Course, rate: float) -> list[float]:
    """Seconds from append to visible row of every event that comes at this rate."""
    group = f"{contestant.name}-latency-{uuid.uuid4()}"
    topic = f"{group}.{TOPIC}"
    events = int(rate * LATENCY_S)
    with feeding(course, topic, events, 1, rate) as feed:
        runner = Runner(contestant, course, topic, group, events)
        try:
            wait_for_members(course, group, topic, 1)
            feed.go()
            (appended,) = feed.appended()
            return latencies(appended, runner.result().marks)
        finally:
            runner.stop()


def scaling_row(contestant: Contestant, course: Course, events: int) -> str:
    """Processor time per event of one worker and of two, and their ratio. Raises RunFailedError."""
    one, two = (cpu_of_workers(contestant, course, events, workers) for workers in (1, 2))
    return f"{one:.0f} | {two:.0f} | {two / one:.2f}"


def latency_row(contestant: Contestant, course: Course, results: Sequence[Result]) -> str:
    """Percentiles at half of the contestant's median rate. Raises RunFailedError."""
    rate = summarise(results).rate / 2
    found = latency(contestant, course, rate)
    return f"{rate:,.0f} | {percentile(found, 0.5):.2f} | {percentile(found, 0.99):.2f} | {max(found):.2f}"


def print_rows(heads: Sequence[str], roster: Sequence[Contestant], row: Callable[[Contestant], str]) -> bool:
    """A table of one row a contestant; whether all could be measured. Who could not is named with the reason."""
    print("\n|", " | ".join(("contestant", *heads)), "|\n| --- |", " | ".join("---:" for _ in heads), "|")
    failed = False
    for contestant in roster:
        try:
            print(f"| {contestant.title} | {row(contestant)} |", flush=True)
        except RunFailedError as error:
            failed = True
            say(str(error))
            print(f"| {contestant.title} | failed{' |' * len(heads)}", flush=True)
    return not failed


@contextmanager
def course_at(servers: str | None) -> Iterator[Course]:
    """The given broker, or one that is started for the time being."""
    with tempfile.TemporaryDirectory(prefix="offramp-bench-") as scratch:
        if servers:
            yield Course(servers, Path(scratch))
            return
        with KafkaBroker(Path(scratch) / "broker") as broker:
            yield Course(broker.bootstrap, Path(scratch))


def say(what: str) -> None:
    """Progress, on stderr."""
    print(what, file=sys.stderr, flush=True)


def options() -> argparse.Namespace:
    """The command line."""
    names = [contestant.name for contestant in ROSTER]
    parser = argparse.ArgumentParser(prog="python -m bench.stream", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=names, default=[], metavar="NAME", help=", ".join(names))
    parser.add_argument("--servers", help="host:port of a broker that is there; without, one is started")
    parser.add_argument("--skip", nargs="+", choices=("scaling", "latency"), default=[])
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every run here")
    return parser.parse_args()


def main() -> None:
    """Measure as the arguments say."""
    asked = options()
    roster = chosen(asked.only)
    classifying = [contestant for contestant in roster if contestant.classifies]
    good = True
    with course_at(asked.servers) as course:
        topic = f"{uuid.uuid4()}.{TOPIC}"
        say(f"making {asked.events:,} events")
        fill(course, topic, asked.events, 1)
        results = rounds(roster, course, topic, asked.events, asked.rounds)
        if asked.json:
            asked.json.write_text(json.dumps({name: [asdict(one) for one in runs] for name, runs in results.items()}))
        print(f"\n{asked.events:,} events, median of {asked.rounds}, {os.cpu_count()} cores\n")
        print(table(roster, results, YARDSTICK), flush=True)
        if "scaling" not in asked.skip:
            good &= print_rows(_SCALING, classifying, lambda one: scaling_row(one, course, asked.events))
        if "latency" not in asked.skip:
            good &= print_rows(_LATENCY, classifying, lambda one: latency_row(one, course, results[one.name]))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    try:
        main()
    except RunFailedError as failed:
        sys.exit(str(failed))
