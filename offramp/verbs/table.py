"""``offramp table``: the decision table for people, and what is wrong with one of your own."""

import json
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from offramp.errors import CheckFailedError

if TYPE_CHECKING:
    from classifier.table import CompiledRow, Row, Table


class Format(StrEnum):
    """How the answer is printed."""

    TABLE = "table"
    JSON = "json"


FormatOption = Annotated[Format, typer.Option("--format", help="table for people, json for programs.")]

group = typer.Typer(no_args_is_help=True, help="Show a decision table, or check one of your own.")


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
    from offramp.session import read_table

    table = load(default_text()) if file is None else read_table(file)
    if output is Format.JSON:
        _print_json(_as_json(table))
    else:
        _print(table)


@group.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A table file.")],
    output: FormatOption = Format.TABLE,
) -> None:
    """Check a table file: everything that is wrong with it, or in what it differs from the default table.

    Ends with 1 if it cannot be used, with 2 if it cannot be read.
    """
    from classifier.difference import differences
    from classifier.table import TableError, default_text, load
    from offramp.session import read_text

    try:
        table = load(read_text(file))
    except TableError as error:
        _refuse(file, error.problems, output)
        raise typer.Exit(CheckFailedError.status) from None
    found = differences(load(default_text()), table)
    if output is Format.JSON:
        _print_json({"valid": True, "table": table.ref, "rows": len(table.rows), "differences": found})
    else:
        _accept(file, table, found)


def _refuse(file: Path, problems: list[str], output: Format) -> None:
    from offramp.page import Page

    if output is Format.JSON:
        _print_json({"valid": False, "problems": problems})
        return
    page = Page()
    page.line(f"{file} cannot be used as a decision table: {len(problems)} problems", 0)
    for problem in problems:
        page.line(problem)


def _accept(file: Path, table: "Table", found: list[str]) -> None:
    from offramp.page import Page

    page = Page()
    page.line(f"{file} can be used: table {table.file.id} {table.file.version}, {len(table.rows)} rows", 0)
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


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
