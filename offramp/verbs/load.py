"""``offramp load``: what else arrived about runs, next to the events that it is about."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from offramp.console import ConfigOption, LockOption, StoreOption, UnprovenOption


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command(name="load")(load)


def load(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Files of records; - is standard input.")],
    store: StoreOption = None,
    lock_timeout: LockOption = None,
    table: Annotated[
        Path | None,
        typer.Option("--table", metavar="FILE", help="Decision table for events.", show_default="the default table"),
    ] = None,
    unproven: UnprovenOption = False,
    config: ConfigOption = None,
) -> None:
    """Store companions: legacy exits, recovery actions, review events, enrichments.

    Files as `classify` reads them. Terminal events among the records are stored and classified too. Ends with 1 if any
    record was none of the contract's; those are kept as dead letters, and their neighbours are stored all the same.
    """
    from offramp.ingestion import Ingestion
    from offramp.session import start

    session = start(
        config,
        store={"path": store, "lock_timeout_s": lock_timeout},
        classify={"table": table, "unproven": unproven or None},
    )
    with tempfile.TemporaryDirectory(prefix="offramp-") as spool:
        ingestion = Ingestion(session, Path(spool))
        for _ in ingestion.into_store(files, "load"):
            pass  # storing is what the iteration does; no lines were asked for
    ingestion.print_fates()
    ingestion.say_ledger()
    ingestion.say_findings()
    raise typer.Exit(1 if ingestion.report.errors else 0)
