"""From runs to tables: medians, ratios, percentiles. Pure."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from bench.stream.race import Result
from bench.stream.roster import Contestant

MB = 2**20


@dataclass(frozen=True)
class Summary:
    """Medians of a contestant's runs: events per second, microseconds of processor time per event, peak memory."""

    rate: float
    cpu_us: float
    peak_rss: float
    slowest: float
    fastest: float
    loads: tuple[float, float]


def summarise(results: Sequence[Result]) -> Summary:
    """Of the runs of one contestant, of which there must be one."""
    rates = [result.rate for result in results]
    loads = [result.load for result in results]
    return Summary(
        median(rates),
        median(result.cpu_us for result in results),
        median(result.peak_rss for result in results),
        min(rates),
        max(rates),
        (min(loads), max(loads)),
    )


def table(roster: Sequence[Contestant], results: Mapping[str, Sequence[Result]], yardstick: str) -> str:
    """One line a contestant, fastest first; ``ratio`` is the yardstick's rate to theirs, so above 1 it is faster."""
    found = {contestant: summarise(results[contestant.name]) for contestant in roster if results.get(contestant.name)}
    of = next((summary for contestant, summary in found.items() if contestant.name == yardstick), None)
    lines = [
        "| contestant | events/s | slowest, fastest | CPU µs/event | peak MB | offramp's rate to theirs |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for contestant, one in sorted(found.items(), key=lambda item: -item[1].rate):
        ratio = f"{of.rate / one.rate:.2f}" if of else ""
        spread = f"{one.slowest:,.0f}, {one.fastest:,.0f}"
        measured = f"{one.rate:,.0f} | {spread} | {one.cpu_us:.0f} | {one.peak_rss / MB:,.0f}"
        lines.append(f"| {contestant.title} | {measured} | {ratio} |")
    return "\n".join(lines)


def latencies(appended_ms: Sequence[int], marks: Sequence[tuple[int, int]]) -> list[float]:
    """Seconds from append to visible row of each event of one partition, in order.

    ``marks`` are instants in microseconds and how many events were visible from then on. Raises ValueError if not all
    became visible.
    """
    counts = [count for _, count in marks]
    if not counts or counts[-1] < len(appended_ms):
        raise ValueError(f"{counts[-1] if counts else 0} of {len(appended_ms)} events became visible")
    return [marks[bisect_right(counts, index)][0] / 1e6 - at / 1e3 for index, at in enumerate(appended_ms)]


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that at least this share of the values does not exceed. Raises IndexError without values."""
    ordered = sorted(values)
    rank = -(-share * len(ordered) // 1)  # rounded up
    return ordered[max(int(rank) - 1, 0)]
