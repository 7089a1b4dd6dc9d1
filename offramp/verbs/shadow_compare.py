"""``offramp shadow compare``: what was not seen, then legacy against new."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offramp.console import ConfigOption, LockOption, StoreOption, give
from offramp.errors import ConfigurationError
from offramp.period import SinceOption, UntilOption
from offramp.verbs.shadow import AgentOption, TenantOption, WorkflowOption, group

if TYPE_CHECKING:
    from offramp.commands import Commands
    from offramp.session import Chosen, Session
    from shadow.candidate import Candidate
    from shadow.report import Report
    from shadow.scope import Scope
    from sinks.store import Store

_MICROS = 1_000_000


class Format(StrEnum):
    """How the report is given."""

    TABLE = "table"
    HTML = "html"
    JSON = "json"
    NDJSON = "ndjson"
    CSV = "csv"
    PARQUET = "parquet"


def add_to(_app: typer.Typer) -> None:
    """Register the command with its group."""
    group.command(name="compare")(compare)


def compare(
    since: SinceOption = None,
    until: UntilOption = None,
    agent: AgentOption = None,
    tenant: TenantOption = None,
    workflow: WorkflowOption = None,
    table: Annotated[
        Path | None,
        typer.Option(
            "--table",
            metavar="FILE",
            help="As if this table decided, from the stored facts.",
            show_default="as decided",
        ),
    ] = None,
    output: Annotated[
        Format, typer.Option("--format", help="table and html for people, the rest for programs.")
    ] = Format.TABLE,
    out: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write there.", show_default="stdout")
    ] = None,
    unproven: Annotated[
        bool, typer.Option("--unproven", help="Compare under the table of --table even if its proof fails.")
    ] = False,
    store: StoreOption = None,
    lock_timeout: LockOption = None,
    config: ConfigOption = None,
) -> None:
    """Compare what the legacy dispatcher did with what the new one would do, run by run, at each run's latest segment.

    First what was not seen; then counts, shares and intervals; each disagreement with its owner, trend and worst
    examples; then what operators' recovery says. Always ends with 0: it judges nothing; `shadow readiness` does.
    """
    from offramp.commands import Commands
    from offramp.session import start

    _check_output(output, out)
    session = start(config, store={"path": store, "lock_timeout_s": lock_timeout},
                    classify={"unproven": unproven or None})  # fmt: skip
    scope = _scope(session, since, until, tenant, agent, workflow)
    found = _report(session, scope, table)
    _give(found, Commands(store, config), output, out)


def _check_output(output: Format, out: Path | None) -> None:
    if output is Format.TABLE and out is not None:
        raise ConfigurationError(
            "shadow compare: a table goes to the terminal; with -o choose --format html, json, ndjson, csv or parquet"
        )
    if output is Format.PARQUET and out is None and sys.stdout.isatty():
        raise ConfigurationError("shadow compare: parquet is binary and would garble the terminal; add -o FILE")


def _scope(
    session: "Session",
    since: str | None,
    until: str | None,
    tenant: str | None,
    agent: str | None,
    workflow: str | None,
) -> "Scope":
    from offramp.period import period
    from shadow.scope import Scope

    when = period(since, until, session.clock.now_micros)
    return Scope(when.since, when.until, tenant, agent, workflow)


def _report(session: "Session", scope: "Scope", table: Path | None) -> "Report":
    from offramp.accepting import read as read_accepted
    from offramp.comparing import read_costs
    from offramp.session import choose_table
    from offramp.shadowing import settled_store
    from shadow.report import Question, report

    # What is wrong with a file is said before anything is settled.
    settings = session.settings.shadow
    chosen = None if table is None else choose_table(table, unproven=session.settings.classify.unproven)
    accepted = () if settings.accepted is None else read_accepted(settings.accepted)
    costs = None if settings.costs is None else read_costs(settings.costs)
    with settled_store(session, "shadow compare") as (store, mapping):
        question = Question(
            scope=scope,
            now=session.clock.now_micros(),
            patience_us=round(settings.patience_s * _MICROS),
            mapping=mapping.ref,
            accepted=accepted,
            costs=costs,
            candidate=None if chosen is None else _candidate(store, chosen),
        )
        return report(store.select, question)


def _candidate(store: "Store", chosen: "Chosen") -> "Candidate":
    from offramp.diffing import other_reasons, why_not_replayable
    from shadow.candidate import Candidate
    from sinks.comparisons import Comparisons

    current = next(iter(Comparisons(store).tables()), ("", ""))[0]
    table = chosen.table
    return Candidate(
        table,
        why_not_replayable(store, table),
        decides=table.digest == current,
        unproven=chosen.unproven,
        other_reasons=other_reasons(store, table),
    )


def _give(found: "Report", commands: "Commands", output: Format, out: Path | None) -> None:
    from offramp import comparing

    if output is Format.TABLE:
        comparing.show(found, commands)
        return
    give(comparing.FORMS[output.value](found, commands), out)
