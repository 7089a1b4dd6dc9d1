"""The leader evaluates alerts, beside whatever else it is asked for.

An evaluation asks the store and tells receivers, so it runs in a thread and nothing waits for it; there is never more
than one. What is open is what the app knows, once it knows all of it; before, the store is asked.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from alerts.model import OpenItem, Scope
from streams.alert_metrics import Judged, alert_metrics_text
from streams.alerting import Alerting, Turn
from streams.lifecycle.ageing import deadline_at, is_breached
from streams.lifecycle.items import Item, OpenPartial, OpenReview
from streams.lifecycle.knowledge import OpenItems

if TYPE_CHECKING:
    from streams.lifecycle.app import Evaluation


@dataclass
class AlertTurns:
    """An evaluator of alerts for the app. ``run`` runs a turn elsewhere and awaits it."""

    alerting: Alerting
    run: Callable[[Callable[[], Turn]], Awaitable[Turn]]
    judged: Judged | None = None
    _under_way: "asyncio.Task[None] | None" = field(default=None, repr=False)

    async def __call__(self, evaluation: "Evaluation") -> None:
        """Begin a turn if none is under way. Raises what the last one raised: it was no outage."""
        if self._under_way is not None:
            if not self._under_way.done():
                return
            self._under_way.result()
        self._under_way = asyncio.get_running_loop().create_task(self._turn(evaluation))

    async def _turn(self, evaluation: "Evaluation") -> None:
        now, items, complete = evaluation.now, evaluation.items, evaluation.complete
        turn = await self.run(lambda: self.alerting.turn(now, open_items(items, now) if complete else None))
        self.judged = Judged(turn, now)

    def metrics(self) -> str:
        """Of the last turn, as Prometheus text."""
        return alert_metrics_text(self.alerting.rules, self.alerting.channels, self.judged)


def open_items(items: OpenItems, now: int) -> list[OpenItem]:
    """Open items as alerts are judged by them."""
    return [_partial(partial) for partial in items.partials] + [_review(review, now) for review in items.reviews]


def _partial(partial: OpenPartial) -> OpenItem:
    return OpenItem(
        what="partial",
        scope=_scope(partial, ""),
        event_id=partial.event_id,
        run_id=partial.run_id,
        opened_at=partial.opened_at,
        deadline=None,
        paused_us=0,
        paused_since=None,
        overdue=False,
        reason_code=partial.reason_code,
        components=partial.missing,
    )


def _review(review: OpenReview, now: int) -> OpenItem:
    return OpenItem(
        what="review",
        scope=_scope(review, review.queue),
        event_id=review.event_id,
        run_id=review.run_id,
        opened_at=review.opened_at,
        deadline=deadline_at(review, now),
        paused_us=review.paused_us,
        paused_since=review.paused_since,
        overdue=is_breached(review, now),
        reason_code=review.reason_code,
        components=(),
    )


def _scope(item: Item, queue: str) -> Scope:
    return Scope(item.tenant, item.agent_id, item.workflow, queue)
