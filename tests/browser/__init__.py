"""A real Chromium and axe-core for tests, from Debian's and npm's packages; ``make browser`` fetches them.

Without them tests are skipped, and the reason is printed; where ``CI`` is set they fail.
"""

import os
import shutil
import sys
from pathlib import Path

import pytest

FETCHED = Path(sys.prefix) / "browser"
SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
"""Where tests leave what they saw, for people to look at."""


def programs() -> tuple[str, str]:
    """Where Chromium is, and the source of axe-core. Skips the test, or fails it in CI, if one is not there."""
    chromium, axe = shutil.which("chromium"), FETCHED / "node_modules" / "axe-core" / "axe.min.js"
    if chromium is not None and axe.is_file():
        return chromium, axe.read_text(encoding="utf-8")
    reason = f"no {'Chromium' if chromium is None else 'axe-core'} to test with; run `make browser`"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
