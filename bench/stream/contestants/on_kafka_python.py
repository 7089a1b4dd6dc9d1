"""The reader on kafka-python, with the ``crc32c`` package, which its checksums need to be fast."""

import time
from collections.abc import Sequence

import crc32c  # noqa: F401 -- so that a missing one is an error, and not a slow contestant
from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from work import LINGER_S, Job


class KafkaPython:
    """Reads one topic from its beginning. Fetches while it polls."""

    def __init__(self, job: Job) -> None:
        self._batch = job.batch
        self._consumer = KafkaConsumer(
            job.topic,
            bootstrap_servers=job.servers,
            group_id=job.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=job.batch,
            fetch_max_bytes=32 * 2**20,
            max_partition_fetch_bytes=16 * 2**20,
            check_crcs=False,
        )

    def read(self) -> Sequence[tuple[bytes, int]]:
        """Up to a batch of messages."""
        messages: list[tuple[bytes, int]] = []
        until = time.monotonic() + LINGER_S
        while len(messages) < self._batch and (left := until - time.monotonic()) > 0:
            wanted = self._batch - len(messages)
            for some in self._consumer.poll(timeout_ms=int(1000 * left), max_records=wanted).values():
                messages += [(message.value, message.offset) for message in some]
        return messages

    def position(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What to read next."""
        at = {partition: self._consumer.position(partition) for partition in self._consumer.assignment()}
        return {partition: OffsetAndMetadata(offset, "", -1) for partition, offset in at.items()}

    def commit(self, position: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit a position."""
        self._consumer.commit(position)
