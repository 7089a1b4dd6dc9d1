"""A loop by hand on confluent-kafka; two processes judge and encode Arrow blocks, a thread stores them."""

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path

from on_confluent import Confluent
from reading import Messages, run_overlapped
from storing import Blocks, arrow_streams
from work import Judge, collect_batch, job, quiet_collector

PROCESSES = 2
Encoded = dict[str, bytes]
_judges: list[Judge] = []
"""That of this process, where it is one that judges. An initializer can leave it nowhere else."""


def start() -> None:
    """Make the judge of this process."""
    _judges.append(Judge())
    quiet_collector()


def judge(messages: Messages) -> Encoded:
    """Judge some messages and encode what is to be stored of them."""
    encoded = arrow_streams(_judges[0].judge_all(messages)) if messages else {}
    collect_batch()
    return encoded


class Judges:
    """Has each half of a batch judged by another process."""

    def __init__(self) -> None:
        self._pool = ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn"), start)
        for ready in [self._pool.submit(judge, ()) for _ in range(PROCESSES)]:
            ready.result()

    def judge_all(self, messages: Messages) -> list[Future[Encoded]]:
        """What is to be stored of a batch, half by half, once it is known."""
        half = -(-len(messages) // PROCESSES)
        return [self._pool.submit(judge, messages[n * half : (n + 1) * half]) for n in range(PROCESSES)]


class Storage:
    """Stores what was judged elsewhere."""

    def __init__(self, store: Path) -> None:
        self._blocks = Blocks(store)

    def store(self, batch: Sequence[Future[Encoded]]) -> None:
        """Insert a batch as soon as it is judged."""
        for half in batch:
            self._blocks.insert(half.result())
        collect_batch()


if __name__ == "__main__":
    the_job = job(batch=10_000)
    run_overlapped(the_job, Confluent(the_job), Judges().judge_all, Storage(the_job.store))
