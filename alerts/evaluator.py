"""The one evaluator of alert rules: what runs live, in tests of rules, and over stored history.

It is told counts by minutes of event time, what is open, and how the pipeline does, and says which alerts stand. It
reads no clock and no store: the same calls give the same alerts. Time goes on minute by minute even where the calls are
further apart, so that nothing is passed over while nobody evaluated.

What is not known changes nothing: an alert that stands is neither resolved nor newly raised by windows with too few
runs, by counts or items that could not be read (None), or by a gauge without a reading.

Counts that come late are added to their minutes. Where a window has closed by then, it is judged again, with and
without them. If only they make the rule hold, for as long as it asks for, then it fires at once, and stands for the
length of its window from then on: event time says what the rate was, arrival when anybody could know.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from alerts import judging
from alerts.judging import MINUTE, Verdict
from alerts.model import Alert, Condition, Count, OpenItem, Pulse, Rule, Scope, Series, to_minute
from alerts.windows import HOUR, LATE_MINUTES, Extent, Lane, Reach, Sums, Track, View, Windows

Key = tuple[str, Scope]
_OF_WINDOWS = {Condition.SHARE, Condition.SHARE_BELOW, Condition.SURGE, Condition.COUNT}
_OF_COUNTS = {*_OF_WINDOWS, Condition.ABSENCE}
_OF_ITEMS = {Condition.AGE, Condition.PAST_DEADLINE}
_OF_PULSE = {Condition.GAUGE, Condition.UNKNOWN}
_COUNTED = {Series.READ: "messages", Series.QUEUE_ARRIVALS: "reviews", Series.QUEUE_DECISIONS: "decisions"}
"""What a share is of, where it is not of runs."""
_VERSION = 1


@dataclass(slots=True)
class Standing:
    """What is remembered of a rule and a scope between pending and resolved. Instants are microseconds."""

    since: int
    value: float
    limit: float
    usual: float | None
    holds: bool = True
    known: bool = True
    fired_at: int | None = None
    quiet_since: int | None = None
    late_until: int | None = None
    evidence: judging.Evidence | None = None


@dataclass(slots=True)
class State:
    """Where the evaluation stands. A step uses it up: go on with the one that the step returns."""

    now: int
    windows: Windows
    standing: dict[Key, Standing] = field(default_factory=dict)
    gone: list[Alert] = field(default_factory=list)
    rules: dict[str, Rule] = field(default_factory=dict)

    def to_json(self) -> str:
        """What has to survive a restart, as one line: all but the windows, which are told again from the store."""
        standing = [
            {"alert": self.alert(key)._asdict() | {"scope": key[1]._asdict()}, "standing": asdict(each)}
            for key, each in sorted(self.standing.items())
        ]
        said = {"version": _VERSION, "now": self.now, "minute": self.windows.clock, "standing": standing}
        return json.dumps(said, ensure_ascii=False)

    def alert(self, key: Key, resolved_at: int | None = None) -> Alert:
        """An alert as it stands."""
        rule, standing = self.rules[key[0]], self.standing[key]
        return Alert(
            rule=rule.id,
            scope=key[1],
            state="resolved" if resolved_at is not None else "pending" if standing.fired_at is None else "firing",
            since=standing.since,
            fired_at=standing.fired_at,
            resolved_at=resolved_at,
            value=standing.value,
            threshold=standing.limit,
            severity=rule.severity.value,
            owner=rule.owner,
            runbook=rule.runbook,
            cause="",
            contributors=(),
            summary=rule.summary + _evidence(standing, rule) + _remark(standing),
        )


class Step(NamedTuple):
    """The state to go on with, and the alerts: all that are pending or fire now, and those resolved in this step.

    Something that fired and was resolved within one step is among the resolved. ``unjudged`` counts were told so late,
    or stamped so far ahead, that no window is kept for them.
    """

    state: State
    alerts: tuple[Alert, ...]
    unjudged: int


@dataclass(frozen=True, slots=True)
class Ruled:
    """A rule of windows, with what is worked out once.

    ``side``, ``share`` and ``offset`` tell most windows apart without any statistics: the rule surely does not hold if
    ``side * (hits - share * runs - offset) <= 0``.
    """

    rule: Rule
    deviations: float
    reach: Reach | None
    side: int
    share: float
    offset: int
    series: str
    over: str

    def is_idle(self, window: Sums) -> bool:
        """Whether the rule surely does not hold."""
        runs, hits = window.get(self.over, 0), window.get(self.series, 0)
        return self.side * (hits - self.share * runs - self.offset) <= 0


class Evaluator:
    """Judges rules that :mod:`alerts.rules` has validated.

    ``ruled`` are the rules of windows by their track, ``silences`` those of absence with the past that they look at.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = {rule.id: rule for rule in rules}
        self._views = list(dict.fromkeys(map(_view, self.rules.values())))
        self.ruled: dict[Track, list[Ruled]] = {}
        self.silences: list[tuple[Rule, Reach]] = []
        for rule in self.rules.values():
            self._sort(rule)
        reaches = [reach for _, reach in self.silences]
        reaches += [each.reach for ruled in self.ruled.values() for each in ruled if each.reach]
        self._reaches = list(dict.fromkeys(reaches))
        self._of_items = [rule for rule in self.rules.values() if rule.condition in _OF_ITEMS]
        self._of_pulse = [rule for rule in self.rules.values() if rule.gauge is not None]

    @property
    def lookback_minutes(self) -> int:
        """How far back :meth:`load` wants counts. What is older than two days, and than a day more than the furthest
        limit of a window, may be told by hours instead of minutes."""
        furthest = max([LATE_MINUTES, *(track.extent.limit for track in self.ruled)])
        return max([furthest, *(reach.minutes for reach in self._reaches)]) + HOUR

    def begin(self, now: int) -> State:
        """The state of somebody who knows nothing yet."""
        windows = Windows(self._views, list(self.ruled), self._reaches, now // MINUTE)
        return State(now, windows, rules=self.rules)

    def from_json(self, text: str) -> State:
        """The state that :meth:`State.to_json` wrote, with windows that are to be loaded.

        Alerts of rules that are gone, or look elsewhere now, are resolved by the next step. Raises ValueError if the
        text is none of these.
        """
        try:
            return self._read(json.loads(text))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not the state of an evaluator: {error}") from error

    def load(self, state: State, counts: Iterable[Count]) -> None:
        """Fill the windows of a state that begins, or was read again, with the counts of :attr:`lookback_minutes`.

        Nothing is judged. What was recorded after ``state.now`` is left out, and told to the next step: so that step
        sees what came late while nobody evaluated.
        """
        state.windows.load(counts)

    def step(
        self,
        state: State,
        counts: Iterable[Count] | None,
        open_items: Sequence[OpenItem] | None,
        pulse: Pulse,
        now: int,
    ) -> Step:
        """Go on to ``now`` with the minutes that have changed since the last step, each told whole, and everything
        that is open. None stands for what could not be read. A ``now`` before the last one counts as that."""
        now = max(now, state.now)
        resolved, state.gone = [each._replace(resolved_at=now) for each in state.gone], []
        unjudged = 0
        if counts is not None:
            told = state.windows.tell(counts, now // MINUTE)
            unjudged = told.unjudged
            self._judge_late(state, told.late, now)
            resolved += self._go_on(state, told.changed, now)
        if open_items is not None:
            self._judge_items(state, open_items, now)
            resolved += self._settle(state, _OF_ITEMS, now)
        for rule in self._of_pulse:
            self._note(state, rule, Scope(), judging.of_pulse(rule, pulse, now), now)
        resolved += self._settle(state, _OF_PULSE, now)
        state.now = now
        resolved.sort(key=lambda alert: (alert.rule, alert.scope, alert.since))
        return Step(state, (*map(state.alert, sorted(state.standing)), *resolved), unjudged)

    def _sort(self, rule: Rule) -> None:
        view = self._views.index(_view(rule))
        if rule.condition in _OF_WINDOWS:
            limit = max(rule.window_minutes, rule.window_limit_minutes)
            track = Track(view, str(rule.over), Extent(rule.window_minutes, rule.window_runs, limit))
            reach = Reach(view, rule.baseline.window_minutes, str(rule.over)) if rule.baseline else None
            self.ruled.setdefault(track, []).append(_ruled(rule, reach))
        elif rule.condition is Condition.ABSENCE and rule.baseline:
            self.silences.append((rule, Reach(view, rule.baseline.window_minutes, str(rule.series))))

    def _read(self, said: dict[str, Any]) -> State:
        if said["version"] != _VERSION:
            raise ValueError(f"it is of version {said['version']}, and this is version {_VERSION}")
        state = self.begin(said["minute"] * MINUTE)
        state.now = max(said["now"], state.now)
        for each in said["standing"]:
            self._restore(state, each)
        return state

    def _restore(self, state: State, said: dict[str, Any]) -> None:
        scope = Scope(**said["alert"]["scope"])
        standing, rule = Standing(**said["standing"]), self.rules.get(said["alert"]["rule"])
        standing.evidence = judging.Evidence(*standing.evidence) if standing.evidence else None
        if rule and _view(rule).of(scope) == scope:
            state.standing[rule.id, scope] = standing
        elif standing.fired_at is not None:
            words = {
                "scope": scope,
                "state": "resolved",
                "contributors": (),
                "summary": "The rule no longer looks here.",
            }
            state.gone.append(Alert(**said["alert"] | words))

    def _go_on(self, state: State, changed: dict[Lane, None], now: int) -> list[Alert]:
        """Judge what has changed at the end of every minute that is over, and in the running one as of ``now``."""
        resolved: list[Alert] = []
        windows, running = state.windows, now // MINUTE
        if changed and windows.clock < running:
            # What was told of the last minute after it had ended: the next one's window may not hold it any more.
            at = (windows.clock + 1) * MINUTE - 1
            self._judge_windows(state, changed, at)
            resolved += self._settle(state, _OF_COUNTS, at)
        while windows.clock < running:
            changed |= windows.advance()  # what was told is of minutes up to here
            at = min((windows.clock + 1) * MINUTE - 1, now)
            self._judge_windows(state, changed, at)
            resolved += self._settle(state, _OF_COUNTS, at)
            changed = {}
        if changed:
            self._judge_windows(state, changed, now)
        return resolved + self._settle(state, _OF_COUNTS, now)

    def _judge_windows(self, state: State, changed: Iterable[Lane], at: int) -> None:
        windows, standing, by_number = state.windows, state.standing, list(self.ruled.values())
        for lane in changed:
            for ruled in by_number[lane.number]:
                if ruled.is_idle(lane.sums) and (not standing or (ruled.rule.id, lane.scope) not in standing):
                    continue
                self._judge_window(state, ruled, lane, at)
        for rule, reach in self.silences:
            for scope, past in windows.pasts[reach].items():
                if windows.clock - (past.newest() or 0) < rule.threshold and (rule.id, scope) not in standing:
                    continue
                past.prune(windows.clock, reach.minutes)
                self._note(state, rule, scope, judging.of_silence(rule, past, windows.clock), at)

    def _judge_window(self, state: State, ruled: Ruled, lane: Lane, at: int) -> None:
        rule = ruled.rule
        standing = state.standing.get((rule.id, lane.scope))
        usual = self._usual_before(state, ruled, lane, at)
        firing = standing is not None and standing.fired_at is not None
        verdict = self.verdict(state.windows, ruled, lane, usual, firing=firing)
        self._note(state, rule, lane.scope, verdict, at, usual)

    @staticmethod
    def verdict(windows: Windows, ruled: Ruled, lane: Lane, usual: float | None, *, firing: bool) -> Verdict | None:
        """What a window says; None if it has too few runs to say anything."""
        rule, limit = ruled.rule, judging.share_limit(ruled.rule, usual)
        if rule.condition is not Condition.SURGE or ruled.reach is None:
            since = lane.entries[0][0] if lane.entries else None
            return judging.of_window(rule, lane.sums, limit, ruled.deviations, firing=firing, since=since)
        if firing:
            return judging.of_surge_going_on(rule, lane.entries, limit, windows.clock)
        return judging.of_surge(rule, lane, limit, Evaluator.odds(windows, ruled, lane, usual))

    @staticmethod
    def odds(windows: Windows, ruled: Ruled, lane: Lane, usual: float | None) -> judging.Odds | None:
        """What a surge in a window is judged by."""
        rule = ruled.rule
        assert ruled.reach is not None  # noqa: S101 -- a surge has a baseline
        past = windows.past(ruled.reach, lane.scope)
        minutes = judging.chance_minutes(rule, past, lane.sums, windows.clock, known=usual is not None)
        return judging.odds(usual, judging.share_limit(rule, usual), minutes)

    @staticmethod
    def usual(windows: Windows, ruled: Ruled, scope: Scope, window: Sums) -> float | None:
        """What was usual for a scope before a window of it; None where nobody asks, or nobody knows."""
        if ruled.reach is None:
            return None
        return judging.past_share(ruled.rule, windows.past(ruled.reach, scope), window)

    def _usual_before(self, state: State, ruled: Ruled, lane: Lane, at: int) -> float | None:
        """What is usual for a scope. An alert that stands keeps what was usual before it for as long as the baseline
        reaches back, since it would become usual itself."""
        baseline, standing = ruled.rule.baseline, state.standing.get((ruled.rule.id, lane.scope))
        if baseline is not None and standing is not None and at - standing.since < baseline.window_minutes * MINUTE:
            return standing.usual
        return self.usual(state.windows, ruled, lane.scope, lane.sums)

    @staticmethod
    def _note(  # noqa: PLR0913, PLR0917 -- what was judged, where, when
        state: State, rule: Rule, scope: Scope, verdict: Verdict | None, at: int, usual: float | None = None
    ) -> None:
        """Remember what was found; what is unknown leaves things as they are."""
        standing = state.standing.get((rule.id, scope))
        if standing is None:
            if verdict is not None and verdict.holds:
                state.standing[rule.id, scope] = Standing(
                    at, verdict.value, verdict.limit, usual, evidence=verdict.evidence
                )
            return
        standing.known = verdict is not None
        if verdict is not None:
            standing.holds, standing.value, standing.limit, standing.evidence = verdict
            standing.usual = usual

    def _settle(self, state: State, conditions: set[Condition], at: int) -> list[Alert]:
        """Let what has held long enough fire, and end what no longer holds; the alerts that are resolved."""
        ended = [
            key
            for key, standing in state.standing.items()
            if self.rules[key[0]].condition in conditions and _ends(standing, self.rules[key[0]], at)
        ]
        resolved = [state.alert(key, resolved_at=at) for key in ended if state.standing[key].fired_at is not None]
        for key in ended:
            del state.standing[key]
        return resolved

    def _judge_late(self, state: State, late: dict[Lane, dict[int, Sums]], now: int) -> None:
        for lane, before in late.items():
            for ruled in self.ruled[lane.track]:
                found = self._missed(state, ruled, lane, before)
                if found is not None:
                    standing = state.standing.setdefault(
                        (ruled.rule.id, lane.scope),
                        Standing(now, found.value, found.limit, None, holds=False, evidence=found.evidence),
                    )
                    standing.late_until = now + ruled.rule.window_minutes * MINUTE

    def _missed(self, state: State, ruled: Ruled, lane: Lane, before: dict[int, Sums]) -> Verdict | None:
        """The verdict of closed windows that late counts, and only they, make a rule hold in for long enough."""
        rule, lasted, found = ruled.rule, 0, None
        with_them, without = (state.windows.replay(lane, before, known=known) for known in (False, True))
        for window, known in zip(with_them, without, strict=True):
            if ruled.is_idle(window.sums):
                lasted = 0
                continue
            usual = self.usual(state.windows, ruled, lane.scope, window.sums)
            verdict, held = (self.verdict(state.windows, ruled, each, usual, firing=False) for each in (window, known))
            if held is not None and held.holds:
                return None
            lasted = lasted + 1 if verdict is not None and verdict.holds else 0
            found = verdict if lasted > rule.for_minutes else found
        return found

    def _judge_items(self, state: State, items: Sequence[OpenItem], now: int) -> None:
        alike: dict[tuple[str, Scope], list[OpenItem]] = {}
        for item in items:
            alike.setdefault((item.what, item.scope), []).append(item)
        for rule in self._of_items:
            groups: dict[Scope, list[OpenItem]] = {scope: [] for id_, scope in state.standing if id_ == rule.id}
            view = _view(rule)
            for (what, whole), group in alike.items():
                scope = view.of(whole) if what == rule.what else None
                if scope is not None:
                    groups.setdefault(scope, []).extend(group)
            deviations = judging.deviation(rule.confidence)
            for scope, group in groups.items():
                standing = state.standing.get((rule.id, scope))
                firing = standing is not None and standing.fired_at is not None
                self._note(state, rule, scope, judging.of_items(rule, group, now, deviations, firing=firing), now)


def _ends(standing: Standing, rule: Rule, at: int) -> bool:
    """Go on to a moment; whether nothing is left to remember then."""
    late = standing.late_until is not None and at < standing.late_until
    if standing.holds or late:
        lasted = standing.known and at - standing.since >= rule.for_minutes * MINUTE
        standing.quiet_since = None
        if standing.fired_at is None and (late or lasted):
            standing.fired_at = at
        return False
    if standing.quiet_since is None:
        standing.quiet_since = at
    return standing.fired_at is None or at - standing.quiet_since >= rule.keep_firing_minutes * MINUTE


def _ruled(rule: Rule, reach: Reach | None) -> Ruled:
    side, share, offset = -1 if rule.condition is Condition.SHARE_BELOW else 1, rule.threshold, 0
    if rule.condition is Condition.COUNT:
        share, offset = 0.0, math.ceil(rule.threshold) - 1
    elif rule.condition is Condition.SURGE:
        share, offset = 0.0, judging.FEWEST - 1
    deviations = judging.deviation(rule.confidence)
    return Ruled(rule, deviations, reach, side, share, offset, str(rule.series), str(rule.over))


def _view(rule: Rule) -> View:
    return View(rule.by, rule.where, rule.unless)


def _evidence(standing: Standing, rule: Rule) -> str:
    """By which runs it stands, for people."""
    if standing.evidence is None:
        return ""
    hits, runs, minute = standing.evidence
    counted = "runs" if rule.over is None else _COUNTED.get(rule.over, "runs")
    return f" {hits:,} of {runs:,} {counted} since {to_minute(minute * MINUTE)} UTC{_usual(standing, rule)}."


def _usual(standing: Standing, rule: Rule) -> str:
    if rule.baseline is None:
        return ""
    return "; nobody knows what is usual" if standing.usual is None else f"; {standing.usual:.1%} are usual"


def _remark(standing: Standing) -> str:
    if standing.late_until is not None and not standing.holds:
        return " Told late, of minutes that had been judged before."
    return "" if standing.known else " Nothing new is known of it."
