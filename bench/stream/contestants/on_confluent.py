"""The reader on confluent-kafka: whole batches by ``consume``, with a fetch queue that never runs dry."""

from collections.abc import Sequence

from confluent_kafka import Consumer, Message, TopicPartition
from work import LINGER_S, Job


class Confluent:
    """Reads one topic from its beginning. librdkafka fetches in threads of its own."""

    def __init__(self, job: Job) -> None:
        self._batch = job.batch
        self._consumer = Consumer(
            {
                "bootstrap.servers": job.servers,
                "group.id": job.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "queued.min.messages": 4 * job.batch,
                "fetch.message.max.bytes": 8 * 2**20,
                "check.crcs": False,
            }
        )
        self._consumer.subscribe([job.topic])

    def read(self) -> Sequence[tuple[bytes, int]]:
        """Up to a batch of messages."""
        messages = self._consumer.consume(self._batch, LINGER_S)
        return [_plain(message) for message in messages]

    def position(self) -> list[TopicPartition]:
        """What to read next."""
        return [at for at in self._consumer.position(self._consumer.assignment()) if at.offset >= 0]

    def commit(self, position: list[TopicPartition]) -> None:
        """Commit a position."""
        self._consumer.commit(offsets=position, asynchronous=False)


def _plain(message: Message) -> tuple[bytes, int]:
    value, offset, error = message.value(), message.offset(), message.error()
    if error is not None or value is None or offset is None:
        raise RuntimeError(str(error))
    return value, offset
