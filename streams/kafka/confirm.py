"""Waiting until what was sent is confirmed, whichever client sent it."""

from collections.abc import Sequence

from streams.clock import Clock
from streams.kafka.errors import BrokerError, BrokerUnavailable, Unconfirmed
from streams.kafka.seam import Pending


def confirm(sent: Sequence[Pending], timeout_s: float, clock: Clock) -> None:
    """Wait for all of ``sent`` together, for ``timeout_s`` seconds at most.

    Raises the first refusal of the broker, else Unconfirmed with those of which nothing is known.
    """
    deadline = clock.monotonic() + timeout_s
    unconfirmed: list[Pending] = []
    refused: BrokerError | None = None
    for pending in sent:
        try:
            pending.result(max(0.0, deadline - clock.monotonic()))
        except BrokerUnavailable:
            unconfirmed.append(pending)
        except BrokerError as error:
            refused = refused or error
    if refused is not None:
        raise refused
    if unconfirmed:
        raise Unconfirmed(unconfirmed, timeout_s)
