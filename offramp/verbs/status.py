"""``offramp status``: how a deployment is now, on one screen."""

import sys
from typing import Annotated

import typer

from offramp import console
from offramp.console import ConfigOption, Format, FormatOption, LockOption, StoreOption, give_json


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command(name="status")(status)


def status(
    no_audit: Annotated[
        bool, typer.Option("--no-audit", help="Leave out lag and what is unaccounted, for which the ledger is read.")
    ] = False,
    output: FormatOption = Format.TABLE,
    store: StoreOption = None,
    lock_timeout: LockOption = None,
    config: ConfigOption = None,
) -> None:
    """Say how it is: workers, lag, newest event, ledger, unaccounted, dead letters, conflicts, open items, alerts.

    Broker and store are each asked for themselves. Ends with 1 if anything is unaccounted for or a topic is missing,
    else with 3 if broker or store was out of reach.
    """
    from offramp.session import start
    from offramp.status import Status

    found = Status(start(config, store={"path": store, "lock_timeout_s": lock_timeout}), audits=not no_audit)
    found.ask()
    if output is Format.TABLE:
        sys.stdout.writelines(f"{console.plain(line)}\n" for line in found.lines())
    else:
        give_json(found.as_json(), output)
    raise typer.Exit(found.exit_status)
