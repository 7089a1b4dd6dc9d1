"""Messages that no decent producer would send, and record batches cut and changed by hand."""

from contextlib import closing, suppress

import kafka
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import CorruptRecordError
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from streams.kafka.kafka_python.records import messages, varint
from streams.kafka.seam import TopicPartition
from tests.contract.labs import create, read, values


class NotText(str):
    """A header name that is sent as bytes that are no UTF-8."""

    __slots__ = ()

    def encode(self, *_):
        return b"\xff\xfe"


def test_a_header_that_is_no_text_costs_nobody_a_message(broker, connect, fresh):
    client, topic = connect(broker.bootstrap), fresh("hostile")
    create(client, topic)
    with closing(kafka.KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        for value, headers in ((b"before", []), (b"bad", [(NotText("x"), b"1")]), (b"after", [])):
            producer.send(topic, value, headers=headers).get(10)
    place = TopicPartition(topic, 0)
    with closing(client.reader([place])) as reader:
        reader.seek(place, 0)
        got = read(reader, 3)
    assert values(got) == [b"before", b"bad", b"after"]
    bad = [message.headers for found in got for message in found.messages][1]
    assert bad in {(), (("\\xff\\xfe", b"1"),)}


def batch_of(records, compression=0):
    builder = DefaultRecordBatchBuilder(2, compression, 0, -1, -1, -1, 1 << 20)
    for offset, (stamp, key, value, headers) in enumerate(records):
        builder.append(offset, stamp, key, value, headers)
    return bytes(builder.build())


nullable = st.none() | st.binary(max_size=200)
records = st.lists(
    st.tuples(
        st.integers(0, 2**41), nullable, nullable, st.lists(st.tuples(st.text(max_size=70), nullable), max_size=3)
    ),
    min_size=1,
    max_size=5,
)


@given(records, st.sampled_from([0, 1]))
def test_a_batch_reads_as_the_library_reads_it(records, compression):
    data = batch_of(records, compression)
    theirs = [(r.offset, r.timestamp * 1000, r.key, r.value, tuple(r.headers)) for r in DefaultRecordBatch(data)]
    ours = [message[2:] for message in messages("t", 0, DefaultRecordBatch(data))]
    assert ours == theirs
    assert [(key, value) for _, _, key, value, _ in ours] == [(key, value) for _, key, value, _ in records]


@given(records, st.data())
def test_a_damaged_batch_is_said_to_be_one_and_never_hangs(records, data):
    whole = bytearray(batch_of(records))
    position = data.draw(st.integers(61, len(whole) - 1))
    whole[position] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(position, len(whole)))
    with suppress(CorruptRecordError):
        assert len(list(messages("t", 0, DefaultRecordBatch(bytes(whole[:cut]))))) == len(records)


@pytest.mark.parametrize(
    ("data", "number"),
    [("00", 0), ("01", -1), ("02", 1), ("feffffff0f", 2**31 - 1), ("ffffffff0f", -(2**31)), ("80" * 9 + "01", 2**62)],
)
def test_numbers_of_any_length(data, number):
    assert varint(memoryview(bytes.fromhex(data)), 0) == (number, len(data) // 2)


def test_a_number_without_end_is_refused():
    with pytest.raises(CorruptRecordError):
        varint(memoryview(b"\x80" * 20), 0)
