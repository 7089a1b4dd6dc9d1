"""How far the clocks of producers are ahead of ours, as far as stored exits show it."""

from sinks.store import Store

_AHEAD = """
    SELECT count() AS n, max(toUnixTimestamp64Micro(occurred_at) - toUnixTimestamp64Micro(classified_at)) AS ahead
    FROM exit_classifications
    WHERE classified_at >= fromUnixTimestamp64Micro({since:Int64})
"""


def ahead_us(store: Store, since: int) -> int | None:
    """By how many microseconds the furthest producer was ahead in what was classified at ``since`` or later: 0 if none
    was, None if nothing was classified. One that is behind cannot be told from one that is late.

    Raises what the store raises, see :mod:`sinks.errors`.
    """
    (row,) = store.select(_AHEAD, {"since": since})
    return max(0, row["ahead"]) if row["n"] else None
