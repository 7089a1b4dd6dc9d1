"""Names, zeros, labels and numbers of the worker's metrics, read as Prometheus reads them."""

from collections import Counter

import pytest
from prometheus_client.parser import text_string_to_metric_families

from schemas.errors import ErrorCode
from schemas.exits import KINDS
from sinks.errors import StoreUnavailable
from sinks.rows import Disposition
from streams.classify import OUTAGES
from streams.clock import FixedClock
from streams.health import Health
from streams.ingest import Report
from streams.kafka.errors import BrokerRejected, BrokerUnavailable, Rejection
from streams.kafka.seam import Outgoing, TopicPartition
from streams.metrics import OUTAGES as KINDS_OF_OUTAGES
from streams.metrics import Build, Metrics
from streams.registry import RegistryUnavailable

P = TopicPartition("events", 0)
NOW = 1_800_000_000_000_000


@pytest.fixture
def clock():
    return FixedClock(NOW)


@pytest.fixture
def health(clock):
    return Health(clock, 60, 30)


@pytest.fixture
def metrics(health, clock):
    return Metrics(health, clock, Build("1.2", "3.4", "digest"), ("events", "enrichments"))


def samples(metrics):
    """Every sample as (name, labels) to value."""
    page = metrics.page()
    assert page.status == 200
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page.body.decode())
        for sample in family.samples
    }


def value(metrics, name, **labels):
    return samples(metrics)[f"offramp_{name}", tuple(sorted(labels.items()))]


def by_label(metrics, name, label):
    return {
        dict(labels)[label]: number
        for (found, labels), number in samples(metrics).items()
        if found == f"offramp_{name}"
    }


def test_whatever_can_be_counted_is_there_from_the_start_as_zero(metrics):
    endings = ("_total", "_count", "_bucket")
    ours = {name: number for (name, _), number in samples(metrics).items() if name.startswith("offramp_")}
    assert {number for name, number in ours.items() if name.endswith(endings)} == {0}
    assert by_label(metrics, "exits_total", "kind").keys() == set(KINDS)
    assert by_label(metrics, "dead_letters_total", "reason_code").keys() == {code.value for code in ErrorCode}
    assert by_label(metrics, "outage_waits_total", "kind").keys() == {"store", "broker", "registry"}
    assert by_label(metrics, "expired_messages_total", "topic").keys() == {"events", "enrichments"}
    assert value(metrics, "messages_total", record_type="none", disposition="filtered") == 0
    assert value(metrics, "build_info", version="1.2", classifier_version="3.4", table_digest="digest") == 1


def test_every_name_says_its_unit_and_no_series_is_there_for_nothing(metrics):
    names = {name for name, _ in samples(metrics) if not name.startswith("process_")}
    assert all(name.startswith("offramp_") for name in names)
    assert not [name for name in names if name.endswith("_created")]


def test_what_is_not_known_yet_is_neither_zero_nor_an_age(metrics):
    for name in (
        "newest_event_timestamp_seconds",
        "newest_event_age_seconds",
        "unaccounted",
        "audit_timestamp_seconds",
    ):
        number = value(metrics, name)
        assert number != number  # noqa: PLR0124 -- NaN alone differs from itself


def test_a_batch_is_counted(metrics, clock):
    report = Report(
        read=9,
        tally=Counter({("completed", "x"): 3, ("partial", "y"): 2, ("error", "bad_json"): 2, ("enrichment", ""): 1}),
        fates=Counter({
            ("terminal_event", Disposition.CLASSIFIED): 4, ("terminal_event", Disposition.DEAD_LETTERED): 1,
            ("", Disposition.DEAD_LETTERED): 2, ("", Disposition.FILTERED): 1, ("enrichment", Disposition.STORED): 1,
        }),
        newest_at=NOW - 7_000_000,
    )  # fmt: skip
    metrics.stored(report, [], 0.3)
    metrics.stored(Report(), [], 700)
    assert value(metrics, "messages_total", record_type="terminal_event", disposition="classified") == 4
    assert value(metrics, "messages_total", record_type="none", disposition="dead_lettered") == 2
    assert value(metrics, "messages_total", record_type="none", disposition="filtered") == 1
    assert value(metrics, "messages_total", record_type="enrichment", disposition="stored") == 1
    assert by_label(metrics, "exits_total", "kind") == {**dict.fromkeys(KINDS, 0), "completed": 3, "partial": 2}
    letters = {code: count for code, count in by_label(metrics, "dead_letters_total", "reason_code").items() if count}
    assert letters == {"bad_json": 2, "store_refused": 1}
    assert value(metrics, "batch_seconds_count") == 2
    assert value(metrics, "batch_seconds_bucket", le="0.5") == 1
    assert value(metrics, "newest_event_timestamp_seconds") == NOW / 1e6 - 7
    clock.advance(3)
    assert value(metrics, "newest_event_age_seconds") == 10


def test_messages_and_reasons_add_up_however_a_batch_went(metrics):
    """The sum over one metric is that over the other."""
    report = Report(
        tally=Counter({("error", code.value): 1 for code in ErrorCode if code is not ErrorCode.STORE_REFUSED}),
        fates=Counter(
            {("", Disposition.DEAD_LETTERED): len(ErrorCode) - 1, ("legacy_exit", Disposition.DEAD_LETTERED): 3}
        ),
    )
    metrics.stored(report, [], 0.1)
    dead = sum(count for (name, labels), count in samples(metrics).items()
               if name == "offramp_messages_total" and ("disposition", "dead_lettered") in labels)  # fmt: skip
    assert dead == sum(by_label(metrics, "dead_letters_total", "reason_code").values()) == len(ErrorCode) + 2


def test_an_older_event_does_not_make_the_newest_older(metrics):
    metrics.stored(Report(newest_at=NOW), [], 0.1)
    metrics.stored(Report(newest_at=NOW - 1_000_000), [], 0.1)
    assert value(metrics, "newest_event_timestamp_seconds") == NOW / 1e6


def test_an_event_of_a_clock_that_is_years_ahead_hides_no_silence(metrics, clock):
    metrics.stored(Report(newest_at=NOW + 120 * 365 * 86_400_000_000), [], 0.1)
    assert value(metrics, "newest_event_age_seconds") == 0
    clock.advance(600)
    assert value(metrics, "newest_event_age_seconds") == 600


def test_every_outage_that_the_worker_waits_for_has_a_kind():
    assert set(KINDS_OF_OUTAGES.values()) == set(OUTAGES)


def test_outages_are_counted_by_what_was_out_of_reach(metrics):
    for error in (StoreUnavailable("x"), RegistryUnavailable("x"), BrokerUnavailable("x"), BrokerUnavailable("y")):
        metrics.waits(error, 1)
    metrics.waits(BrokerUnavailable("a commit"), 0)
    assert by_label(metrics, "outage_waits_total", "kind") == {"store": 1, "registry": 1, "broker": 2}
    assert value(metrics, "commits_failed_total") == 1


def test_what_is_gone_is_counted(metrics):
    metrics.expired(P, 5, 12)
    metrics.not_sent(Outgoing("exits", b"k", b"v"), BrokerRejected(Rejection.TOO_LARGE, "large"))
    assert value(metrics, "expired_messages_total", topic="events") == 7
    assert value(metrics, "unsent_total") == 1


def test_position_and_lag_are_those_of_what_is_ours(metrics, health):
    health.assigned({P: 5})
    assert value(metrics, "position", topic="events", partition="0") == 5
    assert by_label(metrics, "lag_messages", "partition") == {}
    health.ends({P: 9})
    assert value(metrics, "lag_messages", topic="events", partition="0") == 4
    health.released(frozenset({P}), lost=False)
    assert by_label(metrics, "position", "partition") == {}


def test_an_outage_is_shown_while_it_lasts(metrics, health):
    health.waits(StoreUnavailable("x"), 1)
    assert (value(metrics, "live"), value(metrics, "waiting")) == (1, 1)
    health.idle()
    assert value(metrics, "waiting") == 0


def test_an_audit_is_shown(metrics):
    metrics.audited(3)
    assert value(metrics, "unaccounted") == 3
    assert value(metrics, "audit_timestamp_seconds") == NOW / 1e6
