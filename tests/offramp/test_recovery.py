"""From dead letters back to exits: the worker, ``dlq`` and ``audit`` as commands on a real broker."""

import json
import uuid
from contextlib import closing

import pytest

from schemas.contract import INCOMING
from schemas.json_form import parse_json
from schemas.published import avro
from streams.kafka.kafka_python.client import KafkaPythonClient
from streams.kafka.seam import Connection, Outgoing, TopicPartition
from streams.publish import encoder
from streams.topics import Encoding, key_of
from tests.offramp.kit import ask, events, run_alone
from tests.registry.double import SchemaRegistryDouble

SCHEMA_ID = 11
SECRET = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"  # noqa: S105 -- of no one


@pytest.fixture
def prefix():
    return f"{uuid.uuid4().hex[:8]}."


@pytest.fixture
def place(broker, prefix, tmp_path):
    """The environment of a deployment of its own."""
    return {
        "OFFRAMP_KAFKA__SERVERS": broker.bootstrap,
        "OFFRAMP_KAFKA__CLASSIFY_GROUP": f"{prefix}classify",
        "OFFRAMP_TOPICS__PREFIX": prefix,
        "OFFRAMP_TOPICS__REPLICATION_FACTOR": "1",
        "OFFRAMP_TOPICS__PARTITIONS": "1",
        "OFFRAMP_STORE__PATH": str(tmp_path / "store"),
        "OFFRAMP_WORKER__PORT": "0",
    }


def done(status, *argv, **env):
    result = run_alone(*argv, **env)
    assert result.status == status, result.err
    return result


def states(place):
    letters = json.loads(done(0, "dlq", "list", "--format", "json", **place).out)["newest"]
    return sorted((letter["reason_code"], letter["state"], letter["replay_count"]) for letter in letters)


def audited(place, status=0):
    result = json.loads(done(status, "audit", "--format", "json", **place).out)
    lag = sum(partition["log"]["lag"] for partition in result["partitions"])
    return result["unaccounted"], lag


def send(broker, topic, *values):
    """Each value under its key; where its first and last copy stand."""
    with closing(KafkaPythonClient(Connection((broker.bootstrap,))).producer()) as producer:
        return [producer.send(Outgoing(topic, key, value)).result(20) for key, value in values]


def test_what_was_dead_for_want_of_a_registry_is_redriven_and_classified_once(broker, place, prefix):
    done(0, "init", **place)
    records = [parse_json(json.dumps(event).encode()) for event in events()[:5]]
    framed = encoder(Encoding.CONFLUENT, dict.fromkeys(INCOMING, SCHEMA_ID))
    as_json = encoder(Encoding.JSON, {})
    send(
        broker, f"{prefix}terminal-events",
        *((key_of(record), as_json(record)) for record in records[:3]),
        *((key_of(record), framed(record)) for record in records[3:]),
        (b"acme/r", b'{"token": "' + SECRET.encode() + b'"'),
    )  # fmt: skip
    done(0, "run", "classify", "--until-end", **place)
    assert states(place) == [("bad_json", "dead", 0), ("unknown_schema", "dead", 0), ("unknown_schema", "dead", 0)]
    assert audited(place) == (0, 0)
    shown = done(0, "dlq", "show", f"{prefix}terminal-events", "0", "5", **place).text
    assert SECRET not in shown
    assert "secrets masked" in shown

    done(0, "dlq", "redrive", "--dry-run", **place)
    assert audited(place) == (0, 0)
    done(0, "dlq", "redrive", **place)
    assert "0 redriven, 3 left" in done(0, "dlq", "redrive", **place).text
    assert audited(place) == (0, 3)

    with SchemaRegistryDouble().running() as registry:
        registry.add(avro("terminal-event"), SCHEMA_ID)
        done(0, "run", "classify", "--until-end", **place, OFFRAMP_REGISTRY__URL=registry.url)
    assert states(place) == [
        ("bad_json", "dead", 1), ("bad_json", "dead_again", 0),
        ("unknown_schema", "classified", 0), ("unknown_schema", "classified", 0),
    ]  # fmt: skip
    assert audited(place) == (0, 0)
    store = place["OFFRAMP_STORE__PATH"]
    assert ask(store, "SELECT count() AS n, uniqExact(event_id) AS ids FROM v_exits") == [{"n": 5, "ids": 5}]

    # The secret is in no copy of ours, and what was redriven held it all the same.
    with closing(KafkaPythonClient(Connection((broker.bootstrap,))).reader(
        [TopicPartition(f"{prefix}terminal-events.redrive", 0)]
    )) as reader:  # fmt: skip
        reader.seek(TopicPartition(f"{prefix}terminal-events.redrive", 0), 0)
        values = [message.value for _ in range(5) for fetched in reader.poll(5, 10) for message in fetched.messages]
    assert len(values) == 3
    assert any(SECRET.encode() in value for value in values)


def test_a_gap_in_the_ledger_is_found_in_the_log_and_a_broker_out_of_reach_is_told(broker, place, prefix):
    done(0, "init", **place)
    record = parse_json(json.dumps(events()[0]).encode())
    values = [encoder(Encoding.JSON, {})(record | {"event_id": f"e-{n}"}) for n in range(4)]
    send(broker, f"{prefix}terminal-events", *((b"acme/r", value) for value in values))
    done(0, "run", "classify", "--until-end", **place)
    assert audited(place) == (0, 0)
    lost = "DELETE FROM ingest_ledger WHERE offset = 1"
    done(0, place["OFFRAMP_STORE__PATH"], lost, program=("-m", "tests.offramp.damage"), **place)
    result = done(1, "audit", **place)
    assert "1 message passed without a ledger row" in result.err
    assert audited(place, status=1) == (2, 0)  # the message, and the record that the ledger does not know
    gone = place | {"OFFRAMP_KAFKA__SERVERS": "127.0.0.1:1", "OFFRAMP_KAFKA__TIMEOUT_S": "2"}
    assert "the broker cannot be asked" in done(3, "audit", **gone).err
    done(1, "audit", "--store-only", **gone)
