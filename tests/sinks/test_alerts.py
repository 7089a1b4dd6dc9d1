"""What alert rules are judged by, held against counting the written rows one by one; and alerts, in and out."""

from collections import Counter
from random import Random

import pytest

from schemas.companions import COMPANIONS
from sinks.alerts import MINUTE, AlertsStore
from sinks.rows import (
    COMPANION_TABLES,
    FLAT,
    AlertRow,
    ClassificationRow,
    CompanionRow,
    EvaluationRow,
    LedgerRow,
    Position,
    TableRow,
    encode_classifications,
    encode_companions,
    encode_ledger,
    encode_tables,
)

START = 29_400_000
"""A minute of 2025 that no other test of the sinks writes to."""
TENANT = "alerts über'\\s"
TABLES = ("sha256:alerts-old", "sha256:alerts-new")
KINDS = ("completed", "refusal", "fallback", "partial", "human_queue")


def at(minute, seconds=0):
    return (START + minute) * MINUTE + seconds * 1_000_000


@pytest.fixture(scope="module", autouse=True)
def _tables(store):
    rows = [TableRow(digest, "0.1.0", "default", str(n), "", n) for n, digest in enumerate(TABLES, 1)]
    store.insert("active_tables", encode_tables(rows))


@pytest.fixture
def alerts(store):
    return AlertsStore(store)


def exit_(event_id, occurred_at, **fields):
    return {
        "tenant": TENANT, "event_id": event_id, "run_id": f"run-{event_id}", "segment": None, "agent_id": "a",
        "agent_version": None, "workflow": None, "occurred_at": occurred_at, "trace_id": None, "version": 1,
        "kind": "completed", "reason_code": "r", "rule_id": "r", "verified": True, "prohibited": [], "obligations": [],
        "evidence_gaps": [], "findings": [], "facts": [], "table": {"id": "d", "version": "1", "digest": TABLES[1]},
        "classifier_version": "0.1.0", "evidence_digest": "sha256:e", "content_digest": "sha256:c", "envelope": None,
        "classified_at": occurred_at + 1,
    } | fields  # fmt: skip


def write(store, exits):
    rows = [ClassificationRow(each, tuple(map(each.get, FLAT)), 0, None, each["classified_at"]) for each in exits]
    # Twice, as a batch that was cut off and sent again.
    for _ in range(2):
        store.insert("exit_classifications", encode_classifications(rows))


def note(store, kind, number, **fields):
    stored_at = fields.pop("ingested_at", at(10_000))
    given = {"type": kind, "version": 1, "record_id": f"alerts-{number}", "tenant": TENANT, **fields}
    record = COMPANIONS[kind].model_validate(given).model_dump()
    row = CompanionRow(record, "sha256:c", Position("file", "p", 0), stored_at)
    store.insert(COMPANION_TABLES[kind], encode_companions(kind, [row]))


def counted(rows, tenant=TENANT):
    """Rows as (minute from the start, agent, workflow, queue, series) to n."""
    found = Counter()
    for row in rows:
        if row["tenant"] == tenant:
            minute, _, agent, workflow, queue = (
                row.pop(n) for n in ("minute", "tenant", "agent_id", "workflow", "queue")
            )
            found.update({(minute - START, agent, workflow, queue, series): n for series, n in row.items() if n})
    return found


def expected(exits):
    """The same by going through the exits one by one."""
    current, found = {}, Counter()
    for each in exits:
        order = (TABLES.index(each["table"]["digest"]), each["classified_at"])
        if each["event_id"] not in current or order > current[each["event_id"]][0]:
            current[each["event_id"]] = order, each
    runs = {}
    for _, each in current.values():
        rank = each["segment"] or 0, each["occurred_at"], each["event_id"]
        if each["run_id"] not in runs or rank > runs[each["run_id"]][0]:
            runs[each["run_id"]] = rank, each
    for _, each in runs.values():
        minute = min(each["occurred_at"], each["classified_at"]) // MINUTE - START
        scope = minute, each["agent_id"], each["workflow"] or "", ""
        found[*scope, "exits"] += 1
        found[*scope, each["kind"]] += 1
        found[*scope, "unverified"] += each["kind"] == "completed" and not each["verified"]
        found[*scope, "silent_fallback"] += "silent_fallback" in each["findings"]
        for fact in ("empty_response", "fence_violation", "unapproved_effect"):
            found[*scope, fact] += fact in each["facts"]
        found[*scope, "gaps"] += bool(each["evidence_gaps"])
    return +found


def verdict(random, digest, stored_from):
    # Some are stamped ahead of the clock of whoever stored them.
    return {
        "kind": random.choice(KINDS), "verified": random.random() < 0.5,
        "evidence_gaps": random.choice([[], [], ["x"]]), "findings": random.choice([[], ["silent_fallback"]]),
        "facts": random.choice([[], ["empty_response"], ["fence_violation", "unapproved_effect"]]),
        "table": {"id": "d", "version": "1", "digest": digest},
        "classified_at": stored_from + random.randrange(60 * MINUTE) + random.choice([0, 4000 * MINUTE]),
    }  # fmt: skip


def history(seed):
    random = Random(seed)
    exits = []
    for number in range(300):
        occurred_at = at(1000 * seed + random.randrange(60), random.randrange(60))
        run = random.choice([f"{seed}-{number}", f"{seed}-{random.randrange(40)}"])
        whose = {
            "run_id": f"run-{run}", "segment": random.choice([None, 0, 1, 2]), "agent_id": random.choice("ab"),
            "workflow": random.choice([None, "", "w"]),
        }  # fmt: skip
        digests = random.choice([TABLES[:1], TABLES[1:], TABLES])
        exits += [
            exit_(f"{seed}/{number}", occurred_at, **whose, **verdict(random, each, at(1000 * seed)))
            for each in digests
        ]
    return exits


OF_EXITS = {"exits", *KINDS, "unverified", "silent_fallback", "empty_response", "fence_violation", "unapproved_effect",
            "gaps"}  # fmt: skip


def of_exits(found):
    return Counter({key: n for key, n in found.items() if key[-1] in OF_EXITS})


@pytest.mark.parametrize("seed", [1, 2])
def test_every_run_counts_once_where_it_stands_at(alerts, store, monkeypatch, seed):
    exits = history(seed)
    write(store, exits)
    right = expected(exits)
    begin = START + 1000 * seed - 10
    # In several slices, as a large store is read.
    monkeypatch.setattr("sinks.alerts.SLICE_EVENTS", 200)
    assert of_exits(counted(alerts.counts(begin, begin + 90))) == right
    minutes = sorted({key[0] for key in right})[::7]
    some = of_exits(counted(alerts.minutes([START + minute for minute in minutes])))
    assert some == Counter({key: n for key, n in right.items() if key[0] in minutes})


def test_minutes_may_be_counted_together_and_spans_have_an_open_end(alerts, store):
    write(store, [exit_(f"hour-{n}", at(minute, 59)) for n, minute in enumerate([3060, 3061, 3119, 3120])])
    begin = START + 3060
    found = Counter(row["minute"] for row in alerts.counts(begin, begin + 60, step=60) if row["tenant"] == TENANT)
    assert found == {begin: 1}
    assert counted(alerts.counts(begin, begin + 60, 60))[3060, "a", "", "", "exits"] == 3


def test_no_minutes_are_no_rows(alerts):
    assert alerts.minutes([]) == []


def test_before_the_epoch_minutes_go_down(alerts, store):
    write(store, [exit_("early", -1, tenant="alerts early", classified_at=5)])
    assert counted(alerts.counts(-5, 5), "alerts early")[-1 - START, "a", "", "", "exits"] == 1


def test_a_late_segment_changes_the_minute_that_its_run_leaves(alerts, store):
    write(store, [exit_("late-1", at(4000), run_id="late"), exit_("calm", at(4002))])
    write(store, [exit_("late-2", at(4007), run_id="late", segment=1, classified_at=at(4100))])
    span = START + 4000, START + 4200
    assert alerts.changed(at(4100), *span) == [START + 4000, START + 4007]
    assert alerts.changed(at(4100) + 1, *span) == []
    assert of_exits(counted(alerts.minutes([START + 4000, START + 4007]))) == {
        (4007, "a", "", "", "exits"): 1, (4007, "a", "", "", "completed"): 1,
    }  # fmt: skip


def test_another_table_that_becomes_current_changes_the_minutes_that_it_decided(alerts, store):
    write(store, [exit_("again", at(4300), table={"id": "d", "version": "1", "digest": "sha256:alerts-third"})])
    span = START + 4300, START + 4400
    assert alerts.changed(at(4390), *span) == []
    third = TableRow("sha256:alerts-third", "0.1.0", "default", "3", "", at(4390))
    store.insert("active_tables", encode_tables([third]))
    assert alerts.changed(at(4390), *span) == [START + 4300]


def test_a_reversal_counts_when_it_was_made(alerts, store):
    write(store, [exit_("reversed", at(5000), kind="partial"), exit_("whole", at(5000))])
    for number, (event_id, moment) in enumerate([("reversed", 5060), ("reversed", 5060), ("whole", 5060)]):
        note(store, "enrichment", f"reversal-{number}", event_id=event_id, reverses_result=True, at=at(moment))
    note(store, "enrichment", "by-run", run_id="run-reversed", reverses_result=True, at=at(5090), ingested_at=at(5080))
    found = counted(alerts.counts(START + 5050, START + 5100))
    assert found == {(5060, "a", "", "", "reversal"): 1, (5080, "a", "", "", "reversal"): 1}
    assert alerts.changed(at(5080), START + 5050, START + 5070) == [START + 5060]


def test_arrivals_and_decisions_are_of_their_queue(alerts, store):
    envelope = {"kind": "human_queue", "queue": "q'", "owner": "o", "deadline": None, "review_packet_id": "rp"}
    write(store, [
        exit_("asked", at(6000), kind="human_queue", envelope=envelope),
        exit_("owed", at(6001), kind="refusal", obligations=[{"action": "reconcile", "operation_id": "op"}]),
        exit_("calm-2", at(6001)),
    ])  # fmt: skip
    note(store, "review_event", "d1", event_id="asked", event="decided", decision="close", at=at(6005))
    note(store, "review_event", "d2", event_id="asked", event="claimed", at=at(6006))
    note(store, "recovery_action", "d3", run_id="run-owed", action="reconciled", at=at(6007))
    note(store, "recovery_action", "d4", event_id="calm-2", action="approved", at=at(6008))
    found = counted(alerts.counts(START + 6000, START + 6010))
    assert {key: n for key, n in found.items() if key[-1].startswith("queue_")} == {
        (6000, "a", "", "q'", "queue_arrivals"): 1, (6001, "a", "", "effects", "queue_arrivals"): 1,
        (6005, "a", "", "q'", "queue_decisions"): 1, (6007, "a", "", "effects", "queue_decisions"): 1,
    }  # fmt: skip


def test_a_message_is_read_when_its_newest_row_was_written(alerts, store):
    def row(offset, minute, disposition="classified"):
        return LedgerRow("file", "alerts", offset, offset + 1, "t", "e", "terminal_event", "c", disposition, at(minute))

    store.insert("ingest_ledger", encode_ledger([row(0, 7000), row(1, 7000), row(2, 7001, "dead_lettered")]))
    store.insert("ingest_ledger", encode_ledger([row(1, 7002)]))
    found = counted(alerts.counts(START + 7000, START + 7010), tenant="")
    assert found == {
        (7000, "", "", "", "read"): 1, (7001, "", "", "", "read"): 1, (7001, "", "", "", "dead_lettered"): 1,
        (7002, "", "", "", "read"): 1,
    }  # fmt: skip
    assert alerts.changed(at(7002), START + 7000, START + 7010) == [START + 7002]


def test_runs_that_ever_had_something_open(alerts, store):
    write(store, [
        exit_("review", at(8000), kind="human_queue"), exit_("owing", at(8001), kind="refusal",
                                                             obligations=[{"action": "x", "operation_id": None}]),
        exit_("plain", at(8001)), exit_("part", at(8005), kind="partial"),
    ])  # fmt: skip
    assert {run for run in alerts.opened_runs(at(8005)) if run[0] == TENANT} >= {
        (TENANT, "run-review"), (TENANT, "run-owing"),
    }  # fmt: skip
    assert not {(TENANT, "run-plain"), (TENANT, "run-part")} & set(alerts.opened_runs(at(8005)))


def alert(**fields):
    given = AlertRow("rule", TENANT, "a", "", "", at(0), "firing", at(1), None, 0.5, 0.2, "page", "o", "docs/r.md",
                     "policy 7", (("policy 7", 0.3), ("others", -0.1)), "More.", "sha256:r", at(1))  # fmt: skip
    return given._replace(**fields)


def test_an_alert_is_one_row_while_its_value_moves(alerts):
    alerts.write_alerts([])
    alerts.write_alerts([alert(), alert(rule="ticket", severity="ticket", since=at(-5)), alert(queue="q")])
    alerts.write_alerts([alert(value=0.7, recorded_at=at(2))])
    moved = alert(value=0.7, recorded_at=at(2))
    assert alerts.alerts(at(5)) == [moved, alert(queue="q"), alert(rule="ticket", severity="ticket", since=at(-5))]
    over = moved._replace(state="resolved", resolved_at=at(4), recorded_at=at(4))
    alerts.write_alerts([over, alert(since=at(9), fired_at=at(9), recorded_at=at(9))])
    assert over not in alerts.alerts(at(5))
    assert [each for each in alerts.alerts(at(4)) if each.rule == "rule"] == [
        alert(queue="q"), alert(since=at(9), fired_at=at(9), recorded_at=at(9)), over,
    ]  # fmt: skip


def test_the_newest_evaluation_stands(alerts):
    first = EvaluationRow("one", "host 1", "sha256:r", at(1), '{"ü": 1}', at(1))
    alerts.write_evaluation(first)
    alerts.write_evaluation(first._replace(holder="host 2", recorded_at=at(2)))
    alerts.write_evaluation(first._replace(evaluator="two", recorded_at=at(3)))
    assert alerts.evaluation("none") is None
    assert alerts.evaluation("one") == first._replace(holder="host 2", recorded_at=at(2))
    assert [each.evaluator for each in alerts.evaluations()] == ["two", "one"]
