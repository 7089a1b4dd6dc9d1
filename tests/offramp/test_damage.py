"""A store that lost something, or is no store: one sentence, status 3 or 2, and nothing is made anew in its place."""

import shutil

import pytest

from sinks.lock import LOCK, MARKER
from tests.offramp.kit import events, new_directory, run, write_lines

FILES = new_directory()


@pytest.fixture(scope="module")
def whole():
    assert run("classify", write_lines(FILES / "events", events()[:5]), "--store", FILES / "store").status == 0
    return FILES / "store"


@pytest.fixture
def store(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "store", symlinks=True)


VERBS = [
    ["audit"],
    ["query", "SELECT count() FROM v_exits WHERE NOT ignore(*)"],
    ["explain", events()[0]["event_id"]],
    ["classify", str(FILES / "events")],
]


def refusals(store):
    """What every verb says, each of which ends with 3."""
    done = [run(*verb, "--store", store) for verb in VERBS]
    assert [each.status for each in done] == [3] * len(VERBS)
    return [each.err for each in done]


@pytest.mark.parametrize("lost", ["engine/metadata", "engine/store", "engine"])
def test_lost_tables_are_not_made_anew(store, lost):
    shutil.rmtree(store / lost)
    for sentence in refusals(store):
        assert sentence.startswith(f"offramp: the store at {store} has lost its tables; restore it from a backup, or")


def test_a_lost_table_is_named(store):
    (definition,) = (store / "engine" / "store").rglob("terminal_events.sql")
    definition.unlink()
    assert all("the store has lost terminal_events; restore it" in sentence for sentence in refusals(store))


def test_changed_bytes_are_a_short_sentence(store):
    for data in (store / "engine" / "store").rglob("data.bin"):
        content = bytearray(data.read_bytes())
        content[len(content) // 2] ^= 1
        data.write_bytes(content)
    for sentence in refusals(store):
        assert "is damaged: Checksum doesn't match; restore the store, or" in sentence
        assert len(sentence) < 200


def test_an_engine_that_does_not_start_is_a_sentence(store):
    for definition in (store / "engine" / "store").rglob("*.sql"):
        definition.write_bytes(b"")
    done = run("audit", "--store", store)
    assert (done.status, done.err) == (
        3, f"offramp: the engine does not start on {store}/engine; restore what it names\n"
    )  # fmt: skip


def test_a_store_whose_first_owner_was_killed_before_it_had_tables_is_new(tmp_path, whole):
    (tmp_path / MARKER).touch()
    done = run("audit", "--store", tmp_path)
    assert (done.status, "there is no store" in done.err) == (3, True)
    assert run("classify", FILES / "events", "--store", tmp_path).status == 0


def test_a_lock_that_is_no_file_is_a_sentence(store):
    (store / LOCK).unlink()
    (store / LOCK).mkdir()
    done = run("audit", "--store", store)
    assert (done.status, done.err) == (
        2, f"offramp: {store / LOCK} cannot be used as the store's lock: Is a directory\n"
    )  # fmt: skip
