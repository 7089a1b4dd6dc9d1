"""Every error that a client library can raise has a meaning here, chosen and not fallen into."""

import copy
import inspect
import ssl

import kafka.consumer.fetcher
import kafka.coordinator.base  # noqa: F401 -- defines errors of its own
import pytest
from confluent_kafka import KafkaError
from kafka import errors as library

from streams.kafka import codes, errors
from streams.kafka.confluent import errors as confluent
from streams.kafka.errors import (
    BrokerError,
    BrokerRejected,
    BrokerUnavailable,
    GenerationLost,
    InstanceFenced,
    OffsetOutOfRange,
    Rejection,
    Unconfirmed,
)
from streams.kafka.kafka_python import errors as kafka_python
from streams.kafka.seam import TopicPartition


def kinds(base):
    return {base}.union(*(kinds(kind) for kind in base.__subclasses__()))


OURS = {"UnrecognizedBrokerError"}


@pytest.mark.parametrize("kind", sorted(kinds(library.KafkaError), key=lambda kind: kind.__name__))
def test_every_class_of_kafka_python_is_mapped(kind):
    if kind.__name__ in OURS or kind is library.NoError:
        return
    number = getattr(kind, "errno", None)
    by_number = isinstance(number, int) and number in codes.KNOWN
    by_class = kind in kafka_python.REJECTED or kind in kafka_python.UNAVAILABLE or kind in kafka_python.SPECIAL
    assert by_number or by_class, f"{kind.__name__} ({number}) means nothing yet"


def test_every_number_of_librdkafka_is_mapped():
    numbers = {
        value: name
        for name, value in inspect.getmembers(KafkaError, lambda value: isinstance(value, int))
        if name.isupper() or (name.startswith("_") and not name.startswith("__"))
    }
    unmapped = {name for number, name in numbers.items() if number not in codes.KNOWN | confluent.KNOWN}
    assert unmapped == {"NO_ERROR"}


def test_no_number_means_two_things():
    sets = [codes.UNAVAILABLE, codes.LOST, codes.FENCED, *codes.REJECTED.values()]
    assert sum(map(len, sets)) == len(codes.KNOWN)
    ours = [confluent.UNAVAILABLE, confluent.LOST, *confluent.REJECTED.values()]
    assert sum(map(len, ours)) == len(confluent.KNOWN)


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (library.NodeNotReadyError("x"), BrokerUnavailable, None),
        (library.KafkaTimeoutError("x"), BrokerUnavailable, None),
        (ConnectionRefusedError("x"), BrokerUnavailable, None),
        (ssl.SSLCertVerificationError("x"), BrokerRejected, Rejection.AUTHENTICATION),
        (library.NotCoordinatorError("x"), BrokerUnavailable, None),
        (library.CommitFailedError("x"), GenerationLost, None),
        (library.CommitFailedError(library.UnknownMemberIdError()), GenerationLost, None),
        (library.CommitFailedError(library.RebalanceInProgressError()), BrokerUnavailable, None),
        (library.RebalanceInProgressError("x"), BrokerUnavailable, None),
        (library.IllegalGenerationError("x"), GenerationLost, None),
        (library.FencedInstanceIdError("x"), InstanceFenced, None),
        (library.TopicAuthorizationFailedError("x"), BrokerRejected, Rejection.AUTHORIZATION),
        (library.UnknownTopicOrPartitionError("x"), BrokerRejected, Rejection.UNKNOWN_TOPIC),
        (library.MessageSizeTooLargeError("x"), BrokerRejected, Rejection.TOO_LARGE),
        (library.KafkaConfigurationError("x"), BrokerRejected, Rejection.BAD_CONFIGURATION),
        (library.for_code(9999)("x"), BrokerRejected, Rejection.INTERNAL),
    ],
)
def test_what_kafka_python_says_becomes_what_one_does_about_it(error, kind, reason):
    translated = kafka_python.translated(error)
    assert type(translated) is kind
    assert getattr(translated, "reason", None) == reason
    assert "x" in str(translated) or kind is not BrokerRejected


@pytest.mark.parametrize(
    ("code", "kind", "reason"),
    [
        (KafkaError._TRANSPORT, BrokerUnavailable, None),
        (KafkaError._ALL_BROKERS_DOWN, BrokerUnavailable, None),
        (KafkaError._ASSIGNMENT_LOST, GenerationLost, None),
        (KafkaError.UNKNOWN_MEMBER_ID, GenerationLost, None),
        (KafkaError.FENCED_INSTANCE_ID, InstanceFenced, None),
        (KafkaError._AUTHENTICATION, BrokerRejected, Rejection.AUTHENTICATION),
        (KafkaError.MSG_SIZE_TOO_LARGE, BrokerRejected, Rejection.TOO_LARGE),
        (KafkaError._FATAL, BrokerRejected, Rejection.INTERNAL),
    ],
)
def test_what_librdkafka_says_becomes_what_one_does_about_it(code, kind, reason):
    translated = confluent.translated(KafkaError(code))
    assert type(translated) is kind
    assert getattr(translated, "reason", None) == reason


def test_the_tree_is_the_one_that_is_drawn():
    drawn = [line.split("──")[1].split()[0] for line in errors.__doc__.splitlines() if "──" in line]
    assert {BrokerError.__name__, *drawn} == {kind.__name__ for kind in kinds(BrokerError)}
    assert issubclass(Unconfirmed, BrokerUnavailable)


def test_messages_say_place_reason_and_what_to_do():
    place = TopicPartition("events", 3)
    assert str(OffsetOutOfRange(place, 7, 10, 20)) == (
        "events[3]: offset 7 is out of range; the log holds offsets 10 to 19: seek to one of them, or to 20"
    )
    assert str(OffsetOutOfRange(place, None, 0, 0)) == (
        "events[3]: no start was given and none is committed; the log is empty: say where to start"
    )
    assert str(Unconfirmed([], 2.5)) == "0 messages were not confirmed within 2.5 s; check the broker, send again"
    assert str(BrokerRejected(Rejection.TOO_LARGE, "why")) == "too_large: why"


@pytest.mark.parametrize(
    "error",
    [
        OffsetOutOfRange(TopicPartition("events", 3), 7, 10, 20),
        BrokerRejected(Rejection.TOO_LARGE, "why"),
        Unconfirmed([], 2.5),
    ],
)
def test_errors_can_be_copied_and_so_pickled(error):
    assert vars(copy.copy(error)) == vars(error)
    assert str(copy.copy(error)) == str(error)
