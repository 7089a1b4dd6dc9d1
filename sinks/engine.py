"""ClickHouse through clickhouse-connect: the one place that sees its client and its errors.

An engine has two handles on the same data. The writer inserts and migrates; the reader answers people's questions and
runs under ``readonly = 1``, which it cannot leave.
"""

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError, Error, InterfaceError, OperationalError

from sinks.errors import StoreDamaged, StoreRejected, StoreUnavailable

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
_SESSION: Mapping[str, Any] = {
    # Time literals in SQL mean UTC wherever the host is.
    "session_timezone": "UTC",
    # A NULL for a column that has none is an error of that row, never silently the type's default.
    "input_format_null_as_default": 0,
    # A batch holds each identity once, so looking for copies in it before it is stored finds nothing.
    "optimize_on_insert": 0,
}
# Last, because nothing can be set after it.
_READ_ONLY: Mapping[str, Any] = {
    **_SESSION,
    "max_memory_usage": 1024 * _MB,
    # JSON has no number for nan and inf; null would say that there is none at all.
    "output_format_json_quote_denormals": 1,
    "readonly": 1,
}

# Codes of the engine that say "not now": memory, disk, too many parts or queries, network, coordination.
OUTAGE_CODES = frozenset({3, 74, 75, 76, 159, 198, 202, 209, 210, 225, 236, 241, 242, 243, 252, 279, 319, 425, 999})
# Codes that say that a file of the store is gone, cut off or changed, where they come up while one is read.
DAMAGE_CODES = frozenset({32, 33, 40, 107, 117, 131, 226, 228, 246, 271, 432})
_WHILE_READING = re.compile(r"while reading (?:or decompressing|from part|column)", re.IGNORECASE)
_TABLE = re.compile(r"\bin table (?:\w+\.)?(\w+)")
_MESSAGE_LIMIT = 600
# The engine's allocator keeps what an insert used; in a process that it shares with others this is given back.
# Measured: 100 MB less at the peak, 280 MB less between inserts, for 1 to 2 µs per event.
PURGE_AFTER_BYTES = 64 * _MB


class Engine:
    """The two handles. Every method raises StoreRejected for a bad statement or row, StoreUnavailable for an outage,
    StoreDamaged for what can no longer be read."""

    def __init__(self, connect: Callable[[Mapping[str, Any]], Client], purge_after_bytes: int | None) -> None:
        """``purge_after_bytes``: how much may be inserted before memory is given back; None leaves it to the engine."""
        self._writer = connect(_SESSION)
        self._reader = connect(_READ_ONLY)
        self._purge_after_bytes, self._unpurged = purge_after_bytes, 0

    def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Run a statement that returns nothing."""
        with mapped_errors():
            self._writer.command(sql, parameters=dict(parameters or {}))

    def insert(self, table: str, columns: list[str], stream: bytes) -> None:
        """Insert an Arrow IPC stream: all rows or none."""
        with mapped_errors():
            self._writer.raw_insert(table, column_names=columns, insert_block=stream, fmt="ArrowStream")
        self._unpurged += len(stream)
        if self._purge_after_bytes is not None and self._unpurged >= self._purge_after_bytes:
            self.command("SYSTEM JEMALLOC PURGE")
            self._unpurged = 0

    def fetch(self, sql: str, parameters: Mapping[str, Any] | None = None) -> bytes:
        """Answer of the store's own SELECT as an Arrow IPC stream."""
        return _interruptibly(
            lambda: self._writer.raw_query(sql, parameters=dict(parameters or {}), fmt="ArrowStream"), self._reader
        )

    def ask(self, sql: str, fmt: str | None, parameters: Mapping[str, Any] | None = None) -> bytes:
        """Answer of anybody's SELECT in the engine's format ``fmt`` (None: none is asked for), unable to write."""
        return _interruptibly(
            lambda: self._reader.raw_query(sql, parameters=dict(parameters or {}), fmt=fmt), self._writer
        )

    def close(self) -> None:
        """Release both handles, and with them the engine's hold on the directory."""
        self._reader.close()
        self._writer.close()


def open_embedded(directory: Path) -> Engine:
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

    return Engine(connect, PURGE_AFTER_BYTES)


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
def mapped_errors() -> Iterator[None]:
    """Turn whatever the client raises into the package's own errors."""
    try:
        yield
    except ClickHouseError as error:
        raise _translated(error) from error
    except ImportError as error:
        raise StoreUnavailable("the embedded engine is not installed; install offramp[embedded]") from error
    except OSError as error:
        raise StoreUnavailable(f"the store cannot be reached: {error}") from error


def _translated(error: ClickHouseError) -> StoreRejected | StoreUnavailable | StoreDamaged:
    message = str(error).replace("DB::Exception: ", "").removeprefix("Code: ")
    if isinstance(error, Error) and error.code in DAMAGE_CODES and _WHILE_READING.search(message):
        return StoreDamaged(_damage(message))
    kind = StoreUnavailable if _is_outage(error) else StoreRejected
    return kind(message[:_MESSAGE_LIMIT])


def _damage(message: str) -> str:
    table, reason = _TABLE.search(message), re.split(r"[.:] ", message.partition(". ")[2])[0]
    where = f"table {table[1]}" if table else "what is stored"
    return f"{where} is damaged: {reason}; restore the store, or classify its files again into a new one"


def _is_outage(error: ClickHouseError) -> bool:
    code = error.code if isinstance(error, Error) else None
    if code is None:
        return isinstance(error, (OperationalError, InterfaceError))
    return code in OUTAGE_CODES
