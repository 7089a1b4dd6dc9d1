"""``offramp table check`` proves a table or refutes it; what is refuted decides nothing unless somebody insists."""

import json

import pytest

from classifier.decide import TABLE_VIOLATES_INVARIANT
from classifier.proof import METHOD, prove
from classifier.table import default_text, load
from tests.offramp.kit import as_lines, ask, events, run, run_alone

BAD = ("omission and safe_partial", "omission")
BOLD = ("unapproved_effect", "unapproved_effect and not standing_denial")
DEFAULT_PROOF = prove(load(default_text()))


@pytest.fixture
def file(tmp_path):
    def write(*replaced):
        text = default_text()
        for old, new in replaced:
            assert f'when = "{old}"' in text
            text = text.replace(f'when = "{old}"', f'when = "{new}"', 1)
        path = tmp_path / "mine.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def _shown(path, out):
    assert run("table", "check", path, "--events", out).status == 1
    return out.read_bytes().splitlines()


def test_the_default_table_is_proved_and_says_of_how_much():
    done = run_alone("table", "check", COLUMNS="80")
    assert done.status == 0
    assert max(map(len, done.text.splitlines())) <= 80
    said = " ".join(done.text.split())
    total = len(DEFAULT_PROOF.obligations)
    assert f"Proved by a {METHOD}: {total} of {total} obligations hold" in said
    assert f"{DEFAULT_PROOF.assignments:,} combinations of {DEFAULT_PROOF.facts} facts" in said
    assert "monotone 5 5" in said


def test_a_proof_for_programs(file):
    answer = json.loads(run("table", "check", file(), "--format", "json").out)
    proof = answer["proof"]
    assert (answer["valid"], proof["holds"]) == (True, True)
    assert proof["assignments"] == DEFAULT_PROOF.assignments
    assert [each["claim"] for each in proof["obligations"]] == [each.claim for each in DEFAULT_PROOF.obligations]
    assert all(each["holds"] and each["failure"] is None for each in proof["obligations"])


def test_what_fails_is_told_with_facts_and_an_event(file):
    path = file(BAD)
    done = run_alone("table", "check", path, COLUMNS="80")
    assert done.status == 1
    said = " ".join(done.text.split())
    assert "is not proved, so it decides nothing unless --unproven is given" in said
    assert "Row partial decides partial; invariant 4 rules that out where omission_may_change_result." in said
    assert "facts: omission, omission_may_change_result" in said
    answer = json.loads(run("table", "check", path, "--format", "json").out)
    failures = [each["failure"] for each in answer["proof"]["obligations"] if not each["holds"]]
    assert (answer["valid"], len(failures)) == (False, 3)
    printed = [json.loads(line) for line in done.text.splitlines() if line.startswith("{")]
    assert printed == [event for failure in failures for event in failure["events"]]


def test_its_events_reproduce_it(file, tmp_path):
    path, out = file(BAD), tmp_path / "shown.jsonl"
    assert len(_shown(path, out)) == 2
    done = run("classify", "--no-store", "--format", "ndjson", "--unproven", "--table", path, out)
    assert done.status == 0
    assert [(each["rule_id"], each["reason_code"]) for each in done.lines] == [
        ("partial", TABLE_VIOLATES_INVARIANT),
        ("partial", TABLE_VIOLATES_INVARIANT),
    ]


def test_a_change_that_emboldens_is_shown_before_and_after(file, tmp_path):
    path, out = file(("contradiction", "contradiction and model_declined")), tmp_path / "shown.jsonl"
    text = path.read_text().replace('when = """predicate_satisfied', 'when = """contradiction and predicate_satisfied')
    path.write_text(text)
    done = run("table", "check", path, "--format", "json", "--events", out)
    failures = {each["claim"]: each["failure"] for each in json.loads(done.out)["proof"]["obligations"]}
    shown = failures["Turning on contradiction never turns human_queue or refusal into completed, partial or fallback."]
    assert shown["facts_before"] == ["predicate_satisfied"]
    assert shown["facts"] == ["contradiction", "predicate_satisfied"]
    answers = run("classify", "--no-store", "--format", "ndjson", "--unproven", "--table", path, out).lines
    kinds = {answer["event_id"]: answer["rule_id"] for answer in answers}
    assert [kinds[event["event_id"]] for event in shown["events"]] == ["insufficient_evidence", "completion_verified"]


def test_a_row_that_never_holds_has_no_event(file):
    done = run("table", "check", file(("contradiction", "contradiction and not contradiction")), "--format", "json")
    failure = next(each["failure"] for each in json.loads(done.out)["proof"]["obligations"] if not each["holds"])
    assert (failure["facts"], failure["events"]) == (None, [])


VERBS = {
    "classify": ("classify", "-", "--no-store"),
    "load": ("load", "-"),
    "validate": ("validate", "-"),
    "explain": ("explain", events()[0]["event_id"], "--file", "-"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_table_that_fails_is_refused_with_a_counter_example(verb, file, tmp_path):
    path = file(BAD)
    where = ("--store", tmp_path / "store") if verb == "load" else ()
    done = run(*VERBS[verb], "--table", path, *where, stdin=as_lines(events()[:1]))
    assert (done.status, done.out) == (2, b"")
    assert f"{path} is not proved" in done.err
    assert "smallest counter-example: omission, omission_may_change_result" in done.err
    assert f"offramp table check {path}" in done.err
    assert "--unproven" in done.err


def test_the_exits_of_a_table_that_fails_say_so(file, tmp_path):
    path, store = file(BAD), tmp_path / "store"
    done = run("classify", "-", "--store", store, "--table", path, "--unproven", stdin=as_lines(events()[:3]))
    assert done.status == 0
    assert "unproven: the proof of this table fails" in done.err
    assert ask(store, "SELECT unproven, count() AS n FROM v_exits GROUP BY ALL") == [{"unproven": True, "n": 3}]


@pytest.mark.parametrize("replaced", [(), (BAD,)], ids=["proved", "failing"])
def test_a_line_says_unproven_only_where_the_proof_fails(replaced, file):
    argv = ("classify", "-", "--no-store", "--format", "ndjson", "--table", file(*replaced), "--unproven")
    [line] = run(*argv, stdin=as_lines(events()[:1])).lines
    assert line.get("unproven", False) is bool(replaced)


@pytest.mark.parametrize("replaced", [(), (BAD,)], ids=["proved", "failing"])
def test_an_explanation_says_so_too(replaced, file):
    argv = ("explain", events()[0]["event_id"], "--file", "-", "--table", file(*replaced), "--unproven")
    done = run(*argv, stdin=as_lines(events()[:1]))
    assert done.status == 0
    assert ("The proof of this table fails" in done.text) is bool(replaced)


def test_a_setting_allows_it_too(file, tmp_path):
    config = tmp_path / "offramp.toml"
    config.write_text(f'[classify]\ntable = "{file(BAD)}"\nunproven = true\n')
    argv = ("classify", "-", "--no-store", "--format", "ndjson", "--config", config)
    assert run(*argv, stdin=as_lines(events()[:1])).lines[0]["unproven"] is True


def test_a_table_that_fails_can_still_be_looked_at(file):
    assert run("table", "show", file(BAD)).status == 0


def test_events_that_cannot_be_written_are_told(file, tmp_path):
    done = run("table", "check", file(BAD), "--events", tmp_path / "none" / "shown.jsonl")
    assert done.status == 2
    assert "No such file" in done.err
