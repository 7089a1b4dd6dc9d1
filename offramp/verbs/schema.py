"""``offramp schema``: the published contract, and every code with its meaning."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from offramp import console
from offramp.console import Format, give_json
from offramp.errors import ConfigurationError

if TYPE_CHECKING:
    from offramp.reference import Listing


class Form(StrEnum):
    """How a published schema is written."""

    AVRO = "avro"
    JSON_SCHEMA = "json-schema"


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command(name="schema")(schema)


def schema(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="A schema, or a list of codes.", show_default="all names"),
    ] = None,
    form: Annotated[
        Form | None, typer.Option("--as", help="How a schema is written.", show_default="json-schema")
    ] = None,
    output: Annotated[
        Format | None, typer.Option("--format", help="How a list is printed.", show_default="table")
    ] = None,
) -> None:
    """Print a published schema, such as terminal-event, or the codes of facts, findings, gaps, reasons or errors.

    Without NAME, say which names there are.
    """
    from offramp.reference import LISTINGS
    from schemas.contract import PUBLISHED

    if name is not None and name in PUBLISHED:
        _check_unused(name, "--format", output)
        give_json(_published(name, form or Form.JSON_SCHEMA), Format.JSON)
    elif name is None or name in LISTINGS:
        _check_unused(name or "a list of names", "--as", form)
        _print_listing(_names() if name is None else LISTINGS[name](), output or Format.TABLE)
    else:
        known = ", ".join((*PUBLISHED, *LISTINGS))
        raise ConfigurationError(f"schema: there is no {console.plain(name)}; there are {known}")


def _check_unused(name: str, option: str, given: object) -> None:
    if given is not None:
        raise ConfigurationError(f"schema: {option} does not go with {name}; leave it out")


def _published(name: str, form: Form) -> Any:
    from schemas.published import avro, json_schema

    return avro(name) if form is Form.AVRO else json_schema(name)


def _names() -> "Listing":
    from offramp.reference import LISTINGS, Listing
    from schemas.contract import PUBLISHED

    schemas = [(name, "schema", _what(contract)) for name, contract in PUBLISHED.items()]
    lists = [(name, "list", listing().introduction.split(". ")[0].rstrip(".")) for name, listing in LISTINGS.items()]
    return Listing("Schemas and lists of codes", "", ("name", "form", "what"), schemas + lists)


def _what(contract: Any) -> str:
    """The first sentence about a model; a union of models has none of its own."""
    from schemas.types import Record

    if isinstance(contract, type) and issubclass(contract, Record):
        return (contract.__doc__ or "").split("\n")[0].rstrip(".")
    return "What a dispatcher acts on: one shape per exit kind, told apart by kind"


def _print_listing(listing: "Listing", output: Format) -> None:
    if output is Format.TABLE:
        first, *rest = listing.columns
        console.table(listing.title, [(first, "code"), *((column, "left") for column in rest)], listing.lines)
    else:
        give_json([dict(zip(listing.columns, line, strict=True)) for line in listing.lines], output)
