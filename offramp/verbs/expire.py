"""``offramp expire``: retention as configured, on a store that exists."""

from typing import Annotated

import typer

from offramp.console import ConfigOption, Format, FormatOption, LockOption, StoreOption, give_json


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command(name="expire")(expire)


def expire(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change; write nothing.")] = False,
    output: FormatOption = Format.TABLE,
    store: StoreOption = None,
    lock_timeout: LockOption = None,
    config: ConfigOption = None,
) -> None:
    """Keep the rows of every table as long as store.keep_events_days and its like say; delete what is older, for good.

    New tables are made like that; this brings an existing store to it after a change. Run it daily on an embedded one,
    whose engine runs for moments only. A server goes on by itself; the change needs the user that makes tables.
    """
    from offramp.expiring import Expiring
    from offramp.session import start

    expiring = Expiring(start(config, store={"path": store, "lock_timeout_s": lock_timeout}), dry_run)
    expiring.run()
    if output is Format.TABLE:
        expiring.show()
    else:
        give_json(expiring.as_json(), output)
