"""The command within this process: arguments in, exit status and both streams out."""

from typing import NamedTuple

from typer.testing import CliRunner

from offramp.errors import OfframpError
from offramp.main import app


class Ran(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str


def offramp(*arguments: object, stdin: bytes = b"", width: int = 80) -> Ran:
    """Run the command on a terminal of that many columns. An error that is none of the command's own is raised."""
    result = CliRunner().invoke(app, [str(each) for each in arguments], input=stdin, env={"COLUMNS": str(width)})
    if isinstance(result.exception, OfframpError):
        return Ran(result.exception.status, result.stdout, str(result.exception))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)
