"""Build step: compile the pure core with mypyc where a C compiler is there. Everything else stands in pyproject.toml.

The compiled modules are the same source and mean the same; they only take about half the time. Without a compiler, or
with BUILD_PURE_PYTHON=1, the package is plain Python.
"""

import os

from mypyc.build import mypycify
from setuptools import Extension, setup

CORE = [
    "classifier/fact.py",
    "classifier/effects.py",
    "classifier/policy.py",
    "classifier/paths.py",
    "classifier/handover.py",
    "classifier/run.py",
    "classifier/view.py",
    "classifier/gaps.py",
    "classifier/envelope.py",
    "classifier/wording.py",
    "classifier/packet.py",
    "classifier/decide.py",
    "schemas/canonical.py",
    "alerts/windows.py",
    "alerts/judging.py",
]


def extensions() -> list[Extension]:
    """The compiled core; a failure to compile it costs speed, not the installation."""
    if os.environ.get("BUILD_PURE_PYTHON") == "1":
        return []
    found = mypycify(CORE, opt_level="3")
    for extension in found:
        extension.optional = True
    return found


setup(ext_modules=extensions())
