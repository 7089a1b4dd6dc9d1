"""Puts events on a topic: ``python -m bench.stream.feed --servers S --topic T --events N``, where confluent-kafka is.

The name of the topic is a prefix and ``terminal-events``.
Messages are Confluent-framed Avro, uncompressed, keyed by nothing, dealt to the partitions in turn. ``--rate`` spreads
them evenly over time. Says that it is ready once topic and events are made; with ``--ready FILE`` it then waits until
that file is there. At the end it prints one line of JSON: by partition, when the broker appended each message, in
milliseconds since the epoch.
"""

import argparse
import json
import struct
import time
from collections.abc import Iterable
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.generate import bodies
from streams.topics import Sizing, Topics

FRAME = struct.pack(">cI", b"\0", 1)
"""Head of every message: schema id 1, as the contestants know it."""
_POLL_EVERY = 500
_CREATE_TIMEOUT_S = 30


class Appended:
    """Remembers when each message was appended, by partition and in order. Raises what the broker refused."""

    def __init__(self, partitions: int) -> None:
        self.at: list[list[int]] = [[] for _ in range(partitions)]

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        """Take note of one delivery."""
        if error is not None:
            raise RuntimeError(f"a message was not appended: {error}")
        self.at[message.partition() or 0].append(message.timestamp()[1])


def create(servers: str, topic: str, partitions: int) -> None:
    """Make the topic, where messages carry the instant at which they were appended, and empty ones of all companions,
    which offramp reads with it."""
    inputs = Topics.planned(Sizing(prefix=topic.removesuffix("terminal-events"), partitions=partitions)).inputs
    config = {"message.timestamp.type": "LogAppendTime", "retention.ms": "-1"}
    new = [NewTopic(one.name, partitions, 1, config=config) for one in inputs]
    admin = AdminClient({"bootstrap.servers": servers})  # kept: it gives up what it was asked when it is dropped
    for made in admin.create_topics(new).values():
        made.result(_CREATE_TIMEOUT_S)


def send(servers: str, topic: str, partitions: int, values: Iterable[bytes], rate: float) -> Appended:
    """Send all values, at most ``rate`` a second if that is not 0, and wait until the broker has them."""
    appended = Appended(partitions)
    linger = 5 if rate else 50
    producer = Producer({"bootstrap.servers": servers, "linger.ms": linger, "acks": "all", "batch.size": 2**18})
    began = time.monotonic()
    for number, value in enumerate(values):
        if rate and (ahead := began + number / rate - time.monotonic()) > 0:
            producer.poll(ahead)
        _produce(producer, topic, number % partitions, value, appended)
        if number % _POLL_EVERY == 0:
            producer.poll(0)
    producer.flush()
    return appended


def _produce(producer: Producer, topic: str, partition: int, value: bytes, appended: Appended) -> None:
    while True:
        try:
            producer.produce(topic, FRAME + value, partition=partition, on_delivery=appended)
        except BufferError:  # its queue is full
            producer.poll(0.1)
        else:
            return


def main() -> None:
    """Feed as the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m bench.stream.feed", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=0, help="events per second; 0 is as fast as it goes")
    parser.add_argument("--ready", type=Path, help="send only once this file is there")
    options = parser.parse_args()
    create(options.servers, options.topic, options.partitions)
    values = list(bodies(options.events, options.seed, lambda _: None))
    print("ready", flush=True)
    while options.ready and not options.ready.exists():
        time.sleep(0.05)
    appended = send(options.servers, options.topic, options.partitions, values, options.rate)
    print(json.dumps({"appended": appended.at}))


if __name__ == "__main__":
    main()
