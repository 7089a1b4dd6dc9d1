"""The seam over confluent-kafka, which is librdkafka in C: the fast client, for whoever may install it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import confluent_kafka
from confluent_kafka.admin import AdminClient

from streams.clock import Clock, SystemClock
from streams.kafka.confluent.admin import ConfluentAdmin
from streams.kafka.confluent.consumer import ConfluentConsumer, ConfluentReader
from streams.kafka.confluent.errors import Problems
from streams.kafka.confluent.producer import ConfluentProducer
from streams.kafka.confluent.settings import common, membership, reading
from streams.kafka.seam import Connection, Fetching, Listener, Subscription, TopicPartition

_FETCHING = Fetching()
_MESSAGE_BYTES = 1_000_000_000
"""The broker judges the size of a message, not its client."""


@dataclass(frozen=True)
class ConfluentClient:
    """See :class:`streams.kafka.seam.Client`."""

    connection: Connection
    clock: Clock = field(default_factory=SystemClock)

    def consumer(
        self, subscription: Subscription, listener: Listener, fetching: Fetching = _FETCHING
    ) -> ConfluentConsumer:
        """See the seam."""
        self._require(subscription.topics)
        problems = Problems()
        settings = reading(self.connection, problems, fetching) | membership(subscription)
        with problems.at_the_edge():
            library = confluent_kafka.Consumer(settings)
        consumer = ConfluentConsumer(library, self._library_admin(problems), problems, self.connection, listener)
        consumer.join(subscription.topics)
        return consumer

    def reader(self, partitions: Iterable[TopicPartition], fetching: Fetching = _FETCHING) -> ConfluentReader:
        """See the seam."""
        given = list(partitions)
        self._require(partition.topic for partition in given)
        problems = Problems()
        with problems.at_the_edge():
            library = confluent_kafka.Consumer(reading(self.connection, problems, fetching))
        reader = ConfluentReader(library, self._library_admin(problems), problems, self.connection)
        reader.give(given)
        return reader

    def producer(self) -> ConfluentProducer:
        """See the seam."""
        self._require(())
        problems = Problems()
        settings = common(self.connection, problems) | {
            "acks": "all",
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "message.max.bytes": _MESSAGE_BYTES,
            "linger.ms": 5,
        }
        with problems.at_the_edge():
            library = confluent_kafka.Producer(settings)
        problems.serve = library.poll
        return ConfluentProducer(library, self._require, problems, self.clock)

    def admin(self) -> ConfluentAdmin:
        """See the seam."""
        problems = Problems()
        library = self._library_admin(problems)
        with problems.at_the_edge():
            library.list_topics(timeout=self.connection.timeout_s)
        return ConfluentAdmin(library, problems, self.connection)

    def _library_admin(self, problems: Problems) -> AdminClient:
        with problems.at_the_edge():
            library = AdminClient(common(self.connection, problems))
        problems.serve = library.poll
        return library

    def _require(self, topics: Iterable[str]) -> None:
        self.admin().require(topics)
