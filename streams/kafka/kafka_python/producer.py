"""Writing by kafka-python: see :class:`streams.kafka.seam.Producer`."""

from collections.abc import Callable
from typing import Any

from kafka import errors as library

from streams.clock import Clock
from streams.kafka.confirm import confirm
from streams.kafka.errors import BrokerError, BrokerRejected, Rejection, Unconfirmed
from streams.kafka.kafka_python.errors import translated
from streams.kafka.seam import Delivered, Outgoing, TopicPartition


class KafkaPythonPending:
    """See :class:`streams.kafka.seam.Pending`. Holds the library's future, or why there is none."""

    def __init__(self, future: Any = None, error: BrokerError | None = None) -> None:
        self._future, self._error = future, error

    def done(self) -> bool:
        """See the seam."""
        return self._error is not None or bool(self._future.is_done)

    def result(self, timeout_s: float) -> Delivered:
        """See the seam."""
        if self._error is not None:
            raise self._error
        try:
            written = self._future.get(timeout_s)
        except library.KafkaError as error:
            if not self._future.is_done:
                raise Unconfirmed([self], timeout_s) from error
            raise translated(error) from error
        return Delivered(TopicPartition(written.topic, written.partition), written.offset)


class KafkaPythonProducer:
    """See the seam. ``check`` refuses topics that do not exist, which the library would wait for."""

    def __init__(
        self, library_producer: Any, check: Callable[[list[str]], None], timeout_s: float, clock: Clock
    ) -> None:
        self._library, self._check = library_producer, check
        self._timeout_s, self._clock = timeout_s, clock
        self._known: set[str] = set()
        self._sent: list[KafkaPythonPending] = []
        self._closed = False

    def send(self, message: Outgoing) -> KafkaPythonPending:
        """See the seam."""
        pending = self._send(message)
        self._sent.append(pending)
        return pending

    def _send(self, message: Outgoing) -> KafkaPythonPending:
        try:
            if message.topic not in self._known:
                self._check([message.topic])
                self._known.add(message.topic)
            return KafkaPythonPending(self._queued(message))
        except (library.KafkaError, OSError) as error:
            return KafkaPythonPending(error=translated(error))
        except ValueError as error:
            return KafkaPythonPending(error=BrokerRejected(Rejection.BAD_REQUEST, str(error)))
        except BrokerError as error:
            return KafkaPythonPending(error=error)

    def _queued(self, message: Outgoing) -> Any:
        return self._library.send(
            message.topic,
            value=message.value,
            key=message.key,
            # The library sends no header without a value; an empty one is the nearest.
            headers=[(name, value or b"") for name, value in message.headers],
            partition=message.partition,
            timestamp_ms=None if message.timestamp_us is None else message.timestamp_us // 1000,
        )

    def flush(self, timeout_s: float) -> None:
        """See the seam. The library's own flush returns early when a batch was split because it was too large."""
        sent, self._sent = self._sent, []
        confirm(sent, timeout_s, self._clock)

    def close(self) -> None:
        """See the seam."""
        if not self._closed:
            self._closed = True
            try:
                self._library.close(timeout=self._timeout_s)
            except library.KafkaError:
                self._give_up()

    def _give_up(self) -> None:
        # The library does not close while it cannot flush, leaves its thread behind, and tries again when it is
        # collected.
        self._library._sender.force_close()  # noqa: SLF001
        self._library._closed = True  # noqa: SLF001
