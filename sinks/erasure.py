"""Erases the evidence of a run or of an actor, and keeps what counts: rows, identities, digests, exits, the ledger.

Which records are meant is noted first, in the table ``erasures``; then their texts are overwritten where they lie, by
mutations, which rewrite the files. A run of this that was ended is completed by the next one, whatever that is about,
since every note whose text is still there is carried out. The same message delivered again is known by its identity,
and brings nothing back; one of that identity and other content is kept apart as a conflict, and the next run erases it.

A dead letter names no run for certain: it is one of a run if its key is the run's, or if its bytes hold both tenant and
run (or actor), each as a whole JSON or Avro text.
"""
# ruff: noqa: S608 -- every statement is put together from the constants below

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from schemas.exits import ENVELOPES
from sinks.rows import COMPANION_TABLES, change_column
from sinks.store import ERASED, Key, Store

_ERASED_TEXT = f"'{ERASED.decode()}'"
ERASED_WORDS = "[erased]"
"""What stands where words were that the contract asks for."""
_ACTOR_PATHS = ("'request', 'actor'", "'actor'", "'reviewer'")
KEPT: Mapping[str, str] = {
    "ingest_ledger": "identities and digests alone; without them the books would not close",
    "active_tables": "decision tables",
    "obligation_queues": "queues of decision tables",
    "schema_migrations": "migrations",
    "redrives": "places of messages",
    "erasures": "what was erased",
    "comparisons": "codes, counts and labels alone, which exits and legacy exits keep as well",
    "settlings": "how far runs are settled",
    "touched_runs": "hashes of runs",
    "exit_alerts": "codes, names of tenants, agents and queues, and shares",
    "alert_evaluations": "the same, of what is pending too",
}
"""Tables that hold no evidence, and what they hold instead."""


class Subject(NamedTuple):
    """Whose evidence: of one run, or of everything that one actor asked for. Exactly one of the two is given.

    No name is empty: a field that is absent reads as an empty text, so an empty name would mean whatever has none.
    """

    tenant: str
    run_id: str | None = None
    actor: str | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the statements below. Raises ValueError if a name is empty."""
        name = self.run_id if self.actor is None else self.actor
        if not self.tenant or not name:
            raise ValueError("an empty name would mean everything without one")
        key = "" if self.run_id is None else f"{self.tenant}/{self.run_id}"
        names, tenants = _needles(name), _needles(self.tenant)
        return {
            "tenant": self.tenant, "name": name, "key": key, "names": names.of_json, "avro_name": names.of_avro,
            "tenants": tenants.of_json, "avro_tenant": tenants.of_avro,
        }  # fmt: skip


class _Needles(NamedTuple):
    """A text as it stands in a message, in hexadecimal: in JSON, with and without escapes, and in Avro."""

    of_json: list[str]
    of_avro: str


def _needles(text: str) -> _Needles:
    plain = json.dumps(text, ensure_ascii=False).encode(errors="surrogatepass")
    encoded = text.encode(errors="surrogatepass")
    of_json = {plain.hex(), json.dumps(text).encode().hex()}
    return _Needles(sorted(of_json), (_zigzag(len(encoded)) + encoded).hex())


def _zigzag(length: int) -> bytes:
    """A length as Avro writes it."""
    value, written = length << 1, bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


# --- which records

_OF_RUN = "tenant = {tenant:String} AND run_id = {name:String}"
_ASKED_BY = "tenant = {tenant:String} AND JSONExtractString(event, 'request', 'actor') = {name:String}"
_HOLDS = """(
    arrayExists(needle -> position(raw, unhex(needle)) > 0, {{{json}:Array(String)}})
    OR (NOT startsWith(trimLeft(raw), '{{') AND position(raw, unhex({{{avro}:String}})) > 0)
)"""
# Not in JSON, where the length of a text of 17 bytes looks like a quotation mark.
_NAMES_THEM = f"{_HOLDS.format(json='names', avro='avro_name')} AND {_HOLDS.format(json='tenants', avro='avro_tenant')}"
_LETTER_ID = "concat(source, ' ', partition, ' ', toString(offset))"


def letter_key(source: str, partition: str, offset: int) -> Key:
    """Under which tenant and id a dead letter is noted as erased."""
    return "", f"{source} {partition} {offset}"


def _noted(record_type: str, tenant: str = "tenant", record_id: str = "record_id") -> str:
    """Whether a row's record is noted as erased."""
    notes = f"SELECT tenant, record_id FROM erasures WHERE record_type = '{record_type}'"
    return f"({tenant}, {record_id}) IN ({notes})"


@dataclass(frozen=True)
class _Kind:
    """One kind of records: where they are, and how their rows are told, erased, and told to be erased already.

    ``of_run`` and ``of_actor`` say which are a subject's. ``changes`` are the assignments that erase, ``noted`` which
    rows they are for, ``still`` which of those still hold something.
    """

    record_type: str
    table: str
    tenant: str
    record_id: str
    of_run: str
    of_actor: str
    changes: str
    noted: str
    still: str


def _events_of(subject: str) -> str:
    return f"SELECT event_id FROM terminal_events FINAL WHERE {subject}"


def _about(table: str) -> tuple[str, str]:
    """Which companions are about a run, or about what an actor asked for or did themselves."""
    runs = f"SELECT run_id FROM terminal_events FINAL WHERE {_ASKED_BY}"
    did = {"recovery_actions": " OR actor = {name:String}", "review_events": " OR reviewer = {name:String}"}
    tenant = "tenant = {tenant:String}"
    return (
        f"{tenant} AND (run_id = {{name:String}} OR event_id IN ({_events_of(_OF_RUN)}))",
        f"{tenant} AND (run_id IN ({runs}) OR event_id IN ({_events_of(_ASKED_BY)}){did.get(table, '')})",
    )


def _emptied(column: str) -> str:
    """Assignment that empties a text. Not NULL: below a NULL that a mutation writes, the file keeps the text."""
    return f"{column} = if({column} IS NULL, NULL, '')"


_WORDS: Mapping[str, tuple[str, ...]] = {
    "recovery_actions": ("actor", "reason"),
    "review_events": ("reviewer", "reason"),
}
"""Columns of companions that hold words, beside ``extensions``, which all of them have."""


def _companion(record_type: str, table: str) -> _Kind:
    words = _WORDS.get(table, ())
    changes = ", ".join([*map(_emptied, words), "extensions = map()"])
    still = " OR ".join([*(f"notEmpty(ifNull({name}, ''))" for name in words), "notEmpty(extensions)"])
    return _Kind(record_type, table, "tenant", "record_id", *_about(table), changes, _noted(record_type), f"({still})")


_TEXT, _TEXTS, _TEXT_OR_NULL = "String", "Array(String)", "Nullable(String)"
_KEPT_OF_ENVELOPE: Mapping[str, Mapping[str, str]] = {
    "refusal": {"kind": _TEXT, "reason_code": _TEXT, "policy_id": _TEXT_OR_NULL, "retry": _TEXT},
    "fallback": {
        "kind": _TEXT, "reason_code": _TEXT, "fallback_id": _TEXT_OR_NULL, "fallback_version": _TEXT_OR_NULL,
        "retry": _TEXT,
    },
    "partial": {
        "kind": _TEXT, "reason_code": _TEXT, "completed": _TEXTS,
        "omitted": f"Array(Tuple(component {_TEXT_OR_NULL}, reason_code {_TEXT_OR_NULL}, retryable Bool))",
        "completeness": _TEXT, "retry": _TEXT,
    },
    "human_queue": {
        "kind": _TEXT, "reason_code": _TEXT, "queue": _TEXT, "owner": _TEXT, "review_packet_id": _TEXT,
        "allowed_decisions": _TEXTS, "deadline": "Int64", "retry": _TEXT,
    },
}  # fmt: skip
"""What stays of an envelope, with its type: codes, names of components and policies, and what a queue needs to go on.
"""


def _envelope() -> str:
    """An envelope without words, references and side effects, in the contract's shape."""
    cases = (f"kind = '{kind}', {_kept_of(kind, fields)}" for kind, fields in _KEPT_OF_ENVELOPE.items())
    return f"if(envelope IS NULL, NULL, multiIf({', '.join(cases)}, {_ERASED_TEXT}))"


def _kept_of(kind: str, fields: Mapping[str, str]) -> str:
    rest = json.dumps(_instead_of_words(kind), separators=(",", ":"))[1:]
    types = ", ".join(f"{name} {of_type}" for name, of_type in fields.items())
    text = f"toJSONString(JSONExtract(ifNull(envelope, ''), 'Tuple({types})'))"
    return f"concat(substring({text}, 1, length({text}) - 1), ',{rest}')"


def _instead_of_words(kind: str) -> dict[str, Any]:
    words = {"explanation": ERASED_WORDS} if "explanation" in ENVELOPES[kind].model_fields else {}
    return {**words, "side_effects": []}


def without_words(envelope: bytes | None) -> bytes | None:
    """What stays of an envelope's JSON text where its event was erased, the same as :func:`erase` leaves."""
    if envelope is None:
        return None
    given = json.loads(envelope)
    kept = {name: given[name] for name in _KEPT_OF_ENVELOPE[given["kind"]]} | _instead_of_words(given["kind"])
    return json.dumps(kept, separators=(",", ":"), ensure_ascii=False).encode()


def without_evidence(table: str, stream: bytes, erased: Sequence[bool]) -> bytes:
    """Rows of a record's table, those of erased records the same as :func:`erase` leaves them."""
    if table == "terminal_events":
        changed = change_column(stream, "event", lambda _text: ERASED, erased)
        return change_column(changed, "trace_id", _empty, erased)
    for name in _WORDS.get(table, ()):
        stream = change_column(stream, name, _empty, erased)
    return change_column(stream, "extensions", lambda _fields: [], erased)


def _empty(text: str | None) -> str | None:
    return None if text is None else ""


_CONFLICT_BY_ACTOR = " OR ".join(f"JSONExtractString(text, {path}) = {{name:String}}" for path in _ACTOR_PATHS)
_KINDS: tuple[_Kind, ...] = (
    *(_companion(record_type, table) for record_type, table in COMPANION_TABLES.items()),
    _Kind(
        "conflict", "conflicting_events", "tenant", "content_digest",
        f"tenant = {{tenant:String}} AND (JSONExtractString(text, 'run_id') = {{name:String}}"
        f" OR event_id IN ({_events_of(_OF_RUN)}))",
        f"tenant = {{tenant:String}} AND ({_CONFLICT_BY_ACTOR} OR event_id IN ({_events_of(_ASKED_BY)}))",
        f"text = {_ERASED_TEXT}",
        f"({_noted('conflict', record_id='content_digest')} OR (record_type, tenant, event_id) IN"
        " (SELECT record_type, tenant, record_id FROM erasures))",
        f"text != {_ERASED_TEXT}",
    ),
    _Kind(
        "dead_letter", "dead_letters", "''", _LETTER_ID,
        f"key = {{key:String}} OR ({_NAMES_THEM})",
        _NAMES_THEM,
        f"erased = true, raw = '', headers = map(), {_emptied('key')}",
        _noted("dead_letter", "''", _LETTER_ID),
        "NOT erased",
    ),
    _Kind(
        "terminal_event", "terminal_events", "tenant", "event_id", _OF_RUN, _ASKED_BY,
        f"event = {_ERASED_TEXT}, {_emptied('trace_id')}",
        _noted("terminal_event", record_id="event_id"),
        f"event != {_ERASED_TEXT}",
    ),
)  # fmt: skip
"""Events come last: what belongs to them is told by their texts."""
_EXITS = _Kind(
    "terminal_event", "exit_classifications", "tenant", "event_id", "", "",
    f"envelope = {_envelope()}",
    _noted("terminal_event", record_id="event_id"),
    f"envelope IS NOT NULL AND envelope != {_envelope()}",
)  # fmt: skip
"""Noted with the events."""
TABLES = frozenset({*(kind.table for kind in _KINDS), _EXITS.table})
"""Tables that something is erased in."""


# --- doing it


@dataclass(frozen=True)
class Found:
    """How many records of a subject there are, by type, and how many of them still hold evidence."""

    records: Mapping[str, int]
    still: Mapping[str, int]
    approvals: int
    """Further events that name the actor as an approver. They are evidence of other people's runs, and stay."""

    @property
    def nothing(self) -> bool:
        """Whether nothing of the subject is stored."""
        return not sum(self.records.values())


_APPROVED = f"""
    SELECT count() AS n FROM terminal_events FINAL
    WHERE tenant = {{tenant:String}} AND NOT ({_ASKED_BY})
        AND arrayExists(x -> JSONExtractString(x, 'approval', 'approver') = {{name:String}},
            JSONExtractArrayRaw(event, 'policy_decisions'))
"""


def find(store: Store, subject: Subject) -> Found:
    """What is stored of a subject. Reads every event's text if it is an actor. Changes nothing."""
    counts = {kind.record_type: _counted(store, kind, subject) for kind in _KINDS}
    approvals = 0 if subject.actor is None else store.select(_APPROVED, subject.parameters)[0]["n"]
    return Found({k: n for k, (n, _) in counts.items()}, {k: still for k, (_, still) in counts.items()}, approvals)


def _counted(store: Store, kind: _Kind, subject: Subject) -> tuple[int, int]:
    where = _meant(kind, subject)
    sql = f"SELECT count() AS n, countIf({kind.still}) AS still FROM {kind.table} FINAL WHERE {where}"
    row = store.select(sql, subject.parameters)[0]
    return row["n"], row["still"]


def _meant(kind: _Kind, subject: Subject) -> str:
    return kind.of_run if subject.actor is None else kind.of_actor


def erase(store: Store, subject: Subject, now: int) -> Iterator[str]:
    """Note what is meant, then overwrite it; yields each table that was changed. ``now`` is in microseconds.

    Raises StoreForbidden if the user may not alter tables.
    """
    for kind in _KINDS:
        sql = f"""
            INSERT INTO erasures
            SELECT {{erasure:String}}, '{kind.record_type}', {kind.tenant}, {kind.record_id},
                fromUnixTimestamp64Micro({{now:Int64}})
            FROM {kind.table} FINAL WHERE ({_meant(kind, subject)}) AND {kind.still}
        """
        store.execute(sql, subject.parameters | {"erasure": str(now), "now": now})
    # Exits come last: a worker that did not see the notes yet may have added one.
    for kind in (*_KINDS, _EXITS):
        if _overwrite(store, kind):
            yield kind.table


def _overwrite(store: Store, kind: _Kind) -> bool:
    """Overwrite the rows of a kind that are noted; whether there were any."""
    where = f"{kind.noted} AND {kind.still}"
    # Not deduplicated: an older copy of a row that was not merged yet holds the text as well.
    if not store.select(f"SELECT count() AS n FROM {kind.table} WHERE {where}")[0]["n"]:
        return False
    store.alter(kind.table, f"UPDATE {kind.changes} WHERE {where}")
    return True
