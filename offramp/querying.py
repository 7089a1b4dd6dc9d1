"""What ``query`` shows: answers of the store as a table that fits the terminal, and what can be asked for."""

import csv
import io
import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from offramp import console
from offramp.errors import ConfigurationError
from schemas.events import TerminalEvent
from sinks.errors import StoreRejected
from sinks.rows import COMPANION_TABLES
from sinks.store import Store

MAX_ROWS = 1000
_READABLE = 12
"""A column is still readable when it is cut to this many characters a line."""

_ASIDES = frozenset({"default_type", "default_expression", "comment", "codec_expression", "ttl_expression"})
_NUMBER = re.compile(r"(?:Nullable\()?(?:U?Int|Float|Decimal)")
_ASIDE = re.compile(r"[.:] (?:Expected one of: |In scope |while executing ).*?(?= \([A-Z_]+\)$|$)", re.DOTALL)
_HINT = re.compile(r"Maybe you meant: \[([^\]]*)\]")
_UNKNOWN = re.compile(r"\(UNKNOWN_(?:TABLE|IDENTIFIER)\)$")

_BASES = """
    SELECT name, comment, extractAll(create_table_query, 'FROM (?:\\w+\\.)?(\\w+)') AS bases
    FROM system.tables WHERE database = currentDatabase() ORDER BY name
"""
_COLUMNS = """
    SELECT table, name, type, comment FROM system.columns
    WHERE database = currentDatabase() AND default_kind = '' ORDER BY table, position
"""
_DERIVED = {
    "open_obligations": "number of obligations",
    "missing_evidence": "number of evidence gaps",
    "odd": "number of findings",
    "read": "messages that were read",
    "classified": "events, stored and classified",
    "stored": "companions, stored",
    "duplicate": "messages known from another position, with the same content",
    "conflicting": "messages known by their id with other content, kept apart",
    "dead_lettered": "messages that are no valid record, kept as dead letters",
    "filtered": "messages left out on request",
    "first_offset": "position of the first message",
    "end_offset": "position behind the last message",
    "missing_offsets": "positions in between that have no ledger row",
    "messages": "number of messages",
    "first_recorded_at": "when the first ledger row was written",
    "last_recorded_at": "when the last ledger row was written",
    "bytes": "size of the message",
    "redrives": "how often it was redriven",
    "redriven_at": "when it was last redriven",
    "redriven_topic": "topic that it was last redriven to",
    "redriven_partition": "partition that it got there",
    "redriven_offset": "offset that it got there",
    "records": "number of records that were erased",
    "erased_at": "when the first of them was erased",
    "rank": "segment, end and id of the event: the greatest of a run is its latest",
    "is_latest": "whether no other event of the run is later",
    "moment": "when it happened, in microseconds; of what is undated, the end of the run",
    "counted_at": "the same, but not before the end of the run",
    "what": "event of a review, action of an operator, or state of an enrichment",
    "target": "operation or component that it is about",
    "reverses": "whether it showed the partial to be wrong",
    "opened_at": "since when it is open",
    "omitted": "components that the partial lacks, and whether each can be added later",
    "added": "components that enrichments completed",
    "missing": "components that are still to be added",
    "failed": "missing components whose latest enrichment failed",
    "superseded": "missing components whose latest enrichment was superseded",
    "final": "missing components that cannot be added later",
    "age_s": "time since then in seconds, pauses left out",
    "paused_since": "since when its clock stands still; null if it runs",
    "paused_us": "how long its clock has stood still, in microseconds, the present pause left out",
    "expired": "whether its deadline was said to have passed",
    "decision_owed": "whether a decision is waited for",
    "duties": "obligations that nobody has met",
    "until": "when the view was asked, in microseconds",
    "overdue": "whether the deadline has passed, pauses left out",
    "missing_event_id": "event that legacy exits name and nobody has seen; empty otherwise",
    "day": "day in UTC",
    "hour": "beginning of the hour in UTC",
    "runs": "number of runs",
    "events": "number of events, those of earlier segments too",
    "superseded_events": "events of earlier segments, which a later one supersedes",
    "paired": "runs with an event and a legacy exit",
    "legacy_missing": "runs with an event and no legacy exit",
    "event_missing": "runs and events that only legacy exits name",
    "unmapped": "runs whose legacy exit no rule of the label mapping holds for",
    "contested": "runs whose legacy exits map to different kinds",
    "gaps": "runs that lack evidence that would have earned a better exit",
    "stage": "stage of enforcement, by the proposed exit kind",
    "agree": "runs where exit and legacy exit agree",
    "disagree": "runs where they disagree",
    "supports": "runs where operators' recovery supports the proposed exit",
    "contradicts": "runs where it contradicts the proposed exit",
    "silent": "runs where it says nothing of the proposed exit",
    "prohibited_exits": "runs whose proposed exit the invariants rule out; never any under a proved table",
}
"""What the columns mean that views compute."""
_DERIVED_OF = {
    ("v_dead_letter_states", "state"): "what became of it: dead, waiting, dead_again, erased, or as the ledger says",
    ("v_exit_notes", "type"): "type of the companion",
    **{(view, "run_id"): "run" for view in ("v_exit_notes", "v_open_partials", "v_open_reviews", "v_reversals")},
    **{(view, "segment"): "segment of the run, when it was resumed" for view in ("v_open_partials", "v_open_reviews")},
    ("v_open_reviews", "state"): "open, claimed, paused, or decided with obligations left",
    **{(view, "run_id"): "run; empty if it is not known" for view in ("v_comparison", "v_disagreements")},
    **{
        (view, "moment"): "when the run ended; if there is no event, when the legacy exit was decided, or else stored"
        for view in ("v_comparison", "v_disagreements")
    },
}
"""The same, where a name means something else in one view."""


class Column(NamedTuple):
    """One thing that can be asked for. ``view`` is a view, or the table of a companion."""

    view: str
    column: str
    type: str
    meaning: str


def answer(store: Store, sql: str, fmt: str) -> bytes:
    """The answer in the engine's format. Raises ConfigurationError with the engine's sentence, without its noise."""
    try:
        return store.query(sql, fmt)
    except StoreRejected as error:
        raise ConfigurationError(_sentence(str(error))) from None


def _sentence(message: str) -> str:
    """The engine's sentence without its number, what it expected instead, the statement again, and its own code."""
    text = re.sub(r" \([A-Z_]+\)$", "", _ASIDE.sub("", re.sub(r"^\d+\. ", "", message)))
    hint = _HINT.search(message)
    near = f"; did you mean {hint[1]}?" if hint and hint[0] not in text else ""
    where = "; `offramp query --schema` lists views and columns" if _UNKNOWN.search(message) else ""
    return f"{text.rstrip('.: ')}{near}{where}"


def utf8(text: bytes) -> bytes:
    """Text as valid UTF-8, whatever bytes the store holds."""
    return text.decode(errors="replace").encode()


def json_array(lines: bytes) -> bytes:
    """JSON Lines as one array, in valid UTF-8."""
    # Not by splitlines of a string, for which more ends a line than ends one of JSON Lines.
    rows = utf8(lines).splitlines()
    return b"[\n" + b",\n".join(rows) + b"\n]\n" if rows else b"[]\n"


def show_table(compact: bytes) -> None:
    """Print an answer in the engine's format ``JSONCompactEachRowWithNamesAndTypes``.

    As a table if its columns are readable at the terminal's width, else one block per row.
    """
    lines = compact.decode(errors="replace").split("\n")
    names, types = json.loads(lines[0]), json.loads(lines[1])
    body = [line for line in lines[2:] if line]
    rows = [[_shown(cell) for cell in json.loads(line)] for line in body[:MAX_ROWS]]
    names, types, rows = _without_asides(names, types, rows)
    columns = [(name, "right" if _NUMBER.match(kind) else "left") for name, kind in zip(names, types, strict=True)]
    count = f"{len(body):,}"
    if _fits(names, rows):
        console.table(f"rows: {count}", columns, rows)
    else:
        for number, row in enumerate(rows, 1):
            blocks = [("column", "left"), ("value", "left")]
            console.table(f"row {number:,} of {count}", blocks, zip(names, row, strict=True))
    if len(body) > MAX_ROWS:
        console.say(f"these are the first {MAX_ROWS:,} rows; --format csv, json, ndjson or parquet has all of them")


def _without_asides(
    names: list[str], types: list[str], rows: list[list[str]]
) -> tuple[list[str], list[str], list[list[str]]]:
    """Without the columns of DESCRIBE that say nothing, which would leave no room for those that do."""
    kept = [i for i, name in enumerate(names) if name not in _ASIDES or any(row[i] for row in rows)]
    return [names[i] for i in kept], [types[i] for i in kept], [[row[i] for i in kept] for row in rows]


def _shown(cell: Any) -> str:
    if cell is None:
        return "NULL"
    return cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False)


def _fits(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    return sum(min(width, _READABLE) + 3 for width in widths) <= console.page_width()


def schema(store: Store) -> list[Column]:
    """Everything that can be asked for: views, and the tables of companions."""
    tables = {row["name"]: row for row in _rows(store, _BASES)}
    columns = _rows(store, _COLUMNS)
    comments = {(row["table"], row["name"]): row["comment"] for row in columns}
    return [
        Column(row["table"], row["name"], row["type"], _meaning(row["table"], row["name"], tables, comments))
        for row in columns
        if row["table"].startswith("v_") or row["table"] in COMPANION_TABLES.values()
    ]


def _meaning(table: str, name: str, tables: dict[str, Any], comments: dict[tuple[str, str], str]) -> str:
    """The comment of a column; of a view's, the comment of what it is made of."""
    if not table.startswith("v_"):
        return comments.get((table, name), "")
    if (table, name) in _DERIVED_OF:
        return _DERIVED_OF[table, name]
    inherited = (_meaning(base, name, tables, comments) for base in tables[table]["bases"] if base != table)
    field = TerminalEvent.model_fields.get(name)
    return next(filter(None, inherited), "") or _DERIVED.get(name) or (field and field.description) or ""


def show_schema(columns: Sequence[Column], comments: dict[str, str]) -> None:
    """Print what can be asked for, one table per view."""
    for view in dict.fromkeys(column.view for column in columns):
        rows = [(each.column, _short(each.type), each.meaning) for each in columns if each.view == view]
        titles = [("column", "left"), ("type", "left"), ("meaning", "left")]
        console.table(f"{view}: {comments[view]}", titles, rows)


def schema_csv(columns: Sequence[Column]) -> bytes:
    """What can be asked for, as CSV with a header."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([Column._fields, *columns])
    return text.getvalue().encode()


def view_comments(store: Store) -> dict[str, str]:
    """What each view and table is, by name."""
    return {row["name"]: row["comment"] for row in _rows(store, _BASES)}


def _short(kind: str) -> str:
    """A type for people: without what it is wrapped in, and without what is nested in it."""
    bare = re.sub(r"(?:Nullable|LowCardinality)\(([^()]*(?:\([^()]*\))?[^()]*)\)", r"\1", kind)
    bare = re.sub(r"(?:Nullable|LowCardinality)\(([^()]*)\)", r"\1", bare)
    return re.sub(r"Tuple\(.*\)", "Tuple(…)", bare).replace("(6, 'UTC')", "")


def _rows(store: Store, sql: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in store.query(sql).splitlines()]
