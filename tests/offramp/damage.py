"""Runs statements that no command would, on a store: what a lost disk or a defect may do to it."""

import sys
from pathlib import Path

from sinks.store import open_store
from tests.sinks.conftest import no_wait
from tests.sinks.samples import NOW


def main() -> None:
    """Run each argument behind the store's directory as a statement."""
    directory, *statements = sys.argv[1:]
    with open_store(Path(directory), holder="test", lock_timeout_s=0, now=lambda: NOW, wait=no_wait) as store:
        store.migrate()
        for statement in statements:
            store._engine.command(statement)


if __name__ == "__main__":
    main()
