"""What happens to a chunk before the store is asked: decode → redact → classify → rows. Pure, and so runs anywhere.

A worker process is given a :class:`Setup` once and :class:`Task` after task; what it returns is bytes that the store
inserts as they are, and the little that the writer needs to decide dispositions.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec

from classifier.decide import Classifier, Decided
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
    flat_fields,
)
from streams.cut import Failure, Limits
from streams.files import SOURCE_KIND, Chunk, Decoded, decode_chunk

TERMINAL_EVENT = "terminal_event"
PART_RECORDS = 32
"""Messages that are decoded at once. A decoded event takes ten times its bytes: few of them stay in the processor's
cache, and their memory is used again instead of being asked for again, which costs as much as classifying."""
_encode_line = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class Setup:
    """What a worker needs for all its tasks. ``rows`` and ``lines`` say which results are wanted, ``unproven`` that the
    table's proof fails."""

    table_text: str
    redactor: Redactor
    rows: bool = True
    lines: bool = False
    unproven: bool = False
    limits: Limits = field(default_factory=Limits)

    def start(self) -> "Worker":
        """The worker, made in the process that it runs in."""
        return Worker(self)


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
    lines: bytes = b""
    redacted: int = 0


class Worker:
    """Turns chunks into outcomes. Keeps nothing between tasks that could change an answer."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.classifier = Classifier(load(setup.table_text), unproven=setup.unproven)

    def run(self, task: Task) -> Outcome:
        """Decode, redact and classify one chunk. Raises nothing, whatever its bytes are."""
        return _Run(self, task).outcome


class _Run:
    """One chunk on its way through the stages."""

    def __init__(self, worker: Worker, task: Task) -> None:
        self._setup, self._classifier, self._task = worker.setup, worker.classifier, task
        self.outcome = Outcome(task.chunk.first + task.chunk.count, task.chunk.consumed)
        self._events: list[EventRow] = []
        self._verdicts: list[ClassificationRow] = []
        self._companions: dict[str, list[CompanionRow]] = {}
        self._lines: list[bytes] = []
        for part in parts(task.chunk):
            suspicious = _may_hold_secrets(part, self._setup.redactor)
            for decoded in decode_chunk(part, self._setup.limits):
                self._take(decoded, suspicious=suspicious)
        if self._setup.rows:
            self.outcome.rows = _encoded(self._events, self._verdicts, self._companions)
        self.outcome.lines = b"".join(self._lines)

    def _take(self, decoded: Decoded, *, suspicious: bool) -> None:
        record, error = decoded.record, decoded.error
        if record is not None and self._setup.redactor.must_redact(record, suspicious=suspicious):
            record, error = self._redacted(record)
        if error is not None or record is None:
            self._refuse(decoded, error)
        elif record["type"] == TERMINAL_EVENT:
            self._classify(record, decoded.position)
        else:
            self._keep_companion(record, decoded.position)

    def _redacted(self, record: dict[str, Any]) -> tuple[dict[str, Any] | None, MessageError | None]:
        try:
            redacted, hits = self._setup.redactor.redact(record)
        except MessageError as error:
            return None, error
        self.outcome.redacted += hits
        return redacted, None

    def _refuse(self, decoded: Decoded, error: MessageError | None) -> None:
        """Keep a message that is no valid record as a dead letter, whole but for its secrets."""
        if error is None:
            raise TypeError("a message without a record has an error")
        raw, masked = self._setup.redactor.mask(decoded.raw or _raw_of(decoded, self._task.chunk))
        self.outcome.entries.append(Entry(decoded.position, decoded.span, "", "", "", ""))
        self.outcome.dead_letters.append(
            DeadLetterRow(
                source=SOURCE_KIND,
                partition=self._task.partition,
                offset=decoded.position,
                timestamp=None,
                raw=raw,
                headers={},
                reason_code=error.code.value,
                field_path=error.path,
                message=error.message,
                masked=masked > 0,
                tries=1,
                replay_count=0,
                recorded_at=self._task.now,
            )
        )
        self.outcome.tally["error", error.code.value] += decoded.span
        line = decoded.line or decoded.position + 1
        body = {"reason_code": error.code.value, "line": line, "path": error.path, "message": error.message}
        self._print(_encode_line({"error": body}))

    def _classify(self, event: dict[str, Any], position: int) -> None:
        decided = self._classifier.classify(event)
        verdict = decided.classification
        self._enter(TERMINAL_EVENT, event, event["event_id"], verdict["content_digest"], position)
        self.outcome.tally[verdict["kind"], verdict["reason_code"]] += 1
        if self._setup.rows:
            self._add_rows(event, decided, position)
        if self._setup.lines:
            self._print(contract_line(verdict))

    def _add_rows(self, event: dict[str, Any], decided: Decided, position: int) -> None:
        verdict, now = decided.classification, self._task.now
        where = Position(SOURCE_KIND, self._task.partition, position)
        digests = (verdict["content_digest"], verdict["evidence_digest"])
        text, flat = encode_json(event), flat_fields(event)
        self._events.append(EventRow(flat, text, *digests, where, now))
        score, unproven = decided.packet_completeness, self._setup.unproven
        self._verdicts.append(ClassificationRow(verdict, flat, decided.fact_bits, score, now, unproven))

    def _keep_companion(self, record: dict[str, Any], position: int) -> None:
        kind, content = record["type"], content_digest(record)
        self._enter(kind, record, record["record_id"], content, position)
        self.outcome.tally[kind, ""] += 1
        where = Position(SOURCE_KIND, self._task.partition, position)
        self._companions.setdefault(kind, []).append(CompanionRow(record, content, where, self._task.now))

    def _enter(self, kind: str, record: dict[str, Any], record_id: str, content: str, position: int) -> None:
        self.outcome.entries.append(Entry(position, 1, kind, record["tenant"], record_id, content))

    def _print(self, line: bytes) -> None:
        if self._setup.lines:
            self._lines.append(line + b"\n")


def contract_line(classification: dict[str, Any]) -> bytes:
    """A classification as the contract prints it: one JSON object, instants in ISO 8601."""
    envelope = classification["envelope"]
    if envelope and "deadline" in envelope:
        deadline = to_iso(envelope["deadline"])
        classification = {**classification, "envelope": {**envelope, "deadline": deadline}}
    return _encode_line(classification)


def parts(chunk: Chunk) -> Iterator[Chunk]:
    """A chunk as several of about :data:`PART_RECORDS` messages; a block stays whole."""
    first, count, items = chunk.first, 0, []
    for item in chunk.items:
        items.append(item)
        count += item.records if isinstance(item, Block) else 1
        if count >= PART_RECORDS:
            yield replace(chunk, first=first, count=count, items=tuple(items))
            first, count, items = first + count, 0, []
    if items:
        yield replace(chunk, first=first, count=count, items=tuple(items))


def _may_hold_secrets(chunk: Chunk, redactor: Redactor) -> bool:
    """Whether any message of a chunk needs a closer look, by one search over all of them as they are encoded. What is
    compressed cannot be searched that way."""
    if chunk.header is not None and chunk.header.codec != "null":
        return True
    parts = (item.data if isinstance(item, Block) else item[1] for item in chunk.items if not isinstance(item, Failure))
    return redactor.suspicious(b"\n".join(parts))


def _raw_of(decoded: Decoded, chunk: Chunk) -> bytes:
    """What a record that was decoded and then refused was read from; of a block, which holds many, its own text."""
    if decoded.record is None:
        return b""
    return encode_json(decoded.record) if chunk.header else chunk.items[decoded.position - chunk.first][1]


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
