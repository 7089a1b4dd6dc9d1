# ruff: noqa: INP001 -- a script by itself, not a package
"""Exits per source over folders of recorded runs, as Markdown: ``python examples/exits_by_source.py FOLDER...``.

Reads the files as ``offramp import auto`` does, classifies by the default table and keeps nothing. The table in
``docs/explanation/real-runs.md`` was made by it. Files that no source recognises are counted together as ``-``.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from classifier.decide import Classifier
from classifier.table import default_text, load
from offramp.importing import files_of
from schemas.errors import MessageError
from schemas.events import TerminalEvent
from sources.base import Options, open_document
from sources.registry import recognised

UNRECOGNISED = "-"


@dataclass
class Tally:
    """What one source gave: files, records that could not be read, and runs by exit and reason."""

    files: int = 0
    errors: int = 0
    exits: Counter[tuple[str, str]] = field(default_factory=Counter)


def tally(folders: Sequence[str]) -> dict[str, Tally]:
    """One tally per source over all files below the folders."""
    classifier, tallies = Classifier(load(default_text())), defaultdict[str, Tally](Tally)
    for name in (inner for folder in folders for inner in files_of(folder)):
        document = open_document(name, Path(name).read_bytes(), Options())
        found = recognised(document)
        of_source = tallies[found[0].name if len(found) == 1 else UNRECOGNISED]
        of_source.files += 1
        for item in found[0].read(document) if len(found) == 1 else ():
            if isinstance(item, MessageError):
                of_source.errors += 1
            elif item.record["type"] == "terminal_event":
                event = TerminalEvent.model_validate(item.record).model_dump()
                decided = classifier.classify(event).classification
                of_source.exits[decided["kind"], decided["reason_code"]] += 1
    return dict(tallies)


def lines(tallies: dict[str, Tally]) -> Iterator[str]:
    """Two Markdown tables: what was read, and what it came to."""
    yield from ("| source | files | runs | unreadable |", "| --- | --- | --- | --- |")
    for source, each in sorted(tallies.items()):
        yield f"| {source} | {each.files} | {each.exits.total()} | {each.errors} |"
    yield from ("", "| source | exit | reason | runs |", "| --- | --- | --- | --- |")
    for source, each in sorted(tallies.items()):
        for (kind, reason), count in sorted(each.exits.items(), key=lambda item: (-item[1], item[0])):
            yield f"| {source} | {kind} | {reason} | {count} |"


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in lines(tally(sys.argv[1:])))
