"""What a verb needs to work: resolved settings, clock, redactor, decision table, and the store while it is open."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from classifier.proof import Failure, prove
from classifier.table import Table, TableError, default_text, load
from offramp.config import Settings, read_text, redaction_key, resolve
from offramp.errors import ConfigurationError, CouldNotCheckError
from schemas.redaction import Redactor
from sinks.lock import MARKER, is_in_use, note_in_use
from sinks.migrations import load_migrations
from sinks.store import Store, open_store
from streams.clock import SystemClock


class Chosen(NamedTuple):
    """A decision table to decide by. ``unproven`` says that its proof fails, and that it is used all the same."""

    table: Table
    unproven: bool


@dataclass(frozen=True)
class Session:
    """One run of a verb."""

    settings: Settings
    clock: SystemClock

    @property
    def redactor(self) -> Redactor:
        """The redaction that the settings ask for. Raises ConfigurationError for paths that name no field."""
        try:
            key, advice = redaction_key(self.settings, os.environ)
            return Redactor(key, tuple(self.settings.redaction.paths), key_advice=advice)
        except ValueError as error:
            raise ConfigurationError(f"redaction: {error}") from None

    @cached_property
    def chosen(self) -> Chosen:
        """The decision table that the settings name. Raises ConfigurationError if it cannot be used, or is not proved
        and the settings do not allow that."""
        settings = self.settings.classify
        if settings.table is None:
            # Proved by a test of the project, so not once more at every start.
            return Chosen(load(default_text()), unproven=False)
        return choose_table(settings.table, unproven=settings.unproven)

    @property
    def table(self) -> Table:
        """The decision table alone. Raises as ``chosen`` does."""
        return self.chosen.table

    @contextmanager
    def store(self, verb: str) -> Iterator[Store]:
        """The store, owned by ``verb`` while the context lasts, its migrations applied.

        Raises CouldNotCheckError if it had tables and they are gone, rather than to make them anew.
        """
        with self._opened(verb) as store:
            if store.is_new() and is_in_use(self.settings.store.path):
                raise CouldNotCheckError(_emptied(self.settings.store.path))
            self._bring_up_to_date(store)
            yield store

    def pending_migrations(self, verb: str) -> list[str]:
        """The migrations that the store lacks, by name; where there is no store, all. Changes nothing.

        Raises CouldNotCheckError if it had tables and they are gone.
        """
        path = self.settings.store.path
        if not (path / MARKER).exists():
            return [migration.name for migration in load_migrations()]
        with self._opened(verb) as store:
            if store.is_new() and is_in_use(path):
                raise CouldNotCheckError(_emptied(path))
            return store.pending()

    def _bring_up_to_date(self, store: Store) -> None:
        store.migrate()
        note_in_use(self.settings.store.path)

    @contextmanager
    def _opened(self, verb: str) -> Iterator[Store]:
        settings = self.settings.store
        with open_store(
            settings.path,
            holder=f"offramp {verb}",
            lock_timeout_s=settings.lock_timeout_s,
            now=self.clock.now_micros,
            wait=time.sleep,
        ) as store:
            yield store

    @contextmanager
    def existing_store(self, verb: str) -> Iterator[Store]:
        """The store for a verb that only reads, which makes none. Raises CouldNotCheckError where there is none."""
        path = self.settings.store.path
        if not (path / MARKER).exists():
            raise CouldNotCheckError(_absent(path))
        with self._opened(verb) as store:
            if store.is_new():
                raise CouldNotCheckError(_emptied(path) if is_in_use(path) else _absent(path))
            self._bring_up_to_date(store)
            yield store


def _absent(path: Path) -> str:
    return f"there is no store at {path}; `offramp classify FILE --store {path}` makes one"


def _emptied(path: Path) -> str:
    return (
        f"the store at {path} has lost its tables; restore it from a backup, "
        "or name a new directory and classify the files again"
    )


def start(config: Path | None, **flags: dict[str, Any]) -> Session:
    """Resolve the settings; ``flags`` are by section, each key None where it was not given."""
    return Session(resolve(config, os.environ, flags), SystemClock())


def choose_table(path: Path, *, unproven: bool) -> Chosen:
    """A table file to decide by; one whose proof fails only where ``unproven`` allows it. Raises ConfigurationError."""
    table = parse_table(path)
    failures = prove(table).failures
    if failures and not unproven:
        raise ConfigurationError(_refusal(path, failures))
    return Chosen(table, unproven=bool(failures))


def _refusal(path: Path, failures: tuple[Failure, ...]) -> str:
    first = failures[0]
    lines = [f"{path} is not proved, so it decides nothing. {first.text}"]
    if first.bits is not None:
        lines.append(f"smallest counter-example: {', '.join(first.facts) or 'no fact holds'}")
    if len(failures) > 1:
        lines.append(f"and {len(failures) - 1} more")
    lines.append(f"`offramp table check {path}` shows it as an event; with --unproven the table is used all the same")
    return "\n  ".join(lines)


def parse_table(path: Path) -> Table:
    """A table file, proved or not. Raises ConfigurationError that lists everything wrong with it."""
    try:
        return load(read_text(path))
    except TableError as error:
        listed = "".join(f"\n  {problem}" for problem in error.problems)
        raise ConfigurationError(f"{path} cannot be used as a decision table:{listed}") from None
