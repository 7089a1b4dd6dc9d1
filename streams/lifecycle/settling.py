"""The leader settles runs now and then, beside whatever else it is asked for.

A settling can take minutes, so it runs by itself and nothing waits for it; there is never more than one. One that
failed is tried again, since how far runs are settled is recorded last.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sinks.errors import StoreError
from streams.clock import Clock

if TYPE_CHECKING:
    from streams.lifecycle.app import Evaluate, Evaluation

_log = logging.getLogger(__name__)


@dataclass
class Settling:
    """An evaluator that settles every ``every_s`` seconds at most, and then asks ``evaluate``.

    ``settle`` gets the time in microseconds; ``run`` runs it elsewhere and awaits it.
    """

    settle: Callable[[int], Any]
    clock: Clock
    every_s: float
    run: Callable[[Callable[[], Any]], Awaitable[Any]]
    evaluate: "Evaluate | None" = None
    _due: float | None = None
    _under_way: "asyncio.Task[None] | None" = field(default=None, repr=False)

    async def __call__(self, evaluation: "Evaluation") -> None:
        """Begin a settling if it is time to and none is under way."""
        idle, now = self._under_way is None or self._under_way.done(), self.clock.monotonic()
        if idle and (self._due is None or now >= self._due):
            self._due = now + self.every_s
            self._under_way = asyncio.get_running_loop().create_task(self._settle(evaluation.now))
        if self.evaluate is not None:
            await self.evaluate(evaluation)

    async def _settle(self, now: int) -> None:
        try:
            await self.run(lambda: self.settle(now))
        except StoreError as error:
            _log.warning("runs not settled; tried again", extra={"error": str(error)})
