"""Topics and groups by confluent-kafka: see :class:`streams.kafka.seam.Admin`."""

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic as LibraryTopic

from streams.kafka.confluent.errors import Problems, translated
from streams.kafka.errors import BrokerError
from streams.kafka.seam import Committed, Connection, Group, Member, NewTopic, Topic, TopicPartition

_STATES = {
    "STABLE": "Stable",
    "EMPTY": "Empty",
    "DEAD": "Dead",
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
}


class ConfluentAdmin:
    """See the seam. The library does not tell what a member subscribed to, only what it was given."""

    def __init__(self, library: AdminClient, problems: Problems, connection: Connection) -> None:
        self._library, self._problems, self._timeout_s = library, problems, connection.timeout_s

    def require(self, topics: Iterable[str]) -> None:
        """Raise BrokerRejected for the first of these topics that does not exist or that we may not see."""
        for name, future in self._descriptions(sorted(set(topics))).items():
            try:
                self._wait(future)
            except KafkaException as error:
                code = error.args[0]
                raise translated(KafkaError(code.code(), f"topic {name}: {code.str()}")) from error

    def _descriptions(self, names: list[str]) -> dict[str, Any]:
        if not names:
            return {}
        with self._problems.at_the_edge():
            self._library.list_topics(timeout=self._timeout_s)  # the other calls outlive an outage without a word
            found: dict[str, Any] = self._library.describe_topics(
                TopicCollection(names), request_timeout=self._timeout_s
            )
        return found

    @staticmethod
    def _wait(future: Any) -> Any:
        return future.result()

    def topics(self) -> frozenset[str]:
        """See the seam."""
        with self._problems.at_the_edge():
            names = list(self._library.list_topics(timeout=self._timeout_s).topics)
            return frozenset(
                name for name, future in self._descriptions(names).items() if not self._wait(future).is_internal
            )

    def describe_topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """See the seam."""
        found = {}
        with self._problems.at_the_edge():
            for name, future in self._descriptions(sorted(set(names))).items():
                try:
                    found[name] = _topic(self._wait(future), self._config(name))
                except KafkaException as error:
                    if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise _of_topic(name, error) from error
        return found

    def _config(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        (future,) = self._library.describe_configs([resource], request_timeout=self._timeout_s).values()
        return {name: entry.value or "" for name, entry in self._wait(future).items()}

    def create_topics(self, topics: Iterable[NewTopic]) -> None:
        """See the seam."""
        asked = [
            LibraryTopic(topic.name, topic.partitions, topic.replication, config=dict(topic.config)) for topic in topics
        ]
        if not asked:
            return
        with self._problems.at_the_edge():
            self._library.list_topics(timeout=self._timeout_s)
            for name, future in self._library.create_topics(asked, request_timeout=self._timeout_s).items():
                try:
                    self._wait(future)
                except KafkaException as error:
                    raise _of_topic(name, error) from error

    def set_config(self, topic: str, config: Mapping[str, str]) -> None:
        """See the seam."""
        self.require([topic])
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        with self._problems.at_the_edge():
            (future,) = self._library.incremental_alter_configs([resource]).values()
            self._wait(future)

    def groups(self) -> frozenset[str]:
        """See the seam."""
        with self._problems.at_the_edge():
            listed = self._wait(self._library.list_consumer_groups(request_timeout=self._timeout_s))
        return frozenset(group.group_id for group in listed.valid)

    def describe_groups(self, names: Iterable[str]) -> dict[str, Group]:
        """See the seam."""
        asked = sorted(set(names))
        if not asked:
            return {}
        with self._problems.at_the_edge():
            found = self._library.describe_consumer_groups(asked, request_timeout=self._timeout_s)
            groups = {name: _group(self._wait(future)) for name, future in found.items()}
        return {name: group for name, group in groups.items() if group.state != "Dead"}

    def group_offsets(self, group: str) -> dict[TopicPartition, Committed]:
        """See the seam."""
        with self._problems.at_the_edge():
            asked = [ConsumerGroupTopicPartitions(group)]
            (future,) = self._library.list_consumer_group_offsets(asked, request_timeout=self._timeout_s).values()
            found = self._wait(future).topic_partitions
        return {
            TopicPartition(at.topic, at.partition): Committed(at.offset, at.metadata or "")
            for at in found
            if at.offset >= 0
        }

    def close(self) -> None:
        """See the seam. The library ends its threads when it is collected."""


def _of_topic(name: str, error: KafkaException) -> BrokerError:
    code = error.args[0]
    return translated(KafkaError(code.code(), f"topic {name}: {code.str()}"))


def _topic(described: Any, config: dict[str, str]) -> Topic:
    replicas = min((len(partition.replicas) for partition in described.partitions), default=0)
    return Topic(described.name, len(described.partitions), replicas, config)


def _group(described: Any) -> Group:
    members = tuple(_member(member) for member in described.members)
    return Group(described.group_id, _STATES.get(described.state.name, described.state.name), members)


def _member(described: Any) -> Member:
    given = described.assignment.topic_partitions if described.assignment else ()
    assignment = frozenset(TopicPartition(partition.topic, partition.partition) for partition in given)
    return Member(
        described.member_id,
        described.client_id,
        described.host,
        described.group_instance_id or None,
        frozenset(partition.topic for partition in assignment),
        assignment,
    )
