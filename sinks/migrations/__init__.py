"""Numbered migrations of the store, as SQL text with a few placeholders for what differs between deployments.

Files are ``NNNN_name.sql``, applied once, in order, and never edited afterwards: a changed file is refused by its
digest. Each statement ends with a semicolon at the end of a line and is safe to repeat, because a crash between two
statements runs the whole file again.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from string import Template

_NAME = re.compile(r"(\d{4})_\w+\.sql")
_MADE = re.compile(r"^CREATE (?:TABLE|VIEW) IF NOT EXISTS (\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Layout:
    """What differs between deployments: the engine's name, the cluster clause, how far parts are merged, retention.

    ``merge_limit_bytes`` is the size up to which parts of the large tables are merged, None for the engine's own.
    ``retention_days`` maps the column that a table ages by (``occurred_at``, ``recorded_at``, ``ingested_at``) to a
    number of days; a column that is not named is kept for ever.
    """

    replacing: str
    on_cluster: str
    merge_limit_bytes: int | None
    retention_days: Mapping[str, int]

    def placeholders(self) -> dict[str, str]:
        """Value of each placeholder that a migration may use."""
        aged = ("occurred_at", "recorded_at", "ingested_at")
        return {
            "replacing": self.replacing,
            "on_cluster": self.on_cluster,
            "merge_limit": self._merge_limit(),
            **{f"ttl_{column}": self._ttl(column) for column in aged},
        }

    def _merge_limit(self) -> str:
        limit = self.merge_limit_bytes
        return "" if limit is None else f", max_bytes_to_merge_at_max_space_in_pool = {limit:d}"

    def _ttl(self, column: str) -> str:
        days = self.retention_days.get(column)
        return "" if days is None else f"TTL {column} + INTERVAL {days:d} DAY DELETE"


EMBEDDED = Layout(replacing="ReplacingMergeTree", on_cluster="", merge_limit_bytes=32 * 2**20, retention_days={})
"""One process, no cluster, nothing expires.

The merge limit saves a third of the processor time of a large load: a batch of 25,000 events is a part of 7 MB, and
without the limit each is rewritten several times while the load still runs. Small batches are still merged.
"""


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
        rendered = Template(self.text).substitute(layout.placeholders())
        return [part.strip() for part in re.split(r";[ ]*(?:\n|$)", rendered) if part.strip()]


def load_migrations() -> list[Migration]:
    """All migrations that come with the package, in order."""
    folder = resources.files(__name__)
    names = sorted(entry.name for entry in folder.iterdir() if _NAME.fullmatch(entry.name))
    return [Migration(name, (folder / name).read_text(encoding="utf-8")) for name in names]
