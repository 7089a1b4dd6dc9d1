"""``offramp run``: the processes that run for ever."""

from typing import Annotated

import typer

from offramp.console import ConfigOption, LockOption, StoreOption, UnprovenOption
from streams.start import Start

verb = typer.Typer(no_args_is_help=True, help="The processes that run beside the legacy dispatcher, for ever.")


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.add_typer(verb, name="run")


@verb.command(name="classify")
def classify(
    start_from: Annotated[
        Start | None,
        typer.Option("--start-from", help="Where to begin what the group has read and the ledger does not know."),
    ] = None,
    until_end: Annotated[
        bool, typer.Option("--until-end", help="End once the group has stored everything that is there now.")
    ] = False,
    unproven: UnprovenOption = False,
    store: StoreOption = None,
    lock_timeout: LockOption = None,
    config: ConfigOption = None,
) -> None:
    """Read terminal events and companions from the broker; classify and store them.

    Writes nothing that a dispatcher reads. SIGTERM or Ctrl-C: the batch at hand is stored, then it ends. It goes on
    where the ledger ends, however it ended. With --until-end, what other members of the group have committed is stored;
    for whom it waits is logged.
    """
    from offramp.classifying import run_classify
    from offramp.session import start

    flags = {"path": store, "lock_timeout_s": lock_timeout}
    run_classify(start(config, store=flags, classify={"unproven": unproven or None}), start_from, until_end=until_end)


@verb.command(name="lifecycle")
def lifecycle(
    alerts_only: Annotated[
        bool, typer.Option("--alerts-only", help="Evaluate alerts from the store alone, without a broker and pages.")
    ] = False,
    store: StoreOption = None,
    lock_timeout: LockOption = None,
    config: ConfigOption = None,
) -> None:
    """Follow open partials and open reviews: ages, deadlines, pages, metrics and alerts. Stores no evidence.

    Any number may run; one of them evaluates alerts, and tells whoever the section alerts names.
    """
    from offramp.session import start

    session = start(config, store={"path": store, "lock_timeout_s": lock_timeout})
    if alerts_only:
        from offramp.alerting import run_alerts

        raise typer.Exit(run_alerts(session))
    from offramp.lifecycle_app import run_lifecycle

    raise typer.Exit(run_lifecycle(session))
