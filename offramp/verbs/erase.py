"""``offramp erase``: the evidence of a run or an actor goes, what counts stays."""

from typing import Annotated

import typer

from offramp.console import ConfigOption, Format, FormatOption, LockOption, StoreOption, give_json
from offramp.errors import ConfigurationError


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command(name="erase")(erase)


def erase(
    run: Annotated[
        tuple[str, str] | None, typer.Option("--run", metavar="TENANT RUN_ID", help="The evidence of this run.")
    ] = None,
    actor: Annotated[
        tuple[str, str] | None,
        typer.Option("--actor", metavar="TENANT ACTOR", help="That of all runs that this actor asked for."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be erased; write nothing.")] = False,
    output: FormatOption = Format.TABLE,
    store: StoreOption = None,
    lock_timeout: LockOption = None,
    config: ConfigOption = None,
) -> None:
    """Erase evidence for good: texts of events, words of envelopes and companions, bytes of conflicts and dead letters.

    Rows, identities, digests, exits and the ledger stay, so that no rate changes and `audit` closes. It cannot be
    undone. On a server it needs the user that makes tables. Ends with 1 if nothing of that is stored.
    """
    from offramp.erasing import Erasing
    from offramp.session import start
    from sinks.erasure import Subject

    if "" in (*(run or ()), *(actor or ())):
        raise ConfigurationError("erase: a name is empty, and nobody is called that; is a variable not set?")
    session = start(config, store={"path": store, "lock_timeout_s": lock_timeout})
    if run is not None and actor is None:
        subject = Subject(run[0], run_id=run[1])
    elif actor is not None and run is None:
        subject = Subject(actor[0], actor=actor[1])
    else:
        raise ConfigurationError("erase: say whose evidence, by either --run TENANT RUN_ID or --actor TENANT ACTOR")
    erasing = Erasing(session, subject, dry_run)
    erasing.run()
    if output is Format.TABLE:
        erasing.show()
    else:
        give_json(erasing.as_json(), output)
    erasing.say_rest()
