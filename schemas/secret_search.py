"""Where the secrets of a text are. JSON escapes are resolved level by level; ranges are always of the text itself."""

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import re2  # type: ignore[import-untyped]  # ships no type hints

from schemas.secret_patterns import Accept

MAX_ESCAPE_DEPTH = 8
MAX_OVERLAP = 64
"""Up to this length of a refused match, in bytes, the next may start inside it; bounds the time over hostile text."""

_ESCAPE = re.compile(rb'\\(?:["\\/bfnrt]|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4})')
_SHORT_ESCAPES = {
    b'\\"': b'"', b"\\\\": b"\\", b"\\/": b"/", b"\\b": b"\b", b"\\f": b"\f", b"\\n": b"\n", b"\\r": b"\r",
    b"\\t": b"\t",
}  # fmt: skip

Span = tuple[int, int]


class TooDeeplyEscapedError(ValueError):
    """A text is escaped so often over that nobody can say what it holds."""


@dataclass(frozen=True)
class _View:
    """A text with its JSON escapes resolved, that knows where in the original each of its bytes came from."""

    text: bytes
    parent: "_View | None" = None
    escapes: tuple["array[int]", ...] = ()
    """Per escape of the parent's text: where it starts and ends there, and where what it stands for does here."""

    def locate(self, span: Span) -> Span:
        """Return the range of the original text that the range ``span`` of this text came from."""
        if self.parent is None:
            return span
        return self.parent.locate((self._origin(span[0])[0], self._origin(span[1] - 1)[1]))

    def _origin(self, position: int) -> Span:
        """Return the range of the parent's text that one byte of this text came from."""
        starts, ends, resolved, resolved_ends = self.escapes
        last = bisect_right(resolved, position) - 1
        if last < 0:
            return position, position + 1
        if position < resolved_ends[last]:
            return starts[last], ends[last]
        origin = ends[last] + position - resolved_ends[last]
        return origin, origin + 1

    def unescaped(self) -> "_View | None":
        """Return the view one level of JSON escapes further in; None if there is none."""
        # Arrays, since a hostile text has an escape every two bytes.
        escapes = tuple(array("I") for _ in range(4))
        text, done = bytearray(), 0
        for match in _ESCAPE.finditer(self.text):
            start, end = match.span()
            text += self.text[done:start]
            resolved = len(text)
            text += _resolve(match[0])
            for column, value in zip(escapes, (start, end, resolved, len(text)), strict=True):
                column.append(value)
            done = end
        return _View(bytes(text + self.text[done:]), self, escapes) if done else None


def _resolve(escape: bytes) -> bytes:
    if escape in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[escape]
    return (
        bytes.fromhex(escape.replace(b"\\u", b"").decode())
        .decode("utf-16-be", "surrogatepass")
        .encode("utf-8", "surrogatepass")
    )


def _views(text: bytes) -> Iterator[_View]:
    """Yield the text, and what its JSON escapes stand for, level by level. Raises TooDeeplyEscapedError."""
    view: _View | None = _View(text)
    for _ in range(MAX_ESCAPE_DEPTH):
        if view is None:
            return
        yield view
        view = view.unescaped() if b"\\" in view.text else None
    if view is not None:
        raise TooDeeplyEscapedError


def plain(secret: bytes) -> bytes:
    """Return the secret without JSON escapes, so that it has one digest however it is written."""
    return list(_views(secret))[-1].text


@dataclass(frozen=True)
class Finder:
    """One compiled form of one pattern."""

    kind: str
    regex: Any
    accept: Accept

    def spans(self, text: bytes) -> Iterator[Span]:
        """Yield the ranges of accepted secrets."""
        position = 0
        while match := self.regex.search(text, position):
            start, end = _secret_of(match)
            accepted = start < end and self.accept(text, start, end)
            if accepted:
                yield start, _whole_character(text, end)
            # What surrounds a secret may surround the next one too.
            position = end if accepted else _resume(match)


def _resume(match: Any) -> int:
    start, end = int(match.start()), int(match.end())
    return start + 1 if end - start < MAX_OVERLAP else max(end, start + 1)


def _secret_of(match: Any) -> Span:
    groups = (match.span(group) for group in range(1, match.re.groups + 1))
    secret: Span = next((span for span in groups if span != (-1, -1)), match.span())
    return secret


def _whole_character(text: bytes, end: int) -> int:
    while text[end - 1] >= 0x80 and end < len(text) and text[end] & 0xC0 == 0x80:
        end += 1
    return end


def compile_bytes(pattern: str) -> Any:
    """Compile a pattern that is matched against bytes. Raises :class:`re2.error`."""
    return re2.compile(pattern.encode("latin-1"), _options())


def _options() -> Any:
    options = re2.Options()
    # Bytes, not characters: Avro bodies are no UTF-8.
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    # With the default of 8 MB the automaton of all patterns is thrown away and built again all the time: twice as slow.
    options.max_mem = 32 << 20
    return options


@dataclass(frozen=True)
class Hit:
    """A secret in a text: its range in bytes, and its kind."""

    start: int
    end: int
    kind: str

    def joined(self, other: "Hit") -> "Hit":
        """Return both as one; the larger gives the kind, the first if equal."""
        larger = other if other.end - other.start > self.end - self.start else self
        return Hit(min(self.start, other.start), max(self.end, other.end), larger.kind)


class Search:
    """Several patterns as one search. Immutable once made."""

    def __init__(self, finders: Sequence[Finder]) -> None:
        self._finders = tuple(finders)
        # One pass that says which patterns match is cheaper than a pass for each.
        self._which = re2.Set.SearchSet(_options())
        for finder in self._finders:
            self._which.Add(finder.regex.pattern)
        self._which.Compile()

    def find(self, text: bytes) -> list[Hit]:
        """Return the secrets of ``text`` at every level of its JSON escapes, overlapping ones joined, in order.

        Raises TooDeeplyEscapedError.
        """
        found = [
            Hit(*view.locate(span), finder.kind)
            for view in _views(text)
            for finder in self._matching(view.text)
            for span in finder.spans(view.text)
        ]
        return _joined(sorted(found, key=lambda hit: hit.start))

    def _matching(self, text: bytes) -> list[Finder]:
        return [self._finders[index] for index in sorted(self._which.Match(text) or ())]


def _joined(found: list[Hit]) -> list[Hit]:
    hits: list[Hit] = []
    for hit in found:
        if hits and hit.start < hits[-1].end:
            hits[-1] = hits[-1].joined(hit)
        else:
            hits.append(hit)
    return hits
