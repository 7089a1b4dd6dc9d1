"""What Prometheus is shown of alerts: for each rule how many scopes fire, when that was judged, who was not told.

Labels are rules and their owners, so there are as many series as rules. Which scopes fire is told by the alerts.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from alerts.model import Rule
from streams.alerting import Turn
from streams.lifecycle.pages import gauge

FIRING, EVALUATED = "offramp_alerts_firing", "offramp_alerts_evaluated_timestamp_seconds"
MICROS = 1_000_000


@dataclass(frozen=True)
class Judged:
    """The last turn of an evaluator, and as of when it was, in microseconds."""

    turn: Turn
    at: int


def alert_metrics_text(rules: Sequence[Rule], channels: Iterable[str], judged: Judged | None) -> str:
    """Prometheus text: zeros for what does not fire, and no sample from one that does not evaluate."""
    if judged is None or not judged.turn.leads:
        return _text((), (), (), ())
    firing = Counter(alert.rule for alert in judged.turn.alerts if alert.state == "firing")
    return _text(
        [({"rule": rule.id, "severity": rule.severity.value, "owner": rule.owner}, firing[rule.id]) for rule in rules],
        [({}, judged.at / MICROS)],
        [({"channel": name}, name in judged.turn.undelivered) for name in channels],
        [({}, judged.turn.unjudged)],
    )


_Samples = Sequence[tuple[dict[str, str], float]]


def _text(firing: _Samples, evaluated: _Samples, undelivered: _Samples, unjudged: _Samples) -> str:
    lines = gauge(FIRING, "Scopes for which a rule fires", firing)
    lines += gauge(EVALUATED, "As of when alerts were last evaluated", evaluated)
    lines += gauge("offramp_alerts_undelivered", "Whether a receiver could not be told in the last turn", undelivered)
    lines += gauge("offramp_alerts_unjudged", "Counts of the last turn that came too late to be judged", unjudged)
    return "\n".join(lines) + "\n"
