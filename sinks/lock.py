"""One process owns an embedded store at a time.

The lock is the kernel's (``flock``), so that a holder that crashes releases it; the file's text only says who holds it.
Whoever waits is told the holder's verb, process, host and since when.
"""

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from schemas.types import to_iso
from sinks.errors import StoreBusy, StoreRejected

MARKER = "offramp-store"
LOCK = "offramp-store.lock"
POLL_S = 0.1


@dataclass(frozen=True)
class Holder:
    """Who owns a store: the verb that runs, its process id, its host, and since when (microseconds)."""

    verb: str
    pid: int
    host: str
    since: int

    def __str__(self) -> str:
        return f"`{self.verb}` (pid {self.pid} on {self.host}, since {to_iso(self.since)})"


def claim_directory(directory: Path) -> None:
    """Make ``directory`` a store's, or check that it is one. Raises StoreRejected for somebody else's directory.

    A store is recognised by its marker file. An absent or empty directory becomes a store; one that holds anything else
    is refused, because the engine would spread its files among what is there.
    """
    if directory.exists() and not directory.is_dir():
        raise StoreRejected(f"{directory} is a file, not a directory; name a directory for the store")
    if not (directory / MARKER).exists() and _holds_anything(directory):
        raise StoreRejected(f"{directory} is not empty and is no store; name an empty or a new directory")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / MARKER).touch()
    except OSError as error:
        raise StoreRejected(
            f"{directory} cannot be used as a store: {error.strerror}; even to read it, the engine has to write there"
        ) from error


def note_in_use(directory: Path) -> None:
    """Note in the marker that the store has its tables, so that their loss is not taken for a new store."""
    if not is_in_use(directory):
        (directory / MARKER).write_text("This store has its tables.\n", encoding="ascii")


def is_in_use(directory: Path) -> bool:
    """Whether the store once had its tables."""
    return (directory / MARKER).stat().st_size > 0


def _holds_anything(directory: Path) -> bool:
    # The lock file alone is a store whose first owner has not come as far as the marker.
    return directory.exists() and any(entry.name != LOCK for entry in directory.iterdir())


@contextmanager
def hold(directory: Path, holder: Holder, timeout_s: float, wait: Callable[[float], None]) -> Iterator[None]:
    """Own ``directory`` while the context lasts.

    Waits at most ``timeout_s`` seconds, by calling ``wait`` with seconds, then raises StoreBusy naming the holder.
    Raises StoreRejected if the lock cannot be opened.
    """
    descriptor = _open(directory / LOCK)
    try:
        _acquire(descriptor, directory, timeout_s, wait)
        _write(descriptor, json.dumps(asdict(holder)).encode())
        yield
        _write(descriptor, b"")
    finally:
        os.close(descriptor)


def _open(lock: Path) -> int:
    try:
        return os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StoreRejected(f"{lock} cannot be used as the store's lock: {error.strerror}") from error


def _acquire(descriptor: int, directory: Path, timeout_s: float, wait: Callable[[float], None]) -> None:
    waited = 0.0
    while not _try(descriptor):
        if waited >= timeout_s:
            raise StoreBusy(str(directory), _read_holder(descriptor))
        step = min(POLL_S, timeout_s - waited)
        wait(step)
        waited += step


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write(descriptor: int, text: bytes) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text, 0)


def _read_holder(descriptor: int) -> str:
    try:
        return str(Holder(**json.loads(os.pread(descriptor, 4096, 0))))
    except (ValueError, TypeError):
        # Read between the holder's lock and its note.
        return "another process that has just started"
