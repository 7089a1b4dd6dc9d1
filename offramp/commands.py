"""Commands that reports suggest to go on with."""

import shlex
from pathlib import Path
from typing import NamedTuple

_MEANT_BY_SHELLS = frozenset('"$`\\!')


class Commands(NamedTuple):
    """Commands with the options that the verb was given."""

    store: Path | None
    config: Path | None

    @property
    def options(self) -> str:
        """The options, as they stand behind a verb."""
        given = (("--store", self.store), ("--config", self.config))
        return "".join(f" {name} {shlex.quote(str(value))}" for name, value in given if value is not None)

    def query(self, sql: str) -> str:
        """The command that asks the store."""
        return f"offramp query{self.options} {_quoted(sql)}"

    def explain(self, tenant: str, event_id: str) -> str:
        """The command that explains one event. An id may begin with a dash."""
        event = f"{'-- ' if event_id.startswith('-') else ''}{shlex.quote(event_id)}"
        return f"offramp explain --tenant={shlex.quote(tenant)}{self.options} {event}"


def _quoted(text: str) -> str:
    """For a shell, in double quotes where that reads better and means the same."""
    return f'"{text}"' if "'" in text and not _MEANT_BY_SHELLS & set(text) else shlex.quote(text)
