"""``offramp explain``: why one run got its exit, and what would have earned a better one."""

from pathlib import Path
from typing import Annotated

import typer

from offramp.console import ConfigOption, Format, FormatOption, LockOption, StoreOption, UnprovenOption, give_json
from offramp.errors import ConfigurationError


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command(name="explain")(explain)


def explain(
    event_id: Annotated[str, typer.Argument(metavar="EVENT_ID", help="The event to explain.")],
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="Whose event, where several have that id.", show_default="any")
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file", metavar="FILE", help="Take it from a file; - is standard input.", show_default="the store"
        ),
    ] = None,
    output: FormatOption = Format.TABLE,
    table: Annotated[
        Path | None, typer.Option("--table", metavar="FILE", help="Decision table.", show_default="the default table")
    ] = None,
    unproven: UnprovenOption = False,
    store: StoreOption = None,
    lock_timeout: LockOption = None,
    config: ConfigOption = None,
) -> None:
    """Explain an exit: the row and the facts that decided, the fields behind them, and why no earlier row held.

    Also what is prohibited, what must still happen, and which missing evidence would have earned a better exit. Ends
    with 1 if there is no such event.
    """
    from offramp.explaining import as_json, from_file, from_store, show
    from offramp.session import start

    if file is not None and store is not None:
        raise ConfigurationError("explain: --file and --store exclude each other; leave one out")
    session = start(
        config,
        store={"path": store, "lock_timeout_s": lock_timeout},
        classify={"table": table, "unproven": unproven or None},
    )
    found = from_store(session, event_id, tenant) if file is None else from_file(session, event_id, tenant, file)
    if output is Format.TABLE:
        show(found)
    else:
        give_json(as_json(found), output)
