"""What a message costs to consume, by client, through the seam and bare: ``python -m bench.consume``.

One broker, one partition, values of 1.3 KB. Every contestant reads all of them in a process of its own, round by round
in turn, because a shared machine changes under way; the median counts. Wall time runs from the first message to the
last; CPU time is the process's own, threads included, from the first message too.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from streams.kafka.seam import Client, Connection, NewTopic, Outgoing, TopicPartition

TOPIC = "bench-consume"
VALUE_BYTES = 1300
BATCH = 5_000
PLACE = TopicPartition(TOPIC, 0)
ROOT = Path(__file__).parent.parent


def client(name: str, server: str) -> Client:
    """The client of that name for the broker at ``server``."""
    from streams.kafka.confluent.client import ConfluentClient  # noqa: PLC0415 -- each process loads its own library
    from streams.kafka.kafka_python.client import KafkaPythonClient  # noqa: PLC0415

    return {"confluent": ConfluentClient, "kafka-python": KafkaPythonClient}[name](Connection((server,)))


def by_seam(name: str) -> Callable[[str], Iterator[int]]:
    """A contestant: counts of messages as they come through the seam."""

    def read(server: str) -> Iterator[int]:
        with closing(client(name, server).reader([PLACE])) as reader:
            reader.seek(PLACE, 0)
            while True:
                yield sum(len(found.messages) for found in reader.poll(1, BATCH))

    return read


def bare_kafka_python(server: str) -> Iterator[int]:
    """A contestant: kafka-python alone, with the same fetch sizes."""
    import kafka  # noqa: PLC0415

    settings = {"max_partition_fetch_bytes": 4 << 20, "fetch_max_bytes": 32 << 20}
    consumer = kafka.KafkaConsumer(bootstrap_servers=server, enable_auto_commit=False, **settings)
    consumer.assign([kafka.TopicPartition(*PLACE)])
    consumer.seek_to_beginning()
    while True:
        yield sum(len(records) for records in consumer.poll(1000, BATCH).values())


def bare_confluent(server: str) -> Iterator[int]:
    """A contestant: confluent-kafka alone, taking key and value of each message."""
    import confluent_kafka  # noqa: PLC0415

    consumer = confluent_kafka.Consumer({"bootstrap.servers": server, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([confluent_kafka.TopicPartition(*PLACE, 0)])
    while True:
        yield len([(message.key(), message.value()) for message in consumer.consume(BATCH, 1)])


CONTESTANTS: dict[str, Callable[[str], Iterator[int]]] = {
    "kafka-python, seam": by_seam("kafka-python"),
    "kafka-python, bare": bare_kafka_python,
    "confluent, seam": by_seam("confluent"),
    "confluent, bare": bare_confluent,
}


def measure(name: str, server: str, messages: int) -> dict[str, float]:
    """Microseconds a message, wall and CPU, from the first batch to the last."""
    seen, began, cpu = 0, 0.0, 0.0
    for count in CONTESTANTS[name](server):
        if count and not seen:
            began, cpu, first = time.perf_counter(), time.process_time(), count
        seen += count
        if seen >= messages:
            rest = seen - first
            return {
                "wall": (time.perf_counter() - began) / rest * 1e6,
                "cpu": (time.process_time() - cpu) / rest * 1e6,
            }
    raise RuntimeError("the contestant ended before the messages did")


def fill(server: str, messages: int) -> None:
    """Write the messages, each another."""
    writer = client("confluent", server)
    with closing(writer.admin()) as admin:
        admin.create_topics([NewTopic(TOPIC, 1, 1)])
    with closing(writer.producer()) as producer:
        for number in range(messages):
            producer.send(Outgoing(TOPIC, b"run-%d" % number, os.urandom(VALUE_BYTES)))
        producer.flush(300)


def run(name: str, server: str, messages: int) -> dict[str, float]:
    """Measure in a process of its own."""
    command = [sys.executable, "-m", "bench.consume", "--contestant", name, "--server", server]
    done = subprocess.run([*command, "--messages", str(messages)], cwd=ROOT, check=True, capture_output=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def report(costs: dict[str, list[dict[str, float]]]) -> None:
    """Print the medians, and the ratio of each to the first by wall time."""
    medians = {
        name: {k: statistics.median(run[k] for run in runs) for k in ("wall", "cpu")} for name, runs in costs.items()
    }
    base = next(iter(medians.values()))["wall"]
    print(f"{'client':22} {'µs wall':>8} {'µs CPU':>8} {'ratio':>6}")
    for name, cost in medians.items():
        print(f"{name:22} {cost['wall']:8.1f} {cost['cpu']:8.1f} {cost['wall'] / base:6.2f}")


def main() -> None:
    """Start a broker, fill it, and let everybody read it in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    parser.add_argument("--server", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        print(json.dumps(measure(options.contestant, options.server, options.messages)), flush=True)
        os._exit(0)  # what is measured has ended, and a bare client need not say goodbye
    from tests.broker.kafka import KafkaBroker  # noqa: PLC0415 -- only who starts a broker needs it

    with tempfile.TemporaryDirectory() as folder, KafkaBroker(Path(folder) / "kafka") as broker:
        fill(broker.bootstrap, options.messages)
        costs: dict[str, list[dict[str, float]]] = {name: [] for name in CONTESTANTS}
        for _ in range(options.rounds):
            for name, runs in costs.items():
                runs.append(run(name, broker.bootstrap, options.messages))
        report(costs)


if __name__ == "__main__":
    main()
