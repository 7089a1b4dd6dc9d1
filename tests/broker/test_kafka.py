"""The broker that other tests stand on: what it promises them."""

import os
import socket
from pathlib import Path

import pytest

from tests.broker.fixtures import require_broker
from tests.broker.kafka import KafkaBroker


def answers(broker: KafkaBroker, protocol: str = "PLAINTEXT") -> bool:
    """Whether ApiVersions (key 18, version 0) gets a response."""
    request = bytes.fromhex("0012 0000 00000007 0001 78")
    try:
        with socket.create_connection(("127.0.0.1", broker.ports[protocol]), timeout=2) as connection:
            connection.sendall(len(request).to_bytes(4, "big") + request)
            return connection.recv(8)[4:8] == bytes.fromhex("00000007")
    except OSError:
        return False


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_starts_in_ten_seconds_and_keeps_its_port_and_data(own_broker):
    broker = own_broker()
    assert processor_seconds(broker.pid) < 10  # of its own time, because the machine may do other work too
    assert answers(broker)
    port, segments = broker.bootstrap, set(broker.folder.glob("data/**/*.log"))
    broker.kill()
    assert not answers(broker)
    broker.start()
    assert answers(broker)
    assert broker.bootstrap == port
    assert segments <= set(broker.folder.glob("data/**/*.log"))
    broker.pause()
    assert not answers(broker)
    broker.resume()
    assert answers(broker)
    broker.stop()
    assert not answers(broker)


def test_says_why_it_did_not_start(own_broker):
    broker = own_broker()
    broker.stop()
    broker._properties.write_text("process.roles=broker\n", encoding="utf-8")
    with pytest.raises(RuntimeError, match="did not start"):
        broker.start()


def test_listens_with_tls_and_passwords(secured_broker):
    assert answers(secured_broker)
    assert answers(secured_broker, "SASL_PLAINTEXT")
    assert not answers(secured_broker, "SSL")


@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_without_a_broker_tests_skip_loudly_and_fail_in_ci(monkeypatch, tmp_path, ci, outcome):
    monkeypatch.setenv("KAFKA_JARS", str(tmp_path))
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="make broker"):
        require_broker()
