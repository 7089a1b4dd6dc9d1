"""Which cause is looked for, in which window, and what an alert is told; the store is played by rows."""

from typing import Any

import pytest

from alerts.model import Alert, Condition, OpenItem, Rule, Scope, Series, Severity
from schemas.types import to_iso
from sinks.alert_causes import DAY, QueueRows
from streams.alert_causes import cause, with_cause

MINUTE, HOUR = 60_000_000, 3_600_000_000
NOW = 1_764_489_600_000_000
SCOPE = Scope("acme", "a", "", "")


class Reader:
    """Answers as the store would, and remembers what it was asked."""

    def __init__(self, exits=(), waits=(), flow=None):
        self.asked: list[Any] = []
        self._exits, self._waits, self._flow = list(exits), list(waits), flow

    def exits(self, series, asked):
        self.asked.append((series, asked))
        return self._exits

    def waits(self, asked):
        self.asked.append(asked)
        return self._waits

    def flow(self, asked):
        self.asked.append(asked)
        return self._flow


def rule(condition, **fields):
    return Rule("r", condition, 0.2, Severity.PAGE, "o", "d", "s", **fields)


def alert(since=NOW, scope=SCOPE):
    return Alert("r", scope, "firing", since, since, None, 0.5, 0.2, "page", "o", "d", "", (), "s")


def exits(is_current, cases, n):
    row = {
        "is_current": is_current, "tenant": "acme", "workflow": "w", "agent_version": "1", "table": "t",
        "classifier": "c", "versions": [], "carrier": "",
    }  # fmt: skip
    return [row | {"labels": [["policy", "p"]], "n": cases}, row | {"labels": [], "n": n - cases}]


def item(what="review", scope=None, opened_at=NOW - 3 * HOUR, **fields):
    whose = scope or Scope("acme", "a", "w", "judgement" if what == "review" else "")
    return OpenItem(what, whose, "e", "r", opened_at, None, 0, None, overdue=False, reason_code="x", components=())


def test_an_alert_of_a_share_is_told_why_it_rose():
    reader = Reader([*exits(0, 5, 100), *exits(1, 30, 100)])
    shares = rule(Condition.SHARE, series=Series.REFUSAL, over=Series.EXITS, window_minutes=5)
    told = with_cause(alert(NOW - 2 * HOUR), shares, reader, [], NOW)
    began = to_iso(NOW - 2 * HOUR - 5 * MINUTE)[:16].replace("T", " ")
    assert told.cause == (
        f"5.0% (5 of 100) before, 30.0% (30 of 100) since {began} UTC. policy p: +25.0 of +25.0 points."
    )
    assert told.contributors == (("policy p", pytest.approx(0.25)),)
    assert told._replace(cause="", contributors=()) == alert(NOW - 2 * HOUR)
    ((series, asked),) = reader.asked
    assert (series, asked) == ("refusal", (NOW - 2 * HOUR - 5 * MINUTE, NOW, "acme", "a", "", ""))


def test_a_share_that_fell_names_what_lowers_it():
    reader = Reader([*exits(0, 30, 100), *exits(1, 5, 100)])
    shares = rule(Condition.SHARE_BELOW, series=Series.HUMAN_QUEUE, over=Series.EXITS, window_minutes=60)
    assert "policy p: -25.0 of -25.0 points" in cause(alert(), shares, reader, [], NOW).sentence


@pytest.mark.parametrize(
    ("since", "begin"),
    [(NOW, NOW - 20 * MINUTE), (NOW - 3 * HOUR, NOW - 3 * HOUR - 5 * MINUTE), (NOW - 9 * DAY, NOW - DAY)],
)
def test_the_window_holds_the_beginning_and_is_at_most_a_day_long(since, begin):
    reader = Reader()
    cause(alert(since), rule(Condition.COUNT, series=Series.GAPS, window_minutes=5), reader, [], NOW)
    assert reader.asked[0][1].since == begin


def test_partials_are_explained_since_the_oldest_of_the_scope_was_opened():
    wait = {"component": "tax", "opened_at": NOW - 5 * HOUR, "closed_at": None, "failures": 1, "superseded_at": None}
    reader = Reader(waits=[wait])
    others = [item("review", opened_at=NOW - 8 * HOUR), item("partial", Scope("acme", "b"), NOW - 9 * HOUR)]
    found = cause(alert(), rule(Condition.AGE, what="partial"), reader, [item("partial"), *others], NOW)
    assert found.named.component == "tax"
    assert reader.asked == [(NOW - 3 * HOUR, NOW, "acme", "a", "", "")]


def test_queues_are_explained_by_what_went_through_them():
    arrivals = [{"is_current": flag, "reason_code": "low", "workflow": "w", "n": n} for flag, n in ((0, 6), (1, 9))]
    reader = Reader(flow=QueueRows(arrivals, 6, 3, 100, 100, 3 * HOUR))
    asked = Scope("acme", queue="judgement")
    items = [item(), item(), item(scope=Scope("acme", "a", "w", "other")), item("partial")]
    found = cause(alert(scope=asked), rule(Condition.PAST_DEADLINE, what="review"), reader, items, NOW)
    assert (found.before, found.now) == ((6, 6, 100, 3 * HOUR), (9, 3, 100, 3 * HOUR))
    assert (found.waiting, found.arriving) == (2, (("low in w", 1.0),))
    assert reader.asked == [(NOW - 3 * HOUR, NOW, "acme", "", "", "judgement")]


def test_nothing_is_said_of_the_pipeline_itself():
    reader = Reader()
    for one in (
        rule(Condition.GAUGE), rule(Condition.ABSENCE, series=Series.EXITS), rule(Condition.UNKNOWN),
        rule(Condition.SHARE, series=Series.DEAD_LETTERED, over=Series.READ),
    ):  # fmt: skip
        assert with_cause(alert(), one, reader, [item()], NOW) == alert()
    assert reader.asked == []
