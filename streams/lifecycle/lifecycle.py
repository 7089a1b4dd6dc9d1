"""The lifecycle app without its transport: takes messages, follows the store, answers what is open.

Belongs to one thread, that of an event loop; only the store is read in another.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from schemas.errors import MessageError
from sinks.errors import StoreBusy, StoreUnavailable
from streams.clock import Clock
from streams.exit_message import decode_exit
from streams.lifecycle.exits import exit_of
from streams.lifecycle.knowledge import Bounds, Knowledge, OpenItems
from streams.lifecycle.records import QueueTerms, note_of
from streams.lifecycle.sync import Snapshot, Source, learn, read_doubts, read_everything, read_since, rebuilt, terms_in
from streams.registry import RegistryUnavailable

_log = logging.getLogger(__name__)
Decode = Callable[[bytes], dict[str, Any]]
"""Message of a companion topic to the redacted canonical record. Raises MessageError, and RegistryUnavailable."""
Read = Callable[[Callable[[Source], Snapshot]], Awaitable[Snapshot]]
"""Asks the store in another thread. Raises what the store raises, see :mod:`sinks.errors`."""
_OUTAGE = (StoreUnavailable, StoreBusy)


@dataclass(frozen=True)
class Pace:
    """How often the store is asked.

    Every ``sync_s`` for what was stored since the last time less ``overlap_us``, which covers the difference between
    clocks and the time from stamping a row to its being visible; every ``rebuild_s`` for everything.
    """

    sync_s: float = 10.0
    overlap_us: int = 60_000_000
    rebuild_s: float = 900.0


@dataclass
class Counts:
    """What happened since the process began. ``drift`` is how many items the last rebuild changed: those that changed
    meanwhile, and those that were wrong."""

    exits: int = 0
    notes: int = 0
    unreadable: int = 0
    undecoded: int = 0
    syncs: int = 0
    rebuilds: int = 0
    store_failures: int = 0
    drift: int = 0


@dataclass
class Lifecycle:
    """What is known, and how it follows the store.

    ``synced_at`` is when the store was last read, None before. ``is_complete``: everything that is stored was
    read once; before that, open items may be missing.
    """

    clock: Clock
    decode: Decode
    read: Read
    bounds: Bounds
    pace: Pace = Pace()
    counts: Counts = field(default_factory=Counts)
    synced_at: int | None = None
    is_complete: bool = False

    def __post_init__(self) -> None:
        self._knowledge = Knowledge(self.bounds)
        self._terms: dict[str, QueueTerms] = {}
        self._sync_due = self._rebuild_due = self.clock.monotonic()

    def open_items(self) -> OpenItems:
        """What is open."""
        return self._knowledge.open_items()

    @property
    def sizes(self) -> dict[str, int]:
        """How much is held in memory, see :attr:`Knowledge.sizes`."""
        return self._knowledge.sizes

    # Messages

    def take_exit(self, value: bytes) -> None:
        """Learn a message of ``exit-classifications``. One that is none is counted; the worker's store has it."""
        try:
            record = decode_exit(value)
        except MessageError as error:
            self._skip(error)
            return
        self._knowledge.add_exit(exit_of(record, terms_in(self._terms)), self.clock.now_micros())
        self.counts.exits += 1

    def take_companion(self, value: bytes) -> None:
        """Learn a message of a companion topic. One that is none is counted; its dead letter is the worker's. One whose
        schema cannot be had now is left to the store."""
        try:
            record = self.decode(value)
        except MessageError as error:
            self._skip(error)
            return
        except RegistryUnavailable:
            self.counts.undecoded += 1
            return
        note = note_of(record, record["type"])
        if note is not None:
            self._knowledge.add_note(note, self.clock.now_micros())
            self.counts.notes += 1

    def _skip(self, error: MessageError) -> None:
        self.counts.unreadable += 1
        _log.warning("message skipped", extra={"reason_code": error.code.value, "field_path": error.path})

    # The store

    async def follow(self) -> None:
        """Bring what is known up to the store, as far as it is time to. An outage is counted, and tried again later.

        Not to be called again before it has returned.
        """
        now = self.clock.now_micros()
        try:
            if self.clock.monotonic() >= self._rebuild_due:
                await self._rebuild(now)
            elif self.synced_at is not None and self.clock.monotonic() >= self._sync_due:
                await self._sync(now, self.synced_at)
            await self._recall()
        except _OUTAGE as error:
            self.counts.store_failures += 1
            _log.warning("store not read; tried again", extra={"error": str(error)})
        self._knowledge.forget(self.clock.now_micros())

    async def _rebuild(self, now: int) -> None:
        snapshot = await self.read(lambda source: read_everything(source, now))
        fresh = rebuilt(self._knowledge, snapshot, now, now - self.pace.overlap_us)
        if self.is_complete:
            self.counts.drift = _difference(self._knowledge.open_items(), fresh.open_items())
        self._knowledge, self._terms = fresh, dict(snapshot.terms)
        self.synced_at, self.is_complete = now, True
        self._rebuild_due = self.clock.monotonic() + self.pace.rebuild_s
        self._sync_due = self.clock.monotonic() + self.pace.sync_s
        self.counts.rebuilds += 1

    async def _sync(self, now: int, since: int) -> None:
        start = since - self.pace.overlap_us
        snapshot = await self.read(lambda source: read_since(source, start, now))
        learn(self._knowledge, snapshot, self.clock.now_micros())
        self._terms = dict(snapshot.terms)
        self.synced_at = now
        self._sync_due = self.clock.monotonic() + self.pace.sync_s
        self.counts.syncs += 1

    async def _recall(self) -> None:
        doubts = self._knowledge.doubts()
        if not doubts.runs and not doubts.events:
            return
        try:
            snapshot = await self.read(lambda source: read_doubts(source, doubts))
        except _OUTAGE:
            self._knowledge.doubt(doubts)
            raise
        learn(self._knowledge, snapshot, self.clock.now_micros())


def _difference(former: OpenItems, fresh: OpenItems) -> int:
    """How many items only one of them has, or has otherwise."""
    return sum(len(set(old) ^ set(new)) for old, new in zip(former[:2], fresh[:2], strict=True))
