"""Runs tasks in worker processes and hands their outcomes back in order, with bounded memory."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.synchronize import Event
from typing import Any, Protocol, TypeVar

from streams.cycles import RareLooks

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")
_Taken_contra = TypeVar("_Taken_contra", contravariant=True)
_Given_co = TypeVar("_Given_co", covariant=True)


class Work(Protocol[_Taken_contra, _Given_co]):
    """What a process does to each task."""

    def run(self, task: _Taken_contra, /) -> _Given_co:
        """Outcome of one task, the same wherever it runs."""
        ...


class Plan(Protocol[_Taken_contra, _Given_co]):
    """What a process is given once, and makes its work of; it crosses to the process, and so do tasks and outcomes."""

    def start(self) -> Work[_Taken_contra, _Given_co]:
        """The work, made in the process that does it."""
        ...


class WorkerLostError(RuntimeError):
    """A worker process ended before its task did, as the kernel ends one for want of memory. Nothing of its task was
    stored; running the command again goes on where this one ended."""


def cores() -> int:
    """How many cores this process may use; at least one."""
    # Of a container or a pinned process not every core is ours; not every system can tell.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_TASKS_EACH = 4
"""Tasks under way per process. Fewer, and the processes wait while a batch is written; more only cost memory."""


@dataclass(frozen=True)
class Pool:
    """How many worker processes, and how many tasks may be under way at once. No processes: everything runs here."""

    processes: int

    def run(self, plan: Plan[Task, Outcome], tasks: Iterable[Task]) -> Iterator[Outcome]:
        """Outcomes of ``tasks`` in their order. Raises WorkerLostError.

        Until the last is taken, cycles in this process are looked for once a task and no more.
        """
        with RareLooks() as cycles, self.started(plan) as submit:
            for outcome in _in_order(submit, tasks, _TASKS_EACH * self.processes):
                if self.processes < 1:
                    cycles.look()
                yield outcome

    @contextmanager
    def started(self, plan: Plan[Task, Outcome]) -> Iterator[Callable[[Task], "Future[Outcome]"]]:
        """What takes a task and gives its outcome to come, while the context lasts; without processes it has come.

        Returns once the processes are there. An outcome that is waited for in the context raises WorkerLostError
        there, and what the work raises.
        """
        if self.processes < 1:
            yield partial(_done, plan.start())
            return
        # Not forked: a copy of a process that runs the engine's threads would hang.
        context = multiprocessing.get_context("spawn")
        stopped = context.Event()
        with ProcessPoolExecutor(self.processes, context, _start, (plan, stopped)) as executor:
            try:
                for ready in [_submit(executor, _is_ready) for _ in range(self.processes)]:
                    ready.result()
                yield partial(_submit, executor, _run)
            except BrokenProcessPool:
                raise WorkerLostError("a worker process was lost; with less memory, use fewer workers") from None
            finally:
                # Tasks that wait in the pipe to a process can no longer be cancelled.
                stopped.set()
                executor.shutdown(cancel_futures=True)


def _done(work: Work[Task, Outcome], task: Task) -> "Future[Outcome]":
    """The outcome of a task that is done here and now, or what doing it raised."""
    outcome: Future[Outcome] = Future()
    try:
        outcome.set_result(work.run(task))
    except Exception as error:  # noqa: BLE001 -- it is raised where the outcome is asked for
        outcome.set_exception(error)
    return outcome


def _submit(executor: ProcessPoolExecutor, work: Callable[..., Any], *arguments: Any) -> "Future[Any]":
    """Hand work to a process. One that is started for it hears neither Ctrl-C, which a terminal sends to every process,
    nor SIGTERM, which a service manager does: whoever started it ends it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        return executor.submit(work, *arguments)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _in_order(submit: Callable[[Task], Future[Outcome]], tasks: Iterable[Task], in_flight: int) -> Iterator[Outcome]:
    waiting: deque[Future[Outcome]] = deque()
    for task in tasks:
        waiting.append(submit(task))
        if len(waiting) > in_flight:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


_work: Work[Any, Any] | None = None
_cycles: RareLooks | None = None
_stopped: Event | None = None
"""The work of this process, where it is a worker process, how it looks for cycles, and whether anybody still wants it
done. An initializer can leave them nowhere else."""


def _start(plan: Plan[Any, Any], stopped: Event) -> None:
    global _work, _cycles, _stopped  # noqa: PLW0603 -- see there
    _stopped = stopped
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _work = plan.start()
    _cycles = RareLooks().__enter__()


def _end_with_parent() -> None:
    """End this process when the one that started it is gone, however it ended: nobody would take the outcomes."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _is_ready() -> bool:
    """Whether this process has its work."""
    return _work is not None


def _run(task: Any) -> Any:
    if _work is None or _cycles is None or _stopped is None:
        raise RuntimeError("the worker process was not started by its pool")
    if _stopped.is_set():
        return None
    outcome = _work.run(task)
    _cycles.look()
    return outcome
