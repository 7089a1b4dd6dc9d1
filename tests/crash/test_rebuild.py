"""A rebuild that is killed anywhere shows nothing of itself, and goes on where it was when it is run again."""

import json
import shutil
import signal

import pytest

from classifier.table import default_text
from tests.offramp.kit import ask, contents, counts, events, new_directory, run, run_alone, unaccounted, write_lines

SWITCH = ('unverified_completion = "completed"', 'unverified_completion = "human_queue"')
PAGE = 50
STEPS = 9
"""Of a rebuild of all events in pages of that size: each is a place to be killed after."""
EXITS = "SELECT tenant, event_id, kind, reason_code, table_digest FROM v_classifications ORDER BY ALL"


@pytest.fixture(scope="module")
def made():
    """A directory with a store of the default table, another table, and what is in a store that it rebuilt in peace."""
    directory = new_directory()
    (directory / "mine.toml").write_text(default_text().replace(*SWITCH), encoding="utf-8")
    run("classify", write_lines(directory / "events", events()), "--store", directory / "store")
    shutil.copytree(directory / "store", directory / "rebuilt", symlinks=True)
    done = killed(directory, directory / "rebuilt", "after", 0, 0)
    assert done.status == 0, done.err
    assert done.err.splitlines()[-1] == f"steps: {STEPS}"
    return directory, contents(directory / "rebuilt"), counts(directory / "rebuilt", raw=True)


def killed(directory, store, how, first, second):
    program = ("-m", "tests.crash.killed", how, str(first), str(second), str(PAGE))
    return run_alone("rebuild", "--store", store, "--table", directory / "mine.toml", "--workers", "0", program=program)


def rebuilt_again(directory, store):
    done = run("rebuild", "--store", store, "--table", directory / "mine.toml", "--format", "json")
    assert done.status == 0, done.err
    return json.loads(done.out)


@pytest.mark.parametrize("steps", range(1, STEPS + 1))
def test_killed_between_any_two_steps(tmp_path, made, steps):
    directory, inside, raw = made
    store = tmp_path / "store"
    shutil.copytree(directory / "store", store, symlinks=True)
    old = ask(store, EXITS)
    assert killed(directory, store, "after", steps, 0).status == -signal.SIGKILL
    complete = steps == STEPS  # the last step makes the table the current one
    assert (ask(store, EXITS) == old) is not complete
    done = counts(store)["exit_classifications"] - len(old)

    found = rebuilt_again(directory, store)
    assert (found["already"], found["read"]) == (done, len(old))
    assert contents(store) == inside
    assert counts(store, raw=True) == raw
    assert unaccounted(store) == 0


@pytest.mark.parametrize(("insert", "micros"), [(1, 0), (1, 1_000), (2, 500), (2, 3_000)])
def test_killed_in_the_middle_of_a_write(tmp_path, made, insert, micros):
    directory, inside, raw = made
    store = tmp_path / "store"
    shutil.copytree(directory / "store", store, symlinks=True)
    old = ask(store, EXITS)
    assert killed(directory, store, "during", insert, micros).status == -signal.SIGKILL
    assert ask(store, EXITS) == old
    rebuilt_again(directory, store)
    assert contents(store) == inside
    assert counts(store, raw=True) == raw
    assert unaccounted(store) == 0
