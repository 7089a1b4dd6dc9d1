"""The lifecycle app, wired: settings to broker, topics, store and pages."""

import asyncio
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING

from offramp.alerting import chosen_rules, evaluating
from offramp.errors import ConfigurationError, CouldNotCheckError
from offramp.session import Session
from offramp.shadowing import chosen_mapping, reach
from offramp.streaming import client, connection, reachable, registry, topics
from schemas.wire import LocalSchemas, SchemaSource
from shadow.settle import settle
from sinks.errors import StoreUnavailable
from sinks.open_items import OpenItemsReader
from sinks.store import Store
from streams.lifecycle.alerting import AlertTurns
from streams.lifecycle.decoding import RestingSchemas, decoder
from streams.lifecycle.knowledge import Bounds
from streams.lifecycle.lifecycle import Lifecycle, Pace, Read
from streams.lifecycle.records import NOTED
from streams.lifecycle.settling import Settling
from streams.logs import log_to
from streams.topics import Topics

if TYPE_CHECKING:
    from streams.lifecycle.app import Evaluate, Process, Reads


def run_lifecycle(session: Session) -> int:
    """Run the lifecycle app until it is told to end; the exit status.

    On the leader, alerts are evaluated and runs settled for the comparison. Raises ConfigurationError without a broker
    or a server for the store, or for alert rules, receivers of alerts or a label mapping that cannot be used, and
    CouldNotCheckError where broker or store cannot be reached, or a topic is not there.
    """
    settings = session.settings
    if settings.store.url is None:
        raise ConfigurationError("the lifecycle app reads the store while others write it; set store.url to a server")
    planned, where = topics(settings), connection(settings.kafka)
    _require(session, planned)
    try:
        from streams.lifecycle.app import make_app, run
    except ImportError as error:
        raise ConfigurationError(f"{error.name} is not installed; install offramp[kafka]") from None
    log_to(sys.stderr)
    with session.existing_store("run lifecycle") as store:
        lifecycle = _lifecycle(session, store)
        with alert_turns(session, store) as evaluate, settling(session, store, evaluate) as asked:
            app = make_app(lifecycle, where, _reads(planned), _process(session, evaluate), asked)
            return run(app)


def _require(session: Session, planned: Topics) -> None:
    """Refuse to start where a topic is missing, because the broker would make it, and not as planned."""
    with reachable():
        admin = client(session.settings.kafka).admin()
        try:
            found = admin.describe_topics(_names(planned))
        finally:
            admin.close()
    missing = [name for name in _names(planned) if name not in found]
    if missing:
        raise CouldNotCheckError(f"there is no topic {', '.join(missing)}; `offramp init` makes them")


def _names(planned: Topics) -> list[str]:
    reads = _reads(planned)
    return [reads.exits, *reads.companions, reads.alerts]


def _reads(planned: Topics) -> "Reads":
    from streams.lifecycle.app import Reads

    companions = tuple(planned.of_record(kind).name for kind in NOTED)
    return Reads(planned.exit_classifications.name, companions, planned.exit_alerts.name)


def _lifecycle(session: Session, store: Store) -> Lifecycle:
    settings = session.settings.lifecycle
    schemas: SchemaSource = registry(session.settings.registry, session.clock) or LocalSchemas.published()
    return Lifecycle(
        clock=session.clock,
        decode=decoder(RestingSchemas(schemas, session.clock), session.redactor),
        read=_reading(OpenItemsReader(store)),
        bounds=Bounds(int(settings.grace_s * 1_000_000), settings.most_settled),
        pace=Pace(settings.sync_s, int(settings.overlap_s * 1_000_000), settings.rebuild_s),
    )


def _reading(reader: OpenItemsReader) -> Read:
    """Asks in one thread of its own, so that the event loop goes on and questions do not overtake each other."""
    executor = ThreadPoolExecutor(1, thread_name_prefix="store")
    return lambda ask: asyncio.get_running_loop().run_in_executor(executor, ask, reader)


@contextmanager
def settling(session: Session, store: Store, evaluate: "Evaluate | None") -> Iterator[Settling]:
    """What the leader is asked: it settles runs, in a thread of its own, and then asks ``evaluate``.

    Raises ConfigurationError for a label mapping that cannot be used. A settling that is under way at the end is ended
    with its slice.
    """
    mapping, far, ended = chosen_mapping(session), reach(session), Event()

    def go_on(_done: int, _of: int) -> None:
        if ended.is_set():
            raise StoreUnavailable("the app ends; the next one settles all of it")

    executor = ThreadPoolExecutor(1, thread_name_prefix="settle")
    try:
        yield Settling(
            settle=lambda now: settle(store, mapping, now, go_on, far),
            clock=session.clock,
            every_s=session.settings.lifecycle.settle_s,
            run=lambda ask: asyncio.get_running_loop().run_in_executor(executor, ask),
            evaluate=evaluate,
        )
    finally:
        ended.set()
        executor.shutdown(cancel_futures=True)


@contextmanager
def alert_turns(session: Session, store: Store) -> Iterator[AlertTurns]:
    """What evaluates alerts on the leader, in a thread of its own. Raises ConfigurationError for rules or
    receivers that cannot be used.

    A turn that is under way at the end is ended first, and then the evaluation is left to another process.
    """
    executor = ThreadPoolExecutor(1, thread_name_prefix="alerts")
    with evaluating(session, store, chosen_rules(session)) as alerting:
        try:
            yield AlertTurns(
                alerting=alerting,
                run=lambda ask: asyncio.get_running_loop().run_in_executor(executor, ask),
            )
        finally:
            executor.shutdown(cancel_futures=True)
            alerting.end(session.clock.now_micros())


def _process(session: Session, alerts: AlertTurns) -> "Process":
    from streams.lifecycle.app import Process

    settings = session.settings.lifecycle
    return Process(
        group=session.settings.kafka.lifecycle_group,
        host=settings.host,
        port=settings.port,
        queues=tuple(session.table.file.queues),
        evaluate_s=settings.evaluate_s,
        horizon_us=int(settings.horizon_s * 1_000_000),
        more_metrics=alerts.metrics,
    )
