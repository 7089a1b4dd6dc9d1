"""``offramp query``: ask the store, in SQL, without being able to change it."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offramp.console import ConfigOption, LockOption, StoreOption, give, json_lines, json_text
from offramp.errors import ConfigurationError

if TYPE_CHECKING:
    from offramp.session import Session


class Format(StrEnum):
    """How the answer is given."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    NDJSON = "ndjson"
    PARQUET = "parquet"


_ENGINE_FORMATS = {
    Format.TABLE: "JSONCompactEachRowWithNamesAndTypes",
    Format.CSV: "CSVWithNames",
    Format.JSON: "JSONEachRow",
    Format.NDJSON: "JSONEachRow",
    Format.PARQUET: "Parquet",
}


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command(name="query")(query)


def query(
    sql: Annotated[
        str | None, typer.Argument(metavar="SQL", help="One reading statement in ClickHouse's SQL.", show_default=False)
    ] = None,
    output: Annotated[Format, typer.Option("--format", help="table for people, the rest for programs.")] = Format.TABLE,
    out: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write there.", show_default="stdout")
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="List views and columns, and what they mean.")] = False,
    store: StoreOption = None,
    lock_timeout: LockOption = None,
    config: ConfigOption = None,
) -> None:
    """Ask the store. Views are named v_...; `v_exits` has one flat row per event with its current exit.

    Only reading is possible; runs are settled first where the statement asks for `v_comparison` or a view over it. Ends
    with 2 if the statement is none that the engine takes.
    """
    from offramp.session import start

    if schema == (sql is not None):
        raise ConfigurationError('query: give either a statement, such as "SELECT * FROM v_exits", or --schema')
    _check_output(output, out, schema=schema)
    session = start(config, store={"path": store, "lock_timeout_s": lock_timeout})
    if sql is None:
        _show_schema(session, output, out)
    else:
        _answer(session, sql, output, out)


def _check_output(output: Format, out: Path | None, *, schema: bool) -> None:
    if output is Format.TABLE and out is not None:
        raise ConfigurationError(
            "query: a table goes to the terminal; with -o choose --format csv, json, ndjson or parquet"
        )
    if output is Format.PARQUET and schema:
        raise ConfigurationError("query: the schema comes as table, csv, json or ndjson")
    if output is Format.PARQUET and out is None and sys.stdout.isatty():
        raise ConfigurationError("query: parquet is binary and would garble the terminal; add -o FILE")


def _answer(session: "Session", sql: str, output: Format, out: Path | None) -> None:
    from offramp.querying import answer, json_array, show_table, utf8
    from offramp.shadowing import settle_for

    with session.existing_store("query") as opened:
        settle_for(session, opened, sql)
        content = answer(opened, sql, _ENGINE_FORMATS[output])
    if output is Format.TABLE:
        show_table(content)
    elif output is Format.JSON:
        give(json_array(content), out)
    else:
        give(utf8(content) if output is Format.NDJSON else content, out)


def _show_schema(session: "Session", output: Format, out: Path | None) -> None:
    from offramp.querying import schema, schema_csv, show_schema, view_comments

    with session.existing_store("query") as opened:
        columns, comments = schema(opened), view_comments(opened)
    if output is Format.TABLE:
        show_schema(columns, comments)
    elif output is Format.CSV:
        give(schema_csv(columns), out)
    else:
        rows = [column._asdict() for column in columns]
        give(json_lines(rows) if output is Format.NDJSON else json_text(rows), out)
