"""Files into the pipeline: what ``classify`` and ``load`` have in common."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

from offramp import console
from offramp.config import StoreSettings
from offramp.errors import ConfigurationError, CouldNotCheckError
from offramp.session import Session
from schemas.exits import KINDS
from sinks.rows import Disposition
from streams.files import SOURCE_KIND, STDIN, Source, chunks, open_source
from streams.ingest import Report, Writer
from streams.parallel import Pool, WorkerLostError, cores
from streams.worker import TERMINAL_EVENT, Outcome, Setup, Task

SMALL_BYTES = 8 << 20
"""Files up to this size are read in this process: starting workers would take longer."""
_KEPT_APART = "SELECT tenant, event_id, partition, offset FROM v_conflicts"


@dataclass
class Ingestion:
    """Reads files through the pipeline and counts what happened. ``lines`` asks for the contract's output."""

    session: Session
    spool: Path
    lines: bool = False
    report: Report = field(default_factory=Report)

    def without_store(self, files: Sequence[str]) -> Iterator[bytes]:
        """Classify and keep nothing; yields output lines."""
        setup = self._setup(rows=False)
        for source in open_sources(files, self.spool):
            for outcome in self._followed(source, self._outcomes(source, setup)):
                self.report.add(outcome)
                yield outcome.lines

    def into_store(self, files: Sequence[str], verb: str) -> Iterator[bytes]:
        """Store and classify; yields output lines, each once its batch is stored."""
        table, setup = self.session.table, self._setup(rows=True)
        sources = open_sources(files, self.spool)
        under_way = _begun(self._outcomes(source, setup) for source in sources)
        with self.session.store(verb) as store:
            for source, outcomes in zip(sources, under_way, strict=True):
                writer = Writer(store, table, self.session.clock.now_micros)
                decoded = self._followed(source, outcomes)
                recorded = writer.recorded_until(SOURCE_KIND, source.partition)
                for outcome in writer.write(decoded, self.report, recorded):
                    yield outcome.lines
                # A file of companions decides nothing, so the table that decided before stays the current one.
                if any(kind == TERMINAL_EVENT for kind, _ in self.report.fates):
                    writer.activate()

    def _setup(self, *, rows: bool) -> Setup:
        table, unproven = self.session.chosen
        return Setup(table.text, self.session.redactor, rows=rows, lines=self.lines, unproven=unproven)

    def _outcomes(self, source: Source, setup: Setup) -> Iterator[Outcome]:
        now = self.session.clock.now_micros
        tasks = (Task(chunk, SOURCE_KIND, source.partition, now()) for chunk in chunks(source, setup.limits))
        try:
            yield from Pool(self._processes(source)).run(setup, tasks)
        except WorkerLostError as error:
            raise CouldNotCheckError(str(error)) from None
        except OSError as error:
            raise CouldNotCheckError(f"{source.name}: {error.strerror}; run the command again to go on") from None

    def _processes(self, source: Source) -> int:
        chosen = self.session.settings.classify.workers
        if chosen is not None:
            return chosen
        return 0 if source.size <= SMALL_BYTES else cores()

    def _followed(self, source: Source, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        """Show progress as outcomes come, not as batches of them are stored, which takes seconds each."""
        done = 0
        with console.progress(Path(source.name).name or source.name, source.size) as show:
            for outcome in outcomes:
                done += outcome.messages
                show(outcome.consumed, done)
                yield outcome

    # --- for people

    def print_exits(self) -> None:
        """Print the counts per kind and reason on stdout."""
        report, events = self.report, self.report.events
        order = sorted(report.tally.items(), key=lambda item: (_rank(item[0][0]), -item[1], item[0][1]))
        rows = [
            (kind, reason or "-", count, f"{count / events:.1%}" if kind in KINDS and events else "-")
            for (kind, reason), count in order
        ]
        columns = [("kind", "left"), ("reason", "left"), ("messages", "right"), ("share of events", "right")]
        console.table(f"{console.counted(report.read, 'message')} read, {self._classified()}", columns, rows)

    def _classified(self) -> str:
        """How many events, each once; without a store nobody can tell whether one was there before."""
        fates, duplicates = self.report.fates, self.report.fates[TERMINAL_EVENT, Disposition.DUPLICATE]
        events = fates[TERMINAL_EVENT, Disposition.CLASSIFIED] if fates else self.report.events
        known = f", {console.counted(duplicates, 'duplicate')}" if duplicates else ""
        return f"{console.counted(events, 'event')} classified{known}"

    def print_fates(self) -> None:
        """Print what became of the messages, by record type, on stdout."""
        report = self.report
        rows = [(kind or "no valid record", fate.value, count) for (kind, fate), count in sorted(report.fates.items())]
        columns = [("record type", "left"), ("disposition", "left"), ("messages", "right")]
        console.table(f"{console.counted(report.read, 'message')} read", columns, rows)

    def say_ledger(self) -> None:
        """Say how the ledger closes."""
        counts = self.report.dispositions
        parts = [f"{counts[fate]:,} {fate}" for fate in Disposition if counts[fate]]
        place = self.session.settings.store.place
        console.say(f"ledger: {self.report.read:,} read = {' + '.join(parts) or '0'}; kept in {place}")

    def say_findings(self) -> None:
        """Say what a person should look at: messages that are no records, conflicts, secrets."""
        report = self.report
        if report.errors:
            console.say(f"no valid records: {report.errors:,}; `offramp validate FILE` says why")
        if conflicts := report.dispositions[Disposition.CONFLICTING]:
            console.say(
                f"conflicting: {conflicts:,}, known by their id with other content, so kept apart; "
                f"see {self.query_hint(_KEPT_APART)}"
            )
        if self.session.chosen.unproven:
            console.say(
                "unproven: the proof of this table fails, and each of its exits says so; see offramp table check"
            )
        if report.redacted:
            console.say(f"secrets replaced by keyed digests: {report.redacted:,}")

    def query_hint(self, sql: str) -> str:
        """The command that asks this store."""
        settings = self.session.settings.store
        store = "" if settings.url or settings.path == StoreSettings().path else f" --store {settings.path}"
        return f'offramp query "{sql}"{store}'


def _begun(runs: Iterator[Iterator[Outcome]]) -> Iterator[Iterator[Outcome]]:
    """The same, with the first outcome of the first taken. Then worker processes have started, and go on while a store
    is opened, which takes as long as a few thousand events."""
    first = next(runs)
    return chain([chain(list(islice(first, 1)), first)], runs)


def open_sources(files: Sequence[str], spool: Path) -> list[Source]:
    """The files, ``-`` for standard input, what cannot be read twice copied into ``spool``.

    Raises ConfigurationError.
    """
    if len([name for name in files if name == "-"]) > 1:
        raise ConfigurationError("standard input can be read once; - stands twice")
    return [_opened(name, spool) for name in files]


def _opened(name: str, spool: Path) -> Source:
    try:
        return open_source(name, spool, sys.stdin.buffer)
    except OSError as error:
        place = "standard input" if name == STDIN else name or "a file name that is empty"
        raise ConfigurationError(f"{place}: {error.strerror}") from None


def _rank(kind: str) -> int:
    return KINDS.index(kind) if kind in KINDS else len(KINDS)
