"""The loop of alerts: read, judge, keep, tell. One turn at a time; what time it is, is handed in.

**What is kept** is the state of the evaluator and the outbox, together, in the store. It is kept before anybody is
told, and again when somebody was: so whoever goes on after a crash tells what may not have been told, and little twice.

**Two evaluators at once.** Whoever evaluates keeps the state under its name at every turn. Another who finds it kept
lately by somebody else stands by. Two that begin in the same moment see each other after keeping, and the later one
goes on. Where even that fails, since the store cannot be asked, both tell the same: the identity of an alert has
nothing of the evaluator in it, so Alertmanager takes it for one.

**A store that cannot be asked** ends no alert. What stands is told on from memory, and that the store refuses is told.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from alerts.evaluator import Evaluator, State
from alerts.model import Alert, Count, OpenItem, Pulse, Rule
from sinks.errors import StoreError
from streams.alert_channels import UNDELIVERED, Channel
from streams.outbox import Outbox, parts_of, text_of

_log = logging.getLogger(__name__)
_FIRST_WAIT_US, _LONGEST_WAIT_US = 5_000_000, 60_000_000
_EXPLAINED_AT_ONCE = 3


class Saved(NamedTuple):
    """What an evaluator kept: who, when by its clock in microseconds, and its state. Without a holder it has ended."""

    holder: str
    at: int
    text: str


class Readings(Protocol):
    """What is judged. Each raises what the store raises, see :mod:`sinks.errors`."""

    def history(self, lookback_minutes: int, at: int) -> Iterable[Count]:
        """Counts of so many minutes up to ``at``, in microseconds, without minutes of which something was recorded
        since: they are told by the next :meth:`changed`, as news."""

    def changed(self, since: int, now: int) -> Iterable[Count]:
        """All counts of each minute of which something was recorded at ``since``, in microseconds, or later."""

    def open_items(self, now: int) -> Sequence[OpenItem]:
        """Everything that is open."""

    def pulse(self, now: int) -> Pulse:
        """How the pipeline does, as far as the store knows."""


class Shelf(Protocol):
    """Where the state is kept. Each raises what the store raises."""

    def saved(self) -> Saved | None:
        """What was kept last."""

    def save(self, saved: Saved, alerts: Sequence[Alert]) -> None:
        """Keep a state, and for people the alerts as they stand."""


Explain = Callable[[Alert, Rule, Sequence[OpenItem], int], Alert]
"""Gives an alert its cause. Raises what the store raises."""


@dataclass(frozen=True)
class Pace:
    """``lease_us``: who has kept nothing for so long evaluates no more. ``overlap_us``: how far a reading goes back
    behind the last one, for late rows and other clocks. ``explain_us``: how long a cause is told before it is computed
    again."""

    lease_us: int = 60_000_000
    overlap_us: int = 60_000_000
    explain_us: int = 900_000_000


class Turn(NamedTuple):
    """What a turn did. ``leads``: it was not left to another evaluator. ``undelivered`` says by channel why it was not
    told. ``unjudged`` counts came too late, or from too far ahead, to be judged."""

    leads: bool
    alerts: tuple[Alert, ...] = ()
    undelivered: Mapping[str, str] = {}
    store_failure: str = ""
    unjudged: int = 0


@dataclass
class _Wait:
    """How often a channel failed since it last was told, and when it is tried again."""

    failures: int = 0
    until: int = 0


@dataclass
class Alerting:
    """One evaluator. ``holder`` is its name, unlike any other's. Used by one thread at a time.

    ``lag`` tells how many messages are not read yet, ``unaccounted`` what the last audit could not account for; None if
    that is unknown.
    """

    rules: Sequence[Rule]
    readings: Readings
    shelf: Shelf
    channels: Mapping[str, Channel]
    holder: str
    explain: Explain | None = None
    lag: Callable[[], int | None] = lambda: None
    unaccounted: Callable[[], int | None] = lambda: None
    pace: Pace = Pace()
    _state: State | None = field(default=None, repr=False)
    _outbox: Outbox = field(default_factory=Outbox, repr=False)
    _blind: bool = field(default=False, repr=False)
    _last_at: int = field(default=0, repr=False)
    _kept: bool | None = field(default=None, repr=False)
    _waits: dict[str, _Wait] = field(default_factory=dict, repr=False)
    _explained: dict[str, int] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._evaluator = Evaluator(self.rules)
        self._rules = {rule.id: rule for rule in self.rules}

    def turn(self, now: int, items: Sequence[OpenItem] | None = None) -> Turn:
        """Read, judge, keep and tell once. ``items`` are open items that are known already; None: they are read."""
        failure = ""
        try:
            if not self._goes_on(now):
                return Turn(leads=False)
        except StoreError as error:
            failure = str(error)
        state, failure, read = self._read(now, items, failure)
        step = self._evaluator.step(state, read.counts, read.items, read.pulse, now)
        self._state = step.state
        self._outbox.take(step.alerts, now)
        self._explain(read.items, now)
        alerts = self._with_causes(step.alerts)
        try:
            if not self._keep(now, alerts):
                return Turn(leads=False)
        except StoreError as error:
            failure = failure or str(error)
        if failure:
            _log.warning("alerts judged without the store", extra={"error": failure})
        undelivered = self._tell(now)
        return Turn(True, alerts, undelivered, failure, step.unjudged)  # noqa: FBT003 -- leads

    @property
    def leads(self) -> bool:
        """Whether the last turn was not left to another evaluator."""
        return self._state is not None

    def end(self, now: int) -> None:
        """Leave the evaluation to another, who need not wait. An outage is nothing: then the other waits."""
        if self._state is None or self._blind:
            return
        try:
            self.shelf.save(Saved("", max(now, self._last_at + 1), self._text()), ())
        except StoreError as error:
            _log.warning("state of alerts not kept", extra={"error": str(error)})
        self._state = None

    # Who evaluates

    def _goes_on(self, now: int) -> bool:
        """Whether it is for us to evaluate; then the state is there."""
        saved = self.shelf.saved()
        self._last_at = 0 if saved is None else saved.at
        if saved is not None and saved.holder not in {"", self.holder} and abs(now - saved.at) < self.pace.lease_us:
            self._state, self._outbox, self._blind = None, Outbox(), False
            return False
        if self._state is None or self._blind or (saved is not None and saved.holder != self.holder):
            self._begin(saved, now)
        return True

    def _begin(self, saved: Saved | None, now: int) -> None:
        """Go on from what was kept. What was found while the store could not be asked is not forgotten."""
        state, outbox = self._restored(saved, now)
        self._evaluator.load(state, self.readings.history(self._evaluator.lookback_minutes, state.now))
        if self._blind and self._state is not None:
            state.standing = self._state.standing | state.standing
            outbox.alerts = self._outbox.alerts | outbox.alerts
            outbox.said = {
                to: self._outbox.said.get(to, {}) | outbox.said.get(to, {})
                for to in self._outbox.said.keys() | outbox.said.keys()
            }
        self._state, self._outbox, self._blind = state, outbox, False

    def _restored(self, saved: Saved | None, now: int) -> tuple[State, Outbox]:
        if saved is None:
            return self._evaluator.begin(now), Outbox()
        outbox = Outbox()
        try:
            outbox, text = parts_of(saved.text)
            return (self._evaluator.begin(now) if text is None else self._evaluator.from_json(text)), outbox
        except ValueError as error:
            _log.error("alerts are judged anew", extra={"error": str(error)})
            return self._evaluator.begin(now), outbox

    def _keep(self, now: int, alerts: Sequence[Alert]) -> bool:
        """Keep the state; whether nobody else did so after us. Without a state that was read, nothing is kept."""
        if self._blind:
            return True
        self._kept = False
        self._save(now, alerts)
        self._kept = True
        last = self.shelf.saved()
        if last is None or last.holder == self.holder:
            return True
        self._state, self._outbox = None, Outbox()
        return False

    def _save(self, now: int, alerts: Sequence[Alert]) -> None:
        """Keep the state, after whoever kept last, though its clock be ahead."""
        self._last_at = max(now, self._last_at + 1)
        self.shelf.save(Saved(self.holder, self._last_at, self._text()), alerts)

    def _text(self) -> str:
        return text_of(self._outbox, None if self._state is None else self._state.to_json())

    # What is judged

    def _read(self, now: int, items: Sequence[OpenItem] | None, failure: str) -> tuple[State, str, "_Read"]:
        """What can be read now; the rest is unknown."""
        state, told = self._state, Pulse(lag=self.lag(), unaccounted=self.unaccounted())
        if state is None:
            state, self._blind = self._evaluator.begin(now), True
        if not failure:
            try:
                counts = list(self.readings.changed(state.now - self.pace.overlap_us, now))
                known = self.readings.open_items(now) if items is None else items
                stored = self.readings.pulse(now)
                pulse = told._replace(
                    newest_event_at=stored.newest_event_at,
                    clock_skew_us=stored.clock_skew_us,
                    store_refusing=self._refusing(),
                )
                return state, "", _Read(counts, known, pulse)
            except StoreError as error:
                failure = str(error)
        return state, failure, _Read(None, items, told._replace(store_refusing=True))

    def _refusing(self) -> bool | None:
        return None if self._kept is None else not self._kept

    # Why

    def _explain(self, items: Sequence[OpenItem] | None, now: int) -> None:
        """Find the causes of what fires, a few at a time and none after one that was not found, so that whoever is to
        be told waits a little and not long."""
        if self.explain is None or self._blind:
            return
        firing = {key.id: alert for key, alert in self._outbox.alerts.items() if alert.resolved_at is None}
        self._explained = {key: at for key, at in self._explained.items() if key in firing}
        waiting = [key for key in firing if now - self._explained.get(key, 0) >= self.pace.explain_us]
        for key in sorted(waiting, key=lambda each: self._explained.get(each, 0))[:_EXPLAINED_AT_ONCE]:
            self._explained[key] = now
            alert = firing[key]
            try:
                self._outbox.explain(self.explain(alert, self._rules[alert.rule], items or (), now))
            except StoreError as error:
                _log.warning("cause not found; tried later", extra={"rule": alert.rule, "error": str(error)})
                return

    def _with_causes(self, alerts: Sequence[Alert]) -> tuple[Alert, ...]:
        known = {(a.rule, a.scope, a.fired_at): a for a in self._outbox.alerts.values()}
        return tuple(known.get((alert.rule, alert.scope, alert.fired_at), alert) for alert in alerts)

    # Who is told

    def _tell(self, now: int) -> dict[str, str]:
        """Tell everybody what is due, and keep that; why somebody could not be told. One who cannot be told keeps
        nobody waiting."""
        undelivered, told = {}, False
        for name, channel in self.channels.items():
            wait = self._waits.setdefault(name, _Wait())
            due = self._outbox.due(name, channel.habit, now)
            if not due or now < wait.until:
                continue
            try:
                channel.send(due, now)
            except UNDELIVERED as error:
                wait.failures += 1
                wait.until = now + min(_LONGEST_WAIT_US, _FIRST_WAIT_US << min(wait.failures, 10))
                undelivered[name] = str(error)
                _log.warning("alerts not told; tried again", extra={"channel": name, "error": str(error)})
            else:
                self._waits[name] = _Wait()
                self._outbox.note(name, due, now)
                told = True
        self._outbox.forget({name: channel.habit for name, channel in self.channels.items()}, now)
        if told and self._kept and not self._blind:
            self._keep_told(now)
        return undelivered

    def _keep_told(self, now: int) -> None:
        """Keep who was told. If that fails, they are told once more after a crash."""
        try:
            self._save(now, ())
        except StoreError as error:
            _log.warning("not kept who was told", extra={"error": str(error)})


class _Read(NamedTuple):
    """What a step is told; None is unknown."""

    counts: Sequence[Count] | None
    items: Sequence[OpenItem] | None
    pulse: Pulse
