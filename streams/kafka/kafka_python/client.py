"""The seam over kafka-python, the default client.

The library works on a thread of its own, so heartbeats go on while nobody polls, up to ``max_poll_interval_s``. Groups
share out each topic by itself: a rebalance takes everything away first, and polls are empty until it has ended.
"""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import kafka
from kafka.structs import TopicPartition as LibraryPartition

from streams.clock import Clock, SystemClock
from streams.kafka.kafka_python.admin import KafkaPythonAdmin
from streams.kafka.kafka_python.consumer import KafkaPythonConsumer, KafkaPythonReader
from streams.kafka.kafka_python.errors import at_the_edge
from streams.kafka.kafka_python.making import made
from streams.kafka.kafka_python.producer import KafkaPythonProducer
from streams.kafka.kafka_python.settings import common
from streams.kafka.kafka_python.sharing import TopicByTopic
from streams.kafka.kafka_python.turns import Turns
from streams.kafka.seam import Connection, Fetching, Listener, Subscription, TopicPartition

_FETCHING = Fetching()
_BATCH_BYTES = 1 << 18
_LINGER_MS = 5
_REQUEST_BYTES = 1 << 30
"""The broker judges the size of a message, not its client."""


@dataclass(frozen=True)
class KafkaPythonClient:
    """See :class:`streams.kafka.seam.Client`."""

    connection: Connection
    clock: Clock = field(default_factory=SystemClock)

    def consumer(
        self, subscription: Subscription, listener: Listener, fetching: Fetching = _FETCHING
    ) -> KafkaPythonConsumer:
        """See the seam."""
        self._require(subscription.topics)
        turns = Turns()
        library = made(kafka.KafkaConsumer, self._reading(fetching) | _membership(subscription))
        with at_the_edge():
            library.subscribe(list(subscription.topics), listener=turns)
            # A member that is to share out topics before it knows their partitions shares out none, and stays so.
            for topic in subscription.topics:
                library.partitions_for_topic(topic)
        return KafkaPythonConsumer(library, self.connection, listener, turns)

    def reader(self, partitions: Iterable[TopicPartition], fetching: Fetching = _FETCHING) -> KafkaPythonReader:
        """See the seam."""
        given = list(partitions)
        self._require(partition.topic for partition in given)
        library = made(kafka.KafkaConsumer, self._reading(fetching))
        library.assign([LibraryPartition(*partition) for partition in given])
        return KafkaPythonReader(library, self.connection)

    def _reading(self, fetching: Fetching) -> dict[str, Any]:
        return common(self.connection) | {
            "enable_auto_commit": False,
            "auto_offset_reset": "none",
            "isolation_level": "read_committed",
            "allow_auto_create_topics": False,
            "metrics_enabled": False,
            "max_partition_fetch_bytes": fetching.partition_bytes,
            "fetch_max_bytes": fetching.total_bytes,
            "fetch_min_bytes": fetching.least_bytes,
            "fetch_max_wait_ms": int(fetching.max_wait_s * 1000),
        }

    def producer(self) -> KafkaPythonProducer:
        """See the seam."""
        settings = common(self.connection) | {
            "acks": "all",
            # Its idempotent producer fails for good, neighbours and all, over one message that is too large. So a
            # retry may write twice, and one request at a time keeps the order.
            "enable_idempotence": False,
            "max_in_flight_requests_per_connection": 1,
            "allow_auto_create_topics": False,
            "metrics_enabled": False,
            "batch_size": _BATCH_BYTES,
            "linger_ms": _LINGER_MS,
            "max_request_size": _REQUEST_BYTES,
            "max_block_ms": int(self.connection.timeout_s * 1000),
        }
        library = made(kafka.KafkaProducer, settings)
        return KafkaPythonProducer(library, self._require, self.connection.timeout_s, self.clock)

    def admin(self) -> KafkaPythonAdmin:
        """See the seam."""
        return KafkaPythonAdmin(made(kafka.KafkaAdminClient, common(self.connection)))

    def _require(self, topics: Iterable[str]) -> None:
        with closing(self.admin()) as admin:
            admin.require(topics)


def _membership(subscription: Subscription) -> dict[str, Any]:
    return {
        "group_id": subscription.group,
        "group_instance_id": subscription.instance_id,
        "session_timeout_ms": int(subscription.session_timeout_s * 1000),
        "heartbeat_interval_ms": int(subscription.heartbeat_interval_s * 1000),
        "max_poll_interval_ms": int(subscription.max_poll_interval_s * 1000),
        "partition_assignment_strategy": [TopicByTopic],
    }
