"""What both Faust contestants share: the app, tuned as its settings' documentation says, and its end.

Insertions run in a thread, so that the event loop goes on fetching meanwhile. Acknowledged is what is stored.
"""

import asyncio
from collections.abc import Sequence

import faust
import uvloop  # type: ignore[import-not-found]
from storing import Blocks
from work import Job, Judge, Judged, Meter, leave, quiet_collector


class First(faust.Sensor):
    """Tells the meter of the first message, and then listens no more, so that it costs nothing."""

    def __init__(self, app: faust.App, meter: Meter) -> None:
        super().__init__()
        self._sensors, self._meter, self._leaving = app.sensors, meter, False

    def on_message_in(self, tp: object, offset: int, message: object) -> None:  # noqa: ARG002 -- Faust's signature
        """Take note of a message."""
        self._meter.begin()
        if not self._leaving:  # later, because the sensors are being walked through
            asyncio.get_running_loop().call_soon(self._sensors.remove, self)
            self._leaving = True


def app_of(job: Job) -> faust.App:
    """An app that reads with large fetches and buffers, checks no checksums and makes no topics."""
    return faust.App(
        job.group,
        broker=f"kafka://{job.servers}",
        value_serializer="raw",
        store="memory://",
        datadir=str(job.store / "faust"),
        web_enabled=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        broker_check_crcs=False,
        broker_commit_interval=1.0,
        broker_max_poll_records=job.batch,
        consumer_auto_offset_reset="earliest",
        consumer_max_fetch_size=16 * 2**20,
        stream_buffer_maxsize=4 * job.batch,
        stream_wait_empty=False,
    )


class Run:
    """One run: judges events, stores batches, and ends when all is stored and committed."""

    def __init__(self, job: Job, app: faust.App) -> None:
        self._app, self._judge, self._storing = app, Judge(), Blocks(job.store)
        self._meter = Meter(job.events)
        self._ending: asyncio.Task[None] | None = None
        app.sensors.add(First(app, self._meter))

    def judge(self, event: faust.Event) -> Judged:
        """Decode and classify one event."""
        return self._judge.judge(event.message.value or b"", event.message.offset)

    async def store(self, batch: Sequence[Judged]) -> None:
        """Insert a batch in a thread."""
        await asyncio.get_running_loop().run_in_executor(None, self._storing.store, batch)
        if self._meter.add(len(batch)):
            self._ending = asyncio.ensure_future(self._end())

    async def _end(self) -> None:
        await asyncio.sleep(0)  # the last batch is acknowledged when its agent goes on
        await self._app.consumer.commit()
        self._meter.finish()
        leave()


def execute(app: faust.App) -> None:
    """Run the app's worker until the run ends the process."""
    quiet_collector()
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    faust.Worker(app, loop=loop, loglevel="ERROR", quiet=True, redirect_stdouts=False).execute_from_commandline()
