"""Asks something that may be out of reach again and again, in a thread of its own, so that whoever works never waits.

What is known is when it answered last, which is all that readiness needs: one that hangs is as good as one that fails.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from streams.clock import Clock
from streams.pages import Verdict

_log = logging.getLogger("offramp.watch")
_JOIN_S = 1.0


@dataclass
class Watch:
    """Calls ``ask`` every ``every_s`` seconds. ``name`` is what is asked, for people.

    ``ask`` is called in one thread only, and ``end`` at last in the same. Whatever ``ask`` raises counts as no answer,
    since a watch that dies of a surprise would say for ever what it saw last.
    """

    name: str
    ask: Callable[[], object]
    every_s: float
    clock: Clock
    end: Callable[[], None] = lambda: None
    _heard_at: float | None = None
    _silent: str = ""
    _stop: threading.Event = field(default_factory=threading.Event)

    def once(self) -> None:
        """Ask now."""
        try:
            self.ask()
        except Exception as error:  # noqa: BLE001 -- see the class
            self._note(f"does not answer: {error}")
        else:
            self._heard_at = self.clock.monotonic()
            self._note("")

    def _note(self, silent: str) -> None:
        """Log what changed, once."""
        if silent and not self._silent:
            _log.warning("no answer", extra={"asked": self.name, "reason": silent})
        elif self._silent and not silent:
            _log.info("answers", extra={"asked": self.name})
        self._silent = silent

    def verdict(self, within_s: float) -> Verdict:
        """Whether it answered within the last ``within_s`` seconds. Safe in any thread."""
        heard_at, silent = self._heard_at, self._silent
        if heard_at is not None and (ago := self.clock.monotonic() - heard_at) <= within_s:
            return Verdict(ok=True, reason=f"{self.name} answered {ago:.0f} s ago")
        unheard = "was not asked yet" if heard_at is None else "has not answered lately"
        return Verdict(ok=False, reason=f"{self.name} {silent or unheard}")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Ask in a thread while the context lasts. One that hangs is left to the end of the process."""
        thread = threading.Thread(target=self._run, name=f"watch {self.name}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(_JOIN_S)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self.once()
                self._stop.wait(self.every_s)
        finally:
            self.end()
