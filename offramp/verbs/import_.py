"""``offramp import``: real agent runs, in the formats of others, to terminal events and legacy exits."""

import sys
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from offramp import console
from offramp.errors import ConfigurationError

if TYPE_CHECKING:
    from sources.base import Options

_MAX_TENANT = 1024


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command(name="import")(import_)


def _print_sources(wanted: bool) -> None:
    if not wanted:
        return
    from sources.registry import adapters

    rows = [(each.name, f"{each.title}. Cannot tell: {'; '.join(each.cannot_tell)}.") for each in adapters()]
    console.table(f"{len(rows)} sources", [("source", "left"), ("what it reads", "left")], rows)
    raise typer.Exit


def import_(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="Format of the files, see --list; auto recognises it by content.")
    ],
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Files and directories; - is standard input.")],
    tenant: Annotated[str, typer.Option("--tenant", help="Tenant of the records.")] = "import",
    occurred_at: Annotated[
        str | None,
        typer.Option(
            "--occurred-at", metavar="TIME", help="Stands in where the source has no time.", show_default="1970-01-01"
        ),
    ] = None,
    _list: Annotated[
        bool,
        typer.Option("--list", callback=_print_sources, is_eager=True, help="Show the sources and what they lack."),
    ] = False,
) -> None:
    """Turn recorded runs into typed JSON Lines: a terminal event each, and the harness's own verdict if it kept one.

    Only machine-readable fields are read, and no success is guessed. Errors go to stderr with their place. Ends with 1
    if there were any; their neighbours are imported all the same.
    """
    from offramp.importing import Importer

    importer = Importer(source, _options(tenant, occurred_at), _print, console.say)
    importer.run(files)
    sys.stdout.buffer.flush()
    _say_counts(importer.counts)
    raise typer.Exit(1 if importer.counts["errors"] else 0)


def _options(tenant: str, occurred_at: str | None) -> "Options":
    from schemas.errors import MessageError
    from sources.base import Options, iso_time

    if not 1 <= len(tenant) <= _MAX_TENANT:
        raise ConfigurationError(f"--tenant: must have 1 to {_MAX_TENANT} characters")
    try:
        return Options(tenant) if occurred_at is None else Options(tenant, iso_time(occurred_at))
    except MessageError as error:
        raise ConfigurationError(f"--occurred-at: {error.message}, such as 2026-11-30T08:00:00Z") from None


def _print(record: dict[str, Any]) -> None:
    from schemas.canonical import encode_json

    sys.stdout.buffer.write(encode_json(record) + b"\n")


def _say_counts(counts: Counter[str]) -> None:
    rest = {name: count for name, count in counts.items() if name not in ("files", "errors")}
    parts = [f"{name} {count:,}" for name, count in (*sorted(rest.items()), ("errors", counts["errors"]))]
    console.say(f"files {counts['files']:,}: {', '.join(parts)}")
    if not counts["files"]:
        console.say("nothing was imported: the directory holds no file to read")
    if rest:
        console.say("next: pipe or pass the lines to `offramp classify`")
