"""The lifecycle app as a process of its own, for tests: ``python -m tests.streams.lifecycle.run_app CONFIG``."""

import sys
from pathlib import Path

from offramp.lifecycle_app import run_lifecycle
from offramp.session import start

if __name__ == "__main__":
    sys.exit(run_lifecycle(start(Path(sys.argv[1]))))
