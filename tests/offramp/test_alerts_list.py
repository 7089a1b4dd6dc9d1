"""``offramp alerts list``: what fires, whether anybody knows, and the commands to go on with."""

import json
import shlex

import pytest

from alerts.model import Alert, Scope
from alerts.rules import default_text, load
from offramp.alert_listing import STALE_US, as_json, listing, show
from offramp.commands import Commands
from sinks.alerts import AlertsStore
from sinks.rows import EvaluationRow
from sinks.store import open_store
from streams.alert_inputs import row_of
from tests.offramp.kit import new_directory, run, write_lines

NOW = 1_793_500_000_000_000
MINUTE = 60_000_000
TENANT = "ac'me \\$ü"
RULES = load(default_text())
EVENT = {
    "type": "terminal_event", "version": 1, "tenant": TENANT, "event_id": "-e 1", "run_id": "r", "agent_id": "refunds",
    "occurred_at": NOW - MINUTE, "policy_decisions": [
        {"decision_id": "d", "policy_id": "p", "source": "application", "effect": "deny", "reason_code": "ceiling"}
    ],
}  # fmt: skip
OWED = EVENT | {"event_id": "owed", "run_id": "r2", "occurred_at": NOW - 30 * MINUTE, "policy_decisions": [],
                "takeover": {"state": "QUIESCING"}}  # fmt: skip


def alert(rule="refusal_rate", scope=Scope(TENANT, "refunds"), state="firing", **fields):  # noqa: B008 -- a tuple
    resolved_at = NOW - 2 * MINUTE if state == "resolved" else None
    given = Alert(rule, scope, state, NOW - 90 * MINUTE, NOW - 80 * MINUTE, resolved_at, 0.61234, 0.2, "page", "policy",
                  "docs/runbooks/refusal_rate.md", "policy 7 did it", (("policy 7", 0.4), ("(others)", -0.1)),
                  "More refusals.")  # fmt: skip
    return given._replace(**fields)


def no_wait(seconds):
    raise AssertionError("nothing holds the store")


@pytest.fixture(scope="module")
def directory():
    folder = new_directory()
    done = run("classify", write_lines(folder / "e.jsonl", [EVENT, OWED]), "--store", folder / "store")
    assert done.status == 0, done.err
    return folder


@pytest.fixture
def store(directory):
    with open_store(directory / "store", holder="test", lock_timeout_s=60, now=lambda: NOW, wait=no_wait) as opened:
        yield opened
        for table in ("exit_alerts", "alert_evaluations"):
            opened._engine.command(f"TRUNCATE TABLE {table}")


def listed(store, *alerts, evaluated=NOW - MINUTE):
    stored = AlertsStore(store)
    stored.write_alerts([row_of(each, RULES.digest, NOW) for each in alerts])
    if evaluated is not None:
        stored.write_evaluation(EvaluationRow("lifecycle", "host 1", RULES.digest, evaluated, "{}", evaluated))
    return listing(stored, RULES, Commands(None, None), NOW - 60 * MINUTE, NOW)


def test_what_fires_is_shown_with_its_cause_and_what_to_do(store, capsys):
    found = listed(store, alert(), alert(state="resolved", since=NOW - 200 * MINUTE))
    show(found)
    text = capsys.readouterr().out
    assert "1 alert fires: 1 page, 0 tickets\n  judged 1 minute ago" in text
    assert "fires for 80 minutes" in text
    assert "More refusals. 0.6123 against 0.2" in text
    assert "cause: policy 7 did it" in text
    assert "contributors: policy 7 +0.4; (others) -0.1" in text
    assert "Resolved lately: 1" in text
    assert not found.is_stale


def test_commands_ask_for_what_is_meant(store):
    (each,) = listed(store, alert()).firing
    ask, explain = each.commands
    sql = shlex.split(ask)[-1]
    assert len(store.query(sql).splitlines()) == 1
    assert b'"-e 1"' in store.query(sql)
    assert shlex.split(explain) == ["offramp", "explain", f"--tenant={TENANT}", "--", "-e 1"]


def test_each_kind_of_alert_has_a_command_that_works(store):
    everywhere = [alert(rule=rule.id, scope=Scope()) for rule in RULES.rules]
    found = {each.alert.rule: each.commands for each in listed(store, *everywhere).firing}
    assert set(found) == {rule.id for rule in RULES.rules}
    for commands in found.values():
        words = shlex.split(commands[0])
        assert words[:2] in (["offramp", "query"], ["offramp", "dlq"], ["offramp", "status"])
        if words[1] == "query":
            store.query(words[-1])
    assert "v_open_reviews" in found["queue_age_p95"][0]
    assert shlex.split(found["queue_age_p95"][1])[-1] == "owed"


@pytest.mark.parametrize("evaluated", [None, NOW - STALE_US - 1])
def test_without_a_late_evaluation_nothing_is_health(store, capsys, evaluated):
    found = listed(store, evaluated=evaluated)
    show(found)
    assert found.is_stale
    assert "Nothing fires, as far as is known" in capsys.readouterr().out
    assert as_json(found)["is_stale"] is True


def test_an_alert_of_a_rule_that_is_gone_is_listed_all_the_same(store):
    (each,) = as_json(listed(store, alert(rule="gone")))["alerts"]
    assert (each["rule"], each["commands"], each["scope"]["tenant"]) == ("gone", [], TENANT)


def test_as_a_command(directory):
    done = run("alerts", "list", "--store", directory / "store", "--format", "json")
    assert (done.status, json.loads(done.out)["alerts"]) == (3, [])
    assert run("alerts", "list", "--store", directory / "nowhere").status == 3
