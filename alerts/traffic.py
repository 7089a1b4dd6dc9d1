"""Rules that can never fire, or never clear, at the traffic that was observed.

A share needs some runs before any number of hits is more than chance, and a window, however far it reaches back, may
never hold them. And a threshold below what is normal holds always. Nothing is said of counts, which may fire on the
first; nor of gauges, whose traffic nobody observes.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from alerts import judging
from alerts.evaluator import Evaluator, Ruled
from alerts.judging import MINUTE
from alerts.model import Condition, Count, OpenItem, Rule, Scope
from alerts.windows import HOUR, Lane, Past, View, Windows

_ENOUGH = 30
"""Windows that have to be judged before "never clears" is said: fewer may be one bad hour."""


class Doubt(NamedTuple):
    """A rule that can never fire, or clear, for these scopes of all that it looks at, each with the reason."""

    rule: str
    never: Literal["fires", "clears"]
    scopes: tuple[tuple[Scope, str], ...]
    seen: int


def doubts(rules: Sequence[Rule], counts: Iterable[Count], items: Sequence[OpenItem]) -> list[Doubt]:
    """What was observed, held against each rule. ``items`` are those that are open now."""
    seen = _observe(Evaluator(rules), list(counts))
    _observe_items(rules, items, seen)
    return [doubt for rule in rules for doubt in _doubts(rule, seen[rule.id])]


def surge_needs(odds: judging.Odds | None) -> int | None:
    """Fewest runs, all of them hits, in which a surge can hold; None if none can."""
    if odds is None:
        return None
    return max(judging.FEWEST, math.ceil(odds.bar / odds.weights[-1][0]))


def runs_needed(rule: Rule) -> int:
    """Fewest runs, or open items, in which the condition of a share can hold at all."""
    square, share = judging.deviation(rule.confidence) ** 2, rule.threshold
    odds = share / (1 - share)
    return max(
        1, rule.minimum, math.floor(square * (1 / odds if rule.condition is Condition.SHARE_BELOW else odds)) + 1
    )


@dataclass(slots=True)
class _Seen:
    """What was seen of a rule and a scope."""

    most: int = 0
    needed: int = 0
    judged: int = 0
    fires: bool = False
    clears: bool = False
    usual: float | None = None
    reason: str = ""


_ByScope = dict[Scope, _Seen]


def _observe(evaluator: Evaluator, counts: Sequence[Count]) -> dict[str, _ByScope]:
    seen: dict[str, _ByScope] = defaultdict(lambda: defaultdict(_Seen))
    if not counts:
        return seen
    first, last = min(count.minute for count in counts), max(count.minute for count in counts)
    windows = evaluator.begin((first - 1) * MINUTE).windows
    windows.tell(counts, last)
    unsettled: dict[Lane, list[tuple[Ruled, _Seen]]] = {}
    while windows.clock < last:
        for lane in windows.advance():
            if not lane.sums.get(lane.track.over):
                continue
            if lane not in unsettled:
                unsettled[lane] = [(each, seen[each.rule.id][lane.scope]) for each in evaluator.ruled[lane.track]]
            if unsettled[lane]:
                for ruled, each in unsettled[lane]:
                    _observe_window(windows, ruled, lane, each)
                unsettled[lane] = [pair for pair in unsettled[lane] if not (pair[1].fires and pair[1].clears)]
    for rule, reach in evaluator.silences:
        for scope in windows.pasts[reach]:
            _observe_silence(rule, windows.past(reach, scope), last - first + 1, seen[rule.id][scope])
    return seen


def _observe_window(windows: Windows, ruled: Ruled, lane: Lane, seen: _Seen) -> None:
    rule, window = ruled.rule, lane.sums
    seen.usual = Evaluator.usual(windows, ruled, lane.scope, window)
    runs = window.get(str(rule.over), 0)
    seen.most = max(seen.most, runs)
    seen.fires = seen.fires or _could_fire(windows, ruled, lane, runs, seen)
    verdict = Evaluator.verdict(windows, ruled, lane, seen.usual, firing=True)
    seen.judged += verdict is not None
    seen.clears |= verdict is not None and not verdict.holds


def _could_fire(windows: Windows, ruled: Ruled, lane: Lane, runs: int, seen: _Seen) -> bool:
    """Whether a rule would fire if all runs of the window were hits, or none."""
    rule = ruled.rule
    if rule.condition is Condition.COUNT:
        return True
    if rule.condition is Condition.SURGE:
        needed = surge_needs(Evaluator.odds(windows, ruled, lane, seen.usual))
        seen.needed = needed or 0
        return needed is not None and runs >= needed
    hits = runs if rule.condition is Condition.SHARE else 0
    extreme = {str(rule.over): runs, str(rule.series): hits}
    could = judging.of_window(rule, extreme, judging.share_limit(rule, seen.usual), ruled.deviations, firing=False)
    return could is not None and could.holds


def _observe_silence(rule: Rule, past: Past, minutes: int, seen: _Seen) -> None:
    baseline, seen.clears = rule.baseline, True
    if baseline is None:
        return
    events = past.sums[str(rule.series)] * max(1.0, baseline.window_minutes / minutes)
    due = max(rule.threshold, baseline.factor * past.longest_silence())
    if events < baseline.minimum:
        seen.reason = (
            f"it needs {baseline.minimum:,} in {baseline.window_minutes:,} minutes, and about {events:,.0f} come"
        )
    elif due >= baseline.window_minutes - HOUR:
        seen.reason = f"it would wait {due:,.0f} minutes, and by then nothing is known of the past"
    else:
        seen.fires = True


def _observe_items(rules: Iterable[Rule], items: Sequence[OpenItem], seen: dict[str, _ByScope]) -> None:
    for rule in rules:
        for scope, group in _groups(rule, items).items():
            shares = rule.condition is Condition.PAST_DEADLINE
            counted = sum(item.deadline is not None for item in group) if shares else len(group)
            needed = runs_needed(rule) if shares else max(1, rule.minimum)
            kind = "open items with a deadline" if shares else "open items"
            reason = f"it needs {needed:,} {kind}, and there are {counted:,} now"
            seen[rule.id][scope] = _Seen(fires=counted >= needed, clears=True, reason=reason)


def _groups(rule: Rule, items: Sequence[OpenItem]) -> dict[Scope, list[OpenItem]]:
    groups: dict[Scope, list[OpenItem]] = defaultdict(list)
    view = View(rule.by, rule.where, rule.unless)
    for item in items:
        scope = view.of(item.scope) if item.what == rule.what else None
        if scope is not None:
            groups[scope].append(item)
    return groups


def _doubts(rule: Rule, seen: _ByScope) -> Iterator[Doubt]:
    if rule.series is not None and not seen:
        yield Doubt(rule.id, "fires", ((rule.where, "nothing that it looks at was seen"),), 0)
    silent = [(scope, _why_silent(rule, each)) for scope, each in sorted(seen.items()) if not each.fires]
    if silent:
        yield Doubt(rule.id, "fires", tuple(silent), len(seen))
    stuck = [scope for scope, each in sorted(seen.items()) if each.fires and not each.clears and each.judged >= _ENOUGH]
    if stuck:
        reason = "the condition held in every window that had enough runs to say so"
        yield Doubt(rule.id, "clears", tuple((scope, reason) for scope in stuck), len(seen))


def _why_silent(rule: Rule, seen: _Seen) -> str:
    if seen.reason:
        return seen.reason
    needed = seen.needed if rule.condition is Condition.SURGE else runs_needed(rule)
    if seen.most < needed:
        return f"it needs {needed:,} runs in its window, and the fullest window had {seen.most:,}"
    if seen.usual is None:
        return f"it needs {rule.baseline.minimum if rule.baseline else 0:,} runs in its past, and there are fewer"
    return f"a share of {seen.usual:.3g} is usual, and no window had enough runs to be beyond its limit"
