"""``offramp doctor``: what is wrong with a configuration, a broker, a registry, a store or a clock."""

import os

import typer

from offramp.console import ConfigOption, Format, FormatOption, LockOption, StoreOption, give_json


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command(name="doctor")(doctor)


def doctor(
    output: FormatOption = Format.TABLE,
    store: StoreOption = None,
    lock_timeout: LockOption = None,
    config: ConfigOption = None,
) -> None:
    """Look at everything that a deployment needs, and say what is wrong with it and what to do. Changes nothing.

    Looks at files and secrets, topics, groups, clocks, the registry, the store and its users. Ends with 1 if anything
    is wrong, else with 3 if something could not be looked at. Advice alone ends with 0.
    """
    from offramp.doctor import Patient, examine, refused
    from offramp.errors import ConfigurationError
    from offramp.page import Page
    from offramp.session import start

    try:
        report = examine(Patient(start(config, store={"path": store, "lock_timeout_s": lock_timeout}), os.environ))
    except ConfigurationError as error:
        report = refused(error)
    if output is Format.TABLE:
        page = Page()
        for level, line in report.lines():
            page.line(line, level)
    else:
        give_json(report.as_json(), output)
    raise typer.Exit(report.exit_status)
