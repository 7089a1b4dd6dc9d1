"""Calibration against sums that are done by hand, and against a naive reading of the same events."""

import tempfile
from math import isclose, pi, sqrt
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shadow.calibration import BINS, FINE, Place, Row, calibration, part_of, read, span
from shadow.calibration import Escalation as Share
from sinks.rows import encode_events
from sinks.store import open_store
from tests.sinks.samples import NOW, event, event_row

ROWS = """
    (
        SELECT tenant, event_id, if(startsWith(event_id, 'queued'), 'human_queue', 'completed') AS kind,
            if(startsWith(event_id, 'lone'), 'event_missing', 'paired') AS pairing
        FROM terminal_events FINAL
        WHERE tenant != {left_out:String}
    )
"""
CONFIDENCES = st.one_of(st.integers(0, 20).map(lambda number: number / 20), st.floats(0, 1))
RESULTS = st.sampled_from(("satisfied", "unsatisfied", "unverifiable", "not_evaluated", None))


def row(confidence, outcome, *, escalated=False, runs=1):
    part = -1 if confidence is None else part_of(confidence)
    return Row(part, outcome, escalated, runs, (confidence or 0.0) * runs)


def test_worked_by_hand():
    found = calibration(
        [
            row(0.95, "right", runs=6), row(0.95, "wrong", runs=4),  # said 0.95, was 0.6: off by 0.35, ten runs
            row(0.3, "right", runs=1), row(0.3, "wrong", runs=4),  # said 0.3, was 0.2: off by 0.1, five runs
            row(0.3, "unknown", runs=7, escalated=True), row(None, "right", runs=2), row(None, "unknown", runs=1),
        ]
    )  # fmt: skip
    assert (found.n, found.without_outcome, found.without_confidence) == (15, 7, 3)
    assert isclose(found.ece, (10 * 0.35 + 5 * 0.1) / 15)
    chance = 10 * sqrt(2 / pi * 0.95 * 0.05 / 10) + 5 * sqrt(2 / pi * 0.3 * 0.7 / 5)
    assert isclose(found.ece_by_chance, chance / 15)
    filled = {each.low: (each.n, each.right) for each in found.bins if each.n}
    assert filled == {0.3: (5, 1), 0.9: (10, 6)}
    assert (found.escalation.escalated, found.escalation.runs) == (7, 25)
    by_threshold = {each.threshold: each for each in found.tradeoff}
    assert list(by_threshold) == [part / 20 for part in range(1, 20)]
    # Below 0.35: the five unsure runs, one of which was right; four wrong ones of the others would not have gone.
    assert by_threshold[0.35][2:] == (5, 1, 4)
    # 0.3 is not below 0.3: nobody would have gone, and all eight wrong runs are missed.
    assert by_threshold[0.3][2:] == (0, 0, 8)
    assert by_threshold[0.95][2:] == (5, 1, 4)


def test_nothing_is_known_of_nothing():
    found = calibration([])
    assert (found.n, found.ece, found.ece_by_chance) == (0, None, None)
    assert len(found.bins) == BINS
    assert {(each.confidence, each.accuracy, each.interval) for each in found.bins} == {(None, None, (0.0, 1.0))}
    assert found.escalation.place is Place.UNCLEAR
    assert {each.escalated_share for each in found.tradeoff} == {(0.0, 1.0)}


@pytest.mark.parametrize(
    ("escalated", "runs", "place"),
    [
        (150, 1_000, Place.WITHIN), (50, 1_000, Place.BELOW), (300, 1_000, Place.ABOVE), (2, 12, Place.UNCLEAR),
        (105, 1_000, Place.UNCLEAR), (195, 1_000, Place.UNCLEAR),
    ],
)  # fmt: skip
def test_the_escalation_rate_against_the_band(escalated, runs, place):
    assert Share(escalated, runs).place is place


def test_every_threshold_is_the_edge_of_its_part():
    assert [part_of(part / FINE) for part in range(FINE + 1)] == [*range(FINE), FINE - 1]


@given(st.lists(st.tuples(CONFIDENCES, st.sampled_from(("right", "wrong")))))
def test_as_counted_run_by_run(runs):
    found = calibration([row(confidence, outcome) for confidence, outcome in runs])
    assert sum(each.n for each in found.bins) == found.n == len(runs)
    for each in found.tradeoff:
        gone = [outcome for confidence, outcome in runs if confidence < each.threshold]
        kept = [outcome for confidence, outcome in runs if confidence >= each.threshold]
        assert (each.n, each.escalated, each.unneeded, each.missed) == (
            len(runs), len(gone), gone.count("right"), kept.count("wrong"),
        )  # fmt: skip
    if runs:
        assert isclose(found.ece, naive_ece(runs), abs_tol=1e-9)
        assert 0 <= found.ece <= 1
        assert found.ece_by_chance >= 0


def naive_ece(runs):
    total = 0.0
    for number in range(BINS):
        within = [(c, o) for c, o in runs if part_of(c) // 2 == number]
        if within:
            mean = sum(c for c, _ in within) / len(within)
            share = sum(o == "right" for _, o in within) / len(within)
            total += len(within) / len(runs) * abs(mean - share)
    return total


# --- read from a store


def no_wait(seconds):
    raise AssertionError("nothing holds the store")


@pytest.fixture(scope="module")
def store():
    with (
        tempfile.TemporaryDirectory() as folder,
        open_store(Path(folder) / "new", holder="test", lock_timeout_s=0, now=lambda: NOW, wait=no_wait) as opened,
    ):
        opened.migrate()
        yield opened


def write(store, records):
    store._engine.command("TRUNCATE TABLE terminal_events")
    if records:
        store.insert("terminal_events", encode_events([event_row(record) for record in records]))


@st.composite
def records(draw):
    ids = st.builds("{}{}'ö".format, st.sampled_from(("queued", "done", "lone")), st.integers(0, 99))
    steps = st.lists(st.fixed_dictionaries({"confidence_after": st.one_of(st.none(), CONFIDENCES)}), max_size=3)
    return [
        event(name, tenant=draw(st.sampled_from(("acme", "other"))), steps=draw(steps),
              completion=None if draw(st.booleans()) else {"result": draw(RESULTS)})
        for name in draw(st.lists(ids, unique=True, max_size=8))
    ]  # fmt: skip


def naive(record):
    """Confidence and outcome, as the module says what they are."""
    steps, completion = record["steps"], record["completion"] or {}
    known = {"satisfied": "right", "unsatisfied": "wrong"}
    return steps[-1]["confidence_after"] if steps else None, known.get(completion.get("result"), "unknown")


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records())
def test_as_read_naively(store, given_records):
    write(store, given_records)
    counted = {}
    for record in given_records:
        if record["tenant"] == "acme" and not record["event_id"].startswith("lone"):
            confidence, outcome = naive(record)
            part = -1 if confidence is None else part_of(confidence)
            key = (part, outcome, record["event_id"].startswith("queued"))
            runs, total = counted.get(key, (0, 0.0))
            counted[key] = (runs + 1, total + (confidence or 0.0))
    found = read(store.select, ROWS, {"left_out": "other"})
    assert {(each.part, each.outcome, bool(each.escalated)): each.runs for each in found} == {
        key: runs for key, (runs, _) in counted.items()
    }
    for each in found:
        assert isclose(each.confidence, counted[each.part, each.outcome, bool(each.escalated)][1], abs_tol=1e-9)
    assert calibration(found).n == sum(runs for (part, outcome, _), (runs, _) in counted.items()
                                       if part >= 0 and outcome != "unknown")  # fmt: skip


@pytest.mark.parametrize("said", [-0.1, 1.5, 1e300, None])
def test_what_is_no_confidence(store, said):
    write(store, [event("done", steps=[{"confidence_after": 0.9}, {"confidence_after": said}])])
    assert read(store.select, ROWS, {"left_out": ""}) == [row(None, "unknown")]


def test_of_a_large_store_a_part_is_read(store):
    write(store, [event(f"done{number}") for number in range(2_000)])
    assert span(store.select) == 2**64 - 1
    [row] = read(store.select, ROWS, {"left_out": ""}, most=500)
    # By the hash of their identity, so about a quarter, the same ones each time.
    assert 400 < row.runs < 600
    assert read(store.select, ROWS, {"left_out": ""}, most=500) == [row]
