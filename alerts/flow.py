"""Why a queue ages: too little capacity, more runs, or rules that escalate more of them; and what will be late.

A queue grows by what arrives and is not decided. So its growth per hour is split into parts that sum to it: what was
decided less than before, and what already came too much before; what more runs bring; and what a greater share of
runs that escalate brings. Nothing here asks how long single reviews take, since that cannot be told from what people
do otherwise.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from alerts.model import OpenItem

HOUR = 3_600_000_000
_SHOWN = 5
_NOTHING = 1e-9


class Reason(StrEnum):
    """What makes a queue grow."""

    CAPACITY = "too little review capacity"
    ESCALATION = "over-broad escalation"
    TRAFFIC = "more runs"


class Arrivals(NamedTuple):
    """Items that came to the queue and are alike. ``is_current``: in the window, else before."""

    is_current: bool
    reason_code: str
    workflow: str
    n: int


class Flow(NamedTuple):
    """What went through a queue in ``length_us``: items that came, decisions, and runs that ended, escalated or not."""

    arrivals: int
    decisions: int
    runs: int
    length_us: int

    def per_hour(self, n: int) -> float:
        """A count as a rate; 0 where no time passed."""
        return n * HOUR / self.length_us if self.length_us > 0 else 0.0

    @property
    def growth(self) -> float:
        """Items per hour by which the queue grows; below 0 it shrinks."""
        return self.per_hour(self.arrivals - self.decisions)

    @property
    def escalated(self) -> float:
        """Items for each run."""
        return self.arrivals / self.runs if self.runs else 0.0


class Queue(NamedTuple):
    """What a queue does, and why. Rates are items per hour; ``parts`` sum to its growth, the largest first.

    ``arriving`` are the reason codes (with their workflow) that came more often than before, by how much an hour.
    ``clears_us`` is how long it takes until the queue is empty if all goes on, None if it never is. ``late_soon`` are
    those not late yet that will be by the end of the horizon, even if what is due first is decided first.
    """

    before: Flow
    now: Flow
    parts: tuple[tuple[Reason, float], ...]
    arriving: tuple[tuple[str, float], ...]
    waiting: int
    paused: int
    overdue: int
    clears_us: int | None
    late_soon: int
    horizon_us: int

    @property
    def named(self) -> Reason | None:
        """What makes it grow most; None while it does not grow."""
        return self.parts[0][0] if self.now.growth > _NOTHING else None

    @property
    def sentence(self) -> str:
        """The cause in words, with the numbers it rests on."""
        return _sentence(self)

    @property
    def contributors(self) -> tuple[tuple[str, float], ...]:
        """The parts of the growth, then what arrives more often, in items per hour."""
        return (*self.parts, *self.arriving)


class Windows(NamedTuple):
    """What is compared: the flow before and now, and the arrivals of both by reason and workflow."""

    before: Flow
    now: Flow
    arrivals: Sequence[Arrivals]


def queue(windows: Windows, items: Iterable[OpenItem], at: int, horizon_us: int) -> Queue:
    """Why the queue with these open items grows, and what will be late within ``horizon_us`` after ``at``."""
    waiting, now = list(items), windows.now
    running = [item for item in waiting if item.paused_since is None]
    decided = now.per_hour(now.decisions)
    return Queue(
        windows.before,
        now,
        _parts(windows.before, now),
        _arriving(windows),
        len(waiting),
        len(waiting) - len(running),
        sum(item.overdue for item in waiting),
        _clears(len(waiting), now),
        _late_soon(running, at, decided, horizon_us),
        horizon_us,
    )


def _parts(before: Flow, now: Flow) -> tuple[tuple[Reason, float], ...]:
    """The growth: what it was before, then the changes of decisions, of runs, and of the share that escalates."""
    if not before.length_us or not before.runs:
        # Nothing is known of before, so all that can be told is that more comes than is decided.
        return ((Reason.CAPACITY, now.growth),)
    runs = now.per_hour(now.runs), before.per_hour(before.runs)
    fewer = before.per_hour(before.decisions) - now.per_hour(now.decisions)
    parts = {
        Reason.CAPACITY: before.growth + fewer,
        Reason.TRAFFIC: (runs[0] - runs[1]) * (now.escalated + before.escalated) / 2,
        Reason.ESCALATION: (now.escalated - before.escalated) * (runs[0] + runs[1]) / 2,
    }
    if not now.runs:  # what came without a run, such as an item that was reassigned, is no share of runs
        parts[Reason.TRAFFIC] = now.per_hour(now.arrivals) - before.per_hour(before.arrivals)
        parts[Reason.ESCALATION] = 0.0
    return tuple(sorted(parts.items(), key=lambda part: (-part[1], part[0])))


def _arriving(windows: Windows) -> tuple[tuple[str, float], ...]:
    more: defaultdict[str, float] = defaultdict(float)
    for each in windows.arrivals:
        name = f"{each.reason_code} in {each.workflow}" if each.workflow else each.reason_code
        flow, sign = (windows.now, 1) if each.is_current else (windows.before, -1)
        more[name] += sign * flow.per_hour(each.n)
    grown = [(name, size) for name, size in more.items() if size > _NOTHING]
    return tuple(sorted(grown, key=lambda item: (-item[1], item[0]))[:_SHOWN])


def _clears(waiting: int, now: Flow) -> int | None:
    if not waiting:
        return 0
    return round(waiting * HOUR / -now.growth) if now.growth < -_NOTHING else None


def _late_soon(running: Iterable[OpenItem], at: int, decided: float, horizon_us: int) -> int:
    """Of those not late at ``at``, how many are not decided in time, by order of deadline; what has none goes last."""
    due = sorted(item.deadline for item in running if item.deadline is not None)
    each = HOUR / decided if decided > 0 else None
    return sum(
        at <= deadline <= at + horizon_us and (each is None or at + place * each > deadline)
        for place, deadline in enumerate(due, start=1)
    )


def _sentence(found: Queue) -> str:
    before, now = found.before, found.now
    rates = (
        f"{now.per_hour(now.arrivals):.1f} come and {now.per_hour(now.decisions):.1f} are decided an hour"
        f" (before: {before.per_hour(before.arrivals):.1f} and {before.per_hour(before.decisions):.1f})"
    )
    clears = "never clears at this rate" if found.clears_us is None else f"clears in {found.clears_us / HOUR:.1f} h"
    paused = f", {found.paused} paused" if found.paused else ""
    state = f"{found.waiting} wait{paused}, {found.overdue} past the deadline, {found.late_soon} more within"
    state += f" {found.horizon_us / HOUR:g} h; {clears}"
    if found.named is None:
        return f"{rates}. {state}. It does not grow."
    name, size = found.parts[0]
    most = f", most of all {found.arriving[0][0]}" if name is not Reason.CAPACITY and found.arriving else ""
    return f"{rates}. {name}{most}: {size:+.1f} of {now.growth:+.1f} an hour. {state}."
