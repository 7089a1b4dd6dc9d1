"""What is to be seen before a server is relied on as the store: a list of findings, none if all is well.

The command shows them, a worker refuses to start on one that stops it. Nothing is changed, and nothing is printed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sinks.errors import StoreError, StoreForbidden, StoreRejected
from sinks.rows import SCHEMAS, read_rows
from sinks.server import Server, ServerEngine, connect
from sinks.store import Store

OLDEST = (25, 3)
"""Oldest server that is tried. The tests run on the engine of 26.9; nothing older was seen to work."""
CLOCK_TOLERANCE_S = 5.0
_DROPS = "DROP TABLE"


class Check(StrEnum):
    """What was found, as a stable code."""

    UNREACHABLE = "unreachable"
    """Nobody answers there, or not now."""
    NOT_LET_IN = "not_let_in"
    """User, password, database or address are not taken."""
    OLD_SERVER = "old_server"
    """The server is older than what this program was tried on."""
    INSERTS_NOT_AWAITED = "inserts_not_awaited"
    """An insert is answered before it is stored, so that a crash of the server loses what we think is kept."""
    TIME_ZONE = "time_zone"
    """Times in statements, or a column of a table, do not mean UTC."""
    NULL_AS_DEFAULT = "null_as_default"
    """A NULL for a column that has none becomes the default of its type, without an error."""
    READER_WRITES = "reader_writes"
    """Statements of people run by a user that the server lets write; only our request keeps them from it."""
    CLOCK_SKEW = "clock_skew"
    """The server's clock and ours differ."""
    TABLES_MISSING = "tables_missing"
    """Migrations were not applied, or tables that they made are gone."""
    OTHER_EDITION = "other_edition"
    """The tables were made by a newer or another edition of this program."""
    MAY_NOT_INSERT = "may_not_insert"
    """The user that writes has no right to."""
    MAY_DROP = "may_drop"
    """The user that writes may drop tables, which it never needs."""


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be: its code, what was seen, what to do, and whether it forbids to start."""

    code: Check
    what: str
    remedy: str
    stops: bool = True


def check_server(server: Server, now: Callable[[], int]) -> list[Finding]:
    """What is wrong with ``server``, most basic first. ``now`` gives microseconds. Raises no StoreError."""
    try:
        engine = connect(server)
    except (StoreForbidden, StoreRejected) as error:
        return [Finding(Check.NOT_LET_IN, str(error), "correct store.url, store.database, store.user and its password")]
    except StoreError as error:
        return [Finding(Check.UNREACHABLE, str(error), "start the server, or correct store.url, and check the network")]
    try:
        return list(_findings(engine, server, now))
    except StoreError as error:
        return [Finding(Check.UNREACHABLE, str(error), "check again; the server stopped answering during the checks")]
    finally:
        engine.close()


def _findings(engine: ServerEngine, server: Server, now: Callable[[], int]) -> Iterator[Finding]:
    yield from _version(engine)
    yield from _session(engine)
    yield from _reader(engine, server)
    yield from _clock(engine, now)
    tables = list(_tables(engine, server, now))
    yield from tables
    if not tables:
        yield from _columns(engine)
        yield from _rights(engine)


def _one(engine: ServerEngine, sql: str) -> dict[str, Any]:
    (row,) = read_rows(engine.fetch(sql))
    return row


def _version(engine: ServerEngine) -> Iterator[Finding]:
    version = _one(engine, "SELECT version() AS version")["version"]
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        yield Finding(Check.OLD_SERVER, f"the server is {version}", f"upgrade it to {oldest} or newer")


def _session(engine: ServerEngine) -> Iterator[Finding]:
    names = ("async_insert", "wait_for_async_insert", "session_timezone", "input_format_null_as_default")
    told = _one(engine, "SELECT " + ", ".join(f"toString(getSetting('{name}')) AS {name}" for name in names))
    if told["async_insert"] in _ON and told["wait_for_async_insert"] not in _ON:
        yield Finding(
            Check.INSERTS_NOT_AWAITED,
            "async_insert is on and wait_for_async_insert is off",
            "let the writer's settings profile leave both to the client, or set wait_for_async_insert = 1",
        )
    if told["session_timezone"] != "UTC":
        yield _time_zone(f"the writer's session is in {told['session_timezone'] or 'the time zone of the server'}")
    if told["input_format_null_as_default"] in _ON:
        yield Finding(
            Check.NULL_AS_DEFAULT,
            "input_format_null_as_default is on",
            "let the writer's settings profile leave it to the client, or set it to 0",
        )


_ON = frozenset({"1", "true"})


def _time_zone(what: str) -> Finding:
    return Finding(Check.TIME_ZONE, what, "set session_timezone = 'UTC' in the user's settings profile")


def _reader(engine: ServerEngine, server: Server) -> Iterator[Finding]:
    (zone,) = engine.ask("SELECT getSetting('session_timezone')", "TabSeparated").decode().splitlines() or [""]
    if zone != "UTC":
        yield _time_zone(f"the reader's session is in {zone or 'the time zone of the server'}")
    if not engine.reader_is_kept_from_writing:
        who = "the writer" if server.reader is None else f"user {server.reader.name}, which is not read-only"
        remedy = "set store.reader to a user whose settings profile has readonly = 1"
        yield Finding(Check.READER_WRITES, f"statements of people run as {who}", remedy, stops=False)


def _clock(engine: ServerEngine, now: Callable[[], int]) -> Iterator[Finding]:
    before = now()
    theirs = _one(engine, "SELECT toUnixTimestamp64Micro(now64(6)) AS now")["now"]
    skew = (theirs - (before + now()) // 2) / 1e6
    if abs(skew) > CLOCK_TOLERANCE_S:
        what = f"the server's clock is {abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} ours"
        yield Finding(Check.CLOCK_SKEW, what, "synchronise the clocks of both machines", stops=False)


def _tables(engine: ServerEngine, server: Server, now: Callable[[], int]) -> Iterator[Finding]:
    store = Store(engine, now, server.layout)
    try:
        store.check_history()
    except StoreRejected as error:
        yield Finding(Check.OTHER_EDITION, str(error), "use the edition of this program that made them")
    except StoreError as error:
        yield Finding(Check.TABLES_MISSING, str(error), "restore them from a backup")
    else:
        if pending := store.pending():
            what = f"not applied: {', '.join(pending)}"
            yield Finding(Check.TABLES_MISSING, what, "run `offramp init` as a user that may make tables")


def _columns(engine: ServerEngine) -> Iterator[Finding]:
    sql = """
        SELECT concat(table, '.', name, ' ', type) AS found FROM system.columns
        WHERE database = currentDatabase() AND table IN ({tables:Array(String)})
            AND type LIKE '%DateTime%' AND type NOT LIKE '%UTC%'
        ORDER BY found
    """
    found = [row["found"] for row in read_rows(engine.fetch(sql, {"tables": sorted(SCHEMAS)}))]
    if found:
        remedy = "rename the table, run `offramp init`, and copy its rows"
        yield Finding(Check.TIME_ZONE, f"columns without UTC: {', '.join(found)}", remedy)


def _rights(engine: ServerEngine) -> Iterator[Finding]:
    lacking = [table for table in sorted(SCHEMAS) if not engine.is_granted("INSERT", table)]
    if lacking:
        what = f"the writer may not insert into {', '.join(lacking)}"
        yield Finding(Check.MAY_NOT_INSERT, what, "grant it the role offramp_writer")
    if engine.is_granted(_DROPS, "terminal_events"):
        remedy = "let another user apply migrations, and give the writer the role offramp_writer alone"
        yield Finding(Check.MAY_DROP, "the writer may drop tables", remedy, stops=False)
