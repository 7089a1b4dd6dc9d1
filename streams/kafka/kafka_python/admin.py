"""Topics and groups by kafka-python: see :class:`streams.kafka.seam.Admin`."""

from collections.abc import Iterable, Mapping
from typing import Any

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import for_code

from streams.kafka.codes import error_of
from streams.kafka.errors import BrokerRejected, Rejection
from streams.kafka.kafka_python.errors import at_the_edge
from streams.kafka.seam import Committed, Group, Member, NewTopic, Topic, TopicPartition

_UNKNOWN_TOPIC = 3
_GROUP_NOT_FOUND = 69


class KafkaPythonAdmin:
    """See the seam. ``library`` is a KafkaAdminClient, which this closes."""

    def __init__(self, library_admin: Any) -> None:
        self._library = library_admin
        self._closed = False

    def require(self, topics: Iterable[str]) -> None:
        """Raise BrokerRejected for the first of these topics that does not exist or that we may not see."""
        with at_the_edge():
            described = self._library.describe_topics(sorted(set(topics)))
        for topic in described:
            _check(topic)

    def topics(self) -> frozenset[str]:
        """See the seam."""
        with at_the_edge():
            return frozenset(topic["name"] for topic in self._library.describe_topics() if not topic["is_internal"])

    def describe_topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """See the seam."""
        asked = sorted(set(names))
        if not asked:
            return {}
        with at_the_edge():
            found = [topic for topic in self._library.describe_topics(asked) if topic["error_code"] != _UNKNOWN_TOPIC]
            for topic in found:
                _check(topic)
            resources = [ConfigResource(ConfigResourceType.TOPIC, topic["name"]) for topic in found]
            described = self._library.describe_configs(resources, config_filter="all") if resources else {}
        return {topic["name"]: _topic(topic, described["topic"][topic["name"]]) for topic in found}

    def create_topics(self, topics: Iterable[NewTopic]) -> None:
        """See the seam."""
        asked = {
            topic.name: {
                "num_partitions": topic.partitions,
                "replication_factor": topic.replication,
                "configs": dict(topic.config),
            }
            for topic in topics
        }
        if asked:
            with at_the_edge():
                answer = self._library.create_topics(asked, raise_errors=False)
            for topic in answer["topics"]:
                if topic["error_code"]:
                    raise error_of(topic["error_code"], f"topic {topic['name']}: {topic['error_message']}")
            with at_the_edge():
                self._library.wait_for_topics(list(asked))

    def set_config(self, topic: str, config: Mapping[str, str]) -> None:
        """See the seam."""
        self.require([topic])
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(config))
        with at_the_edge():
            answer = self._library.alter_configs([resource], raise_on_unknown=False)
        outcome = answer["topic"][topic]
        if outcome != "OK":
            raise BrokerRejected(Rejection.BAD_CONFIGURATION, f"topic {topic}: {outcome}")

    def groups(self) -> frozenset[str]:
        """See the seam."""
        with at_the_edge():
            return frozenset(group["group_id"] for group in self._library.list_groups())

    def describe_groups(self, names: Iterable[str]) -> dict[str, Group]:
        """See the seam."""
        asked = sorted(set(names))
        if not asked:
            return {}
        with at_the_edge():
            found = self._library.describe_groups(asked)
        described = {name: _group(name, group) for name, group in found.items() if group["group_state"] != "Dead"}
        missing = set(asked) - described.keys()
        return described | (self._resting(missing) if missing else {})

    def _resting(self, names: set[str]) -> dict[str, Group]:
        """Groups of Kafka's new protocol without members. The library cannot describe others of that kind; of these
        there is nothing more to say."""
        with at_the_edge():
            listed = self._library.list_groups()
        empty = {group["group_id"] for group in listed if group["group_state"] == "Empty"}
        return {name: Group(name, "Empty", ()) for name in sorted(names & empty)}

    def group_offsets(self, group: str) -> dict[TopicPartition, Committed]:
        """See the seam."""
        with at_the_edge():
            found = self._library.list_group_offsets({group: None})[group]
        return {
            TopicPartition(*partition): Committed(at.offset, at.metadata or "")
            for partition, at in found.items()
            if at.offset >= 0
        }

    def close(self) -> None:
        """See the seam."""
        if not self._closed:
            self._closed = True
            self._library.close()


def _check(described: dict[str, Any]) -> None:
    """Raise BrokerError for a topic that could not be described."""
    if described["error_code"]:
        problem = for_code(described["error_code"]).__name__
        raise error_of(described["error_code"], f"topic {described['name']}: {problem}")


def _topic(described: dict[str, Any], config: dict[str, Any]) -> Topic:
    partitions = described["partitions"]
    replicas = min((len(partition["replica_nodes"]) for partition in partitions), default=0)
    values = {name: entry["value"] or "" for name, entry in config.items()}
    return Topic(described["name"], len(partitions), replicas, values)


def _group(name: str, described: dict[str, Any]) -> Group:
    if described["error"] is not None:
        raise BrokerRejected(Rejection.BAD_REQUEST, f"group {name}: {described['error']}")
    return Group(name, described["group_state"], tuple(_member(member) for member in described["members"]))


def _member(described: dict[str, Any]) -> Member:
    subscribed, assigned = _told(described["member_metadata"]), _told(described["member_assignment"])
    return Member(
        described["member_id"],
        described["client_id"],
        described["client_host"],
        described["group_instance_id"],
        frozenset(subscribed["topics"] if subscribed else ()),
        frozenset(
            TopicPartition(topic["topic"], partition)
            for topic in (assigned["assigned_partitions"] if assigned else ())
            for partition in topic["partitions"]
        ),
    )


def _told(content: Any) -> Any:
    """What a member said: nothing in a group that forms at the moment, of which the library leaves the bytes alone."""
    return content if isinstance(content, dict) else None
