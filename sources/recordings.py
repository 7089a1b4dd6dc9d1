"""The shells in which provider responses are recorded: VCR (Python, Ruby), nock, plain JSON, JSON Lines, event streams.

A document becomes exchanges; calls to anything but a language model (telemetry, tokens, embeddings) are passed over.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

import yaml

from schemas.errors import ErrorCode, MessageError
from schemas.types import to_iso, to_micros
from sources.base import Document, Node, Options, iso_time, open_document, parse, parse_lines
from sources.turns import Exchange, Headers, elements, keys, split_url, value, word

MAX_YAML_BYTES = 64 * 1024 * 1024
MAX_YAML_NODES = 1_000_000
MAX_BODY_BYTES = 64 * 1024 * 1024

_MODEL_PATH = re.compile(
    r"/(chat/completions|completions|messages|complete|responses(/[^/]+)?|v\d+/chat|api/chat|interactions"
    r"|converse(-stream)?|invoke(-with-response-stream)?)$|:(streamG|g)enerateContent$"
)
_EVENT_STREAM = re.compile(r"\s*(data|event|id|retry)?:")
_EVENT_TYPES = re.compile(r"(message_|content_block_|response\.|ping$)")
_YAML_START = re.compile(rb"(---\s*)?(#[^\n]*\n\s*)*(version|http_interactions|interactions)\s*:")


def looks_recorded(head: bytes) -> bool:
    """Tell from the first bytes whether this may be a recording in YAML or an event stream."""
    return bool(_YAML_START.match(head.lstrip())) or bool(re.match(rb"\s*(data|event):", head))


def exchanges(document: Document) -> Iterator[Exchange | MessageError]:
    """Yield the model calls of a document in their order; a damaged one is an error in its place.

    Raises MessageError if the document as a whole cannot be read.
    """
    start = document.data.lstrip()[:1]
    if _YAML_START.match(document.data.lstrip()):
        yield from _of_value(Node(read_yaml(document.data)))
    elif _EVENT_STREAM.match(_text(document.data[:64].lstrip(), "ignore")):
        yield _bare(Node(_events(_text(document.data))))
    elif start in (b"{", b"["):
        yield from _of_json(document.data)
    else:
        raise MessageError(ErrorCode.BAD_FRAMING, "neither JSON, nor an event stream, nor a YAML recording")


def _text(data: bytes, errors: str = "replace") -> str:
    return data.decode("utf-8", errors)


def _of_json(data: bytes) -> Iterator[Exchange | MessageError]:
    try:
        whole = Node(parse(data))
    except MessageError as error:
        lines = list(parse_lines(data))
        if len(lines) < 2 or isinstance(lines[0], MessageError):
            raise error from None
    else:
        yield from _of_value(whole)
        return
    if _is_event(lines[0]):
        yield _bare(Node(_until_damage(lines)))
        return
    for line in lines:
        yield from [line] if isinstance(line, MessageError) else _of_value(line)


def _until_damage(lines: list[Node | MessageError]) -> list[Any]:
    """Return the events before the first damaged line: what comes after a gap proves no end."""
    events = []
    for line in lines:
        if isinstance(line, MessageError):
            break
        events.append(line.value)
    return events


def _of_value(whole: Node) -> Iterator[Exchange | MessageError]:
    read: Callable[[Node], Exchange | None] = _http
    if "interactions" in keys(whole) or "http_interactions" in keys(whole):
        items = whole.children("interactions" if "interactions" in keys(whole) else "http_interactions")
    elif isinstance(whole.value, list):
        items = whole.items()
        if items and _is_event(items[0]):
            items = [whole]
    else:
        items = [whole]
    for item in items:
        try:
            found = read(item)
        except MessageError as error:
            yield error
        else:
            if found is not None:
                yield found


def _is_event(node: Node) -> bool:
    """Tell whether a value is one event of a stream rather than a whole response."""
    first = next(iter(elements(value(node, "candidates")) or elements(value(node, "choices"))), None)
    streamed = word(node, "object").endswith(".chunk") or "event_type" in keys(node)
    open_choice = isinstance(first, dict) and not (first.get("finishReason") or first.get("finish_reason"))
    bedrock = any(key.startswith(("contentBlock", "messageSt")) for key in keys(node))
    return (
        streamed
        or bedrock
        or bool(_EVENT_TYPES.match(word(node, "type")))
        or ("message" not in (first or {}) and open_choice)
    )


# --- one exchange -------------------------------------------------------------------------------------------------


def _bare(body: Node, request: Node | None = None) -> Exchange:
    return Exchange(body.path, "", request or Node({}, body.path), None, {}, body)


def _http(item: Node) -> Exchange | None:
    """Read one recorded call in whichever shell; None if it is no call to a language model."""
    found = keys(item)
    if not isinstance(item.value, dict | list):
        item.fail("expected an object")
    if "request" in found and "response" in found:
        return _recorded(item)
    if {"status", "response"} <= found and "path" in found:
        return _nock(item)
    if "body" in found and ("status" in found or "status_code" in found):
        return _answered(item.path, "", Node({}, item.path), item, None)
    return _bare(item)


def _recorded(item: Node) -> Exchange | None:
    request, response = item.at("request"), item.at("response")
    url = request.text("uri") or request.text("url") if isinstance(request.value, dict) else None
    if url and not is_model_url(url):
        return None
    shell = keys(response)
    if not shell & {"body", "parsed_body", "content"} or not shell & {"status", "status_code"}:
        return _bare(response, request)
    return _answered(item.path, url or "", _request(request), response, item.text("recorded_at"))


def _nock(item: Node) -> Exchange | None:
    url = (item.text("scope") or "") + (item.text("path") or "")
    if not is_model_url(url):
        return None
    request = item.at("body") if isinstance(item.at("body").value, dict) else Node({}, item.path)
    raw = [
        str(part).lower() if index % 2 == 0 else part for index, part in enumerate(elements(value(item, "rawHeaders")))
    ]
    headers = {name: given for name, given in zip(raw[::2], raw[1::2], strict=False) if isinstance(given, str)}
    body, text = _body(item.at("response"))
    return Exchange(item.path, url, request, _status(item), headers, body, text)


def _answered(place: str, url: str, request: Node, response: Node, recorded_at: str | None) -> Exchange:
    held = next(response.at(key) for key in ("parsed_body", "content", "body") if key in keys(response))
    body, text = _body(held)
    moment = _http_date(recorded_at)
    return Exchange(place, url, request, _status(response), _headers(response), body, text, moment)


def is_model_url(url: str) -> bool:
    """Tell whether a URL is that of a call to a language model."""
    path = split_url(url).path
    return "/threads/" not in path and bool(_MODEL_PATH.search(path))


def _status(response: Node) -> int | None:
    status = response.at("status")
    if isinstance(status.value, dict):
        return status.whole("code")
    return response.whole("status") if status.value is not None else response.whole("status_code")


def _headers(response: Node) -> Headers:
    """Return the headers by lower-case name; of several values the first."""
    flat = {}
    for name, given in response.child("headers").fields().items():
        first = given[0] if isinstance(given, list) and given else given
        flat[name.lower()] = first if isinstance(first, str) else ""
    return flat


def _request(request: Node) -> Node:
    held = next(
        (request.at(key) for key in ("parsed_body", "content", "body") if value(request, key) is not None), None
    )
    body = _body(held)[0] if held else Node(None)
    return body if isinstance(body.value, dict) else Node({}, request.path)


def _body(held: Node) -> tuple[Node, str | None]:
    """Return a body as JSON, or as text where it is none."""
    if isinstance(held.value, dict) and keys(held) <= {"string", "encoding", "base64_string"}:
        held = held.at("string") if "string" in keys(held) else held
    if isinstance(held.value, dict) and "base64_string" in keys(held):
        return _decoded(_unpacked(held), held.path)
    return _decoded(held.value, held.path) if isinstance(held.value, str) else (held, None)


def _unpacked(held: Node) -> str:
    try:
        raw = base64.b64decode(held.text("base64_string") or "")
        return open_document(held.path, raw, Options(), MAX_BODY_BYTES).data.decode()
    except (binascii.Error, UnicodeDecodeError):
        held.fail("the body is neither text nor gzip; other compressions cannot be read", ErrorCode.BAD_FRAMING)


def _decoded(text: str, path: str) -> tuple[Node, str | None]:
    if _EVENT_STREAM.match(text):
        return Node(_events(text), path), None
    try:
        return Node(parse(text.encode("utf-8", "surrogatepass"), path), path), None
    except MessageError:
        return Node(None, path), text


def _events(text: str) -> list[Any]:
    """Return the data of server-sent events up to the first damaged one: what comes after a gap proves no end."""
    events: list[Any] = []
    for block in re.split(r"\r?\n\r?\n", text):
        data = "\n".join(line[5:].strip() for line in block.splitlines() if line.startswith("data:"))
        if data and data != "[DONE]":
            try:
                events.append(parse(data.encode("utf-8", "surrogatepass")))
            except MessageError:
                break
    return events


def _http_date(text: str | None) -> str | None:
    """Convert a header's date, or ISO 8601, to ISO 8601 in UTC; a scrubbed one reads as absent."""
    if not text:
        return None
    try:
        moment = parsedate_to_datetime(text)
        return to_iso(to_micros(moment if moment.tzinfo else moment.replace(tzinfo=UTC)))
    except (ValueError, OverflowError):
        pass
    try:
        return iso_time(text)
    except MessageError:
        return None


def instant(exchange: Exchange) -> str | None:
    """Return when the response was given, as the transport says it: its Date header, else when it was recorded."""
    return _http_date(exchange.headers.get("date")) or exchange.recorded_at


# --- YAML ---------------------------------------------------------------------------------------------------------


class _Loader(yaml.CSafeLoader):
    """Plain data only: no merge keys, and times stay text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the name and the shape are PyYAML's
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":timestamp", ":merge"))]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }


def read_yaml(data: bytes) -> Any:
    """Read YAML to JSON data; bytes become ``{"base64_string": …}``.

    Raises MessageError: TOO_LARGE for a document that is, or that aliases would expand beyond a million nodes,
    BAD_FRAMING for what is no YAML of plain data.
    """
    if len(data) > MAX_YAML_BYTES:
        raise MessageError(ErrorCode.TOO_LARGE, f"the YAML file is larger than {MAX_YAML_BYTES} bytes")
    try:
        _check_expansion(data)
        loaded = yaml.load(data, Loader=_Loader)  # noqa: S506 - a SafeLoader
        return parse(json.dumps(loaded, default=_scalar).encode())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}" if mark else ""
        raise MessageError(ErrorCode.BAD_FRAMING, "the YAML cannot be read as plain data", place) from None
    except (RecursionError, ValueError, TypeError) as error:
        if isinstance(error, MessageError):
            raise
        raise MessageError(ErrorCode.BAD_FRAMING, "the YAML cannot be read as plain data") from None


def _check_expansion(data: bytes) -> None:
    """Count the nodes with every alias expanded, before anything is built."""
    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = []
    total = 0
    for event in yaml.parse(data, Loader=yaml.CSafeLoader):
        anchor = getattr(event, "anchor", None)
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((anchor, total))
            total += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            name, before = open_nodes.pop()
            sizes |= {name: total - before} if name else {}
        elif isinstance(event, yaml.AliasEvent):
            # An alias inside of its own anchor has no size yet and would never end.
            total += sizes.get(event.anchor or "", MAX_YAML_NODES)
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
            sizes |= {anchor: 1} if anchor else {}
        if total > MAX_YAML_NODES:
            raise MessageError(ErrorCode.TOO_LARGE, f"the YAML expands to more than {MAX_YAML_NODES} nodes")


def _scalar(given: Any) -> Any:
    if isinstance(given, bytes):
        return {"base64_string": base64.b64encode(given).decode()}
    raise TypeError
