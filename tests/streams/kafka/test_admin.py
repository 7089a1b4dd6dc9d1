"""What kafka-python says of groups, as the seam has it."""

import pytest

from streams.kafka.kafka_python.admin import _member
from streams.kafka.seam import Member, TopicPartition

SAID = {"member_id": "m", "client_id": "c", "client_host": "/h", "group_instance_id": None}


@pytest.mark.parametrize("content", [None, "", "AAEAAAAB", b"", {}])
def test_a_member_of_a_group_that_forms_at_the_moment_has_said_nothing(content):
    """Seen while two processes joined their groups: the library then leaves the bytes as text."""
    described = {**SAID, "member_metadata": content, "member_assignment": content}
    assert _member(described) == Member("m", "c", "/h", None, frozenset(), frozenset())


def test_a_member_has_its_topics_and_partitions():
    assigned = {"assigned_partitions": [{"topic": "t", "partitions": [0, 2]}]}
    described = {**SAID, "member_metadata": {"topics": ["t", "u"]}, "member_assignment": assigned}
    owned = frozenset({TopicPartition("t", 0), TopicPartition("t", 2)})
    assert _member(described) == Member("m", "c", "/h", None, frozenset({"t", "u"}), owned)
