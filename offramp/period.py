"""Periods as people write them: the options ``--since`` and ``--until``."""

import re
from collections.abc import Callable
from typing import Annotated, NamedTuple

import typer
from pydantic import TypeAdapter, ValidationError

from offramp.errors import ConfigurationError
from schemas.types import EARLIEST, LATEST, Instant

SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="WHEN", help="Runs that ended from then on: days back, or ISO 8601.", show_default="all"
    ),
]
UntilOption = Annotated[
    str | None,
    typer.Option("--until", metavar="WHEN", help="Runs that ended before: days back, or ISO 8601.", show_default="all"),
]

_DAY_MICROS = 86_400_000_000
_DAYS = re.compile(r"\d{1,5}", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_INSTANT: TypeAdapter[int] = TypeAdapter(Instant)


class Period(NamedTuple):
    """From ``since`` on, before ``until``, in microseconds since the epoch."""

    since: int = EARLIEST
    until: int = LATEST + 1


def period(since: str | None, until: str | None, now: Callable[[], int]) -> Period:
    """What the options say; what is not given bounds nothing. Raises ConfigurationError, also where nothing lies
    between the two."""
    whole = Period()
    found = Period(
        whole.since if since is None else _moment("--since", since, now),
        whole.until if until is None else _moment("--until", until, now),
    )
    if since is not None and until is not None and found.until <= found.since:
        raise ConfigurationError(f"--until {until} is not later than --since {since}, so nothing lies between them")
    return found


def _moment(option: str, text: str, now: Callable[[], int]) -> int:
    """Days back from now, a date (its beginning in UTC), or an instant."""
    if _DAYS.fullmatch(text):
        return max(EARLIEST, now() - int(text) * _DAY_MICROS)
    try:
        return _INSTANT.validate_python(f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text)
    except ValidationError as error:
        reason = error.errors(include_input=False)[0]["msg"]
        raise ConfigurationError(
            f"{option} {text}: {reason}; or give days back, such as 30, or a date, such as 2026-11-30"
        ) from None
