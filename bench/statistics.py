"""Whether the bounds on rates keep what they state under daily looking: ``python -m bench.statistics``.

Streams of runs whose rate is known are looked at every day. Counted is how many are ever wrong, on any day: the true
rate outside the bounds, and, where the true rate is exactly the limit, readiness declared. Beside it stands Wilson's
interval under the same looks, which is what the bounds are for. Then, for rates below the limit, how long it takes.
Ends with 1 if a stated error rate does not hold: if it is exceeded by more than chance explains.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import log
from multiprocessing import Pool
from random import Random
from statistics import NormalDist

from shadow.statistics import further_trials, is_below, log_wealth, wilson

ALPHA = 0.05
LIMIT = 0.05
DAYS = 200
RUNS_A_DAY = 10
RATES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 0.5)
_DOUBT = 0.001
"""Probability with which chance alone may make the benchmark fail, per row of its table."""


@dataclass(frozen=True)
class Stream:
    """What became of one stream: whether the rate was ever outside the bounds or Wilson's interval, on which day it was
    first ready, and how many runs were said to be needed after the first 50."""

    missed: bool
    missed_by_wilson: bool
    ready_on: int | None
    forecast: int | None


@dataclass(frozen=True)
class Found:
    """All streams of one rate."""

    rate: float
    streams: tuple[Stream, ...]

    @property
    def missed(self) -> int:
        """Streams whose rate was ever outside the bounds."""
        return sum(stream.missed for stream in self.streams)

    @property
    def missed_by_wilson(self) -> int:
        """Streams whose rate was ever outside Wilson's interval."""
        return sum(stream.missed_by_wilson for stream in self.streams)

    @property
    def ready(self) -> int:
        """Streams that were ever said to be below the limit."""
        return sum(stream.ready_on is not None for stream in self.streams)

    @property
    def wrongly_ready(self) -> int:
        """The same, where the rate is not below the limit."""
        return self.ready if self.rate >= LIMIT else 0

    @property
    def median_runs(self) -> int | None:
        """Runs after which half of the streams were ready; None if half never were."""
        days = sorted(stream.ready_on or DAYS + 1 for stream in self.streams)
        middle = days[len(days) // 2]
        return middle * RUNS_A_DAY if middle <= DAYS else None

    @property
    def median_forecast(self) -> int | None:
        """Runs that were said to be needed in all, after the first 50: the median, None where it is never."""
        said = sorted((stream.forecast is None, stream.forecast or 0) for stream in self.streams)
        never, middle = said[len(said) // 2]
        return None if never else middle

    @property
    def holds(self) -> bool:
        """Whether no stated error rate is exceeded by more than chance explains."""
        return max(self.missed, self.wrongly_ready) <= most_by_chance(len(self.streams), ALPHA)


def most_by_chance(streams: int, alpha: float) -> float:
    """Errors that as many streams may show where each errs with probability ``alpha``."""
    return streams * alpha + NormalDist().inv_cdf(1 - _DOUBT) * (streams * alpha * (1 - alpha)) ** 0.5


def looks(rng: Random, rate: float) -> Iterator[tuple[int, int]]:
    """Cases and trials at the end of each day."""
    cases = 0
    for day in range(1, DAYS + 1):
        cases += sum(rng.random() < rate for _ in range(RUNS_A_DAY))
        yield cases, day * RUNS_A_DAY


def watch(rate: float, seed: int) -> Stream:
    """Look at one stream every day."""
    missed = missed_by_wilson = False
    ready_on = forecast = None
    for cases, trials in looks(Random(seed), rate):
        missed = missed or log_wealth(cases, trials, rate) >= -log(ALPHA)
        if not missed_by_wilson:
            low, high = wilson(cases, trials, 1 - ALPHA)
            missed_by_wilson = not low <= rate <= high
        if ready_on is None and is_below(cases, trials, LIMIT, ALPHA):
            ready_on = trials // RUNS_A_DAY
        if trials == 50:
            more = further_trials(cases, trials, LIMIT, ALPHA)
            forecast = None if more is None else trials + more
    return Stream(missed, missed_by_wilson, ready_on, forecast)


def _watch(task: tuple[float, int]) -> Stream:
    return watch(*task)


def simulate(rate: float, streams: int, seed: int, processes: int = 1) -> Found:
    """Look at so many streams of one rate."""
    tasks = [(rate, seed * 1_000_003 + number) for number in range(streams)]
    if processes == 1:
        return Found(rate, tuple(map(_watch, tasks)))
    with Pool(processes) as pool:
        return Found(rate, tuple(pool.map(_watch, tasks, chunksize=250)))


def line(found: Found) -> str:
    """One row of the table."""
    n = len(found.streams)
    runs, forecast = (f"{number:,}" if number else "never" for number in (found.median_runs, found.median_forecast))
    verdict = "pass" if found.holds else "FAIL"
    return (
        f"{verdict}  {found.rate:6.1%} {found.missed / n:9.2%} {found.missed_by_wilson / n:9.1%} "
        f"{found.ready / n:9.2%} {runs:>9} {forecast:>9}"
    )


def main() -> None:
    """Simulate as the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m bench.statistics", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--streams", type=int, default=10_000, help="streams per rate")
    parser.add_argument("--seed", type=int, default=1, help="seed of the streams")
    parser.add_argument("--processes", type=int, default=1, help="processes that share the work")
    options = parser.parse_args()
    print(
        f"{options.streams:,} streams per rate, {DAYS} days of {RUNS_A_DAY} runs, a look every day; "
        f"alpha {ALPHA:.0%}, limit {LIMIT:.0%}\n\n"
        f"{'':4}  {'rate':>6} {'missed':>9} {'by Wilson':>9} {'ready':>9} {'half by':>9} {'forecast':>9}"
    )
    held = True
    for rate in RATES:
        found = simulate(rate, options.streams, options.seed, options.processes)
        print(line(found), flush=True)
        held = held and found.holds
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
