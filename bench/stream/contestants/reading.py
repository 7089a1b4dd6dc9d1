"""A careful loop by hand: read a batch, judge it, store it, commit it, in this order, until all is stored."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from work import Job, Meter, leave, quiet_collector

Messages = Sequence[tuple[bytes, int]]
"""Values and their offsets."""


class Reader(Protocol):
    """A Kafka client with manual commits."""

    def read(self) -> Messages:
        """Up to a batch of messages; fewer when no more come within the linger."""
        ...

    def commit(self) -> None:
        """Commit all that was read, and wait until the broker has it."""
        ...


class Storing(Protocol):
    """Where judged batches go."""

    def store(self, batch: Sequence[Any]) -> None:
        """Insert a batch; it is visible afterwards."""
        ...


def run(job: Job, reader: Reader, judge_all: Callable[[Messages], Sequence[Any]], storing: Storing) -> None:
    """Consume until the events of the job are stored and committed, and print what it took."""
    meter = Meter(job.events)
    quiet_collector()
    done = False
    while not done:
        messages = reader.read()
        if not messages:
            continue
        meter.begin()
        storing.store(judge_all(messages))
        done = meter.add(len(messages))
        reader.commit()
    meter.finish()
    leave()
