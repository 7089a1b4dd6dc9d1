"""Stored evidence through the classifier again: what ``rebuild`` does and shows."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from offramp import console
from offramp.errors import CouldNotCheckError
from offramp.period import Period
from offramp.session import Session
from sinks.store import Store
from streams.ingest import activate
from streams.parallel import Pool, WorkerLostError, cores
from streams.rebuild import PAGE_EVENTS, Exit, Rebuild, Report

SMALL_EVENTS = 5_000
"""Up to so many events are classified in this process: starting workers would take longer."""
_SHOWN_FAILURES = 5


@dataclass
class Rebuilding:
    """Rebuilds the classifications of a period by the session's table, and counts what moved."""

    session: Session
    when: Period
    dry_run: bool
    report: Report = field(default_factory=Report)

    def run(self) -> None:
        """Do it; the table becomes the current one once everything is classified. Raises CouldNotCheckError."""
        with self.session.existing_store("rebuild") as store:
            for _ in self._followed(store):
                pass
            if self.report.moves and not self.dry_run:
                activate(store, self.session.chosen.table, self.session.clock.now_micros)

    def _followed(self, store: Store) -> Iterator[int]:
        total, done = self._count(store), 0
        chosen, clock = self.session.chosen, self.session.clock
        rebuild = Rebuild(store, chosen.table, clock.now_micros, unproven=chosen.unproven, dry_run=self.dry_run)
        pages = store.scan_events(self.when.since, self.when.until, PAGE_EVENTS)
        with console.progress("rebuild", total) as show:
            try:
                for count in rebuild.run(pages, Pool(self._processes(total)).run, self.report):
                    done += count
                    show(done, done)
                    yield count
            except WorkerLostError as error:
                raise CouldNotCheckError(f"{error}; run the command again to go on") from None

    def _count(self, store: Store) -> int:
        since, until = (f"fromUnixTimestamp64Micro({moment})" for moment in self.when)
        sql = f"SELECT count() AS n FROM terminal_events FINAL WHERE occurred_at >= {since} AND occurred_at < {until}"  # noqa: S608
        number: int = json.loads(store.query(sql))["n"]
        return number

    def _processes(self, events: int) -> int:
        chosen = self.session.settings.classify.workers
        if chosen is not None:
            return chosen
        return 0 if events <= SMALL_EVENTS else cores()

    # --- for programs

    def as_json(self) -> dict[str, Any]:
        """Everything, in plain JSON values."""
        report = self.report
        return {
            "table": self.session.chosen.table.ref,
            "dry_run": self.dry_run,
            "read": report.read,
            "already": report.already,
            "erased": report.erased,
            "moved": [
                {"from": _exit_as_json(before), "to": _exit_as_json(after), "events": count}
                for (before, after), count in report.moved.most_common()
            ],
            "unchanged": report.moves.total() - report.moved.total(),
            "failures": [failure._asdict() for failure in report.failures],
        }

    # --- for people

    def show(self) -> None:
        """Print what moved from which exit to which."""
        report, moved = self.report, self.report.moved
        order = sorted(moved.items(), key=lambda item: (-item[1], item[0][0] or (), item[0][1]))
        rows = [(_said(before), _said(after), count) for (before, after), count in order]
        verb = "would move" if self.dry_run else "moved"
        title = f"{report.read:,} events read, {moved.total():,} {verb} to another exit"
        console.table(title, [("from", "left"), ("to", "left"), ("events", "right")], rows)
        if report.already:
            console.say(f"decided by this table before, so not decided again: {report.already:,}")
        if report.erased:
            console.say(f"erased on request, so each keeps the exit that it has: {report.erased:,}")
        console.say(self._end())

    def say_failures(self) -> None:
        """Say which events could not be read."""
        failures = self.report.failures
        for failure in failures[:_SHOWN_FAILURES]:
            console.say(f"{failure.tenant} {failure.event_id}: {failure.reason}")
        if failures:
            console.say(f"cannot be read: {len(failures):,} stored events; each keeps the classification that it has")

    def _end(self) -> str:
        table = self.session.chosen.table.file
        if self.dry_run:
            return "dry run: nothing was written"
        if not self.report.moves:
            return "nothing was there to classify"
        return f"table {table.id} {table.version} is the current one now"


def _said(exit_: Exit | None) -> str:
    return "not classified" if exit_ is None else f"{exit_[0]} {exit_[1]}"


def _exit_as_json(exit_: Exit | None) -> dict[str, str] | None:
    return None if exit_ is None else {"kind": exit_[0], "reason_code": exit_[1]}
