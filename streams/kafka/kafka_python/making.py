"""Makes the library's objects so that one that cannot be made leaves nothing behind.

A constructor of the library that fails leaves its thread and its sockets running, where nobody can reach them: a worker
that asks for an hour whether the broker is back would have hundreds. It also forgets why it was not let in, and tells
its log alone why it reached nobody.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kafka import errors as library
from kafka.net.compat import KafkaNetClient

from streams.kafka.errors import BrokerError, BrokerRejected, BrokerUnavailable, Rejection
from streams.kafka.kafka_python.errors import translated

_LOG = logging.getLogger("kafka.net.manager")
_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"


def made(kind: Callable[..., Any], settings: Mapping[str, Any]) -> Any:
    """An object of the library. Raises BrokerUnavailable, BrokerRejected; then everything it began has ended."""
    networks: list[Any] = []

    def remembered(**configs: Any) -> Any:
        networks.append(KafkaNetClient(**configs))
        return networks[-1]

    with _heard() as failures:
        try:
            return kind(kafka_client=remembered, **settings)
        except (library.KafkaError, OSError) as error:
            refusals = [refusal for network in networks for refusal in network._manager._auth_failures.values()]  # noqa: SLF001
            for network in networks:
                network.close()
            raise _why(refusals[0] if refusals else error, failures, settings) from error


@contextmanager
def _heard() -> Iterator[list[Exception]]:
    """Why connections fail meanwhile; those of another client that connects at the same moment are among them."""
    failures: list[Exception] = []
    ear = _Ear(failures)
    _LOG.addHandler(ear)
    try:
        yield failures
    finally:
        _LOG.removeHandler(ear)


class _Ear(logging.Handler):
    def __init__(self, failures: list[Exception]) -> None:
        super().__init__(logging.WARNING)
        self._failures = failures

    def emit(self, record: logging.LogRecord) -> None:
        self._failures.extend(each for each in record.args or () if isinstance(each, Exception))


def _why(error: Exception, failures: list[Exception], settings: Mapping[str, Any]) -> BrokerError:
    """The first failure says more than that time has run out: those after it may be of waiting alone."""
    problem = translated(error)
    if isinstance(error, library.KafkaTimeoutError) and failures:
        reason = str(failures[0])
        if _UNTRUSTED in reason:
            return BrokerRejected(Rejection.AUTHENTICATION, reason)
        problem = BrokerUnavailable(f"none of {', '.join(settings['bootstrap_servers'])} answers: {reason}")
    if isinstance(problem, BrokerUnavailable) and "sasl_mechanism" in settings:
        return BrokerUnavailable(f"{problem}; a broker that refuses a user name or password may just hang up")
    return problem
