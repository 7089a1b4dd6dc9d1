"""Bounds on rates: an interval for one look, and a confidence sequence that holds however often one looks.

A rate is a number of cases among trials, each of which is one or is none. Nothing here reads anything, and nothing
knows what a trial is.

Sources: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927).
H. Robbins, "Statistical methods related to the law of the iterated logarithm", Annals of Mathematical Statistics 41
(1970): the mixture martingale. S. R. Howard, A. Ramdas, J. McAuliffe, J. Sekhon, "Time-uniform, nonparametric,
nonasymptotic confidence sequences", Annals of Statistics 49 (2021): its conjugate form for Bernoulli trials.
"""

from collections.abc import Callable
from math import ceil, inf, isfinite, lgamma, log, log1p, sqrt
from statistics import NormalDist
from typing import NamedTuple

_A, _B = 0.5, 24.5
"""The mixture's weights over rates, Beta(a, b): fixed in advance, and most on a few in a hundred, because the rates
that are bounded here should be small. Any choice is valid. This one only says where the bounds are tightest."""
_MOST = 2**40
"""Trials beyond which nobody waits."""
_HALVINGS = 60


class Interval(NamedTuple):
    """Lowest and highest rate, 0 to 1, that the counts do not rule out."""

    low: float
    high: float


NOTHING_KNOWN = Interval(0.0, 1.0)


def wilson(successes: int, trials: int, level: float = 0.95) -> Interval:
    """Wilson's score interval for a share, for one look at the counts. Without trials nothing is ruled out.

    Over many looks it is wrong more often than ``1 - level``; that is what :func:`bounds` is for. Raises ValueError for
    counts that are none.
    """
    _check(successes, trials)
    if not trials:
        return NOTHING_KNOWN
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, spread = successes / trials, z * z / trials
    centre = (share + spread / 2) / (1 + spread)
    half = sqrt(share * (1 - share) * spread + spread * spread / 4) / (1 + spread)
    # At the ends exactly, where rounding would leave them off by the last digit.
    low = centre - half if successes else 0.0
    high = centre + half if successes < trials else 1.0
    return Interval(min(low, share), max(high, share))


def log_wealth(cases: float, trials: float, rate: float) -> float:
    """What a bettor against ``rate`` has won, as natural logarithm: the mixture martingale of Beta(a, b) over rates.

    Where each trial is a case with probability ``rate``, whatever came before, this capital begins with 1 and stays 1
    on average, so that by Ville's inequality it ever reaches ``1 / alpha`` with probability ``alpha`` at most.
    ``cases`` may be a fraction, for what is expected.
    """
    others = trials - cases
    mixed = _log_beta(_A + cases, _B + others) - _log_beta(_A, _B)
    return mixed - _times_log(cases, rate) - _times_log(others, 1 - rate)


def bounds(cases: int, trials: int, alpha: float) -> Interval:
    """The confidence sequence after ``trials``: with probability ``1 - alpha`` it holds the rate at every look.

    It is the set of rates against which the capital has never reached ``1 / alpha`` now; an interval, because the
    capital is convex in the rate and least at the share that was seen. Raises ValueError for counts that are none, and
    for an ``alpha`` outside (0, 1).
    """
    _check(cases, trials)
    most = _log_threshold(alpha)
    if not trials:
        return NOTHING_KNOWN

    def ruled_out(rate: float) -> bool:
        return log_wealth(cases, trials, rate) >= most

    share = cases / trials
    return Interval(_edge(share, 0.0, ruled_out), _edge(share, 1.0, ruled_out))


def is_below(cases: float, trials: float, limit: float, alpha: float) -> bool:
    """Whether the upper bound of the confidence sequence is below ``limit``."""
    return cases < limit * trials and log_wealth(cases, trials, limit) >= _log_threshold(alpha)


def is_above(cases: float, trials: float, limit: float, alpha: float) -> bool:
    """Whether the lower bound of the confidence sequence is above ``limit``."""
    return cases > limit * trials and log_wealth(cases, trials, limit) >= _log_threshold(alpha)


def further_trials(cases: int, trials: int, limit: float, alpha: float) -> int | None:
    """How many more trials put the upper bound below ``limit``, if cases go on at the rate seen so far.

    0 if it is there already; None if it will not be, because the rate is not below the limit, or so near that nobody
    waits for it. Without any trial the rate counts as 0, so the answer is the least there can be. Raises as
    :func:`bounds`.
    """
    _check(cases, trials)
    rate = cases / trials if trials else 0.0

    def enough(more: int) -> bool:
        return is_below(cases + rate * more, trials + more, limit, alpha)

    if enough(0):
        return 0
    if rate >= limit:
        return None
    # Once it is enough it stays so: the capital grows with the trials, but for a logarithm.
    high = 1
    while not enough(high):
        high *= 2
        if high > _MOST:
            return None
    return _first(enough, high // 2, high)


def scaled(number: int, part: int, whole: int) -> int | None:
    """How many of ``whole`` it takes for ``number`` of ``part``, at the share seen so far; None without any part."""
    return ceil(number * whole / part) if part else None


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The least number behind ``low``, and up to ``high``, for which it holds, as it does for ``high``."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _edge(inside: float, outside: float, ruled_out: Callable[[float], bool]) -> float:
    """Where ruling out begins between a rate that is not ruled out and an end of the scale; the end if nowhere."""
    if inside == outside or not ruled_out(outside):
        return outside
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if ruled_out(middle) else (middle, outside)
    return outside


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def _times_log(count: float, rate: float) -> float:
    """``count`` times the logarithm of ``rate``, where nothing times anything is nothing."""
    if not count:
        return 0.0
    return count * (log(rate) if rate < 0.5 else log1p(rate - 1)) if rate > 0 else -inf


def _log_threshold(alpha: float) -> float:
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1, not {alpha}")
    return -log(alpha)


def _check(cases: float, trials: float) -> None:
    if not (isfinite(trials) and 0 <= cases <= trials):
        raise ValueError(f"there cannot be {cases} cases in {trials} trials")
