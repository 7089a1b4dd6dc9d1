"""``offramp shadow accept``: differences that somebody answers for, in a file under version control."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from offramp.console import ConfigOption, Format, FormatOption, LockOption, StoreOption, give_json
from offramp.errors import CheckFailedError, ConfigurationError
from offramp.period import SinceOption, UntilOption
from offramp.verbs.shadow import group

if TYPE_CHECKING:
    from shadow.accepted import Verdict


def add_to(_app: typer.Typer) -> None:
    """Register with the group."""
    group.command()(accept)


def _named(option: str, metavar: str, text: str) -> Any:
    return typer.Option(option, metavar=metavar, help=text, show_default="any")


def _due(option: str, metavar: str, text: str) -> Any:
    return typer.Option(option, metavar=metavar, help=text, show_default=False)


def accept(
    disagreement: Annotated[str | None, _named("--disagreement", "NAME", "Its name.")] = None,
    label: Annotated[str | None, _named("--label", "TEXT", "Legacy label.")] = None,
    kind: Annotated[str | None, _named("--kind", "KIND", "Proposed exit.")] = None,
    reason_code: Annotated[str | None, _named("--reason-code", "CODE", "Its reason code.")] = None,
    tenant: Annotated[str | None, _named("--tenant", "NAME", "Runs of this tenant.")] = None,
    agent: Annotated[str | None, _named("--agent", "NAME", "Runs of this agent.")] = None,
    workflow: Annotated[str | None, _named("--workflow", "NAME", "Runs of this workflow.")] = None,
    owner: Annotated[str | None, _due("--owner", "NAME", "Who answers for it.")] = None,
    reason: Annotated[str | None, _due("--reason", "TEXT", "Why it is accepted.")] = None,
    ticket: Annotated[str | None, _due("--ticket", "TEXT", "Where it is followed up.")] = None,
    expires: Annotated[str | None, _due("--expires", "DATE", "Day from which on it counts again, UTC.")] = None,
    ceiling: Annotated[str | None, _due("--ceiling", "SHARE", "Most of the paired runs, such as 0.05.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Add nothing: say what becomes of each entry.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing: show the entry and its share.")] = False,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="File of accepted differences.", show_default="shadow.accepted"),
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    output: FormatOption = Format.TABLE,
    store: StoreOption = None,
    lock_timeout: LockOption = None,
    config: ConfigOption = None,
) -> None:
    """Accept a difference for a time, up to a share of the paired runs; or --check what was accepted.

    The entry is added to the file, which is made if there is none. What it covers is counted apart until it expires,
    and while it stays under its ceiling; past either it counts as a disagreement again, and reports say so. Ends with 1
    if the new entry would not stand today, with --check if any entry does not stand any more.
    """
    from offramp import accepting
    from offramp.period import period
    from offramp.session import start
    from offramp.shadowing import settled_store
    from offramp.witness import write
    from shadow.scope import Scope

    predicate = {
        "disagreement": disagreement, "legacy_label": label, "kind": kind, "reason_code": reason_code,
        "tenant": tenant, "agent_id": agent, "workflow": workflow,
    }  # fmt: skip
    given = predicate | {"owner": owner, "reason": reason, "ticket": ticket, "expires": expires, "ceiling": ceiling}
    if check and any(value is not None for value in given.values()):
        raise ConfigurationError("shadow accept: --check adds nothing; leave out what is to be accepted")
    session = start(config, store={"path": store, "lock_timeout_s": lock_timeout}, shadow={"accepted": file})
    path = session.settings.shadow.accepted
    if path is None:
        raise ConfigurationError("shadow accept: no file is named; give --file FILE, or set shadow.accepted")
    entries = accepting.read(path) if check else (accepting.made(given),)
    text = "" if check else accepting.added(path, entries[0])
    scope = Scope(*period(since, until, session.clock.now_micros))
    with settled_store(session, "shadow accept") as settled:
        judged = accepting.judged_in(settled.store, entries, scope, session.clock.now_micros())
    if not check:
        accepting.refuse_unless_it_stands(judged[0])
        if not dry_run:
            write(path, text.encode(), [])
    _print(path, judged, output, new=not check)
    raise typer.Exit(0 if all(each.stands for each in judged) else CheckFailedError.status)


def _print(path: Path, judged: "tuple[Verdict, ...]", output: Format, *, new: bool) -> None:
    from offramp import accepting

    if output is not Format.TABLE:
        give_json(accepting.as_json(path, judged), output)
    elif new:
        accepting.show_new(judged[0])
    else:
        accepting.show(path, judged)
