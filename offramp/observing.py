"""What watches the classify worker, wired: log, metrics, health, pages, and traces where they are configured."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, TypeVar

from classifier.decide import CLASSIFIER_VERSION
from offramp.books import closed
from offramp.errors import ConfigurationError
from offramp.session import Session, server
from sinks.server import open_server
from sinks.store import Store
from streams.health import Health
from streams.kafka.seam import Client, Reader, TopicPartition
from streams.observer import LogObserver, Observers, WorkerObserver
from streams.pages import Pages, Verdict, serving, verdict_page
from streams.topics import Topics
from streams.watch import Watch

if TYPE_CHECKING:
    from streams.metrics import Metrics
    from streams.tracing import Traces

_Answer = TypeVar("_Answer")
MISSED = 3
"""How many questions in a row may go unanswered before the worker is not ready."""


@contextmanager
def unwatched() -> Iterator[WorkerObserver]:
    """Who is told of a worker that ends by itself: only the log."""
    yield LogObserver()


@contextmanager
def watched(session: Session, broker: Client, planned: Topics) -> Iterator[WorkerObserver]:
    """Who is told of a worker whose pages can be asked while the context lasts. Raises ConfigurationError if nobody can
    listen there, or what a setting needs is not installed."""
    settings = session.settings.worker
    with ExitStack() as stack:
        health = Health(session.clock, settings.stalled_after_s, MISSED * settings.watch_s)
        observers: list[WorkerObserver] = [LogObserver(), health]
        traces = stack.enter_context(_traces(session))
        if traces is not None:
            observers.append(traces)
        if settings.port:
            metrics = _metrics(session, health, planned)
            observers.append(metrics)
            stack.enter_context(_shown(session, broker, planned, health, metrics))
        yield Observers(tuple(observers))


def _metrics(session: Session, health: Health, planned: Topics) -> "Metrics":
    try:
        from streams.metrics import Build, Metrics
    except ImportError as error:
        raise ConfigurationError(f"{error.name} is not installed; install offramp[kafka]") from None
    build = Build(version("offramp"), CLASSIFIER_VERSION, session.table.digest)
    return Metrics(health, session.clock, build, tuple(topic.name for topic in planned.inputs))


@contextmanager
def _shown(session: Session, broker: Client, planned: Topics, health: Health, metrics: "Metrics") -> Iterator[None]:
    settings = session.settings.worker
    watches = list(_watches(session, broker, planned, health))
    pages = _pages(health, metrics, watches, MISSED * settings.watch_s)
    with ExitStack() as stack:
        for watch in [*watches, *_audits(session, metrics)]:
            stack.enter_context(watch.running())
        try:
            stack.enter_context(serving(settings.host, settings.port, pages))
        except OSError as error:
            place = f"worker.host, worker.port: {settings.host}:{settings.port}"
            raise ConfigurationError(f"{place}: {error.strerror}; name another, or port 0 for no pages") from error
        yield


def _pages(health: Health, metrics: "Metrics", watches: list[Watch], within_s: float) -> Pages:
    return {
        "/livez": lambda: verdict_page(health.live()),
        "/readyz": lambda: verdict_page(ready(health, watches, within_s)),
        "/metrics": metrics.page,
    }


def ready(health: Health, watches: list[Watch], within_s: float) -> Verdict:
    """Whether the worker can work: it polls, waits for no outage, and all that it needs answered lately."""
    verdicts = [health.works(), *(watch.verdict(within_s) for watch in watches)]
    failed = [verdict for verdict in verdicts if not verdict.ok]
    return Verdict(not failed, "; ".join(verdict.reason for verdict in failed or verdicts))


# --- who is asked


def _watches(session: Session, broker: Client, planned: Topics, health: Health) -> Iterator[Watch]:
    every_s, clock = session.settings.worker.watch_s, session.clock
    ends = _Ends(broker, TopicPartition(planned.inputs[0].name, 0), health)
    yield Watch("the broker", ends.ask, every_s, clock, ends.close)
    if session.settings.store.url is not None:
        # An embedded store is in this process, and out of nobody's reach.
        yield Watch("the store", lambda: _asked(session, Store.is_new), every_s, clock)


def _audits(session: Session, metrics: "Metrics") -> Iterator[Watch]:
    every_s = session.settings.worker.audit_every_s
    if every_s and session.settings.store.url is None:
        raise ConfigurationError("worker.audit_every_s needs a server; an embedded store is audited by `offramp audit`")
    if every_s:
        count = partial(_unaccounted, session)
        yield Watch("the audit", lambda: metrics.audited(_asked(session, count)), every_s, session.clock)


def _asked(session: Session, question: Callable[[Store], _Answer]) -> _Answer:
    """An answer of the store by a connection of its own, because the worker's belongs to its thread."""
    with open_server(server(session.settings.store), session.clock.now_micros) as store:
        return question(store)


def _unaccounted(session: Session, store: Store) -> int:
    return closed(session.settings, session.clock, store, with_broker=True).unaccounted


@dataclass
class _Ends:
    """Asks the broker where the logs end, by a reader of its own. Of ``anyone`` while nothing is ours."""

    broker: Client
    anyone: TopicPartition
    health: Health
    _reader: Reader | None = field(default=None)

    def ask(self) -> None:
        """Raises BrokerError."""
        if self._reader is None:
            # Here, because a reader belongs to the thread that asks.
            self._reader = self.broker.reader(())
        self.health.ends(self._reader.end_offsets(self.health.partitions or [self.anyone]))

    def close(self) -> None:
        """Give the reader back."""
        if self._reader is not None:
            self._reader.close()


# --- traces


@contextmanager
def _traces(session: Session) -> Iterator["Traces | None"]:
    settings = session.settings.traces
    if settings.url is None:
        yield None
        return
    try:
        from streams.tracing import Traces, tracing
    except ImportError as error:
        raise ConfigurationError(f"traces.url: {error.name} is not installed; install offramp[otel]") from None
    with tracing(settings.url, settings.ratio, version("offramp")) as tracer:
        yield Traces(tracer, session.clock)
