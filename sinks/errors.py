"""What can go wrong with the store, split by what the caller does about it.

::

    StoreError
    ├── StoreBusy          another process owns the store: wait, then say who holds it
    ├── StoreUnavailable   an outage: retry with backoff, nothing is wrong with the data
    ├── StoreForbidden     user, password or rights do not allow it: stop, have them corrected
    ├── StoreDamaged       what was stored is lost or unreadable: stop, restore it
    └── StoreRejected      the row, the statement or the store itself is bad: retrying cannot help

No error of the engine or of its client leaves this package under its own name.
"""


class StoreError(Exception):
    """Base of everything that the store raises."""


class StoreBusy(StoreError):  # noqa: N818 -- a state that is waited for, named as one
    """Another process owns the embedded store. ``holder`` says which verb, process and host, and since when."""

    def __init__(self, directory: str, holder: str) -> None:
        super().__init__(f"the store in {directory} is in use by {holder}")
        self.directory, self.holder = directory, holder

    def __reduce__(self) -> tuple[type["StoreBusy"], tuple[str, str]]:
        return type(self), (self.directory, self.holder)


class StoreUnavailable(StoreError):  # noqa: N818 -- reads as the state that is retried
    """The engine cannot answer now: out of memory or disk, unreachable, overloaded. Retry with backoff."""


class StoreForbidden(StoreError):  # noqa: N818 -- a verdict on who asks, named as one
    """Whoever asks is not let in, or not to that. Nothing is wrong with the data, and waiting does not help."""


class StoreDamaged(StoreError):  # noqa: N818 -- a state, named as one
    """What was stored is gone or cannot be read any more. Neither waiting nor other input helps; a backup does."""


class StoreRejected(StoreError):  # noqa: N818 -- reads as the verdict on what was handed in
    """What was handed in is bad and stays bad: a row, a statement, a directory. The message names what and why."""
