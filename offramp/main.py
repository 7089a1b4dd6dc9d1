"""The command. A verb is a module in :mod:`offramp.verbs` that has ``add_to``; nothing else is to be edited."""

import importlib
import pkgutil
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from offramp import verbs
from offramp.errors import COULD_NOT_CHECK, USAGE, OfframpError
from sinks.errors import StoreBusy, StoreError, StoreRejected

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Tells, from evidence, how an AI agent's run ended, and what may safely happen next.",
    epilog="Exit status: 0 ok, 1 checked and failed, 2 usage or configuration, 3 could not check.",
)


def _print_version(value: bool) -> None:
    if value:
        sys.stdout.write(f"offramp {version('offramp')}\n")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Options of the command itself."""


for _module in pkgutil.iter_modules(verbs.__path__):
    importlib.import_module(f"offramp.verbs.{_module.name}").add_to(app)


def main() -> None:
    """Run the command; end with its exit status, an error as one sentence on stderr."""
    try:
        app()
    except OfframpError as error:
        _end(str(error), error.status)
    except StoreRejected as error:
        _end(str(error), USAGE)
    except (StoreBusy, StoreError) as error:
        _end(str(error), COULD_NOT_CHECK)
    except BrokenPipeError:
        # Whoever read our output has enough; Python would complain once more while it ends.
        sys.stderr.close()
        sys.exit(0)


def _end(sentence: str, status: int) -> None:
    sys.stderr.write(f"offramp: {sentence}\n")
    sys.exit(status)
