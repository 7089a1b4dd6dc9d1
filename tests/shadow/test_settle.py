"""Settling by the engine against a naive reference, over random histories, orders of arrival and cuts into batches."""

import tempfile
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shadow.mapping import default_text, load
from shadow.settle import Reach, settle
from sinks.errors import StoreForbidden
from sinks.store import open_store
from tests.shadow.histories import (
    activate,
    activations,
    batches,
    compared,
    empty,
    expected,
    histories,
    later,
    write,
)
from tests.streams.lifecycle.samples import DIGESTS, MINUTE, NOW, drawn

DEFAULT = load(default_text())
OTHER = load('id = "other"\nversion = "1"\n[[rules]]\nlabel = "ok"\nkind = "error"\n')
A, B = DIGESTS


def no_wait(seconds):
    raise AssertionError("nothing holds the store")


@pytest.fixture(scope="module")
def opened():
    with (
        tempfile.TemporaryDirectory() as folder,
        open_store(Path(folder) / "new", holder="test", lock_timeout_s=0, now=lambda: NOW, wait=no_wait) as store,
    ):
        store.migrate()
        yield store


@pytest.fixture
def store(opened):
    empty(opened)
    return opened


def an_exit(kind="human_queue", event="e", run="r", digest=A, **more):
    return {
        "tenant": "acme", "event_id": event, "run_id": run, "segment": None, "agent_id": "agent",
        "agent_version": None, "workflow": None, "occurred_at": NOW, "trace_id": None, "version": 1, "kind": kind,
        "reason_code": "some_reason", "rule_id": "some_rule", "verified": False, "prohibited": [], "obligations": [],
        "evidence_gaps": [], "findings": [], "facts": [],
        "table": {"id": "default", "version": "1", "digest": digest}, "classifier_version": "0.1.0",
        "evidence_digest": "sha256:e", "content_digest": "sha256:c", "envelope": None, **more,
    }  # fmt: skip


def a_legacy_exit(record="l", **fields):
    blank = dict.fromkeys(
        ["event_id", "run_id", "segment", "dispatcher", "dispatcher_version", "label", "http_status", "error_class",
         "retries", "queue", "user_visible", "decided_at"]
    )  # fmt: skip
    named = {"type": "legacy_exit", "version": 1, "tenant": "acme", "record_id": record, "extensions": {}}
    return blank | named | fields


def rows(store, columns="*"):
    return store.select(f"SELECT {columns} FROM v_comparison ORDER BY tenant, run_id, missing_event_id")  # noqa: S608


# --- random histories


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(history=histories(), tables=st.tuples(activations, activations), data=st.data())
def test_rows_are_those_of_the_reference_after_any_arrival(opened, history, tables, data):
    first, then = tables
    empty(opened)
    parts = [(later(number), part) for number, part in enumerate(batches(data, history))]
    activate(opened, first)
    with patch("sinks.comparisons.SLICE_RUNS", data.draw(st.sampled_from([2, 250_000]))):
        for at, part in parts:
            write(opened, part, at)
            settle(opened, DEFAULT, at)
        activate(opened, then)
        settle(opened, DEFAULT, later(9))
    activated = first | {digest: max(at, first.get(digest, 0)) for digest, at in then.items()}
    wanted = expected(parts, activated, DEFAULT)
    assert compared(opened, wanted) == wanted


def test_one_settling_at_the_end_gives_what_many_give(store):
    (history,) = drawn(histories(most_runs=20), 4)[-1:]
    write(store, history, later(0))
    settle(store, DEFAULT, later(1))
    at_once = rows(store, "* EXCEPT settled_at")
    empty(store)
    for record in reversed(history):
        write(store, [record], later(0))
    settle(store, DEFAULT, later(0))
    assert rows(store, "* EXCEPT settled_at") == at_once
    assert at_once


# --- what becomes of one run


def test_a_legacy_exit_waits_for_its_event_and_then_is_no_row_of_its_own(store):
    write(store, [a_legacy_exit(event_id="e", label="ok", decided_at=NOW + 7)], later(0))
    settle(store, DEFAULT, later(0))
    (row,) = rows(store)
    assert (row["pairing"], row["verdict"], row["run_id"], row["missing_event_id"]) == (
        "event_missing",
        "unpaired",
        "",
        "e",
    )
    assert (row["occurred_at"], row["moment"], row["legacy_kind"]) == (None, NOW + 7, "completed")
    write(store, [an_exit("completed")], later(1))
    settle(store, DEFAULT, later(1))
    (row,) = rows(store)
    assert (row["pairing"], row["verdict"], row["run_id"], row["missing_event_id"]) == ("paired", "agree", "r", "")


def test_a_run_stands_at_its_latest_segment(store):
    early = [an_exit("partial", "e0", segment=0), a_legacy_exit("l0", event_id="e0", label="partial")]
    write(store, [*early, an_exit("completed", "e1", segment=1)], later(0))
    settle(store, DEFAULT, later(0))
    (row,) = rows(store)
    assert (row["event_id"], row["segment"], row["superseded"], row["pairing"]) == ("e1", 1, 1, "legacy_missing")
    write(store, [a_legacy_exit("l2", run_id="r", segment=2, label="ok")], later(1))
    settle(store, DEFAULT, later(1))
    (row,) = rows(store)
    assert (row["event_id"], row["segment"], row["superseded"], row["pairing"]) == ("", 2, 2, "event_missing")


def test_of_several_legacy_exits_the_one_decided_last_is_shown_and_the_run_is_contested(store):
    first = a_legacy_exit("z", event_id="e", label="ok", decided_at=NOW)
    last = a_legacy_exit("a", event_id="e", label="denied", decided_at=NOW + 1)
    undated = a_legacy_exit("zz", event_id="e", label="partial")
    write(store, [last, an_exit("completed"), first, undated], later(0))
    settle(store, DEFAULT, later(0))
    (row,) = rows(store)
    assert (row["legacy_label"], row["legacy_records"], row["legacy_contested"]) == ("denied", 3, True)
    assert (row["disagreement"], row["owner"]) == ("over_refusal", "policy")


def test_words_that_no_rule_maps_are_a_class_of_their_own(store):
    write(store, [an_exit("refusal"), a_legacy_exit(event_id="e", label="what?", retries=3)], later(0))
    settle(store, DEFAULT, later(0))
    (row,) = rows(store)
    assert (row["legacy_kind"], row["verdict"], row["disagreement"], row["harm"]) == ("unmapped", "unmapped", "", "")


def test_tenants_are_kept_apart(store):
    theirs = an_exit("completed") | {"tenant": "o'brien"}
    write(store, [theirs, a_legacy_exit(event_id="e", label="ok")], later(0))
    settle(store, DEFAULT, later(0))
    assert [(row["tenant"], row["pairing"]) for row in rows(store)] == [
        ("acme", "event_missing"), ("o'brien", "legacy_missing"),
    ]  # fmt: skip


# --- when it is done


def test_an_empty_store_is_settled_and_has_no_row(store):
    assert settle(store, DEFAULT, NOW) == (0, True)
    assert settle(store, DEFAULT, NOW) == (0, False)
    assert rows(store) == []


def test_what_was_not_touched_is_left_alone(store):
    write(store, [an_exit("completed", "e1", "r1"), an_exit("completed", "e2", "r2")], later(0))
    assert settle(store, DEFAULT, later(0) + MINUTE) == (2, True)
    write(store, [a_legacy_exit(event_id="e2", label="ok")], later(1))
    assert settle(store, DEFAULT, later(1) + MINUTE) == (1, False)
    assert [row["settled_at"] for row in rows(store)] == [later(0) + MINUTE, later(1) + MINUTE]
    assert settle(store, DEFAULT, later(2)) == (0, False)


def test_another_mapping_settles_every_run_anew_and_leaves_nothing_behind(store):
    write(store, [an_exit("completed"), a_legacy_exit(event_id="e", label="ok")], later(0))
    settle(store, DEFAULT, later(0))
    assert settle(store, OTHER, later(0)) == (1, True)
    (row,) = rows(store)
    assert (row["legacy_kind"], row["mapping_digest"], row["disagreement"]) == ("error", OTHER.digest, "success_lost")
    assert store.select("SELECT count() AS n FROM comparisons") == [{"n": 1}]
    assert settle(store, DEFAULT, later(0)) == (1, True)
    assert rows(store)[0]["legacy_kind"] == "completed"


def test_a_table_that_becomes_current_changes_the_row_although_nothing_new_was_stored(store):
    write(store, [an_exit("completed", digest=A), an_exit("refusal", digest=B)], later(0))
    activate(store, {A: NOW + 2, B: NOW + 1})
    settle(store, DEFAULT, later(0))
    assert rows(store)[0]["kind"] == "completed"
    activate(store, {B: NOW + 3})
    assert settle(store, DEFAULT, later(5)) == (1, True)
    assert rows(store)[0]["kind"] == "refusal"


def test_a_settling_that_was_ended_is_done_again(store):
    write(store, [an_exit("completed", f"e{n}", f"r{n}") for n in range(20)], later(0))

    def end(done, of):
        raise KeyboardInterrupt

    with patch("sinks.comparisons.SLICE_RUNS", 5), pytest.raises(KeyboardInterrupt):
        settle(store, DEFAULT, later(0), end)
    told = []
    with patch("sinks.comparisons.SLICE_RUNS", 5):
        assert settle(store, DEFAULT, later(0), lambda *progress: told.append(progress)) == (20, True)
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert len(rows(store)) == 20


def test_a_clock_that_goes_back_hides_nothing(store):
    write(store, [an_exit("completed")], later(3))
    settle(store, DEFAULT, later(3))
    write(store, [a_legacy_exit(event_id="e", label="ok")], later(1))
    assert settle(store, DEFAULT, later(1)) == (1, False)
    (row,) = rows(store)
    assert (row["pairing"], row["settled_at"]) == ("paired", later(3) + 1)


def test_what_was_stamped_long_before_it_was_stored_is_settled_when_all_is(store):
    begun, day = later(1) + MINUTE, 86_400_000_000
    write(store, [an_exit("completed")], later(1))
    settle(store, DEFAULT, begun)
    write(store, [a_legacy_exit(event_id="e", label="ok")], later(0))
    assert settle(store, DEFAULT, begun + day - 1, reach=Reach(0, day)) == (0, False)
    assert settle(store, DEFAULT, begun + day, reach=Reach(0, day)) == (1, True)
    assert rows(store)[0]["pairing"] == "paired"
    assert settle(store, DEFAULT, begun + 2 * day - 1, reach=Reach(0, day)) == (0, False)


def test_a_settling_looks_back_as_far_as_it_is_told_to(store):
    write(store, [an_exit("completed", "e1", "r1"), an_exit("completed", "e2", "r2")], later(1))
    settle(store, DEFAULT, later(1) + MINUTE)
    write(store, [a_legacy_exit("l1", event_id="e1", label="ok")], later(1) + MINUTE - 2)
    write(store, [a_legacy_exit("l2", event_id="e2", label="ok")], later(1) + MINUTE - 1)
    assert settle(store, DEFAULT, later(2), reach=Reach(1)) == (1, False)
    assert [row["pairing"] for row in rows(store)] == ["legacy_missing", "paired"]


def test_a_user_who_may_not_delete_rows_settles_all_the_same(store):
    write(store, [an_exit("completed"), a_legacy_exit(event_id="e", label="ok")], later(0))
    settle(store, DEFAULT, later(0))
    with patch.object(store, "alter", side_effect=StoreForbidden("not granted")):
        settle(store, OTHER, later(0))
    assert [row["legacy_kind"] for row in rows(store)] == ["error"]


# --- views over it


def test_views_count_by_hand(store):
    write(store, [
        an_exit("refusal", "e1", "r1", prohibited=["refusal"]), a_legacy_exit("l1", event_id="e1", label="denied"),
        an_exit("refusal", "e2", "r2", evidence_gaps=["x"]), a_legacy_exit("l2", event_id="e2", label="ok"),
        an_exit("refusal", "e3", "r3", occurred_at=NOW + 3_600_000_000),
        a_legacy_exit("l4", event_id="gone", label="ok"),
        an_exit("completed", "e5", "r5"), a_legacy_exit("l5", event_id="e5", label="what?"),
    ], later(0))  # fmt: skip
    settle(store, DEFAULT, later(0))
    assert store.select("SELECT * FROM v_readiness") == [{
        "stage": "refusal", "reason_code": "some_reason", "runs": 3, "paired": 2, "agree": 1, "disagree": 1,
        "unmapped": 0, "supports": 0, "contradicts": 0, "silent": 3, "prohibited_exits": 1, "gaps": 1,
    }]  # fmt: skip
    assert [(row["kind"], row["silent"]) for row in store.select("SELECT * FROM v_recovery")] == [
        ("completed", 1), ("refusal", 3),
    ]  # fmt: skip
    assert [(r["run_id"], r["disagreement"]) for r in store.select("SELECT * FROM v_disagreements")] == [
        ("r2", "denial_hidden")
    ]
    coverage = store.select(
        "SELECT agent_id, hour, runs, events, paired, legacy_missing, event_missing, unmapped, gaps FROM v_coverage"
    )
    hour = 3_600_000_000
    assert [tuple(row.values()) for row in coverage] == [
        ("", NOW + 16 * hour, 1, 0, 0, 0, 1, 0, 0),
        ("agent", NOW + hour, 1, 1, 0, 1, 0, 0, 0),
        ("agent", NOW, 3, 3, 3, 0, 0, 1, 1),
    ]
