"""What causes are computed from, read from rows that are written by hand."""

import json

import pytest

from schemas.companions import COMPANIONS
from sinks.alert_causes import DAY, EXPLAINED, AlertCausesReader, Asked
from sinks.rows import (
    COMPANION_TABLES,
    FLAT,
    ClassificationRow,
    CompanionRow,
    ObligationQueueRow,
    Position,
    TableRow,
    encode_classifications,
    encode_companions,
    encode_events,
    encode_obligation_queues,
    encode_tables,
)
from tests.sinks.samples import event, event_row

HOUR, MINUTE = 3_600_000_000, 60_000_000
UNTIL = 1_764_489_600_000_000
SINCE = UNTIL - HOUR
TENANT = "über'\\s"
DIGESTS = ("sha256:old", "sha256:new")
WRITTEN = (
    "terminal_events", "exit_classifications", "active_tables", "obligation_queues", *COMPANION_TABLES.values(),
)  # fmt: skip


@pytest.fixture
def causes(store):
    for table in WRITTEN:
        store.execute(store._layout.altered(table).replace("ALTER", "TRUNCATE", 1))
    tables = [TableRow(digest, "0.1.0", "default", str(at), "", at) for at, digest in enumerate(DIGESTS, start=1)]
    store.insert("active_tables", encode_tables(tables))
    yield AlertCausesReader(store)
    for table in WRITTEN:
        store.execute(store._layout.altered(table).replace("ALTER", "TRUNCATE", 1))


def asked(**fields):
    return Asked(SINCE, UNTIL, **({"tenant": TENANT} | fields))


class Writer:
    """Writes one exit after another, each a run of its own unless said otherwise."""

    def __init__(self, store):
        self.store, self.number = store, 0

    def exit(self, at, kind="completed", reason="done", envelope=None, **fields):
        self.number += 1
        evidence, digest = fields.pop("evidence", {}), fields.pop("digest", DIGESTS[1])
        record = event(f"e{self.number}", tenant=TENANT, occurred_at=at, **evidence)
        verdict = {
            "tenant": TENANT, "run_id": f"run-{self.number}", "agent_id": "a", "agent_version": "3", "workflow": "pay",
            "event_id": record["event_id"], "kind": kind, "reason_code": reason, "rule_id": reason, "verified": True,
            "prohibited": [], "obligations": [], "evidence_gaps": [], "findings": [], "facts": [], "segment": None,
            "table": {"id": "default", "version": digest[-3:], "digest": digest}, "classifier_version": "0.1.0",
            "evidence_digest": "sha256:e", "content_digest": "sha256:c", "occurred_at": at,
            "envelope": None if envelope is None else {"kind": kind, "reason_code": reason} | envelope,
        } | fields  # fmt: skip
        row = ClassificationRow(verdict, tuple(map(verdict.get, FLAT)), 0, None, at)
        # Twice, as a batch that was cut off and sent again.
        for _ in range(2):
            self.store.insert("exit_classifications", encode_classifications([row]))
            self.store.insert("terminal_events", encode_events([event_row(record)]))
        return verdict["event_id"]

    def note(self, kind, at, **fields):
        self.number += 1
        given = {"type": kind, "version": 1, "record_id": f"n{self.number}", "tenant": TENANT, "at": at, **fields}
        record = COMPANIONS[kind].model_validate(given).model_dump()
        stored = [CompanionRow(record, "sha256:c", Position("file", "p", 0), UNTIL)]
        self.store.insert(COMPANION_TABLES[kind], encode_companions(kind, stored))


@pytest.fixture
def writer(causes):
    return Writer(causes.store)


def decision(version, effect):
    return {"policy_decisions": [{"policy_id": "refund#ceiling", "policy_version": version, "effect": effect}]}


def found(rows):
    """Rows by what is asked for here: (current, versions, labels, carrier) to n."""
    return {
        (bool(row["is_current"]), json.dumps(row["versions"]), json.dumps(row["labels"]), row["carrier"]): row["n"]
        for row in rows
    }


def test_refusals_name_their_policy_or_else_their_reason(causes, writer):
    yesterday = SINCE - DAY
    writer.exit(yesterday, evidence=decision("7", "allow"))
    writer.exit(UNTIL - 1, evidence=decision("8", "allow"))
    for at in (SINCE, UNTIL - 1):
        writer.exit(at, "refusal", "denied", envelope={"policy_id": "refund#ceiling"}, evidence=decision("8", "deny"))
    writer.exit(SINCE, "refusal", "content_filter", envelope={"policy_id": None})
    assert found(causes.exits("refusal", asked())) == {
        (False, '[["refund#ceiling", "7"]]', "[]", ""): 1,
        (True, '[["refund#ceiling", "8"]]', "[]", ""): 1,
        (True, '[["refund#ceiling", "8"]]', '[["policy", "refund#ceiling"]]', ""): 2,
        (True, "[]", '[["reason", "content_filter"]]', ""): 1,
    }


def test_the_window_is_compared_with_the_same_hours_of_seven_days(causes, writer):
    for at in (SINCE, UNTIL - 1, SINCE - DAY, UNTIL - DAY - 1, SINCE - 7 * DAY):
        writer.exit(at)
    for at in (UNTIL, SINCE - 1, UNTIL - DAY, SINCE - 7 * DAY - 1, UNTIL - 8 * DAY):
        writer.exit(at)
    assert {bool(row["is_current"]): row["n"] for row in causes.exits("refusal", asked())} == {True: 2, False: 3}


def test_without_the_same_hours_it_is_compared_with_all_of_them(causes, writer):
    writer.exit(SINCE)
    assert [row["n"] for row in causes.exits("refusal", asked())] == [1]
    writer.exit(SINCE - 2 * HOUR)
    rows = causes.exits("refusal", asked())
    assert {bool(row["is_current"]): row["n"] for row in rows} == {True: 1, False: 1}
    assert causes.flow(asked()).before_us == 2 * HOUR


def test_only_the_scope_and_the_current_classification_count(causes, writer):
    given = writer.exit(SINCE, "refusal", digest=DIGESTS[0], envelope={"policy_id": "p"})
    writer.number -= 1
    assert writer.exit(SINCE, "completed", digest=DIGESTS[1]) == given
    writer.exit(SINCE, workflow="other")
    (row,) = causes.exits("refusal", asked(workflow="pay", agent_id="a"))
    assert (row["labels"], row["table"], row["classifier"], row["n"]) == ([], "default new", "0.1.0", 1)
    assert (row["tenant"], row["workflow"], row["agent_version"]) == (TENANT, "pay", "3")
    assert causes.exits("refusal", asked(tenant="acme")) == []
    assert causes.exits("refusal", Asked(SINCE, UNTIL)) != []


def call(tool, outcome, operation=None):
    return {"call_id": tool, "tool": tool, "outcome": outcome, "operation_id": operation}


@pytest.mark.parametrize(
    ("evidence", "paths"),
    [
        ({"tool_calls": [call("tax", "timeout"), call("erp", "ok")]}, ["tax: timeout"]),
        ({"tool_calls": [call("tax", "timeout", "o"), call("tax", "ok", "o"), call("erp", "error")]}, ["erp: error"]),
        ({"tool_calls": [call("b", "error"), call("a", "circuit_open"), call("b", "error")]},
         ["a: circuit_open", "b: error"]),
        ({"model": {"provider": "acme", "stop_class": "refused"}}, ["model acme: refused"]),
        ({"tool_calls": [call("tax", "denied")]}, [""]),
        ({}, [""]),
    ],
)  # fmt: skip
def test_fallbacks_name_the_path_that_failed_and_what_stood_in(causes, writer, evidence, paths):
    envelope = {"fallback_id": "tax-cache", "fallback_version": "4"}
    writer.exit(SINCE, "fallback", "timeout", evidence=evidence, envelope=envelope, findings=["silent_fallback"])
    writer.exit(SINCE)
    for series in ("fallback", "silent_fallback"):
        (case,) = [row for row in causes.exits(series, asked()) if row["labels"]]
        assert case["labels"] == [["primary path", path] for path in paths]
        assert case["carrier"] == "tax-cache@4"


def partial(*names):
    return {"omitted": [{"component": name, "reason_code": None, "retryable": True} for name in names]}


def test_every_series_has_its_cases(causes, writer):
    writer.exit(SINCE, "partial", "omitted", envelope=partial("tax", None), findings=["odd"])
    writer.exit(SINCE, "completed", "unverified", verified=False, evidence_gaps=["a", "b"], facts=["empty_response"])
    writer.exit(SINCE, "human_queue", "fenced", facts=["fence_violation", "unapproved_effect"])
    labels = {series: [row["labels"] for row in causes.exits(series, asked()) if row["labels"]] for series in EXPLAINED}
    assert labels == {
        "partial": [[["component", "tax"], ["component", ""]]],
        "completed": [[["reason", "unverified"]]],
        "unverified": [[["reason", "unverified"]]],
        "empty_response": [[["reason", "unverified"]]],
        "gaps": [[["missing evidence", "a"], ["missing evidence", "b"]]],
        "human_queue": [[["reason", "fenced"]]],
        "fence_violation": [[["reason", "fenced"]]],
        "unapproved_effect": [[["reason", "fenced"]]],
        "refusal": [],
        "fallback": [],
        "silent_fallback": [],
    }
    with pytest.raises(KeyError):
        causes.exits("lag", asked())


def test_waits_end_with_the_enrichment_or_the_next_segment(causes, writer):
    first = writer.exit(SINCE, "partial", "omitted", envelope=partial("tax", "weather", "tax"), segment=0)
    run = f"run-{writer.number}"
    writer.exit(SINCE + 9 * MINUTE, segment=1, run_id=run)
    old = writer.exit(SINCE - 7 * DAY, "partial", "omitted", envelope=partial(None))
    writer.exit(SINCE - 7 * DAY - 1, "partial", "omitted", envelope=partial("older"))
    writer.note("enrichment", SINCE + 5 * MINUTE, event_id=first, component="tax", state="completed")
    writer.note("enrichment", SINCE + 4 * MINUTE, run_id=run, component="tax", state="completed")
    writer.note("enrichment", SINCE + 3 * MINUTE, event_id=first, component="weather", state="failed")
    writer.note("enrichment", SINCE + 3 * MINUTE, run_id=run, segment=1, component="weather", state="completed")
    writer.note("enrichment", None, event_id=old, state="completed")
    rows = {(row["event_id"], row["component"]): row for row in causes.waits(asked())}
    assert {key: (row["opened_at"], row["closed_at"], row["failures"], row["superseded_at"])
            for key, row in rows.items()} == {
        (first, "tax"): (SINCE, SINCE + 4 * MINUTE, 0, SINCE + 9 * MINUTE),
        (first, "weather"): (SINCE, None, 1, SINCE + 9 * MINUTE),
        (old, ""): (SINCE - 7 * DAY, SINCE - 7 * DAY, 0, None),
    }  # fmt: skip


def test_what_goes_through_a_queue(causes, writer):
    terms = [ObligationQueueRow(DIGESTS[1], "effects", "ops", HOUR, UNTIL)]
    causes.store.insert("obligation_queues", encode_obligation_queues(terms))
    waiting = {"queue": "judgement", "owner": "o", "review_packet_id": "r", "allowed_decisions": [], "deadline": UNTIL}
    duty = [{"action": "reconcile", "operation_id": None}]
    days_ago = writer.exit(SINCE - 2 * DAY, "human_queue", "low", envelope=waiting)
    writer.exit(SINCE + 1, "human_queue", "low", envelope=waiting)
    writer.exit(SINCE + 1, "human_queue", "low", envelope=waiting | {"queue": "other"})
    owing = writer.exit(SINCE + 2, "completed", "done", obligations=duty)
    writer.exit(SINCE + 3)
    # Decided twice counts once; what is undated, or another's, not at all.
    writer.note("review_event", SINCE + 4, event_id=days_ago, event="decided")
    writer.note("recovery_action", SINCE + 5, event_id=days_ago, action="approved")
    writer.note("recovery_action", SINCE + 5, run_id=f"run-{writer.number - 4}", action="retried")
    writer.note("review_event", None, event_id=days_ago, event="decided")
    writer.note("review_event", SINCE - DAY, run_id="run-2", event="decided")
    writer.note("recovery_action", SINCE + 6, event_id=owing, action="compensated")
    judged = causes.flow(asked(queue="judgement"))
    assert [(bool(row["is_current"]), row["reason_code"], row["workflow"], row["n"]) for row in judged.arrivals] == [
        (False, "low", "pay", 1), (True, "low", "pay", 1),
    ]  # fmt: skip
    assert (judged.decisions_before, judged.decisions_now, judged.runs_before, judged.runs_now) == (1, 1, 1, 4)
    assert judged.before_us == 2 * HOUR
    owed = causes.flow(asked(queue="effects"))
    assert [(row["reason_code"], row["n"]) for row in owed.arrivals] == [("done", 1)]
    assert (owed.decisions_before, owed.decisions_now) == (0, 1)


def test_an_empty_store_has_no_causes(causes):
    assert causes.exits("fallback", asked()) == []
    assert causes.waits(asked()) == []
    nothing = causes.flow(asked())
    assert (nothing.arrivals, nothing.runs_now, nothing.before_us) == ([], 0, 0)
