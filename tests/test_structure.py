"""The rooms of the house: who may import whom."""

import ast
from pathlib import Path

from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

ROOT = Path(__file__).parent.parent
PURE = ("schemas", "classifier", "alerts", "sources")


def test_rooms_import_downwards_only(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert lint_imports(config_filename="pyproject.toml", no_cache=True) == EXIT_STATUS_SUCCESS


def test_only_one_module_reads_the_clock():
    clock = {"time", "time_ns", "now", "utcnow", "today"}
    readers = {
        path.relative_to(ROOT).as_posix()
        for room in (*PURE, "sinks", "shadow", "streams", "offramp")
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in clock
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in {"time", "datetime", "date"}
    }
    assert readers == {"streams/clock.py"}
