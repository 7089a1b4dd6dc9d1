"""``offramp alerts backtest``: when rules would have fired on stored history."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alerts.backtest import Labels
from offramp.console import ConfigOption, Format, FormatOption, LockOption, StoreOption, give_json
from offramp.errors import ConfigurationError
from offramp.verbs.alerts import group

if TYPE_CHECKING:
    from offramp.session import Session
    from sinks.store import Store


def add_to(_app: typer.Typer) -> None:
    """Register the command with its group."""
    group.command(name="backtest")(backtest)


def backtest(
    rules: Annotated[
        Path | None, typer.Option("--rules", metavar="FILE", help="The rules.", show_default="alerts.rules")
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against", metavar="FILE", help="Rules to hold them against, side by side.", show_default="none"
        ),
    ] = None,
    labels: Annotated[
        Labels,
        typer.Option("--labels", help="Exits as the store holds them, legacy's, or legacy's against the new ones."),
    ] = Labels.NEW,
    since: Annotated[
        str, typer.Option("--since", metavar="WHEN", help="Runs that ended from then on: days back, or ISO 8601.")
    ] = "30",
    until: Annotated[
        str | None,
        typer.Option(
            "--until", metavar="WHEN", help="Runs that ended before: days back, or ISO 8601.", show_default="now"
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="Firings of each list that are shown.", min=0)] = 20,
    output: FormatOption = Format.TABLE,
    store: StoreOption = None,
    lock_timeout: LockOption = None,
    config: ConfigOption = None,
) -> None:
    """Run rules over what is stored: when they would have fired, for how long, how often they would have flapped.

    By --against FILE two sets of rules, by --labels both the labels before and after a cutover: which pages appear,
    vanish, or move. The same evaluation as live, minute by minute. Ends with 0 whatever fires, with 3 if nothing is
    stored of the period.
    """  # fmt: skip
    from offramp import backtesting
    from offramp.alert_rules import book
    from offramp.period import period
    from offramp.session import start
    from sinks.alerts import AlertsStore

    if against is not None and labels is Labels.BOTH:
        raise ConfigurationError("alerts backtest: --against FILE and --labels both are two comparisons; give one")
    session = start(config, store={"path": store, "lock_timeout_s": lock_timeout})
    now = session.clock.now_micros()
    question = backtesting.Question(
        book(rules or session.settings.alerts.rules),
        None if against is None else book(against),
        labels,
        period(since, until, lambda: now),
        now,
    )
    with _opened(session, labels) as opened:
        found = backtesting.backtest(AlertsStore(opened), question)
    if output is Format.TABLE:
        backtesting.show(found, limit)
    else:
        give_json(backtesting.as_json(found), output)


@contextmanager
def _opened(session: "Session", labels: Labels) -> Iterator["Store"]:
    """The store, in which every run is settled if legacy's labels are asked for."""
    from offramp.shadowing import settled_store

    if labels is Labels.NEW:
        with session.existing_store("alerts backtest") as store:
            yield store
    else:
        with settled_store(session, "alerts backtest") as settled:
            yield settled.store
