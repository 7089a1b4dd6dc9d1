"""``offramp shadow``: the legacy dispatcher against the new one. Its parts are modules of their own."""

from typing import Annotated

import typer

TenantOption = Annotated[
    str | None, typer.Option("--tenant", metavar="NAME", help="Runs of this tenant.", show_default="all")
]
AgentOption = Annotated[
    str | None, typer.Option("--agent", metavar="ID", help="Runs of this agent.", show_default="all")
]
WorkflowOption = Annotated[
    str | None, typer.Option("--workflow", metavar="NAME", help="Runs of this workflow.", show_default="all")
]

group = typer.Typer(
    no_args_is_help=True,
    help="What the legacy dispatcher did, what the new one would do, and when it is safe to switch.",
)


def add_to(app: typer.Typer) -> None:
    """Register the verb; its parts register themselves with the group."""
    app.add_typer(group, name="shadow")
