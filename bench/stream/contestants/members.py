"""Waits until a group has members: ``python members.py SERVERS GROUP COUNT``, each with a partition of its own."""

import sys
import time

from confluent_kafka.admin import AdminClient

DEADLINE_S = 60


def assigned(admin: AdminClient, group: str) -> int:
    """How many members of the group have partitions."""
    found = admin.describe_consumer_groups([group])[group].result()
    return sum(1 for member in found.members if member.assignment and member.assignment.topic_partitions)


if __name__ == "__main__":
    servers, the_group, wanted = sys.argv[1], sys.argv[2], int(sys.argv[3])
    client, until = AdminClient({"bootstrap.servers": servers}), time.monotonic() + DEADLINE_S
    while assigned(client, the_group) < wanted:
        if time.monotonic() > until:
            sys.exit(f"{the_group} has not {wanted} members after {DEADLINE_S} s")
        time.sleep(0.1)
