"""TLS, passwords and permissions, by each client."""

import threading
from contextlib import closing
from dataclasses import replace

import pytest

from streams.kafka.errors import BrokerError, BrokerRejected, BrokerUnavailable, Rejection
from streams.kafka.kafka_python.client import KafkaPythonClient
from streams.kafka.seam import Outgoing, Security, TopicPartition
from tests.broker.certificates import make_certificates
from tests.contract.labs import create, read, values, write

WRONG = "hunter2"
WAYS = [
    ("PLAINTEXT", "PLAIN"),
    ("SSL", "PLAIN"),
    ("SASL_PLAINTEXT", "PLAIN"),
    ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
    ("SASL_SSL", "SCRAM-SHA-512"),
]

# kafka-python does not close a socket whose connection was refused or cut off.
pytestmark = pytest.mark.filterwarnings(r"ignore:[\s\S]*unclosed <s:pytest.PytestUnraisableExceptionWarning")


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_every_way_in(secured_broker, connect, fresh, protocol, mechanism):
    security = secured_broker.security(protocol, mechanism=mechanism)
    admin = connect(secured_broker.bootstrap)
    topic = fresh("events")
    create(admin, topic)
    if protocol == "SSL":  # whoever comes without a password is nobody, and nobody is a super user
        security = replace(security, certificate_file="", key_file="")
    client = connect(secured_broker.address(protocol), security=security)
    write(client, Outgoing(topic, b"k", b"v"))
    place = TopicPartition(topic, 0)
    with closing(client.reader([place])) as reader:
        reader.seek(place, 0)
        assert values(read(reader, 1)) == [b"v"]


def test_a_certificate_of_the_client_is_shown(secured_broker, connect, fresh):
    """Its name is none that may do anything, so that the refusal shows that it was read."""
    topic = fresh("events")
    create(connect(secured_broker.bootstrap), topic)
    shown = secured_broker.certificates
    security = replace(
        secured_broker.security("SSL"), certificate_file=str(shown.client_certificate), key_file=str(shown.client_key)
    )
    with pytest.raises(BrokerRejected) as refused:
        connect(secured_broker.address("SSL"), security=security, timeout_s=5).reader([TopicPartition(topic, 0)])
    assert refused.value.reason is Rejection.AUTHORIZATION


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_no_outage(secured_broker, connect, mechanism):
    security = replace(secured_broker.security("SASL_PLAINTEXT", mechanism=mechanism), password=WRONG)
    client = connect(secured_broker.address("SASL_PLAINTEXT"), security=security, timeout_s=3)
    before = threading.active_count()
    with pytest.raises((BrokerRejected, BrokerUnavailable)) as refused:
        client.admin()
    if isinstance(refused.value, BrokerRejected):
        assert refused.value.reason is Rejection.AUTHENTICATION
    else:  # kafka-python does not hear why it was cut off, and can only say so
        assert isinstance(client, KafkaPythonClient)
        assert "password" in str(refused.value)
    assert WRONG not in str(refused.value)
    assert threading.active_count() == before


def test_a_server_that_nobody_vouches_for_is_not_spoken_to(secured_broker, connect, tmp_path):
    stranger = make_certificates(tmp_path).authority
    security = replace(secured_broker.security("SSL"), ca_file=str(stranger))
    with pytest.raises(BrokerRejected, match=r"(?i)certificate.verify.failed") as refused:
        connect(secured_broker.address("SSL"), security=security, timeout_s=3).admin()
    assert refused.value.reason is Rejection.AUTHENTICATION


def test_who_may_not_is_told_so(secured_broker, connect, fresh):
    topic = fresh("events")
    create(connect(secured_broker.bootstrap), topic)
    guest = secured_broker.security("SASL_PLAINTEXT", user="guest")
    client = connect(secured_broker.address("SASL_PLAINTEXT"), security=guest, timeout_s=5)
    with closing(client.producer()) as producer, pytest.raises(BrokerError) as refused:
        producer.send(Outgoing(topic, b"k", b"v")).result(5)
    assert refused.value.reason is Rejection.AUTHORIZATION
    with pytest.raises(BrokerRejected) as refused:
        client.reader([TopicPartition(topic, 0)])
    assert refused.value.reason is Rejection.AUTHORIZATION
    with closing(client.admin()) as admin, pytest.raises(BrokerRejected, match=f"topic {topic}: ") as refused:
        admin.describe_topics([topic])
    assert refused.value.reason is Rejection.AUTHORIZATION


def test_a_password_is_not_shown():
    assert WRONG not in repr(Security(username="u", password=WRONG))
