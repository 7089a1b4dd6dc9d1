"""Numbered migrations of the store, as SQL text with a few placeholders for what differs between deployments.

Files are ``NNNN_name.sql``, applied once, in order, and never edited afterwards: a changed file is refused by its
digest. Each statement ends with a semicolon at the end of a line and is safe to repeat, because a crash between two
statements runs the whole file again.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from string import Template

_NAME = re.compile(r"(\d{4})_\w+\.sql")
_CLUSTER = re.compile(r"[\w.-]+")
_ENGINE = re.compile(r"\$replacing\((\w+)\)")
_COMMENTS = re.compile(r"\A(?:\s*--[^\n]*\n)*\s*")
_AGES = re.compile(r"^\$ttl_(\w+)$", re.MULTILINE)
_CREATED = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+)")
_ALTERED = re.compile(r"ALTER TABLE (\w+)")
_OF_PARTS = re.compile(r" (?:MODIFY SETTING|ADD INDEX|MATERIALIZE INDEX) ")
_IDENTITY = re.compile(r"identity UInt64 MATERIALIZED (cityHash64\([^)]*\))")
_SORTED_BY = re.compile(r"^ORDER BY \(?([^)\n]+)\)?$", re.MULTILINE)
_TABLE_COMMENT = re.compile(r"^COMMENT ('.*')\Z", re.MULTILINE | re.DOTALL)
EVERYWHERE = frozenset({"schema_migrations", "active_tables", "obligation_queues", "erasures"})
"""Small tables that every shard joins with, or that say how all of it was made: one whole copy on each server, kept for
ever."""
_MADE = re.compile(r"^CREATE (?:TABLE|VIEW) IF NOT EXISTS (\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Layout:
    """What differs between deployments: replicas, shards, how far parts are merged, retention.

    ``cluster`` names the cluster of the server's configuration on which every statement runs; ``replicated`` keeps each
    table on several servers, ``sharded`` spreads the rows over the cluster's shards. ``merge_limit_bytes`` is the size
    up to which parts of the large tables are merged, None for the engine's own. ``retention_days`` maps the column that
    a table ages by (``occurred_at``, ``recorded_at``, ``ingested_at``) to a number of days; a column that is not named
    is kept for ever. ``token_window`` is how many deduplication tokens a table without replicas remembers; one with
    replicas remembers them by itself.
    """

    cluster: str | None = None
    replicated: bool = False
    sharded: bool = False
    merge_limit_bytes: int | None = None
    retention_days: Mapping[str, int] = field(default_factory=dict)
    token_window: int = 0

    def __post_init__(self) -> None:
        if self.sharded and self.cluster is None:
            raise ValueError("shards are those of a cluster; name it")
        if self.cluster is not None and not _CLUSTER.fullmatch(self.cluster):
            raise ValueError(f"{self.cluster!r} is no name of a cluster; it is letters, digits, _, - and .")

    def rendered(self, statement: str) -> list[str]:
        """The SQL for one statement of a migration. Raises KeyError for an unknown placeholder."""
        engines = _ENGINE.sub(lambda found: self._engine(found[1], everywhere=_is_everywhere(statement)), statement)
        filled = Template(engines).substitute(self._placeholders()).strip()
        created = _CREATED.match(_COMMENTS.sub("", filled))
        table = self._with_token_window(filled) if created else filled
        return self._on_shards(table) if self.sharded and not _is_everywhere(statement) else [table]

    def ageing(self) -> dict[str, str]:
        """The column that each table ages by, of those that age at all."""
        found = {}
        for migration in load_migrations():
            for statement in re.split(r";[ ]*(?:\n|$)", migration.text):
                created, ages = _CREATED.search(statement), _AGES.search(statement)
                if created and ages:
                    found[created[1]] = ages[1]
        return found

    def altered(self, table: str) -> str:
        """The beginning of a statement that changes what a table holds, wherever its rows are."""
        name = f"{table}_shard" if self.sharded and table not in EVERYWHERE else table
        return f"ALTER TABLE {name} {self._placeholders()['on_cluster']}".rstrip()

    def _engine(self, version: str, *, everywhere: bool) -> str:
        if not self.replicated:
            return f"ReplacingMergeTree({version})"
        # A small table that every shard joins with is one table on all servers; any other is one table per shard.
        path = (
            "/clickhouse/tables/{database}/{table}" if everywhere else "/clickhouse/tables/{shard}/{database}/{table}"
        )
        replica = "{shard}-{replica}" if everywhere else "{replica}"
        return f"ReplicatedReplacingMergeTree('{path}', '{replica}', {version})"

    def _placeholders(self) -> dict[str, str]:
        """Value of each placeholder that a migration may use, besides ``$replacing(version)``."""
        aged = ("occurred_at", "recorded_at", "ingested_at")
        return {
            "on_cluster": "" if self.cluster is None else f"ON CLUSTER '{self.cluster}'",
            "merge_limit": self._merge_limit(),
            **{f"ttl_{column}": self._ttl(column) for column in aged},
        }

    def _merge_limit(self) -> str:
        limit = self.merge_limit_bytes
        return "" if limit is None else f", max_bytes_to_merge_at_max_space_in_pool = {limit:d}"

    def _ttl(self, column: str) -> str:
        days = self.retention_days.get(column)
        return "" if days is None else f"TTL {column} + INTERVAL {days:d} DAY DELETE"

    def _with_token_window(self, table: str) -> str:
        if not self.token_window or self.replicated:
            return table
        setting = f"non_replicated_deduplication_window = {self.token_window:d}"
        if "\nSETTINGS " in table:
            return table.replace("\nSETTINGS ", f"\nSETTINGS {setting}, ", 1)
        return table.replace("\nCOMMENT '", f"\nSETTINGS {setting}\nCOMMENT '", 1)

    def _on_shards(self, statement: str) -> list[str]:
        """A table becomes one on each shard, ``NAME_shard``, and one that spreads rows over them by their identity."""
        if altered := _ALTERED.match(_COMMENTS.sub("", statement)):
            name = altered[1]
            on_shards = statement.replace(f"ALTER TABLE {name}", f"ALTER TABLE {name}_shard", 1)
            # Of how parts are kept, the table that spreads rows knows nothing: it keeps none.
            return [on_shards] if _OF_PARTS.search(statement) else [on_shards, statement]
        created = _CREATED.match(_COMMENTS.sub("", statement))
        if created is None:
            return [statement]
        name = created[1]
        local = statement.replace(f"EXISTS {name} ", f"EXISTS {name}_shard ", 1)
        spread = (
            f"CREATE TABLE IF NOT EXISTS {name} ON CLUSTER '{self.cluster}' AS {name}_shard\n"
            f"ENGINE = Distributed('{self.cluster}', currentDatabase(), '{name}_shard', {_shard_key(statement)})"
        )
        return [local, f"{spread}\nCOMMENT {comment[1]}" if (comment := _TABLE_COMMENT.search(statement)) else spread]


def _is_everywhere(statement: str) -> bool:
    return any(f"TABLE IF NOT EXISTS {name} " in statement for name in EVERYWHERE)


def _shard_key(statement: str) -> str:
    """Hash of the identity of a row, so that its copies meet on one shard, where they replace one another."""
    if found := _IDENTITY.search(statement):
        return found[1]
    (key,) = _SORTED_BY.findall(statement)
    return f"cityHash64({key})"


EMBEDDED = Layout(merge_limit_bytes=12 * 2**20)
"""One process, no cluster, nothing expires.

The merge limit saves a third of the processor time of a large load: a batch of 20,000 events is a part of 7 MB, and
without the limit each is rewritten several times while the load still runs; where two fit into the limit, once, which
costs a tenth. Small batches are still merged.
"""
SERVER = Layout(token_window=1000)
"""One server without replicas, which drops the second copy of a block by its token."""


@dataclass(frozen=True)
class Migration:
    """One numbered file. ``name`` is its file name, ``text`` has placeholders."""

    name: str
    text: str

    @property
    def digest(self) -> str:
        """sha256 of the text, before placeholders are filled in."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def made(self) -> list[str]:
        """Names of the tables and views that it makes."""
        return _MADE.findall(self.text)

    def statements(self, layout: Layout) -> list[str]:
        """The SQL statements for ``layout``. Raises KeyError for an unknown placeholder."""
        parts = re.split(r";[ ]*(?:\n|$)", self.text)
        return [statement for part in parts if part.strip() for statement in layout.rendered(part)]


def load_migrations() -> list[Migration]:
    """All migrations that come with the package, in order."""
    folder = resources.files(__name__)
    names = sorted(entry.name for entry in folder.iterdir() if _NAME.fullmatch(entry.name))
    return [Migration(name, (folder / name).read_text(encoding="utf-8")) for name in names]
