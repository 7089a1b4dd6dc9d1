"""How many messages a group has not read yet, asked of the broker, which outlives the workers."""

from collections.abc import Sequence

from streams.kafka.errors import BrokerError
from streams.kafka.seam import Admin, Client, Reader, TopicPartition


class Lag:
    """Asks over connections that are kept, and made anew after an outage. Used by one thread at a time."""

    def __init__(self, client: Client, group: str, topics: Sequence[str]) -> None:
        """Connects to nothing yet."""
        self._client, self._group, self._topics = client, group, topics
        self._admin: Admin | None = None
        self._reader: Reader | None = None

    def __call__(self) -> int | None:
        """Messages of the topics behind what the group has committed; of a partition without that, all that there are.

        None if the broker does not say: that is unknown, and not 0.
        """
        try:
            return self._asked()
        except BrokerError:
            self.close()
            return None

    def close(self) -> None:
        """Give back the connections."""
        for held in (self._admin, self._reader):
            if held is not None:
                held.close()
        self._admin = self._reader = None

    def _asked(self) -> int:
        self._admin = self._admin or self._client.admin()
        found = self._admin.describe_topics(self._topics).values()
        partitions = [TopicPartition(topic.name, number) for topic in found for number in range(topic.partitions)]
        self._reader = self._reader or self._client.reader(partitions)
        committed = self._admin.group_offsets(self._group)
        ends, begins = self._reader.end_offsets(partitions), self._reader.beginning_offsets(partitions)
        read = {each: committed[each].offset if each in committed else 0 for each in partitions}
        return sum(max(0, ends[each] - max(begins[each], read[each])) for each in partitions)
