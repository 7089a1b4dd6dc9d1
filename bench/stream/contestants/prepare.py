"""Make a store ready: ``python prepare.py DIRECTORY`` creates it with offramp's tables, which all contestants fill."""

import sys
import time
from pathlib import Path

from sinks.store import open_store

if __name__ == "__main__":
    with open_store(
        Path(sys.argv[1]), holder="bench", lock_timeout_s=0, now=lambda: time.time_ns() // 1000, wait=time.sleep
    ) as made:
        made.migrate()
