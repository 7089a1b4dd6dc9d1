"""The classify worker, wired: settings to broker, registry, store and stages."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from offramp.config import RegistrySettings, WorkerSettings
from offramp.errors import ConfigurationError, CouldNotCheckError
from offramp.observing import unwatched, watched
from offramp.session import Session
from offramp.streaming import client, reachable, registry, topics
from schemas.wire import SchemaSource
from streams.classify import ClassifyWorker, Pace, Publisher
from streams.clock import Clock
from streams.cut import Limits
from streams.ingest import Writer
from streams.kafka.seam import Client, Subscription, TopicPartition
from streams.logs import log_to
from streams.messages import NoRegistry
from streams.observer import WorkerObserver
from streams.parallel import Pool, WorkerLostError
from streams.start import Start, StartUnknownError
from streams.topics import Topics
from streams.worker import Outcome, Setup, Task

if TYPE_CHECKING:
    from concurrent.futures import Future

MOST_PROCESSES = 2
"""Processes that judge for one worker, if nothing is set: what one consumer and one store keep up with."""


def run_classify(session: Session, start: Start | None = None, *, until_end: bool = False) -> None:
    """Run the classify worker until SIGTERM or Ctrl-C, or, ``until_end``, until it has stored what there is now.

    Raises ConfigurationError, CouldNotCheckError and what the store raises.
    """
    settings, planned = session.settings, topics(session.settings)
    log_to(sys.stderr)
    with reachable(), session.store("run classify") as store, _stopping() as stopped:
        broker = client(settings.kafka)
        ends = _ends(broker, planned) if until_end else None
        with (
            unwatched() if until_end else watched(session, broker, planned) as observer,
            _publish(session, broker, planned, observer) as publish,
            _judging(session) as judge,
        ):
            worker = ClassifyWorker(
                client=broker,
                subscription=_subscription(session, planned),
                judge=judge,
                writer=Writer(store, session.table, session.clock.now_micros, publish),
                resume=lambda partition: store.ledger_end(partition.topic, str(partition.partition)),
                clock=session.clock,
                observer=observer,
                pace=_pace(settings.worker),
                start=start,
            )
            worker.writer.activate()
            with _start_known():
                worker.run(lambda: stopped() or (ends is not None and has_reached(worker.positions, ends)))


def has_reached(positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> bool:
    """Whether every partition stands at its end, or behind it."""
    return all(positions.get(partition, -1) >= end for partition, end in ends.items())


def _subscription(session: Session, planned: Topics) -> Subscription:
    settings = session.settings
    session_s = settings.worker.session_timeout_s
    return Subscription(
        group=settings.kafka.classify_group,
        topics=tuple(topic.name for topic in planned.inputs),
        instance_id=settings.worker.instance_id,
        session_timeout_s=session_s,
        # Two may be lost; and a short session would be refused with the usual interval.
        heartbeat_interval_s=min(Subscription.heartbeat_interval_s, session_s / 3),
        max_poll_interval_s=settings.worker.max_poll_interval_s,
    )


@contextmanager
def _judging(session: Session) -> Iterator[Callable[[Task], "Future[Outcome]"]]:
    """What decodes, redacts and classifies, in so many processes as are set."""
    chosen = session.settings.worker.processes
    try:
        with Pool(_processes() if chosen is None else chosen).started(_setup(session)) as judge:
            yield judge
    except WorkerLostError as error:
        raise CouldNotCheckError(f"{error} (worker.processes); start it again, nothing is lost") from None


def _processes() -> int:
    """As many as one consumer and one store keep at work, and none where they would only take turns."""
    # Of a container or a pinned process not every core is ours; not every system can tell.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_PROCESSES) if cores > 1 else 0


def _setup(session: Session) -> Setup:
    settings, (table, unproven) = session.settings, session.chosen
    schemas = partial(_schemas, settings.registry, session.clock)
    schemas()  # so that what is set wrongly ends the command, and not a process of it
    return Setup(
        table.text,
        session.redactor,
        announcements=settings.worker.announce,
        unproven=unproven,
        limits=Limits(message_bytes=settings.worker.max_message_bytes),
        schemas=schemas,
    )


def _schemas(settings: RegistrySettings, clock: Clock) -> SchemaSource:
    return registry(settings, clock) or NoRegistry()


def _pace(settings: WorkerSettings) -> Pace:
    return Pace(
        batch_records=settings.batch_records,
        linger_s=settings.linger_s,
        retry_most_s=settings.retry_most_s,
        flush_s=settings.flush_s,
    )


@contextmanager
def _publish(session: Session, broker: Client, planned: Topics, observer: WorkerObserver) -> Iterator[Publisher]:
    producer = broker.producer()
    try:
        yield Publisher(producer, planned, session.settings.worker.flush_s, observer.not_sent)
    finally:
        producer.close()


def _ends(broker: Client, planned: Topics) -> dict[TopicPartition, int]:
    """Where the partitions that are read end now."""
    admin = broker.admin()
    try:
        described = admin.describe_topics(topic.name for topic in planned.inputs)
    finally:
        admin.close()
    partitions = [TopicPartition(topic.name, n) for topic in described.values() for n in range(topic.partitions)]
    reader = broker.reader(partitions)
    try:
        return reader.end_offsets(partitions)
    finally:
        reader.close()


@contextmanager
def _start_known() -> Iterator[None]:
    try:
        yield
    except StartUnknownError as error:
        raise ConfigurationError(str(error)) from error


@contextmanager
def _stopping() -> Iterator[Callable[[], bool]]:
    """Whether SIGTERM or Ctrl-C came. The first lets the batch at hand be stored; the second ends at once."""
    came: list[int] = []
    before: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        signal.signal(number, before[number])

    for number in before:
        signal.signal(number, note)
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
