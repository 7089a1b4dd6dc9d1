"""Metrics of the classify worker for Prometheus: names, labels and meaning in one place.

Base units, and labels of closed sets alone: never a run, a tenant or a text of a message. Whatever can be counted is
exported from the start as zero, so that a rate is right from the first time on. A partition that is not ours any more
is no longer exported.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from schemas.companions import COMPANIONS
from schemas.errors import ErrorCode
from schemas.exits import KINDS
from schemas.types import EARLIEST
from sinks.errors import StoreUnavailable
from sinks.rows import Disposition
from streams.classify import Partitions
from streams.clock import Clock
from streams.health import Health
from streams.ingest import Report
from streams.kafka.errors import BrokerRejected, BrokerUnavailable
from streams.kafka.seam import Fetched, Outgoing, TopicPartition
from streams.pages import METRICS_TYPE, Page
from streams.registry import RegistryUnavailable
from streams.worker import TERMINAL_EVENT

NO_RECORD = "none"
"""Record type of a message that is no record."""
OUTAGES = {"store": StoreUnavailable, "broker": BrokerUnavailable, "registry": RegistryUnavailable}
"""What is waited for, by the value of the label ``kind``."""
_MICROS = 1_000_000
_NOTHING_YET = float("nan")
"""Neither zero nor an age: no alert fires on it."""
_BATCH_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_OF_RECORDS = (Disposition.DUPLICATE, Disposition.CONFLICTING, Disposition.DEAD_LETTERED)


@dataclass(frozen=True)
class Build:
    """Which program this is: its version, that of its classifier, and the digest of the decision table."""

    version: str
    classifier_version: str
    table_digest: str


class _Registry(CollectorRegistry):
    """Leaves out when each series was made, which the library exports beside every counter, and nobody asks for."""

    def collect(self) -> Iterator[Metric]:
        for metric in super().collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


class Metrics:
    """An observer that counts. Safe in any thread; ``topics`` are those that are read."""

    def __init__(self, health: Health, clock: Clock, build: Build, topics: tuple[str, ...]) -> None:
        self._clock = clock
        self.registry = _Registry()
        self._count_messages()
        self._count_trouble(topics)
        self._say_when(build)
        self.registry.register(_Standings(health))
        ProcessCollector(registry=self.registry)

    def _count_messages(self) -> None:
        self._messages = self._counter("messages", "Messages that were dealt with", "record_type", "disposition")
        for labels in _fates():
            self._messages.labels(*labels)
        self._exits = self._counter("exits", "Events that were classified, repeated ones too", "kind")
        for kind in KINDS:
            self._exits.labels(kind)
        self._dead_letters = self._counter("dead_letters", "Messages that became dead letters", "reason_code")
        for code in ErrorCode:
            self._dead_letters.labels(code.value)
        self._batch_seconds = Histogram(
            "offramp_batch_seconds", "Time from the first stage of a batch to its last, outages included",
            registry=self.registry, buckets=_BATCH_SECONDS,
        )  # fmt: skip

    def _count_trouble(self, topics: tuple[str, ...]) -> None:
        self._waits = self._counter("outage_waits", "Tries of a batch that failed by an outage", "kind")
        for kind in OUTAGES:
            self._waits.labels(kind)
        self._uncommitted = self._counter("commits_failed", "Commits to the broker that failed; nothing relies on one")
        self._expired = self._counter(
            "expired_messages", "Messages that the broker deleted before they were read", "topic"
        )
        for topic in topics:
            self._expired.labels(topic)
        self._unsent = self._counter("unsent", "Messages that were too large for their topic; the store has them")

    def _say_when(self, build: Build) -> None:
        self._newest = self._gauge(
            "newest_event_timestamp_seconds", "When the newest event occurred, or was read, if it is later"
        )
        self._newest.set(_NOTHING_YET)
        age = self._gauge("newest_event_age_seconds", "Time since then")
        age.set_function(self._newest_age)
        self._unaccounted = self._gauge("unaccounted", "What the last audit could not account for")
        self._unaccounted.set(_NOTHING_YET)
        self._audited = self._gauge("audit_timestamp_seconds", "When the last audit ended")
        self._audited.set(_NOTHING_YET)
        labels = ("version", "classifier_version", "table_digest")
        info = Gauge("offramp_build_info", "Which program this is", labels, registry=self.registry)
        info.labels(build.version, build.classifier_version, build.table_digest).set(1)
        self._newest_at = EARLIEST

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(f"offramp_{name}", meaning, labels, registry=self.registry)

    def _gauge(self, name: str, meaning: str) -> Gauge:
        return Gauge(f"offramp_{name}", meaning, registry=self.registry)

    def _newest_age(self) -> float:
        if self._newest_at == EARLIEST:
            return _NOTHING_YET
        return (self._clock.now_micros() - self._newest_at) / _MICROS

    def page(self) -> Page:
        """Everything as Prometheus text."""
        return Page(200, METRICS_TYPE, generate_latest(self.registry))

    def audited(self, unaccounted: int) -> None:
        """An audit ended."""
        self._unaccounted.set(unaccounted)
        self._audited.set(self._clock.now_micros() / _MICROS)

    # --- told by the worker

    def assigned(self, starts: Mapping[TopicPartition, int]) -> None:
        """Health knows what is ours."""

    def released(self, partitions: Partitions, *, lost: bool) -> None:
        """Health knows what is ours."""

    def expired(self, partition: TopicPartition, first: int, end: int) -> None:
        """Count what nobody will read any more."""
        self._expired.labels(partition.topic).inc(end - first)

    def stored(self, report: Report, batch: Sequence[Fetched], seconds: float) -> None:  # noqa: ARG002 -- the observer's protocol
        """Count a batch."""
        self._batch_seconds.observe(seconds)
        for (kind, fate), count in report.fates.items():
            self._messages.labels(kind or NO_RECORD, fate.value).inc(count)
        for (kind, code), count in report.tally.items():
            if kind in KINDS:
                self._exits.labels(kind).inc(count)
            elif kind == "error":
                self._dead_letters.labels(code).inc(count)
        self._dead_letters.labels(ErrorCode.STORE_REFUSED.value).inc(report.refused)
        # One event of a clock that is years ahead would make every later event old news.
        self._see(min(report.newest_at, self._clock.now_micros()))

    def _see(self, newest_at: int) -> None:
        if newest_at > self._newest_at:
            self._newest_at = newest_at
            self._newest.set(newest_at / _MICROS)

    def idle(self) -> None:
        """Nothing is counted."""

    def waits(self, error: Exception, attempt: int) -> None:
        """Count a try that failed; the 0th is that of a commit."""
        if attempt == 0:
            self._uncommitted.inc()
            return
        kind = next(kind for kind, cause in OUTAGES.items() if isinstance(error, cause))
        self._waits.labels(kind).inc()

    def not_sent(self, message: Outgoing, error: BrokerRejected) -> None:  # noqa: ARG002 -- the observer's protocol
        """Count what was too large."""
        self._unsent.inc()


def _fates() -> Iterator[tuple[str, str]]:
    """Record types with what can become of them."""
    for kind in (TERMINAL_EVENT, *COMPANIONS):
        kept = Disposition.CLASSIFIED if kind == TERMINAL_EVENT else Disposition.STORED
        yield from ((kind, fate.value) for fate in (kept, *_OF_RECORDS))
    yield from ((NO_RECORD, fate.value) for fate in (Disposition.DEAD_LETTERED, Disposition.FILTERED))


@dataclass(frozen=True, eq=False)  # known to the registry by identity
class _Standings(Collector):
    """Position and lag of what is ours, as it is when it is asked for."""

    health: Health

    def collect(self) -> Iterator[Metric]:
        labels = ("topic", "partition")
        position = GaugeMetricFamily(
            "offramp_position", "Next offset to read; everything before is stored", labels=labels
        )
        lag = GaugeMetricFamily(
            "offramp_lag_messages", "Offsets up to the end of the log that are not stored", labels=labels
        )
        for name, standing in self.health.standings().items():
            values = (name.topic, str(name.partition))
            position.add_metric(values, standing.position)
            if standing.lag is not None:
                lag.add_metric(values, standing.lag)
        live = GaugeMetricFamily("offramp_live", "Whether the worker makes progress or waits out an outage")
        live.add_metric((), self.health.live().ok)
        waiting = GaugeMetricFamily("offramp_waiting", "Whether the worker waits out an outage")
        waiting.add_metric((), bool(self.health.outage()))
        return iter((position, lag, live, waiting))
