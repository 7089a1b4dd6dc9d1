"""What happens to messages before the store is asked: decode → redact → classify → rows. Pure, and so runs anywhere.

A worker process is given a :class:`Setup` once and :class:`Task` after task; what it returns is bytes that the store
inserts as they are, and the little that the writer needs to decide dispositions.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from classifier.decide import Classifier, Decided
from classifier.table import load
from schemas.canonical import content_digest, encode_json
from schemas.errors import MessageError
from schemas.redaction import Redactor
from schemas.types import EARLIEST
from schemas.wire import SchemaSource
from sinks.rows import (
    COMPANION_TABLES,
    ClassificationRow,
    CompanionRow,
    DeadLetterRow,
    Disposition,
    EventRow,
    LedgerRow,
    Position,
    encode_classifications,
    encode_companions,
    encode_events,
    encode_ledger,
    flat_values,
)
from streams.batch import Batch, Decoded
from streams.cut import Limits
from streams.exit_message import encode_exit, in_json
from streams.topics import key_of

TERMINAL_EVENT = "terminal_event"
_encode_line = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class Setup:
    """What a worker needs for all its tasks. ``rows``, ``lines`` and ``announcements`` say which results are wanted,
    ``unproven`` that the table's proof fails. ``schemas`` makes the source of schemas, for messages that name one, in
    the process that asks it."""

    table_text: str
    redactor: Redactor
    rows: bool = True
    lines: bool = False
    announcements: bool = False
    unproven: bool = False
    limits: Limits = field(default_factory=Limits)
    schemas: Callable[[], SchemaSource] | None = None

    def start(self) -> "Worker":
        """The worker, made in the process that it runs in."""
        return Worker(self)


class Task(NamedTuple):
    """Messages of one ``partition`` of one ``source``, as the ledger names them; ``now`` is the instant that their rows
    carry."""

    batch: Batch
    source: str
    partition: str
    now: int


Rows = dict[str, bytes]
"""Rows of one record type, in the order of its messages: table to Arrow stream."""


class Announcement(NamedTuple):
    """A classification as it is made known: to which key, and what."""

    key: bytes
    value: bytes


@dataclass
class Outcome:
    """What became of a task.

    ``ledger`` is a row per message, as it is if nothing of it was known before; ``counts`` are messages by (record
    type, disposition), the type of what is no record empty. ``rows`` are per record type, ``dead_letters`` ready to
    store, ``tally`` counts (kind, reason code) of events and (record type, "") of companions, ``lines`` is the
    contract's output, ``redacted`` the number of secrets masked. ``announcements`` are one per event, in order.
    """

    source: str
    partition: str
    end: int
    consumed: int
    ledger: bytes = b""
    counts: Counter[tuple[str, Disposition]] = field(default_factory=Counter)
    rows: dict[str, Rows] = field(default_factory=dict)
    dead_letters: list[DeadLetterRow] = field(default_factory=list)
    tally: Counter[tuple[str, str]] = field(default_factory=Counter)
    lines: bytes = b""
    redacted: int = 0
    announcements: list[Announcement] = field(default_factory=list)
    newest_at: int = EARLIEST
    """When the newest of the events occurred; EARLIEST if there is none."""

    @property
    def messages(self) -> int:
        """How many messages the task held."""
        return self.counts.total()


class Worker:
    """Turns tasks into outcomes. Keeps nothing between them that could change an answer."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.classifier = Classifier(load(setup.table_text), unproven=setup.unproven)
        self.schemas = setup.schemas() if setup.schemas else None

    def run(self, task: Task) -> Outcome:
        """Decode, redact and classify. Raises nothing, whatever the bytes are, but what the source of schemas raises
        when it is out of reach."""
        return _Run(self, task).outcome


class _Identity(NamedTuple):
    record_type: str
    tenant: str
    record_id: str
    content_digest: str


_NO_RECORD = _Identity("", "", "", "")


class _Run:
    """One task on its way through the stages."""

    def __init__(self, worker: Worker, task: Task) -> None:
        self._setup, self._classifier, self._task = worker.setup, worker.classifier, task
        self.outcome = Outcome(task.source, task.partition, task.batch.end, task.batch.consumed)
        self._ledger: list[LedgerRow] = []
        self._events: list[EventRow] = []
        self._verdicts: list[ClassificationRow] = []
        self._companions: dict[str, list[CompanionRow]] = {}
        self._exits: list[tuple[str, str]] = []
        self._lines: list[bytes] = []
        for part in task.batch.parts():
            text = part.plain_text()
            suspicious = text is None or self._setup.redactor.suspicious(text)
            for decoded in part.decode(self._setup.limits, worker.schemas):
                self._take(decoded, suspicious=suspicious)
        if self._setup.rows:
            self.outcome.rows = _encoded(self._events, self._verdicts, self._companions)
            self.outcome.ledger = encode_ledger(self._ledger)
        self.outcome.tally.update(self._exits)
        self.outcome.lines = b"".join(self._lines)

    def _take(self, decoded: Decoded, *, suspicious: bool) -> None:
        record, error = decoded.record, decoded.error
        if record is not None and self._setup.redactor.must_redact(record, suspicious=suspicious):
            record, error = self._redacted(record)
        if error is not None:
            self._refuse(decoded, error)
        elif record is None:
            self._enter(decoded, Disposition.FILTERED)
        elif record["type"] == TERMINAL_EVENT:
            self._classify(record, decoded)
        else:
            self._keep_companion(record, decoded)

    def _redacted(self, record: dict[str, Any]) -> tuple[dict[str, Any] | None, MessageError | None]:
        try:
            redacted, hits = self._setup.redactor.redact(record)
        except MessageError as error:
            return None, error
        self.outcome.redacted += hits
        return redacted, None

    def _refuse(self, decoded: Decoded, error: MessageError) -> None:
        """Keep a message that is no valid record as a dead letter, whole but for its secrets."""
        mask = self._setup.redactor.mask
        raw, masked = mask(decoded.raw or self._task.batch.raw_of(decoded))
        self._enter(decoded, Disposition.DEAD_LETTERED)
        wrapping, of_wrapping = decoded.wrapping.masked(mask)
        self.outcome.dead_letters.append(
            DeadLetterRow(
                source=self._task.source,
                partition=self._task.partition,
                offset=decoded.position,
                timestamp=wrapping.timestamp,
                raw=raw,
                headers=wrapping.headers,
                reason_code=error.code.value,
                field_path=error.path,
                message=error.message,
                masked=masked + of_wrapping > 0,
                tries=1,
                replay_count=wrapping.replay_count,
                recorded_at=self._task.now,
                key=wrapping.key,
            )
        )
        self.outcome.tally["error", error.code.value] += decoded.messages
        line = decoded.line or decoded.position + 1
        body = {"reason_code": error.code.value, "line": line, "path": error.path, "message": error.message}
        self._print(_encode_line({"error": body}))

    def _classify(self, event: dict[str, Any], decoded: Decoded) -> None:
        decided = self._classifier.classify(event)
        verdict = decided.classification
        identity = _Identity(TERMINAL_EVENT, event["tenant"], event["event_id"], verdict["content_digest"])
        self._enter(decoded, Disposition.CLASSIFIED, identity)
        self.outcome.tally[verdict["kind"], verdict["reason_code"]] += 1
        self.outcome.newest_at = max(self.outcome.newest_at, event["occurred_at"])
        if self._setup.rows:
            self._add_rows(event, decided, decoded.position)
        if self._setup.lines:
            self._print(contract_line(verdict))
        if self._setup.announcements:
            value = encode_exit(verdict, event, self._task.now)
            self.outcome.announcements.append(Announcement(key_of(event), value))

    def _add_rows(self, event: dict[str, Any], decided: Decided, position: int) -> None:
        verdict, now = decided.classification, self._task.now
        digests = (verdict["content_digest"], verdict["evidence_digest"])
        text, flat = encode_json(event), flat_values(event)
        self._events.append(EventRow(flat, text, *digests, self._where(position), now))
        score, unproven = decided.packet_completeness, self._setup.unproven
        self._verdicts.append(ClassificationRow(verdict, flat, decided.fact_bits, score, now, unproven))

    def _keep_companion(self, record: dict[str, Any], decoded: Decoded) -> None:
        kind, content = record["type"], content_digest(record)
        self._enter(decoded, Disposition.STORED, _Identity(kind, record["tenant"], record["record_id"], content))
        self.outcome.tally[kind, ""] += 1
        row = CompanionRow(record, content, self._where(decoded.position), self._task.now)
        self._companions.setdefault(kind, []).append(row)

    def _enter(self, decoded: Decoded, fate: Disposition, of: "_Identity | None" = None) -> None:
        """Count a message, and note it for the ledger; ``of`` is None for what is no record."""
        kind, tenant, record_id, digest = of or _NO_RECORD
        task, position = self._task, decoded.position
        self.outcome.counts[kind, fate] += decoded.messages
        if self._setup.rows:
            end = position + decoded.span
            self._ledger.append(
                LedgerRow(task.source, task.partition, position, end, tenant, record_id, kind, digest, fate, task.now)
            )

    def _where(self, position: int) -> Position:
        return Position(self._task.source, self._task.partition, position)

    def _print(self, line: bytes) -> None:
        if self._setup.lines:
            self._lines.append(line + b"\n")


def contract_line(classification: dict[str, Any]) -> bytes:
    """A classification as the contract prints it: one JSON object, instants in ISO 8601."""
    return _encode_line(in_json(classification))


def _encoded(
    events: list[EventRow], verdicts: list[ClassificationRow], companions: dict[str, list[CompanionRow]]
) -> dict[str, Rows]:
    rows: dict[str, Rows] = {}
    if events:
        rows[TERMINAL_EVENT] = {
            "terminal_events": encode_events(events),
            "exit_classifications": encode_classifications(verdicts),
        }
    return rows | {kind: {COMPANION_TABLES[kind]: encode_companions(kind, items)} for kind, items in companions.items()}
