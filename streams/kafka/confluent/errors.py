"""The errors of librdkafka as the seam's. A test fails when it has a number that stands nowhere here."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from streams.kafka.codes import error_of
from streams.kafka.errors import (
    BrokerError,
    BrokerRejected,
    BrokerUnavailable,
    GenerationLost,
    InstanceFenced,
    Rejection,
)

UNAVAILABLE = frozenset({
    KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._MSG_TIMED_OUT, KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT, KafkaError._QUEUE_FULL, KafkaError._ISR_INSUFF, KafkaError._NODE_UPDATE,
    KafkaError._WAIT_COORD, KafkaError._IN_PROGRESS, KafkaError._PREV_IN_PROGRESS, KafkaError._TIMED_OUT_QUEUE,
    KafkaError._WAIT_CACHE, KafkaError._INTR, KafkaError._RETRY, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT,
    KafkaError._UNKNOWN_BROKER, KafkaError._DESTROY, KafkaError._DESTROY_BROKER, KafkaError._OUTDATED,
    KafkaError._CRIT_SYS_RESOURCE, KafkaError._FAIL, KafkaError._PARTIAL, KafkaError._PARTITION_EOF, KafkaError._NOOP,
    KafkaError._ASSIGN_PARTITIONS, KafkaError._REVOKE_PARTITIONS, KafkaError._STATE,
})  # fmt: skip
"""Numbers of the client itself that pass: retry."""

LOST = frozenset({KafkaError._ASSIGNMENT_LOST, KafkaError._MAX_POLL_EXCEEDED})
"""The member is out of its group."""

REJECTED: dict[Rejection, frozenset[int]] = {
    Rejection.AUTHENTICATION: frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL}),
    Rejection.UNKNOWN_TOPIC: frozenset({KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}),
    Rejection.UNKNOWN_GROUP: frozenset({KafkaError._UNKNOWN_GROUP}),
    Rejection.BAD_DATA: frozenset({KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError._UNDERFLOW}),
    Rejection.UNSUPPORTED: frozenset({KafkaError._UNSUPPORTED_FEATURE, KafkaError._NOT_IMPLEMENTED}),
    Rejection.BAD_CONFIGURATION: frozenset({
        KafkaError._UNKNOWN_PROTOCOL, KafkaError._NOT_CONFIGURED, KafkaError._FS, KafkaError._NOENT,
    }),
    Rejection.BAD_REQUEST: frozenset({
        KafkaError._INVALID_ARG, KafkaError._EXISTING_SUBSCRIPTION, KafkaError._CONFLICT, KafkaError._NO_OFFSET,
        KafkaError._KEY_SERIALIZATION, KafkaError._VALUE_SERIALIZATION, KafkaError._KEY_DESERIALIZATION,
        KafkaError._VALUE_DESERIALIZATION, KafkaError._READ_ONLY, KafkaError._INVALID_TYPE,
        KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION, KafkaError._INVALID_DIFFERENT_RECORD,
    }),
    Rejection.INTERNAL: frozenset({
        KafkaError._FATAL, KafkaError._INCONSISTENT, KafkaError._GAPLESS_GUARANTEE, KafkaError._APPLICATION,
        KafkaError._FENCED,
    }),
}  # fmt: skip
"""Numbers of the client itself that stay."""

_REASONS = {code: reason for reason, codes in REJECTED.items() for code in codes}
KNOWN = UNAVAILABLE | LOST | frozenset(_REASONS)
"""Every negative number that has a meaning here."""


def translated(error: KafkaError) -> BrokerError:
    """The seam's error for one of the library's."""
    code, message = error.code(), f"{error.name()}: {error.str()}"
    if code >= -1:
        return error_of(code, message)
    if code in UNAVAILABLE:
        return BrokerUnavailable(message)
    if code in LOST:
        return GenerationLost(message)
    return BrokerRejected(_REASONS.get(code, Rejection.INTERNAL), message)


class Problems:
    """What the library only tells a callback: that it will not get in, or that another took its place.

    It goes on trying all the same, so its calls only time out; what was heard is the better answer. ``serve`` lets it
    call back, for at most so many seconds.
    """

    def __init__(self) -> None:
        self.heard: BrokerError | None = None
        self.serve: Callable[[float], object] = lambda _timeout_s: None

    def hear(self, error: KafkaError) -> None:
        """The library's ``error_cb``."""
        problem = translated(error)
        lasting = isinstance(problem, BrokerRejected) and problem.reason is Rejection.AUTHENTICATION
        if lasting or isinstance(problem, InstanceFenced):
            self.heard = problem

    @contextmanager
    def at_the_edge(self) -> Iterator[None]:
        """Raise the seam's errors in place of the library's."""
        try:
            yield
        except KafkaException as error:
            problem = translated(error.args[0])
            if isinstance(problem, BrokerUnavailable):
                self.serve(0)
                problem = self.heard or problem
            raise problem from error
