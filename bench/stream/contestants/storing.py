"""Two ways to store a batch with clickhouse-connect: as Python values, and as Arrow blocks inserted as they are."""

import time
from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.insert import InsertContext
from work import FLAT, Judged, collect_batch, connect

from sinks.rows import SCHEMAS

SOURCE = "terminal-events"
EVENTS, EXITS = "terminal_events", "exit_classifications"
_LISTS = ("prohibited", "evidence_gaps", "findings", "facts")
_EVIDENCE_ONLY = ("trace_id", "version")
_VERDICT = ("kind", "reason_code", "rule_id", "verified", "classifier_version", "evidence_digest", "content_digest")
_json = msgspec.json.Encoder()

Columns = dict[str, Sequence[Any]]


def event_columns(batch: Sequence[Judged]) -> Columns:
    """The columns of ``terminal_events``."""
    now, count = time.time_ns() // 1000, len(batch)
    verdicts = [one.decided.classification for one in batch]
    return {
        **_flat_columns(batch),
        "event": [one.text for one in batch],
        **{name: [verdict[name] for verdict in verdicts] for name in ("content_digest", "evidence_digest")},
        "source": [SOURCE] * count,
        "partition": ["0"] * count,
        "offset": [one.offset for one in batch],
        "ingested_at": [now] * count,
    }


def _flat_columns(batch: Sequence[Judged]) -> Columns:
    return dict(zip(FLAT, zip(*(one.flat for one in batch), strict=True), strict=True))


def exit_columns(batch: Sequence[Judged]) -> Columns:
    """The columns of ``exit_classifications``; lists as lists of lists, obligations as dicts."""
    now, count = time.time_ns() // 1000, len(batch)
    verdicts = [one.decided.classification for one in batch]
    tables, envelopes = [verdict["table"] for verdict in verdicts], [verdict["envelope"] for verdict in verdicts]
    return {
        **{name: values for name, values in _flat_columns(batch).items() if name not in _EVIDENCE_ONLY},
        **{name: [verdict[name] for verdict in verdicts] for name in (*_VERDICT, *_LISTS, "obligations")},
        "fact_bits": [one.decided.fact_bits for one in batch],
        **{f"table_{name}": [table[name] for table in tables] for name in ("id", "version", "digest")},
        "unproven": [False] * count,
        "envelope": [None if envelope is None else _json.encode(envelope) for envelope in envelopes],
        **{
            name: [None if envelope is None else envelope.get(name) for envelope in envelopes]
            for name in ("queue", "deadline", "review_packet_id")
        },
        "packet_completeness": [one.decided.packet_completeness for one in batch],
        "classified_at": [now] * count,
    }


class Rows:
    """Insert Python values; the client encodes them column by column in ClickHouse's Native format."""

    def __init__(self, store: Path) -> None:
        self._client = connect(store)
        self._contexts = {table: _context(self._client, table) for table in (EVENTS, EXITS)}

    def store(self, batch: Sequence[Judged]) -> None:
        """Insert the events and the classifications of a batch."""
        exits = exit_columns(batch)
        duties = [[(duty["action"], duty["operation_id"]) for duty in some] for some in exits["obligations"]]
        self._insert(EVENTS, event_columns(batch))
        self._insert(EXITS, exits | {"obligations": duties})
        collect_batch()

    def _insert(self, table: str, columns: Mapping[str, Sequence[Any]]) -> None:
        context = self._contexts[table]
        context.data = [columns[name] for name in context.column_names]
        self._client.insert(context=context)


def _context(client: Client, table: str) -> InsertContext:
    # Made once, so that the client does not ask for the columns of the table at every insert.
    names = [field.name for field in SCHEMAS[table]]
    return client.create_insert_context(table, names, column_oriented=True)


class Blocks:
    """Insert Arrow streams as they are; pyarrow encodes them."""

    def __init__(self, store: Path) -> None:
        self._client = connect(store)

    def store(self, batch: Sequence[Judged]) -> None:
        """Insert the events and the classifications of a batch."""
        self.insert(arrow_streams(batch))
        collect_batch()

    def insert(self, streams: Mapping[str, bytes]) -> None:
        """Insert streams by the names of their tables."""
        for table, stream in streams.items():
            self._client.raw_insert(table, SCHEMAS[table].names, stream, fmt="ArrowStream")


def arrow_streams(batch: Sequence[Judged]) -> dict[str, bytes]:
    """The events and the classifications of a batch, by the names of their tables."""
    columns = {EVENTS: event_columns(batch), EXITS: exit_columns(batch)}
    return {table: arrow_stream(its, SCHEMAS[table]) for table, its in columns.items()}


def arrow_stream(columns: Columns, schema: pa.Schema) -> bytes:
    """Columns as one uncompressed Arrow IPC stream."""
    arrays = [_array(columns[field.name], field.type) for field in schema]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return sink.getvalue().to_pybytes()


def _array(values: Sequence[Any], kind: pa.DataType) -> "pa.Array[Any]":
    if not isinstance(kind, pa.ListType):
        return pa.array(values, kind)
    # One flat array and offsets, which is three times as fast as a list of lists.
    offsets = pa.array(accumulate(map(len, values), initial=0), pa.int32())
    flat: Any = pa.array(chain.from_iterable(values), kind.value_type)
    array: pa.Array[Any] = pa.ListArray.from_arrays(offsets, flat, type=kind)
    return array
