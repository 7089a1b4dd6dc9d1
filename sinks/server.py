"""A ClickHouse server as the store: the same statements, sent over HTTP.

Nothing of a session is kept on the server: every request carries its settings, a lookup carries its keys, so that
requests may run side by side and a balancer may send each to another replica. The client repeats no insert by itself;
whoever inserts decides that.
"""

import hashlib
import io
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import clickhouse_connect
from clickhouse_connect.driver.external import ExternalData
from clickhouse_connect.driver.httpclient import HttpClient

from sinks.engine import ANSWERS, KEYS, SESSION, Engine, connecting, inserting, mapped_errors, running
from sinks.errors import StoreRejected
from sinks.migrations import SERVER, Layout
from sinks.store import Store

_PORTS = {"http": 8123, "https": 8443}
_WRITING: dict[str, Any] = {
    **SESSION,
    # A batch is an insert of its own. Answered when it is stored, never when it is only noted, whatever the server's
    # defaults are: those of a newer server let an insert wait in memory.
    "async_insert": 0,
    "wait_for_async_insert": 1,
    # Into a Distributed table: answered when the shards have it.
    "distributed_foreground_insert": 1,
    # A table of a cluster within a subquery: what it finds is sent to the shards.
    "distributed_product_mode": "global",
    "enable_http_compression": 1,
}
# With replicas: an insert is answered when most of them have it, so that losing one server loses no evidence.
_REPLICATED: dict[str, Any] = {"insert_quorum": "auto"}
READING: Mapping[str, Any] = {
    **SESSION,
    **ANSWERS,
    "distributed_product_mode": "global",
    "enable_http_compression": 1,
    "readonly": 1,
}
"""What a question of people runs under. A user that is read-only by itself must have the same from its profile."""


@dataclass(frozen=True)
class User:
    """Who asks. The password is never shown."""

    name: str
    password: str = field(default="", repr=False)


@dataclass(frozen=True)
class Tls:
    """How an ``https`` server is trusted. Absent files: the system's authorities, no certificate of ours.

    ``server_host_name`` is the name that the server's certificate bears, where it is not the host of the address.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    verify: bool = True
    server_host_name: str | None = None


@dataclass(frozen=True)
class Server:
    """A server, who writes to it, and who reads what people ask.

    ``url`` is ``http://host:port`` or ``https://host:port``, without user and password. ``reader`` is a user that the
    server itself keeps from writing; None: the writer's, under ``readonly = 1`` by our request. Times are seconds.
    """

    url: str
    writer: User = User("default")
    reader: User | None = None
    database: str = "default"
    tls: Tls = Tls()
    connect_timeout_s: int = 10
    timeout_s: int = 300
    compression: bool = True
    layout: Layout = SERVER


@contextmanager
def open_server(server: Server, now: Callable[[], int]) -> Iterator[Store]:
    """The store in ``server`` while the context lasts; any number of processes at once. ``now`` gives microseconds.

    Call :meth:`Store.migrate` before anything else. Raises StoreUnavailable if nobody answers, StoreForbidden if the
    server does not let us in, StoreRejected for an address that is none.
    """
    engine = connect(server)
    try:
        yield Store(engine, now, server.layout)
    finally:
        engine.close()


def connect(server: Server) -> "ServerEngine":
    """Both handles on ``server``. Raises as :func:`open_server` does."""
    # What it would log, with a traceback, is in the error that it raises, and whoever catches that decides.
    logging.getLogger("clickhouse_connect").setLevel(logging.ERROR)
    writer = _client(server, server.writer, _WRITING | (_REPLICATED if server.layout.replicated else {}))
    try:
        return ServerEngine(writer, _client(server, server.reader or server.writer, READING))
    except BaseException:
        writer.close()
        raise


class ServerEngine(Engine):
    """The engine of a server."""

    def __init__(self, writer: HttpClient, reader: HttpClient) -> None:
        self._writer, self._reader = writer, reader

    def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        """By the writing handle."""
        with running():
            self._writer.command(sql, parameters=dict(parameters or {}))

    def insert(self, table: str, columns: list[str], stream: bytes) -> None:
        """With a token that is the same for every attempt, see :func:`deduplication_token`."""
        settings = {"insert_deduplication_token": deduplication_token(table, stream)}
        with inserting(table):
            self._writer.raw_insert(
                table,
                column_names=columns,
                # As a file, because the client sends bytes once more by itself where a connection broke.
                insert_block=io.BytesIO(stream),
                settings=settings,
                fmt="ArrowStream",
                transport_settings={"Content-Length": str(len(stream))},
            )

    def fetch(self, sql: str, parameters: Mapping[str, Any] | None = None) -> bytes:
        """By the writing handle, which sees what it has just written."""
        with running():
            return self._writer.raw_query(sql, parameters=dict(parameters or {}), fmt="ArrowStream")

    def lookup(self, keys: bytes, sql: str, parameters: Mapping[str, Any] | None = None) -> bytes:
        """By keys that come along with the question."""
        # A temporary table would bind several requests to one server, and a cluster's other shards would not have it.
        probe = ExternalData(file_name="probe", data=keys, fmt="ArrowStream", structure=KEYS)
        with running():
            return self._writer.raw_query(
                sql, parameters=dict(parameters or {}), fmt="ArrowStream", external_data=probe
            )

    def ask(self, sql: str, fmt: str | None, parameters: Mapping[str, Any] | None = None) -> bytes:
        """By the handle that cannot write."""
        with mapped_errors():
            return self._reader.raw_query(sql, parameters=dict(parameters or {}), fmt=fmt)

    @property
    def reader_is_kept_from_writing(self) -> bool:
        """Whether the server itself keeps the reading user from writing, besides what our requests ask for."""
        return self._reader.server_settings["readonly"].value != "0"

    def is_granted(self, privilege: str, table: str) -> bool:
        """Whether the writing user has ``privilege``, a name of the engine's, on ``table`` of the database."""
        with mapped_errors():
            return self._writer.raw_query(f"CHECK GRANT {privilege} ON `{self._writer.database}`.{table}") == b"1\n"

    def close(self) -> None:
        """Release both handles."""
        self._reader.close()
        self._writer.close()


def deduplication_token(table: str, stream: bytes) -> str:
    """Name of a block: the same for every attempt to insert the same rows, another for any other rows.

    A server that remembers tokens drops the second copy of a block. That only saves work: correctness comes from the
    identity of each row, and no row can be lost by it, because the token says the whole content.
    """
    return hashlib.blake2b(stream, digest_size=16, key=table.encode()[:64]).hexdigest()


def _client(server: Server, user: User, settings: Mapping[str, Any]) -> HttpClient:
    scheme, host, port = _address(server.url)
    tls = server.tls
    with connecting():
        client = clickhouse_connect.get_client(
            interface=scheme,
            host=host,
            port=port,
            username=user.name,
            password=user.password,
            database=server.database,
            settings=dict(settings),
            # Blocks are Arrow, which is compressed as it is; answers to people are compressed if this asks for it.
            compress=False,
            headers={"Accept-Encoding": "gzip"} if server.compression else {},
            query_retries=0,
            connect_timeout=server.connect_timeout_s,
            send_receive_timeout=server.timeout_s,
            verify=tls.verify,
            ca_cert=_text(tls.ca),
            client_cert=_text(tls.certificate),
            client_cert_key=_text(tls.key),
            server_host_name=tls.server_host_name,
            # With a password, a certificate of ours opens the connection and the password lets us in.
            tls_mode="strict" if tls.certificate and user.password else None,
            autogenerate_session_id=False,
            show_clickhouse_errors="scrub",
            dedicated_pool=True,
        )
    assert isinstance(client, HttpClient)  # noqa: S101 -- what these interfaces are
    # False, not 0: then what went wrong with the connection is raised as it is.
    client.http_retries = False
    return client


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _address(url: str) -> tuple[str, str, int]:
    """Scheme, host and port. Raises StoreRejected with what is wrong, never with a password."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise StoreRejected("store.url is not an address; it is http://HOST:PORT or https://HOST:PORT")
    if parts.username or parts.password:
        raise StoreRejected("store.url holds a user or a password; give them as store.user and store.password")
    if parts.path.strip("/") or parts.query:
        raise StoreRejected("store.url goes on after the port; it is http://HOST:PORT or https://HOST:PORT")
    try:
        return parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme]
    except ValueError:
        raise StoreRejected("store.url has no valid port; it is http://HOST:PORT or https://HOST:PORT") from None
