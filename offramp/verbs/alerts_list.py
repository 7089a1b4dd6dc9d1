"""``offramp alerts list``: what fires."""

from pathlib import Path
from typing import Annotated

import typer

from offramp.console import ConfigOption, Format, FormatOption, LockOption, StoreOption, give_json
from offramp.errors import CouldNotCheckError
from offramp.verbs.alerts import group


def add_to(_app: typer.Typer) -> None:
    """Register the command with its group."""
    group.command(name="list")(list_)


def list_(
    rules: Annotated[
        Path | None,
        typer.Option("--rules", metavar="FILE", help="The rules that alerts are of.", show_default="alerts.rules"),
    ] = None,
    since: Annotated[
        str,
        typer.Option("--since", metavar="WHEN", help="Also what was resolved from then on: days back, or ISO 8601."),
    ] = "1",
    output: FormatOption = Format.TABLE,
    store: StoreOption = None,
    lock_timeout: LockOption = None,
    config: ConfigOption = None,
) -> None:
    """List what fires: since when, why, with the top contributors and the commands to go on with.

    Then what may fire soon, and what was resolved lately. Ends with 0 whatever fires, with 3 if nobody has evaluated
    the rules for ten minutes, so that what fires is not known.
    """
    from offramp import alert_listing
    from offramp.alert_rules import book
    from offramp.commands import Commands
    from offramp.period import period
    from offramp.session import start
    from sinks.alerts import AlertsStore

    session = start(config, store={"path": store, "lock_timeout_s": lock_timeout})
    now = session.clock.now_micros()
    commands = Commands(store, config)
    chosen, resolved_since = book(rules or session.settings.alerts.rules), period(since, None, lambda: now).since
    with session.existing_store("alerts list") as opened:
        found = alert_listing.listing(AlertsStore(opened), chosen, commands, resolved_since, now)
    if output is Format.TABLE:
        alert_listing.show(found)
    else:
        give_json(alert_listing.as_json(found), output)
    raise typer.Exit(CouldNotCheckError.status if found.is_stale else 0)
