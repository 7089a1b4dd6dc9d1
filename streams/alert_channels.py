"""Who is told of alerts, and how each wants to be told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from alerts.model import Alert, Rule
from sinks.alertmanager import Alertmanager
from sinks.posting import DeliveryError
from sinks.webhook import Webhook
from streams.alert_forms import encoded, key_of, message, posted
from streams.kafka.errors import BrokerError
from streams.kafka.seam import Outgoing, Producer
from streams.outbox import Habit

UNDELIVERED = (DeliveryError, BrokerError)
"""What a channel raises if what it was given does not count as told."""
_LINGER_US = 15 * 60_000_000
"""For how long Alertmanager is told that something has ended, as Prometheus does."""
_POSTINGS = 4
"""Postings that have to fail before Alertmanager believes that something has ended."""


class Channel(Protocol):
    """Somebody to be told."""

    @property
    def habit(self) -> Habit:
        """How it wants to be told."""

    def send(self, alerts: Sequence[Alert], now: int) -> None:
        """Tell of alerts that fire or were resolved, oldest first. Raises one of :data:`UNDELIVERED`."""


@dataclass(frozen=True)
class ToAlertmanager:
    """Alertmanager is told what stands every ``resend_us``, each time for four times as long."""

    alertmanager: Alertmanager
    rules: Mapping[str, Rule]
    resend_us: int

    @property
    def habit(self) -> Habit:
        """Again and again, and for 15 minutes what has ended."""
        return Habit(self.resend_us, _LINGER_US)

    def send(self, alerts: Sequence[Alert], now: int) -> None:
        """Post them."""
        ends_at = now + _POSTINGS * self.resend_us
        self.alertmanager.send([posted(alert, self.rules.get(alert.rule), ends_at) for alert in alerts])


@dataclass(frozen=True)
class ToWebhook:
    """A webhook is told of beginning and end, and every ``repeat_us`` that it goes on."""

    webhook: Webhook
    repeat_us: int

    @property
    def habit(self) -> Habit:
        """Once, and now and then again."""
        return Habit(self.repeat_us)

    def send(self, alerts: Sequence[Alert], now: int) -> None:
        """Post them."""
        self.webhook.send([message(alert, now) for alert in alerts])


@dataclass(frozen=True)
class ToTopic:
    """The topic gets beginning and end, and every ``repeat_us`` that it goes on; confirmed within ``timeout_s``."""

    producer: Producer
    topic: str
    repeat_us: int
    timeout_s: float

    @property
    def habit(self) -> Habit:
        """Once, and now and then again."""
        return Habit(self.repeat_us)

    def send(self, alerts: Sequence[Alert], now: int) -> None:
        """Send them, and wait until they are written."""
        for alert in alerts:
            self.producer.send(Outgoing(self.topic, key_of(alert), encoded(alert, now)))
        self.producer.flush(self.timeout_s)
