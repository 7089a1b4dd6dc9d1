"""One span a batch, with its producers as links, and nothing that a hostile header or a dead receiver could stop."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sinks.errors import StoreUnavailable
from sinks.rows import Disposition
from streams.clock import FixedClock, SystemClock
from streams.ingest import Report
from streams.kafka.errors import BrokerUnavailable
from streams.kafka.seam import Fetched, Message, TopicPartition
from streams.tracing import EXPORT_TIMEOUT_S, MOST_LINKS, SPAN, Traces, producer_of, tracing

NOW = 1_800_000_000_000_000
SAMPLED = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def header(number=1, flags="01"):
    return f"00-{number:032x}-{number:016x}-{flags}".encode()


def message(offset, *traceparents):
    return Message("events", 0, offset, None, None, b"{}", tuple(("traceparent", value) for value in traceparents))


def read(*messages):
    return [Fetched(TopicPartition("events", 0), 0, messages, len(messages))]


def exported(deed, ratio=1.0):
    exporter = InMemorySpanExporter()
    with tracing("http://127.0.0.1:1", ratio, "1.2", exporter) as tracer:
        deed(Traces(tracer, FixedClock(NOW)))
    return exporter.get_finished_spans()


def test_a_batch_is_a_span_that_links_to_its_producers():
    def deed(traces):
        batch = read(message(0, header(1)), message(1, header(2)), message(2, header(1)), message(3))
        fates = Counter({("terminal_event", Disposition.CLASSIFIED): 3, ("", Disposition.DEAD_LETTERED): 1})
        traces.stored(Report(read=4, fates=fates), batch, 0.25)
        traces.stored(Report(read=1), read(message(4)), 0.1)

    first, second = exported(deed)
    assert first.name == SPAN
    assert (first.start_time, first.end_time) == (NOW * 1000 - 250_000_000, NOW * 1000)
    assert [link.context.trace_id for link in first.links] == [1, 2]
    assert dict(first.attributes) == {
        "offramp.exit.messages": 4, "offramp.exit.tries": 1,
        "offramp.exit.classified": 3, "offramp.exit.dead_lettered": 1,
    }  # fmt: skip
    assert first.resource.attributes["service.name"] == "offramp-classify"
    assert (first.parent, list(second.links)) == (None, [])


def test_a_batch_that_is_tried_again_has_each_producer_once_and_says_its_tries():
    def deed(traces):
        for attempt in (1, 2):
            traces.waits(StoreUnavailable("x"), attempt)
        traces.waits(BrokerUnavailable("a commit"), 0)
        traces.stored(Report(read=1), read(message(0, SAMPLED)), 9)

    (span,) = exported(deed)
    assert len(span.links) == 1
    assert span.attributes["offramp.exit.tries"] == 3


def test_a_batch_that_was_given_up_leaves_nothing_to_the_next():
    def deed(traces):
        traces.waits(StoreUnavailable("x"), 1)
        traces.idle()
        traces.stored(Report(), read(message(0)), 1)

    (span,) = exported(deed)
    assert (list(span.links), span.attributes["offramp.exit.tries"]) == ([], 1)


def test_links_are_bounded():
    def deed(traces):
        traces.stored(Report(), read(*(message(n, header(n + 1)) for n in range(MOST_LINKS * 2))), 1)

    assert len(exported(deed)[0].links) == MOST_LINKS


def test_what_is_not_sampled_is_not_sent():
    assert exported(lambda traces: traces.stored(Report(), [], 1), ratio=0.0) == ()


def test_a_producer_is_read_from_its_header():
    found = producer_of((("a", None), ("traceparent", SAMPLED)))
    assert (f"{found.trace_id:032x}", f"{found.span_id:016x}") == (SAMPLED[3:35].decode(), SAMPLED[36:52].decode())
    assert found.is_remote


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        header(1, "00"),
        b"ff" + SAMPLED[2:],
        header(0),
        SAMPLED[:-1],
        SAMPLED.upper(),
        SAMPLED + b"\n",
        b"\xff" * 55,
    ],
)
def test_what_is_no_sampled_traceparent_is_no_producer(value):
    assert producer_of((("traceparent", value),)) is None


@given(st.binary(max_size=80))
def test_no_header_stops_a_worker(value):
    producer_of((("traceparent", value),))


def test_a_later_version_of_the_header_is_read_by_its_beginning():
    assert producer_of((("traceparent", b"01" + SAMPLED[2:] + b"-more"),)) is not None


def test_a_receiver_that_is_not_there_holds_up_nobody():
    clock = SystemClock()
    began = clock.monotonic()
    with tracing("http://127.0.0.1:1/v1/traces", 1.0, "1.2") as tracer:
        traces = Traces(tracer, clock)
        for _ in range(10_000):
            traces.stored(Report(), [], 0.1)
        made = clock.monotonic()
        assert made - began < EXPORT_TIMEOUT_S
    assert clock.monotonic() - made < 2 * EXPORT_TIMEOUT_S
