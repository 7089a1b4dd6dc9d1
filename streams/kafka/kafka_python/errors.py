"""The library's errors as the seam's. A test fails when the library has one that stands nowhere here."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from kafka import errors as library
from kafka.consumer.fetcher import RecordTooLargeError
from kafka.coordinator.base import UnjoinedGroupException

from streams.kafka.codes import error_of
from streams.kafka.errors import BrokerError, BrokerRejected, BrokerUnavailable, GenerationLost, Rejection

UNAVAILABLE = (
    library.RetriableError,
    library.InvalidMetadataError,
    library.Cancelled,
    library.KafkaConnectionError,
    library.KafkaProtocolError,
    library.CorrelationIdError,
    library.InvalidReceiveError,
    library.KafkaTimeoutError,
    library.MetadataEmptyBrokerList,
    library.NodeNotReadyError,
    library.UnknownBrokerIdError,
    library.QuotaViolationError,
    library.StaleMetadata,
    library.TooManyInFlightRequests,
)
"""Errors of the client itself that pass: retry."""

REJECTED: dict[type[Exception], Rejection] = {
    library.IllegalArgumentError: Rejection.BAD_REQUEST,
    library.IllegalStateError: Rejection.BAD_REQUEST,
    library.KafkaConfigurationError: Rejection.BAD_CONFIGURATION,
    library.NoOffsetForPartitionError: Rejection.BAD_REQUEST,
    library.LogTruncationError: Rejection.BAD_REQUEST,
    library.UnrecognizedBrokerVersion: Rejection.UNSUPPORTED,
    library.UnsupportedCodecError: Rejection.UNSUPPORTED,
    library.TransactionAbortedError: Rejection.BAD_REQUEST,
    library.AuthorizationError: Rejection.AUTHORIZATION,
    library.BrokerResponseError: Rejection.INTERNAL,
    library.KafkaError: Rejection.INTERNAL,
}
"""Errors of the client itself that stay, and the bases that others are looked up by."""

SPECIAL = (library.CommitFailedError, RecordTooLargeError, UnjoinedGroupException)
"""A commit that failed; and two that the library keeps to itself with the brokers of today."""


def translated(error: Exception) -> BrokerError:
    """The seam's error for one of the library's, or for one of the network that came through it."""
    message = _message(error)
    if isinstance(error, library.CommitFailedError):
        return _commit_failed(error, message)
    if isinstance(error, library.BrokerResponseError) and isinstance(getattr(error, "errno", None), int):
        return error_of(error.errno, message)
    if isinstance(error, ssl.SSLCertVerificationError):
        return BrokerRejected(Rejection.AUTHENTICATION, message)
    if isinstance(error, (*UNAVAILABLE, OSError)):
        return BrokerUnavailable(message)
    reason = next((REJECTED[base] for base in type(error).__mro__ if base in REJECTED), Rejection.INTERNAL)
    return BrokerRejected(reason, message)


def _message(error: Exception) -> str:
    """Named by its kind once; some of the library's say it themselves."""
    kind, words = type(error).__name__, str(error)
    return words if kind in words else f"{kind}: {words}"


def _commit_failed(error: Exception, message: str) -> BrokerError:
    """A commit in the middle of a rebalance is only early; any other that failed came from a former member."""
    cause = error.args[0] if error.args else None
    if isinstance(cause, library.RebalanceInProgressError):
        return BrokerUnavailable("the group rebalances: poll, then commit again")
    return GenerationLost(message)


@contextmanager
def at_the_edge() -> Iterator[None]:
    """Raise the seam's errors in place of the library's."""
    try:
        yield
    except (library.KafkaError, OSError) as error:
        raise translated(error) from error
