import gzip
import hashlib
import io
import json
import os
import pickle
import random
import threading
import tracemalloc

import fastavro
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from schemas.avro import avro_schema
from schemas.errors import ErrorCode
from schemas.events import TerminalEvent
from schemas.json_form import parse_json, to_json
from streams import files
from streams.cut import Limits
from streams.files import chunks, decode_chunk, open_source
from tests.strategies import random_event

EVENTS = [parse_json(to_json(random_event(random.Random(seed)), TerminalEvent)) for seed in range(20)]
LINES = [to_json(event, TerminalEvent) for event in EVENTS]
SMALL = Limits(message_bytes=20_000, kept_bytes=50)


def container(events=EVENTS, codec="deflate"):
    out = io.BytesIO()
    fastavro.writer(out, avro_schema(TerminalEvent), events, codec=codec, sync_interval=3000)
    return out.getvalue()


FORMS = {
    "lines": b"\n".join(LINES),
    "array": b"[" + b",\n".join(LINES) + b"]\n",
    "texts": b"\n".join(json.dumps(json.loads(line), indent=2).encode() for line in LINES),
    "container": container(),
}
COMPRESSIONS = {"none": bytes, "gzip": gzip.compress, "zstd": zstandard.compress}


@pytest.fixture
def opened(tmp_path):
    def opened_from(data, name="events"):
        path = tmp_path / name
        path.write_bytes(data)
        return open_source(str(path), tmp_path, io.BytesIO())

    return opened_from


@pytest.fixture
def read(opened):
    def read_from(data, limits=files.Limits()):  # noqa: B008 - frozen
        return read_source(opened(data), limits)

    return read_from


def read_source(source, limits):
    """All records, after checking that every position is covered once and in order."""
    decoded, position, consumed = [], 0, 0
    for chunk in chunks(source, limits):
        assert chunk.first == position
        assert consumed <= chunk.consumed <= source.size
        part = decode_chunk(pickle.loads(pickle.dumps(chunk)), limits)  # noqa: S301 - our own bytes
        for item in part:
            assert item.position == position
            position += item.span
        assert position == chunk.first + chunk.count
        consumed = chunk.consumed
        decoded += part
    return decoded


def records(decoded):
    return [item.record for item in decoded if item.error is None]


def errors(decoded):
    return [item for item in decoded if item.error is not None]


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("form", FORMS)
def test_content_alone_says_what_a_file_is(opened, form, compression):
    source = opened(COMPRESSIONS[compression](FORMS[form]), name="misleading.txt")
    assert (source.form, source.compression) == (form, compression)
    decoded = read_source(source, Limits())
    assert [item.record for item in decoded] == EVENTS
    assert [item.position for item in decoded] == list(range(len(EVENTS)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("limits", [Limits(chunk_records=1), Limits(chunk_records=7), Limits(chunk_bytes=1)])
def test_the_size_of_chunks_changes_nothing(read, form, limits):
    assert read(FORMS[form], limits) == read(FORMS[form])


def test_chunks_are_of_the_size_asked_for(opened):
    source = opened(FORMS["lines"])
    assert [chunk.count for chunk in chunks(source, Limits(chunk_records=8))] == [8, 8, 4]
    assert [chunk.count for chunk in chunks(source, Limits(chunk_bytes=1))] == [1] * 20
    assert [chunk.consumed for chunk in chunks(source)] == [source.size]


@pytest.mark.parametrize("size", [64, 1000])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_where_the_disk_cuts_changes_nothing(read, monkeypatch, form, compression, size):
    monkeypatch.setattr("streams.pieces.PIECE_BYTES", size)
    assert [item.record for item in read(COMPRESSIONS[compression](FORMS[form]))] == EVENTS


def test_identity_is_that_of_the_stored_bytes(opened):
    plain, packed = FORMS["lines"], gzip.compress(FORMS["lines"], mtime=0)
    one, same, other = opened(plain, "a"), opened(plain, "b"), opened(packed, "c")
    assert one.partition == hashlib.sha256(plain).hexdigest()[:32]
    assert (one.partition, one.size) == (same.partition, same.size)
    assert (other.partition, other.size) == (hashlib.sha256(packed).hexdigest()[:32], len(packed))


def test_standard_input_is_spooled_and_has_the_identity_of_the_file(opened, tmp_path):
    spool = tmp_path / "spool"
    spool.mkdir()
    source = open_source("-", spool, io.BytesIO(FORMS["array"]))
    assert source.path.parent == spool
    assert source.partition == opened(FORMS["array"]).partition
    assert records(read_source(source, Limits())) == EVENTS
    assert records(read_source(source, Limits())) == EVENTS


def test_a_pipe_by_name_is_spooled(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(FORMS["lines"],))
    writer.start()
    source = open_source(str(pipe), tmp_path, io.BytesIO())
    writer.join()
    assert source.name == str(pipe)
    assert records(read_source(source, Limits())) == EVENTS


def test_what_is_appended_later_is_not_read(opened):
    source = opened(FORMS["lines"] + b"\n")
    with source.path.open("ab") as more:
        more.write(LINES[0])
    assert records(read_source(source, Limits())) == EVENTS


@pytest.mark.parametrize("location", ["missing", "."])
def test_what_cannot_be_read_is_an_outage(tmp_path, location):
    with pytest.raises(OSError, match=r"missing|directory"):
        open_source(str(tmp_path / location), tmp_path, io.BytesIO())


@pytest.mark.parametrize("data", [b"", b"\n \r\n\n", b"\xef\xbb\xbf", b"[]", b" [\n]\n"])
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_file_without_records(read, data, compression):
    assert read(COMPRESSIONS[compression](data)) == []


def test_a_container_without_records(read):
    assert read(container([])) == []


@pytest.mark.parametrize("form", ["lines", "array", "texts"])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_byte_order_mark_line_endings_and_blank_lines(read, form, ending):
    text = FORMS[form].replace(b"\n", ending + ending)
    assert records(read(b"\xef\xbb\xbf" + text + ending)) == EVENTS


def test_lines_are_numbered_from_one_and_blank_ones_count(read):
    decoded = read(b"\n" + LINES[0] + b"\n\n\n" + LINES[1] + b"\n")
    assert [(item.position, item.line) for item in decoded] == [(0, 2), (1, 5)]


@pytest.mark.parametrize("bad", [b"{", b"not json", b'{"type": "terminal_event"}', b"\xff\xfe", b"{}" * 3])
def test_a_bad_line_costs_itself(read, bad):
    decoded = read(b"\n".join([LINES[0], bad, LINES[1]]))
    assert records(decoded) == EVENTS[:2]
    (error,) = errors(decoded)
    assert (error.position, error.line, error.raw, error.size) == (1, 2, bad, len(bad))


@pytest.mark.parametrize("bad", [b"1", b"", b"{]}", b'{"a" 1}', LINES[2] + LINES[3]])
def test_a_bad_element_costs_itself(read, bad):
    decoded = read(b"[" + b",".join([LINES[0], bad, LINES[1]]) + b"]")
    assert records(decoded) == EVENTS[:2]
    assert [(error.position, error.raw) for error in errors(decoded)] == [(1, bad)]


@pytest.mark.parametrize("form", ["lines", "array", "texts"])
def test_a_record_over_the_limit_costs_itself(read, form):
    record = b'{\n"a": "' + b"x" * 30_000 + b'"}' if form != "lines" else b'{"a": "' + b"x" * 30_000 + b'"}'
    joint, around = {"lines": (b"\n", b"%s"), "array": (b",", b"[%s]"), "texts": (b"\n", b"{\n}%s")}[form]
    decoded = read(around % joint.join([LINES[0], record, LINES[1]]), SMALL)
    assert records(decoded) == EVENTS[:2]
    error = errors(decoded)[-1]
    assert error.error.code is ErrorCode.TOO_LARGE
    # A text carries the line end before it.
    before = b"\n" if form == "texts" else b""
    assert (error.raw, error.size) == ((before + record)[:50], len(before + record))


def test_one_pretty_printed_event(read):
    (item,) = read(json.dumps(json.loads(LINES[0]), indent=4).encode())
    assert (item.record, item.line) == (EVENTS[0], 1)


@pytest.mark.parametrize(
    "data",
    [
        b"PK\x03\x04" + bytes(50),
        '{"type": 1}'.encode("utf-16"),
        '{"type": 1}'.encode("utf-16-le"),
        b"\xc3\x01" + bytes(50),
    ],
)
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_what_is_no_text_is_one_error(read, data, compression):
    (item,) = read(COMPRESSIONS[compression](data))
    assert (item.error.code, item.raw, item.span) == (ErrorCode.BAD_FRAMING, data, 1)


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_members_one_after_another_are_read_through(read, compression):
    pack = COMPRESSIONS[compression]
    data = b"".join(pack(line + b"\n") for line in LINES) + pack(b"")
    assert records(read(data)) == EVENTS


def test_zeros_behind_gzip_are_padding_and_other_bytes_are_damage(read):
    data = gzip.compress(LINES[0] + b"\n")
    assert records(read(data + bytes(5000))) == EVENTS[:1]
    good, bad = read(data + b"garbage")
    assert good.record == EVENTS[0]
    assert bad.error.code is ErrorCode.BAD_FRAMING


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_a_compressed_file_cut_anywhere_gives_the_records_before_and_one_error(read, compression):
    data = COMPRESSIONS[compression](FORMS["lines"])
    magic = 4 if compression == "zstd" else 2
    counts = []
    for cut in range(magic, len(data), 1 if len(data) < 3000 else 7):
        *good, bad = read(data[:cut])
        assert [item.record for item in good] == EVENTS[: len(good)]
        assert bad.error.code is ErrorCode.BAD_FRAMING
        counts.append(len(good))
    assert counts == sorted(counts)


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_a_flipped_byte_in_a_compressed_file_raises_nothing(read, compression):
    data = COMPRESSIONS[compression](b"\n".join(LINES[:2]))
    for place in range(0, len(data), 5):
        read(data[:place] + bytes([data[place] ^ 0x41]) + data[place + 1 :])


def test_a_container_cut_anywhere_gives_whole_blocks_and_one_error(read):
    data = container(codec="null")
    start = data.index(EVENTS[0]["event_id"].encode()) - 30
    counts = []
    for cut in [*range(4, 40), *range(start, len(data), 11)]:
        decoded = read(data[:cut])
        assert records(decoded) == EVENTS[: len(records(decoded))]
        assert len(errors(decoded)) <= 1
        counts.append(len(records(decoded)))
    assert counts == sorted(counts)
    assert len(set(counts)) == 3


def test_a_damaged_container_says_where_and_keeps_what_follows(read):
    data = container()
    (*good, bad) = read(data + b"\x04\x10\x00\x00", SMALL)
    assert [item.record for item in good] == EVENTS
    assert (bad.position, bad.raw) == (len(EVENTS), b"\x04\x10\x00\x00")
    assert bad.error.code is ErrorCode.BAD_AVRO


def test_positions_behind_a_lost_block_are_those_of_the_whole_file(read):
    data = bytearray(container(codec="null"))
    place = data.index(EVENTS[1]["event_id"].encode())
    data[place - 1] = 1  # a length of -1
    decoded = read(bytes(data))
    (lost,) = errors(decoded)
    assert (lost.position, lost.size) == (1, len(lost.raw))
    assert lost.span > 1
    behind = lost.position + lost.span
    assert [item.record for item in decoded if item.position >= behind] == EVENTS[behind:]


def test_chunks_pickle_small(opened):
    for chunk in chunks(opened(FORMS["lines"])):
        assert len(pickle.dumps(chunk)) < len(FORMS["lines"]) * 1.1


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
@pytest.mark.parametrize("start", [b"", b"[", b"{\n"])
def test_a_bomb_takes_bounded_memory_and_costs_itself(opened, pack, start):
    source = opened(pack(start + b'"' + b"x" * (100 << 20)))
    tracemalloc.start()
    decoded = read_source(source, SMALL)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(decoded) == 1
    assert decoded[0].size >= 100 << 20
    assert len(decoded[0].raw) <= 50
    assert peak < 32 << 20


@given(st.lists(st.sampled_from([*LINES[:3], b"", b"  ", b"{", b"[1]", b"nul\x00l"]), max_size=8), st.integers(1, 4))
def test_any_mix_of_lines_is_accounted_for(tmp_path_factory, lines, chunk_records):
    lines = [b"x", *lines]  # so that the first line says lines
    path = tmp_path_factory.mktemp("mix") / "f"
    path.write_bytes(b"\n".join(lines))
    decoded = read_source(open_source(str(path), path.parent, io.BytesIO()), Limits(chunk_records=chunk_records))
    expected = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    assert [item.line for item in decoded] == [number for number, _ in expected]
    for item, (_, line) in zip(decoded, expected, strict=True):
        assert item.raw == line if item.error else item.record == EVENTS[LINES.index(line)]
