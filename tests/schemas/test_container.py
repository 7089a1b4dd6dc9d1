import copy
import json
import random
import tracemalloc
import zlib
from io import BytesIO

import fastavro
import pyarrow as pa
import pytest
import zstandard

from schemas.avro import avro_schema
from schemas.companions import LegacyExit
from schemas.container import LARGE_BLOCK_BYTES, Block, Header, Lost, decode_block, read_blocks, read_header
from schemas.errors import ErrorCode, MessageError
from schemas.events import TerminalEvent
from tests.strategies import random_event

LIMIT = 1 << 20
SCHEMA = avro_schema(TerminalEvent)
EVENTS = [random_event(random.Random(seed)) for seed in range(12)]
CODECS = ["null", "deflate", "bzip2", "xz", "zstandard"]


def container(events=EVENTS, schema=SCHEMA, codec="null", sync_interval=16_000):
    out = BytesIO()
    fastavro.writer(out, schema, events, codec=codec, sync_interval=sync_interval)
    return out.getvalue()


def read(data, limit=LIMIT):
    """Records and errors, whether a record's, a block's or the file's."""
    source, outcomes = BytesIO(data), []
    try:
        header = read_header(source)
        for block in read_blocks(source, header, limit):
            outcomes.extend(decode_block(header, block, limit))
    except MessageError as error:
        outcomes.append(error)
    return outcomes


def parts(data):
    source = BytesIO(data)
    header = read_header(source)
    return header, list(read_blocks(source, header, 1 << 24))


def places(data, blocks):
    """Every byte, but of the long text of the schema some."""
    return [*range(20), *range(20, blocks[0].offset - 20, 997), *range(blocks[0].offset - 20, len(data))]


def body(event):
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), event)
    return out.getvalue()


def block_of(*bodies, records=None):
    return Block(len(bodies) if records is None else records, b"".join(bodies), 0)


def plain_header(codec="null"):
    return Header(json.dumps(SCHEMA).encode(), codec, bytes(16))


def decoded(block, codec="null", limit=LIMIT):
    return list(decode_block(plain_header(codec), block, limit))


def long(value):
    """Avro's variable-length zig-zag integer."""
    value, out = (value << 1) ^ (value >> 63), bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("sync_interval", [1, 2000, 10**6])
def test_every_codec_gives_the_canonical_dicts_that_were_written(codec, sync_interval):
    assert read(container(codec=codec, sync_interval=sync_interval)) == EVENTS


def test_snappy():
    plain = body(EVENTS[0])
    data = pa.Codec("snappy").compress(plain, asbytes=True) + zlib.crc32(plain).to_bytes(4, "big")
    assert decoded(Block(1, data, 0), "snappy") == [EVENTS[0]]
    damaged = data[:-1] + bytes([data[-1] ^ 1])
    assert decoded(Block(1, damaged, 0), "snappy")[0].error.code is ErrorCode.BAD_AVRO


def test_companions():
    record = LegacyExit(type="legacy_exit", version=1, record_id="r-1", tenant="acme").model_dump()
    assert read(container([record], avro_schema(LegacyExit))) == [record]


def test_instants_are_integers_although_the_schema_says_timestamp():
    assert {type(event["occurred_at"]) for event in read(container())} == {int}


def test_block_knows_where_it_starts():
    data = container(sync_interval=1)
    header, blocks = parts(data)
    for block in blocks:
        assert data[block.offset :].startswith(long(block.records) + long(len(block.data)) + block.data + header.sync)


def test_a_cut_anywhere_costs_only_what_is_behind_it():
    data = container(EVENTS[:4], sync_interval=1)
    _, blocks = parts(data)
    ends = [block.offset + len(long(1) + long(len(block.data))) + len(block.data) + 16 for block in blocks]
    for cut in places(data, blocks):
        whole = sum(end <= cut for end in ends)
        outcomes = read(data[:cut])
        assert outcomes[:whole] == EVENTS[:whole]
        at_boundary = cut in ends or cut == blocks[0].offset
        assert [type(outcome) for outcome in outcomes[whole:]] == [] if at_boundary else [MessageError]


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
def test_a_flipped_byte_anywhere_raises_nothing_and_spares_earlier_blocks(codec):
    data = container(EVENTS[:3], codec=codec, sync_interval=1)
    _, blocks = parts(data)
    for place in places(data, blocks):
        before = sum(block.offset <= place for block in blocks) - 1
        outcomes = read(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        if before > 0:
            assert outcomes[:before] == EVENTS[:before]


@pytest.mark.parametrize(
    ("count", "size", "code"),
    [
        (2**62, 10, ErrorCode.BAD_AVRO),
        (-1, 10, ErrorCode.BAD_AVRO),
        (1, 0, ErrorCode.BAD_AVRO),
        (1, -1, ErrorCode.BAD_AVRO),
        (1, 2**62, ErrorCode.TOO_LARGE),
        (1, LIMIT + 1, ErrorCode.TOO_LARGE),
        (1, LIMIT, ErrorCode.BAD_AVRO),
    ],
)
def test_an_absurd_block_is_one_error_with_its_position(count, size, code):
    data = container()
    *records, error = read(data + long(count) + long(size) + bytes(10))
    assert records == EVENTS
    assert error.code is code
    assert str(len(data) if size != LIMIT else len(data) + len(long(1) + long(LIMIT)) + 10) in error.message


def test_a_wrong_sync_marker_ends_the_file():
    data = container(sync_interval=1)
    _, blocks = parts(data)
    place = blocks[5].offset - 1
    *records, error = read(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    assert records == EVENTS[:4]
    assert error.code is ErrorCode.BAD_AVRO


def test_an_endless_number_is_an_error():
    assert read(container() + b"\xff" * 20)[-1].code is ErrorCode.BAD_AVRO


def test_empty_blocks_are_left_out():
    data = container()
    header, _ = parts(data)
    assert read(data + long(0) + long(0) + header.sync) == EVENTS


@pytest.mark.parametrize("records", [2, 3, 10**5])
def test_more_records_promised_than_there_are(records):
    *good, lost = decoded(block_of(body(EVENTS[0]), records=records))
    assert good == ([] if records == 10**5 else [EVENTS[0]])
    assert lost.records == records - len(good)
    assert lost.error.code is ErrorCode.BAD_AVRO


def test_left_over_bytes_refuse_the_last_record_and_keep_its_bytes():
    bodies = [body(event) for event in EVENTS[:3]]
    first, lost = decoded(block_of(*bodies, records=2))
    assert first == EVENTS[0]
    assert (lost.error.code, lost.raw, lost.records) == (ErrorCode.TRAILING_BYTES, bodies[1] + bodies[2], 1)


def test_an_undecodable_record_takes_the_rest_of_its_block_along():
    bodies = [body(event) for event in EVENTS[:4]]
    bodies[2] = b"\x01" * len(bodies[2])
    *good, lost = decoded(block_of(*bodies))
    assert good == EVENTS[:2]
    assert (lost.records, lost.raw) == (2, bodies[2] + bodies[3])
    assert "record 3" in lost.error.message
    assert "2 records" in lost.error.message


def test_an_invalid_record_costs_only_itself():
    bodies = [body(event) for event in (EVENTS[0], EVENTS[1] | {"event_id": ""}, EVENTS[2])]
    first, lost, third = decoded(block_of(*bodies))
    assert [first, third] == [EVENTS[0], EVENTS[2]]
    assert (lost.error.code, lost.error.path, lost.raw) == (ErrorCode.OUT_OF_RANGE, "event_id", bodies[1])


def with_children(count, items):
    """An event that ends with a list of ``count`` children by its own account, followed by ``items``."""
    required = ("type", "version", "event_id", "run_id", "tenant", "agent_id", "occurred_at")
    bare = body(TerminalEvent.model_validate({name: EVENTS[0][name] for name in required}).model_dump())
    assert bare.endswith(bytes(2))  # no children, no extensions
    return bare[:-2] + long(count) + items


def test_a_list_longer_than_the_block_ends_with_the_block():
    (lost,) = decoded(block_of(with_children(10**12, bytes(1000))))
    assert lost.error.code is ErrorCode.BAD_AVRO


@pytest.mark.parametrize("count", [20_000, 2_000_000])
def test_a_list_of_many_tiny_items_is_refused_in_bounded_memory(count):
    hostile = with_children(count, bytes(2 * count + 2))
    tracemalloc.start()
    (lost,) = decoded(block_of(hostile), limit=1 << 24)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert lost.error.code is ErrorCode.TOO_LARGE
    assert peak < 64 << 20


def test_a_large_block_is_read_like_a_small_one():
    events = [event | {"workflow": "x" * 100_000} for event in EVENTS]
    _, (block,) = parts(container(events, sync_interval=10**7))
    assert len(block.data) > LARGE_BLOCK_BYTES
    assert decoded(block, limit=1 << 24) == events


@pytest.mark.parametrize(
    ("codec", "bomb"),
    [
        ("deflate", zlib.compress(bytes(64 << 20))[2:]),
        ("zstandard", zstandard.compress(bytes(64 << 20))),
        ("snappy", b"\xff\xff\xff\xff\x0f" + bytes(8)),
    ],
)
def test_a_bomb_is_too_large(codec, bomb):
    (lost,) = decoded(Block(1000, bomb, 0), codec)
    assert (lost.error.code, lost.records, lost.raw) == (ErrorCode.TOO_LARGE, 1000, bomb)


@pytest.mark.parametrize("codec", CODECS)
def test_the_limit_is_on_the_decompressed_block(codec):
    header, (block,) = parts(container(codec=codec, sync_interval=10**6))
    size = sum(len(body(event)) for event in EVENTS)
    assert list(decode_block(header, block, size)) == EVENTS
    (lost,) = decode_block(header, block, size - 1)
    assert lost.records == len(EVENTS)
    assert lost.error.code is ErrorCode.TOO_LARGE


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_cut_or_empty_compressed_block_is_one_error(codec):
    header, (block,) = parts(container(codec=codec, sync_interval=10**6))
    for cut in (0, 1, len(block.data) // 2):
        (lost,) = decode_block(header, block._replace(data=block.data[:cut]), LIMIT)
        assert (lost.error.code, lost.records) == (ErrorCode.BAD_AVRO, len(EVENTS))


def test_an_unknown_codec_is_said_at_once():
    outcomes = read(container().replace(b"\x08null", b"\x08nuls"))
    assert [error.code for error in outcomes] == [ErrorCode.BAD_AVRO]
    assert "zstandard" in outcomes[0].message


def test_another_record_is_said_at_once():
    schema = {"type": "record", "name": "Other", "fields": [{"name": "x", "type": "long"}]}
    (error,) = read(container([{"x": 1}], schema))
    assert isinstance(error, MessageError)


def test_an_older_writers_record_is_brought_to_the_contract():
    schema = copy.deepcopy(SCHEMA)
    schema["fields"] = [field for field in schema["fields"] if field["name"] != "children"]
    schema["fields"].append({"name": "vendor", "type": "string"})
    (event,) = read(container([EVENTS[0] | {"vendor": "x"}], schema))
    assert event["children"] == []
    assert event["extensions"] == EVENTS[0]["extensions"] | {"vendor": '"x"'}


@pytest.mark.parametrize("length", [-1, 2**40, 2**62])
def test_an_absurd_header_is_one_error(length):
    for data in (b"Obj\x01" + long(1) + long(length), b"Obj\x01" + long(length) + long(4) + b"abcd" + long(length)):
        (error,) = read(data + bytes(100))
        assert error.code in (ErrorCode.BAD_AVRO, ErrorCode.INCOMPATIBLE_SCHEMA)


def test_lost_says_how_many():
    (lost,) = decoded(Block(3, b"\xff\xff\xff", 77))
    assert isinstance(lost, Lost)
    assert (lost.records, lost.raw) == (3, b"\xff\xff\xff")
    assert "byte 77" in lost.error.message
