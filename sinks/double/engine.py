"""The embedded engine behind the double: one directory, a connection per request or per session."""

import json
import re
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import chdb

from sinks.double.request import External, Request
from sinks.double.users import Role
from sinks.engine import CACHE_LIMITS

_CODE = re.compile(r"Code: (\d+)\.")
_connect_untyped: Callable[[str], Any] = chdb.connect
# Statements on a cluster wait for a service that the engine has not; on one shard they are the same without it.
_ON_CLUSTER = re.compile(rb"\sON CLUSTER '[\w.-]+'", re.IGNORECASE)
# The engine takes a shard for itself by its address and port, although it listens on none.
_CLUSTER = """<clickhouse>
  <tcp_port>9000</tcp_port>
  <remote_servers>
    <{cluster}><shard><replica><host>127.0.0.1</host><port>9000</port></replica></shard></{cluster}>
  </remote_servers>
</clickhouse>
"""
_INSERT_END = re.compile(rb"\bFORMAT\s+\w+\Z", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z_]\w*")
_SESSION_LOCKED = 373


class EngineError(Exception):
    """The engine refused: its code, and its words."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Answer:
    """What the engine answered, and how many rows it read for that."""

    body: bytes
    rows_read: int
    elapsed_ns: int


class EmbeddedServer:
    """The engine of one directory. Any number of threads may ask at once.

    ``cluster`` names a cluster of one shard, which is this engine: Distributed tables work over it.
    """

    def __init__(self, path: Path, cluster: str | None = None) -> None:
        options = dict[str, Any](CACHE_LIMITS) | ({} if cluster is None else {"config-file": _configure(path, cluster)})
        self._address = f"{path.resolve()}?{urlencode(options)}"
        self._lock = threading.Lock()
        self._sessions: dict[str, _Session] = {}
        # Open as long as the double runs; the engine ends with its last connection.
        self._root = self._connect()

    def run(self, request: Request, role: Role) -> Answer:
        """Run one statement with its settings. Raises EngineError."""
        if role.readonly and request.settings:
            raise EngineError(
                164, f"Cannot modify '{next(iter(request.settings))}' setting in readonly mode. (READONLY)"
            )
        # Nothing can be undone after readonly, so such a request has a connection of its own, session or not.
        session = None if role.readonly or "readonly" in request.settings else request.session
        with (
            self._connection(session) as connection,
            _for_one_request(connection, request, undo=session is not None),
        ):
            if role.readonly:
                _set(connection, role.profile)
            with _rows_in_file(request) as sql:
                return _ask(connection, sql, request.default_format, request.parameters)

    def close(self) -> None:
        """End the engine."""
        for session in self._sessions.values():
            session.connection.close()
        self._root.close()

    @contextmanager
    def _connection(self, session: str | None) -> Iterator[Any]:
        if session is not None:
            with self._session(session).use() as connection:
                yield connection
            return
        connection = self._connect()
        try:
            yield connection
        finally:
            with self._lock:
                connection.close()

    def _connect(self) -> Any:
        with self._lock:
            return _connect_untyped(self._address)

    def _session(self, name: str) -> "_Session":
        if name not in self._sessions:
            self._sessions.setdefault(name, _Session(self._connect()))
        return self._sessions[name]


def _configure(path: Path, cluster: str) -> Path:
    file = path.resolve() / "cluster.xml"
    file.write_text(_CLUSTER.format(cluster=cluster), encoding="utf-8")
    return file


class _Session:
    """A connection that is kept, with its temporary tables. One request at a time, as on a server."""

    def __init__(self, connection: Any) -> None:
        self.connection, self._busy = connection, threading.Lock()

    @contextmanager
    def use(self) -> Iterator[Any]:
        if not self._busy.acquire(blocking=False):
            raise EngineError(_SESSION_LOCKED, "Session is locked by a concurrent client. (SESSION_IS_LOCKED)")
        try:
            yield self.connection
        finally:
            self._busy.release()


def _ask(
    connection: Any, sql: str | bytes, fmt: str = "TabSeparated", parameters: Mapping[str, str] | None = None
) -> Answer:
    try:
        result = connection.query(sql, fmt, params=dict(parameters or {}))
        return Answer(result.bytes() or b"", result.rows_read(), int(result.elapsed() * 1e9))
    except RuntimeError as error:
        raise _as_engine_error(error) from None


def _as_engine_error(error: Exception) -> EngineError:
    words = str(error)
    found = _CODE.search(words)
    return EngineError(int(found[1]) if found else 1001, words[found.end() :].strip() if found else words)


def _set(connection: Any, settings: Mapping[str, str]) -> None:
    if settings:
        # Nothing can be set after readonly.
        last = sorted(settings.items(), key=lambda item: item[0] == "readonly")
        _ask(connection, "SET " + ", ".join(f"{_checked_name(name)} = {_quoted(value)}" for name, value in last))


@contextmanager
def _for_one_request(connection: Any, request: Request, *, undo: bool) -> Iterator[None]:
    """Database, settings and tables of a request; gone again after it if ``undo``, because the connection is kept."""
    if request.database:
        _ask(connection, f"USE {_quoted_name(request.database)}")
    before = _values(connection, request.settings) if undo else {}
    _set(connection, request.settings)
    for table in request.external:
        _create(connection, table)
    try:
        yield
    finally:
        _set(connection, before)
        for table in request.external if undo else ():
            _ask(connection, f"DROP TEMPORARY TABLE IF EXISTS {_quoted_name(table.name)}")


def _values(connection: Any, names: Iterable[str]) -> dict[str, str]:
    listed = ", ".join(["''", *(_quoted(name) for name in names)])
    sql = f"SELECT name, value FROM system.settings WHERE name IN ({listed})"  # noqa: S608 -- quoted above
    return dict(map(json.loads, _ask(connection, sql, "JSONCompactEachRow").body.splitlines()))


def _create(connection: Any, table: External) -> None:
    name = _quoted_name(table.name)
    _ask(connection, f"CREATE TEMPORARY TABLE {name} ({table.structure})")
    with _rows_in_file(Request(f"INSERT INTO {name} FORMAT {_checked_name(table.fmt)}".encode(), table.data)) as sql:
        _ask(connection, sql)


@contextmanager
def _rows_in_file(request: Request) -> Iterator[bytes]:
    """The statement, reading its rows from a file: the engine ends rows that stand behind it at what looks like the end
    of a statement."""
    fmt = request.data_format
    if fmt is None:
        yield _ON_CLUSTER.sub(b"", request.sql)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(request.data)
        file.flush()
        head = _INSERT_END.sub(b"", request.sql)
        yield head + f" FROM INFILE {_quoted(file.name)} FORMAT {fmt}".encode()


def _checked_name(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise EngineError(36, f"{name!r} is no name. (BAD_ARGUMENTS)")
    return name


def _quoted_name(name: str) -> str:
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
