"""Runs tasks in worker processes and hands their outcomes back in order, with bounded memory."""

import gc
import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from streams.worker import Outcome, Setup, Task, Worker


class WorkerLostError(RuntimeError):
    """A worker process ended before its task did, as the kernel ends one for want of memory. Nothing of its task was
    stored; running the command again goes on where this one ended."""


_TASKS_EACH = 4
"""Tasks under way per process. Fewer, and the processes wait while a batch is written; more only cost memory."""


@dataclass(frozen=True)
class Pool:
    """How many worker processes, and how many tasks may be under way at once. No processes: everything runs here."""

    processes: int

    def run(self, setup: Setup, tasks: Iterable[Task]) -> Iterator[Outcome]:
        """Outcomes of ``tasks`` in their order. Raises WorkerLostError.

        Until the last is taken, cycles in this process are looked for once a task and no more.
        """
        was_enabled = gc.isenabled()
        _rarely_look_for_cycles()
        try:
            yield from self._run(setup, tasks)
        finally:
            gc.unfreeze()
            if was_enabled:
                gc.enable()

    def _run(self, setup: Setup, tasks: Iterable[Task]) -> Iterator[Outcome]:
        if self.processes < 1:
            worker = Worker(setup)
            yield from (_run_and_collect(worker, task) for task in tasks)
            return
        # Not forked: a copy of a process that runs the engine's threads would hang.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(self.processes, context, _start, (setup,)) as executor:
            try:
                yield from _in_order(lambda task: executor.submit(_run, task), tasks, _TASKS_EACH * self.processes)
            except BrokenProcessPool:
                raise WorkerLostError("a worker process was lost; with less memory, use fewer workers") from None
            finally:
                executor.shutdown(wait=False, cancel_futures=True)


def _rarely_look_for_cycles() -> None:
    """Leave looking for cycles to :func:`_run_and_collect`. Only errors make any, and to look for them again and again
    among so many small objects costs a fifth of the time."""
    gc.disable()
    gc.freeze()


def _run_and_collect(worker: Worker, task: Task) -> Outcome:
    outcome = worker.run(task)
    gc.collect(0)
    return outcome


def _in_order(submit: Callable[[Task], Future[Outcome]], tasks: Iterable[Task], in_flight: int) -> Iterator[Outcome]:
    waiting: deque[Future[Outcome]] = deque()
    for task in tasks:
        waiting.append(submit(task))
        if len(waiting) > in_flight:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


_worker: Worker | None = None
"""The worker of this process, where it is a worker process. An initializer can leave its work nowhere else."""


def _start(setup: Setup) -> None:
    global _worker  # noqa: PLW0603 -- see there
    _worker = Worker(setup)
    _rarely_look_for_cycles()


def _run(task: Task) -> Outcome:
    if _worker is None:
        raise RuntimeError("the worker process was not started by its pool")
    return _run_and_collect(_worker, task)
