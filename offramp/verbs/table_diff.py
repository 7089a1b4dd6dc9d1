"""``offramp table diff``: what an edit of the table does, before it runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offramp.console import ConfigOption, Format, FormatOption, LockOption, StoreOption, give_json
from offramp.period import SinceOption
from offramp.verbs.table import group

if TYPE_CHECKING:
    from classifier.table import Table
    from offramp.diffing import Traffic
    from offramp.period import Period
    from offramp.session import Chosen, Session

_DEFAULT = "default"


def add_to(_app: typer.Typer) -> None:
    """Register the command with its group."""
    group.command(name="diff")(diff)


def diff(
    old: Annotated[str, typer.Argument(metavar="A", help="A table file, or `default`.")],
    new: Annotated[str, typer.Argument(metavar="B", help="The table file to compare with it, or `default`.")],
    store: StoreOption = None,
    since: SinceOption = None,
    listed: Annotated[int, typer.Option("--list", metavar="N", help="Stored events named per change.", min=0)] = 3,
    events: Annotated[
        Path | None,
        typer.Option("--events", metavar="FILE", help="Write an event for each change there.", show_default="nowhere"),
    ] = None,
    unproven: Annotated[
        bool, typer.Option("--unproven", help="Compare the tables even if the proof of A or B fails, and say which.")
    ] = False,
    output: FormatOption = Format.TABLE,
    lock_timeout: LockOption = None,
    config: ConfigOption = None,
) -> None:
    """Say which runs get another exit by table B than by table A: over everything possible, and over what is stored.

    Without a store, what is possible is compared alone. Ends with 1 if a change may loosen safety: if it leads some run
    to a less careful exit. From careful to careless: refusal and human_queue, fallback and partial, completed. Ends
    with 2 if A or B cannot be used, or is not proved and --unproven is not given.
    """
    from offramp.diffing import Asked, as_json, compare, show, witness_lines
    from offramp.period import period
    from offramp.session import start
    from offramp.witness import write

    session = start(config, store={"path": store, "lock_timeout_s": lock_timeout},
                    classify={"unproven": unproven or None})  # fmt: skip
    before, after = _table(old, session), _table(new, session)
    when = period(since, None, session.clock.now_micros)
    stored = _traffic(session, (before.table, after.table), when, listed, required=store is not None)
    found = compare(before, after, stored)
    if events is not None:
        write(events, witness_lines(found), (Path(old), Path(new)))
    if output is Format.TABLE:
        show(found, Asked(None if new == _DEFAULT else Path(new), store))
    else:
        give_json(as_json(found), output)
    raise typer.Exit(1 if found.loosens else 0)


def _table(name: str, session: "Session") -> "Chosen":
    """A table by file or as the default, proved unless the settings allow another."""
    from classifier.table import default_text, load
    from offramp.session import Chosen, choose_table

    if name == _DEFAULT:
        return Chosen(load(default_text()), unproven=False)
    return choose_table(Path(name), unproven=session.settings.classify.unproven)


def _traffic(
    session: "Session", tables: tuple["Table", "Table"], when: "Period", listed: int, *, required: bool
) -> "Traffic | None":
    """What is stored; None where there is no store and none was asked for."""
    from offramp.diffing import traffic_in

    if not required and not session.may_have_store:
        return None
    with session.existing_store("table diff") as opened:
        return traffic_in(opened, *tables, when, listed)
