"""A careful loop by hand: read a batch, judge it, store it, commit it, in this order, until all is stored.

Storing may go on in a thread while the next batch is read and judged; committed is never more than what is stored.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

from work import Job, Meter, leave, quiet_collector

Messages = Sequence[tuple[bytes, int]]
"""Values and their offsets."""


class Reader(Protocol):
    """A Kafka client with manual commits."""

    def read(self) -> Messages:
        """Up to a batch of messages; fewer when no more come within the linger."""
        ...

    def position(self) -> Any:
        """What to read next, in the client's own form."""
        ...

    def commit(self, position: Any) -> None:
        """Commit a position, and wait until the broker has it."""
        ...


class Storing(Protocol):
    """Where judged batches go."""

    def store(self, batch: Sequence[Any]) -> None:
        """Insert a batch; it is visible afterwards."""
        ...


class Underway(NamedTuple):
    """A batch that is being stored, and the position behind it."""

    stored: "Future[None]"
    events: int
    position: Any


JudgeAll = Callable[[Messages], Sequence[Any]]


def run(job: Job, reader: Reader, judge_all: JudgeAll, storing: Storing) -> None:
    """Consume, one step after the other, until the events of the job are stored and committed; print what it took."""
    meter = Meter(job.events)
    quiet_collector()
    done = False
    while not done:
        if messages := reader.read():
            meter.begin()
            storing.store(judge_all(messages))
            done = meter.add(len(messages))
            reader.commit(reader.position())
    meter.finish()
    leave()


def run_overlapped(job: Job, reader: Reader, judge_all: JudgeAll, storing: Storing) -> None:
    """Do the same, with one batch being stored while the next is read and judged."""
    meter, thread = Meter(job.events), ThreadPoolExecutor(1)
    quiet_collector()
    underway: Underway | None = None
    done = False
    while not done:
        messages = reader.read()
        if messages:
            meter.begin()
        judged, position = judge_all(messages), reader.position()
        if underway is not None:
            done = _settle(underway, reader, meter)
        underway = Underway(thread.submit(storing.store, judged), len(messages), position) if messages else None
    meter.finish()
    leave()


def _settle(underway: Underway, reader: Reader, meter: Meter) -> bool:
    """Wait until a batch is stored, and commit it; whether it was the last one."""
    underway.stored.result()
    done = meter.add(underway.events)
    reader.commit(underway.position)
    return done
