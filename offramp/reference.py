"""Every code that the product speaks, with its meaning, read from the code that speaks it.

``python -m offramp.reference`` writes the pages under ``docs/reference``; ``offramp schema`` prints the same lists.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from classifier import gaps
from classifier.decide import REASON_OF_FAILURE, TABLE_VIOLATES_INVARIANT
from classifier.facts import FACTS, FINDINGS
from classifier.policy import REASON_BY_SOURCE
from classifier.table import CompiledRow, default_text, load
from schemas.errors import ErrorCode

Line = tuple[str, ...]


@dataclass(frozen=True)
class Listing:
    """One list of codes: ``lines`` have a cell for each of ``columns``; the first is the code."""

    title: str
    introduction: str
    columns: Line
    lines: Sequence[Line]


def _facts() -> Listing:
    introduction = (
        "Booleans that the classifier derives from the evidence, and that conditions of a decision table name. The bit "
        "is the fact's place in `fact_bits`, and never changes."
    )
    return Listing(
        "Facts", introduction, ("fact", "bit", "meaning"), [(f.name, str(f.position), f.meaning) for f in FACTS]
    )


def _findings() -> Listing:
    introduction = "What is odd about a run and decides nothing."
    return Listing("Findings", introduction, ("finding", "meaning"), [(f.code, f.meaning) for f in FINDINGS])


def _gaps() -> Listing:
    introduction = (
        "Evidence that an event lacks and that stands between it and a better exit. A classification names the record "
        "and the field; `offramp validate` says which exits the field would have earned."
    )
    return Listing("Evidence gaps", introduction, ("gap", "meaning"), [(k.code, k.meaning) for k in gaps.KINDS])


def _errors() -> Listing:
    introduction = (
        "What can be wrong with a message. It is kept as a dead letter under its code, with the place in the message, "
        "and costs its neighbours nothing."
    )
    return Listing("Errors", introduction, ("error", "meaning"), [(code.value, code.meaning) for code in ErrorCode])


def _reasons() -> Listing:
    introduction = (
        "Reason codes of the default decision table, with the number of the row that gives each. Of several codes of a "
        "row, the first whose condition holds besides the row's. A denial's own `reason_code`, and that of an omitted "
        "component, are handed on as they are."
    )
    rows = load(default_text()).rows
    lines = [line for number, row in enumerate(rows, 1) for line in _reasons_of(number, row)]
    broken = "a table of your own chose a kind that the invariants rule out; refusal behind a standing denial"
    lines.append((TABLE_VIOLATES_INVARIANT, "human_queue", "any", broken))
    return Listing("Reason codes", introduction, ("reason", "exit", "row", "holds when"), lines)


def _reasons_of(number: int, row: CompiledRow) -> Iterator[Line]:
    given, place = row.row, str(number)
    switched = f" (by {given.exit})" if given.exit != row.kind else ""
    for finer in given.reasons:
        yield finer.code, row.kind, place, finer.when
    for code, when in _FROM_EVIDENCE.get(given.reason_from or "", {}).items():
        yield code, row.kind, place, when
    yield given.reason or given.id, row.kind, place, " ".join(given.when.split()) + switched


_FROM_EVIDENCE: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "denial": {
            code: f"the denial names no code, and is one of source {source}"
            for source, code in REASON_BY_SOURCE.items()
        },
        "failure": {code: f"the fallback serves a failure of kind {kind}" for kind, code in REASON_OF_FAILURE.items()},
    }
)

LISTINGS: Mapping[str, Callable[[], Listing]] = MappingProxyType(
    {"facts": _facts, "findings": _findings, "gaps": _gaps, "reasons": _reasons, "errors": _errors}
)
"""The lists by the name that pages and ``offramp schema`` have for them."""


def markdown(listing: Listing) -> str:
    """A list as a page."""
    head = f"# {listing.title}\n\n{listing.introduction}\n\nWritten by `python -m offramp.reference`.\n\n"
    rule = ("---",) * len(listing.columns)
    lines = [(f"`{code}`", *rest) for code, *rest in listing.lines]
    return head + "".join(f"| {' | '.join(line)} |\n" for line in (listing.columns, rule, *lines))


def write(folder: Path) -> list[Path]:
    """Write all pages into a folder, which is made if it is not there; returns what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {folder / f"{name}.md": markdown(listing()) for name, listing in LISTINGS.items()}
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    return list(pages)


if __name__ == "__main__":
    # Here, because `offramp schema` needs the lists alone.
    from offramp import reference_pages

    folder = Path("docs/reference")
    for page in [*write(folder), *reference_pages.write(folder)]:
        sys.stdout.write(f"{page}\n")
