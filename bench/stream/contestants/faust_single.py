"""Faust, one event at a time: each is judged as it comes, and kept until a batch of them is stored and acknowledged.

Acknowledgement is by hand, because Faust would otherwise acknowledge what is still in memory. Inserting each event on
its own would be a hundred times slower; nobody careful does that.
"""

from typing import Any

import faust
from on_faust import Run, app_of, execute
from work import FRAMEWORK_LINGER_S, Job, Judged, job


class Buffer:
    """Events judged and not yet stored."""

    def __init__(self, run: Run, size: int) -> None:
        self._run, self._size = run, size
        self._judged: list[Judged] = []
        self._events: list[faust.Event] = []

    async def add(self, event: faust.Event) -> None:
        """Judge an event; when that fills the batch, store it."""
        self._judged.append(self._run.judge(event))
        self._events.append(event)
        if len(self._judged) >= self._size:
            await self.flush()

    async def flush(self) -> None:
        """Store what there is, and acknowledge it."""
        judged, events = self._judged, self._events
        self._judged, self._events = [], []
        if judged:
            await self._run.store(judged)
            for event in events:
                event.ack()


def main(the_job: Job) -> None:
    """Define the agent and the timer that flushes stragglers, and run."""
    app = app_of(the_job)
    buffer = Buffer(Run(the_job, app), the_job.batch)

    @app.agent(app.topic(the_job.topic, value_serializer="raw"))
    async def classify(stream: Any) -> None:
        async for event in stream.noack().events():
            await buffer.add(event)

    @app.timer(FRAMEWORK_LINGER_S)  # type: ignore[untyped-decorator]
    async def flush() -> None:
        await buffer.flush()

    execute(app)


if __name__ == "__main__":
    main(job(batch=5_000))
