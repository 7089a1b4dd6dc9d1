"""Writing by confluent-kafka: see :class:`streams.kafka.seam.Producer`."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError

from streams.clock import Clock
from streams.kafka.confirm import confirm
from streams.kafka.confluent.errors import Problems, translated
from streams.kafka.errors import BrokerError, BrokerRejected, BrokerUnavailable, Rejection, Unconfirmed
from streams.kafka.seam import Delivered, Outgoing, TopicPartition

_QUEUE_WAIT_S = 0.1
_LONGEST_WAIT_S = 0.05


class ConfluentPending:
    """See :class:`streams.kafka.seam.Pending`. ``serve`` lets the library report for at most so many seconds."""

    def __init__(self, message: Outgoing, serve: Callable[[float], object], clock: Clock) -> None:
        self.message, self._serve, self._clock = message, serve, clock
        self.delivered: Delivered | None = None
        self.error: BrokerError | None = None
        self.alone = False

    def done(self) -> bool:
        """See the seam."""
        self._serve(0)
        return self.settled

    @property
    def settled(self) -> bool:
        """Whether its report has come."""
        return self.delivered is not None or self.error is not None

    def result(self, timeout_s: float) -> Delivered:
        """See the seam."""
        deadline = self._clock.monotonic() + timeout_s
        while not self.settled and (left := deadline - self._clock.monotonic()) > 0:
            self._serve(min(left, _LONGEST_WAIT_S))
        if self.error is not None:
            raise self.error
        if self.delivered is None:
            raise Unconfirmed([self], timeout_s)
        return self.delivered


class ConfluentProducer:
    """See the seam. ``check`` refuses topics that do not exist, which the broker might create."""

    def __init__(self, library: Any, check: Callable[[list[str]], None], problems: Problems, clock: Clock) -> None:
        self._library, self._check, self._problems, self._clock = library, check, problems, clock
        self._known: set[str] = set()
        self._sent: list[ConfluentPending] = []
        self._again: list[ConfluentPending] = []
        self._closed = False

    def send(self, message: Outgoing) -> ConfluentPending:
        """See the seam."""
        pending = ConfluentPending(message, self._serve, self._clock)
        self._sent.append(pending)
        try:
            if message.topic not in self._known:
                self._check([message.topic])
                self._known.add(message.topic)
            self._queue(pending)
        except BrokerError as error:
            pending.error = error
        return pending

    def _queue(self, pending: ConfluentPending) -> None:
        message = pending.message
        settings: dict[str, Any] = {} if message.partition is None else {"partition": message.partition}
        if message.timestamp_us is not None:
            settings["timestamp"] = message.timestamp_us // 1000
        while True:
            try:
                with self._problems.at_the_edge():
                    self._library.produce(
                        message.topic,
                        message.value,
                        message.key,
                        headers=list(message.headers),
                        on_delivery=lambda error, record: self._report(pending, error, record),
                        **settings,
                    )
            except BufferError:
                self._library.poll(_QUEUE_WAIT_S)
            else:
                return

    def _report(self, pending: ConfluentPending, error: KafkaError | None, record: Any) -> None:
        if error is None:
            pending.delivered = Delivered(TopicPartition(record.topic(), record.partition()), record.offset())
            return
        problem = translated(error)
        too_large = isinstance(problem, BrokerRejected) and problem.reason is Rejection.TOO_LARGE
        if too_large and not pending.alone:
            # The broker judges a whole batch, and the library does not split it: each is sent again by itself.
            pending.alone = True
            self._again.append(pending)
        elif isinstance(problem, BrokerUnavailable):
            pending.error = Unconfirmed([pending], 0)
        else:
            pending.error = problem

    def _serve(self, timeout_s: float) -> None:
        self._library.poll(timeout_s)
        while self._again:
            alone = self._again.pop(0)
            self._queue(alone)
            self._library.flush(max(timeout_s, _LONGEST_WAIT_S))

    def flush(self, timeout_s: float) -> None:
        """See the seam."""
        sent, self._sent = self._sent, []
        confirm(sent, timeout_s, self._clock)

    def close(self) -> None:
        """See the seam."""
        if not self._closed:
            self._closed = True
            with suppress(BrokerError), self._problems.at_the_edge():
                self._library.purge()
                self._library.flush(_QUEUE_WAIT_S)
