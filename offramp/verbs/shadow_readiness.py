"""``offramp shadow readiness``: which kinds of exit may be enforced, so that a rollout can wait for it."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from offramp.console import ConfigOption, Format, FormatOption, LockOption, StoreOption, give_json
from offramp.errors import ConfigurationError
from offramp.period import SinceOption, UntilOption
from offramp.verbs.shadow import AgentOption, TenantOption, WorkflowOption, group
from shadow.readiness import Thresholds

_DEFAULT = Thresholds()


class Stage(StrEnum):
    """Kinds of exit that are enforced one after another."""

    REFUSAL = "refusal"
    FALLBACK = "fallback"
    PARTIAL = "partial"
    HUMAN_QUEUE = "human_queue"


def add_to(_app: typer.Typer) -> None:
    """Register the command with its group."""
    group.command(name="readiness")(readiness)


def readiness(
    stage: Annotated[
        list[Stage] | None,
        typer.Option("--stage", help="This stage; may be given several times.", show_default="all four"),
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    tenant: TenantOption = None,
    agent: AgentOption = None,
    workflow: WorkflowOption = None,
    without: Annotated[
        list[str] | None,
        typer.Option("--without", metavar="CODE", help="A reason code that is not to be enforced yet; repeatable."),
    ] = None,
    minimum_runs: Annotated[
        int, typer.Option("--minimum-runs", metavar="N", help="Runs of each reason code.")
    ] = _DEFAULT.minimum_runs,
    agreement_floor: Annotated[
        float,
        typer.Option("--agreement-floor", metavar="SHARE", help="Pairs that agree, or whose difference is explained."),
    ] = _DEFAULT.agreement_floor,
    contradiction_limit: Annotated[
        float, typer.Option("--contradiction-limit", metavar="SHARE", help="Operators' answers against the new exit.")
    ] = _DEFAULT.contradiction_limit,
    coverage_floor: Annotated[
        float, typer.Option("--coverage-floor", metavar="SHARE", help="Runs that could be compared.")
    ] = _DEFAULT.coverage_floor,
    alpha: Annotated[
        float, typer.Option("--alpha", metavar="P", help="Greatest probability of being ready wrongly, ever.")
    ] = _DEFAULT.alpha,
    output: FormatOption = Format.TABLE,
    store: StoreOption = None,
    lock_timeout: LockOption = None,
    config: ConfigOption = None,
) -> None:
    """Say of each stage and reason code: ready, not ready, or needs about N more runs; and why.

    Ends with 0 if every stage that was asked about is ready, else with 1. The bounds hold however often it is asked,
    for a beginning that stays the same: give --since as a date, not as days back.
    """
    from offramp import accepting, console, readying
    from offramp.period import period
    from offramp.session import start
    from offramp.shadowing import settled_store
    from shadow.scope import Scope

    session = start(config, store={"path": store, "lock_timeout_s": lock_timeout})
    when = period(since, until, session.clock.now_micros)
    asked = readying.Question(
        Scope(when.since, when.until, tenant, agent, workflow),
        {"since": since, "until": until, "tenant": tenant, "agent": agent, "workflow": workflow},
        _thresholds(minimum_runs, agreement_floor, contradiction_limit, coverage_floor, alpha),
        stages=stage or list(Stage),
        left_out=without or [],
    )
    settings = session.settings.shadow
    entries = () if settings.accepted is None else accepting.read(settings.accepted)
    with settled_store(session, "shadow readiness") as (opened, mapping):
        answer = readying.found(opened, mapping.ref, entries, settings, asked, session.clock.now_micros())
    for code in answer.unknown_codes:
        console.say(f"--without {code}: no run has this reason code")
    if output is Format.TABLE:
        readying.show(answer)
    else:
        give_json(readying.as_json(answer), output)
    raise typer.Exit(0 if answer.is_ready else 1)


def _thresholds(*given: Any) -> Thresholds:
    try:
        return Thresholds(*given)
    except ValueError as error:
        raise ConfigurationError(f"shadow readiness: {error}") from None
