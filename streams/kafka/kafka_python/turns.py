"""Brings the library's callbacks from its own thread to the thread that polls."""

import queue
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.future import Future as LibraryFuture

from streams.kafka.seam import TopicPartition

Event = Literal["on_assigned", "on_revoked", "on_lost"]
T = TypeVar("T")


@dataclass(frozen=True)
class Turn:
    """One callback that the library waits for. ``settled`` lets it go on."""

    event: Event
    partitions: frozenset[TopicPartition]
    settled: Any


class Turns(AsyncConsumerRebalanceListener):  # type: ignore[misc]
    """A listener for the library, and a way to call the library so that the caller hears what the listener heard.

    The library blocks its caller while it rebalances, and calls listeners on the thread that does its network work,
    which must not block and on which nothing can be committed. So the library is called on a thread of ours, and the
    caller's thread meanwhile answers callbacks. It costs two switches of threads a call.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kafka-poll")
        self._inbox: queue.SimpleQueue[Turn | Future[Any]] = queue.SimpleQueue()

    def call(self, function: Callable[[], T], hear: Callable[[Turn], None]) -> T:
        """The result of ``function``, or what it raises; ``hear`` is called here for each callback of the library."""
        done = self._thread.submit(function)
        done.add_done_callback(self._inbox.put)
        while (item := self._inbox.get()) is not done:
            # An earlier call that was interrupted may have left its end behind.
            if isinstance(item, Turn):
                hear(item)
        return done.result()

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()

    async def on_partitions_assigned(self, assigned: Any) -> None:
        """The library's hook."""
        await self._heard("on_assigned", assigned)

    async def on_partitions_revoked(self, revoked: Any) -> None:
        """The library's hook."""
        await self._heard("on_revoked", revoked)

    async def on_partitions_lost(self, lost: Any) -> None:
        """The library's hook."""
        await self._heard("on_lost", lost)

    async def _heard(self, event: Event, partitions: Any) -> None:
        settled = LibraryFuture()
        self._inbox.put(Turn(event, frozenset(TopicPartition(*partition) for partition in partitions), settled))
        await settled
