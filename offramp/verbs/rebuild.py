"""``offramp rebuild``: classify again what is stored, from its evidence."""

from pathlib import Path
from typing import Annotated

import typer

from offramp.console import ConfigOption, Format, FormatOption, LockOption, StoreOption, UnprovenOption, give_json
from offramp.period import SinceOption, UntilOption


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command(name="rebuild")(rebuild)


def rebuild(
    table: Annotated[
        Path | None, typer.Option("--table", metavar="FILE", help="Decision table.", show_default="the default table")
    ] = None,
    unproven: UnprovenOption = False,
    since: SinceOption = None,
    until: UntilOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would move; write nothing.")] = False,
    output: FormatOption = Format.TABLE,
    store: StoreOption = None,
    lock_timeout: LockOption = None,
    workers: Annotated[
        int | None, typer.Option("--workers", help="Worker processes.", show_default="one per core", min=0)
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Classify stored events again, facts and all, by a table and this version of the classifier.

    What was decided before stays what readers see until the last event is done. A run that was ended goes on where it
    was when it is run again. Ends with 1 if a stored event could not be read; it keeps its classification.
    """
    from offramp.period import period
    from offramp.rebuilding import Rebuilding
    from offramp.session import start

    session = start(
        config,
        store={"path": store, "lock_timeout_s": lock_timeout},
        classify={"table": table, "unproven": unproven or None, "workers": workers},
    )
    rebuilding = Rebuilding(session, period(since, until, session.clock.now_micros), dry_run)
    rebuilding.run()
    if output is Format.TABLE:
        rebuilding.show()
    else:
        give_json(rebuilding.as_json(), output)
    rebuilding.say_failures()
    raise typer.Exit(1 if rebuilding.report.failures else 0)
