"""Records that are in no figure of a comparison: companions about nothing that anybody has seen, and dead letters.

Legacy exits whose event or run nobody has seen are rows of their own, and so are not looked for here.
"""
# ruff: noqa: S608 -- every statement is put together from the constants below

from collections.abc import Mapping
from dataclasses import dataclass, field

from schemas.types import EARLIEST, LATEST
from shadow.scope import Scope, Select
from shadow.shares import Share
from sinks.rows import COMPANION_TABLES

MOST_COMPANIONS = 200_000
"""About how many companions are looked at; of more, those with the lowest hashes, which is a random part of them."""

_LEGACY = "legacy_exit"
_EVENT, _RUN = "ifNull(event_id, '')", "ifNull(run_id, '')"
_HASHES, _END = 2**64, "{end:UInt64}"
# A run without an event has a row if legacy knows of it.
_WITHOUT_EVENT = f"""if(
    by_event,
    named_hash NOT IN (SELECT identity FROM terminal_events WHERE identity <= {_END}),
    named_hash NOT IN (
        SELECT identity FROM comparisons
        WHERE identity <= {_END} AND NOT unseen AND (event_id != '' OR superseded > 0)
    )
)"""
_FOUND = """
    SELECT type, uniqExact(identity) AS looked_at, uniqExactIf(identity, {condition}) AS found
    FROM ({companions})
    GROUP BY type
"""
_DEAD_LETTERS = """
    SELECT count() AS letters
    FROM
    (
        SELECT DISTINCT source, partition, offset
        FROM dead_letters
        WHERE (source, partition, offset) NOT IN (SELECT source, partition, offset FROM redrives)
    )
"""


@dataclass(frozen=True)
class Strays:
    """Records in no figure. ``without_event`` and ``nameless`` are by type of companion, where there is any, as shares
    of those that were looked at, one in ``one_in`` of all: those about an event or a run that nobody has seen, and
    those that name neither. ``dead_letters`` counts those that were not redriven, of all tenants and times.
    """

    without_event: Mapping[str, Share] = field(default_factory=dict)
    nameless: Mapping[str, Share] = field(default_factory=dict)
    one_in: int = 1
    dead_letters: int = 0


def strays(select: Select, scope: Scope) -> Strays:
    """Look for them. Companions say neither agent nor workflow: they belong to all of their tenant's and their time's.

    A companion without a time has that at which it was stored. Runs that were settled are those that are known.
    """
    [companions] = select(f"SELECT sum(records) AS records FROM ({_COUNTS})", {})
    one_in = max(1, -(-int(companions["records"]) // MOST_COMPANIONS))
    parameters = {**scope.parameters, "end": _HASHES // one_in - 1}
    [letters] = select(_DEAD_LETTERS, {})
    return Strays(
        without_event=_found(select, _WITHOUT_EVENT, _naming(scope), parameters),
        nameless=_found(select, "nameless", _any(scope), parameters),
        one_in=one_in,
        dead_letters=letters["letters"],
    )


_COUNTS = " UNION ALL ".join(f"SELECT count() AS records FROM {table}" for table in COMPANION_TABLES.values())


def _found(select: Select, condition: str, companions: str, parameters: Mapping[str, object]) -> dict[str, Share]:
    found = select(_FOUND.format(condition=condition, companions=companions), parameters)
    shares = {row["type"]: Share(row["found"], row["looked_at"]) for row in found}
    return {name: shares[name] for name in COMPANION_TABLES if name in shares and shares[name].count}


def _naming(scope: Scope) -> str:
    """Companions that name something, chosen by the hash of that: the events and runs that there are can then be chosen
    by their keys, and as few of them are read."""
    return " UNION ALL ".join(
        f"""
        SELECT '{name}' AS type, identity, named_hash, {_EVENT} != '' AS by_event
        FROM {table}
        PREWHERE named_hash <= {_END}
        WHERE ({_EVENT} != '' OR {_RUN} != '') AND {_condition(scope, name)}
        """
        for name, table in COMPANION_TABLES.items()
        if name != _LEGACY
    )


def _any(scope: Scope) -> str:
    """Companions that name something or nothing, chosen by their own hash: of nothing there is but one."""
    return " UNION ALL ".join(
        f"""
        SELECT '{name}' AS type, identity, {_EVENT} = '' AND {_RUN} = '' AS nameless
        FROM {table}
        WHERE identity <= {_END} AND {_condition(scope, name)}
        """
        for name, table in COMPANION_TABLES.items()
    )


def _condition(scope: Scope, name: str) -> str:
    """SQL. What is not asked for is not read either, since that costs the most."""
    moment = f"ifNull({'decided_at' if name == _LEGACY else 'at'}, ingested_at)"
    parts = [
        ("tenant = {tenant:String}", scope.tenant is not None),
        (f"{moment} >= fromUnixTimestamp64Micro({{since:Int64}})", scope.since > EARLIEST),
        (f"{moment} < fromUnixTimestamp64Micro({{until:Int64}})", scope.until <= LATEST),
    ]
    return " AND ".join(sql for sql, is_asked in parts if is_asked) or "true"
