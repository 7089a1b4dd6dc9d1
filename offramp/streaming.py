"""From settings to what streams: topics, the broker's client, the schema registry. Errors become the command's own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import SecretStr

from offramp.certificates import check_certificates
from offramp.config import KafkaSettings, RegistrySettings, Settings
from offramp.errors import ConfigurationError, CouldNotCheckError
from streams.clock import Clock
from streams.kafka.errors import BrokerError, BrokerRejected, Rejection, Unconfirmed
from streams.kafka.seam import Client, Connection, Security
from streams.registry import Registry, RegistryAccess, RegistryRejected, RegistryUnavailable
from streams.topics import Topics


def topics(settings: Settings, *, trial: bool = False) -> Topics:
    """The topics that the settings plan, or those of a trial."""
    return Topics.planned(settings.topics.sizing(trial=trial))


def connection(settings: KafkaSettings) -> Connection:
    """Which cluster, as whom. Raises ConfigurationError if no broker is configured, or a file cannot be read."""
    if not settings.servers:
        raise ConfigurationError("no broker is configured; set kafka.servers to host:port")
    check_certificates("kafka", settings.ca, settings.certificate, settings.key)
    security = Security(
        protocol=settings.protocol,
        sasl_mechanism=settings.sasl_mechanism,
        username=settings.username,
        password=_secret(settings.password),
        ca_file=_file(settings.ca),
        certificate_file=_file(settings.certificate),
        key_file=_file(settings.key),
        check_hostname=settings.check_hostname,
    )
    return Connection(tuple(settings.servers), settings.client_id, security, settings.timeout_s)


def client(settings: KafkaSettings) -> Client:
    """The client of the configured broker; nothing is connected yet. Raises ConfigurationError."""
    where = connection(settings)
    try:
        if settings.client == "confluent":
            from streams.kafka.confluent.client import ConfluentClient

            return ConfluentClient(where)
        from streams.kafka.kafka_python.client import KafkaPythonClient

        return KafkaPythonClient(where)
    except ImportError as error:
        reason = f"kafka.client {settings.client} is not installed ({error.name})"
        raise ConfigurationError(f"{reason}; install offramp[{_EXTRAS[settings.client]}]") from None


_EXTRAS = {"kafka-python": "kafka", "confluent": "confluent"}


def registry(settings: RegistrySettings, clock: Clock) -> Registry | None:
    """The schema registry, None if none is configured; nothing is asked yet. Raises ConfigurationError."""
    if settings.url is None:
        return None
    with reachable():
        access = RegistryAccess(
            url=settings.url,
            username=settings.username,
            password=_secret(settings.password),
            ca_file=_file(settings.ca),
            timeout_s=settings.timeout_s,
            unknown_for_s=settings.unknown_for_s,
        )
        return Registry(access, clock)


@contextmanager
def reachable() -> Iterator[None]:
    """Turn what broker and registry raise into the command's errors: an outage ends with 3, a refusal with 2."""
    try:
        yield
    except RegistryRejected as error:
        raise ConfigurationError(str(error)) from error
    except RegistryUnavailable as error:
        raise CouldNotCheckError(f"{error}; start it, or correct registry.url") from error
    except BrokerRejected as error:
        raise ConfigurationError(f"the broker refuses: {error.message}{_REMEDIES.get(error.reason, '')}") from error
    except Unconfirmed as error:
        raise CouldNotCheckError(str(error)) from error
    except BrokerError as error:
        raise CouldNotCheckError(f"the broker cannot be asked: {error}; start it, or correct kafka.servers") from error


_REMEDIES = {
    Rejection.AUTHENTICATION: "; correct kafka.username, kafka.password, kafka.sasl_mechanism or the certificates",
    Rejection.AUTHORIZATION: "; let kafka.username do what docs/how-to/set-up-topics.md lists under Access",
}
"""What to do where the message itself cannot know who asked."""


def _secret(given: SecretStr | None) -> str:
    return "" if given is None else given.get_secret_value()


def _file(given: Path | None) -> str:
    return "" if given is None else str(given)
