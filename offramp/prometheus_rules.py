"""Rule files for Prometheus: ``python -m offramp.prometheus_rules`` writes them.

There is one evaluator, so Prometheus judges nothing anew: it is told by ``/metrics`` for how many scopes each rule
fires. One file alerts on that, for those who let Prometheus alone tell Alertmanager; which scope it is, and why, is
told by the alerts that the evaluator sends itself. The other is for everybody: it notices an evaluator that is silent.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from alerts.model import Rule
from alerts.rules import default_text, load
from streams.alert_metrics import EVALUATED, FIRING

_DEPLOY = Path(__file__).parent.parent / "deploy"
RULES, SILENCE = _DEPLOY / "prometheus-rules.yml", _DEPLOY / "prometheus-silence.yml"
"""Where the files are."""
SILENT_S = 300
"""So long without an evaluation nobody watches."""
_NOTE = "# Written by `make docs` from alerts/default.toml; change that.\n"


def rules_text(rules: Sequence[Rule]) -> str:
    """The file that alerts on what the evaluator says."""
    return _file("offramp", [_rule(rule) for rule in rules])


def silence_text() -> str:
    """The file that alerts on an evaluator that says nothing."""
    return _file("offramp silence", [_silence()])


def _file(name: str, rules: Sequence[dict[str, Any]]) -> str:
    groups = [{"name": name, "rules": rules}]
    return _NOTE + yaml.safe_dump({"groups": groups}, sort_keys=False, allow_unicode=True, width=120)


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "alert": rule.id,
        # The most of all processes: two that evaluate at once see the same.
        "expr": f'max({FIRING}{{rule="{rule.id}"}}) > 0',
        "labels": {**dict(rule.labels), "severity": rule.severity.value, "owner": rule.owner},
        "annotations": {
            # What stands in braces would be taken for a template.
            "summary": rule.summary.replace("{{", '{{ "{{" }}'),
            "value": "{{ $value }} scopes",
            "runbook": rule.runbook,
        },
    }


def _silence() -> dict[str, Any]:
    return {
        "alert": "alerts_not_evaluated",
        "expr": f"absent({EVALUATED}) or time() - max({EVALUATED}) > {SILENT_S}",
        "for": "2m",
        "labels": {"severity": "page", "owner": "pipeline"},
        "annotations": {
            "summary": "Nobody evaluates alerts: no other alert will come, and none will be resolved.",
            "runbook": "docs/runbooks/store_unknown.md",
        },
    }


if __name__ == "__main__":
    RULES.write_text(rules_text(load(default_text()).rules), "utf-8")
    SILENCE.write_text(silence_text(), "utf-8")
