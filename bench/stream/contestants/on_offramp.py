"""``offramp run classify`` as it is, in this process, so that it is measured as the others are.

Three things are put in its place: the ids of schemas are known and no registry is asked; the first message is noticed
where the client hands it over; and all being stored and committed ends the process. It does not announce
classifications on a topic, which the others do not do either. Ledger, redaction and dead letters are on.
"""

import os
import sys
from collections.abc import Mapping
from typing import Any

from work import SCHEMA_ID, Job, Meter, leave

import offramp.classifying
from offramp.main import main
from schemas.wire import LocalSchemas
from streams.ingest import Report
from streams.kafka.seam import Client, Consumer, Fetched, Listener, Subscription, TopicPartition
from streams.observer import LogObserver


class Counting(LogObserver):
    """Counts what is stored and committed, and ends the process with the last of it."""

    meter: Meter

    def stored(self, report: Report, positions: Mapping[TopicPartition, int], seconds: float) -> None:
        """A batch is done."""
        super().stored(report, positions, seconds)
        if self.meter.add(report.read):
            self.meter.finish()
            leave()


class Noticing:
    """A consumer that tells the meter of the first message."""

    def __init__(self, consumer: Consumer, meter: Meter) -> None:
        self._consumer, self._meter = consumer, meter

    def poll(self, timeout_s: float, max_records: int) -> list[Fetched]:
        """What the consumer has."""
        fetched = self._consumer.poll(timeout_s, max_records)
        if fetched:
            self._meter.begin()
        return fetched

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)


class NoticingClient:
    """A client whose consumers notice."""

    def __init__(self, client: Client, meter: Meter) -> None:
        self._client, self._meter = client, meter

    def consumer(self, subscription: Subscription, listener: Listener) -> Noticing:
        """A member of a group."""
        return Noticing(self._client.consumer(subscription, listener), self._meter)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def settings(job: Job, client: str) -> dict[str, str]:
    """The settings of the worker, as environment variables."""
    return {
        "OFFRAMP_KAFKA__SERVERS": job.servers,
        "OFFRAMP_KAFKA__CLIENT": client,
        "OFFRAMP_KAFKA__CLASSIFY_GROUP": job.group,
        "OFFRAMP_TOPICS__PREFIX": job.topic.removesuffix("terminal-events"),
        "OFFRAMP_REDACTION__KEY": "0" * 32,
        "OFFRAMP_WORKER__ANNOUNCE": "false",
        "OFFRAMP_WORKER__BATCH_RECORDS": str(job.batch),
        "OFFRAMP_WORKER__PORT": "0",
    }


def run(job: Job, client: str) -> None:
    """Run the worker until the events of the job are stored and committed, and print what it took."""
    meter = Counting.meter = Meter(job.events)
    wired, schemas = offramp.classifying, LocalSchemas.published({SCHEMA_ID: "terminal_event"})
    make = vars(wired)["client"]
    vars(wired).update(
        LogObserver=Counting,
        registry=lambda *_: schemas,
        client=lambda kafka: NoticingClient(make(kafka), meter),
    )
    os.environ.update(settings(job, client))
    sys.argv = ["offramp", "run", "classify", "--store", str(job.store)]
    main()
