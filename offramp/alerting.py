"""The loop of alerts, wired: rules, store, receivers; and alone, without the lifecycle app."""

import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from threading import Event
from types import FrameType
from typing import Any
from uuid import uuid4

from pydantic import SecretStr

from alerts.rules import RuleBook
from offramp.alert_rules import book
from offramp.books import closed
from offramp.config import AlertsSettings
from offramp.errors import ConfigurationError
from offramp.session import Session, server
from offramp.streaming import client, reachable, topics
from sinks.alert_causes import AlertCausesReader
from sinks.alertmanager import Alertmanager
from sinks.alerts import AlertsStore
from sinks.errors import StoreBusy
from sinks.posting import DeliveryRefused, Poster, Receiver
from sinks.server import open_server
from sinks.store import Store
from sinks.webhook import Webhook
from streams.alert_causes import with_cause
from streams.alert_channels import Channel, ToAlertmanager, ToTopic, ToWebhook
from streams.alert_history import OpenNow
from streams.alert_store import StoredReadings, StoredShelf
from streams.alerting import Alerting, Pace
from streams.lag import Lag
from streams.logs import log_to
from streams.watch import Watch

_VERB = "run lifecycle"
_CAUSE_S = 10
"""Seconds that one question for a cause may take."""
_log = logging.getLogger(__name__)


def run_alerts(session: Session) -> int:
    """Evaluate alerts until it is told to end, from the store alone; the exit status.

    An embedded store is opened for each turn, so that others can write it in between. Raises ConfigurationError for
    rules or receivers that cannot be used, and CouldNotCheckError where there is no store.
    """
    log_to(sys.stderr)
    pause_s, clock = session.settings.lifecycle.evaluate_s, session.clock
    rules, open_now = chosen_rules(session), OpenNow()

    def with_store(act: Callable[[], object]) -> None:
        """Do something with the store open. While somebody else has it, nothing is done."""
        try:
            with opened() as store:
                if session.settings.store.url is None:
                    _read_from(alerting, store, store, rules.digest, open_now)
                act()
        except StoreBusy as error:
            _log.warning("alerts not evaluated; tried again", extra={"error": str(error)})

    with _opening(session) as opened, _ended() as ended, ExitStack() as stack:
        with opened() as store:
            alerting = stack.enter_context(evaluating(session, store, rules))
        while not ended.is_set():
            with_store(lambda: alerting.turn(clock.now_micros()))
            ended.wait(pause_s)
        with_store(lambda: alerting.end(clock.now_micros()))
    return 0


_Opened = Callable[[], AbstractContextManager[Store]]


@contextmanager
def _opening(session: Session) -> Iterator[_Opened]:
    """How the store is opened for a turn. One on a server stays open."""
    if session.settings.store.url is None:
        yield lambda: session.existing_store(_VERB)
        return
    with session.existing_store(_VERB) as store:
        yield lambda: nullcontext(store)


@contextmanager
def _ended() -> Iterator[Event]:
    """Set by SIGTERM or Ctrl-C. The first lets the turn at hand end; the second ends at once."""
    came, numbers = Event(), (signal.SIGINT, signal.SIGTERM)
    before: dict[int, Any] = {number: signal.getsignal(number) for number in numbers}

    def note(number: int, _frame: FrameType | None) -> None:
        came.set()
        signal.signal(number, before[number])

    for number in numbers:
        signal.signal(number, note)
    try:
        yield came
    finally:
        for number in numbers:
            signal.signal(number, before[number])


def chosen_rules(session: Session) -> RuleBook:
    """The alert rules that the settings name. Raises ConfigurationError if they cannot be used."""
    return book(session.settings.alerts.rules)


@contextmanager
def evaluating(session: Session, store: Store, rules: RuleBook) -> Iterator[Alerting]:
    """An evaluator by the settings, which nothing asked yet. Raises ConfigurationError for receivers that cannot be
    used."""
    settings = session.settings.alerts
    with ExitStack() as stack:
        alerting = Alerting(
            rules=rules.rules,
            readings=StoredReadings(AlertsStore(store)),
            shelf=StoredShelf(AlertsStore(store), rules.digest),
            channels=_channels(session, rules, stack),
            holder=uuid4().hex,
            lag=_lag(session, stack),
            pace=Pace(lease_us=_micros(settings.lease_s), overlap_us=_micros(session.settings.lifecycle.overlap_s)),
        )
        _read_from(alerting, store, stack.enter_context(_impatient(session, store)), rules.digest, OpenNow())
        if settings.audit_every_s and session.settings.store.url is not None:
            stack.enter_context(_audited(session, alerting))
        yield alerting


def _read_from(alerting: Alerting, store: Store, impatient: Store, digest: str, open_now: OpenNow) -> None:
    """Let an evaluator go on with a store that was opened anew; ``digest`` is that of its rules, ``open_now`` what it
    knows to be open."""
    stored, causes = AlertsStore(store), AlertCausesReader(impatient)
    alerting.readings, alerting.shelf = StoredReadings(stored, open_now), StoredShelf(stored, digest)
    alerting.explain = lambda alert, rule, items, now: with_cause(alert, rule, causes, items, now)


@contextmanager
def _impatient(session: Session, store: Store) -> Iterator[Store]:
    """The store, by a connection that waits for no answer for long: a page must not wait for its cause."""
    settings = session.settings.store
    if settings.url is None:
        yield store
        return
    where = replace(server(settings), timeout_s=min(_CAUSE_S, settings.timeout_s))
    with open_server(where, session.clock.now_micros) as opened:
        yield opened


@contextmanager
def _audited(session: Session, alerting: Alerting) -> Iterator[None]:
    """Let the one that evaluates audit the books now and then, by a connection of its own."""
    audits = _Audits(session, session.settings.alerts.audit_every_s)
    alerting.unaccounted = audits.unaccounted

    def ask() -> None:
        if alerting.leads:
            audits.ask()

    with Watch("the audit", ask, audits.every_s, session.clock).running():
        yield


@dataclass
class _Audits:
    """What the last audit could not account for, which is unknown once two have failed since."""

    session: Session
    every_s: float
    last: tuple[int, float] | None = None

    def ask(self) -> None:
        """Audit. Raises what store and broker raise."""
        settings, clock = self.session.settings, self.session.clock
        with open_server(server(settings.store), clock.now_micros) as store:
            found = closed(settings, clock, store, with_broker=True)
        self.last = found.unaccounted, clock.monotonic()

    def unaccounted(self) -> int | None:
        """Messages, None if nobody knows."""
        if self.last is None or self.session.clock.monotonic() - self.last[1] > 3 * self.every_s:
            return None
        return self.last[0]


def _lag(session: Session, stack: ExitStack) -> Callable[[], int | None]:
    """How far the workers are behind; unknown without a broker."""
    settings = session.settings
    if not settings.kafka.servers:
        return lambda: None
    inputs = [topic.name for topic in topics(settings).inputs]
    lag = Lag(client(settings.kafka), settings.kafka.classify_group, inputs)
    stack.callback(lag.close)
    return lag


def _channels(session: Session, rules: RuleBook, stack: ExitStack) -> dict[str, Channel]:
    settings, found = session.settings.alerts, dict[str, Channel]()
    by_id = {rule.id: rule for rule in rules.rules}
    for url in settings.alertmanager:
        poster = _poster(settings, "alerts.alertmanager", url, settings.alertmanager_token, stack)
        found[f"alertmanager {url}"] = ToAlertmanager(Alertmanager(poster), by_id, _micros(settings.resend_s))
    if settings.webhook is not None:
        url = settings.webhook.get_secret_value()
        poster = _poster(settings, "alerts.webhook", url, settings.webhook_token, stack)
        found["webhook"] = ToWebhook(Webhook(poster), _micros(settings.repeat_s))
    if settings.topic and session.settings.kafka.servers:
        found["topic"] = _topic(session, stack)
    return found


def _topic(session: Session, stack: ExitStack) -> ToTopic:
    settings = session.settings
    with reachable():
        producer = client(settings.kafka).producer()
    stack.callback(producer.close)
    name = topics(settings).exit_alerts.name
    return ToTopic(producer, name, _micros(settings.alerts.repeat_s), settings.alerts.timeout_s)


def _poster(settings: AlertsSettings, name: str, url: str, token: SecretStr | None, stack: ExitStack) -> Poster:
    try:
        poster = Poster(
            Receiver(
                url=url,
                token="" if token is None else token.get_secret_value(),
                ca_file="" if settings.ca is None else str(settings.ca),
                timeout_s=settings.timeout_s,
            )
        )
    except DeliveryRefused as error:
        raise ConfigurationError(f"{name}: {error}") from None
    stack.callback(poster.close)
    return poster


def _micros(seconds: float) -> int:
    return int(seconds * 1_000_000)
