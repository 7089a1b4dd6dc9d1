"""Real Alertmanager and promtool for tests, from Debian's packages; ``make monitors`` fetches them.

Without them tests are skipped, and the reason is printed; where ``CI`` is set they fail.
"""

import os
import shutil
import sys
from pathlib import Path

import pytest

FETCHED = Path(sys.prefix) / "monitors" / "usr" / "bin"


def program(name: str) -> str:
    """Where a program is. Skips the test, or fails it in CI, if it is not there."""
    found = shutil.which(name, path=f"{FETCHED}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is not None:
        return found
    reason = f"no {name} to test with; run `make monitors`"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
