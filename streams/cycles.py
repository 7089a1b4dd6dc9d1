"""Python's look for reference cycles, made rare.

Only errors make any, and to look among so many small objects again and again costs a fifth of the time.
"""

import gc
from typing import Self

_FULL_EVERY = 256
"""Looks among the young objects for one among all. What a batch leaves behind is young; little outlives it."""


class RareLooks:
    """While the context lasts, cycles are looked for when :meth:`look` is called, once a batch, and no more."""

    def __enter__(self) -> Self:
        self._was_enabled, self._looks = gc.isenabled(), 0
        gc.disable()
        gc.freeze()
        return self

    def look(self) -> None:
        """Look for cycles among what is new."""
        self._looks += 1
        gc.collect(0 if self._looks % _FULL_EVERY else 2)

    def __exit__(self, *_: object) -> None:
        gc.unfreeze()
        if self._was_enabled:
            gc.enable()
