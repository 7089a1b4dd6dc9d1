"""When rules would have fired: the live evaluator over what is stored, minute by minute.

Every run counts in the minute in which it ended, as if it had been told then: what came late has come in time here. Of
the pipeline's own gauges there is no history, so rules about them are not judged.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from alerts.evaluator import Evaluator
from alerts.judging import MINUTE
from alerts.model import Alert, Condition, Count, OpenItem, Pulse, Rule, Scope

FLAP_MINUTES = 60
"""What fires again so soon after it was resolved flaps."""
_OFTEN_MINUTES = 5
_MOST_JUDGED = 5_000_000
"""Open items, times rules, that are judged at most: where there are more, they are judged less often."""
_WEEK = 7 * 1440


class Labels(StrEnum):
    """By which labels runs are counted: the exits that the store holds, legacy's, or legacy's beside the new ones."""

    NEW = "new"
    LEGACY = "legacy"
    BOTH = "both"


Minutes = Mapping[int, Sequence[Count]]
"""Counts by their minute."""


class Stay(NamedTuple):
    """An open item as it was from ``since`` on, before ``until`` (microseconds; None: still)."""

    since: int
    until: int | None
    item: OpenItem


class Firing(NamedTuple):
    """One time that a rule fired. Instants are microseconds; ``resolved_at`` is None if it still fired at the end.

    ``peak`` is the value furthest beyond the threshold of that moment, ``limit``.
    """

    rule: str
    scope: Scope
    since: int
    fired_at: int
    resolved_at: int | None
    peak: float
    limit: float

    @property
    def key(self) -> tuple[str, Scope]:
        """What fires."""
        return self.rule, self.scope


@dataclass(frozen=True)
class History:
    """What there was in ``[begin, end)``, in minutes since the epoch, and before it for as long as rules look back.

    ``stays`` are None where it is not known what was open.
    """

    begin: int
    end: int
    counts: Minutes
    stays: Sequence[Stay] | None


@dataclass(frozen=True)
class Replay:
    """What rules would have done, in order of time. ``unjudged`` are those of which there is no history.

    ``items_every`` is how many minutes lie between two looks at what was open.
    """

    history: History
    firings: tuple[Firing, ...]
    unjudged: tuple[Rule, ...]
    items_every: int

    def lasted(self, firing: Firing) -> int:
        """For how many minutes it fired in the period."""
        end = self.history.end * MINUTE
        return (min(end, end if firing.resolved_at is None else firing.resolved_at) - firing.fired_at) // MINUTE

    def of(self, rule: str) -> "Tally":
        """The firings of a rule in numbers."""
        found = [firing for firing in self.firings if firing.rule == rule]
        lengths = [self.lasted(firing) for firing in found]
        weeks = (self.history.end - self.history.begin) / _WEEK
        return Tally(
            fired=len(found),
            scopes=len({firing.scope for firing in found}),
            minutes=sum(lengths),
            longest=max(lengths, default=0),
            flaps=flaps(found),
            weekly=len(found) / weeks if weeks else 0.0,
            open=sum(firing.resolved_at is None for firing in found),
        )


class Tally(NamedTuple):
    """How often a rule fired, for how many scopes, for how many minutes in all and at most; ``flaps`` of these began
    within an hour of the end of the one before; ``open`` fire still at the end."""

    fired: int
    scopes: int
    minutes: int
    longest: int
    flaps: int
    weekly: float
    open: int


class Difference(NamedTuple):
    """What one set of rules, or labels, does otherwise than another: firings that appear, that vanish, and pairs of
    one rule and scope that overlap, of which some begin at another time."""

    appear: tuple[Firing, ...]
    vanish: tuple[Firing, ...]
    kept: tuple[tuple[Firing, Firing], ...]

    @property
    def moved(self) -> tuple[tuple[Firing, Firing], ...]:
        """Those that are kept and begin at another time."""
        return tuple((before, after) for before, after in self.kept if before.fired_at != after.fired_at)


def lookback_minutes(rules: Iterable[Rule]) -> int:
    """How long before the period counts are wanted."""
    return Evaluator(rules).lookback_minutes


def replay(rules: Sequence[Rule], history: History) -> Replay:
    """Run the rules over a history."""
    of_counts = [rule for rule in rules if rule.what is None and rule.gauge is None]
    of_items = [rule for rule in rules if rule.what is not None and history.stays is not None]
    judged = {rule.id for rule in (*of_counts, *of_items)}
    recorder = _Recorder()
    _replay_counts(of_counts, history, recorder)
    every = _items_every(history, len(of_items))
    if history.stays is not None:
        _replay_items(of_items, history, history.stays, every, recorder)
    firings = sorted(recorder.firings(), key=lambda each: (each.fired_at, each.rule, each.scope))
    return Replay(history, tuple(firings), tuple(rule for rule in rules if rule.id not in judged), every)


def difference(before: Iterable[Firing], after: Iterable[Firing]) -> Difference:
    """Hold two sets of firings against each other."""
    former, later = _by_key(before), _by_key(after)
    kept, appear = [], []
    met: set[Firing] = set()
    for key, firings in later.items():
        for firing in firings:
            same = [each for each in former.get(key, ()) if _overlap(each, firing)]
            if same:
                kept.append((same[0], firing))
                met.update(same)
            else:
                appear.append(firing)
    vanish = [firing for firings in former.values() for firing in firings if firing not in met]
    return Difference(_ordered(appear), _ordered(vanish), tuple(sorted(kept, key=lambda pair: pair[1].fired_at)))


def flaps(firings: Iterable[Firing]) -> int:
    """How many began within an hour of the end of the one before, of the same rule and scope."""
    return sum(
        before.resolved_at is not None and after.fired_at - before.resolved_at < FLAP_MINUTES * MINUTE
        for found in _by_key(firings).values()
        for before, after in pairwise(found)
    )


@dataclass
class _Recorder:
    """What fires, told again and again, as one firing each."""

    open: dict[tuple[str, Scope, int], Firing] = field(default_factory=dict)
    done: list[Firing] = field(default_factory=list)

    def note(self, alerts: Iterable[Alert], rules: Mapping[str, Rule]) -> None:
        for alert in alerts:
            if alert.fired_at is None:
                continue
            key = alert.rule, alert.scope, alert.since
            known, below = self.open.get(key), rules[alert.rule].condition is Condition.SHARE_BELOW
            if known is None or (alert.value < known.peak if below else alert.value > known.peak):
                known = self.open[key] = _firing(alert, alert.fired_at)
            if alert.resolved_at is not None:
                self.done.append(known._replace(resolved_at=alert.resolved_at))
                del self.open[key]

    def firings(self) -> list[Firing]:
        return [*self.done, *self.open.values()]


def _firing(alert: Alert, fired_at: int) -> Firing:
    return Firing(
        alert.rule, alert.scope, alert.since, fired_at, alert.resolved_at, peak=alert.value, limit=alert.threshold
    )


def _replay_counts(rules: Sequence[Rule], history: History, recorder: _Recorder) -> None:
    evaluator = Evaluator(rules)
    state = evaluator.begin(history.begin * MINUTE - 1)
    earlier = (minute for minute in history.counts if minute < history.begin)
    evaluator.load(state, [count for minute in earlier for count in history.counts[minute]])
    for minute in range(history.begin, history.end):
        now = (minute + 1) * MINUTE - 1
        state, alerts, _ = evaluator.step(state, history.counts.get(minute, ()), None, Pulse(), now)
        recorder.note(alerts, evaluator.rules)


def _items_every(history: History, rules: int) -> int:
    """Minutes between two looks at open items, so that there is an end to it where many are open for long."""
    begin, end = history.begin * MINUTE, history.end * MINUTE
    stood = sum(
        max(0, min(end, end if stay.until is None else stay.until) - max(begin, stay.since))
        for stay in history.stays or ()
    )
    return max(_OFTEN_MINUTES, -(-rules * (stood // MINUTE) // _MOST_JUDGED))


def _replay_items(
    rules: Sequence[Rule], history: History, stays: Sequence[Stay], every: int, recorder: _Recorder
) -> None:
    evaluator = Evaluator(rules)
    state = evaluator.begin(history.begin * MINUTE - 1)
    moments = range(history.begin + every, history.end + 1, every)
    for now, items in _open_at(stays, [minute * MINUTE - 1 for minute in moments]):
        state, alerts, _ = evaluator.step(state, (), items, Pulse(), now)
        recorder.note(alerts, evaluator.rules)


def _open_at(stays: Iterable[Stay], moments: Iterable[int]) -> Iterator[tuple[int, list[OpenItem]]]:
    """What is open at each moment."""
    coming = sorted(stays, key=lambda stay: stay.since, reverse=True)
    present: list[Stay] = []
    for now in moments:
        while coming and coming[-1].since <= now:
            present.append(coming.pop())
        present = [stay for stay in present if stay.until is None or stay.until > now]
        yield now, [stay.item for stay in present]


def _by_key(firings: Iterable[Firing]) -> dict[tuple[str, Scope], list[Firing]]:
    found: dict[tuple[str, Scope], list[Firing]] = defaultdict(list)
    for firing in sorted(firings, key=lambda each: each.fired_at):
        found[firing.key].append(firing)
    return found


def _overlap(one: Firing, other: Firing) -> bool:
    ends_after = one.resolved_at is None or one.resolved_at > other.fired_at
    return ends_after and (other.resolved_at is None or other.resolved_at > one.fired_at)


def _ordered(firings: Iterable[Firing]) -> tuple[Firing, ...]:
    return tuple(sorted(firings, key=lambda each: (each.fired_at, each.rule, each.scope)))
