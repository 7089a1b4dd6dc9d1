"""``offramp alerts``: rules that tell on-call which exits go wrong, checked and tested before they page anybody."""

from pathlib import Path
from typing import Annotated

import typer

from offramp.console import ConfigOption, Format, FormatOption, LockOption, StoreOption, give_json
from offramp.errors import CheckFailedError

group = typer.Typer(no_args_is_help=True, help="Alert rules: check and test them; what fires, and what would have.")


def add_to(app: typer.Typer) -> None:
    """Register the verb and its parts."""
    app.add_typer(group, name="alerts")


@group.command()
def check(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A rule file.", show_default="alerts.rules, else the shipped rules"),
    ] = None,
    since: Annotated[
        str, typer.Option("--since", metavar="WHEN", help="Traffic from then on: days back, or ISO 8601.")
    ] = "14",
    traffic: Annotated[
        bool, typer.Option("--traffic/--no-traffic", help="Hold the rules against the stored traffic.")
    ] = True,
    output: FormatOption = Format.TABLE,
    store: StoreOption = None,
    lock_timeout: LockOption = None,
    config: ConfigOption = None,
) -> None:
    """Check a rule file: every problem with its place and reason.

    Warns of rules that at the stored traffic can never fire or, once they do, never clear; where there is no store, it
    says that nothing is known of the traffic. Ends with 1 if the file cannot be used as rules, with 2 if it cannot be
    read; warnings do not change that.
    """
    from alerts.toml_file import FileError
    from offramp import alert_rules
    from offramp.session import start

    session = start(config, store={"path": store, "lock_timeout_s": lock_timeout})
    file = file or session.settings.alerts.rules
    try:
        checked = alert_rules.read_book(file)
    except FileError as error:
        if output is Format.TABLE:
            alert_rules.show_refused(file, error.problems)
        else:
            give_json({"valid": False, "problems": list(error.problems)}, output)
        raise typer.Exit(CheckFailedError.status) from None
    doubts = alert_rules.doubts(session, checked, since) if traffic else None
    if output is Format.TABLE:
        alert_rules.show_checked(file, checked, doubts)
    else:
        give_json(alert_rules.checked_as_json(checked, doubts), output)


@group.command("test")
def run_tests(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Tests of rules on synthetic series, in TOML.")],
    rules: Annotated[
        Path | None,
        typer.Option("--rules", metavar="FILE", help="The rules to test.", show_default="those that the tests name"),
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Run tests of rules: synthetic series through the evaluator that runs live, minute by minute.

    Tests that name no rules are of those that are shipped. Ends with 1 if a test fails, with 2 if a file cannot be read
    or used.
    """
    from offramp import alert_rules

    under_test, outcomes = alert_rules.rehearse(file, rules)
    if output is Format.TABLE:
        alert_rules.show_rehearsed(under_test, outcomes)
    else:
        give_json(alert_rules.rehearsed_as_json(under_test, outcomes), output)
    raise typer.Exit(CheckFailedError.status if any(outcome.failures for outcome in outcomes) else 0)
