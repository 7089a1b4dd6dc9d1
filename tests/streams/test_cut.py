import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import ErrorCode, MessageError
from streams.cut import Failure, Limits, cut_array, cut_lines, cut_texts

LIMITS = Limits(message_bytes=200, kept_bytes=10)
CUTTERS = [cut_lines, cut_texts, cut_array]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)
json_like = st.text(alphabet='{}[]",:\\ \n\r1a', max_size=60).map(str.encode)


def pieces(data, sizes):
    """``data`` in pieces of the given sizes, over and over."""
    start, turn = 0, 0
    while start < len(data):
        yield data[start : start + sizes[turn % len(sizes)]]
        start, turn = start + sizes[turn % len(sizes)], turn + 1


def whole(cutter, data, limits=LIMITS):
    return [simple(item) for item in cutter(iter([data] if data else []), limits)]


def simple(item):
    """A text as it is, a failure without its identity."""
    return (str(item.error), item.raw, item.size, item.line) if isinstance(item, Failure) else item


def damaged(data):
    yield data
    raise MessageError(ErrorCode.BAD_FRAMING, "damaged")


@pytest.mark.parametrize("cutter", CUTTERS)
@given(data=json_like, sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_where_the_pieces_end_changes_nothing(cutter, data, sizes):
    if cutter is cut_array:
        data = b"[" + data
    assert [simple(item) for item in cutter(pieces(data, sizes), LIMITS)] == whole(cutter, data)


@pytest.mark.parametrize("cutter", CUTTERS)
@given(size=st.integers(150, 450), step=st.integers(1, 60))
def test_nor_does_it_for_records_around_the_limit(cutter, size, step):
    record = json.dumps({"a": "\\" * (size // 2), "b": ["}"]}).encode()
    data = {cut_lines: b"{}\n%s\n{}", cut_texts: b"{\n}%s\n{}", cut_array: b"[{},%s\n,{}]"}[cutter] % record
    cuts = [simple(item) for item in cutter(pieces(data, [step]), LIMITS)]
    assert cuts == whole(cutter, data)
    assert len(cuts) == 3
    # An element of an array is measured with the space around it.
    assert (len(cuts[1]) == 4) == (len(record) + (cutter is cut_array) > LIMITS.message_bytes)


@given(st.lists(json_values, max_size=6), st.sampled_from([None, 0, 1, 3]), st.booleans())
def test_elements_of_any_array(values, indent, ascii_only):
    data = json.dumps(values, indent=indent, ensure_ascii=ascii_only).encode()
    assert [json.loads(body) for _, body in whole(cut_array, data, Limits())] == values


@given(
    st.lists(json_values.filter(lambda value: isinstance(value, (dict, list))), max_size=6), st.sampled_from([None, 2])
)
def test_any_texts_one_after_another(values, indent):
    data = b"\n".join(json.dumps(value, indent=indent).encode() for value in values)
    assert [json.loads(body) for _, body in whole(cut_texts, data, Limits())] == values


@given(st.lists(st.text(alphabet='ab {}"\t\r', max_size=8), max_size=8), st.sampled_from(["\n", "\r\n"]))
def test_lines_carry_their_number(lines, ending):
    data = ending.join(lines).encode()
    cuts = whole(cut_lines, data)
    assert [(number, body.strip()) for number, body in cuts] == [
        (number, line.strip().encode()) for number, line in enumerate(lines, 1) if line.strip()
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("[\n{},\n\n{}\n]", [2, 4]),
        ("\n[{},{},\n{}]", [2, 2, 3]),
        ("[{}\n,\n{}]", [1, 3]),
        ('[{"a":\n1},{}]', [1, 2]),
    ],
)
def test_elements_carry_the_line_they_start_on(text, lines):
    assert [line for line, _ in whole(cut_array, text.encode())] == lines


def test_texts_carry_the_line_they_start_on():
    assert [line for line, _ in whole(cut_texts, b'{\n"a": 1\n}\n\n{\n} {\n}')] == [1, 5, 6]


@pytest.mark.parametrize(
    ("text", "bodies"),
    [
        ("[{},{}}{},{}]", ["{}", "{}}{}", "{}"]),
        ("[{} {},{}]", ["{} {}", "{}"]),
        ("[{},,{}]", ["{}", "", "{}"]),
        ("[{},]", ["{}", ""]),
        ("[{]},{}]", ["{]}", "{}"]),
        ('["]",{"a":"\\"]"},1]', ['"]"', '{"a":"\\"]"}', "1"]),
        ("[]", []),
        ("[ \n ]\n", []),
    ],
)
def test_a_broken_element_costs_itself(text, bodies):
    assert [body.decode() for _, body in whole(cut_array, text.encode())] == bodies


@pytest.mark.parametrize("rest", ["x", "{}", "]", ",", "[]", '"'])
def test_text_behind_the_end_of_an_array_is_one_failure(rest):
    (_, first), failure = whole(cut_array, f"[{{}}]\n{rest}".encode())
    assert first == b"{}"
    assert "behind the end" in failure[0]


def test_an_array_cut_anywhere_gives_the_elements_before_and_one_failure():
    elements = [b'{"a": [1, {"b": "]}"}]}', b'{"c": "\\\\"}', b"{}"]
    data = b"[" + b", ".join(elements) + b"]"
    ends = [data.index(element) + len(element) for element in elements]
    for cut in range(1, len(data)):
        *good, failure = whole(cut_array, data[:cut])
        assert [body for _, body in good] == elements[: sum(end <= cut for end in ends)]
        assert "not closed" in failure[0]


@pytest.mark.parametrize("cutter", CUTTERS)
def test_a_damage_comes_last_with_what_it_cut(cutter):
    data = {cut_lines: b'{}\n{"a"', cut_texts: b'{}{"a"', cut_array: b'[{},{"a"'}[cutter]
    (_, first), failure = (simple(item) for item in cutter(damaged(data), LIMITS))
    assert first == b"{}"
    assert failure == ("damaged", b'{"a"', 4, 2 if cutter is cut_lines else 1)


@pytest.mark.parametrize("cutter", CUTTERS)
def test_a_record_over_the_limit_is_counted_and_not_kept(cutter):
    start = {cut_lines: b"{}\n", cut_texts: b"{}", cut_array: b"[{},"}[cutter]
    end = {cut_lines: b"\n{}", cut_texts: b"{}", cut_array: b",{}]"}[cutter]
    record = b'{"a": "' + b"x" * 1000 + b'"}'
    (_, first), failure, (_, last) = whole(cutter, start + record + end)
    assert (first, last) == (b"{}", b"{}")
    assert failure[1:3] == (record[:10], len(record))


def test_deep_brackets_and_open_quotes_take_linear_time():
    for text in (b"[" * 10**5, b'["' * 10**5, b"[" + b"{" * 10**5, b"[" + b"[]" * 10**5, b'[{"a":"' + b"\\" * 10**5):
        assert len(whole(cut_array, text, Limits())) == 1
