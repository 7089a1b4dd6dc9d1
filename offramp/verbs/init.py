"""``offramp init``: topics, schemas and tables, made where they are missing."""

from typing import Annotated

import typer

from offramp.console import ConfigOption, Format, FormatOption, LockOption, StoreOption, give_json


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command(name="init")(init)


def init(
    trial: Annotated[bool, typer.Option("--trial", help="The topics of `publish --trial` instead; no store.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be made; write nothing.")] = False,
    output: FormatOption = Format.TABLE,
    store: StoreOption = None,
    lock_timeout: LockOption = None,
    config: ConfigOption = None,
) -> None:
    """Make what is missing: topics, schemas in the registry, tables of the store. Running it twice changes nothing.

    A part that is not configured is left out. What exists is never changed: a topic with other partitions or another
    retention is reported, and so is a schema that its subject refuses. Ends with 1 if there was such a difference.
    """
    from offramp.initialising import Initialising
    from offramp.session import start

    session = start(config, store={"path": store, "lock_timeout_s": lock_timeout})
    initialising = Initialising(session, trial, dry_run)
    initialising.run()
    if output is Format.TABLE:
        initialising.show()
    else:
        give_json(initialising.as_json(), output)
    initialising.say_rest()
    raise typer.Exit(1 if initialising.differs else 0)
