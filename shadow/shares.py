"""Shares with their intervals, differences of two of them, and agreement beside chance."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from shadow.statistics import Interval, wilson

_Z = 1.959963984540054
"""Quantile of the normal distribution for intervals of 95 %."""


@dataclass(frozen=True)
class Share:
    """``count`` of ``of``. Of nothing there is neither a share nor an interval."""

    count: int
    of: int

    @property
    def value(self) -> float | None:
        """Between 0 and 1; None of nothing."""
        return self.count / self.of if self.of else None

    @property
    def interval(self) -> Interval | None:
        """Wilson's; None of nothing."""
        return wilson(self.count, self.of) if self.of else None

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values; null where there is no share."""
        low, high = self.interval or (None, None)
        return {"count": self.count, "of": self.of, "share": self.value, "low": low, "high": high}


FEWEST = 10
"""Runs that a share must be of before a change of it is told: of fewer the interval of a difference is too short."""


class Change(StrEnum):
    """What can be said of two shares, the earlier and the later."""

    RISES = "rises"
    FALLS = "falls"
    UNCLEAR = "no clear change"
    UNKNOWN = "cannot be told"


def change(earlier: Share, later: Share) -> Change:
    """Whether the later share differs, by the interval of the difference; unknown where one is of fewer than FEWEST.

    Source: R. G. Newcombe, Interval estimation for the difference between independent proportions, 1998, method 10.
    """
    before, after = earlier.interval, later.interval
    if before is None or after is None or earlier.value is None or later.value is None:
        return Change.UNKNOWN
    if min(earlier.of, later.of) < FEWEST:
        return Change.UNKNOWN
    difference = later.value - earlier.value
    low = difference - math.hypot(later.value - after.low, before.high - earlier.value)
    high = difference + math.hypot(after.high - later.value, earlier.value - before.low)
    if low > 0:
        return Change.RISES
    return Change.FALLS if high < 0 else Change.UNCLEAR


class Kappa(NamedTuple):
    """Cohen's kappa: 1 is perfect agreement, 0 what chance gives, below it is worse than chance."""

    value: float
    low: float
    high: float


def kappa(cells: Mapping[tuple[str, str], int]) -> Kappa | None:
    """Agreement beyond chance of two who sort the same runs; ``cells`` counts runs by (first's, second's) choice.

    None where chance alone would agree always, or there are no runs. The interval is the one for large samples, cut at
    -1 and 1. Source: Fleiss, Cohen, Everitt, Large sample standard errors of kappa and weighted kappa, 1969, eq. 13.
    """
    total = sum(cells.values())
    shares = {pair: count / total for pair, count in cells.items() if count}
    firsts, seconds = _margins(shares)
    agreed = math.fsum(share for (first, second), share in shares.items() if first == second)
    chance = math.fsum(share * seconds.get(name, 0.0) for name, share in firsts.items())
    if not total or math.isclose(chance, 1.0):
        return None
    value = (agreed - chance) / (1 - chance)
    error = math.sqrt(max(0.0, _variance(shares, agreed, chance))) / ((1 - chance) ** 2 * math.sqrt(total))
    return Kappa(value, max(-1.0, value - _Z * error), min(1.0, value + _Z * error))


def _margins(shares: Mapping[tuple[str, str], float]) -> tuple[dict[str, float], dict[str, float]]:
    firsts, seconds = dict[str, float](), dict[str, float]()
    for (first, second), share in shares.items():
        firsts[first] = firsts.get(first, 0.0) + share
        seconds[second] = seconds.get(second, 0.0) + share
    return firsts, seconds


def _variance(shares: Mapping[tuple[str, str], float], agreed: float, chance: float) -> float:
    """The numerator of the variance, over which the number of runs and the room beside chance stand."""
    firsts, seconds = _margins(shares)

    def term(first: str, second: str) -> float:
        if first == second:
            return ((1 - chance) - (firsts[first] + seconds[first]) * (1 - agreed)) ** 2
        # How often the one chooses what the other chose, and the other way round.
        crossed = seconds.get(first, 0.0) + firsts.get(second, 0.0)
        return (1 - agreed) ** 2 * crossed**2

    terms = math.fsum(share * term(*pair) for pair, share in shares.items())
    return terms - (agreed * chance - 2 * chance + agreed) ** 2
