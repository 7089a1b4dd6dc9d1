"""Quix Streams with a batching sink: every so many messages a checkpoint flushes the sink and then commits."""

from typing import Any

from quixstreams import Application  # type: ignore[import-not-found]
from quixstreams.sinks import BatchingSink, SinkBatch  # type: ignore[import-not-found]
from storing import Blocks
from work import FRAMEWORK_LINGER_S, Job, Judge, Meter, job, leave, quiet_collector


class Sink(BatchingSink):  # type: ignore[misc]
    """Judges and stores a batch at a checkpoint, which is faster than judging message by message before it."""

    def __init__(self, job: Job, meter: Meter) -> None:
        super().__init__()
        self._judge, self._storing, self._meter = Judge(), Blocks(job.store), meter

    def add(self, *message: Any, **named: Any) -> None:
        """Take one message."""
        self._meter.begin()
        super().add(*message, **named)

    def write(self, batch: SinkBatch) -> None:
        """Judge and store what came since the last checkpoint."""
        self._storing.store(self._judge.judge_all([(item.value, item.offset) for item in batch]))
        self._meter.add(batch.size)


def main(job: Job) -> None:
    """Run until the events of the job are stored and committed."""
    meter = Meter(job.events)
    app = Application(
        broker_address=job.servers,
        consumer_group=job.group,
        auto_offset_reset="earliest",
        commit_every=job.batch,
        commit_interval=FRAMEWORK_LINGER_S,
        auto_create_topics=False,
        use_changelog_topics=False,
        loglevel="ERROR",
        state_dir=job.store / "quix",
        consumer_extra_config={
            "queued.min.messages": 4 * job.batch,
            "fetch.message.max.bytes": 8 * 2**20,
            "check.crcs": False,
        },
    )
    topic = app.topic(job.topic, value_deserializer="bytes", key_deserializer="bytes")
    app.dataframe(topic).sink(Sink(job, meter))
    quiet_collector()
    app.run(count=job.events)
    meter.finish()
    leave()


if __name__ == "__main__":
    main(job(batch=5_000))
