"""``offramp run classify`` as it is, in this process, so that it is measured as the others are.

Two things are put in its place: the ids of schemas are known and no registry is asked; and its consumer tells of the
first message and of every commit, the last of which ends the process. It does not announce classifications on a topic,
which the others do not do either. Ledger, redaction and dead letters are on.
"""

import os
import sys
from collections.abc import Mapping
from typing import Any

from work import SCHEMA_ID, Job, Meter, leave

import offramp.classifying
from offramp.main import main
from schemas.wire import LocalSchemas
from streams.kafka.seam import Client, Consumer, Fetched, Listener, Subscription, TopicPartition


class MeteredConsumer:
    """A consumer that tells the meter what comes and what is committed, which is stored by then."""

    def __init__(self, consumer: Consumer, topic: str, meter: Meter) -> None:
        self._consumer, self._topic, self._meter = consumer, topic, meter
        self._committed: dict[TopicPartition, int] = {}

    def poll(self, timeout_s: float, max_records: int) -> list[Fetched]:
        """What the consumer has."""
        fetched = self._consumer.poll(timeout_s, max_records)
        if fetched:
            self._meter.begin()
        return fetched

    def commit(self, offsets: Mapping[TopicPartition, int], metadata: str = "") -> None:
        """Commit; the process ends when that was all. Topics begin at offset 0 and have no holes."""
        self._consumer.commit(offsets, metadata)
        for partition, offset in offsets.items():
            if partition.topic == self._topic:
                new = offset - self._committed.get(partition, 0)
                self._committed[partition] = offset
                if self._meter.add(new):
                    self._meter.finish()
                    leave()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)


class MeteredClient:
    """A client whose consumers are metered."""

    def __init__(self, client: Client, topic: str, meter: Meter) -> None:
        self._client, self._topic, self._meter = client, topic, meter

    def consumer(self, subscription: Subscription, listener: Listener) -> MeteredConsumer:
        """A member of a group."""
        return MeteredConsumer(self._client.consumer(subscription, listener), self._topic, self._meter)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def _known_schemas(*_: object) -> LocalSchemas:
    """The schemas of the frames, in whichever process asks."""
    return LocalSchemas.published({SCHEMA_ID: "terminal_event"})


def settings(job: Job, client: str, processes: int | None) -> dict[str, str]:
    """The settings of the worker, as environment variables."""
    chosen = {} if processes is None else {"OFFRAMP_WORKER__PROCESSES": str(processes)}
    return chosen | {
        "OFFRAMP_KAFKA__SERVERS": job.servers,
        "OFFRAMP_KAFKA__CLIENT": client,
        "OFFRAMP_KAFKA__CLASSIFY_GROUP": job.group,
        "OFFRAMP_TOPICS__PREFIX": job.topic.removesuffix("terminal-events"),
        "OFFRAMP_REDACTION__KEY": "0" * 32,
        "OFFRAMP_WORKER__ANNOUNCE": "false",
        "OFFRAMP_WORKER__BATCH_RECORDS": str(job.batch),
        "OFFRAMP_WORKER__PORT": "0",
    }


def run(job: Job, client: str, processes: int | None = None) -> None:
    """Run the worker until the events of the job are stored and committed, and print what it took; in as many processes
    as it chooses itself, if nothing is said."""
    wired = vars(offramp.classifying)
    make = wired["client"]
    wired["_schemas"] = _known_schemas
    wired["client"] = lambda kafka: MeteredClient(make(kafka), job.topic, Meter(job.events))
    os.environ.update(settings(job, client, processes))
    sys.argv = ["offramp", "run", "classify", "--store", str(job.store)]
    main()
