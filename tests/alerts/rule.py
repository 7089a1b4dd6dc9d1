"""Rules and traffic for tests."""

from dataclasses import replace

from alerts.evaluator import Evaluator
from alerts.judging import MINUTE
from alerts.model import Baseline, Condition, Count, OpenItem, Pulse, Rule, Scope, Series, Severity

T0 = 30_000_000
"""The minute at which tests begin."""
AGENT = Scope("acme", "refunds")
QUEUE = Scope("acme", queue="billing")
WELL = Pulse(0, 0, store_refusing=False, clock_skew_us=0)

REFUSALS = Rule(
    id="refusal_rate",
    condition=Condition.SHARE,
    threshold=0.2,
    severity=Severity.PAGE,
    owner="policy",
    runbook="docs/runbooks/refusal_rate.md",
    summary="More runs than usual end in a refusal.",
    series=Series.REFUSAL,
    over=Series.EXITS,
    by=("tenant", "agent_id"),
    window_minutes=5,
    confidence=0.999,
    minimum=8,
)
SURGES = replace(
    REFUSALS, condition=Condition.SURGE, confidence=0.0, minimum=0, chance_days=7, window_runs=20,
    window_limit_minutes=720, baseline=Baseline(10080, 2.0, 200),
)  # fmt: skip
FENCES = replace(
    REFUSALS, id="fence_violation", condition=Condition.COUNT, threshold=1, series=Series.FENCE_VIOLATION, minimum=0
)
AGES = replace(
    REFUSALS, id="queue_age", condition=Condition.AGE, threshold=60, series=None, over=None, what="review",
    by=("tenant", "queue"), minimum=0, window_minutes=0,
)  # fmt: skip
DUE = replace(AGES, id="queue_past_deadline", condition=Condition.PAST_DEADLINE, threshold=0.1, minimum=5)
LAG = replace(AGES, id="consumer_lag", condition=Condition.GAUGE, threshold=100, what=None, by=())


def rule(of=REFUSALS, **fields):
    return replace(of, **fields)


def minute(number, exits, refusals=0, scope=AGENT, **series):
    """What is counted in a minute after the beginning."""
    sums = {"exits": exits, "refusal": refusals, **series}
    return [Count(T0 + number, scope, Series(name), n) for name, n in sums.items()]


def review(opened, **fields):
    """An item that was opened so many minutes after the beginning."""
    at = (T0 + opened) * MINUTE
    item = OpenItem("review", QUEUE, "e", "r", at, None, 0, None, overdue=False, reason_code="reason", components=())
    return item._replace(**fields)


class Watch:
    """An evaluator at work: each step is the end of a minute after the beginning."""

    def __init__(self, *rules, since=-1):
        self.evaluator = Evaluator(rules)
        self.state = self.evaluator.begin((T0 + since) * MINUTE)

    def at(self, number, counts=(), items=(), pulse=WELL):
        """The alerts at the end of a minute."""
        step = self.evaluator.step(self.state, counts, items, pulse, (T0 + number + 1) * MINUTE - 1)
        self.state = step.state
        return step.alerts

    def states(self, number, counts=(), items=(), pulse=WELL):
        """Their states."""
        return [alert.state for alert in self.at(number, counts, items, pulse)]

    def restart(self, counts=()):
        """Go on with what was written down, and with what is counted already."""
        self.state = self.evaluator.from_json(self.state.to_json())
        self.evaluator.load(self.state, counts)
