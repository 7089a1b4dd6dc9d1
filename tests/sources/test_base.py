import gzip
import io
import zipfile

import pytest
import zstandard

from schemas.errors import ErrorCode, MessageError
from sources.base import (
    Document,
    Node,
    Options,
    action_key,
    cost_micros,
    digest,
    each,
    imported,
    iso_time,
    legacy_exit,
    open_document,
    parse,
    parse_lines,
    response,
    stable_id,
    terminal_event,
    unix_time,
    zip_members,
)
from sources.registry import adapter, adapters, recognised

TEXT = b'{"a": 1}'


def event(**blocks):
    return terminal_event(
        Document("folder/a.json", b"", Options(tenant="t")),
        source="s",
        identity=("1",),
        run_id="r",
        agent_id="a",
        occurred_at=blocks.pop("occurred_at", "2026-01-01T00:00:00Z"),
        **blocks,
    )


def code_of(call, *arguments):
    with pytest.raises(MessageError) as caught:
        call(*arguments)
    return caught.value.code


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_compression_is_recognised_by_content(pack):
    assert open_document("a.json", pack(TEXT), Options()).data == TEXT


def test_concatenated_members_are_read_through():
    assert open_document("a", gzip.compress(TEXT) + gzip.compress(TEXT), Options()).data == TEXT * 2
    assert open_document("a", zstandard.compress(TEXT) + zstandard.compress(TEXT), Options()).data == TEXT * 2


def test_compressed_name_loses_its_ending():
    assert open_document("a.jsonl.gz", gzip.compress(TEXT), Options()).name == "a.jsonl"


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_every_truncation_of_a_compressed_file_is_one_error(pack):
    packed = pack(TEXT * 50)
    for length in range(4, len(packed)):
        assert code_of(open_document, "a", packed[:length], Options()) == ErrorCode.BAD_FRAMING


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_bomb_is_too_large(pack):
    assert code_of(open_document, "a", pack(b"x" * 10_000), Options(), 9_999) == ErrorCode.TOO_LARGE
    assert len(open_document("a", pack(b"x" * 10_000), Options(), 10_000).data) == 10_000


def zipped(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def test_zip_members_come_in_name_order():
    assert list(zip_members(zipped({"b": b"2", "a": b"1"}))) == [("a", b"1"), ("b", b"2")]


def test_zip_limit_covers_all_members_together():
    found = dict(zip_members(zipped({"a": b"x" * 60, "b": b"x" * 60}), 100))
    assert found["a"] == b"x" * 60
    assert found["b"].code == ErrorCode.TOO_LARGE


def test_damaged_zip_member_costs_only_itself():
    packed = bytearray(zipped({"a": b"first" * 9, "b": b"second" * 9}))
    packed[packed.index(b"\x1f\x8b") if b"\x1f\x8b" in packed else 33] ^= 0xFF
    found = dict(zip_members(bytes(packed)))
    assert isinstance(found["a"], MessageError)
    assert found["b"] == b"second" * 9


def test_no_zip_is_an_error():
    with pytest.raises(MessageError):
        list(zip_members(b"PK\x03\x04 but no more"))


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[" * 100_000, b'{"a": "\\ud800"}', b'"\xff"', b"1" * 5_000, b'{"a": 1} {"b": 2}'],
)
def test_bad_json_is_one_error(text):
    assert code_of(parse, text) == ErrorCode.BAD_JSON


def test_bad_line_costs_only_itself():
    first, second, third = parse_lines(b'{"a": 1}\n\nnonsense\r\n{"a": 2}\r\n')
    assert (first.whole("a"), second.path, third.whole("a"), third.path) == (1, "line 3", 2, "line 4")


def test_node_reads_absent_and_null_alike():
    for node in (Node({}), Node({"a": None})):
        found = [node.text("a"), node.whole("a"), node.number("a"), node.flag("a")]
        assert (found, node.child("a").value, node.children("a")) == ([None] * 4, {}, [])


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (Node.text, 1),
        (Node.whole, "1"),
        (Node.whole, True),
        (Node.whole, 1.5),
        (Node.number, "1"),
        (Node.flag, 0),
        (Node.child, []),
        (Node.children, {}),
    ],
)
def test_wrong_type_is_an_error_at_its_place(read, value):
    with pytest.raises(MessageError) as caught:
        read(Node({"x": [{"a": value}]}).children("x")[0], "a")
    assert (caught.value.code, caught.value.path) == (ErrorCode.BAD_TYPE, "x[0].a")


def test_numbers_that_are_none_read_as_absent():
    assert Node({"a": float("nan")}).number("a") is None
    assert Node({"a": float("inf")}).whole("a") is None


def test_numbers_beyond_64_bits_are_out_of_range():
    assert code_of(Node({"a": 2**63}).whole, "a") == ErrorCode.OUT_OF_RANGE
    assert code_of(cost_micros, 1e308) == ErrorCode.OUT_OF_RANGE


def test_empty_text_is_missing_where_it_is_needed():
    assert code_of(Node({"a": ""}).need_text, "a") == ErrorCode.MISSING_FIELD


def test_each_keeps_what_was_read_before_an_error():
    def read(node):
        yield imported(event())
        node.fail("no")

    kinds = [type(item) for item in each([MessageError(ErrorCode.BAD_JSON, "x"), Node({})], read)]
    assert [kind.__name__ for kind in kinds] == ["MessageError", "Imported", "MessageError"]


def test_times():
    assert iso_time("2026-01-01T12:00:00+02:00") == "2026-01-01T10:00:00.000000Z"
    assert iso_time("2026-01-01T12:00:00") == "2026-01-01T12:00:00.000000Z"
    assert iso_time("2026-01-01T12:00:00", "", -7 * 3600) == "2026-01-01T19:00:00.000000Z"
    assert iso_time("20260807T003421Z") == "2026-08-07T00:34:21.000000Z"
    assert unix_time(1.5) == "1970-01-01T00:00:01.500000Z"


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00", "0001-01-01T00:00:00+14:00"])
def test_bad_time_is_one_error(text):
    assert code_of(iso_time, text) == ErrorCode.BAD_TIME
    assert code_of(unix_time, 1e300) == ErrorCode.BAD_TIME


def test_identity_depends_on_the_parts_alone():
    assert stable_id("a", "b") == stable_id("a", "b") != stable_id("ab", "")
    assert action_key("t", {"a": 1, "b": 2}) == action_key("t", {"b": 2, "a": 1}) != action_key("t", {"a": 1})


def test_long_response_is_cut_and_its_digest_is_of_the_whole():
    cut = response("x" * 3000)
    assert (len(cut["response"]), cut["response_digest"]) == (2000, digest("x" * 3000))
    assert response(None) == {}


def test_absent_is_left_out_and_an_empty_block_stays():
    record = imported(event(model=None, takeover={}, tool_calls=[], request={"goal": None})).record
    assert "model" not in record
    assert "tool_calls" not in record
    assert (record["takeover"], record["request"]) == ({}, {})


def test_missing_time_is_the_option_and_says_so():
    record = imported(event(occurred_at=None)).record
    assert record["occurred_at"] == "1970-01-01T00:00:00Z"
    assert record["extensions"] == {
        "import.source": "s",
        "import.file": "a.json",
        "import.occurred_at": "absent",
    }


def test_record_that_breaks_the_contract_is_one_error_with_its_place():
    with pytest.raises(MessageError) as caught:
        imported(event(tool_calls=[{"attempt": "1"}]))
    assert (caught.value.code, caught.value.path) == (ErrorCode.BAD_TYPE, "tool_calls[0].attempt")


def test_legacy_exit_names_its_event():
    source = event()
    record = imported(legacy_exit(source, dispatcher="d", label="l")).record
    assert (record["event_id"], record["tenant"], record["label"]) == (source["event_id"], "t", "l")


def test_adapters_are_found_by_listing_and_have_what_docs_need():
    names = [each.name for each in adapters()]
    assert {"activegraph", "tau2", "tau-bench", "whissle"} <= set(names)
    assert names == sorted(set(names))
    assert all(each.title and each.cannot_tell for each in adapters())
    assert adapter("tau2").name == "tau2"
    assert adapter("no such source") is None


def test_nothing_recognises_an_empty_file():
    assert recognised(Document("", b"")) == ()
