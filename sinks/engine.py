"""ClickHouse through clickhouse-connect: what a store asks of an engine, the engine in the process, and every error.

An engine has two handles on the same data. The writer inserts and migrates; the reader answers people's questions and
runs under ``readonly = 1``, which it cannot leave. The engine of a server is in :mod:`sinks.server`.
"""

import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError, Error, InterfaceError, OperationalError

from sinks.errors import StoreDamaged, StoreError, StoreForbidden, StoreRejected, StoreUnavailable

_MB = 2**20

# Without these the caches may grow to 5 GB each, which is right for a server and wrong for a command.
CACHE_LIMITS: Mapping[str, int] = {
    "mark_cache_size": 32 * _MB,
    "primary_index_cache_size": 32 * _MB,
    "index_mark_cache_size": 8 * _MB,
    "vector_similarity_index_cache_size": _MB,
    "query_condition_cache_size": _MB,
    "compiled_expression_cache_size": 16 * _MB,
}
SESSION: Mapping[str, Any] = {
    # Time literals in SQL mean UTC wherever the host is.
    "session_timezone": "UTC",
    # A NULL for a column that has none is an error of that row, never silently the type's default.
    "input_format_null_as_default": 0,
    # A batch holds each identity once, so looking for copies in it before it is stored finds nothing.
    "optimize_on_insert": 0,
}
ANSWERS: Mapping[str, Any] = {
    # JSON has no number for nan and inf; null would say that there is none at all.
    "output_format_json_quote_denormals": 1,
}
# Readonly comes last, because nothing can be set after it.
_READ_ONLY: Mapping[str, Any] = {
    **SESSION,
    "max_memory_usage": 1024 * _MB,
    **ANSWERS,
    "readonly": 1,
}

KEYS = "tenant String, id String"
"""Structure of the table that a lookup reads."""

# Codes of the engine that say "not now": memory, disk, too many parts or queries, network, coordination.
OUTAGE_CODES = frozenset(
    {3, 74, 75, 76, 159, 198, 202, 203, 209, 210, 225, 236, 241, 242, 243, 252, 279, 285, 286, 289, 319, 364, 373, 394,
     425, 439, 722, 735, 745, 999}
)  # fmt: skip
# Codes that say that a file of the store is gone, cut off or changed, where they come up while one is read.
DAMAGE_CODES = frozenset({32, 33, 40, 107, 117, 131, 226, 228, 246, 271, 432})
# Codes that say who asks, or what for, is not let in: user, password, privilege, read-only, a setting's constraint.
FORBIDDEN_CODES = frozenset({192, 193, 194, 195, 452, 492, 497, 511, 516})
# Codes that say, of a statement that is right, that the database, a table or a column of it is not there.
NO_TABLE_CODES = frozenset({10, 16, 60, 81, 218})
_REMEDY: Mapping[int, str] = {
    0: "check store.user and store.password",
    159: "the server's max_execution_time ends what takes longer; ask for less, or raise it for this user",
    452: "the user's settings profile forbids what this program needs; see `offramp doctor`",
    497: "grant it, or use the user that has it; see `offramp doctor`",
}
_FORBIDDEN_STATUSES = frozenset({401, 403})
# Asked too much, or too long: answers of what stands before the server.
_BUSY_STATUSES = frozenset({408, 425, 429})
# The body was too much for what stands before the server, which half of the rows may not be.
_TOO_LARGE_STATUS = 413
_READ_ONLY_CODE = 164
_NO_DATABASE_CODE = 81
_STATUS = re.compile(r"HTTP driver received HTTP status (\d{3})")
_FROM_SERVER = re.compile(r"^Received ClickHouse exception, code: \d+, server response: ")
_WHILE_READING = re.compile(r"while reading (?:or decompressing|from part|column)", re.IGNORECASE)
_TABLE = re.compile(r"\bin table (?:\w+\.)?(\w+)")
_READ_TIMED_OUT = "Read timed out"
_MESSAGE_LIMIT = 600
# The engine's allocator keeps what an insert used; in a process that it shares with others this is given back.
# Measured: 100 MB less at the peak, 280 MB less between inserts, for 1 to 2 µs per event.
PURGE_AFTER_BYTES = 64 * _MB


class Engine(ABC):
    """Where a store's tables are. Every method raises StoreRejected for a bad statement or row, StoreUnavailable for an
    outage, StoreForbidden for missing rights, StoreDamaged for what can no longer be read."""

    is_embedded = False
    """Whether it ends with this process."""

    @abstractmethod
    def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Run a statement that returns nothing."""

    @abstractmethod
    def insert(self, table: str, columns: list[str], stream: bytes) -> None:
        """Insert an Arrow IPC stream: all rows or none, seen by readers when this returns."""

    @abstractmethod
    def fetch(self, sql: str, parameters: Mapping[str, Any] | None = None) -> bytes:
        """Answer of the store's own SELECT as an Arrow IPC stream."""

    @abstractmethod
    def lookup(self, keys: bytes, sql: str, parameters: Mapping[str, Any] | None = None) -> bytes:
        """Answer of the store's own SELECT that reads ``keys``, an Arrow IPC stream, as the table ``probe`` (tenant,
        id)."""

    @abstractmethod
    def ask(self, sql: str, fmt: str | None, parameters: Mapping[str, Any] | None = None) -> bytes:
        """Answer of anybody's SELECT in the engine's format ``fmt`` (None: none is asked for), unable to write."""

    @abstractmethod
    def close(self) -> None:
        """Release both handles, and with them an embedded engine's hold on the directory."""


class EmbeddedEngine(Engine):
    """The engine in this process."""

    is_embedded = True

    def __init__(self, connect: Callable[[Mapping[str, Any]], Client], purge_after_bytes: int | None) -> None:
        """``purge_after_bytes``: how much may be inserted before memory is given back; None leaves it to the engine."""
        self._writer = connect(SESSION)
        self._reader = connect(_READ_ONLY)
        self._purge_after_bytes, self._unpurged = purge_after_bytes, 0

    def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        """By the writing handle."""
        with running():
            self._writer.command(sql, parameters=dict(parameters or {}))

    def insert(self, table: str, columns: list[str], stream: bytes) -> None:
        """As a stream that the engine reads as it is."""
        with inserting(table):
            self._writer.raw_insert(table, column_names=columns, insert_block=stream, fmt="ArrowStream")
        self._unpurged += len(stream)
        if self._purge_after_bytes is not None and self._unpurged >= self._purge_after_bytes:
            self.command("SYSTEM JEMALLOC PURGE")
            self._unpurged = 0

    def fetch(self, sql: str, parameters: Mapping[str, Any] | None = None) -> bytes:
        """By the writing handle, which sees what it has just written."""
        with running():
            return _interruptibly(
                lambda: self._writer.raw_query(sql, parameters=dict(parameters or {}), fmt="ArrowStream"), self._reader
            )

    def lookup(self, keys: bytes, sql: str, parameters: Mapping[str, Any] | None = None) -> bytes:
        """By way of a temporary table."""
        # A temporary table, because 25,000 ids as text of the statement cost more to parse than to look up.
        self.command(f"CREATE TEMPORARY TABLE IF NOT EXISTS probe ({KEYS})")
        self.command("TRUNCATE TABLE probe")
        self.insert("probe", ["tenant", "id"], keys)
        return self.fetch(sql, parameters)

    def ask(self, sql: str, fmt: str | None, parameters: Mapping[str, Any] | None = None) -> bytes:
        """By the handle that cannot write."""
        return _interruptibly(
            lambda: self._reader.raw_query(sql, parameters=dict(parameters or {}), fmt=fmt), self._writer
        )

    def close(self) -> None:
        """Release both handles."""
        self._reader.close()
        self._writer.close()


def open_embedded(directory: Path) -> EmbeddedEngine:
    """The engine in this process, on ``directory``. One directory per process at a time, one process per directory.

    Raises StoreDamaged if it does not start there.
    """

    def connect(settings: Mapping[str, Any]) -> Client:
        try:
            with mapped_errors():
                return clickhouse_connect.get_client(
                    interface="chdb",
                    path=str(directory),
                    settings=dict(settings),
                    chdb_options=dict(CACHE_LIMITS),
                    show_clickhouse_errors="scrub",
                )
        except StoreRejected as error:
            # The engine itself has written to stderr what it stumbled over.
            raise StoreDamaged(f"the engine does not start on {directory}; restore what it names") from error

    return EmbeddedEngine(connect, PURGE_AFTER_BYTES)


def _interruptibly(read: Callable[[], bytes], bystander: Client) -> bytes:
    """The answer of ``read``. While this thread waits for it, it may be interrupted, by a signal for instance; then
    ``bystander``, the other handle, ends the statement, so that the engine can be closed.

    The engine itself works in C, where Python hears no signal until the answer is there.
    """
    answer: Future[bytes] = Future()
    threading.Thread(target=_settle, args=(answer, read), daemon=True).start()
    try:
        with mapped_errors():
            return answer.result()
    finally:
        if not answer.done():
            bystander.command("KILL QUERY WHERE 1 SYNC")


def _settle(answer: "Future[bytes]", read: Callable[[], bytes]) -> None:
    try:
        answer.set_result(read())
    except BaseException as error:  # noqa: BLE001 -- whoever waits for the answer raises it
        answer.set_exception(error)


@contextmanager
def connecting() -> Iterator[None]:
    """As :func:`mapped_errors`, around the first connection: a database that is not there is a matter of settings."""
    try:
        with mapped_errors():
            yield
    except StoreRejected as error:
        if _code(error.__cause__) == _NO_DATABASE_CODE:
            advice = "correct store.database, or have it made by CREATE DATABASE and then run `offramp init`"
            raise StoreRejected(f"{error}; {advice}") from error
        raise


@contextmanager
def running(what: str = "the store") -> Iterator[None]:
    """As :func:`mapped_errors`, around a statement of this package's own about ``what``: StoreRejected is then neither
    about what is missing of it nor about the user."""
    try:
        with mapped_errors():
            yield
    except StoreRejected as error:
        code = _code(error.__cause__)
        if code in NO_TABLE_CODES:
            raise StoreDamaged(
                f"{what} is not as this program made it: {error}; restore it from a backup"
            ) from error.__cause__
        if code == _READ_ONLY_CODE:
            raise StoreForbidden(f"{error}; use a user that may write") from error.__cause__
        raise


@contextmanager
def inserting(table: str) -> Iterator[None]:
    """As :func:`running`, around an insert into ``table``: StoreRejected is then about its rows alone, not about what
    stands before the server either."""
    try:
        with running(f"table {table}"):
            yield
    except StoreRejected as error:
        words = str(error)
        if _code(error.__cause__) is None and _status(words) != _TOO_LARGE_STATUS:
            raise StoreUnavailable(f"the insert did not come as far as the engine: {words}") from error
        raise


@contextmanager
def mapped_errors() -> Iterator[None]:
    """Turn whatever the client raises into the package's own errors."""
    try:
        yield
    except ClickHouseError as error:
        raise _translated(error) from error
    except ImportError as error:
        raise StoreRejected("the embedded engine is not installed; install offramp[embedded]") from error
    except OSError as error:
        raise StoreUnavailable(f"the store cannot be reached: {error}") from error


def _translated(error: ClickHouseError) -> StoreError:
    code, message = _code(error), _message(error)
    if code in DAMAGE_CODES and _WHILE_READING.search(message):
        return StoreDamaged(_damage(message))
    if code in FORBIDDEN_CODES or (code is None and _status(message) in _FORBIDDEN_STATUSES):
        return StoreForbidden(f"{message[:_MESSAGE_LIMIT]}; {_REMEDY.get(code or 0, _REMEDY[0])}")
    if _is_outage(error, code, message):
        return StoreUnavailable(message[:_MESSAGE_LIMIT] + _advice_in_outage(code, message))
    return StoreRejected(message[:_MESSAGE_LIMIT])


def _advice_in_outage(code: int | None, message: str) -> str:
    if code is None:
        return "; ask for less, or raise store.timeout_s" if _READ_TIMED_OUT in message else ""
    return f"; {_REMEDY[code]}" if code in _REMEDY else ""


def _code(error: BaseException | None) -> int | None:
    """The engine's own number for what went wrong, None if it did not come as far as the engine."""
    return error.code if isinstance(error, Error) else None


def _message(error: ClickHouseError) -> str:
    """What went wrong in the engine's words, or in those of the connection; the same from a server as embedded."""
    if isinstance(error, OperationalError) and error.__cause__ is not None:
        # What tried more than once holds what went wrong as its reason.
        return f"the store cannot be reached: {getattr(error.__cause__, 'reason', None) or error.__cause__}"
    text = _FROM_SERVER.sub("", str(error))
    return text.replace("DB::Exception: ", "").removeprefix("Code: ")


def _status(message: str) -> int:
    """The HTTP status of an answer that the engine did not give: 0 if the engine gave it, or it was none."""
    found = _STATUS.match(message)
    return int(found[1]) if found else 0


def _damage(message: str) -> str:
    table, reason = _TABLE.search(message), re.split(r"[.:] ", message.partition(". ")[2])[0]
    where = f"table {table[1]}" if table else "what is stored"
    return f"{where} is damaged: {reason}; restore the store, or classify its files again into a new one"


def _is_outage(error: ClickHouseError, code: int | None, message: str) -> bool:
    if code is None:
        status = _status(message)
        return isinstance(error, (OperationalError, InterfaceError)) or status >= 500 or status in _BUSY_STATUSES
    return code in OUTAGE_CODES
