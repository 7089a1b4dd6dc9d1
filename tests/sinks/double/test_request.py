import gzip
import zlib
from urllib.parse import urlencode

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from sinks.double.request import External, parse

INSERT = b"INSERT INTO t (a, b) FORMAT ArrowStream"


def asked(body=b"", headers=None, **address):
    return parse(f"/?{urlencode(address)}", headers or {}, body)


@given(st.binary(max_size=200))
def test_rows_of_an_insert_are_told_from_its_statement_wherever_that_stands(data):
    behind = asked(INSERT + b"\n" + data)
    apart = asked(data, query=INSERT.decode())
    for request in (behind, apart):
        assert (request.sql, request.data, request.data_format) == (INSERT, data, "ArrowStream")


@pytest.mark.parametrize("sql", [
    b"INSERT INTO t VALUES (1, 'FORMAT x')", b"INSERT INTO t SELECT 1", b"SELECT 1\n FORMAT Native",
    b"INSERT INTO t FORMAT Values\n(1)",
])  # fmt: skip
def test_any_other_statement_is_whole(sql):
    request = asked(sql)
    assert (request.sql, request.data, request.data_format) == (sql, b"", None)


def test_a_statement_goes_on_in_the_body():
    assert asked(b"FROM t", query="SELECT 1").sql == b"SELECT 1\nFROM t"


def test_settings_are_what_the_server_does_not_take_for_itself():
    request = asked(b"SELECT 1", database="d", query_id="q", session_id="s", session_timezone="UTC", param_x="1",
                    enable_http_compression="1", max_threads="2", default_format="CSV")  # fmt: skip
    assert request.settings == {"session_timezone": "UTC", "max_threads": "2"}
    assert request.parameters == {"x": "1"}
    assert (request.database, request.query_id, request.session) == ("d", "q", "s")
    assert (request.compress_answer, request.default_format) == (True, "CSV")


@pytest.mark.parametrize(("encoding", "encode"), [
    ("gzip", gzip.compress), ("deflate", zlib.compress), ("lz4", lz4.frame.compress),
    ("zstd", zstandard.ZstdCompressor().compress), ("identity", bytes),
])  # fmt: skip
def test_a_compressed_body_is_what_it_was(encoding, encode):
    assert asked(encode(b"SELECT 1"), {"content-encoding": encoding}).sql == b"SELECT 1"


def test_an_unknown_encoding_is_an_error():
    with pytest.raises(ValueError, match="rot13 is not understood; there are deflate, gzip"):
        asked(b"", {"content-encoding": "rot13"})


def form(*fields):
    parts = [
        f'--b\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'.encode() + data + b"\r\n"
        for name, file, data in fields
    ]
    return b"".join(parts) + b"--b--\r\n"


@given(st.binary(max_size=200).filter(lambda data: b"--b" not in data))
def test_tables_come_along_as_they_are(data):
    body = form(("query", "", b"SELECT * FROM probe"), ("probe", '; filename="probe"', data))
    headers = {"content-type": "multipart/form-data; boundary=b"}
    request = asked(body, headers, probe_format="ArrowStream", probe_structure="a String", max_threads="1")
    assert request.sql == b"SELECT * FROM probe"
    assert request.external == (External("probe", "a String", "ArrowStream", data),)
    assert request.settings == {"max_threads": "1"}


def test_a_table_may_name_types_alone():
    headers = {"content-type": "multipart/form-data; boundary=b"}
    request = asked(form(("_data", '; filename="x"', b"1\t2")), headers, query="SELECT 1", _data_types="Int8,String")
    assert request.external[0].structure == "_1 Int8, _2 String"


@pytest.mark.parametrize(("kind", "body", "wrong"), [
    ("multipart/form-data", b"", "no boundary"),
    ("multipart/form-data; boundary=b", b"--b\r\nX: y\r\n\r\nz\r\n--b--", "no name"),
])  # fmt: skip
def test_a_form_that_is_none_is_an_error(kind, body, wrong):
    with pytest.raises(ValueError, match=wrong):
        asked(body, {"content-type": kind})


def test_a_statement_is_told_without_the_comments_before_it():
    assert asked(b"-- why\n/* and\nhow */ SELECT 1").statement == "SELECT 1"
