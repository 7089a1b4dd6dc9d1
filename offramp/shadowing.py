"""What the verbs of the comparison share: the store with its runs settled, and the label mapping that settled them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from offramp import console
from offramp.config import read_text
from offramp.errors import ConfigurationError
from offramp.session import Session
from schemas.types import to_iso
from shadow.mapping import LabelMapping, MappingError, default_text, load
from shadow.settle import Reach, settle
from sinks.comparisons import VIEWS, Comparisons
from sinks.errors import StoreForbidden
from sinks.store import Store

_DAY_MICROS = 86_400_000_000
_WORTH_TELLING = 2
"""From so many slices on it is told how many are done."""


class Settled(NamedTuple):
    """An open store in which every run is settled, by ``mapping``."""

    store: Store
    mapping: LabelMapping


def chosen_mapping(session: Session) -> LabelMapping:
    """The label mapping that the settings name. Raises ConfigurationError that lists everything wrong with it."""
    path = session.settings.shadow.mapping
    if path is None:
        return load(default_text())
    try:
        return load(read_text(path))
    except MappingError as error:
        listed = "".join(f"\n  {problem}" for problem in error.problems)
        raise ConfigurationError(f"{path} cannot be used as a label mapping:{listed}") from None


@contextmanager
def settled_store(session: Session, verb: str) -> Iterator[Settled]:
    """The store for a verb that reads the comparison, everything that was stored before being settled.

    Raises as :meth:`Session.existing_store` and :func:`chosen_mapping` do.
    """
    mapping = chosen_mapping(session)
    with session.existing_store(verb) as store:
        settle_now(session, store, mapping)
        yield Settled(store, mapping)


def settle_now(session: Session, store: Store, mapping: LabelMapping) -> None:
    """Settle what was stored since the last time. A user who may not write reads what others have settled, and is told
    so."""
    try:
        settle(store, mapping, session.clock.now_micros(), _told, reach(session))
    except StoreForbidden:
        last = Comparisons(store).last()
        until = "nothing, so far" if last is None else f"what was stored before {to_iso(last.through)}"
        console.say(f"this user may not write, and sees what others have settled: {until}")


def settle_if_compared(session: Session, store: Store) -> None:
    """Settle if any legacy exit is stored; for a verb that has enough to say where there is none. Raises
    ConfigurationError for a mapping that cannot be used."""
    if store.select("SELECT count() AS n FROM legacy_exits")[0]["n"]:
        settle_now(session, store, chosen_mapping(session))


def settle_for(session: Session, store: Store, sql: str) -> None:
    """Settle if a statement asks for the comparison. Raises ConfigurationError for a mapping that cannot be used."""
    if any(view in sql for view in VIEWS):
        settle_now(session, store, chosen_mapping(session))


def reach(session: Session) -> Reach:
    """How far a settling looks back: into an embedded store nothing comes late, because it has one owner at a time."""
    if session.settings.store.url is None:
        return Reach()
    return Reach(overlap=int(session.settings.lifecycle.overlap_s * 1_000_000), whole_every=_DAY_MICROS)


def _told(done: int, of: int) -> None:
    if of >= _WORTH_TELLING and sys.stderr.isatty():
        console.say(f"settling runs: {done} of {of} parts")
