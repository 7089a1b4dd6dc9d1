"""How long partials wait for their enrichment, and which enrichment is at fault, with those that still wait counted.

Looking at closed partials alone says that all is well just when nothing closes any more. So those still open count as
censored: known to take longer than they are old. What is at fault is asked of each component by itself: of those that
were missing in the window, how many would have come in it at the pace of the time before, and how many did.

Source: E. L. Kaplan, P. Meier, "Nonparametric estimation from incomplete observations", JASA 53 (1958).
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from math import fsum
from typing import Any, NamedTuple

MINUTE = 60_000_000


class Wait(NamedTuple):
    """One component that a partial left out: when it began to be missing, and when it came, None if it has not.

    ``until`` is how far it was watched: now, or when a later segment took the partial's place. ``failures`` is how
    often its enrichment was reported as failed.
    """

    component: str
    opened_at: int
    closed_at: int | None
    until: int
    failures: int = 0


class Span(NamedTuple):
    """How long something took, or that it took longer than that, in any unit."""

    length: int
    is_closed: bool


class Step(NamedTuple):
    """From ``length`` on, the share that is still open."""

    length: int
    open: float


class Curve(tuple[Step, ...]):
    """The Kaplan-Meier estimate of the share still open, by length."""

    __slots__ = ()

    def quantile(self, share: float) -> int | None:
        """The length at which at least ``share`` is closed; None while more than the rest is still open."""
        return next((step.length for step in self if step.open <= 1 - share + 1e-12), None)

    def chance(self, begin: int, end: int) -> float:
        """The probability that what is open at the length ``begin`` is closed at ``end``.

        1 where nothing has ever closed so late: what is older than all that ever came should have come.
        """
        if not self or begin >= self[-1].length:
            return 1.0
        return 1 - self._open(end) / self._open(begin)

    def _open(self, length: int) -> float:
        after = bisect_right(self, length, key=lambda step: step.length)
        return self[after - 1].open if after else 1.0


class Times(NamedTuple):
    """Time until half, and until 19 of 20, have come, what is open censored; None where that is not reached."""

    p50_us: int | None
    p95_us: int | None


class Overdue(NamedTuple):
    """A component in the window: how many should have come by now, how many came, and who still waits.

    ``usual`` are the times before the window, ``lately`` those of what began in it.
    """

    component: str
    expected: float
    came: int
    open: int
    oldest_us: int
    failures: int
    usual: Times
    lately: Times

    @property
    def missing(self) -> float:
        """How many more should have come; below 0 if it came more quickly than before."""
        return self.expected - self.came


class Ageing(NamedTuple):
    """Why partials are old: the components, the one that is most behind first, and the times of all."""

    components: tuple[Overdue, ...]
    open: int
    usual: Times
    lately: Times

    @property
    def named(self) -> Overdue | None:
        """The component that is most behind; None if nothing waits."""
        return self.components[0] if self.components and self.components[0].open else None

    @property
    def sentence(self) -> str:
        """The cause in words, with the numbers it rests on."""
        return _sentence(self)

    @property
    def contributors(self) -> tuple[tuple[str, float], ...]:
        """How many of each component should have come and did not."""
        return tuple((f"component {each.component}".rstrip(), each.missing) for each in self.components)


def waits_of(rows: Iterable[Mapping[str, Any]], now: int) -> list[Wait]:
    """Waits from rows with these columns, and ``superseded_at``, which ends the watching where it is set."""
    return [
        Wait(
            row["component"],
            row["opened_at"],
            row["closed_at"],
            now if row["superseded_at"] is None else min(now, row["superseded_at"]),
            row["failures"],
        )
        for row in rows
    ]


def curve(spans: Iterable[Span]) -> Curve:
    """The share still open by length. What is censored at a length was at risk at it. Without spans, no steps."""
    ordered = sorted(spans)
    at_risk, still, steps = len(ordered), 1.0, list[Step]()
    for length, group in groupby(ordered, key=lambda span: span.length):
        of_length = list(group)
        closed = sum(span.is_closed for span in of_length)
        if closed:
            still *= 1 - closed / at_risk
            steps.append(Step(length, still))
        at_risk -= len(of_length)
    return Curve(steps)


def ageing(waits: Iterable[Wait], since: int, now: int) -> Ageing:
    """Which component is behind in ``[since, now]``, by how quickly each came before ``since``.

    A component that never came before has no pace of its own, and is judged by that of all. Where nothing ever came,
    everything should have come.
    """
    known = [wait for wait in waits if wait.opened_at <= now]
    of: defaultdict[str, list[Wait]] = defaultdict(list)
    for wait in known:
        of[wait.component].append(wait)
    pace = _pace(known, since)
    found = [_overdue(name, each, _pace(each, since) or pace, since, now) for name, each in of.items()]
    found.sort(key=lambda each: (each.open == 0, -each.missing, -each.oldest_us, each.component))
    return Ageing(tuple(found), sum(each.open for each in found), _times(pace), _times(_lately(known, since, now)))


def _times(of: Curve) -> Times:
    return Times(of.quantile(0.5), of.quantile(0.95))


def _lately(waits: Iterable[Wait], since: int, now: int) -> Curve:
    """How quickly those came that began at ``since`` or later."""
    return curve(_span(wait, now) for wait in waits if wait.opened_at >= since)


def _span(wait: Wait, at: int) -> Span:
    """What is known of a wait ``at`` some time."""
    end = min(at, wait.until)
    if wait.closed_at is not None and wait.closed_at <= end:
        return Span(max(0, wait.closed_at - wait.opened_at), is_closed=True)
    return Span(max(0, end - wait.opened_at), is_closed=False)


def _pace(waits: Iterable[Wait], since: int) -> Curve:
    """How quickly components came before ``since``; what waited then is censored."""
    return curve(_span(wait, since) for wait in waits if wait.opened_at < since)


def _overdue(component: str, waits: Sequence[Wait], pace: Curve, since: int, now: int) -> Overdue:
    missing = [wait for wait in waits if not _span(wait, since).is_closed and wait.until > since]
    still = [wait for wait in waits if _is_open(wait, now)]
    return Overdue(
        component,
        fsum(pace.chance(max(0, since - wait.opened_at), min(wait.until, now) - wait.opened_at) for wait in missing),
        sum(_span(wait, now).is_closed for wait in missing),
        len(still),
        max((now - wait.opened_at for wait in still), default=0),
        sum(wait.failures for wait in still),
        _times(_pace(waits, since)),
        _times(_lately(waits, since, now)),
    )


def _is_open(wait: Wait, now: int) -> bool:
    return wait.until >= now and not _span(wait, now).is_closed


def _sentence(found: Ageing) -> str:
    named = found.named
    if named is None:
        return "No partial waits for a component."
    name = named.component or "(unnamed)"
    failed = f", {named.failures} reported as failed" if named.failures else ""
    waiting = f"{named.open} of {found.open} waits are for {name}, the oldest for {minutes(named.oldest_us)}{failed}"
    pace = f"{named.came} came where {named.expected:.1f} were to be expected"
    times = " and ".join(
        f"p{name} {minutes(usual)} before, {minutes(lately)} now"
        for name, usual, lately in zip(("50", "95"), named.usual, named.lately, strict=True)
    )
    return f"{waiting}. In the window {pace}. Time until it comes, open ones counted: {times}."


def minutes(length_us: int | None) -> str:
    """A length in minutes, for people; of one that is not reached, that it is not."""
    return "not reached" if length_us is None else f"{length_us // MINUTE:,} min"
