"""Arguments that are no text, which a shell passes on all the same."""

import pytest

from tests.cases import load_cases
from tests.offramp.kit import new_directory, run_alone, write_lines

NO_TEXT = "\udcff"
"""How Python reads the byte 0xff of a command line."""


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (("shadow", "readiness", "--tenant", NO_TEXT), "--tenant"),
        (("shadow", "readiness", "--without", "fine", "--without", f"a{NO_TEXT}"), "--without"),
        (("shadow", "compare", "--since", NO_TEXT), "--since"),
        (("shadow", "accept", "--owner", NO_TEXT), "--owner"),
        (("explain", NO_TEXT), "event_id"),
        (("status", "--store", f"/nowhere/{NO_TEXT}"), "--store"),
        (("query", f"SELECT '{NO_TEXT}'"), "sql"),
    ],
)
def test_what_is_no_text_is_named(argv, named):
    done = run_alone(*argv)
    assert (done.status, done.out) == (2, b"")
    assert f"'{named}'" in done.err
    assert "\\udcff" in done.err
    assert "is not UTF-8" in done.err


def test_a_file_may_be_called_anything():
    file = new_directory() / f"a{NO_TEXT}.jsonl"
    write_lines(file, [load_cases()[0].json])
    assert run_alone("classify", "--no-store", file).status == 0
    assert run_alone("classify", "--store", file.parent / "store", file).status == 0
