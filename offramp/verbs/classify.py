"""``offramp classify``: terminal events in, proven exits out."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from offramp import console
from offramp.console import ConfigOption, Format, FormatOption, LockOption, StoreOption, UnprovenOption

_COUNTS = "SELECT kind, reason_code, count() FROM v_exits GROUP BY ALL"


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command(name="classify")(classify)


def classify(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Files of events; - is standard input.")],
    output: FormatOption = Format.TABLE,
    no_store: Annotated[bool, typer.Option("--no-store", help="Classify only; keep nothing.")] = False,
    store: StoreOption = None,
    lock_timeout: LockOption = None,
    table: Annotated[
        Path | None, typer.Option("--table", metavar="FILE", help="Decision table.", show_default="the default table")
    ] = None,
    unproven: UnprovenOption = False,
    workers: Annotated[
        int | None, typer.Option("--workers", help="Worker processes.", show_default="one per core", min=0)
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Classify terminal events: JSON Lines, JSON array or Avro container, also .gz and .zst, recognised by content.

    Events and their exits are stored, companions in the same files too. Running it twice changes nothing. Ends with 1
    if any line was no valid record; those are kept as dead letters, and their neighbours are classified all the same.
    """
    from offramp.ingestion import Ingestion
    from offramp.session import start

    session = start(
        config,
        store={"path": store, "lock_timeout_s": lock_timeout},
        classify={"table": table, "unproven": unproven or None, "workers": workers},
    )
    with tempfile.TemporaryDirectory(prefix="offramp-") as spool:
        ingestion = Ingestion(session, Path(spool), lines=output is not Format.TABLE)
        outcomes = ingestion.without_store(files) if no_store else ingestion.into_store(files, "classify")
        _print_lines(_as_array(outcomes) if output is Format.JSON else outcomes)
    if output is Format.TABLE:
        ingestion.print_exits()
    if output is Format.TABLE and not no_store:
        ingestion.say_ledger()
        console.say(f"next: {ingestion.query_hint(_COUNTS)}")
    ingestion.say_findings()
    raise typer.Exit(1 if ingestion.report.errors else 0)


def _as_array(outcomes: Iterator[bytes]) -> Iterator[bytes]:
    """The elements of one JSON array, as they come; each outcome is any number of whole lines."""
    before = b"[\n"
    for lines in filter(None, outcomes):
        yield before + b",\n".join(lines.splitlines())
        before = b",\n"
    yield b"[]\n" if before == b"[\n" else b"\n]\n"


def _print_lines(lines: Iterator[bytes]) -> None:
    for line in lines:
        sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
