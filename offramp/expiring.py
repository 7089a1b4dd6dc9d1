"""What ``expire`` does and shows: every table keeps its rows as long as configured, and what is older goes."""

from dataclasses import dataclass, field
from typing import Any

from offramp import console
from offramp.session import Session
from sinks.store import Retention


@dataclass
class Expiring:
    """Applies the retention of the settings to a store that exists."""

    session: Session
    dry_run: bool
    tables: list[Retention] = field(default_factory=list)

    def run(self) -> None:
        """Do it. Raises CouldNotCheckError, StoreError."""
        with self.session.existing_store("expire") as store:
            self.tables = store.retention()
            for table in () if self.dry_run else self.tables:
                store.apply_retention(table)

    def as_json(self) -> dict[str, Any]:
        """Everything, in plain JSON values."""
        return {"dry_run": self.dry_run, "tables": [table._asdict() for table in self.tables]}

    def show(self) -> None:
        """Print how long each table keeps its rows."""
        rows = [(each.table, each.column, _days(each.found), _days(each.planned)) for each in self.tables]
        columns = [("table", "code"), ("by the instant in", "left"), ("was kept", "right"), ("is kept", "right")]
        differ = sum(each.differs for each in self.tables)
        console.table(f"{differ} {'to change' if self.dry_run else 'changed'}", columns, rows)
        console.say("dry run: nothing was written" if self.dry_run else "what was older is gone")


def _days(number: int | None) -> str:
    return "for ever" if number is None else console.counted(number, "day")
