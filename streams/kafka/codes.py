"""What each of Kafka's numbered errors means to a caller: one table for every client library.

Numbers and names are Kafka's own (its protocol guide, "Error Codes"). A test fails when a library knows a number that
stands in none of these sets.
"""

from streams.kafka.errors import (
    BrokerError,
    BrokerRejected,
    BrokerUnavailable,
    GenerationLost,
    InstanceFenced,
    Rejection,
)

UNAVAILABLE = frozenset({
    -1, 5, 6, 7, 8, 9, 11, 13, 14, 15, 16, 19, 20,  # unknown server error, leaders, coordinators, replicas
    27, 41, 51, 55, 56, 57, 60,  # rebalance in progress, controller, storage, reassignment
    45, 46, 47, 49, 59,  # the idempotent producer lost its sequence: what was sent is unconfirmed
    70, 71, 72, 74, 75, 77, 78, 79, 80, 83, 88, 89,  # fetch sessions, epochs, elections, throttling
    98, 99, 100, 101, 102, 103, 106, 107, 108, 109, 111, 116, 122, 123, 129, 133,
})  # fmt: skip
"""Passes: retry with backoff."""

LOST = frozenset({22, 25, 110, 113})
"""Illegal generation, unknown member, and the same of the newer group protocol."""

FENCED = frozenset({82})
"""Another process has the same group.instance.id."""

REJECTED: dict[Rejection, frozenset[int]] = {
    Rejection.AUTHENTICATION: frozenset({33, 34, 54, 58, 61, 62, 63, 64, 66, 67, 93, 97}),
    Rejection.AUTHORIZATION: frozenset({29, 30, 31, 53, 65}),
    Rejection.UNKNOWN_TOPIC: frozenset({3}),
    Rejection.TOPIC_EXISTS: frozenset({36}),
    Rejection.UNKNOWN_GROUP: frozenset({69}),
    Rejection.TOO_LARGE: frozenset({10, 12, 18, 28, 118}),
    Rejection.BAD_DATA: frozenset({2, 32, 87}),
    Rejection.BAD_CONFIGURATION: frozenset({21, 23, 24, 26, 38, 39, 40, 44, 81, 112, 128}),
    Rejection.UNSUPPORTED: frozenset({35, 43, 73, 76, 114, 115}),
    Rejection.BAD_REQUEST: frozenset({
        1, 4, 17, 37, 42, 48, 50, 52, 68, 84, 85, 86, 90, 91, 92, 94, 95, 96,
        104, 105, 117, 119, 120, 121, 124, 125, 126, 127, 130, 131, 132,
    }),
}  # fmt: skip
"""Stays: what was asked is bad, or not allowed."""

_REASONS = {code: reason for reason, codes in REJECTED.items() for code in codes}

KNOWN = UNAVAILABLE | LOST | FENCED | frozenset(_REASONS)
"""Every number that has a meaning here."""


def error_of(code: int, message: str) -> BrokerError:
    """The error of the seam for one of Kafka's numbers. A number that is not known is refused as ``internal``."""
    if code in UNAVAILABLE:
        return BrokerUnavailable(message)
    if code in LOST:
        return GenerationLost(message)
    if code in FENCED:
        return InstanceFenced(message)
    return BrokerRejected(_REASONS.get(code, Rejection.INTERNAL), message)
