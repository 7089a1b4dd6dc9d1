"""What the lifecycle app shows: open items as JSON, and as Prometheus text. Pure.

Labels are a closed set: queue names and states. Whoever asks after one event asks the page of open items.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from schemas.types import to_iso
from streams.lifecycle.ageing import (
    Ages,
    QueueAges,
    deadline_at,
    due,
    partial_age,
    partial_ages,
    queue_ages,
    review_age,
)
from streams.lifecycle.items import OpenPartial, OpenReview, Reversal
from streams.lifecycle.knowledge import OpenItems
from streams.lifecycle.lifecycle import Counts

MICROS = 1_000_000
OTHER = "other"
"""Label of all queues that the decision table does not have."""


@dataclass(frozen=True)
class Status:
    """How the process itself is: whether it saw the whole store, when last in microseconds, and whether it leads."""

    complete: bool
    leader: bool
    synced_at: int | None
    counts: Counts
    sizes: Mapping[str, int]


def items_page(items: OpenItems, now: int, horizon_us: int, limit: int) -> dict[str, Any]:
    """Open items in plain JSON values: totals, queues, and the oldest ``limit`` of each. Ages are in seconds."""
    late = due(items.reviews, now, horizon_us)
    return {
        "at": to_iso(now),
        "partials": _ages(partial_ages(items.partials, now)),
        "queues": [_queue(queue) for queue in queue_ages(items.reviews, now, horizon_us)],
        "oldest_partials": [_partial(one, now) for one in _oldest(items.partials, partial_age, now, limit)],
        "oldest_reviews": [_review(one, now) for one in _oldest(items.reviews, review_age, now, limit)],
        "breached": [_review(one, now) for one in late.breached[:limit]],
        "breaching": [_review(one, now) for one in late.breaching[:limit]],
        "reversals": [_reversal(one) for one in items.reversals[-limit:]],
    }


def _oldest(items: Sequence[Any], age: Any, now: int, limit: int) -> list[Any]:
    return sorted(items, key=lambda one: (-age(one, now), one.event))[:limit]


def _ages(ages: Ages) -> dict[str, Any]:
    return {"open": ages.total, "oldest_s": ages.oldest_us // MICROS, "p95_s": ages.p95_us // MICROS}


def _queue(queue: QueueAges) -> dict[str, Any]:
    counts = {name: getattr(queue, name) for name in ("breached", "breaching", "paused", "obligations")}
    return {"queue": queue.queue, **_ages(queue.ages), **counts}


def _partial(partial: OpenPartial, now: int) -> dict[str, Any]:
    return asdict(partial) | {"opened_at": to_iso(partial.opened_at), "age_s": partial_age(partial, now) // MICROS}


def _review(review: OpenReview, now: int) -> dict[str, Any]:
    deadline = deadline_at(review, now)
    return asdict(review) | {
        "opened_at": to_iso(review.opened_at),
        "age_s": review_age(review, now) // MICROS,
        "deadline": None if deadline is None else to_iso(deadline),
        "paused_since": None if review.paused_since is None else to_iso(review.paused_since),
        "duties": [duty._asdict() for duty in review.duties],
    }


def _reversal(reversal: Reversal) -> dict[str, Any]:
    return reversal._asdict() | {"at": to_iso(reversal.at)}


# --- Prometheus


def metrics_text(items: OpenItems, status: Status, queues: Iterable[str], now: int, horizon_us: int) -> str:
    """Everything as Prometheus text. ``queues`` are those of the decision table, shown with zeros where nothing waits;
    any other that a review was moved to counts as :data:`OTHER`, since whoever names it is not bound by the table."""
    known = {*queues, OTHER}
    reviews = [one if one.queue in known else replace(one, queue=OTHER) for one in items.reviews]
    by_queue = {queue.queue: queue for queue in queue_ages(reviews, now, horizon_us)}
    shown = [by_queue.get(name) or _empty(name) for name in sorted(known)]
    partials = partial_ages(items.partials, now)
    lines = [line for metric in _of_queues(shown) for line in metric]
    lines += gauge("offramp_open_partials", "Partials that lack a component", [({}, partials.total)])
    lines += gauge(
        "offramp_open_partial_age_seconds", "Age that this share of open partials has at most", _shares({}, partials)
    )
    failed = sum(bool(partial.failed) for partial in items.partials)
    lines += gauge("offramp_open_partials_failed", "Open partials with a failed enrichment", [({}, failed)])
    lines += [line for metric in _of_process(status, now) for line in metric]
    return "\n".join(lines) + "\n"


def _empty(name: str) -> QueueAges:
    return QueueAges(name, Ages(0, 0, 0), 0, 0, 0, 0)


_Sample = tuple[Mapping[str, str], float]


def _of_queues(queues: Sequence[QueueAges]) -> Iterable[list[str]]:
    for name, meaning in _QUEUE_METRICS.items():
        samples = [({"queue": queue.queue}, _value(queue, name)) for queue in queues]
        yield gauge(f"offramp_open_reviews{name}", meaning, samples)
    ages = [sample for queue in queues for sample in _shares({"queue": queue.queue}, queue.ages)]
    yield gauge(
        "offramp_open_review_age_seconds", "Age that this share of open reviews has at most, without their pauses", ages
    )


_QUEUE_METRICS = {
    "": "Reviews that wait for a decision or a deed",
    "_breached": "Open reviews past their deadline",
    "_breaching": "Open reviews whose deadline is near",
    "_paused": "Open reviews whose clock stands still",
    "_obligations": "Obligations that are owed",
}


def _value(queue: QueueAges, name: str) -> int:
    value: int = getattr(queue, name.removeprefix("_")) if name else queue.ages.total
    return value


def _shares(labels: Mapping[str, str], ages: Ages) -> list[_Sample]:
    found = {"0.95": ages.p95_us, "1": ages.oldest_us}
    return [({**labels, "share": share}, age / MICROS) for share, age in found.items()]


def _of_process(status: Status, now: int) -> Iterable[list[str]]:
    behind = 0.0 if status.synced_at is None else max(0, now - status.synced_at) / MICROS
    yield gauge("offramp_lifecycle_complete", "Whether the whole store was read", [({}, status.complete)])
    yield gauge("offramp_lifecycle_leader", "Whether this process evaluates alerts", [({}, status.leader)])
    yield gauge("offramp_lifecycle_store_age_seconds", "Time since the store was read", [({}, behind)])
    yield gauge("offramp_lifecycle_drift", "Items that the last rebuild changed", [({}, status.counts.drift)])
    sizes = [({"state": state}, size) for state, size in sorted(status.sizes.items())]
    yield gauge("offramp_lifecycle_held", "Runs, and notes without a run, in memory", sizes)
    for name, meaning in _TOTALS.items():
        yield _metric("counter", f"offramp_lifecycle_{name}_total", meaning, [({}, getattr(status.counts, name))])


_TOTALS = {
    "exits": "Messages read from exit-classifications",
    "notes": "Messages read from companion topics",
    "unreadable": "Messages that were none",
    "undecoded": "Messages left to the store, because the registry was out of reach",
    "syncs": "Readings of what was stored lately",
    "rebuilds": "Readings of everything that is open",
    "store_failures": "Readings that failed",
}


def gauge(name: str, meaning: str, samples: Sequence[_Sample]) -> list[str]:
    """A gauge as lines of Prometheus text, a sample for each set of labels."""
    return _metric("gauge", name, meaning, samples)


def _metric(kind: str, name: str, meaning: str, samples: Sequence[_Sample]) -> list[str]:
    lines = [f"{name}{_labels(labels)} {float(value):.15g}" for labels, value in samples]
    return [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}", *lines]


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
