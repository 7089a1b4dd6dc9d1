"""Traces of the classify worker by OpenTelemetry: one span a batch, ``offramp.exit.batch``, linked to its producers.

A batch has many producers and so no one parent: the ``traceparent`` header of a message (W3C Trace Context), where its
producer sampled it, becomes a link. Spans wait in memory for a thread that sends them; where it cannot, they are
dropped. Nothing of the worker waits for it.
"""

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags, Tracer

from streams.classify import Partitions
from streams.clock import Clock
from streams.ingest import Report
from streams.kafka.errors import BrokerRejected
from streams.kafka.seam import Fetched, Headers, Message, Outgoing, TopicPartition

SPAN = "offramp.exit.batch"
MOST_LINKS = 128
"""Links of one span. Source: OpenTelemetry specification, default of the span link count limit."""
EXPORT_TIMEOUT_S = 5.0
_TRACEPARENT = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")


@contextmanager
def tracing(url: str, ratio: float, version: str, exporter: SpanExporter | None = None) -> Iterator[Tracer]:
    """A tracer while the context lasts, of which ``ratio`` (0 to 1) of all spans are kept and sent to ``url``, an OTLP
    receiver's address over HTTP; ``exporter`` sends them elsewhere."""
    resource = Resource({"service.name": "offramp-classify", "service.version": version})
    provider = TracerProvider(sampler=TraceIdRatioBased(ratio), resource=resource, shutdown_on_exit=False)
    sends = exporter or OTLPSpanExporter(endpoint=url, timeout=EXPORT_TIMEOUT_S)
    provider.add_span_processor(BatchSpanProcessor(sends))
    try:
        yield provider.get_tracer("offramp", version)
    finally:
        # What is left is sent, but a receiver that is not there must not hold up the end of the process.
        last = threading.Thread(target=provider.shutdown, name="last spans", daemon=True)
        last.start()
        last.join(EXPORT_TIMEOUT_S)


def producer_of(headers: Headers) -> SpanContext | None:
    """The span that sent a message, by its header, if its trace is sampled. What is no traceparent is none."""
    for name, value in headers:
        found = _TRACEPARENT.fullmatch(value or b"") if name == "traceparent" else None
        if found and (flags := TraceFlags(int(found[3], 16))).sampled:
            return SpanContext(int(found[1], 16), int(found[2], 16), is_remote=True, trace_flags=flags)
    return None


def producers_of(messages: Iterable[Message]) -> list[SpanContext]:
    """The spans that sent some messages, each once, the first :data:`MOST_LINKS` of them."""
    found = dict[tuple[int, int], SpanContext]()
    for message in messages:
        if message.headers and (producer := producer_of(message.headers)) is not None:
            found[producer.trace_id, producer.span_id] = producer
            if len(found) >= MOST_LINKS:
                break
    return list(found.values())


@dataclass
class Traces:
    """An observer that makes spans."""

    tracer: Tracer
    clock: Clock
    _failed: int = 0
    """Tries so far of the oldest batch under way, which is the next to be stored."""

    def assigned(self, starts: Mapping[TopicPartition, int]) -> None:
        """No span."""

    def released(self, partitions: Partitions, *, lost: bool) -> None:
        """No span."""

    def expired(self, partition: TopicPartition, first: int, end: int) -> None:
        """No span."""

    def stored(self, report: Report, batch: Sequence[Fetched], seconds: float) -> None:
        """The span of the batch that is done."""
        end = self.clock.now_micros() * 1000
        links = [Link(producer) for producer in producers_of(message for part in batch for message in part.messages)]
        span = self.tracer.start_span(
            SPAN, kind=SpanKind.CONSUMER, links=links, start_time=end - int(seconds * 1e9),
            attributes=_attributes(report, self._failed + 1),
        )  # fmt: skip
        span.end(end)
        self._failed = 0

    def idle(self) -> None:
        """What was given up is no batch any more."""
        self._failed = 0

    def waits(self, error: Exception, attempt: int) -> None:  # noqa: ARG002 -- the observer's protocol
        """The oldest batch is tried again; the 0th try is that of a commit, which ends no batch."""
        self._failed = attempt or self._failed

    def not_sent(self, message: Outgoing, error: BrokerRejected) -> None:
        """No span."""


def _attributes(report: Report, tries: int) -> dict[str, int]:
    fates = {f"offramp.exit.{fate.value}": count for fate, count in report.dispositions.items()}
    return {"offramp.exit.messages": report.read, "offramp.exit.tries": tries, **fates}
