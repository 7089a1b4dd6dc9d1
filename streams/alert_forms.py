"""How an alert is said: as Alertmanager knows it, and as the topic ``exit-alerts`` and the webhook have it.

The labels are a closed set: whom and what the alert is about. What moves while it stands is told beside them.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from alerts.model import Alert, Rule, Scope
from schemas.types import to_iso
from sinks.alertmanager import Posted

_CONTRIBUTORS = 5
_encode = msgspec.json.Encoder().encode


class Occurrence(NamedTuple):
    """One time that an alert fires: whoever is told of it twice was told of the same."""

    rule: str
    scope: Scope
    fired_at: int

    @property
    def id(self) -> str:
        """The same for every evaluator, in letters and digits."""
        return sha256("\0".join((self.rule, *self.scope, str(self.fired_at))).encode()).hexdigest()[:32]


def occurrence(alert: Alert) -> Occurrence:
    """Which occurrence an alert is that fires, or fired. Raises ValueError for one that is pending."""
    if alert.fired_at is None:
        raise ValueError(f"{alert.rule} is {alert.state}, and has not fired")
    return Occurrence(alert.rule, alert.scope, alert.fired_at)


def posted(alert: Alert, rule: Rule | None, ends_at: int) -> Posted:
    """The alert as Alertmanager knows it, until ``ends_at`` or, if it is resolved, until then.

    ``rule`` is None where the rules have it no longer.
    """
    return Posted(
        labels={
            **dict(rule.labels if rule else ()),
            "alertname": alert.rule,
            "severity": alert.severity,
            "owner": alert.owner,
            **alert.scope._asdict(),
        },
        annotations=_annotations(alert),
        starts_at=occurrence(alert).fired_at,
        ends_at=ends_at if alert.resolved_at is None else alert.resolved_at,
    )


def _annotations(alert: Alert) -> Mapping[str, str]:
    top = alert.contributors[:_CONTRIBUTORS]
    return {
        "summary": alert.summary,
        "cause": alert.cause,
        "contributors": "; ".join(f"{name} {size:+.4g}" for name, size in top),
        "value": f"{alert.value:.6g}",
        "threshold": f"{alert.threshold:.6g}",
        "since": to_iso(alert.since),
        "runbook": alert.runbook,
    }


def message(alert: Alert, now: int) -> dict[str, Any]:
    """The alert in the JSON form of the record ``exit-alert``, as said at ``now``."""
    return {
        "id": occurrence(alert).id,
        "rule": alert.rule,
        "state": alert.state,
        **alert.scope._asdict(),
        "severity": alert.severity,
        "owner": alert.owner,
        "since": to_iso(alert.since),
        "fired_at": to_iso(occurrence(alert).fired_at),
        "resolved_at": None if alert.resolved_at is None else to_iso(alert.resolved_at),
        "at": to_iso(now),
        "value": alert.value,
        "threshold": alert.threshold,
        "summary": alert.summary,
        "cause": alert.cause,
        "contributors": [{"name": name, "size": size} for name, size in alert.contributors],
        "runbook": alert.runbook,
    }


def key_of(alert: Alert) -> bytes:
    """The message key on the topic: the identity of the alert, whenever it fires."""
    return "/".join((alert.rule, *alert.scope)).encode()


def encoded(alert: Alert, now: int) -> bytes:
    """The message for the topic."""
    return _encode(message(alert, now))
