"""``offramp shadow label``: what people decided about disagreements, as labelled events for ``offramp table test``."""

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from offramp.console import ConfigOption, LockOption, StoreOption
from offramp.errors import ConfigurationError
from offramp.period import SinceOption, UntilOption
from offramp.verbs.shadow import group

Kind = Literal["completed", "refusal", "fallback", "partial", "human_queue"]


def add_to(_app: typer.Typer) -> None:
    """Register with the group."""
    group.command()(label)


def label(
    events: Annotated[
        list[str] | None, typer.Argument(metavar="EVENT_ID", help="Events.", show_default="reviewed disagreements")
    ] = None,
    expect: Annotated[
        Kind | None,
        typer.Option("--expect", help="Kind that the events named must get.", show_default="what operators support"),
    ] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Runs of this tenant.", show_default="any")] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="Runs of this agent.", show_default="any")] = None,
    workflow: Annotated[
        str | None, typer.Option("--workflow", help="Runs of this workflow.", show_default="any")
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    file: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write there.", show_default="stdout")
    ] = None,
    store: StoreOption = None,
    lock_timeout: LockOption = None,
    config: ConfigOption = None,
) -> None:
    """Write reviewed disagreements as labelled events, which `offramp table test` runs.

    Where operators support the proposed exit, it is the label. Where they contradict it the event is written without
    one, to be labelled, since that it was wrong does not say what is right; --expect says it for events that are named.
    Ends with 1 if an event is not compared, or its evidence rules the expected kind out.
    """
    from offramp.console import say
    from offramp.labelling import Labels, labelled
    from offramp.period import period
    from offramp.session import start
    from offramp.shadowing import settled_store
    from offramp.witness import write_lines
    from shadow.scope import Scope

    if expect is not None and not events:
        raise ConfigurationError("shadow label: --expect is about events; name them")
    session, labels = start(config, store={"path": store, "lock_timeout_s": lock_timeout}), Labels()
    scope = Scope(*period(since, until, session.clock.now_micros), tenant, agent, workflow)
    with settled_store(session, "shadow label") as settled:
        records = labelled(settled.store, scope, events or [], expect, labels)
        if file is None:
            sys.stdout.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        else:
            write_lines(file, records, [])
    fates = ", ".join(f"{fate} {labels.fates[fate]:,}" for fate in ("labelled", "to be labelled", "erased"))
    say(f"events: {fates}")
