"""Foreign files to records of the contract: what ``import`` does, one file at a time."""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from offramp.errors import ConfigurationError
from schemas.contract import INCOMING
from schemas.errors import ErrorCode, MessageError
from sources.base import MAX_DOCUMENT_BYTES, Adapter, Document, Imported, Options, open_document
from sources.registry import adapter, adapters, recognised

AUTO = "auto"
STDIN = "-"
_OURS = re.compile(rb'[\xef\xbb\xbf\s\[]*(?s:\{.{0,65536}?)"type"\s*:\s*"(?:%s)"' % "|".join(INCOMING).encode())
_NO_DATA = ("LICENSE", "LICENCE", "README", "UPSTREAM_LICENSE", "NOTICE")


@dataclass
class Importer:
    """Imports files by the adapter that is named, or by the one that recognises each.

    ``emit`` takes each record, ``complain`` each error as one line for people. ``counts`` counts records by type and
    files by ``files``, errors by ``errors``.
    """

    source: str
    options: Options
    emit: Callable[[dict[str, Any]], None]
    complain: Callable[[str], None]
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        if self.source != AUTO and adapter(self.source) is None:
            known = ", ".join(each.name for each in adapters())
            raise ConfigurationError(f"{self.source}: no such source; name one of {known}, or auto to recognise it")

    def run(self, names: list[str]) -> None:
        """Import files, ``-`` for standard input, and what lies in directories. One file costs the others nothing."""
        for name in [inner for given in names for inner in files_of(given)]:
            self.counts["files"] += 1
            for item in self._items(name):
                self._take(name, item)

    def _items(self, name: str) -> Iterator[Imported | MessageError]:
        """What a file holds. What fails on the side of whoever takes the items is theirs, and does not come here."""
        try:
            document = open_document(name, _read(name), self.options)
            yield from self._adapter_of(document).read(document)
        except MessageError as error:
            yield error
        except Exception as error:  # noqa: BLE001 -- a defect of one adapter must not cost the other files
            yield _defect(error)

    def _take(self, name: str, item: Imported | MessageError) -> None:
        if isinstance(item, MessageError):
            self.counts["errors"] += 1
            self.complain(f"{name}: {item} ({item.code.value})")
        else:
            self.counts[item.record["type"]] += 1
            self.emit(item.record)

    def _adapter_of(self, document: Document) -> Adapter:
        named = adapter(self.source)
        if named is not None:
            return named
        found = recognised(document)
        if len(found) == 1:
            return found[0]
        if found:
            several = " and ".join(each.name for each in found)
            raise MessageError(ErrorCode.BAD_FRAMING, f"{several} recognise it; name the source instead of auto")
        if _OURS.match(document.data):
            raise MessageError(ErrorCode.BAD_FRAMING, "its records are the contract's already; use `offramp classify`")
        raise MessageError(ErrorCode.BAD_FRAMING, "no source recognises it; `offramp import --list` shows them")


def files_of(name: str) -> Iterator[str]:
    """The files behind a name: itself, or in sorted order what lies in a directory but hidden files, licences, readmes.

    Raises ConfigurationError for a name that is nothing.
    """
    path = Path(name)
    if name != STDIN and not path.exists():
        raise ConfigurationError(f"{name}: No such file or directory")
    if name == STDIN or not path.is_dir():
        yield name
        return
    for inner in sorted(path.rglob("*")):
        hidden = any(part.startswith(".") for part in inner.relative_to(path).parts)
        if inner.is_file() and not hidden and not inner.name.upper().startswith(_NO_DATA):
            yield str(inner)


def _read(name: str) -> bytes:
    """At most one byte more than is allowed, so that the limit is noticed."""
    if name == STDIN:
        return sys.stdin.buffer.read(MAX_DOCUMENT_BYTES + 1)
    try:
        with Path(name).open("rb") as handle:
            return handle.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise MessageError(ErrorCode.BAD_FRAMING, f"cannot be read: {error.strerror}") from None


def _defect(error: Exception) -> MessageError:
    # The class alone: the text may quote the data.
    return MessageError(ErrorCode.BAD_FRAMING, f"the adapter failed with {type(error).__name__}; please report it")
