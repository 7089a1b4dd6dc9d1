"""The rule file for Prometheus: current, read by Prometheus, and it fires when the evaluator says so."""

import subprocess
from dataclasses import replace

import pytest
import yaml

from alerts.rules import default_text, load
from offramp import prometheus_rules
from offramp.prometheus_rules import rules_text, silence_text
from tests.alerts.rule import REFUSALS
from tests.monitors import program

RULES = load(default_text()).rules


def promtool(folder, *words):
    return subprocess.run([program("promtool"), *words], cwd=folder, check=False, capture_output=True, encoding="utf-8")


def test_the_files_are_what_the_rules_generate():
    assert prometheus_rules.RULES.read_text("utf-8") == rules_text(RULES), "run make docs"
    assert prometheus_rules.SILENCE.read_text("utf-8") == silence_text(), "run make docs"


def test_prometheus_reads_it():
    for place, number in ((prometheus_rules.RULES, len(RULES)), (prometheus_rules.SILENCE, 1)):
        done = promtool(place.parent, "check", "rules", place.name)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"{number} rules found" in done.stdout


def test_text_of_any_kind_stays_text(tmp_path):
    odd = replace(REFUSALS, summary="{{ $labels.x }} 100% 'über'", labels=(("team", "a: b"),))
    (tmp_path / "rules.yml").write_text(rules_text([odd]))
    assert promtool(tmp_path, "check", "rules", "rules.yml").returncode == 0
    (rule,) = yaml.safe_load((tmp_path / "rules.yml").read_text())["groups"][0]["rules"]
    assert rule["labels"] == {"team": "a: b", "severity": "page", "owner": "policy"}


def series(rule, values):
    labels = f'rule="{rule.id}",severity="{rule.severity}",owner="{rule.owner}"'
    return {"series": f"offramp_alerts_firing{{{labels}}}", "values": values}


def alerts(rule, value=None, minute="3m"):
    expected = {
        "exp_labels": {"severity": rule.severity.value, "owner": rule.owner, **dict(rule.labels)},
        "exp_annotations": {"summary": rule.summary, "runbook": rule.runbook, "value": f"{value} scopes"},
    }
    return {"eval_time": minute, "alertname": rule.id, "exp_alerts": [expected] if value else []}


def test_each_rule_fires_and_resolves_with_the_evaluator(tmp_path):
    tests = [
        {
            "interval": "1m",
            "input_series": [*(series(other, "0x20") for other in RULES if other != rule),
                             series(rule, "0 0 0 2 2 2 0 0 0")],
            "alert_rule_test": [
                alerts(rule, minute="2m"), alerts(rule, 2, "3m"), alerts(rule, minute="6m"),
                *(alerts(other) for other in RULES if other != rule),
            ],
        }
        for rule in RULES
    ]  # fmt: skip
    check(tmp_path, rules_text(RULES), tests)


@pytest.mark.parametrize("values", ["0+60x2 120x40", "0+60x2 _x40"], ids=["it stands still", "it is gone"])
def test_a_silent_evaluator_is_noticed(tmp_path, values):
    expected = {
        "exp_labels": {"severity": "page", "owner": "pipeline"},
        "exp_annotations": {
            "summary": "Nobody evaluates alerts: no other alert will come, and none will be resolved.",
            "runbook": "docs/runbooks/store_unknown.md",
        },
    }
    name = "alerts_not_evaluated"
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": "offramp_alerts_evaluated_timestamp_seconds", "values": values}],
            "alert_rule_test": [
                {"eval_time": "4m", "alertname": name, "exp_alerts": []},
                {"eval_time": "20m", "alertname": name, "exp_alerts": [expected]},
            ],
        }
    ]
    check(tmp_path, silence_text(), tests)


def check(folder, rules, tests):
    """Let promtool run tests of the file."""
    (folder / "rules.yml").write_text(rules)
    (folder / "tests.yml").write_text(yaml.safe_dump({"rule_files": ["rules.yml"], "tests": tests}))
    done = promtool(folder, "test", "rules", "tests.yml")
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
