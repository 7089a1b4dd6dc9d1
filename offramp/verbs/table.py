"""``offramp table``: the decision table for people, and what is proved of one of your own, or wrong with it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from offramp.console import ConfigOption, Format, FormatOption, UnprovenOption, give_json
from offramp.errors import CheckFailedError

if TYPE_CHECKING:
    from classifier.proof import Proof
    from classifier.table import CompiledRow, Row, Table
    from offramp.table_testing import Findings


group = typer.Typer(no_args_is_help=True, help="Show a decision table, prove one of your own, test it.")


def add_to(app: typer.Typer) -> None:
    """Register the verb and its two parts."""
    app.add_typer(group, name="table")


@group.command()
def show(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A table file.", show_default="the default table")
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Print a decision table: rows in order, queues, thresholds, switches, digest. The first row that holds decides."""
    from classifier.table import default_text, load
    from offramp.session import parse_table

    table = load(default_text()) if file is None else parse_table(file)
    if output is Format.TABLE:
        _print(table)
    else:
        give_json(_as_json(table), output)


@group.command()
def check(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A table file.", show_default="the default table")
    ] = None,
    events: Annotated[
        Path | None,
        typer.Option(
            "--events",
            metavar="OUT",
            help="Write the events that show what fails, as JSON Lines.",
            show_default="nowhere",
        ),
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Prove a table for every combination of facts that an event can have, or refute it, each failure with an event.

    Also says what is wrong with the file, and in what it differs from the default table. The events show the failure
    with `offramp classify --unproven --table FILE`. Ends with 1 if the table cannot be used or is not proved, with 2 if
    it cannot be read.
    """
    from classifier.proof import prove
    from classifier.table import TableError, default_text, load
    from offramp.config import read_text

    default = load(default_text())
    try:
        table = default if file is None else load(read_text(file))
    except TableError as error:
        _refuse(file, error.problems, output)
        raise typer.Exit(CheckFailedError.status) from None
    proof = prove(table)
    if events is not None:
        _write_events(events, proof, table, [] if file is None else [file])
    _print_check(file, table, proof, default, output)
    raise typer.Exit(0 if proof.holds else CheckFailedError.status)


@group.command("test")
def run_tests(
    place: Annotated[Path, typer.Argument(metavar="DIR|FILE", help="Labelled events, .jsonl or .json.")],
    table: Annotated[
        Path | None, typer.Option("--table", metavar="FILE", help="Decision table.", show_default="the default table")
    ] = None,
    missing: Annotated[
        Path | None,
        typer.Option(
            "--missing", metavar="OUT", help="Write what no case exercises, to be labelled.", show_default="nowhere"
        ),
    ] = None,
    require_coverage: Annotated[
        bool, typer.Option("--require-coverage", help="Fail if a row or a feasible pair is not exercised.")
    ] = False,
    unproven: UnprovenOption = False,
    output: FormatOption = Format.TABLE,
    config: ConfigOption = None,
) -> None:
    """Run labelled events against a table, and say which rows and conditions of it they exercise (masking MC/DC).

    Only labelled events count as exercise. Ends with 1 if a case fails or cannot be used, or two cases of one id have
    different labels, and with --require-coverage if anything that is possible is not exercised. Ends with 2 if there
    is no case at all.
    """
    from offramp import table_testing
    from offramp.session import start

    session = start(config, classify={"table": table, "unproven": unproven or None})
    findings = table_testing.run(session, place)
    if missing is not None:
        _write_missing(missing, findings, table)
    if output is Format.TABLE:
        table_testing.show(findings)
    else:
        give_json(table_testing.as_json(findings), output)
    uncovered = require_coverage and not findings.coverage.is_complete
    raise typer.Exit(CheckFailedError.status if uncovered or not findings.passes else 0)


def _write_missing(path: Path, findings: "Findings", table: Path | None) -> None:
    from offramp import console
    from offramp.table_testing import to_be_labelled
    from offramp.witness import write_lines

    read = [*findings.files, *([] if table is None else [table])]
    written, wanted = write_lines(path, to_be_labelled(findings), read), len(findings.coverage.missing)
    beyond = f"; {wanted - written} more have no event under these thresholds" if wanted > written else ""
    console.say(f"events to be labelled: {written}, in {path}{beyond}")


def _write_events(path: Path, proof: "Proof", table: "Table", read: list[Path]) -> None:
    from offramp import console
    from offramp.proving import events_that_show
    from offramp.witness import write_lines

    written = write_lines(path, events_that_show(proof, table), read)
    console.say(f"events that show what fails: {written}, in {path}")


def _print_check(file: Path | None, table: "Table", proof: "Proof", default: "Table", output: Format) -> None:
    from classifier.difference import differences
    from offramp import proving

    found = differences(default, table)
    if output is not Format.TABLE:
        counted = {"valid": proof.holds, "table": table.ref, "rows": len(table.rows), "differences": found}
        give_json(counted | {"proof": proving.as_json(proof, table)}, output)
        return
    _print_usable(file, table, found, proved=proof.holds)
    proving.show(proof, table)


def _refuse(file: Path | None, problems: list[str], output: Format) -> None:
    from offramp import console
    from offramp.page import Page

    if output is not Format.TABLE:
        give_json({"valid": False, "problems": problems}, output)
        return
    page = Page()
    page.line(f"{file} cannot be used as a decision table: {console.counted(len(problems), 'problem')}", 0)
    for problem in problems:
        page.line(problem)


def _print_usable(file: Path | None, table: "Table", found: list[str], *, proved: bool) -> None:
    from offramp.console import counted
    from offramp.page import Page

    page = Page()
    verdict = "can be used" if proved else "is not proved, so it decides nothing unless --unproven is given"
    page.line(f"{file or 'the default table'} {verdict}: table {table.file.id} {table.file.version}, "
              f"{counted(len(table.rows), 'row')}", 0)  # fmt: skip
    page.line(f"digest {table.digest}")
    page.heading("Differences from the default table" if found else "No differences from the default table")
    for sentence in found:
        page.line(sentence)


def _as_json(table: "Table") -> dict[str, Any]:
    content = table.file.model_dump(exclude={"id", "version"})
    for row, compiled in zip(content["rows"], table.rows, strict=True):
        row |= {"when": " ".join(row["when"].split()), "kind": compiled.kind}
    return {"table": table.ref, **content}


def _print(table: "Table") -> None:
    from offramp.page import Page

    page, file = Page(), table.file
    page.line(f"Decision table {file.id} {file.version}. The first row that holds decides.", 0)
    page.line(f"digest {table.digest}", 0)
    for number, row in enumerate(table.rows, 1):
        page.heading(f"{number:>2} {row.row.id}: {_exit(row)}")
        page.line(f"when {' '.join(row.row.when.split())}", 2)
        for sentence in _reasons(row.row):
            page.line(f"reason {sentence}", 2)
    page.heading("Queues")
    for name, queue in file.queues.items():
        decisions = ", ".join(queue.allowed_decisions)
        page.line(f"{name}: {queue.owner}, within {queue.deadline_hours:g} h; may {decisions}")
    page.heading("Thresholds and switches")
    for name, value in {**file.thresholds.model_dump(), **file.switches}.items():
        page.line(f"{name} = {value}")


def _exit(row: "CompiledRow") -> str:
    queue = f", queue {row.row.queue}" if row.kind == "human_queue" else ""
    switched = f" (by {row.row.exit})" if row.row.exit != row.kind else ""
    return f"{row.kind}{queue}{switched}"


def _reasons(row: "Row") -> Iterator[str]:
    """What the reason code is, where it is not simply the row's id."""
    for finer in row.reasons:
        yield f"{finer.code} where {' '.join(finer.when.split())}"
    if row.reason_from:
        yield f"from the evidence of the {row.reason_from}, else {row.reason or row.id}"
    elif row.reason:
        yield row.reason
