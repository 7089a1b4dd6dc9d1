"""The command. A verb is a module in :mod:`offramp.verbs` that has ``add_to``; nothing else is to be edited."""

import codecs
import contextlib
import importlib
import io
import os
import pkgutil
import signal
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from offramp import console, verbs
from offramp.errors import COULD_NOT_CHECK, USAGE, OfframpError
from sinks.errors import StoreBusy, StoreError, StoreForbidden, StoreRejected, StoreUnavailable

_UNREAD = 128 + signal.SIGPIPE
"""Status of a command whose output nobody reads on: the shell's for the signal that ends other programs then."""

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


class _Verb(TyperCommand):
    """A verb whose texts are text: bytes that are not UTF-8 would only be noticed by the engine, or by a file that is
    written. Names of files may be any bytes, that of a store may not."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        rest: list[str] = super().parse_args(ctx, args)
        for param in self.params:
            for text in _texts(ctx.params.get(param.name), param.metavar or ""):
                if not _is_text(text):
                    said = f"{console.plain(text)} is not UTF-8"
                    raise typer.BadParameter(said, ctx=ctx, param_hint=[param.opts[0]])
        return rest


def _texts(given: Any, metavar: str) -> Iterator[str]:
    """What has to be text of the value, or values, of an option or argument."""
    if isinstance(given, (list, tuple)):
        for each in given:
            yield from _texts(each, metavar)
    elif (isinstance(given, str) and not metavar.startswith("FILE")) or (isinstance(given, Path) and metavar == "DIR"):
        yield str(given)


def _is_text(given: str) -> bool:
    try:
        given.encode()
    except UnicodeEncodeError:
        return False
    return True


def _make_verbs(group: typer.Typer) -> None:
    for command in group.registered_commands:
        command.cls = _Verb
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            _make_verbs(inner.typer_instance)


_make_verbs(app)


def main() -> None:
    """Run the command; end with its exit status, an error as one sentence on stderr."""
    _open_closed_streams()
    _write_whatever_the_locale()
    try:
        with _ending_by_signal():
            _run()
    except OfframpError as error:
        _end(str(error), error.status)
    except (StoreRejected, StoreForbidden) as error:
        _end(str(error), USAGE)
    except StoreBusy as error:
        _end(f"{error}; wait for it, longer by --lock-timeout", COULD_NOT_CHECK)
    except StoreUnavailable as error:
        _end(f"{error}; end the outage, then run the command again", COULD_NOT_CHECK)
    except StoreError as error:
        _end(str(error), COULD_NOT_CHECK)
    except BrokenPipeError:
        _end_unread()
    except OSError as error:
        _end(f"{error.filename or 'output'}: {error.strerror or error}", COULD_NOT_CHECK)


@contextlib.contextmanager
def _ending_by_signal() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the command in order, as an exception does: temporary files go, workers end, the store
    is closed. Its status is the shell's for that signal, 130 or 143."""
    numbers = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, _end_by_signal) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_by_signal(number: int, _frame: FrameType | None) -> None:
    # Whoever asks twice does not wait for the order.
    signal.signal(number, lambda number, _: os._exit(128 + number))
    sys.exit(128 + number)


def _run() -> None:
    """Run the verb. What it printed is out when this ends. Raises BrokenPipeError if nobody reads that on."""
    try:
        app()
    except SystemExit as end:
        # The libraries of options and of tables end with 1 then, which says that something was checked and failed.
        if isinstance(end.__context__, BrokenPipeError):
            raise end.__context__ from None
        sys.stdout.flush()
        raise


def _end_unread() -> None:
    """End the command quietly, since whoever read what it prints has enough; never with 0, since nobody read all."""
    # What is left in a buffer would be complained about once more while Python ends.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
    sys.exit(_UNREAD)


def _open_closed_streams() -> None:
    """Give the standard streams that a caller closed, as some daemons do, a place that takes or gives nothing."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 -- as long as the process


def _write_whatever_the_locale() -> None:
    """Let standard output write what its encoding, which the locale chose, has no character for, as an escape."""
    if isinstance(sys.stdout, io.TextIOWrapper) and codecs.lookup(sys.stdout.encoding).name != "utf-8":
        sys.stdout.reconfigure(errors="backslashreplace")


def _end(sentence: str, status: int) -> None:
    """End the command with one sentence. Lines of a longer explanation stay lines; nothing else moves the cursor."""
    # What is left in the buffer of an output that takes no more would be complained about once more.
    with contextlib.suppress(OSError):
        sys.stderr.write(f"offramp: {console.plain_lines(sentence)}\n")
        sys.stderr.flush()
        sys.stdout.flush()
        sys.exit(status)
    os._exit(status)
