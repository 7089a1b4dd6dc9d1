"""What the command does with standard streams that are full, closed, or not read to the end."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.offramp.kit import ask, events, write_lines

ROOT = Path(__file__).parent.parent.parent
DATA = ROOT / "tests" / "data"


def _run(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["/bin/sh", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


def _offramp(arguments: str) -> str:
    return f"{sys.executable} -m offramp {arguments}"


def test_an_import_that_nobody_reads_on_ends_silently():
    done = _run(f"{_offramp(f'import auto {DATA}')} | head -n 1")
    assert done.stdout.count("\n") == 1
    assert "adapter" not in done.stderr
    assert "Broken" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", ["schema", "table show"])
def test_a_full_output_is_one_sentence_and_status_three(arguments):
    done = _run(f"{_offramp(arguments)} > /dev/full")
    assert (done.returncode, done.stderr) == (3, "offramp: output: No space left on device\n")


def test_closed_streams_are_empty_ones():
    assert _run(f"{_offramp('schema')} >&-").returncode == 0
    assert _run(f"{_offramp('classify --no-store -')} <&-").returncode == 0


def test_no_name_moves_the_cursor(tmp_path):
    done = _run(f"{_offramp('import auto')} 'no\033[31m\nfile'")
    assert done.returncode == 2
    assert "\033" not in done.stderr


def test_what_is_stored_is_seen_though_nobody_reads_the_answer_on(tmp_path):
    path, store = write_lines(tmp_path / "events", events()), tmp_path / "store"
    _run(f"{_offramp(f'classify {path} --store {store} --format ndjson')} > /dev/full")
    done = _run(_offramp(f"audit --store {store}"))
    assert (done.returncode, done.stderr) == (0, "")
    assert ask(store, "SELECT count() AS n FROM v_exits") == [{"n": len(events())}]
