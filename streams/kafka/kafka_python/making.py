"""Makes the library's objects so that one that cannot be made leaves nothing behind.

A constructor of the library that fails leaves its thread and its sockets running, where nobody can reach them: a worker
that asks for an hour whether the broker is back would have hundreds. It also forgets why it was not let in.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kafka import errors as library
from kafka.net.compat import KafkaNetClient

from streams.kafka.errors import BrokerError, BrokerUnavailable
from streams.kafka.kafka_python.errors import translated


def made(kind: Callable[..., Any], settings: Mapping[str, Any]) -> Any:
    """An object of the library. Raises BrokerUnavailable, BrokerRejected; then everything it began has ended."""
    networks: list[Any] = []

    def remembered(**configs: Any) -> Any:
        networks.append(KafkaNetClient(**configs))
        return networks[-1]

    try:
        return kind(kafka_client=remembered, **settings)
    except (library.KafkaError, OSError) as error:
        raise _why(error, networks, settings) from error


def _why(error: Exception, networks: list[Any], settings: Mapping[str, Any]) -> BrokerError:
    refusals = [refusal for network in networks for refusal in network._manager._auth_failures.values()]  # noqa: SLF001
    for network in networks:
        network.close()
    problem = translated(refusals[0] if refusals else error)
    if isinstance(problem, BrokerUnavailable) and "sasl_mechanism" in settings:
        return BrokerUnavailable(f"{problem}; a broker that refuses a user name or password may just hang up")
    return problem
