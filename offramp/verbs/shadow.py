"""``offramp shadow``: the legacy dispatcher against the new one. Its parts are modules of their own."""

import typer

group = typer.Typer(
    no_args_is_help=True,
    help="What the legacy dispatcher did, what the new one would do, and when it is safe to switch.",
)


def add_to(app: typer.Typer) -> None:
    """Register the verb; its parts register themselves with the group."""
    app.add_typer(group, name="shadow")
