"""Cuts JSON text into its records without parsing it: lines, elements of an array, texts one after another.

The cutters never hold more than one record and one piece, and a record over the limit is counted, not kept.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from schemas.errors import ErrorCode, MessageError

Text = tuple[int, bytes]
"""A record as it stands in the text: 1-based number of its first line, and its bytes without the space around them."""

BOM = b"\xef\xbb\xbf"
_SPACE = b" \t\r\n"
_ARRAY_END = ord("]")


def _run_of(plain: bytes, *wholes: bytes) -> bytes:
    """Build the pattern of a run over bytes of the class ``plain`` and over ``wholes``; possessive, hence linear."""
    return plain + rb"*+(?:(?:" + rb"|".join(wholes) + rb")" + plain + rb"*+)*+"


# A run goes in one step over strings, over brackets that close within two levels, and over everything else that ends
# no record. It stops at a quote or an opening bracket only if what it opens is deeper, or not finished in the data at
# hand. Between records it stops at every bracket.
_PLAIN = rb'[^"\[\]{}]'
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_FLAT = rb"[\[{]" + _run_of(_PLAIN, _STRING) + rb"[\]}]"
_NESTED = rb"[\[{]" + _run_of(_PLAIN, _STRING, _FLAT) + rb"[\]}]"
_IN_RECORD = re.compile(_run_of(_PLAIN, _STRING, _NESTED), re.DOTALL)
_BETWEEN_TEXTS = re.compile(_run_of(_PLAIN, _STRING), re.DOTALL)
_IN_ARRAY = re.compile(_run_of(rb'[^"\[\]{},]', _STRING), re.DOTALL)
_STRING_REST = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)


@dataclass(frozen=True)
class Limits:
    """How much may be held at once, in records and bytes.

    A chunk is closed when it reaches ``chunk_records`` or ``chunk_bytes``. A message, or a decompressed block of a
    container, over ``message_bytes`` is an error, and of it only the first ``kept_bytes`` are kept.
    """

    chunk_records: int = 2000
    chunk_bytes: int = 4 << 20
    message_bytes: int = 16 << 20
    kept_bytes: int = 64 << 10


class Failure(NamedTuple):
    """A record that cannot be handed on, or the rest of a file behind a damage.

    ``raw`` is all of it or its beginning, ``size`` its length in bytes as far as it was read, ``line`` its 1-based
    line in a text.
    """

    error: MessageError
    raw: bytes
    size: int
    line: int | None = None


class _Record:
    """The bytes of the record that is being cut."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._parts: list[bytes] = []
        self.size = 0
        self.newlines = 0

    @property
    def kept(self) -> bytes:
        return b"".join(self._parts)

    def add(self, part: bytes) -> None:
        fits = self.size <= self._limits.message_bytes
        self.size += len(part)
        self.newlines += part.count(b"\n")
        if fits:
            self._parts.append(part)
            if self.size > self._limits.message_bytes:
                self._parts = [self.kept[: self._limits.kept_bytes]]

    @property
    def blank(self) -> bool:
        return not self.kept.strip(_SPACE)

    def failure(self, error: MessageError, line: int) -> Failure:
        return Failure(error, self.kept[: self._limits.kept_bytes], self.size, line)

    def cut(self, line: int) -> Text | Failure:
        if self.size > self._limits.message_bytes:
            return _too_large(self.kept, self.size, line, self._limits)
        text = self.kept
        body = text.lstrip(_SPACE)
        return line + text.count(b"\n", 0, len(text) - len(body)), body.rstrip(_SPACE)


def _too_large(kept: bytes, size: int, line: int, limits: Limits) -> Failure:
    message = f"the record has {size} bytes, over the limit of {limits.message_bytes}"
    return Failure(MessageError(ErrorCode.TOO_LARGE, message), kept[: limits.kept_bytes], size, line)


def cut_lines(pieces: Iterator[bytes], limits: Limits) -> Iterator[Text | Failure]:
    """Yield the lines of JSON Lines that are not blank.

    A MessageError of ``pieces`` becomes the last item, a Failure with the line that it cut.
    """
    line, number = _Record(limits), 1
    try:
        for piece in pieces:
            head, *whole = piece.split(b"\n")
            line.add(head)
            if whole:
                yield from _nonblank(line, number)
                yield from _whole_lines(whole[:-1], number + 1, limits)
                number += len(whole)
                line = _Record(limits)
                line.add(whole[-1])
    except MessageError as error:
        yield line.failure(error, number)
    else:
        yield from _nonblank(line, number)


def _nonblank(line: _Record, number: int) -> Iterator[Text | Failure]:
    if not line.blank:
        yield line.cut(number)


def _whole_lines(lines: list[bytes], first: int, limits: Limits) -> Iterator[Text | Failure]:
    for number, line in enumerate(lines, first):
        if len(line) > limits.message_bytes:
            yield _too_large(line, len(line), number, limits)
        elif body := line.strip(_SPACE):
            yield number, body


class _Nesting:
    """Where in the nesting of brackets and strings a scan stands; it may stop and go on at any byte."""

    def __init__(self, *, array: bool) -> None:
        self.array = array
        self._outside = _IN_ARRAY if array else _BETWEEN_TEXTS
        self._quoted = False
        self._depth = 0

    @property
    def outside(self) -> bool:
        return self._depth == 0 and not self._quoted

    def scan(self, data: bytes, position: int) -> tuple[int, int]:
        """From ``position`` to the byte that ends a record.

        Returns the position behind it and the byte, or -1 in its place if the data ran out first; then the scan goes
        on at that position with more data.
        """
        while True:
            if self._quoted:
                position = _run(_STRING_REST, data, position)
                if data[position : position + 1] != b'"':
                    return position, -1  # an escape that is cut in two stays behind, to be read whole
                self._quoted = False
                position += 1
            position = _run(_IN_RECORD if self._depth else self._outside, data, position)
            if position == len(data):
                return position, -1
            position += 1
            if self._ends_record(data[position - 1]):
                return position, data[position - 1]

    def _ends_record(self, byte: int) -> bool:
        match byte:
            case 0x22:  # "
                self._quoted = True
                return False
            case 0x5B | 0x7B:  # [ {
                self._depth += 1
                return False
            case 0x2C:  # , which is only seen between elements
                return True
        if self.array and self._depth == 0:
            return byte == _ARRAY_END  # a stray } is part of a broken element
        self._depth = max(0, self._depth - 1)
        return self._depth == 0 and not self.array


def _run(pattern: re.Pattern[bytes], data: bytes, position: int) -> int:
    match = pattern.match(data, position)
    return match.end() if match else position


class _Cut(NamedTuple):
    record: _Record
    end: int
    """The byte that ended it; -1: the text ended, or was damaged, inside it."""
    damage: MessageError | None = None


def _cuts(pieces: Iterator[bytes], nesting: _Nesting, limits: Limits) -> Iterator[_Cut]:
    """Every record; the last one, which may be blank, is open."""
    record, rest, damage = _Record(limits), b"", None
    try:
        for piece in pieces:
            data, (start, end) = rest + piece, (0, 0)
            while end >= 0:
                first, (start, end) = start, nesting.scan(data, start)
                record.add(data[first : start - (nesting.array and end >= 0)])
                if end >= 0:
                    yield _Cut(record, end)
                    record = _Record(limits)
            rest = data[start:]
    except MessageError as error:
        damage = error
    record.add(rest)
    yield _Cut(record, -1, damage)


def cut_texts(pieces: Iterator[bytes], limits: Limits) -> Iterator[Text | Failure]:
    """Yield JSON texts that stand one after another, over any number of lines: one ends where its brackets balance."""
    number = 1
    for record, end, damage in _cuts(pieces, _Nesting(array=False), limits):
        if damage:
            yield record.failure(damage, number)
        elif end >= 0 or not record.blank:
            yield record.cut(number)
        number += record.newlines


def cut_array(pieces: Iterator[bytes], limits: Limits) -> Iterator[Text | Failure]:
    """Yield the elements of one JSON array: whatever stands between its commas.

    What follows a damage, or the end of the array, is one Failure. A complete object at the end of an array that is cut
    short is an element.
    """
    number, nesting, last = 1, _Nesting(array=True), 0
    for record, end, damage in _cuts(_opened(pieces), nesting, limits):
        if damage:
            yield record.failure(damage, number)
        elif last == _ARRAY_END:
            yield from _behind(record, end, number)
            return
        elif end < 0:
            yield from _unclosed(record, number, whole=nesting.outside)
        elif last or end != _ARRAY_END or not record.blank:
            yield record.cut(number)
        number, last = number + record.newlines, end


def _opened(pieces: Iterator[bytes]) -> Iterator[bytes]:
    # Only the bracket goes: the lines before it count.
    yield next(pieces, b"").replace(b"[", b"", 1)
    yield from pieces


def _behind(record: _Record, end: int, number: int) -> Iterator[Failure]:
    if end >= 0 or not record.blank:
        yield record.failure(MessageError(ErrorCode.BAD_JSON, "there is text behind the end of the array"), number)


def _unclosed(record: _Record, number: int, *, whole: bool) -> Iterator[Text | Failure]:
    error = MessageError(ErrorCode.BAD_JSON, "the array is not closed; the file may be cut short")
    text = record.cut(number)
    if whole and not isinstance(text, Failure) and text[1].endswith(b"}"):
        yield text
        yield Failure(error, b"", 0, number + record.newlines)
    else:
        yield record.failure(error, number)
