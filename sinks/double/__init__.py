"""A double of a ClickHouse server for tests: its HTTP protocol in front of the real embedded engine, with faults.

::

    with start_double(directory) as double:      # a process of its own, because an engine has one directory
        double.refuse(252, times=3)              # the next three inserts: too many parts
        double.cut("after")                      # the next one is applied, and then nobody answers
        ...
        assert double.calls().inserts == 5

What it shows: statements, formats, parameters, settings, external data, sessions with temporary tables, compression,
users with rights, TLS, deduplication by token where a table has a window for it, Distributed tables over one shard,
several clients at once, and faults. What it cannot show: replication and quorums, what ON CLUSTER does elsewhere, a
second shard, asynchronous inserts, TTL merges in time, quotas, limits of memory and parts that are really reached,
rights by column or row, an insert that is half done when the machine dies.
"""

from sinks.double.control import Calls, Double, start_double
from sinks.double.faults import Fault, FaultKind
from sinks.double.users import Account, RoleName

__all__ = ["Account", "Calls", "Double", "Fault", "FaultKind", "RoleName", "start_double"]
