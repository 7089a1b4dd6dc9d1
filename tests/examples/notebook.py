"""Runs a notebook's cells, as Jupyter would; ``python -m tests.examples.notebook FILE`` keeps what they print."""

import contextlib
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def read(path: Path) -> dict[str, Any]:
    """A notebook. Raises AssertionError for a format that this does not know."""
    notebook: dict[str, Any] = json.loads(path.read_text("utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    return notebook


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells that run."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def outputs(notebook: dict[str, Any]) -> Iterator[str]:
    """What each cell prints, run one after another in one name space."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells(notebook), 1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)  # noqa: S102 -- our own notebook
        yield printed.getvalue()


def kept(cell: dict[str, Any]) -> str:
    """What the notebook says that a cell prints."""
    return "".join(line for output in cell["outputs"] for line in output["text"])


def keep(path: Path) -> None:
    """Run the notebook and keep what it prints in it."""
    notebook = read(path)
    for number, (cell, text) in enumerate(zip(code_cells(notebook), outputs(notebook), strict=True), 1):
        lines = text.splitlines(keepends=True)
        cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
        cell["execution_count"] = number
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
