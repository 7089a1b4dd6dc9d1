"""Processor time per event of each part of ``offramp classify``, over the first events of a container.

``python -P bench/parts.py FILE`` prints one JSON object: microseconds per part. With ``-P``, so that what is measured
is the installed package and not the source beside it; ``core`` says whether that is compiled. Each number is the least
of several rounds, because on a shared machine only the least is a property of the program.
"""

import gc
import json
import pickle
import sys
import tempfile
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro

import classifier.decide
from classifier.decide import Classifier, Decided
from classifier.table import default_text, load
from schemas.canonical import encode_json
from schemas.container import Block
from schemas.redaction import Redactor
from sinks.rows import (
    ClassificationRow,
    EventRow,
    Position,
    encode_classifications,
    encode_events,
    flat_values,
)
from sinks.store import open_store
from streams.files import SOURCE_KIND, Chunk, chunks, decode_chunk, open_source
from streams.ingest import Report, Writer
from streams.worker import Outcome, Setup, Task, Worker

CHUNKS = 10
ROUNDS = 5
KEY = b"0" * 32

Timings = dict[str, float]


class Rounds:
    """The least processor time of each named part over several rounds, in seconds."""

    def __init__(self) -> None:
        self.least: Timings = {}
        self._now: Timings = {}

    def timed(self, name: str, work: Callable[..., Any], *arguments: Any) -> Any:
        """Do a piece of a part's work in this round."""
        started = time.process_time()
        result = work(*arguments)
        self._now[name] = self._now.get(name, 0.0) + time.process_time() - started
        return result

    def close(self) -> None:
        """End the round."""
        for name, seconds in self._now.items():
            self.least[name] = min(seconds, self.least.get(name, seconds))
        self._now = {}


def container_of(some: list[Chunk]) -> bytes:
    """Some chunks as a container again, for the plain reader."""
    header = some[0].header
    if header is None:
        raise ValueError("not an Avro container")
    out = BytesIO()
    meta = {"avro.codec": header.codec.encode(), "avro.schema": header.schema}
    out.write(b"Obj\x01")
    fastavro.schemaless_writer(out, {"type": "map", "values": "bytes"}, meta)
    out.write(header.sync)
    for block in (item for chunk in some for item in chunk.items if isinstance(item, Block)):
        fastavro.schemaless_writer(out, "long", block.records)
        fastavro.schemaless_writer(out, "bytes", block.data)
        out.write(header.sync)
    return out.getvalue()


def read_all(container: bytes) -> None:
    """Decode as ``bench/decode.py`` does."""
    for _ in fastavro.reader(BytesIO(container)):
        pass


def stages(chunk: Chunk, classify: Classifier, redactor: Redactor, rounds: Rounds) -> None:
    """Take one chunk through what a worker does, part by part of it, as the worker does."""
    events: list[EventRow] = []
    verdicts: list[ClassificationRow] = []
    for part in chunk.parts():
        text = b"\n".join(item.data for item in part.items if isinstance(item, Block))
        rounds.timed("search for secrets", redactor.suspicious, text)
        records = [decoded.record for decoded in rounds.timed("decode and check", decode_chunk, part)]
        decided: list[Decided] = rounds.timed("classify", lambda of: [classify.classify(one) for one in of], records)
        texts = rounds.timed("encode as text", lambda of: [encode_json(one) for one in of], records)
        for record, one, text in zip(records, decided, texts, strict=True):
            verdict, flat = one.classification, flat_values(record)
            digests = (verdict["content_digest"], verdict["evidence_digest"])
            events.append(EventRow(flat, text, *digests, Position(SOURCE_KIND, "p", 0), 0))
            verdicts.append(ClassificationRow(verdict, flat, one.fact_bits, one.packet_completeness, 0))
    rounds.timed("rows of events", encode_events, events)
    rounds.timed("rows of classifications", encode_classifications, verdicts)


class Watched:
    """A store whose calls are timed, engine's threads included."""

    def __init__(self, store: Any, rounds: Rounds) -> None:
        self._store, self._rounds = store, rounds

    def insert(self, table: str, stream: bytes) -> None:
        """Insert, timed per table."""
        self._rounds.timed(f"insert {table}", self._store.insert, table, stream)

    def are_new(self, *arguments: Any) -> Any:
        """Look identities up, timed."""
        return self._rounds.timed("look identities up", self._store.are_new, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def write(outcomes: list[Outcome], directory: Path, rounds: Rounds) -> None:
    """Write outcomes as the command does, each time under a new partition and into a new store."""
    table = load(default_text())
    with open_store(directory, holder="bench", lock_timeout_s=0, now=lambda: 1, wait=time.sleep) as store:
        store.migrate()
        writer = Writer(Watched(store, rounds), table, lambda: 1)
        rounds.timed("writer as a whole", lambda: list(writer.write(iter(outcomes), Report())))


def measure(file: Path, scratch: Path) -> dict[str, Any]:
    """All parts of the pipeline over the first chunks of a file."""
    source = open_source(str(file), scratch, sys.stdin.buffer)
    some = [chunk for chunk, _ in zip(chunks(source), range(CHUNKS), strict=False)]
    count, container = sum(chunk.count for chunk in some), container_of(some)
    redactor, rounds = Redactor(KEY), Rounds()
    worker = Worker(Setup(default_text(), redactor))
    outcomes = [worker.run(Task(chunk, SOURCE_KIND, "p", 1)) for chunk in some]
    for number in range(ROUNDS):
        rounds.timed("fastavro.reader", read_all, container)
        for chunk in some:
            stages(chunk, worker.classifier, redactor, rounds)
            outcome = rounds.timed("worker as a whole", worker.run, Task(chunk, SOURCE_KIND, "p", 1))
            rounds.timed("hand over", lambda of: pickle.loads(pickle.dumps(of)), outcome)  # noqa: S301 -- our own
        write(outcomes, scratch / f"store-{number}", rounds)
        rounds.close()
    core = "compiled" if classifier.decide.__file__.endswith(".so") else "interpreted"
    return {"core": core, "events": count, **{name: 1e6 * cost / count for name, cost in rounds.least.items()}}


def main() -> None:
    """Measure the file named on the command line."""
    gc.disable()  # as in the workers
    with tempfile.TemporaryDirectory(prefix="offramp-bench-") as scratch:
        print(json.dumps(measure(Path(sys.argv[1]), Path(scratch))))


if __name__ == "__main__":
    main()
