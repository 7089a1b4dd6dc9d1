"""What a verb needs to work: resolved settings, clock, redactor, decision table, and the store while it is open."""

import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import SecretStr

from classifier.proof import Failure, prove
from classifier.table import Table, TableError, default_text, load
from offramp.certificates import check_certificates
from offramp.config import Settings, StoreSettings, read_text, redaction_key, resolve
from offramp.errors import ConfigurationError, CouldNotCheckError
from schemas.redaction import Redactor
from sinks.errors import StoreForbidden
from sinks.lock import MARKER, is_in_use, note_in_use
from sinks.migrations import EMBEDDED, SERVER, load_migrations
from sinks.server import Server, Tls, User, open_server
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
        """The store, owned by ``verb`` while the context lasts if it is embedded, its migrations applied.

        Raises CouldNotCheckError if it had tables and they are gone, rather than to make them anew.
        """
        with self._opened(verb) as store:
            if store.is_new() and self._had_tables():
                raise CouldNotCheckError(_emptied(self.settings.store.path))
            self._bring_up_to_date(store)
            yield store

    def pending_migrations(self, verb: str) -> list[str]:
        """The migrations that the store lacks, by name; where there is no store, all. Changes nothing.

        Raises CouldNotCheckError if it had tables and they are gone.
        """
        if not self.may_have_store:
            return [migration.name for migration in load_migrations()]
        with self._opened(verb) as store:
            if store.is_new() and self._had_tables():
                raise CouldNotCheckError(_emptied(self.settings.store.path))
            return store.pending()

    @property
    def may_have_store(self) -> bool:
        """Whether there is a store, as far as can be told without opening it: always, where it is a server."""
        settings = self.settings.store
        return settings.url is not None or (settings.path / MARKER).exists()

    def _had_tables(self) -> bool:
        settings = self.settings.store
        return settings.url is None and is_in_use(settings.path)

    def _bring_up_to_date(self, store: Store) -> None:
        settings = self.settings.store
        if settings.url is None:
            store.migrate()
            note_in_use(settings.path)
        else:
            _migrate_server(store, settings.place)

    @contextmanager
    def _opened(self, verb: str) -> Iterator[Store]:
        with self._server_store() if self.settings.store.url else self._embedded_store(verb) as store:
            yield store

    def _embedded_store(self, verb: str) -> AbstractContextManager[Store]:
        settings = self.settings.store
        return open_store(
            settings.path,
            holder=f"offramp {verb}",
            lock_timeout_s=settings.lock_timeout_s,
            now=self.clock.now_micros,
            wait=time.sleep,
            layout=replace(EMBEDDED, retention_days=_retention(settings)),
        )

    def _server_store(self) -> AbstractContextManager[Store]:
        return open_server(server(self.settings.store), self.clock.now_micros)

    @contextmanager
    def existing_store(self, verb: str) -> Iterator[Store]:
        """The store for a verb that only reads, which makes none. Raises CouldNotCheckError where there is none."""
        settings = self.settings.store
        if not self.may_have_store:
            raise CouldNotCheckError(_absent(settings))
        with self._opened(verb) as store:
            if store.is_new():
                raise CouldNotCheckError(_emptied(settings.path) if self._had_tables() else _absent(settings))
            self._bring_up_to_date(store)
            yield store


def server(settings: StoreSettings) -> Server:
    """The server that the settings name. Raises ConfigurationError if they name none, or files that cannot be used."""
    if settings.url is None:
        raise ConfigurationError("no ClickHouse server is configured; set store.url")
    check_certificates("store", settings.ca, settings.certificate, settings.key)
    reader = None if settings.reader is None else User(settings.reader, _secret(settings.reader_password))
    return Server(
        url=settings.url,
        writer=User(settings.user, _secret(settings.password)),
        reader=reader,
        database=settings.database,
        tls=Tls(settings.ca, settings.certificate, settings.key, settings.verify, settings.server_host_name),
        connect_timeout_s=settings.connect_timeout_s,
        timeout_s=settings.timeout_s,
        compression=settings.compression,
        layout=replace(
            SERVER,
            cluster=settings.cluster,
            replicated=settings.replicated,
            sharded=settings.sharded,
            retention_days=_retention(settings),
        ),
    )


def _retention(settings: StoreSettings) -> dict[str, int]:
    """Days by the column that a table ages by."""
    days = {
        "occurred_at": settings.keep_events_days,
        "ingested_at": settings.keep_companions_days,
        "recorded_at": settings.keep_ledger_days,
    }
    return {column: number for column, number in days.items() if number is not None}


def _secret(given: SecretStr | None) -> str:
    return "" if given is None else given.get_secret_value()


def _migrate_server(store: Store, place: str) -> None:
    try:
        store.migrate()
    except StoreForbidden as error:
        raise ConfigurationError(
            f"the store at {place} lacks {', '.join(store.pending())}, and this user may not make tables; "
            "run `offramp init` once as one that may"
        ) from error


def _absent(settings: StoreSettings) -> str:
    maker = f"offramp classify FILE --store {settings.path}" if settings.url is None else "offramp init"
    return f"there is no store at {settings.place}; `{maker}` makes one"


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
