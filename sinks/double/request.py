"""What a client sent, taken apart as a server does: statement, rows, settings, parameters, tables that came along."""

import gzip
import importlib
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

import zstandard

# What the server takes for itself; anything else in the address is a setting. Source: ClickHouse, HTTP interface.
_OWN = frozenset(
    {"query", "database", "default_format", "session_id", "session_timeout", "session_check", "query_id", "quota_key",
     "user", "password", "role", "compress", "decompress", "buffer_size", "wait_end_of_query", "stacktrace",
     "client_protocol_version", "send_progress_in_http_headers", "http_headers_progress_interval_ms",
     "enable_http_compression", "http_zlib_compression_level", "cancel_http_readonly_queries_on_client_close"}
)  # fmt: skip
_EXTERNAL = re.compile(r"(\w+)_(format|structure|types)")
_COMMENTS = re.compile(rb"\A(?:\s+|--[^\n]*\n|/\*.*?\*/)*", re.DOTALL)
_INSERT_FORMAT = re.compile(rb"\A\s*INSERT\b.*\bFORMAT\s+(\w+)\Z", re.IGNORECASE | re.DOTALL)
_INSERT_HEAD = re.compile(rb"(\s*INSERT\b[^;]*?\bFORMAT\s+(?!VALUES)\w+)[ \t]*\r?\n", re.IGNORECASE)
_BOUNDARY = re.compile(r'boundary="?([^";]+)')
_NAME = re.compile(rb'[; ]name="([^"]*)"')
_STATEMENT_LIMIT = 4096


@dataclass(frozen=True)
class External:
    """A table that came along with a statement: its rows in ``fmt``."""

    name: str
    structure: str
    fmt: str
    data: bytes


@dataclass(frozen=True)
class Request:
    """One statement, and the rows of an insert that names their format."""

    sql: bytes
    data: bytes = b""
    database: str | None = None
    default_format: str = "TabSeparated"
    session: str | None = None
    query_id: str | None = None
    compress_answer: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    external: tuple[External, ...] = ()

    @property
    def statement(self) -> str:
        """The start of the statement as text, without comments before it, for telling what it is."""
        start = _COMMENTS.match(self.sql)
        return self.sql[start.end() if start else 0 :][:_STATEMENT_LIMIT].decode(errors="replace")

    @property
    def data_format(self) -> str | None:
        """Format of the rows that come with an insert; None for any other statement."""
        found = _INSERT_FORMAT.search(self.sql)
        return found[1].decode() if found else None


def parse(address: str, headers: Mapping[str, str], body: bytes) -> Request:
    """Take a request apart. ``headers`` by lower-case name. Raises ValueError for what is not understood."""
    given = dict(parse_qsl(address.partition("?")[2], keep_blank_values=True))
    body = _decoded(body, headers.get("content-encoding", ""))
    external: tuple[External, ...] = ()
    kind = headers.get("content-type", "")
    if kind.startswith("multipart/form-data"):
        fields = _form(kind, body)
        given |= {name: data.decode() for name, (is_file, data) in fields.items() if not is_file}
        external = tuple(_external(name, data, given) for name, (is_file, data) in fields.items() if is_file)
        body = b""
    tables = {table.name for table in external}
    sql, data = _split(given.get("query", "").encode(), body)
    return Request(
        sql=sql,
        data=data,
        database=given.get("database") or headers.get("x-clickhouse-database"),
        default_format=given.get("default_format") or headers.get("x-clickhouse-format") or "TabSeparated",
        session=given.get("session_id"),
        query_id=given.get("query_id"),
        compress_answer=given.get("enable_http_compression") in {"1", "true"},
        settings={name: value for name, value in given.items() if _is_setting(name, tables)},
        parameters={name.removeprefix("param_"): value for name, value in given.items() if name.startswith("param_")},
        external=external,
    )


def _split(query: bytes, body: bytes) -> tuple[bytes, bytes]:
    """Statement and rows. The server reads the address and the body as one text; the rows begin behind a format."""
    if _INSERT_FORMAT.search(query.rstrip()):
        return query.rstrip(), body
    found = _INSERT_HEAD.match(body)
    if not query and found:
        return found[1], body[found.end() :]
    return query + b"\n" + body if query and body else query or body, b""


def _is_setting(name: str, tables: set[str]) -> bool:
    of_table = _EXTERNAL.fullmatch(name)
    return not (name in _OWN or name.startswith("param_") or (of_table and of_table[1] in tables))


def _external(name: str, data: bytes, given: Mapping[str, str]) -> External:
    structure = given.get(f"{name}_structure")
    if structure is None:
        structure = ", ".join(f"_{n} {kind}" for n, kind in enumerate(given.get(f"{name}_types", "").split(","), 1))
    return External(name, structure, given.get(f"{name}_format", "TabSeparated"), data)


def _form(kind: str, body: bytes) -> dict[str, tuple[bool, bytes]]:
    """Fields of a form by name: whether it is a file, and its bytes."""
    boundary = _BOUNDARY.search(kind)
    if boundary is None:
        raise ValueError("a form has no boundary")
    _, *parts = (b"\r\n" + body).split(b"\r\n--" + boundary[1].encode())
    found: dict[str, tuple[bool, bytes]] = {}
    for part in parts[:-1]:  # behind the last boundary there is nothing
        head, _, data = part.partition(b"\r\n\r\n")
        name = _NAME.search(head)
        if name is None:
            raise ValueError("a part of the form has no name")
        found[name[1].decode()] = (b'filename="' in head, data)
    return found


def _decoded(body: bytes, encoding: str) -> bytes:
    if encoding in {"", "identity"}:
        return body
    if encoding not in _DECODERS:
        raise ValueError(f"Content-Encoding {encoding} is not understood; there are {', '.join(sorted(_DECODERS))}")
    return _DECODERS[encoding](body)


def _lz4(body: bytes) -> bytes:
    # clickhouse-connect brings it, and nobody else needs it.
    data: bytes = importlib.import_module("lz4.frame").decompress(body)
    return data


_DECODERS: Mapping[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.decompress,
    "deflate": zlib.decompress,
    "zstd": lambda body: zstandard.ZstdDecompressor().decompressobj().decompress(body),
    "lz4": _lz4,
}
