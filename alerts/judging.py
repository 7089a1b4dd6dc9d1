"""Whether a rule's condition holds, and by what numbers. Nothing is remembered here."""

import math
from collections.abc import Mapping, Reversible, Sequence
from statistics import NormalDist
from typing import NamedTuple

from alerts.model import Condition, Gauge, OpenItem, Pulse, Rule
from alerts.windows import DAY, Lane, Past, Sums

MINUTE = 60_000_000
"""Microseconds."""
FEWEST = 3
"""Of one or two, no share can be said."""
_BETWEEN = (0.25, 0.5, 0.75)
"""Where, between the limit and everything, the shares lie that are held against what is usual."""


class Evidence(NamedTuple):
    """So many of so many runs since the beginning of a minute."""

    hits: int
    runs: int
    minute: int


class Verdict(NamedTuple):
    """Whether the condition holds, and the value that was held against the limit; what says so, where it is runs."""

    holds: bool
    value: float
    limit: float
    evidence: Evidence | None = None


def deviation(confidence: float) -> float:
    """Standard deviations that leave ``1 - confidence`` on one side."""
    return NormalDist().inv_cdf(confidence) if confidence > 0.5 else 0.0


def wilson(hits: int, runs: int, deviations: float) -> tuple[float, float]:
    """Wilson's bounds of a share; with none to count, anything is possible."""
    if runs <= 0:
        return 0.0, 1.0
    share, square = hits / runs, deviations * deviations
    middle = share + square / (2 * runs)
    reach = deviations * math.sqrt(max(0.0, share * (1 - share) / runs + square / (4 * runs * runs)))
    scale = 1 + square / runs
    return max(0.0, (middle - reach) / scale), min(1.0, (middle + reach) / scale)


def past_share(rule: Rule, past: Past, window: Mapping[str, int]) -> float | None:
    """The share in the scope's own past, without the window; None where the past is too small to say."""
    runs = past.sums.get(str(rule.over), 0) - window.get(str(rule.over), 0)
    hits = past.sums.get(str(rule.series), 0) - window.get(str(rule.series), 0)
    return hits / runs if rule.baseline and runs >= max(1, rule.baseline.minimum) else None


def share_limit(rule: Rule, usual: float | None) -> float:
    """The share from which on a rule holds: its threshold, and what is usual for the scope times the factor.

    Where that product would come near to everything, or beyond it, the rest up to everything is divided instead. A
    share that is too small for its scope needs a past to be told by; one that is too large only where the rule says so.
    """
    if rule.baseline is None:
        return rule.threshold
    factor = rule.baseline.factor
    if rule.condition is Condition.SHARE_BELOW:
        return 0.0 if usual is None else min(rule.threshold, usual / factor)
    if usual is None:
        return 1.0 if rule.baseline.needed else rule.threshold
    return max(rule.threshold, min(usual * factor, 1 - (1 - usual) / factor))


def of_window(  # noqa: PLR0913 -- what a window is judged by, each under its own name
    rule: Rule, window: Sums, limit: float, deviations: float, *, firing: bool, since: int | None = None
) -> Verdict | None:
    """What a window says; None if it has too few runs to say anything. ``since`` is the window's first minute with
    runs; of a share whose window is known, the runs are said.

    A rule that fires goes on while the share itself, not its bound, is beyond the limit, so that it does not flap.
    """
    hits, runs = window.get(str(rule.series), 0), window.get(str(rule.over), 0)
    if rule.condition is Condition.COUNT and hits >= rule.threshold:
        return Verdict(holds=True, value=float(hits), limit=rule.threshold)
    if runs < max(1, rule.minimum):
        return None
    if rule.condition is Condition.COUNT:
        return Verdict(holds=False, value=float(hits), limit=rule.threshold)
    low, high = wilson(hits, runs, 0.0 if firing else deviations)
    below = rule.condition is Condition.SHARE_BELOW
    evidence = None if since is None else Evidence(hits, runs, since)
    return Verdict(high < limit if below else low > limit, hits / runs, limit, evidence)


class Odds(NamedTuple):
    """What a surge is judged by: what a hit, and what another run, speaks for each greater share (logarithms of
    likelihood ratios), and how much has to be spoken for one of them."""

    weights: tuple[tuple[float, float], ...]
    bar: float


def odds(usual: float | None, limit: float, minutes: float) -> Odds | None:
    """The odds of a surge beyond ``limit``, at most once in so many minutes with runs by chance; None if nothing is
    beyond it.

    What is rarer than a quarter of the limit counts as that: a first few cases of what never was are no surge yet.
    Without a past, only what is beyond the limit itself is held against it.
    """
    if limit >= 1:
        return None
    null = limit if usual is None else max(usual, limit / 4)
    shares = [limit + (1 - limit) * part for part in _BETWEEN]
    weights = tuple((math.log(share / null), math.log((1 - share) / (1 - null))) for share in shares)
    return Odds(weights, math.log(len(weights) * max(1.0, minutes)))


def chance_minutes(rule: Rule, past: Past, window: Mapping[str, int], clock: int, *, known: bool) -> float:
    """Minutes with runs that the rule's ``chance_days`` have at the pace of the scope's past: at most as many as runs.

    Every minute, where the past is not ``known``.
    """
    oldest, days = past.oldest(), float(rule.chance_days * DAY)
    if oldest is None or not known:
        return days
    runs = past.sums.get(str(rule.over), 0) - window.get(str(rule.over), 0)
    return days * min(1.0, runs / max(1, clock - oldest))


def of_surge(rule: Rule, lane: Lane, limit: float, odds: Odds | None) -> Verdict | None:
    """Whether the runs since some minute of the window say that the share surged; None without runs.

    The likelihood ratio of a greater share to the usual one, taken since whichever minute it is greatest: Page's
    cumulative sum (Biometrika 41, 1954). Where the share is what is usual, these ratios sum over all beginnings to a
    martingale less the minutes that have runs, so that on average at least as many pass before the bar is reached.
    """
    runs, hits = lane.sums.get(str(rule.over), 0), lane.sums.get(str(rule.series), 0)
    if not runs:
        return None
    # With nothing but hits the last and greatest of the shares gains most: most windows are told apart by that.
    if odds is not None and hits * odds.weights[-1][0] >= odds.bar:
        found = _most_spoken(rule, lane.entries, limit, odds)
        if found is not None:
            return Verdict(holds=True, value=found.hits / found.runs, limit=limit, evidence=found)
    return Verdict(holds=False, value=hits / runs, limit=limit)


def _most_spoken(rule: Rule, entries: Reversible[tuple[int, Sums]], limit: float, odds: Odds) -> Evidence | None:
    """The runs that speak most for a surge; None if nothing reaches the bar."""
    series, over, hits, runs, most, found = str(rule.series), str(rule.over), 0, 0, odds.bar, None
    for minute, sums in reversed(entries):
        hits, runs = hits + sums.get(series, 0), runs + sums.get(over, 0)
        if hits >= FEWEST and hits > limit * runs:
            spoken = max(hits * hit + (runs - hits) * other for hit, other in odds.weights)
            if spoken >= most:
                most, found = spoken, Evidence(hits, runs, minute)
    return found


def of_surge_going_on(rule: Rule, entries: Reversible[tuple[int, Sums]], limit: float, clock: int) -> Verdict | None:
    """Whether a surge goes on: the share of the window's minutes, or of half its runs where these took longer, is
    beyond the limit. None if there are too few runs to say."""
    series, over, hits, runs, since = str(rule.series), str(rule.over), 0, 0, clock
    for minute, sums in reversed(entries):
        if minute <= clock - rule.window_minutes and runs >= rule.window_runs / 2:
            break
        hits, runs, since = hits + sums.get(series, 0), runs + sums.get(over, 0), minute
    if runs < FEWEST:
        return None
    return Verdict(hits > limit * runs, hits / runs, limit, Evidence(hits, runs, since))


def of_silence(rule: Rule, past: Past, clock: int) -> Verdict | None:
    """Whether nothing came for much longer than the longest silence of the scope's own past; None without a past.

    A past shorter than half the baseline is none: who has seen no night does not know that nights are silent.
    """
    newest, oldest, baseline = past.newest(), past.oldest(), rule.baseline
    if newest is None or oldest is None or baseline is None:
        return None
    silence = float(clock - newest)
    if silence < rule.threshold:
        return Verdict(holds=False, value=silence, limit=rule.threshold)
    if past.sums.get(str(rule.series), 0) < baseline.minimum or clock - oldest < baseline.window_minutes / 2:
        return None
    limit = max(rule.threshold, baseline.factor * past.longest_silence())
    return Verdict(silence >= limit, silence, limit)


def of_items(rule: Rule, items: Sequence[OpenItem], now: int, deviations: float, *, firing: bool) -> Verdict:
    """What the open items of one scope say. That there are few, or none, is known, and holds nothing."""
    if rule.condition is Condition.AGE:
        ages = sorted(age_minutes(item, now) for item in items)
        value = ages[math.ceil(rule.quantile * len(ages)) - 1] if ages else 0.0
        return Verdict(len(ages) >= max(1, rule.minimum) and value >= rule.threshold, value, rule.threshold)
    due = [item.overdue for item in items if item.deadline is not None]
    low, _ = wilson(sum(due), len(due), 0.0 if firing else deviations)
    value = sum(due) / len(due) if due else 0.0
    return Verdict(len(due) >= max(1, rule.minimum) and low > rule.threshold, value, rule.threshold)


def age_minutes(item: OpenItem, now: int) -> float:
    """How long an item has been open, without the time for which its clock stood still."""
    paused = item.paused_us + (max(0, now - item.paused_since) if item.paused_since is not None else 0)
    return max(0, now - item.opened_at - paused) / MINUTE


def of_pulse(rule: Rule, pulse: Pulse, now: int) -> Verdict | None:
    """What a gauge says; None if it cannot be read."""
    value = _reading(rule.gauge, pulse, now)
    if rule.condition is Condition.UNKNOWN:
        return Verdict(value is None, float(value is None), rule.threshold)
    return None if value is None else Verdict(value > rule.threshold, value, rule.threshold)


def _reading(gauge: Gauge | None, pulse: Pulse, now: int) -> float | None:
    if gauge is Gauge.NEWEST_EVENT_AGE:
        return None if pulse.newest_event_at is None else max(0, now - pulse.newest_event_at) / MINUTE
    if gauge is Gauge.LAG:
        return None if pulse.lag is None else float(pulse.lag)
    if gauge is Gauge.STORE_REFUSING:
        return None if pulse.store_refusing is None else float(pulse.store_refusing)
    if gauge is Gauge.UNACCOUNTED:
        return None if pulse.unaccounted is None else float(pulse.unaccounted)
    return None if pulse.clock_skew_us is None else abs(pulse.clock_skew_us) / 1_000_000
