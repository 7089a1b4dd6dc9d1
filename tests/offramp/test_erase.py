"""What ``offramp erase`` takes away for good, and what it leaves as it was."""

import copy
import json
import shutil

import pytest

from classifier.table import default_text
from schemas.exits import ENVELOPES
from sinks.erasure import without_words
from tests.offramp.kit import TABLES, ask, companion, counts, events, new_directory, run, unaccounted
from tests.offramp.kit import write_lines as lines

PLANTED, SPARED, ACTOR = "planted-7f3a91c4", "spared-5b2e88d0", "jane.planted-e1c9"
RUN = "run-to-erase-81d2"
BARE = next(each for each in events() if each["event_id"] == "case-001-flip")


def event(number, run_id, actor=None, words=PLANTED, **fields):
    made = copy.deepcopy(BARE)
    request = {"goal": words, "actor": actor, "prose": words}
    return made | {"event_id": f"e-{number}", "run_id": run_id, "request": request, "trace_id": words, **fields}


def approved_by(actor):
    approval = {"state": "granted", "approver": actor}
    return [{"decision_id": "d", "policy_id": "p", "effect": "allow", "source": "approver", "approval": approval}]


RECORDS = [
    event(1, RUN, "somebody"),
    event(2, "run-of-jane", ACTOR),
    event(3, "run-of-others", "somebody", SPARED),
    event(4, "run-approved-by-jane", "somebody", SPARED, policy_decisions=approved_by(ACTOR)),
    event(1, RUN, "somebody") | {"workflow": PLANTED},
    companion("recovery_action", 1, event_id="e-1", reason=PLANTED, actor=PLANTED, vendor={"note": PLANTED}),
    companion("review_event", 2, event_id=None, run_id=RUN, reason=PLANTED, event="decided", decision="complete"),
    companion("review_event", 3, event_id="e-3", reviewer=ACTOR, reason=PLANTED),
    companion("legacy_exit", 4, event_id="e-2", vendor=PLANTED),
    companion("enrichment", 5, event_id="e-3", vendor=SPARED),
    json.dumps({"type": "terminal_event", "version": 1, "tenant": "acme", "run_id": RUN, "goal": PLANTED}),
    f'{{"tenant": "acme", "actor": "{ACTOR}", "goal": "{PLANTED}"',
    f'{{"tenant": "other", "run_id": "{RUN}", "goal": "{SPARED}"',
    f'{{"tenant": "acme", "run_id": "{RUN}-longer", "goal": "{SPARED}"',
]


def uncompressed(store):
    """Make tables whose files show what they hold."""
    assert run(store, entry="tests.offramp.damage.main").status == 0
    sql = """
        SELECT c.table AS t, c.name AS n, c.type AS k FROM system.columns AS c
        INNER JOIN system.tables AS t ON t.name = c.table AND t.database = c.database
        WHERE c.database = currentDatabase() AND t.engine LIKE '%MergeTree' AND c.type LIKE '%String%'
            AND NOT c.is_in_sorting_key AND c.default_kind = ''
    """
    changes = [f"ALTER TABLE {c['t']} MODIFY COLUMN {c['n']} {c['k']} CODEC(NONE)" for c in ask(store, sql)]
    assert len(changes) > 50
    assert run(store, *changes, entry="tests.offramp.damage.main").status == 0


@pytest.fixture(scope="module")
def made():
    directory = new_directory()
    uncompressed(directory / "store")
    run("load", lines(directory / "companions", RECORDS[5:10]), "--store", directory / "store")
    run("classify", lines(directory / "events", RECORDS[:5] + RECORDS[10:]), "--store", directory / "store")
    assert counts(directory / "store") | {"active_tables": 0} == dict.fromkeys(TABLES, 0) | {
        "terminal_events": 4, "exit_classifications": 4, "ingest_ledger": 14, "dead_letters": 4,
        "conflicting_events": 1, "legacy_exits": 1, "recovery_actions": 1, "review_events": 2, "enrichments": 1,
    }  # fmt: skip
    return directory


@pytest.fixture
def store(made, tmp_path):
    shutil.copytree(made / "store", tmp_path / "store", symlinks=True)
    return tmp_path / "store"


def files_with(store, word):
    return [path for path in store.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]


def erase(store, *argv, status=0):
    done = run("erase", *argv, "--store", store, "--format", "json")
    assert done.status == status, done.err
    return json.loads(done.out) if done.out else done.err


def everything(store):
    erase(store, "--run", "acme", RUN)
    return erase(store, "--actor", "acme", ACTOR)


def test_the_evidence_of_a_run_and_of_an_actor_is_in_no_file_any_more(store):
    assert files_with(store, PLANTED)
    of_run = erase(store, "--run", "acme", RUN)
    assert of_run["erased"] == {
        "legacy_exit": 0, "recovery_action": 1, "review_event": 1, "enrichment": 0, "conflict": 1, "dead_letter": 1,
        "terminal_event": 1,
    }  # fmt: skip
    assert files_with(store, PLANTED)
    of_actor = erase(store, "--actor", "acme", ACTOR)
    assert of_actor["erased"] == {
        "legacy_exit": 1, "recovery_action": 0, "review_event": 1, "enrichment": 0, "conflict": 0, "dead_letter": 1,
        "terminal_event": 1,
    }  # fmt: skip
    assert files_with(store, PLANTED) == []
    assert files_with(store, SPARED)
    assert of_actor["approvals_elsewhere"] == 1
    (approved,) = ask(store, "SELECT event FROM terminal_events WHERE event_id = 'e-4'")
    assert approved["event"].count(ACTOR) == 1


KEPT = (
    "SELECT * EXCEPT (envelope, classified_at) FROM exit_classifications FINAL ORDER BY event_id",
    "SELECT * FROM v_exits ORDER BY event_id",
    "SELECT * EXCEPT (event, trace_id) FROM terminal_events FINAL ORDER BY event_id",
    "SELECT * FROM ingest_ledger FINAL ORDER BY source, partition, offset",
    "SELECT * EXCEPT (text) FROM conflicting_events FINAL ORDER BY event_id",
    "SELECT * EXCEPT (reviewer, reason, extensions) FROM review_events FINAL ORDER BY record_id",
    "SELECT reason_code, field_path, message, count() AS n FROM dead_letters FINAL GROUP BY ALL ORDER BY ALL",
)


def test_rows_digests_exits_and_the_ledger_stay_and_the_audit_closes(store):
    before = [ask(store, sql) for sql in KEPT]
    everything(store)
    assert [ask(store, sql) for sql in KEPT] == before
    assert unaccounted(store) == 0
    assert counts(store, raw=True) == counts(store)


def test_what_is_delivered_again_brings_nothing_back(store, made, tmp_path):
    everything(store)
    run("classify", made / "events", "--store", store)
    run("load", made / "companions", "--store", store)
    grown = lines(tmp_path / "grown", [*RECORDS[:4], *RECORDS[5:10], events()[1]])
    run("classify", grown, "--store", store)
    assert files_with(store, PLANTED) == []
    assert unaccounted(store) == 0


def test_what_has_expired_since_brings_nothing_back_either(store, tmp_path):
    everything(store)
    expired = ("terminal_events", "exit_classifications", "recovery_actions", "review_events", "legacy_exits")
    deleted = [f"ALTER TABLE {table} DELETE WHERE true SETTINGS mutations_sync = 2" for table in expired]
    assert run(store, *deleted, entry="tests.offramp.damage.main").status == 0
    assert counts(store)["terminal_events"] == 0
    run("classify", lines(tmp_path / "grown", [*RECORDS[:4], *RECORDS[5:10], events()[1]]), "--store", store)
    assert counts(store)["terminal_events"] == 5
    assert files_with(store, PLANTED) == []
    assert files_with(store, SPARED)
    assert unaccounted(store) == 0


def test_other_content_under_an_erased_identity_is_erased_by_the_next_run(store, tmp_path):
    everything(store)
    changed = event(1, RUN) | {"workflow": f"{PLANTED}-again"}
    run("classify", lines(tmp_path / "more", [changed]), "--store", store)
    assert files_with(store, f"{PLANTED}-again")
    erase(store, "--run", "acme", RUN)
    assert files_with(store, f"{PLANTED}-again") == []


def test_a_run_that_was_ended_is_completed_by_the_next_whatever_it_is_about(store):
    noted = "INSERT INTO erasures SELECT '1', 'terminal_event', tenant, event_id, now64(6) FROM terminal_events"
    run(store, f"{noted} WHERE run_id = '{RUN}'", entry="tests.offramp.damage.main")
    erase(store, "--actor", "acme", ACTOR)
    rows = ask(store, "SELECT event_id FROM terminal_events FINAL WHERE event LIKE '%erased%' ORDER BY event_id")
    assert rows == [{"event_id": "e-1"}, {"event_id": "e-2"}]


def test_a_dry_run_changes_nothing(store):
    before = {path: path.read_bytes() for path in files_with(store, PLANTED)}
    assert erase(store, "--run", "acme", RUN, "--dry-run")["erased"]["terminal_event"] == 1
    assert {path: path.read_bytes() for path in files_with(store, PLANTED)} == before
    assert ask(store, "SELECT * FROM v_erasures") == []


def test_what_is_not_stored_is_said(store):
    assert "nothing is stored of run no-such-run of tenant acme" in erase(
        store, "--run", "acme", "no-such-run", status=1
    )
    assert "nothing is stored of actor" in erase(store, "--actor", "other", ACTOR, status=1)
    assert "either --run TENANT RUN_ID or --actor" in erase(store, status=2)
    both = ("--run", "a", "b", "--actor", "a", "b")
    assert "either --run TENANT RUN_ID or --actor" in erase(store, *both, status=2)


@pytest.mark.parametrize("asked", [("--actor", "acme", ""), ("--run", "acme", ""), ("--run", "", RUN)])
def test_an_empty_name_is_refused_and_not_taken_for_whatever_has_none(store, asked):
    done = run("erase", *asked, "--store", store)
    assert (done.status, done.text) == (2, "")
    assert "a name is empty" in done.err
    assert ask(store, "SELECT * FROM v_erasures") == []


def test_erasing_twice_finds_nothing_left(store):
    erase(store, "--run", "acme", RUN)
    again = erase(store, "--run", "acme", RUN)
    assert (sum(again["erased"].values()), again["changed"]) == (0, [])
    assert again["records"]["terminal_event"] == 1


def test_who_reads_erased_evidence_is_told(store):
    everything(store)
    rebuilt = run("rebuild", "--store", store, "--format", "json")
    assert (rebuilt.status, json.loads(rebuilt.out)["erased"]) == (0, 2)
    assert json.loads(rebuilt.out)["read"] == 4
    explained = run("explain", "e-1", "--store", store)
    assert (explained.status, "was erased on request" in explained.err) == (1, True)
    states = {line["state"] for line in run("dlq", "list", "--store", store, "--format", "ndjson").lines}
    assert states == {"erased", "dead"}
    assert [row["request"]["actor"] for row in ask(store, "SELECT request FROM v_events WHERE event_id = 'e-1'")] == [
        None
    ]


def test_the_summary_fits_a_person(store):
    done = run("erase", "--run", "acme", RUN, "--store", store)
    assert f"run {RUN} of tenant acme: 5 erased" in done.text


def some_runs(store):
    """Runs of every kind of envelope, two of each, since erasing takes its time."""
    rows = ask(store, "SELECT tenant, run_id FROM v_classifications ORDER BY run_id LIMIT 2 BY kind")
    return sorted({(row["tenant"], row["run_id"]) for row in rows})


def test_every_kind_of_envelope_keeps_its_shape_and_loses_its_words(tmp_path):
    run("classify", lines(tmp_path / "all", events()), "--store", tmp_path / "store")
    kinds = set()
    before = ask(tmp_path / "store", "SELECT event_id, envelope FROM v_classifications WHERE envelope IS NOT NULL")
    for tenant, run_id in some_runs(tmp_path / "store"):
        erase(tmp_path / "store", "--run", tenant, run_id)
    erased = {row["event_id"] for row in ask(tmp_path / "store", "SELECT record_id AS event_id FROM erasures")}
    sql = "SELECT event_id, envelope FROM v_classifications WHERE envelope IS NOT NULL"
    after = {row["event_id"]: json.loads(row["envelope"]) for row in ask(tmp_path / "store", sql)}
    for row in before:
        was, now = json.loads(row["envelope"]), after[row["event_id"]]
        if row["event_id"] not in erased:
            assert now == was
            continue
        ENVELOPES[now["kind"]].model_validate(now)
        kinds.add(now["kind"])
        assert now.get("explanation", "[erased]") == "[erased]"
        assert now["side_effects"] == []
        assert {name for name in now if now[name] != was[name]} <= {"explanation", "side_effects"}
        assert set(was) - set(now) <= {"result_ref", "idempotency_key"}
        assert json.loads(without_words(row["envelope"].encode())) == now
    assert kinds == set(ENVELOPES)


def test_what_is_delivered_again_and_decided_by_another_table_brings_no_words_back(tmp_path):
    store = tmp_path / "store"
    run("classify", lines(tmp_path / "all", events()), "--store", store)
    for tenant, run_id in some_runs(store):
        erase(store, "--run", tenant, run_id)
    sql = """
        SELECT event_id, envelope, kind FROM v_classifications
        WHERE (tenant, event_id) IN (SELECT tenant, record_id FROM erasures) ORDER BY event_id
    """
    before = ask(store, sql)
    table = tmp_path / "other.toml"
    table.write_text(default_text().replace('version = "', 'version = "other-', 1))
    run("classify", lines(tmp_path / "again", [*events(), events()[0]]), "--store", store, "--table", table)
    after = ask(store, sql)
    assert [(row["event_id"], row["kind"]) for row in after] == [(row["event_id"], row["kind"]) for row in before]
    assert [json.loads(row["envelope"] or "0") for row in after] == [
        json.loads(row["envelope"] or "0") for row in before
    ]
    assert len({row["table_digest"] for row in ask(store, "SELECT table_digest FROM v_classifications")}) == 1
    assert unaccounted(store) == 0
