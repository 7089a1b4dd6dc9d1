"""The file of accepted differences: read, held against what is stored, and added to."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from offramp import console
from offramp.config import read_text
from offramp.errors import CheckFailedError, ConfigurationError
from offramp.page import Page
from shadow.accepted import (
    Accepted,
    AcceptedError,
    State,
    Verdict,
    as_toml,
    entry,
    judged,
    parse,
    place,
)
from shadow.alike import Runs
from shadow.scope import Scope
from shadow.shares import Share
from sinks.store import Store


def read(path: Path) -> tuple[Accepted, ...]:
    """The entries of a file. Raises ConfigurationError if it cannot be read, or lists everything wrong with it."""
    return _parsed(path, read_text(path))


def _parsed(path: Path, text: str) -> tuple[Accepted, ...]:
    try:
        return parse(text)
    except AcceptedError as error:
        raise ConfigurationError(_listed(f"{path} cannot be used as a file of accepted differences", error)) from None


def _listed(what: str, error: AcceptedError) -> str:
    return "".join([f"{what}:", *(f"\n  {problem}" for problem in error.problems)])


def judged_in(store: Store, entries: Sequence[Accepted], scope: Scope, now: int) -> tuple[Verdict, ...]:
    """What each entry covers of the settled runs in scope, and whether it stands ``now``, in microseconds."""
    return judged(store.select, Runs(scope), entries, now)


# --- adding


def made(given: Mapping[str, str | None]) -> Accepted:
    """An entry of what the command line gives, as text by name. Raises ConfigurationError with every problem."""
    values = dict[str, Any](given) | {"expires": _day(given["expires"]), "ceiling": _number(given["ceiling"])}
    try:
        return entry(values)
    except AcceptedError as error:
        raise ConfigurationError(_listed("shadow accept: this is no accepted difference", error)) from None


def _day(text: str | None) -> Any:
    """The date, or the text that is none, which the entry refuses."""
    with suppress(ValueError):
        return date.fromisoformat(text or "")
    return text


def _number(text: str | None) -> Any:
    with suppress(InvalidOperation):
        return Decimal(text or "")
    return text


def added(path: Path, new: Accepted) -> str:
    """The content of a file with one more entry, or of a file that is new; nothing is written.

    Raises ConfigurationError if what is there cannot be used, or has such an entry.
    """
    before = read_text(path) if path.exists() else ""
    _parsed(path, before)
    text = f"{before.rstrip()}\n\n{as_toml(new)}".lstrip()
    _parsed(path, text)
    return text


def refuse_unless_it_stands(verdict: Verdict) -> None:
    """Raise CheckFailedError for an entry that would accept nothing from the first day on."""
    if verdict.state is State.EXPIRED:
        begun = f"the beginning of {verdict.entry.expires}, UTC"
        raise CheckFailedError(f"shadow accept: it expires at {begun}, which is past; name a later day")
    if verdict.state is State.OVER_CEILING:
        raise CheckFailedError(
            f"shadow accept: it covers {share_text(verdict)}, over its ceiling of {verdict.entry.ceiling:f}, so it "
            "would count as a disagreement at once; name a narrower difference, or a higher ceiling"
        )


# --- shown


def share_of(verdict: Verdict) -> Share:
    """How much of the paired runs in its scope an entry covers."""
    return Share(*verdict.count)


def share_text(verdict: Verdict) -> str:
    """The same in words, with its interval."""
    share = share_of(verdict)
    runs = f"{share.count:,} of {console.counted(share.of, 'paired run')}"
    if share.value is None or share.interval is None:
        return runs
    low, high = share.interval
    return f"{runs} ({share.value:.1%}, interval {low:.1%} to {high:.1%})"


def as_json(path: Path, judged: Sequence[Verdict]) -> dict[str, Any]:
    """Everything, in plain JSON values."""
    return {
        "file": str(path),
        "entries": [_entry_as_json(verdict) for verdict in judged],
        "stands": all(verdict.stands for verdict in judged),
    }


def _entry_as_json(verdict: Verdict) -> dict[str, Any]:
    return {
        **verdict.entry.model_dump(mode="json"),
        "state": verdict.state.value,
        "covers": share_of(verdict).as_json(),
    }


def show(path: Path, judged: Sequence[Verdict]) -> None:
    """Print what becomes of each entry, those that no longer stand first."""
    page, lapsed = Page(), [verdict for verdict in judged if not verdict.stands]
    page.line(f"{path}: {console.counted(len(judged), 'accepted difference')}, {len(lapsed):,} of them lapsed", 0)
    numbered = sorted(enumerate(judged, 1), key=lambda numbered: numbered[1].stands)
    for number, verdict in numbered:
        page.heading(f"{verdict.state}: {verdict.entry.text} ({place(number)}, {verdict.entry.ticket})")
        for line in lines(verdict):
            page.line(line)


def show_new(verdict: Verdict) -> None:
    """Print a new entry as the file has it, and what it covers today."""
    page = Page()
    for line in as_toml(verdict.entry).splitlines():
        page.exactly(line)
    sys.stdout.write("\n")
    page.line(f"covers {share_text(verdict)}", 0)
    if not verdict.count.pairs:
        console.say("it covers nothing that is stored; if that is not what you expect, look for a spelling mistake")


def lines(verdict: Verdict) -> list[str]:
    """An entry for people, but for what it accepts."""
    accepted = verdict.entry
    said = {
        State.STANDS: "",
        State.EXPIRED: "; past that day its pairs are disagreements",
        State.OVER_CEILING: "; over its ceiling its pairs are disagreements",
    }[verdict.state]
    return [
        f"covers {share_text(verdict)}, at most {accepted.ceiling_text}",
        f"until {accepted.expires}{said}",
        f"{accepted.owner}: {accepted.reason}",
    ]
