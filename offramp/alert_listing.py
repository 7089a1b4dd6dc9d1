"""What ``alerts list`` shows: what fires, since when, why, and the commands to go on with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from alerts.evaluator import Evaluator
from alerts.judging import MINUTE
from alerts.model import Alert, Gauge, Rule, Scope, to_minute
from alerts.rules import RuleBook
from alerts.windows import covers
from offramp.alert_rules import words
from offramp.commands import Commands
from offramp.console import counted
from offramp.page import Page
from schemas.types import to_iso
from shadow.literal import literal
from sinks.alerts import SERIES, About, AlertsStore
from sinks.open_items import OpenItemsReader
from sinks.rows import EvaluationRow
from streams.alert_history import open_at
from streams.alert_inputs import alert_of
from streams.outbox import parts_of

STALE_US = 10 * MINUTE
"""An evaluation that is older says nothing of now."""
_CONTRIBUTORS = 5
_BEFORE_US = 60 * MINUTE
_VIEWS = {"partial": "v_open_partials", "review": "v_open_reviews"}


class Listed(NamedTuple):
    """An alert, with the commands to go on with."""

    alert: Alert
    commands: tuple[str, ...]


@dataclass(frozen=True)
class Listing:
    """What stands. ``evaluations`` are the last ones of each evaluator, ``pending`` what may fire soon."""

    now: int
    evaluations: Sequence[EvaluationRow]
    alerts: Sequence[Listed]
    pending: Sequence[Alert]

    @property
    def is_stale(self) -> bool:
        """Whether nobody has evaluated lately, so that nobody knows what fires now."""
        return not self.evaluations or self.now - self.evaluations[0].evaluated_at > STALE_US

    @property
    def firing(self) -> list[Listed]:
        """What fires."""
        return [each for each in self.alerts if each.alert.state == "firing"]

    @property
    def resolved(self) -> list[Listed]:
        """What was resolved, the last first."""
        found = [each for each in self.alerts if each.alert.state == "resolved"]
        return sorted(found, key=lambda each: -(each.alert.resolved_at or 0))


def listing(store: AlertsStore, rules: RuleBook, commands: Commands, resolved_since: int, now: int) -> Listing:
    """Read what stands. ``resolved_since`` and ``now`` are microseconds."""
    by_id = {rule.id: rule for rule in rules.rules}
    evaluations = store.evaluations()
    alerts = [alert_of(row) for row in store.alerts(resolved_since)]
    listed = [Listed(alert, _commands(alert, by_id.get(alert.rule), store, commands, now)) for alert in alerts]
    return Listing(now, evaluations, listed, _pending(rules, evaluations))


def _pending(rules: RuleBook, evaluations: Sequence[EvaluationRow]) -> list[Alert]:
    """What the state of the last evaluation says is pending; nothing if this program cannot read it."""
    try:
        _, text = parts_of(evaluations[0].state) if evaluations else (None, None)
        state = Evaluator(rules.rules).from_json(text) if text is not None else None
    except ValueError:
        return []
    return [] if state is None else [a for a in map(state.alert, state.standing) if a.state == "pending"]


# --- the commands


def _commands(alert: Alert, rule: Rule | None, store: AlertsStore, commands: Commands, now: int) -> tuple[str, ...]:
    if rule is None:
        return ()
    if rule.what is not None:
        return _of_items(alert, rule, store, commands, now)
    if rule.series in SERIES:
        return _of_exits(alert, rule, store, commands, now)
    return (_of_others(alert, rule, commands),)


def _of_others(alert: Alert, rule: Rule, commands: Commands) -> str:
    if rule.series == "reversal":
        since = _literal_instant(alert.since - max(_BEFORE_US, rule.window_minutes * MINUTE))
        return commands.query(f"SELECT * FROM v_reversals WHERE at >= {since} ORDER BY at DESC LIMIT 20")  # noqa: S608 -- shown
    if rule.series == "dead_lettered":
        return f"offramp dlq list{commands.options}"
    if rule.gauge is Gauge.NEWEST_EVENT_AGE:
        return commands.query("SELECT max(occurred_at) AS newest FROM v_exits")
    return f"offramp status{commands.options}"


def _of_exits(alert: Alert, rule: Rule, store: AlertsStore, commands: Commands, now: int) -> tuple[str, ...]:
    """What the series counts since shortly before the alert began; of silence, what came last."""
    series, silent = str(rule.series), rule.condition == "absence"
    begin = alert.since - max(_BEFORE_US, rule.window_minutes * MINUTE)
    end = now if alert.resolved_at is None else alert.resolved_at
    parts = [*_of_scope(alert.scope)]
    if not silent:
        parts = [*parts, *([] if series == "exits" else [SERIES[series]]), f"occurred_at >= {_literal_instant(begin)}"]
    where = f" WHERE {' AND '.join(parts)}" if parts else ""
    columns = "tenant, event_id, agent_id, workflow, occurred_at, kind, reason_code, rule_id"
    sql = f"SELECT {columns} FROM v_classifications{where} ORDER BY occurred_at DESC LIMIT 20"  # noqa: S608 -- shown
    shown = (commands.query(sql),)
    if silent:
        return shown
    scope = alert.scope
    found = store.examples(series, About(begin, end, scope.tenant, scope.agent_id, scope.workflow), 1)
    return (*shown, *(commands.explain(*each) for each in found))


def _of_items(alert: Alert, rule: Rule, store: AlertsStore, commands: Commands, now: int) -> tuple[str, ...]:
    parts = [*_of_scope(alert.scope)]
    where = f" WHERE {' AND '.join(parts)}" if parts else ""
    sql = f"SELECT * FROM {_VIEWS[str(rule.what)]}{where} ORDER BY opened_at LIMIT 20"  # noqa: S608 -- shown
    items = [item for item in open_at(OpenItemsReader(store.store), now) if item.what == rule.what]
    oldest = sorted((item for item in items if covers(alert.scope, item.scope)), key=lambda item: item.opened_at)[:1]
    return (commands.query(sql), *(commands.explain(item.scope.tenant, item.event_id) for item in oldest))


def _of_scope(scope: Scope) -> list[str]:
    return [f"{name} = {literal(value)}" for name, value in scope._asdict().items() if value]


def _literal_instant(micros: int) -> str:
    return f"'{to_iso(micros).rstrip('Z').replace('T', ' ')}'"


# --- for programs


def as_json(found: Listing) -> dict[str, Any]:
    """The answer in plain JSON values, instants as ISO 8601."""
    return {
        "asked_at": to_iso(found.now),
        "is_stale": found.is_stale,
        "evaluations": [
            {"evaluator": each.evaluator, "holder": each.holder, "rules_digest": each.rules_digest,
             "evaluated_at": to_iso(each.evaluated_at)}
            for each in found.evaluations
        ],
        "alerts": [{**_alert_json(each.alert), "commands": list(each.commands)} for each in found.alerts],
        "pending": [_alert_json(each) for each in found.pending],
    }  # fmt: skip


def _alert_json(alert: Alert) -> dict[str, Any]:
    instants = {
        name: None if getattr(alert, name) is None else to_iso(getattr(alert, name))
        for name in ("since", "fired_at", "resolved_at")
    }
    contributors = [{"name": name, "size": size} for name, size in alert.contributors]
    return alert._asdict() | instants | {"scope": alert.scope._asdict(), "contributors": contributors}


# --- for people


def show(found: Listing) -> None:
    """Print the answer."""
    page = Page()
    page.line(_headline(found), 0)
    page.line(_judged(found))
    for each in found.firing:
        _show_alert(page, each, found.now)
    if found.pending:
        page.heading(f"May fire soon: {len(found.pending):,}")
        for alert in found.pending:
            page.line(f"{alert.rule}: {words(alert.scope)}; since {to_minute(alert.since)}, {_measured(alert)}")
    if found.resolved:
        page.heading(f"Resolved lately: {len(found.resolved):,}")
        for each in found.resolved:
            page.line(_resolved(each.alert))


def _headline(found: Listing) -> str:
    firing = [each.alert for each in found.firing]
    if not firing:
        return "Nothing fires, as far as is known" if found.is_stale else "Nothing fires"
    pages = sum(alert.severity == "page" for alert in firing)
    does = "fires" if len(firing) == 1 else "fire"
    return f"{counted(len(firing), 'alert')} {does}: {counted(pages, 'page')}, {counted(len(firing) - pages, 'ticket')}"


def _judged(found: Listing) -> str:
    if not found.evaluations:
        return "nobody has evaluated alert rules in this store; `offramp run lifecycle --alerts-only` does"
    last = found.evaluations[0]
    at = to_minute(last.evaluated_at)
    ago = f"{_long(found.now - last.evaluated_at)} ago, at {at} UTC, by {last.holder or 'nobody'}"
    if found.is_stale:
        return f"last judged {ago}: what fires now is not known; `offramp run lifecycle` judges"
    return f"judged {ago}"


def _show_alert(page: Page, each: Listed, now: int) -> None:
    alert = each.alert
    page.heading(f"{alert.rule}: {words(alert.scope)}")
    fired_at = alert.since if alert.fired_at is None else alert.fired_at
    page.line(f"{alert.severity} for {alert.owner}; fires for {_long(now - fired_at)}, since {to_minute(fired_at)} UTC")
    page.line(f"{alert.summary} {_measured(alert)}")
    if alert.cause:
        page.line(f"cause: {alert.cause}")
    if alert.contributors:
        top = "; ".join(f"{name} {size:+.4g}" for name, size in alert.contributors[:_CONTRIBUTORS])
        page.line(f"contributors: {top}")
    page.line(f"runbook: {alert.runbook}")
    for command in each.commands:
        page.exactly(f"  {command}")


def _measured(alert: Alert) -> str:
    return f"{alert.value:.4g} against {alert.threshold:.4g}"


def _resolved(alert: Alert) -> str:
    if alert.fired_at is None or alert.resolved_at is None:
        return f"{alert.rule}: {words(alert.scope)}"
    fired = f"fired for {_long(alert.resolved_at - alert.fired_at)} until {to_minute(alert.resolved_at)} UTC"
    return f"{alert.rule}: {words(alert.scope)}; {fired}"


def _long(micros: int) -> str:
    minutes = max(0, micros) // MINUTE
    if minutes < 120:
        return counted(minutes, "minute")
    return counted(minutes // 60, "hour") if minutes < 48 * 60 else counted(minutes // 1440, "day")
