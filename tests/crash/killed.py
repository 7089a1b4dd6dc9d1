"""The command in a process that is killed by signal 9, from within: after so many steps of its store, or so many
microseconds after it began to insert for the n-th time. Small batches.

``after STEPS`` counts what it asks of the store, and says at the end how many there were if it lived;
``during N MICROS`` counts inserts into ``exit_classifications``.
"""

import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest import mock

from offramp import rebuilding
from offramp.main import main
from sinks.store import Store
from streams import rebuild

STEPS = ("migrate", "query", "standings", "insert")


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()  # it may take a moment to arrive


def _counted(step: Callable[..., Any], seen: list[int], last: int) -> Callable[..., Any]:
    @functools.wraps(step)
    def counted(*args: Any, **options: Any) -> Any:
        answer = step(*args, **options)
        seen[0] += 1
        if seen[0] == last:
            _die()
        return answer

    return counted


def _interrupted(insert: Callable[..., Any], time_: int, micros: int) -> Callable[..., Any]:
    seen = [0]

    def later() -> None:
        time.sleep(micros / 1e6)
        _die()

    def interrupted(self: Store, table: str, stream: bytes) -> None:
        seen[0] += table == "exit_classifications"
        if seen[0] != time_:
            insert(self, table, stream)
            return
        threading.Thread(target=later, daemon=True).start()
        insert(self, table, stream)
        signal.pause()  # the other thread may come late, and nothing is to be done after this insert

    return interrupted


if __name__ == "__main__":
    _, how, first, second, size, *argv = sys.argv
    steps = [0]
    with ExitStack() as stack:
        if how == "after":
            for name in STEPS:
                stack.enter_context(mock.patch.object(Store, name, _counted(getattr(Store, name), steps, int(first))))
        else:
            stack.enter_context(mock.patch.object(Store, "insert", _interrupted(Store.insert, int(first), int(second))))
        stack.enter_context(mock.patch.object(rebuild, "BATCH_RECORDS", int(size)))
        stack.enter_context(mock.patch.object(rebuilding, "PAGE_EVENTS", int(size)))
        stack.enter_context(mock.patch.object(sys, "argv", ["offramp", *argv]))
        try:
            main()
        finally:
            sys.stderr.write(f"\nsteps: {steps[0]}\n")
