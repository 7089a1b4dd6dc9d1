"""What a verb needs to work: resolved settings, clock, redactor, decision table, and the store while it is open."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from classifier.table import Table, TableError, default_text, load
from offramp.config import Settings, redaction_key, resolve
from offramp.errors import ConfigurationError, CouldNotCheckError
from schemas.redaction import Redactor
from sinks.lock import MARKER
from sinks.store import Store, open_store
from streams.clock import SystemClock


@dataclass(frozen=True)
class Session:
    """One run of a verb."""

    settings: Settings
    clock: SystemClock

    @property
    def redactor(self) -> Redactor:
        """The redaction that the settings ask for. Raises ConfigurationError for paths that name no field."""
        try:
            return Redactor(redaction_key(self.settings, os.environ), tuple(self.settings.redaction.paths))
        except ValueError as error:
            raise ConfigurationError(f"redaction: {error}") from None

    @property
    def table(self) -> Table:
        """The decision table that the settings name. Raises ConfigurationError if it cannot be used."""
        path = self.settings.classify.table
        return load(default_text()) if path is None else read_table(path)

    @contextmanager
    def store(self, verb: str) -> Iterator[Store]:
        """The store, owned by ``verb`` while the context lasts, its migrations applied."""
        settings = self.settings.store
        with open_store(
            settings.path,
            holder=f"offramp {verb}",
            lock_timeout_s=settings.lock_timeout_s,
            now=self.clock.now_micros,
            wait=time.sleep,
        ) as store:
            store.migrate()
            yield store

    @contextmanager
    def existing_store(self, verb: str) -> Iterator[Store]:
        """The store for a verb that only reads, which makes none. Raises CouldNotCheckError where there is none."""
        path = self.settings.store.path
        if not (path / MARKER).exists():
            raise CouldNotCheckError(f"there is no store at {path}; `offramp classify FILE --store {path}` makes one")
        with self.store(verb) as store:
            yield store


def start(config: Path | None, **flags: dict[str, Any]) -> Session:
    """Resolve the settings; ``flags`` are by section, each key None where it was not given."""
    return Session(resolve(config, os.environ, flags), SystemClock())


def read_text(path: Path) -> str:
    """The text of a file. Raises ConfigurationError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: no UTF-8 text at byte {error.start}") from None


def read_table(path: Path) -> Table:
    """A table file. Raises ConfigurationError that lists everything wrong with it."""
    try:
        return load(read_text(path))
    except TableError as error:
        listed = "".join(f"\n  {problem}" for problem in error.problems)
        raise ConfigurationError(f"{path} cannot be used as a decision table:{listed}") from None
