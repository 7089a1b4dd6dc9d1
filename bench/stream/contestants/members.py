"""Waits until the members of a group share a topic: ``python members.py SERVERS GROUP TOPIC COUNT``.

Ends with 1 and a reason on stderr if after a while not that many members have a partition of the topic.
"""

import sys
import time

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, MemberDescription  # type: ignore[attr-defined]

DEADLINE_S = 120


def has_share(member: MemberDescription, topic: str) -> bool:
    """Whether a member has a partition of the topic."""
    return bool(member.assignment) and any(one.topic == topic for one in member.assignment.topic_partitions)


def sharing(admin: AdminClient, group: str, topic: str) -> int:
    """How many members of the group have a partition of the topic; none while its coordinator is on its way."""
    try:
        found = admin.describe_consumer_groups([group])[group].result()
    except KafkaException:
        return 0
    return sum(1 for member in found.members if has_share(member, topic))


if __name__ == "__main__":
    servers, the_group, the_topic, wanted = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    client, until = AdminClient({"bootstrap.servers": servers}), time.monotonic() + DEADLINE_S
    while (members := sharing(client, the_group, the_topic)) < wanted:
        if time.monotonic() > until:
            sys.exit(f"{members} of {wanted} members have a partition of the topic after {DEADLINE_S} s")
        time.sleep(0.1)
