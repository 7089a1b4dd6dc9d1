"""``offramp alerts backtest`` as on-call runs it: a day of refusals that legacy hid."""

import json

import pytest

from tests.offramp.kit import new_directory, run, write_lines

DAY = ("--since", "2026-11-01", "--until", "2026-11-02")
DENIED = {"policy_decisions": [{"decision_id": "d", "policy_id": "refunds", "source": "application", "effect": "deny",
                                "reason_code": "amount_ceiling"}]}  # fmt: skip
DONE = {"completion": {"claimed": True, "result": "satisfied"}}
RULE = """
[[rules]]
id = "{id}"
condition = "share"
series = "refusal"
over = "exits"
by = ["tenant", "agent_id"]
window = {{ minutes = {minutes} }}
threshold = {threshold}
minimum = 8
confidence = 0.999
severity = "page"
owner = "policy"
runbook = "docs/runbooks/refusal_rate.md"
summary = "Many runs end in a refusal."
"""


def event(number):
    denied = 120 <= number < 150
    return {
        "type": "terminal_event", "version": 1, "tenant": "ac'me \\ü", "event_id": f"e-{number}",
        "run_id": f"r-{number}", "agent_id": "refunds",
        "occurred_at": f"2026-11-01T{number // 60:02}:{number % 60:02}:00Z", **(DENIED if denied else DONE),
    }  # fmt: skip


def legacy(number):
    return {"type": "legacy_exit", "version": 1, "tenant": "ac'me \\ü", "record_id": f"l-{number}",
            "event_id": f"e-{number}", "dispatcher": "legacy", "label": "OK", "http_status": 200}  # fmt: skip


@pytest.fixture(scope="module")
def folder():
    directory = new_directory()
    assert run("classify", write_lines(directory / "e.jsonl", [event(n) for n in range(240)]), "--store",
               directory / "store").status == 0  # fmt: skip
    assert run("load", write_lines(directory / "l.jsonl", [legacy(n) for n in range(240)]), "--store",
               directory / "store").status == 0  # fmt: skip
    return directory


def backtest(folder, *options):
    return run("alerts", "backtest", "--store", folder / "store", *options)


def rules(folder, name, *entries):
    path = folder / f"{name}.toml"
    path.write_text(f'id = "{name}"\nversion = "1"\n' + "".join(RULE.format(**entry) for entry in entries), "utf-8")
    return path


def test_it_says_when_rules_would_have_fired(folder):
    done = backtest(folder, *DAY, "--rules", rules(folder, "one", {"id": "refusals", "minutes": 20, "threshold": 0.3}),
                    "--format", "json")  # fmt: skip
    assert (done.status, done.err) == (0, "")
    found = json.loads(done.out)
    (side,) = found["sides"]
    assert (found["since"], found["until"]) == ("2026-11-01T00:00:00.000000Z", "2026-11-02T00:00:00.000000Z")
    assert (side["runs"], side["agents"], side["labels"], side["unjudged"]) == (240, 1, "new", [])
    (firing,) = side["firings"]
    assert firing["scope"] == {"tenant": "ac'me \\ü", "agent_id": "refunds", "workflow": "", "queue": ""}
    # Of twenty runs thirteen are more than 0.3 with this confidence (lower bound 0.326); the thirteenth denial is
    # of 02:12. Of the twenty runs up to 02:43 six are left, which is not more than 0.3.
    assert firing["fired_at"] == "2026-11-01T02:12:59.999999Z"
    assert firing["resolved_at"] == "2026-11-01T02:43:59.999999Z"
    assert (firing["minutes"], firing["peak"], firing["threshold"]) == (31, 1.0, 0.3)
    assert side["by_rule"] == [
        {"rule": "refusals", "severity": "page", "owner": "policy", "fired": 1, "scopes": 1, "minutes": 31,
         "longest": 31, "flaps": 0, "weekly": 7.0, "open": 0}
    ]  # fmt: skip


def test_people_see_the_same(folder):
    text = backtest(folder, *DAY).text
    assert "Rules over 1 day, from 2026-11-01 00:00 to 2026-11-02 00:00 UTC" in text
    assert "under new labels: fired 1 time over 240 runs of 1 agent" in text
    assert "consumer_lag" in text.partition("By rule")[0]
    assert "ac'me \\ü refunds" in text
    assert "never fired: fallback_rate, " in " ".join(text.split())


def test_two_sets_stand_side_by_side(folder):
    one = rules(folder, "before", {"id": "refusals", "minutes": 20, "threshold": 0.3},
                {"id": "gone", "minutes": 20, "threshold": 0.3})  # fmt: skip
    two = rules(folder, "after", {"id": "refusals", "minutes": 60, "threshold": 0.3},
                {"id": "come", "minutes": 20, "threshold": 0.3})  # fmt: skip
    found = json.loads(backtest(folder, *DAY, "--rules", two, "--against", one, "--format", "json").out)
    assert [side["rules"]["id"] for side in found["sides"]] == ["before", "after"]
    change = found["change"]
    assert [each["rule"] for each in change["appear"]] == ["come"]
    assert [each["rule"] for each in change["vanish"]] == ["gone"]
    (moved,) = change["moved"]
    assert (change["kept"], moved["before"]["fired_at"] < moved["after"]["fired_at"]) == (1, True)
    text = backtest(folder, *DAY, "--rules", two, "--against", one, "--limit", "0").text
    assert "By rule: before is before 1 under new labels, after is after 1 under new labels" in text
    assert "and 1 more" in text


def test_a_cutover_shows_the_pages_that_appear(folder):
    done = backtest(folder, *DAY, "--labels", "both", "--format", "json")
    found = json.loads(done.out)
    assert [side["labels"] for side in found["sides"]] == ["legacy", "new"]
    assert [side["runs"] for side in found["sides"]] == [240, 240]
    assert [each["rule"] for each in found["change"]["appear"]] == ["refusal_rate"]
    assert found["change"]["vanish"] == []
    assert "fence_violation" in found["sides"][0]["unjudged"]
    assert "refusal_rate" not in found["sides"][0]["unjudged"]
    head, _, tables = backtest(folder, *DAY, "--labels", "both").text.partition("By rule")
    assert "fence_violation" in head
    rows = [line.split() for line in tables.splitlines() if line.startswith(" refusal_rate ")]
    assert rows[0] == ["refusal_rate", "0", "0", "1", "0", "0", "0", "1", "0"]


def test_under_legacy_labels_alone(folder):
    (side,) = json.loads(backtest(folder, *DAY, "--labels", "legacy", "--format", "json").out)["sides"]
    assert (side["labels"], side["firings"]) == ("legacy", [])


def test_what_cannot_be_asked_is_said(folder, tmp_path):
    bad = tmp_path / "bad.toml"
    bad.write_text("id = 3", "utf-8")
    assert backtest(folder, "--rules", bad).status == 2
    assert backtest(folder, "--rules", tmp_path / "none.toml").status == 2
    both = backtest(folder, "--against", rules(folder, "b", {"id": "b", "minutes": 5, "threshold": 0.3}),
                    "--labels", "both")  # fmt: skip
    assert (both.status, "two comparisons" in both.err) == (2, True)
    empty = backtest(folder, "--since", "2026-10-01", "--until", "2026-10-02")
    assert (empty.status, "the first run ended at 2026-11-01T00:00:00.000000Z" in empty.err) == (3, True)
    assert run("alerts", "backtest", "--store", tmp_path / "nowhere").status == 3
