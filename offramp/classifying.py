"""The classify worker, wired: settings to broker, registry, store and stages."""

import logging
import math
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
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
from streams.kafka.errors import BrokerUnavailable
from streams.kafka.seam import Admin, Client, Member, Subscription, TopicPartition
from streams.logs import log_to
from streams.messages import NoRegistry
from streams.observer import WorkerObserver, named
from streams.parallel import Pool, WorkerLostError, cores
from streams.start import Start, StartUnknownError
from streams.topics import Topics
from streams.worker import Outcome, Setup, Task

if TYPE_CHECKING:
    from concurrent.futures import Future

_log = logging.getLogger("offramp.classify")
_ASK_S = 1.0
"""How often the group is asked how far others are, in seconds."""
_SAY_AFTER_S, _SAY_EVERY_S = 10.0, 60.0
"""When, and how often then, it is said for whom a worker waits that has done its own part, in seconds."""
_REMEDY = (
    "look into the logs of these members; what one that is ended was given goes to the others; "
    "this worker has stored its own part and can be ended too"
)
MOST_PROCESSES = 2
"""Processes that judge for one worker, if nothing is set: what one consumer and one store keep up with."""


def run_classify(session: Session, start: Start | None = None, *, until_end: bool = False) -> None:
    """Run the classify worker until SIGTERM or Ctrl-C, or, ``until_end``, until its group has stored what there is
    now: this worker, and whoever else is a member.

    Raises ConfigurationError, CouldNotCheckError and what the store raises.
    """
    settings, planned = session.settings, topics(session.settings)
    log_to(sys.stderr)
    with reachable(), session.store("run classify") as store, _stopping() as stopped:
        broker = client(settings.kafka)
        with (
            _until_end(session, broker, planned) if until_end else nullcontext(_never) as has_ended,
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
                worker.run(lambda: stopped() or has_ended(worker))


def _never(_worker: ClassifyWorker) -> bool:
    return False


@dataclass
class Group:
    """Whether a group has stored everything up to what was the end of each partition when this was made.

    Of partitions that other members own, what is committed counts, which is never ahead of what they have stored. The
    broker is asked for it every second at most. What is waited for is logged once that takes a while.
    """

    admin: Admin
    clock: Clock
    name: str
    beginnings: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    _committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    _owners: Mapping[TopicPartition, str] = field(default_factory=dict)
    _has_spare: bool = False
    _due: float = -math.inf
    _say_at: float = math.inf

    def has_stored(self, worker: ClassifyWorker) -> bool:
        """Whether it has, as far as ``worker``, a member of it, and the broker can tell. Not before it has joined."""
        others = {partition: end for partition, end in self.ends.items() if partition not in worker.positions}
        own = {partition: end for partition, end in self.ends.items() if partition in worker.positions}
        if _short_of(own, worker.positions):
            return False
        if others:
            self._look()
        # Whoever was given nothing is not told so, but is seen in the group.
        has_joined = worker.is_placed or self._has_spare
        missing = _short_of(others, self._committed)
        if has_joined and missing:
            self._say(missing)
        return has_joined and not missing

    def _look(self) -> None:
        """Ask how far others are, and whether some member has no partition. What none has committed anything of stands
        at its beginning."""
        now = self.clock.monotonic()
        if now < self._due:
            return
        self._due = now + _ASK_S
        with suppress(BrokerUnavailable):
            told = self.admin.group_offsets(self.name)
            self._committed = {**self.beginnings, **{partition: one.offset for partition, one in told.items()}}
            groups = self.admin.describe_groups([self.name]).values()
            members = [member for group in groups if group.state == "Stable" for member in group.members]
            self._has_spare = any(not member.assignment for member in members)
            self._owners = {partition: _said(member) for member in members for partition in member.assignment}

    def _say(self, missing: Mapping[TopicPartition, int]) -> None:
        """Say what has not come yet, after a while and then now and again."""
        now = self.clock.monotonic()
        if math.isinf(self._say_at):
            self._say_at = now + _SAY_AFTER_S
        if now >= self._say_at:
            self._say_at = now + _SAY_EVERY_S
            partitions = {named(each): self._standing(each, end) for each, end in sorted(missing.items())}
            given = {"group": self.name, "partitions": partitions, "remedy": _REMEDY}
            _log.warning("waiting for other members of the group to commit", extra=given)

    def _standing(self, partition: TopicPartition, end: int) -> dict[str, Any]:
        return {
            "committed": self._committed.get(partition), "end": end, "member": self._owners.get(partition),
        }  # fmt: skip


def _said(member: Member) -> str:
    return f"{member.client_id} on {member.host.removeprefix('/')}"


def _short_of(ends: Mapping[TopicPartition, int], positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Those of the ends that no position has reached."""
    return {partition: end for partition, end in ends.items() if positions.get(partition, -1) < end}


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
    ours = cores()
    return min(ours, MOST_PROCESSES) if ours > 1 else 0


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


@contextmanager
def _until_end(session: Session, broker: Client, planned: Topics) -> Iterator[Callable[[ClassifyWorker], bool]]:
    """Whether what stands in the topics that are read now is stored."""
    admin = broker.admin()
    try:
        described = admin.describe_topics(topic.name for topic in planned.inputs)
        partitions = [TopicPartition(topic.name, n) for topic in described.values() for n in range(topic.partitions)]
        beginnings, ends = _bounds(broker, partitions)
        yield Group(admin, session.clock, session.settings.kafka.classify_group, beginnings, ends).has_stored
    finally:
        admin.close()


def _bounds(
    broker: Client, partitions: Sequence[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Where partitions begin and end now."""
    reader = broker.reader(partitions)
    try:
        return reader.beginning_offsets(partitions), reader.end_offsets(partitions)
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
