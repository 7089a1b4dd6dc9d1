"""Tells a webhook which alerts began, go on and ended: the messages of the topic ``exit-alerts``, some at a time.

A posting that was not confirmed is posted again, so a receiver may see a message twice. Its ``id`` is that of the alert
and the moment at which it began to fire: who has seen id and state has seen the message.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sinks.posting import Poster

_VERSION = 1


@dataclass(frozen=True)
class Webhook:
    """Posts ``{"version": 1, "alerts": [...]}`` to one address. Any status from 200 to 299 confirms all of them."""

    poster: Poster

    def send(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Post messages, oldest first. Raises DeliveryError: then none counts as told."""
        if messages:
            self.poster.post({"version": _VERSION, "alerts": list(messages)})
