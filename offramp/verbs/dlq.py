"""``offramp dlq``: dead letters, listed, shown, and sent back to where they are classified."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from offramp.console import ConfigOption, Format, FormatOption, LockOption, StoreOption, give_json
from offramp.errors import OfframpError
from streams.redrive import MAX_REPLAYS, State

if TYPE_CHECKING:
    from offramp.dead_letters import Filter


SinceOption = Annotated[
    str | None,
    typer.Option("--since", metavar="WHEN", help="Dead from then on: days back, or ISO 8601.", show_default="all"),
]
UntilOption = Annotated[
    str | None,
    typer.Option("--until", metavar="WHEN", help="Dead before: days back, or ISO 8601.", show_default="all"),
]
ReasonOption = Annotated[
    list[str] | None, typer.Option("--reason", metavar="CODE", help="Of this reason; may be given several times.")
]
StateOption = Annotated[list[State] | None, typer.Option("--state", help="In this state; may be given several times.")]
TopicOption = Annotated[str, typer.Option("--topic", metavar="NAME", help="Read from this topic; or: file.")]
PartitionOption = Annotated[
    str, typer.Option("--partition", metavar="N", help="Of this partition; of a file the first digits of its hash.")
]

group = typer.Typer(no_args_is_help=True, help="Dead letters: list them, show one, send them back.")


def add_to(app: typer.Typer) -> None:
    """Register the verb and its parts."""
    app.add_typer(group, name="dlq")


@group.command(name="list")
def list_(
    since: SinceOption = None,
    until: UntilOption = None,
    reason: ReasonOption = None,
    state: StateOption = None,
    topic: TopicOption = "",
    partition: PartitionOption = "",
    limit: Annotated[int, typer.Option("--limit", help="Letters that are listed; the newest come first.", min=0)] = 20,
    output: FormatOption = Format.TABLE,
    store: StoreOption = None,
    lock_timeout: LockOption = None,
    config: ConfigOption = None,
) -> None:
    """List dead letters: how many by reason and state, then the newest.

    The state says what became of a letter: dead, waiting (redriven, not read yet), dead_again (it is a letter of its
    own now), or what the redriven message became: classified, stored, duplicate, conflicting. Always ends with 0.
    """
    from offramp.dead_letters import listing
    from offramp.session import start

    session = start(config, store={"path": store, "lock_timeout_s": lock_timeout})
    wanted = _filter(since, until, reason, state, topic, partition, now=session.clock.now_micros)
    with session.existing_store("dlq list") as opened:
        found = listing(opened, wanted, limit)
    if output is Format.TABLE:
        found.show()
    else:
        give_json(found.as_json() if output is Format.JSON else found.letters_as_json(), output)


@group.command()
def show(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Topic that it was read from; or: file.")],
    partition: Annotated[
        str, typer.Argument(metavar="PARTITION", help="Its partition; first digits of a file's hash.")
    ],
    offset: Annotated[int, typer.Argument(metavar="OFFSET", help="Its offset.", min=0)],
    whole: Annotated[bool, typer.Option("--all", help="All bytes, however many.")] = False,
    output: FormatOption = Format.TABLE,
    store: StoreOption = None,
    lock_timeout: LockOption = None,
    config: ConfigOption = None,
) -> None:
    """Show one dead letter: what is wrong and where, what became of it, its headers, its bytes as text or hexadecimal.

    Secrets are masked as they are stored. Ends with 1 if there is no such letter.
    """
    from offramp.dead_letters import shown
    from offramp.session import start

    session = start(config, store={"path": store, "lock_timeout_s": lock_timeout})
    with session.existing_store("dlq show") as opened:
        found = shown(opened, source, partition, offset)
    if output is Format.TABLE:
        found.show(whole=whole)
    else:
        give_json(found.as_json(), output)


@group.command()
def redrive(
    since: SinceOption = None,
    until: UntilOption = None,
    reason: ReasonOption = None,
    topic: TopicOption = "",
    partition: PartitionOption = "",
    max_replays: Annotated[
        int, typer.Option("--max-replays", help="Leave what was redriven so often already.", min=1)
    ] = MAX_REPLAYS,
    again: Annotated[bool, typer.Option("--again", help="Also what was sent before and is not read yet.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything; send nothing.")] = False,
    output: FormatOption = Format.TABLE,
    store: StoreOption = None,
    lock_timeout: LockOption = None,
    config: ConfigOption = None,
) -> None:
    """Send dead letters back, whole, to the topic terminal-events.redrive, where the classify worker reads them.

    Letters with masked secrets are read again at their source, never taken from the copy. What was redriven before is
    left, and what comes twice all the same counts once. Ends with 1 if a letter stays dead: redriven too often, expired
    at its source, too large.
    """
    from offramp.dead_letters import Order, Redriving
    from offramp.session import start
    from streams.redrive import Policy

    session = start(config, store={"path": store, "lock_timeout_s": lock_timeout})
    wanted = _filter(since, until, reason, None, topic, partition, now=session.clock.now_micros)
    redriving = Redriving(session, Order(wanted, Policy(max_replays, again), dry_run))
    try:
        redriving.run()
    except OfframpError:
        redriving.say_so_far()
        raise
    if output is Format.TABLE:
        redriving.show()
    else:
        give_json(redriving.as_json(), output)
    redriving.say_rest()
    raise typer.Exit(1 if redriving.failed else 0)


def _filter(
    since: str | None,
    until: str | None,
    reason: list[str] | None,
    state: list[State] | None,
    topic: str,
    partition: str,
    *,
    now: Callable[[], int],
) -> "Filter":
    from offramp.dead_letters import Filter
    from offramp.period import period

    return Filter(period(since, until, now), reason or (), state or (), topic, partition)
