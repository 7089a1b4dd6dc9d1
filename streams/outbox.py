"""What there is to tell of alerts, and whom it was told: so that each beginning and each end is told until it is heard.

It is kept beside the state of the evaluator. Whatever happened between telling and keeping, it is told once more, and
whoever hears it knows the occurrence by its id.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from alerts.model import Alert, Scope
from streams.alert_forms import Occurrence, occurrence

KEPT_US = 7 * 24 * 3_600_000_000
"""How long it is tried to tell that something has ended."""
_GONE = "Nobody evaluates it any more."


class Said(NamedTuple):
    """What somebody was last told of an occurrence, and when, in microseconds."""

    state: Literal["firing", "resolved"]
    at: int


@dataclass(frozen=True)
class Habit:
    """How somebody wants to be told: what stands again after ``repeat_us``, None for never; and what has ended for
    ``linger_us`` after its end as well."""

    repeat_us: int | None = None
    linger_us: int = 0


@dataclass
class Outbox:
    """The alerts that fire, and those that ended and are not told to everybody yet."""

    alerts: dict[Occurrence, Alert] = field(default_factory=dict)
    said: dict[str, dict[Occurrence, Said]] = field(default_factory=dict)

    def take(self, standing: Iterable[Alert], now: int) -> None:
        """Take in a step of the evaluator. What it no longer knows, though nobody resolved it, has ended now."""
        told = {occurrence(alert): alert for alert in standing if alert.fired_at is not None}
        for key, alert in self.alerts.items():
            if key not in told and alert.state == "firing":
                ended = max(now, key.fired_at)
                told[key] = alert._replace(state="resolved", resolved_at=ended, summary=f"{alert.summary} {_GONE}")
        for key, alert in told.items():
            known = self.alerts.get(key)
            if known is not None and not alert.cause:
                told[key] = alert._replace(cause=known.cause, contributors=known.contributors)
        self.alerts |= told

    def explain(self, explained: Alert) -> None:
        """Take in the cause of an alert that is here."""
        self.alerts[occurrence(explained)] = explained

    def due(self, to: str, habit: Habit, now: int) -> list[Alert]:
        """What somebody is to be told now, in the order in which it happened."""
        said, newest = self.said.get(to, {}), self._newest()
        found = [
            alert
            for key, alert in self.alerts.items()
            if _is_due(alert, said.get(key), habit if key in newest else Habit(), now)
        ]
        return sorted(found, key=_moment)

    def note(self, to: str, told: Iterable[Alert], now: int) -> None:
        """Note that somebody was told."""
        said = self.said.setdefault(to, {})
        for alert in told:
            said[occurrence(alert)] = Said("firing" if alert.resolved_at is None else "resolved", now)

    def forget(self, habits: Mapping[str, Habit], now: int) -> None:
        """Let go of what has ended and was told to everybody there is, of what ended :data:`KEPT_US` ago whoever
        heard of it, and of whoever is there no more."""
        said = {to: self.said.get(to, {}) for to in habits}
        for key, alert in list(self.alerts.items()):
            if alert.resolved_at is None:
                continue
            heard = all(
                now - alert.resolved_at >= habit.linger_us and _was_told_end(said[to].get(key))
                for to, habit in habits.items()
            )
            if heard or now - alert.resolved_at >= KEPT_US:
                del self.alerts[key]
        self.said = {to: {key: s for key, s in each.items() if key in self.alerts} for to, each in said.items()}

    def _newest(self) -> set[Occurrence]:
        """Of each alert, the last occurrence: an earlier one must not be told to have ended once more after it."""
        newest: dict[tuple[str, Scope], Occurrence] = {}
        for key in sorted(self.alerts, key=lambda each: each.fired_at):
            newest[key.rule, key.scope] = key
        return set(newest.values())

    def to_json(self) -> dict[str, Any]:
        """All of it in plain JSON values."""
        keys = list(self.alerts)
        return {
            "alerts": [_json(self.alerts[key]) for key in keys],
            "said": {to: [said.get(key) for key in keys] for to, said in self.said.items()},
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Outbox":
        """What :meth:`to_json` gave. Raises ValueError if it is none."""
        try:
            alerts = [_alert(each) for each in value["alerts"]]
            keys = [occurrence(alert) for alert in alerts]
            said = {to: _said(keys, states) for to, states in value["said"].items()}
            return cls(dict(zip(keys, alerts, strict=True)), said)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"not what is to be told of alerts: {error}") from error


def _is_due(alert: Alert, said: Said | None, habit: Habit, now: int) -> bool:
    if said is None or (alert.resolved_at is not None and said.state == "firing"):
        return True
    repeats = habit.repeat_us is not None and now - said.at >= habit.repeat_us
    return repeats and (alert.resolved_at is None or now - alert.resolved_at < habit.linger_us)


def _was_told_end(said: Said | None) -> bool:
    return said is not None and said.state == "resolved"


def _moment(alert: Alert) -> tuple[int, str, Scope]:
    return alert.resolved_at or alert.fired_at or alert.since, alert.rule, alert.scope


def _said(keys: Sequence[Occurrence], states: Sequence[Sequence[Any] | None]) -> dict[Occurrence, Said]:
    return {key: Said(*said) for key, said in zip(keys, states, strict=True) if said is not None}


def _json(alert: Alert) -> dict[str, Any]:
    return alert._asdict() | {"scope": alert.scope._asdict()}


def _alert(said: dict[str, Any]) -> Alert:
    contributors = tuple((name, size) for name, size in said["contributors"])
    return Alert(**said | {"scope": Scope(**said["scope"]), "contributors": contributors})


def text_of(outbox: Outbox, evaluator: str | None) -> str:
    """Outbox and evaluator's state as one line, as they are kept together."""
    return json.dumps({"version": 1, "evaluator": evaluator, "outbox": outbox.to_json()}, ensure_ascii=False)


def parts_of(text: str) -> tuple[Outbox, str | None]:
    """What :func:`text_of` put together. Raises ValueError if it is none."""
    try:
        said = json.loads(text)
        if said["version"] != 1:
            raise ValueError(f"it is of version {said['version']}, and this is version 1")
        return Outbox.from_json(said["outbox"]), said["evaluator"]
    except (KeyError, TypeError) as error:
        raise ValueError(f"not the state of an evaluation of alerts: {error}") from error
