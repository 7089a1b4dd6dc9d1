"""``offramp doctor``: what is wrong with a configuration, a broker, a registry, a store or a clock."""

import json
import os
import sys
from enum import StrEnum
from typing import Annotated

import typer

from offramp.console import ConfigOption, LockOption, StoreOption


class Format(StrEnum):
    """How the answer is printed."""

    TABLE = "table"
    JSON = "json"


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command(name="doctor")(doctor)


def doctor(
    output: Annotated[Format, typer.Option("--format", help="table for people, json for programs.")] = Format.TABLE,
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
    if output is Format.JSON:
        sys.stdout.write(json.dumps(report.as_json(), indent=2, ensure_ascii=False) + "\n")
    else:
        page = Page()
        for level, line in report.lines():
            page.line(line, level)
    raise typer.Exit(report.exit_status)
