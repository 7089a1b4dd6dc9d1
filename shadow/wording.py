"""How figures of a comparison read, on the terminal and on the page."""

from datetime import timedelta

from schemas.types import EPOCH, to_iso
from shadow.candidate import Candidate
from shadow.coverage import Apart
from shadow.shares import Share
from shadow.strays import Strays

NOTHING = "-"
"""Stands where there is no share, since nothing was counted."""


def percent(value: float) -> str:
    """A share with one decimal. What is not nothing never reads as nothing, and what is not all never as all."""
    if 0 < value < 0.0005:
        return "<0.1%"
    if 0.9995 <= value < 1:
        return ">99.9%"
    return f"{value:.1%}"


def number(value: float) -> str:
    """A number with two decimals; zero has no sign."""
    return f"{value:z.2f}"


def share(given: Share) -> str:
    """The share alone."""
    return NOTHING if given.value is None else percent(given.value)


def interval(given: Share) -> str:
    """Its interval of 95 %."""
    return NOTHING if given.interval is None else between(*given.interval)


def between(low: float, high: float) -> str:
    """Two shares as the ends of an interval."""
    return f"{percent(low)} to {percent(high)}"


def instant(micros: int | None) -> str:
    """A moment to the minute, in UTC."""
    if micros is None:
        return "never"
    return (EPOCH + timedelta(microseconds=micros)).strftime("%Y-%m-%d %H:%M").zfill(16)


def apart(given: Apart) -> str:
    """How many runs lie apart, and the options that leave them out. Their bounds are whole hours."""
    bounds = (("since", given.since), ("until", given.until))
    options = " ".join(f"--{name} {_hour(micros)}" for name, micros in bounds if micros is not None)
    return f"Runs a year or more from the others, which stretch the period: {given.runs:,}. Without them: {options}"


def strays(found: Strays) -> list[tuple[str, int, str, int | str]]:
    """A row for each sort of record that is in no figure: what, how many, their share, and of how many."""
    lacks = (("without an event", found.without_event), ("that name neither event nor run", found.nameless))
    rows: list[tuple[str, int, str, int | str]] = [
        (f"{words(name)}s {lack}", part.count, share(part), part.of)
        for lack, parts in lacks
        for name, part in parts.items()
    ]
    if found.dead_letters:
        rows.append(("dead letters that were not redriven", found.dead_letters, NOTHING, NOTHING))
    return rows


def about_strays(found: Strays, *, is_narrow: bool) -> str:
    """What is to be known about these rows, or nothing. ``is_narrow``: whether an agent or a workflow was asked for."""
    said = []
    if found.one_in > 1:
        said.append(f"Of companions one in {found.one_in:,} was looked at, chosen at random.")
    if is_narrow and (found.without_event or found.nameless):
        said.append("Companions name no agent and no workflow: they are those of all.")
    if found.dead_letters:
        said.append("Dead letters have neither tenant nor time: they are those of all.")
    return " ".join(said)


def _hour(micros: int) -> str:
    return f"{to_iso(micros)[:19]}Z"


def under(given: Candidate) -> str:
    """Which table the exits are of, and whether it may decide."""
    ref = given.table.ref
    proof = ", whose proof fails" if given.unproven else ""
    return f"table {ref['id']} {ref['version']}{proof}, which {'decides' if given.decides else 'does not decide yet'}"


LONGEST = 200
"""Characters of a text that are shown; what is longer, nobody reads."""


def cut(text: str) -> str:
    """A text of other people, or its beginning and how long it is."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} (cut; characters in all: {len(text):,})"


def words(name: str) -> str:
    """A name of ours as words: underscores are for programs."""
    return name.replace("_", " ")


_BARS = "▁▂▃▄▅▆▇█"


def sparkline(shares: tuple[Share, ...]) -> str:
    """A share for each part of the period as one bar each, the largest the highest; a gap where nothing was counted."""
    most = max((each.value or 0.0 for each in shares), default=0.0)
    return "".join(_bar(each, most) for each in shares)


def _bar(given: Share, most: float) -> str:
    if given.value is None:
        return " "
    return _BARS[round(given.value / most * (len(_BARS) - 1))] if most else _BARS[0]
