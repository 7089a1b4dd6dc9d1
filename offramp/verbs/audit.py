"""``offramp audit``: everything that was read adds up, or where it does not."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from offramp import console
from offramp.console import ConfigOption, Format, FormatOption, LockOption, StoreOption, give_json

if TYPE_CHECKING:
    from offramp.auditing import Audit, Partition
    from streams.accounts import Account

_SHOWN_DIGITS = 12
_READ_AGAIN = "run the command again over that file"
_ASK_BROKER = "with kafka.servers set, the audit looks up what they held"


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command(name="audit")(audit)


def audit(
    store: StoreOption = None,
    store_only: Annotated[bool, typer.Option("--store-only", help="Ask no broker, even if one is configured.")] = False,
    output: FormatOption = Format.TABLE,
    lock_timeout: LockOption = None,
    config: ConfigOption = None,
) -> None:
    """Close the ledger: what was read is the sum of what became of it, without holes, and everything kept is there.

    With a broker, each hole is looked up in its log: an offset without a message is explained, one with a message is
    unaccounted; and what is still to be read is told apart as lag. Ends with 1 if anything is unaccounted for, and says
    what, where and what to do.
    """
    from offramp import streaming
    from offramp.books import closed
    from offramp.session import start

    session = start(config, store={"path": store, "lock_timeout_s": lock_timeout})
    with streaming.reachable(), session.existing_store("audit") as opened:
        result = closed(session.settings, session.clock, opened, with_broker=not store_only)
    if output is Format.TABLE:
        _print(result)
    else:
        give_json(_as_json(result), output)
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
    partitions = [partition.as_json() for partition in result.partitions]
    return {"unaccounted": result.unaccounted, "partitions": partitions, "checks": checks}


def _print(result: "Audit") -> None:
    has_log = any(each.log for each in result.partitions)
    columns = [("source", "left"), ("partition", "left"), ("read", "right"), ("became", "left"),
               ("unaccounted", "right"), *([("lag", "right")] if has_log else [])]  # fmt: skip
    console.table(f"unaccounted: {result.unaccounted:,}", columns, [_row(each, has_log) for each in result.partitions])
    for each in result.partitions:
        for note in _notes(each):
            console.say(f"{each.source} {each.partition}: {note}")
    for found in result.found:
        if found.count:
            place = f"{found.check.code}: {found.count:,}, such as {'; '.join(found.examples)}"
            console.say(f"{place}: {found.check.meaning}; {found.check.advice}")


def _row(each: "Partition", has_log: bool) -> tuple[Any, ...]:
    cells = (each.source, each.partition[:_SHOWN_DIGITS], each.counts["read"], _became(each.counts), each.unaccounted)
    return (*cells, "unknown" if each.log is None else each.log.lag) if has_log else cells


def _notes(each: "Partition") -> Iterator[str]:
    """What is not as it should be, or worth knowing, with what to do."""
    holes, overlaps, log = each.counts["holes"], each.counts["overlaps"], each.log
    if overlaps or (holes and log is None):
        gap = f"{holes:,} offsets have no ledger row, {overlaps:,} have several"
        yield f"{gap}; {_READ_AGAIN if each.source == 'file' else _ASK_BROKER}"
    if log is not None:
        yield from _log_notes(log)


def _log_notes(log: "Account") -> Iterator[str]:
    if log.missing:
        yield (
            f"{console.counted(log.missing, 'message')} passed without a ledger row; a worker that starts reads on "
            "at the end of the ledger, and for what lies before it restore the store, or have it sent again"
        )
    if log.vanished:
        yield (
            f"the log ends at {log.end:,}, {log.vanished:,} offsets before what is recorded or committed, as if the "
            "topic was made anew: what is written to it now counts as read; give it another name, see topics.prefix"
        )
    if log.expired:
        yield f"{log.expired:,} offsets expired before they were recorded; nobody can tell what they held"
    if log.unread:
        yield f"{log.unread:,} offsets of the log lie before the first that was recorded, where reading began later"


def _became(counts: Mapping[str, Any]) -> str:
    from sinks.rows import Disposition

    names = (*(fate.value for fate in Disposition), "unknown")
    return " + ".join(f"{counts[name]:,} {name}" for name in names if counts[name])
