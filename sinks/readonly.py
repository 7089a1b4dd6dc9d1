"""Which statements people may run: those that only read, judged by the engine's own parser.

The reading handle runs under ``readonly = 1``, which refuses inserts, DDL, settings and table functions that reach
outside. It lets through what this module refuses: a SELECT that writes its answer INTO OUTFILE, the function ``file``,
KILL, USE, and several SYSTEM statements.
"""

import re
from collections.abc import Callable

from sinks.errors import StoreRejected

Ask = Callable[[str, str | None, dict[str, str] | None], bytes]
"""Runs a statement on the reading handle: SQL, output format (None: tab-separated), parameters."""

_READING = frozenset(
    {"SelectWithUnionQuery", "SelectIntersectExceptQuery", "Explain", "DescribeQuery", "ShowTables", "ShowColumns",
     "ShowIndexes", "ShowFunctions", "ShowCreateTableQuery", "ShowCreateViewQuery", "ExistsTableQuery",
     "ExistsViewQuery"}
)  # fmt: skip
# The formatter starts these clauses on a line of their own, and writes a line break within quotes as an escape.
_CLAUSE = re.compile(r"^(INTO OUTFILE|FORMAT) ", re.MULTILINE)
_INSTEAD = {
    "INTO OUTFILE": "redirect the output instead",
    "FORMAT": "choose the format with the command's option",
}
_OUTSIDE = re.compile(r"^ *Function (file)\b", re.MULTILINE | re.IGNORECASE)


def checked_select(sql: str, ask: Ask) -> str:
    """The statement as the engine understands it, if it is one reading statement. Raises StoreRejected otherwise.

    What is returned is what was judged, so that nothing hides in comments, quotes or a second statement.
    """
    # formatQuery refuses several statements; EXPLAIN would run the second. The tree is asked for without a format,
    # since a FORMAT clause at the end would become part of the statement that is judged.
    try:
        statement = ask("SELECT formatQuery({sql:String})", "RawBLOB", {"sql": sql}).decode()
    except UnicodeDecodeError:
        raise StoreRejected(r"an escape such as \xff makes text that is not UTF-8; write unhex('ff') instead") from None
    tree = ask(f"EXPLAIN AST {statement}", None, None).decode()
    kind = tree.split(maxsplit=1)[0]
    if kind not in _READING:
        raise StoreRejected(f"only reading is allowed (SELECT, EXPLAIN, DESCRIBE, SHOW, EXISTS), not {kind}")
    if clause := _CLAUSE.search(statement):
        raise StoreRejected(f"{clause[1]} is not allowed; {_INSTEAD[clause[1]]}")
    if function := _OUTSIDE.search(tree):
        raise StoreRejected(f"the function {function[1]} reads outside the store and is not allowed")
    return statement
