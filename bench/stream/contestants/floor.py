"""The floor: consume, decode with fastavro, insert the received bodies as one raw Avro block. Nothing is classified.

The block goes into typed nested columns as the engine itself derives them from the schema, unsorted: the least that an
engine can do with it. ``prepare.py`` does not make that table, this does.
"""

import json
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import fastavro
from on_confluent import Confluent
from reading import run
from work import FRAME_BYTES, connect, job

from schemas.avro import avro_schema
from schemas.events import TerminalEvent

_SCHEMA = fastavro.parse_schema(avro_schema(TerminalEvent))
_SYNC = bytes(16)


def _header() -> bytes:
    out = BytesIO()
    meta = {"avro.codec": b"null", "avro.schema": json.dumps(avro_schema(TerminalEvent)).encode()}
    fastavro.schemaless_writer(out, {"type": "map", "values": "bytes"}, meta)
    return b"Obj\x01" + out.getvalue() + _SYNC


def _long(value: int) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, "long", value)
    return out.getvalue()


class Floor:
    """Decodes bodies and forgets them; stores them as they came, as one container of one block."""

    def __init__(self, store: Path) -> None:
        self._client, self._head = connect(store), _header()
        empty = store / "empty.avro"
        empty.write_bytes(self._head)
        self._client.command(
            f"CREATE TABLE received ENGINE = MergeTree ORDER BY tuple() AS SELECT * FROM file('{empty}', Avro)",  # noqa: S608 -- ours
            settings={"allow_experimental_nullable_tuple_type": 1},
        )

    def judge_all(self, messages: Sequence[tuple[bytes, int]]) -> list[bytes]:
        """Decode all, and return their bodies."""
        bodies = [value[FRAME_BYTES:] for value, _ in messages]
        for body in bodies:
            fastavro.schemaless_reader(BytesIO(body), _SCHEMA, None)
        return bodies

    def store(self, bodies: Sequence[bytes]) -> None:
        """Insert bodies as one block."""
        data = b"".join(bodies)
        block = b"".join((self._head, _long(len(bodies)), _long(len(data)), data, _SYNC))
        self._client.raw_insert("received", insert_block=block, fmt="Avro")


if __name__ == "__main__":
    the_job = job(batch=5_000)
    floor = Floor(the_job.store)
    run(the_job, Confluent(the_job), floor.judge_all, floor)
