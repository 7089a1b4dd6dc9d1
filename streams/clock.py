"""The only place that reads the clock. Everything else is handed a :class:`Clock`, or the time itself."""

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """What time it is, and how long something took."""

    def now_micros(self) -> int:
        """Return the wall time in microseconds since 1970-01-01T00:00Z. May jump, also backwards."""
        ...

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment. Never goes backwards; only differences mean something."""
        ...


@dataclass(frozen=True)
class SystemClock:
    """The clock of this machine."""

    def now_micros(self) -> int:
        """Return the wall time of this machine in microseconds since the epoch."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Return the seconds of this machine's monotonic clock."""
        return time.monotonic()


@dataclass
class FixedClock:
    """A clock for tests: stands still until :meth:`advance` moves it."""

    micros: int = 0
    seconds: float = 0.0

    def now_micros(self) -> int:
        """Return the wall time that was set."""
        return self.micros

    def monotonic(self) -> float:
        """Return the seconds that passed by :meth:`advance`."""
        return self.seconds

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass on both clocks; a part of a microsecond is dropped from the wall time."""
        self.seconds += seconds
        self.micros += int(seconds * 1_000_000)
