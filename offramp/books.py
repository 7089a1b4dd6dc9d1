"""The audit of a deployment: its store against its broker, while workers go on."""

from offramp import streaming
from offramp.auditing import Audit, Broker, audit
from offramp.config import Settings
from schemas.types import LATEST
from sinks.store import Store
from streams.accounts import Log
from streams.clock import Clock

UNDER_WAY_US = 300_000_000
"""What was stored later, and has no ledger row yet, may be of a batch that is under way."""


def closed(settings: Settings, clock: Clock, store: Store, *, with_broker: bool) -> Audit:
    """Audit ``store``, and the logs of the configured broker if there is one and it is asked. Raises StoreError,
    BrokerError, ConfigurationError."""
    broker = broker_of(settings, clock) if with_broker else None
    return audit(store, settled_before=_settled_before(settings, clock), broker=broker)


def broker_of(settings: Settings, clock: Clock) -> Broker | None:
    """The configured broker, with every topic that the worker reads; None if none is configured."""
    kafka = settings.kafka
    if not kafka.servers:
        return None
    names = [topic.name for topic in streaming.topics(settings).inputs]
    return Broker(Log(streaming.client(kafka), clock, kafka.timeout_s), kafka.classify_group, names)


def _settled_before(settings: Settings, clock: Clock) -> int:
    """Workers write to a server meanwhile, and to an embedded store nobody."""
    return LATEST if settings.store.url is None else clock.now_micros() - UNDER_WAY_US
