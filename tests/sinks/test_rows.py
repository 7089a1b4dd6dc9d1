import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.rows import (
    SCHEMAS,
    encode_classifications,
    encode_events,
    encode_keys,
    encode_ledger,
    filter_rows,
    join_rows,
    read_rows,
    slice_rows,
)
from tests.sinks.samples import NOW, classification, classification_row, event, event_row, ledger_row


def offsets(stream):
    return [row["offset"] for row in read_rows(stream)]


@given(st.lists(st.booleans(), max_size=20))
def test_filtering_keeps_the_flagged_rows_in_order(keep):
    stream = encode_ledger([ledger_row(offset) for offset in range(len(keep))])
    assert offsets(filter_rows(stream, keep)) == [offset for offset, kept in enumerate(keep) if kept]


def test_filtering_wants_one_flag_a_row():
    with pytest.raises(ValueError, match="2 flags for 1 rows"):
        filter_rows(encode_ledger([ledger_row(0)]), [True, False])


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4))
def test_joining_keeps_all_rows_in_order(lengths):
    rows = iter(range(sum(lengths)))
    streams = [encode_ledger([ledger_row(next(rows)) for _ in range(length)]) for length in lengths]
    assert offsets(join_rows(streams)) == list(range(sum(lengths)))


def test_slicing():
    stream = encode_ledger([ledger_row(offset) for offset in range(5)])
    assert offsets(slice_rows(stream, 1, 3)) == [1, 2, 3]
    assert len(slice_rows(stream, 0, 1)) < len(stream)


@pytest.mark.parametrize("encode", [encode_events, encode_classifications, encode_ledger, encode_keys])
def test_no_rows_are_a_stream_of_no_rows(encode):
    assert read_rows(encode([])) == []


def test_instants_are_utc_in_the_stream_and_microseconds_outside():
    stream = encode_events([event_row(event("e"))])
    assert pa.ipc.open_stream(stream).schema.field("occurred_at").type == pa.timestamp("us", tz="UTC")
    (row,) = read_rows(stream)
    assert (row["occurred_at"], row["ingested_at"]) == (NOW, NOW)


def test_every_instant_column_of_every_table_is_utc():
    times = {field.type for schema in SCHEMAS.values() for field in schema if pa.types.is_timestamp(field.type)}
    assert times == {pa.timestamp("us", tz="UTC")}


def test_lists_of_different_lengths_stay_with_their_rows():
    verdicts = [
        classification(event("a"), facts=[], obligations=[]),
        classification(event("b"), facts=["x", "y"]),
        classification(event("c"), facts=["z"], obligations=[{"action": "reconcile", "operation_id": "op-9"}]),
    ]
    rows = read_rows(encode_classifications([classification_row(event(v["event_id"]), v) for v in verdicts]))
    assert [row["facts"] for row in rows] == [verdict["facts"] for verdict in verdicts]
    assert [row["obligations"] for row in rows] == [verdict["obligations"] for verdict in verdicts]
