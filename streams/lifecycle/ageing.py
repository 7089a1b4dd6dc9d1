"""How old open items are, and what is late: functions of items and of the time, in microseconds.

A paused clock stands still: a review's age is the time since it was opened without its pauses, and its deadline moves
by them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from streams.lifecycle.items import OpenPartial, OpenReview


class Ages(NamedTuple):
    """Of a set of items: how many, and the oldest and the 95th percentile of their ages in microseconds (0 of none).

    The percentile is the nearest rank: an age that an item has.
    """

    total: int
    oldest_us: int
    p95_us: int


@dataclass(frozen=True)
class QueueAges:
    """One queue: ages, and how many of its items are past their deadline, will be within the horizon, are paused."""

    queue: str
    ages: Ages
    breached: int
    breaching: int
    paused: int
    obligations: int


class Due(NamedTuple):
    """Reviews past their deadline, and those that will be within the horizon; each list by deadline, soonest first."""

    breached: tuple[OpenReview, ...]
    breaching: tuple[OpenReview, ...]


def partial_age(partial: OpenPartial, now: int) -> int:
    """Time since the run ended, never negative."""
    return max(0, now - partial.opened_at)


def review_age(review: OpenReview, now: int) -> int:
    """Time that the review's clock ran, never negative."""
    until = now if review.paused_since is None else min(now, review.paused_since)
    return max(0, until - review.opened_at - review.paused_us)


def deadline_at(review: OpenReview, now: int) -> int | None:
    """When the review is late, as it looks now: a pause that lasts has moved it by its length so far."""
    if review.deadline is None or review.paused_since is None:
        return review.deadline
    return review.deadline + max(0, now - review.paused_since)


def is_breached(review: OpenReview, now: int) -> bool:
    """Whether the review is late: past its deadline, or given up by its queue."""
    deadline = deadline_at(review, now)
    return review.expired or (deadline is not None and deadline < now)


def due(reviews: Iterable[OpenReview], now: int, horizon_us: int) -> Due:
    """What is late at ``now``, and what will be within ``horizon_us``. A paused review will not, while it is paused."""
    ordered = sorted(reviews, key=lambda review: (_deadline_order(review, now), review.event))
    breached = tuple(review for review in ordered if is_breached(review, now))
    return Due(breached, tuple(review for review in ordered if _is_breaching(review, now, horizon_us)))


def _deadline_order(review: OpenReview, now: int) -> tuple[bool, int]:
    deadline = deadline_at(review, now)
    return deadline is None, deadline or 0


def _is_breaching(review: OpenReview, now: int, horizon_us: int) -> bool:
    if is_breached(review, now) or review.paused_since is not None or review.deadline is None:
        return False
    return review.deadline <= now + horizon_us


def ages_of(ages: Iterable[int]) -> Ages:
    """Count, oldest and 95th percentile."""
    ordered = sorted(ages)
    if not ordered:
        return Ages(0, 0, 0)
    return Ages(len(ordered), ordered[-1], ordered[-(-len(ordered) * 95 // 100) - 1])


def partial_ages(partials: Iterable[OpenPartial], now: int) -> Ages:
    """Ages of open partials."""
    return ages_of(partial_age(partial, now) for partial in partials)


def queue_ages(reviews: Iterable[OpenReview], now: int, horizon_us: int) -> list[QueueAges]:
    """Every queue that holds an open review, by name."""
    by_queue: dict[str, list[OpenReview]] = {}
    for review in reviews:
        by_queue.setdefault(review.queue, []).append(review)
    return [_queue_ages(queue, held, now, horizon_us) for queue, held in sorted(by_queue.items())]


def _queue_ages(queue: str, held: Sequence[OpenReview], now: int, horizon_us: int) -> QueueAges:
    late = due(held, now, horizon_us)
    return QueueAges(
        queue=queue,
        ages=ages_of(review_age(review, now) for review in held),
        breached=len(late.breached),
        breaching=len(late.breaching),
        paused=sum(review.paused_since is not None for review in held),
        obligations=sum(len(review.duties) for review in held),
    )
