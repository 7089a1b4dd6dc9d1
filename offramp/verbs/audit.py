"""``offramp audit``: everything that was read adds up, or where it does not."""

import json
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from offramp import console
from offramp.console import ConfigOption, LockOption, StoreOption

if TYPE_CHECKING:
    from offramp.auditing import Audit

_SHOWN_DIGITS = 12


class Format(StrEnum):
    """How the answer is printed."""

    TABLE = "table"
    JSON = "json"


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command(name="audit")(audit)


def audit(
    store: StoreOption = None,
    output: Annotated[Format, typer.Option("--format", help="table for people, json for programs.")] = Format.TABLE,
    lock_timeout: LockOption = None,
    config: ConfigOption = None,
) -> None:
    """Close the ledger: what was read is the sum of what became of it, without holes, and everything kept is there.

    Ends with 1 if anything is unaccounted for, and says what, where and what to do.
    """
    from offramp.auditing import audit as closed
    from offramp.session import start

    session = start(config, store={"path": store, "lock_timeout_s": lock_timeout})
    with session.existing_store("audit") as opened:
        result = closed(opened)
    if output is Format.JSON:
        sys.stdout.write(json.dumps(_as_json(result), indent=2) + "\n")
    else:
        _print(result)
    raise typer.Exit(1 if result.unaccounted else 0)


def _as_json(result: "Audit") -> dict[str, Any]:
    checks = [
        {
            "code": found.check.code,
            "meaning": found.check.meaning,
            "unaccounted": found.check.counts,
            "count": found.count,
            "examples": list(found.examples),
        }
        for found in result.found
    ]
    return {"unaccounted": result.unaccounted, "partitions": list(result.partitions), "checks": checks}


def _print(result: "Audit") -> None:
    columns = [("source", "left"), ("partition", "left"), ("read", "right"), ("became", "left"), ("holes", "right")]
    rows = [
        (each["source"], each["partition"][:_SHOWN_DIGITS], each["read"], _became(each), each["holes"])
        for each in result.partitions
    ]
    console.table(f"unaccounted: {result.unaccounted:,}", columns, rows)
    for each in result.partitions:
        if each["holes"] or each["overlaps"]:
            gap = f"{each['holes']:,} offsets have no ledger row, {each['overlaps']:,} have several"
            console.say(f"{each['source']} {each['partition']}: {gap}; run the command again over that file")
    for found in result.found:
        if found.count:
            place = f"{found.check.code}: {found.count:,}, such as {'; '.join(found.examples)}"
            console.say(f"{place}: {found.check.meaning}; {found.check.advice}")


def _became(partition: dict[str, Any]) -> str:
    from sinks.rows import Disposition

    names = (*(fate.value for fate in Disposition), "unknown")
    return " + ".join(f"{partition[name]:,} {name}" for name in names if partition[name])
