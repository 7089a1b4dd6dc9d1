"""The shells of recordings: VCR, nock, JSON, event streams; and YAML that means harm."""

import base64
import gzip
import json
from typing import Any

import pytest

from schemas.errors import ErrorCode, MessageError
from sources.base import Document
from sources.recordings import exchanges, instant, is_model_url, read_yaml
from sources.turns import Exchange

URL = "https://api.openai.com/v1/chat/completions"


def only(data: bytes | dict[str, Any] | list[Any]) -> Exchange:
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    (found,) = exchanges(Document("file", text))
    assert isinstance(found, Exchange)
    return found


def test_python_vcr_with_a_compressed_body() -> None:
    body = base64.b64encode(gzip.compress(b'{"id": "r"}')).decode()
    text = f"""
interactions:
- request: {{uri: "{URL}", body: '{{"model": "m"}}'}}
  response:
    body: {{string: !!binary "{body}"}}
    headers: {{Date: ["Wed, 02 Sep 2026 10:00:00 GMT"]}}
    status: {{code: 200, message: OK}}
version: 1
"""
    found = only(text.encode())
    assert (found.status, found.request.value, found.body.value) == (200, {"model": "m"}, {"id": "r"})
    assert instant(found) == "2026-09-02T10:00:00.000000Z"
    assert found.place == "interactions[0]"


def test_ruby_vcr() -> None:
    text = f"""---
http_interactions:
- request: {{method: post, uri: "{URL}", body: {{encoding: UTF-8, string: '{{"model":"m"}}'}}}}
  response: {{status: {{code: 401}}, headers: {{}}, body: {{encoding: UTF-8, string: '{{"error":{{}}}}'}}}}
  recorded_at: Wed, 02 Sep 2026 12:00:00 +0200
recorded_with: VCR 6
"""
    found = only(text.encode())
    assert (found.status, found.request.value, found.body.value) == (401, {"model": "m"}, {"error": {}})
    assert instant(found) == "2026-09-02T10:00:00.000000Z"


def test_nock() -> None:
    raw = ["Date", "Wed, 02 Sep 2026 10:00:00 GMT", "X-Amzn-ErrorType", "ThrottlingException"]
    item = {"scope": "https://bedrock-runtime.a.b:443", "path": "/model/m/converse", "body": {"messages": []}}
    found = only([item | {"status": 429, "response": {"message": "x"}, "rawHeaders": raw}])
    assert (found.status, found.url) == (429, "https://bedrock-runtime.a.b:443/model/m/converse")
    assert found.headers["x-amzn-errortype"] == "ThrottlingException"


def test_a_request_and_its_response_in_one_file() -> None:
    found = only({"request": {"model": "m"}, "response": {"choices": []}})
    assert (found.request.value, found.body.value) == ({"model": "m"}, {"choices": []})


def test_a_status_with_a_body_as_text() -> None:
    found = only({"status": 200, "headers": {"Content-Type": "application/json"}, "body": '{"id":"r"}'})
    assert (found.status, found.body.value) == (200, {"id": "r"})


@pytest.mark.parametrize(
    "text",
    [
        'event: a\ndata: {"type": "ping"}\n\ndata: {"type": "message_stop"}\n\ndata: [DONE]\n\n',
        ': comment\r\n\r\ndata: {"type": "ping"}\r\n\r\ndata: {"type": "message_stop"}\r\n\r\n',
        '{"type": "ping"}\n{"type": "message_stop"}\n',
        '[{"type": "ping"}, {"type": "message_stop"}]',
    ],
)
def test_streams_become_one_exchange(text: str) -> None:
    assert only(text.encode()).body.value == [{"type": "ping"}, {"type": "message_stop"}]


@pytest.mark.parametrize(
    "text",
    [
        'data: {"type": "ping"}\n\ndata: {"type": "me\n\ndata: {"type": "message_stop"}\n\n',
        '{"type": "ping"}\n{"type": "me\n{"type": "message_stop"}\n',
    ],
)
def test_what_follows_a_damaged_event_proves_no_end(text: str) -> None:
    assert only(text.encode()).body.value == [{"type": "ping"}]


def test_a_body_that_is_no_json_is_kept_as_text() -> None:
    found = only({"status": 502, "headers": {}, "body": "<html>bad gateway</html>"})
    assert (found.body.value, found.text) == (None, "<html>bad gateway</html>")


def test_a_body_in_another_compression_is_an_error() -> None:
    body = base64.b64encode(b"\x8b\xff\x00\x80 brotli").decode()
    item = {"request": {"uri": URL}, "response": {"status": {"code": 200}, "body": {"base64_string": body}}}
    (found,) = exchanges(Document("file", json.dumps({"interactions": [item]}).encode()))
    assert isinstance(found, MessageError)
    assert (found.code, found.path) == (ErrorCode.BAD_FRAMING, "interactions[0].response.body")


@pytest.mark.parametrize("date", ["scrubbed", "", "Mon, 99 Foo 2026", "0001-01-01T00:00:00+23:59"])
def test_a_scrubbed_date_is_absent(date: str) -> None:
    assert instant(only({"status": 200, "headers": {"date": date}, "body": "{}"})) is None


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (URL, True),
        (URL + "?api-version=1", True),
        ("https://api.anthropic.com/v1/messages?beta=true", True),
        ("https://api.openai.com/v1/responses/resp_1?stream=false", True),
        ("https://g.example/v1beta/models/m:streamGenerateContent?alt=sse", True),
        ("https://bedrock-runtime.a.b/model/m/invoke", True),
        ("https://api.anthropic.com/v1/messages/count_tokens", False),
        ("https://api.openai.com/v1/embeddings", False),
        ("https://api.openai.com/v1/threads/t/messages", False),
        ("https://oauth.example/token", False),
        ("http://[", False),
    ],
)
def test_calls_to_a_model_are_told_by_their_path(url: str, *, expected: bool) -> None:
    assert is_model_url(url) is expected


# --- YAML ---------------------------------------------------------------------------------------------------------


def code_of(text: str) -> ErrorCode:
    with pytest.raises(MessageError) as caught:
        read_yaml(text.encode())
    return caught.value.code


def test_aliases_may_repeat_a_little() -> None:
    assert read_yaml(b"a: &x [1, 2]\nb: *x\n") == {"a": [1, 2], "b": [1, 2]}


def test_aliases_that_expand_without_bound_are_refused_before_anything_is_built() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert code_of("\n".join(levels)) == ErrorCode.TOO_LARGE


def test_an_alias_inside_of_itself_is_refused() -> None:
    assert code_of("a: &x [*x]") == ErrorCode.TOO_LARGE


@pytest.mark.parametrize(
    "text", ["a: [", "a: !!python/object:os.system {}", "a: !ruby/object:Set {}", "a: \x01", "[" * 9999]
)
def test_what_is_no_plain_data_is_refused(text: str) -> None:
    assert code_of(text) == ErrorCode.BAD_FRAMING


def test_merge_keys_and_times_stay_what_they_are() -> None:
    assert read_yaml(b"a: 2026-01-02T03:04:05Z\n<<: 1\n") == {"a": "2026-01-02T03:04:05Z", "<<": 1}
