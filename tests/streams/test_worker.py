"""What happens to a chunk before the store is asked."""

import io
import json
import pickle

import fastavro
import pytest

from classifier.table import default_text
from schemas.avro import avro_schema
from schemas.companions import COMPANIONS
from schemas.contract import INCOMING
from schemas.exits import Classification
from schemas.redaction import Redactor
from sinks.rows import read_rows
from streams.cut import Limits
from streams.files import SOURCE_KIND, chunks, open_source
from streams.worker import Setup, Task, Worker
from tests.cases import load_cases
from tests.schemas.samples import minimal

NOW = 1_764_489_600_123_456
EVENTS = [case.json for case in load_cases()]
REDACTOR = Redactor(b"a key of the tests, long enough")
SECRET = "hun" + "ter2" + "!"


@pytest.fixture
def outcomes(tmp_path):
    """Outcomes of a file: its bytes, or records as JSON Lines."""

    def run(content, *, redactor=REDACTOR, limits=None, **wanted):
        limits = limits or Limits()
        path = tmp_path / "input"
        text = (
            content if isinstance(content, bytes) else b"".join(json.dumps(line).encode() + b"\n" for line in content)
        )
        path.write_bytes(text)
        source = open_source(str(path), tmp_path, io.BytesIO())
        worker = Worker(Setup(default_text(), redactor, limits=limits, **wanted))
        return [worker.run(Task(chunk, SOURCE_KIND, source.partition, NOW)) for chunk in chunks(source, limits)]

    return run


def container(records, kind, codec="null"):
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(avro_schema(INCOMING[kind])), records, codec=codec)
    return out.getvalue()


@pytest.mark.parametrize("size", [1, 3, 64, 65])
def test_the_size_of_chunks_changes_no_line_no_count_and_no_position(outcomes, size):
    lines = [*EVENTS, {"type": "nonsense"}, minimal("enrichment") | {"record_id": "x"}]
    (whole,) = outcomes(lines, lines=True)
    pieces = outcomes(lines, lines=True, limits=Limits(chunk_records=size))
    assert len(pieces) == -(-len(lines) // size)
    assert b"".join(piece.lines for piece in pieces) == whole.lines
    assert sum((piece.tally for piece in pieces), start=type(whole.tally)()) == whole.tally
    assert [row for piece in pieces for row in read_rows(piece.ledger)] == read_rows(whole.ledger)
    assert [row["offset"] for row in read_rows(whole.ledger)] == list(range(len(lines)))


def test_a_line_per_event_in_order_and_none_for_companions(outcomes):
    (outcome,) = outcomes([EVENTS[0], minimal("enrichment") | {"record_id": "x"}, EVENTS[1]], lines=True)
    found = [Classification.model_validate_json(line) for line in outcome.lines.splitlines()]
    assert [each.event_id for each in found] == [EVENTS[0]["event_id"], EVENTS[1]["event_id"]]


def test_nothing_is_made_that_was_not_wanted(outcomes):
    (outcome,) = outcomes(EVENTS[:3], rows=False)
    assert (outcome.rows, outcome.lines) == ({}, b"")
    assert sum(outcome.tally.values()) == 3


def test_rows_stand_in_the_order_of_their_entries(outcomes):
    companions = [minimal(kind) | {"record_id": f"{kind} {number}"} for number in range(2) for kind in COMPANIONS]
    mixed = [record for pair in zip(EVENTS, companions, strict=False) for record in pair]
    (outcome,) = outcomes(mixed)
    assert set(outcome.rows) == {"terminal_event", *COMPANIONS}
    for kind, tables in outcome.rows.items():
        ids = [row["event_id"] for row in read_rows(outcome.ledger) if row["record_type"] == kind]
        for stream in tables.values():
            rows = read_rows(stream)
            assert [row.get("record_id", row["event_id"]) for row in rows] == ids
        assert len(rows) == len(ids) > 0


def test_rows_carry_position_digest_and_the_tasks_instant(outcomes):
    (outcome,) = outcomes(EVENTS[:2])
    first, second = read_rows(outcome.rows["terminal_event"]["terminal_events"])
    assert [(row["offset"], row["ingested_at"]) for row in (first, second)] == [(0, NOW), (1, NOW)]
    ledger = read_rows(outcome.ledger)
    assert [row["content_digest"] for row in (first, second)] == [row["content_digest"] for row in ledger]
    verdicts = read_rows(outcome.rows["terminal_event"]["exit_classifications"])
    assert {row["classified_at"] for row in verdicts} == {NOW}
    assert [row["content_digest"] for row in verdicts] == [first["content_digest"], second["content_digest"]]


# --- what is no record


def test_a_bad_line_is_kept_whole_and_named(outcomes):
    good = json.dumps(EVENTS[0]).encode()
    (outcome,) = outcomes(b"\n".join([good, b'{"type": 1}', b"", b"\xff\xfe", good]), lines=True)
    assert [(letter.offset, letter.raw) for letter in outcome.dead_letters] == [(1, b'{"type": 1}'), (2, b"\xff\xfe")]
    errors = [json.loads(line)["error"] for line in outcome.lines.splitlines()[1:3]]
    assert [error["line"] for error in errors] == [2, 4]
    assert [error["reason_code"] for error in errors] == [letter.reason_code for letter in outcome.dead_letters]
    assert outcome.tally["error", "bad_json"] == 1
    assert {letter.recorded_at for letter in outcome.dead_letters} == {NOW}


def test_what_is_lost_of_a_block_is_one_letter_that_spans_it(outcomes):
    (outcome,) = outcomes(container([minimal("enrichment")] * 3, "enrichment").replace(b"c-1", b"\xff-1", 1))
    (row,) = read_rows(outcome.ledger)
    assert (row["record_type"], row["next_offset"] - row["offset"], outcome.messages) == ("", 3, 3)
    assert sum(outcome.tally.values()) == 3


@pytest.mark.parametrize("form", ["json", "avro", "avro deflate"])
def test_a_record_that_cannot_be_redacted_is_a_masked_letter(outcomes, form):
    record = minimal("enrichment") | {"record_id": f"password={SECRET}", "component": "kept"}
    text = json.dumps(record).encode()
    content = (
        text + b"\n" if form == "json" else container([record], "enrichment", "deflate" if "d" in form[4:] else "null")
    )
    (outcome,) = outcomes(content, lines=True)
    (letter,) = outcome.dead_letters
    assert (letter.reason_code, letter.field_path, letter.masked) == ("redaction_failed", "record_id", True)
    assert SECRET.encode() not in letter.raw + outcome.lines
    if form == "json":
        assert letter.raw == text.replace(SECRET.encode(), b"*" * len(SECRET))
    else:
        assert b'"component":"kept"' in letter.raw


def test_without_a_key_a_secret_refuses_its_message_alone(outcomes):
    lines = [EVENTS[0], EVENTS[1] | {"request": {"prose": f"password={SECRET}"}}, EVENTS[2]]
    (outcome,) = outcomes(lines, redactor=Redactor(None))
    assert [letter.offset for letter in outcome.dead_letters] == [1]
    assert SECRET.encode() not in outcome.dead_letters[0].raw


# --- redaction


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_a_value_is_redacted_for_its_key_in_a_container_too(outcomes, codec):
    # Between key and value stands a length, so that no search of the bytes can be relied on.
    records = [minimal("enrichment") | {"record_id": str(number), "extensions": {"password": SECRET * number}}
               for number in range(1, 30)]  # fmt: skip
    (outcome,) = outcomes(container(records, "enrichment", codec))
    (stream,) = outcome.rows["enrichment"].values()
    assert outcome.redacted == 29
    assert SECRET not in repr(read_rows(stream))


def test_equal_secrets_stay_equal_and_are_counted(outcomes):
    lines = [EVENTS[0] | {"event_id": str(n), "request": {"prose": f"password={SECRET}"}} for n in range(2)]
    (outcome,) = outcomes(lines)
    texts = [
        json.loads(row["event"])["request"]["prose"]
        for row in read_rows(outcome.rows["terminal_event"]["terminal_events"])
    ]
    assert texts[0] == texts[1] != f"password={SECRET}"
    assert outcome.redacted == 2


def test_the_digest_is_that_of_the_redacted_event(outcomes):
    lines = [EVENTS[0] | {"request": {"prose": f"password={SECRET}"}}]
    (outcome,) = outcomes(lines)
    (row,) = read_rows(outcome.rows["terminal_event"]["terminal_events"])
    (again,) = outcomes(json.dumps(json.loads(row["event"])).encode())
    assert [row["content_digest"] for row in read_rows(again.ledger)] == [row["content_digest"]]


def test_a_setup_can_be_sent_to_another_process():
    setup = Setup(default_text(), REDACTOR, lines=True)
    assert pickle.loads(pickle.dumps(setup)) == setup  # noqa: S301 -- our own bytes
