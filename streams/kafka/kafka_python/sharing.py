"""How a group shares out its partitions: each topic by itself, so that every member has its share of the busy one.

The library's cooperative assignor, like that of librdkafka, levels the number of partitions over all topics. Of six
topics, a second member then gets three whole ones, and nearly all messages may be those of one topic.
"""

from collections.abc import Iterable
from typing import Any

from kafka.coordinator.assignors.range import RangePartitionAssignor


class TopicByTopic(RangePartitionAssignor):  # type: ignore[misc]
    """The library's ``range``, which both clients know: contiguous partitions, the first members get what is left over.

    The library forgets members with a group.instance.id if one without stands between them, so they come first here.
    """

    @classmethod
    def assign(cls, cluster: Any, members: Iterable[Any]) -> Any:
        """What each member gets, by its id."""
        return super().assign(cluster, sorted(members, key=lambda member: member.group_instance_id is None))
