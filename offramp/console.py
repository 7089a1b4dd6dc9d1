"""What verbs show: tables that fit the terminal and progress, and the options that several verbs share."""

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import typer

from offramp.errors import ConfigurationError


class Format(StrEnum):
    """How an answer is given: laid out for people, or as JSON for programs, whole or a line each."""

    TABLE = "table"
    JSON = "json"
    NDJSON = "ndjson"


FormatOption = Annotated[
    Format, typer.Option("--format", help="table for people; json, or ndjson without line breaks, for programs.")
]
StoreOption = Annotated[
    Path | None,
    typer.Option("--store", metavar="DIR", help="Directory of the embedded store.", show_default=".offramp"),
]
LockOption = Annotated[
    float | None,
    typer.Option("--lock-timeout", metavar="SECONDS", help="How long to wait for whoever owns the store.", min=0),
]
UnprovenOption = Annotated[
    bool, typer.Option("--unproven", help="Use the table even if its proof fails; its exits say so.")
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Configuration file.", show_default="offramp.toml")
]


_NARROWEST = 20
"""Columns below which no text can be laid out."""


def say(text: str) -> None:
    """A line for people on stderr: notes, warnings, what to do next."""
    sys.stderr.write(f"{plain_lines(text)}\n")


def table(title: str, columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table on stdout. ``columns`` are names with ``left``, ``right``, or ``code``: left, never folded."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    view = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, justify in columns:
        side: Literal["left", "right"] = "right" if justify == "right" else "left"
        view.add_column(plain(name), justify=side, overflow="fold", no_wrap=justify == "code")
    for row in rows:
        # As text objects, since rich would read square brackets in a string as markup.
        view.add_row(*(Text(f"{cell:,}" if type(cell) is int else plain(str(cell))) for cell in row))
    # Not as the table's own title, which would wrap at the width of a narrow table.
    Console(file=sys.stdout, width=page_width()).print(Text(title, style="bold"), view)


def give(content: bytes, out: Path | None) -> None:
    """Write what programs read to stdout, or into a file. Raises ConfigurationError if that cannot be written."""
    if out is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        out.write_bytes(content)
    except OSError as error:
        raise ConfigurationError(f"{out}: {error.strerror}") from None


def give_json(value: Any, output: Format) -> None:
    """Write an answer for programs to stdout, always in UTF-8. ``NDJSON``: a line for each element of a list, one line
    for anything else."""
    give(json_lines(value) if output is Format.NDJSON else json_text(value), None)


def json_text(value: Any) -> bytes:
    """A value as JSON that people can read too."""
    # A lone surrogate, which JSON can name and UTF-8 cannot, costs nobody the rest of the answer.
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode(errors="replace")


def json_lines(value: Any) -> bytes:
    """The elements of a list as JSON, a line each; anything else on one line."""
    rows = value if isinstance(value, list) else [value]
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode(errors="replace")


def plain(text: str) -> str:
    """Text that may stand on a terminal: what is not printable, and could take the terminal over, is escaped."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def plain_lines(text: str) -> str:
    """Several lines of text that may stand on a terminal."""
    return "\n".join(map(plain, text.split("\n")))


def counted(number: int, noun: str) -> str:
    """A number of things in words, such as ``1 message`` or ``2,000 messages``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def page_width() -> int:
    """Columns of the terminal, and a wide page where output goes to a file."""
    asked = sys.stdout.isatty() or "COLUMNS" in os.environ
    return max(shutil.get_terminal_size().columns, _NARROWEST) if asked else 120


class Progress(Protocol):
    """Shows how far a long work is."""

    def __call__(self, consumed: int, records: int) -> None:
        """Say that ``consumed`` bytes in all, and ``records`` messages in all, are done."""
        ...


def _show_nothing(consumed: int, records: int) -> None:
    """Progress where nobody watches."""


@contextmanager
def progress(description: str, total_bytes: int) -> Iterator[Progress]:
    """Progress with rate and remaining time on stderr, where that is a terminal; else nothing."""
    if not sys.stderr.isatty():
        yield _show_nothing
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[records]:,} messages, {task.fields[rate]:,.0f}/s"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total_bytes, records=0, rate=0.0)

        def show(consumed: int, records: int) -> None:
            elapsed = bar.tasks[0].elapsed or 0.001
            bar.update(task, completed=consumed, records=records, rate=records / elapsed)

        yield show
