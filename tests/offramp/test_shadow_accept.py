"""``offramp shadow accept`` keeps the file of accepted differences, and says what becomes of each entry."""

import json

import pytest

from shadow.accepted import parse
from tests.cases import load_cases
from tests.offramp.kit import companion, new_directory, run, write_lines

COMPLETED = [case for case in load_cases() if case.kind == "completed"][:4]
DENIED = next(case for case in load_cases() if case.kind == "refusal")
OURS = ("--owner", "platform", "--reason", "until the queue is staffed", "--ticket", "OPS-1")
DUE = ("--expires", "2090-01-01", "--ceiling", "0.5")
TICKETS = ("--disagreement", "over_escalation")


def exit_of(case, number, **fields):
    whose = {name: case.json[name] for name in ("tenant", "event_id")}
    return companion("legacy_exit", number, **whose, dispatcher="old", **fields)


@pytest.fixture(scope="module")
def store():
    """Five pairs: two tickets for completed runs, one of a tenant with an awkward name, two that agree, one denial that
    was answered as success."""
    directory = new_directory()
    awkward = {**COMPLETED[1].json, "tenant": "O'Brien \\ Söhne"}
    runs = [COMPLETED[0].json, awkward, COMPLETED[2].json, COMPLETED[3].json, DENIED.json]
    exits = [
        exit_of(COMPLETED[0], 0, label="ticket"),
        exit_of(COMPLETED[1], 1, label="ticket") | {"tenant": "O'Brien \\ Söhne"},
        exit_of(COMPLETED[2], 2, label="ok"),
        exit_of(COMPLETED[3], 3, label="ok"),
        exit_of(DENIED, 4, label="ok"),
    ]
    path = write_lines(directory / "runs.jsonl", [*runs, *exits])
    done = run("classify", path, "--store", directory / "store")
    assert done.status == 0, done.err
    return directory / "store"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "accepted.toml"


def accept(store, file, *arguments):
    return run("shadow", "accept", *arguments, "--file", file, "--store", store)


def test_an_entry_is_added_and_says_what_it_covers(store, file):
    done = accept(store, file, *TICKETS, *OURS, *DUE)
    assert done.status == 0, done.err
    assert "covers 2 of 5 paired runs (40.0%, interval " in done.text
    [entry] = parse(file.read_text("utf-8"))
    assert entry.predicate == {"disagreement": "over_escalation"}
    assert done.text.startswith(file.read_text("utf-8"))


def test_what_stands_in_the_file_stays(store, file):
    file.write_text("# ours\n\n", "utf-8")
    assert accept(store, file, *TICKETS, *OURS, *DUE).status == 0
    assert accept(store, file, "--disagreement", "denial_hidden", *OURS, *DUE).status == 0
    text = file.read_text("utf-8")
    assert text.startswith("# ours\n\n[[accepted]]\n")
    assert [entry.disagreement for entry in parse(text)] == ["over_escalation", "denial_hidden"]
    assert sorted(path.name for path in file.parent.iterdir()) == ["accepted.toml"]


def test_a_dry_run_writes_nothing(store, file):
    done = accept(store, file, *TICKETS, *OURS, *DUE, "--dry-run")
    assert done.status == 0
    assert "covers 2 of 5 paired runs" in done.text
    assert not file.exists()


def test_the_ceiling_is_of_the_runs_in_its_scope(store, file):
    whose = ("--tenant", "O'Brien \\ Söhne")
    refused = accept(store, file, *TICKETS, *whose, *OURS, *DUE)
    assert refused.status == 1
    assert "it covers 1 of 1 paired run (100.0%" in refused.err
    assert not file.exists()
    done = accept(store, file, *TICKETS, *whose, *OURS, *DUE[:2], "--ceiling", "1", "--format", "json")
    [entry] = json.loads(done.text)["entries"]
    assert (entry["covers"]["count"], entry["covers"]["of"], entry["state"]) == (1, 1, "stands")
    assert parse(file.read_text("utf-8"))[0].tenant == "O'Brien \\ Söhne"


def test_an_entry_that_would_not_stand_today_is_not_written(store, file):
    late = accept(store, file, *TICKETS, *OURS, "--expires", "2020-01-01", "--ceiling", "0.5")
    assert (late.status, "it expires at the beginning of 2020-01-01, UTC, which is past" in late.err) == (1, True)
    much = accept(store, file, *TICKETS, *OURS, *DUE[:2], "--ceiling", "0.399")
    assert (much.status, "over its ceiling of 0.399" in much.err) == (1, True)
    assert not file.exists()


def test_an_entry_that_covers_nothing_is_written_with_a_word(store, file):
    done = accept(store, file, *TICKETS, "--label", "tikcet", *OURS, *DUE)
    assert done.status == 0
    assert "it covers nothing that is stored" in done.err
    assert file.exists()


def test_a_period_narrows_what_is_counted(store, file):
    done = accept(store, file, *TICKETS, *OURS, *DUE, "--until", "1990-01-01", "--dry-run")
    assert (done.status, "covers 0 of 0 paired runs\n" in done.text) == (0, True)


def test_every_problem_of_an_entry_is_told(store, file):
    done = accept(store, file, "--kind", "error", "--owner", "", "--reason", "r", "--expires", "soon", "--ceiling", "x")
    assert done.status == 2
    for problem in ("kind: must be 'completed', ", "owner: must not be empty", "ticket: missing",
                    "expires: must be a date", "ceiling: must be a number"):  # fmt: skip
        assert f"\n  {problem}" in done.err
    nothing = accept(store, file, "--agent", "a", *OURS, *DUE)
    assert (nothing.status, "names no difference" in nothing.err) == (2, True)


def test_one_that_is_there_is_not_added_again(store, file):
    assert accept(store, file, *TICKETS, *OURS, *DUE).status == 0
    before = file.read_bytes()
    again = accept(store, file, *TICKETS, *OURS, *DUE)
    assert (again.status, "entry 2: accepts the same as entry 1" in again.err) == (2, True)
    assert file.read_bytes() == before


def written(file, *entries):
    same = 'owner = "platform"\nreason = "r"\nticket = "OPS-1"\n'
    file.write_text("".join(f"[[accepted]]\n{entry}\n{same}" for entry in entries), "utf-8")


def test_a_check_says_what_became_of_each(store, file):
    written(
        file,
        'disagreement = "denial_hidden"\nexpires = 2090-01-01\nceiling = 0.2',
        'disagreement = "over_escalation"\nexpires = 2090-01-01\nceiling = 0.2',
        'legacy_label = "ok"\nexpires = 2020-01-01\nceiling = 1',
    )
    done = accept(store, file, "--check", "--format", "json")
    assert done.status == 1
    answer = json.loads(done.text)
    assert answer["stands"] is False
    assert [(each["state"], each["covers"]["count"], each["covers"]["of"]) for each in answer["entries"]] == [
        ("stands", 1, 5), ("over ceiling", 2, 5), ("expired", 1, 5),
    ]  # fmt: skip
    shown = accept(store, file, "--check")
    lines = shown.text.splitlines()
    assert "accepted.toml: 3 accepted differences, 2 of them lapsed" in " ".join(shown.text.split())
    heads = [line for line in lines if line.endswith("OPS-1)")]
    assert [head.split(":")[0] for head in heads] == ["over ceiling", "expired", "stands"]
    assert "  covers 2 of 5 paired runs (40.0%, interval 11.8% to 76.9%), at most 20%" in lines
    assert "  until 2020-01-01; past that day its pairs are disagreements" in lines


def test_a_check_of_what_stands_ends_with_0_and_of_nothing_too(store, file):
    written(file, 'disagreement = "denial_hidden"\nexpires = 2090-01-01\nceiling = 0.2')
    assert accept(store, file, "--check").status == 0
    file.write_text("", "utf-8")
    done = accept(store, file, "--check")
    assert (done.status, "0 accepted differences" in " ".join(done.text.split())) == (0, True)


def test_what_cannot_be_used_or_read_is_a_matter_of_configuration(store, file):
    missing = accept(store, file, "--check")
    assert (missing.status, "No such file" in missing.err) == (2, True)
    file.write_text("[[accepted]]\nkind = 'completed'\n", "utf-8")
    broken = accept(store, file, "--check")
    assert (broken.status, "\n  entry 1: owner: missing" in broken.err) == (2, True)
    assert accept(store, file, *TICKETS, *OURS, *DUE).status == 2
    assert accept(store, file, "--check", *TICKETS).status == 2
    nowhere = run("shadow", "accept", *TICKETS, *OURS, *DUE, "--store", store)
    assert (nowhere.status, "no file is named" in nowhere.err) == (2, True)


def test_without_a_store_nothing_is_accepted(file, tmp_path):
    done = accept(tmp_path / "none", file, *TICKETS, *OURS, *DUE)
    assert done.status == 3
    assert not file.exists()
