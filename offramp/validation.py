"""Reads files for whoever instruments a producer: what is wrong, unknown or missing, and what more would earn."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import from_json

from classifier.change import pattern_text
from classifier.counterfactual import Exit, earned, exit_of, gaps_of
from classifier.coverage import Measure, measured
from classifier.decide import Classifier
from classifier.gaps import Gap, GapKind
from offramp import console
from offramp.ingestion import open_sources
from offramp.session import Session
from schemas.container import Block
from schemas.errors import MessageError
from schemas.redaction import Redactor
from schemas.unknown import Unknown, foreign_records, unknown_in
from streams.batch import Decoded
from streams.cut import Failure, Limits
from streams.files import Chunk, Source, chunks, decode_chunk, place_of
from streams.worker import TERMINAL_EVENT

MOST_NAMES = 1000
"""So many different unknown names and values are told apart; a file of nothing else must not fill the memory."""
THE_REST = Unknown("(others)", None)
_LONGEST_NAME = 80
_NUMBER = re.compile(r"\d+")
_INDEX = re.compile(r"\[\d+\]")


class Ending(NamedTuple):
    """Kind and reason code of an exit, as counts are kept by."""

    kind: str
    reason_code: str


class Fault(NamedTuple):
    """One kind of error: its code, where in a message, with ``[]`` for any item, and its words, with ``#`` for any
    number, since one code has several causes."""

    code: str
    path: str
    words: str


@dataclass
class Lack:
    """A field that events lack: how many, and by the exits they have and would have had, how many could be better."""

    kind: GapKind
    path: str
    events: int = 0
    moves: Counter[tuple[Ending, Ending]] = field(default_factory=Counter)

    @property
    def improved(self) -> int:
        """Events that could have ended better with the field."""
        return sum(self.moves.values())


@dataclass
class Findings:
    """Everything that was found, over all files.

    ``unknown`` counts fields and, with a value, values that the contract does not know. ``first`` has the place of the
    first message of each fault and of each unknown, ``reasons`` what the first of a fault says. ``now`` counts the
    events by their exits, ``at_best`` by those that they could have with all missing evidence. ``coverage`` counts the
    records that have what is measured, and all that were asked.
    """

    messages: int = 0
    records: Counter[str] = field(default_factory=Counter)
    faults: Counter[Fault] = field(default_factory=Counter)
    reasons: dict[Fault, str] = field(default_factory=dict)
    unknown: Counter[Unknown] = field(default_factory=Counter)
    first: dict[Fault | Unknown, str] = field(default_factory=dict)
    lacks: dict[tuple[str, str], Lack] = field(default_factory=dict)
    now: Counter[Ending] = field(default_factory=Counter)
    at_best: Counter[Ending] = field(default_factory=Counter)
    coverage: dict[Measure, tuple[int, int]] = field(default_factory=dict)
    secrets: int = 0

    @property
    def lacks_by_worth(self) -> list[Lack]:
        """What is missing, that first which could have made most events better."""
        return sorted(self.lacks.values(), key=lambda lack: (-lack.improved, -lack.events, lack.path))


def validate(session: Session, files: Sequence[str], spool: Path) -> Findings:
    """Read all files. Nothing is kept. Raises ConfigurationError for a file that cannot be read."""
    findings = Findings()
    reader = _Reader(findings, Classifier(session.table), session.redactor)
    for source in open_sources(files, spool):
        with console.progress(Path(source.name).name or source.name, source.size) as show:
            for chunk in chunks(source, reader.limits):
                reader.read(source, chunk)
                show(chunk.consumed, findings.messages)
    return findings


class _Reader:
    """Adds what chunks hold to the findings."""

    def __init__(self, findings: Findings, classifier: Classifier, redactor: Redactor) -> None:
        self.findings, self.classifier, self.redactor = findings, classifier, redactor
        self.limits = Limits()

    def read(self, source: Source, chunk: Chunk) -> None:
        raw = dict(_raw_records(chunk, self.limits))
        for decoded in decode_chunk(chunk, self.limits):
            self.findings.messages += decoded.span
            place = place_of(source, decoded)
            try:
                self._accept(decoded, raw.get(decoded.position), place)
            except MessageError as error:
                self._refuse(error, decoded.span, place)

    def _refuse(self, error: MessageError, span: int, place: str) -> None:
        fault = Fault(error.code.value, _INDEX.sub("[]", error.path), _NUMBER.sub("#", error.message))
        self.findings.faults[fault] += span
        self.findings.first.setdefault(fault, place)
        self.findings.reasons.setdefault(fault, error.message)

    def _accept(self, decoded: Decoded, raw: Any, place: str) -> None:
        """Look at a record. Raises MessageError if it is none."""
        if decoded.error is not None or decoded.record is None:
            raise decoded.error or TypeError("a message without a record has an error")
        record, secrets = self.redactor.redact(decoded.record)
        self.findings.secrets += secrets
        self.findings.records[record["type"]] += 1
        if raw is not None:
            self._look_for_unknown(from_json(raw) if isinstance(raw, bytes) else raw, place)
        if record["type"] == TERMINAL_EVENT:
            self._measure(record)

    def _look_for_unknown(self, raw: dict[str, Any], place: str) -> None:
        counted = self.findings.unknown
        for path, value in unknown_in(raw):
            unknown = Unknown(self._shown(path), None if value is None else self._shown(value))
            if unknown not in counted and len(counted) >= MOST_NAMES:
                unknown = THE_REST
            counted[unknown] += 1
            self.findings.first.setdefault(unknown, place)

    def _shown(self, text: str) -> str:
        """A producer's own word, which may be a secret, or long."""
        masked = self.redactor.mask(text[:_LONGEST_NAME].encode("utf-8", "replace"))[0].decode("utf-8", "replace")
        return masked if len(text) <= _LONGEST_NAME else f"{masked}..."

    def _measure(self, event: dict[str, Any]) -> None:
        findings = self.findings
        for measure, has, asked in measured(event):
            before = findings.coverage.get(measure, (0, 0))
            findings.coverage[measure] = before[0] + has, before[1] + asked
        now = exit_of(self.classifier.classify(event).classification)
        findings.now[_ending(now)] += 1
        findings.at_best[_ending(self._at_best(event, now))] += 1

    def _at_best(self, event: dict[str, Any], now: Exit) -> Exit:
        """The best exit that missing evidence could have earned; counts what is missing on the way."""
        gaps = gaps_of(self.classifier, event)
        best = earned(self.classifier, event, now, gaps) or now if gaps else now
        for (code, path), group in _grouped(gaps).items():
            lack = self.findings.lacks.setdefault((code, path), Lack(group[0].kind, path))
            lack.events += 1
            better = earned(self.classifier, event, now, group)
            if better is not None:
                lack.moves[_ending(now), _ending(better)] += 1
                best = min(best, better, key=lambda each: each.rank)
        return best


def _ending(given: Exit) -> Ending:
    return Ending(given.kind, given.reason_code)


def _grouped(gaps: list[Gap]) -> dict[tuple[str, str], list[Gap]]:
    """Gaps by what would fill them all at once: an instrumentation of one field."""
    groups: dict[tuple[str, str], list[Gap]] = {}
    for gap in gaps:
        groups.setdefault((gap.kind.code, pattern_text(gap.path)), []).append(gap)
    return groups


def _raw_records(chunk: Chunk, limits: Limits) -> Iterator[tuple[int, Any]]:
    """What stands at the positions of a chunk as the producer wrote it: JSON text, or decoded by a foreign schema."""
    position = chunk.first
    for item in chunk.items:
        if isinstance(item, Block):
            yield from enumerate(_foreign(chunk, item, limits), position)
            position += item.records
        else:
            if not isinstance(item, Failure):
                yield position, item[1]
            position += 1


def _foreign(chunk: Chunk, block: Block, limits: Limits) -> Iterator[Any]:
    if chunk.header is None:
        raise TypeError("a chunk of blocks has a header")
    try:
        yield from foreign_records(chunk.header, block, limits.message_bytes)
    except MessageError:
        return  # which the reader reports for the same block
