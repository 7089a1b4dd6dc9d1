"""``offramp table`` shows a table to people, and says what is wrong with one of theirs."""

import json

import pytest

from classifier.table import default_text, load
from tests.offramp.kit import run, run_alone

DEFAULT = load(default_text())


@pytest.fixture
def file(tmp_path):
    def write(*replaced):
        text = default_text()
        for old, new in replaced:
            assert old in text
            text = text.replace(old, new, 1)
        path = tmp_path / "mine.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_the_default_table_for_people():
    done = run_alone("table", "show", COLUMNS="80")
    assert done.status == 0
    lines = done.text.splitlines()
    assert max(map(len, lines)) <= 80
    places = [done.text.index(f"{number:>2} {row.row.id}: {row.kind}") for number, row in enumerate(DEFAULT.rows, 1)]
    assert places == sorted(places)
    assert f"digest {DEFAULT.digest}" in lines
    assert all(f"  {name}: {queue.owner}" in done.text for name, queue in DEFAULT.file.queues.items())
    assert "26 completion_unverified: completed (by switches.unverified_completion)" in lines
    assert "    reason child_run_open where not taken_over" in lines
    assert "    reason from the evidence of the denial, else blocking_denial" in lines


def test_the_table_for_programs():
    shown = json.loads(run("table", "show", "--format", "json").out)
    assert shown["table"] == DEFAULT.ref
    assert [(row["id"], row["kind"]) for row in shown["rows"]] == [(row.row.id, row.kind) for row in DEFAULT.rows]
    assert shown["thresholds"]["progress_repeats"] == 3
    assert set(shown["queues"]) == set(DEFAULT.file.queues)


def test_a_file_is_shown(file):
    path = file(('floor = "0.6"', 'floor = "0.75"'))
    assert "confidence_floor = 0.75" in run("table", "show", path).text


def test_a_usable_table_differs_in_words(file):
    path = file(('floor = "0.6"', 'floor = "0.7"'))
    done = run("table", "check", path)
    assert done.status == 0
    assert load(path.read_text()).digest in done.text
    assert "27 rows" in done.text
    assert "threshold confidence_floor is 0.7 instead of 0.6" in done.text
    answer = json.loads(run("table", "check", path, "--format", "json").out)
    assert answer["valid"] is True
    assert answer["differences"] == ["threshold confidence_floor is 0.7 instead of 0.6"]


def test_the_default_table_does_not_differ(file):
    assert "No differences" in run("table", "check", file()).text


def test_every_problem_is_listed_with_its_place(file):
    path = file(('when = "contradiction"', 'when = "contradction"'), ('queue = "access"', 'queue = "acess"'))
    done = run("table", "check", path)
    assert done.status == 1
    assert "row contradictory_evidence: when: column 1: contradction is no fact" in done.text
    assert "row authority_missing: queue: acess is not among the queues" in done.text
    answer = json.loads(run("table", "check", path, "--format", "json").out)
    assert (answer["valid"], len(answer["problems"])) == (False, 2)
    assert run("table", "show", path).status == 2


def test_what_cannot_be_read_is_no_table(tmp_path):
    (tmp_path / "bytes").write_bytes(b"id = \xff")
    for name, reason in (("none", "No such file"), ("bytes", "byte 5"), (".", "directory")):
        done = run("table", "check", tmp_path / name)
        assert done.status == 2
        assert reason in done.err
        assert done.out == b""
