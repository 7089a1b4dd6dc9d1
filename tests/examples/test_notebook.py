"""The notebook runs as it stands, and prints what it shows."""

from pathlib import Path

import pytest

from tests.examples.notebook import code_cells, kept, outputs, read

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "shadow_comparison.ipynb"


def test_every_cell_prints_what_the_notebook_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OFFRAMP_REDACTION__KEY", "a key of the tests, long enough")
    notebook = read(NOTEBOOK)
    shown = [kept(cell) for cell in code_cells(notebook)]
    assert any(shown)
    # `python -m tests.examples.notebook examples/shadow_comparison.ipynb` writes them again.
    assert list(outputs(notebook)) == shown


def test_cells_are_numbered_and_named_apart() -> None:
    notebook = read(NOTEBOOK)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    assert [cell["execution_count"] for cell in code_cells(notebook)] == list(range(1, len(code_cells(notebook)) + 1))
