"""Client libraries have one home, and nobody meets one by importing the seam."""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
HOME = ROOT / "streams" / "kafka"
LIBRARIES = {"kafka", "confluent_kafka"}


def imported(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return {
        name.split(".")[0]
        for name in plain | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    }


def test_only_the_seam_imports_a_client():
    rooms = ("schemas", "classifier", "alerts", "sources", "sinks", "shadow", "streams", "offramp")
    users = {path for room in rooms for path in (ROOT / room).rglob("*.py") if LIBRARIES & imported(path)}
    assert users
    assert all(HOME in path.parents and path.parent != HOME for path in users), users


def test_the_seam_and_the_fake_need_no_client():
    code = f"import sys, streams.kafka.fake; sys.exit(bool({LIBRARIES!r} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
