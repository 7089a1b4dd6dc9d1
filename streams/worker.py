"""What happens to a chunk before the store is asked: decode → redact → classify → rows. Pure, and so runs anywhere.

A worker process is given a :class:`Setup` once and :class:`Task` after task; what it returns is bytes that the store
inserts as they are, and the little that the writer needs to decide dispositions.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from classifier.decide import Classifier
from classifier.table import load
from schemas.canonical import content_digest, encode_json
from schemas.container import Block
from schemas.errors import MessageError
from schemas.redaction import Redactor
from schemas.types import to_iso
from sinks.rows import (
    COMPANION_TABLES,
    ClassificationRow,
    CompanionRow,
    DeadLetterRow,
    EventRow,
    Position,
    encode_classifications,
    encode_companions,
    encode_events,
)
from streams.cut import Failure, Limits
from streams.files import SOURCE_KIND, Chunk, Decoded, decode_chunk

TERMINAL_EVENT = "terminal_event"
_encode_line = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class Setup:
    """What a worker needs for all its tasks. ``rows`` and ``lines`` say which results are wanted."""

    table_text: str
    redactor: Redactor
    rows: bool = True
    lines: bool = False
    limits: Limits = field(default_factory=Limits)


class Task(NamedTuple):
    """One chunk of the source with that ``partition``; ``now`` is the instant that its rows carry."""

    chunk: Chunk
    partition: str
    now: int


class Entry(NamedTuple):
    """One message: where it stood, what it is, which content it has. Ids are empty for a dead letter."""

    position: int
    span: int
    record_type: str
    tenant: str
    record_id: str
    content_digest: str


Rows = dict[str, bytes]
"""Rows of one record type, in the order of its entries: table to Arrow stream."""


@dataclass
class Outcome:
    """What became of a chunk.

    ``rows`` are per record type, ``dead_letters`` ready to store, ``tally`` counts (kind, reason code) of events and
    (record type, "") of companions, ``lines`` is the contract's output, ``redacted`` the number of secrets masked.
    """

    chunk_end: int
    consumed: int
    entries: list[Entry] = field(default_factory=list)
    rows: dict[str, Rows] = field(default_factory=dict)
    dead_letters: list[DeadLetterRow] = field(default_factory=list)
    tally: Counter[tuple[str, str]] = field(default_factory=Counter)
    gaps: Counter[str] = field(default_factory=Counter)
    lines: bytes = b""
    redacted: int = 0


class Worker:
    """Turns chunks into outcomes. Keeps nothing between tasks that could change an answer."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.classifier = Classifier(load(setup.table_text))

    def run(self, task: Task) -> Outcome:
        """Decode, redact and classify one chunk. Raises nothing, whatever its bytes are."""
        outcome = Outcome(task.chunk.first + task.chunk.count, task.chunk.consumed)
        clean = not _may_hold_secrets(task.chunk, self.setup.redactor)
        events: list[EventRow] = []
        verdicts: list[ClassificationRow] = []
        companions: dict[str, list[CompanionRow]] = {}
        lines: list[bytes] = []
        for decoded in decode_chunk(task.chunk, self.setup.limits):
            record, error = decoded.record, decoded.error
            if record is not None and not clean:
                record, error = self._redacted(record, outcome)
            if record is None or error is not None:
                lines.append(self._refuse(decoded, error, task, outcome))
            elif record["type"] == TERMINAL_EVENT:
                lines.append(self._classify(record, decoded, task, outcome, events, verdicts))
            else:
                row = self._companion(record, decoded, task, outcome)
                companions.setdefault(record["type"], []).append(row)
        if self.setup.rows:
            outcome.rows = _encoded(events, verdicts, companions)
        if self.setup.lines:
            outcome.lines = b"".join(line + b"\n" for line in lines)
        return outcome

    def _redacted(self, record: dict[str, Any], outcome: Outcome) -> tuple[dict[str, Any] | None, MessageError | None]:
        try:
            redacted, hits = self.setup.redactor.redact(record)
        except MessageError as error:
            return None, error
        outcome.redacted += hits
        return redacted, None

    def _refuse(self, decoded: Decoded, error: MessageError | None, task: Task, outcome: Outcome) -> bytes:
        """Keep a message that is no valid record as a dead letter, whole but for its secrets."""
        if error is None:
            raise TypeError("a message without a record has an error")
        raw, masked = self.setup.redactor.mask(decoded.raw or _raw_of(decoded))
        outcome.entries.append(Entry(decoded.position, decoded.span, "", "", "", ""))
        outcome.dead_letters.append(
            DeadLetterRow(
                SOURCE_KIND,
                task.partition,
                decoded.position,
                None,
                raw,
                {},
                error.code.value,
                error.path,
                error.message,
                masked > 0,
                1,
                0,
                task.now,
            )  # fmt: skip
        )
        outcome.tally["error", error.code.value] += decoded.span
        line = decoded.line or decoded.position + 1
        body = {"reason_code": error.code.value, "line": line, "path": error.path, "message": error.message}
        return _encode_line({"error": body}) if self.setup.lines else b""

    def _classify(  # noqa: PLR0913 -- one loop body, split off for reading
        self,
        event: dict[str, Any],
        decoded: Decoded,
        task: Task,
        outcome: Outcome,
        events: list[EventRow],
        verdicts: list[ClassificationRow],
    ) -> bytes:
        decided = self.classifier.classify(event)
        verdict = decided.classification
        content = verdict["content_digest"]
        outcome.entries.append(Entry(decoded.position, 1, TERMINAL_EVENT, event["tenant"], event["event_id"], content))
        outcome.tally[verdict["kind"], verdict["reason_code"]] += 1
        if verdict["evidence_gaps"]:
            outcome.gaps.update(verdict["evidence_gaps"])
        if self.setup.rows:
            position = Position(SOURCE_KIND, task.partition, decoded.position)
            text = encode_json(event)
            events.append(EventRow(event, text, content, verdict["evidence_digest"], position, task.now))
            verdicts.append(ClassificationRow(verdict, event, decided.fact_bits, decided.packet_completeness, task.now))
        return contract_line(verdict) if self.setup.lines else b""

    def _companion(self, record: dict[str, Any], decoded: Decoded, task: Task, outcome: Outcome) -> CompanionRow:
        content = content_digest(record)
        kind = record["type"]
        outcome.entries.append(Entry(decoded.position, 1, kind, record["tenant"], record["record_id"], content))
        outcome.tally[kind, ""] += 1
        return CompanionRow(record, content, Position(SOURCE_KIND, task.partition, decoded.position), task.now)


def contract_line(classification: dict[str, Any]) -> bytes:
    """A classification as the contract prints it: one JSON object, instants in ISO 8601."""
    envelope = classification["envelope"]
    if envelope and "deadline" in envelope:
        deadline = to_iso(envelope["deadline"])
        classification = {**classification, "envelope": {**envelope, "deadline": deadline}}
    return _encode_line(classification)


def _may_hold_secrets(chunk: Chunk, redactor: Redactor) -> bool:
    """Whether any message of a chunk needs a closer look, by one search over all of them as they are encoded. What is
    compressed cannot be searched that way."""
    if chunk.header is not None and chunk.header.codec != "null":
        return True
    parts = (item.data if isinstance(item, Block) else item[1] for item in chunk.items if not isinstance(item, Failure))
    return redactor.suspicious(b"\n".join(parts))


def _raw_of(decoded: Decoded) -> bytes:
    """What is left of a record that was decoded and then refused: its canonical text."""
    return encode_json(decoded.record) if decoded.record is not None else b""


def _encoded(
    events: list[EventRow], verdicts: list[ClassificationRow], companions: dict[str, list[CompanionRow]]
) -> dict[str, Rows]:
    rows = {kind: {COMPANION_TABLES[kind]: encode_companions(kind, items)} for kind, items in companions.items()}
    if events:
        rows[TERMINAL_EVENT] = {
            "terminal_events": encode_events(events),
            "exit_classifications": encode_classifications(verdicts),
        }
    return rows
