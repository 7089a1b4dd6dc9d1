"""``offramp table test`` runs labelled events against a table, and says what of the table they exercise."""

import json
import os

import pytest

from classifier.table import default_text
from tests.cases import load_cases
from tests.offramp.kit import ROOT, run, run_alone, write_lines

CASES = ROOT / "tests" / "cases"
GOOD = json.loads((CASES / "labelled.jsonl").read_text().splitlines()[0])


def _json(*argv):
    done = run("table", "test", *argv, "--format", "json")
    return done.status, json.loads(done.out)


@pytest.fixture
def stricter(tmp_path):
    """A table under which some cases fail: nobody's claim is worth a completion."""
    path = tmp_path / "stricter.toml"
    path.write_text(
        default_text().replace('unverified_completion = "completed"', 'unverified_completion = "human_queue"')
    )
    return path


def test_the_projects_cases_pass_and_exercise_everything():
    done = run_alone("table", "test", CASES, "--require-coverage", COLUMNS="80")
    assert done.status == 0, done.text
    assert max(map(len, done.text.splitlines())) <= 80
    said, total = " ".join(done.text.split()), len(load_cases())
    assert f"{total} cases, {total} pass, 0 fail, 0 without a label" in said
    assert "Exercised: 27 of 27 rows, and by masking MC/DC 45 of 45 feasible pairs" in said
    assert "Missing" not in said
    assert "row partial, omission: No run is such that not omission makes row partial not hold." in said


def test_a_case_that_fails_is_told_with_the_row_that_decided(stricter):
    status, answer = _json(CASES, "--table", stricter)
    failed = [case for case in answer["cases"] if case["fate"] == "failed"]
    assert status == 1
    assert failed
    assert len(failed) == answer["fates"]["failed"]
    assert {case["actual"]["rule_id"] for case in failed} == {"completion_unverified"}
    assert {(each["what"], each["expected"], each["actual"]) for case in failed for each in case["wrong"]} == {
        ("kind", "completed", "human_queue")
    }
    shown = " ".join(run("table", "test", CASES, "--table", stricter).text.split())
    for case in failed:
        assert f"{case['id']}: {case['title']} ({case['place']}) kind: expected completed, got human_queue" in shown
    assert "decided by row 26, completion_unverified" in shown


def test_what_is_missing_is_written_to_be_labelled(tmp_path):
    out, only = tmp_path / "missing.jsonl", CASES / "labelled.jsonl"
    done = run("table", "test", only, "--missing", out)
    assert (done.status, run("table", "test", only, "--require-coverage").status) == (0, 1)
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert records
    assert f"events to be labelled: {len(records)}" in done.err
    status, answer = _json(out)
    assert (status, answer["fates"]["unlabelled"]) == (0, len(records))
    assert answer["coverage"]["shown"] == 0

    for record in records:
        says = record["comment"]["table_says"]
        record["expect"] = {name: says[name] for name in ("kind", "reason_code", "verified", "obligations")}
        record["prohibited"] = says["prohibited"]
        assert record["comment"]["shows"]
    labelled = tmp_path / "cases"
    labelled.mkdir()
    write_lines(labelled / "new.jsonl", records)
    (labelled / "old.jsonl").write_bytes(only.read_bytes())
    status, answer = _json(labelled, "--require-coverage")
    assert (status, answer["coverage"]["complete"], answer["fates"]["failed"]) == (0, True, 0)


def test_what_is_no_case_costs_its_neighbours_nothing(tmp_path):
    file = write_lines(
        tmp_path / "cases.jsonl", ["{", json.dumps(GOOD), "", json.dumps(GOOD | {"expect": None}), "[" * 10**5]
    )
    status, answer = _json(file)
    assert (status, answer["fates"]["passed"]) == (1, 1)
    assert [fault["place"] for fault in answer["faults"]] == [f"{file}, line {number}" for number in (1, 4, 5)]
    assert "no valid JSON" in answer["faults"][0]["reason"]
    assert "give both" in answer["faults"][1]["reason"]
    assert "line 1: no valid JSON" in " ".join(run("table", "test", file).text.split())


def test_a_line_that_is_no_text_costs_itself_alone(tmp_path):
    lines = [b"\xef\xbb\xbf" + json.dumps(GOOD | {"id": "first"}).encode(), b'{"id": "\xff"}',
             json.dumps(GOOD | {"id": "sep\u2028arated"}, ensure_ascii=False).encode() + b"\r", b"   "]  # fmt: skip
    file = tmp_path / "cases.jsonl"
    file.write_bytes(b"\n".join(lines))
    (tmp_path / "other.json").write_bytes(b'{"id": "\xff"}')
    status, answer = _json(tmp_path)
    assert status == 1
    assert [(case["id"], case["place"]) for case in answer["cases"]] == [
        ("first", f"{file}, line 1"), ("sep\u2028arated", f"{file}, line 3")
    ]  # fmt: skip
    assert [fault["place"] for fault in answer["faults"]] == [f"{file}, line 2", str(tmp_path / "other.json")]
    assert all("no valid JSON: invalid unicode" in fault["reason"] for fault in answer["faults"])


@pytest.mark.parametrize("text", ["[]", "3", '"{}"', "null", json.dumps([GOOD])])
def test_a_json_file_that_is_no_object_is_told(tmp_path, text):
    (tmp_path / "cases.json").write_text(text)
    status, answer = _json(tmp_path / "cases.json")
    assert status == 1
    assert answer["faults"] == [
        {"place": str(tmp_path / "cases.json"), "reason": "a labelled event: must be a JSON object"}
    ]


def test_a_case_with_a_misspelt_key_is_one_case_and_no_variants(tmp_path):
    (tmp_path / "cases.json").write_text(json.dumps({"id": "one", "evnt": {}}))
    status, answer = _json(tmp_path)
    assert (status, [fault["reason"] for fault in answer["faults"]]) == (1, ["event: missing"])


def test_a_variant_is_an_object_and_no_text_of_one(tmp_path):
    (tmp_path / "cases.json").write_text(json.dumps({"base": GOOD, "flip": json.dumps(GOOD)}))
    status, answer = _json(tmp_path)
    assert (status, answer["fates"]["passed"]) == (1, 1)
    assert [fault["place"] for fault in answer["faults"]] == [f"{tmp_path / 'cases.json'}, flip"]


def opposed():
    """The same case asking for another exit."""
    return GOOD | {"expect": GOOD["expect"] | {"reason_code": "other"}}


def test_an_id_that_stands_twice_is_remarked(tmp_path):
    file = write_lines(tmp_path / "cases.jsonl", [GOOD, GOOD, GOOD | {"expect": None, "prohibited": None}])
    status, answer = _json(file)
    assert (status, answer["faults"]) == (0, [])
    places = "; ".join(f"{file}, line {number}" for number in (1, 2, 3))
    assert answer["remarks"] == [f"{GOOD['id']} stands 3 times: {places}"]
    assert f"{GOOD['id']} stands 3 times" in " ".join(run("table", "test", file).text.split())


def test_two_labels_of_one_id_are_an_error_whichever_passes(tmp_path):
    file = write_lines(tmp_path / "cases.jsonl", [GOOD | {"expect": None, "prohibited": None}, GOOD, opposed()])
    status, answer = _json(file)
    assert status == 1
    assert [fault["place"] for fault in answer["faults"]] == [f"{file}, line 3"]
    assert answer["faults"][0]["reason"].startswith(f"{GOOD['id']} has another label in {file}, line 2; give")
    assert answer["remarks"] == []


def test_a_variant_that_stands_twice_is_not_lost(tmp_path):
    name = tmp_path / "cases.json"
    nameless = [{key: value for key, value in case.items() if key != "id"} for case in (GOOD, opposed())]
    name.write_text(f'{{"base": {json.dumps(nameless[0])}, "base": {json.dumps(nameless[1])}}}')
    status, answer = _json(name)
    assert (status, len(answer["cases"]), len(answer["faults"])) == (1, 2, 1)


def test_files_without_a_case_do_not_pass(tmp_path):
    for name, text in (("blank.jsonl", "\n \n"), ("empty.jsonl", ""), ("empty.json", "{}")):
        (tmp_path / name).write_text(text)
        done = run("table", "test", tmp_path / name)
        assert (done.status, done.out) == (2, b"")
        assert "no labelled event in it, so nothing can be tested" in done.err
    assert run("table", "test", tmp_path).status == 2
    write_lines(tmp_path / "good.jsonl", [GOOD])
    status, answer = _json(tmp_path)
    assert status == 0
    empty = ("blank.jsonl", "empty.json", "empty.jsonl")
    assert answer["remarks"] == [f"{tmp_path / name}: no case in it" for name in empty]


def test_cases_that_nobody_labelled_are_said_to_test_nothing(tmp_path):
    file = write_lines(tmp_path / "cases.jsonl", [GOOD | {"expect": None, "prohibited": None}])
    status, answer = _json(file)
    assert (status, answer["remarks"]) == (0, ["no case has a label, so nothing is tested"])


def test_a_directory_or_a_pipe_is_no_file_whatever_it_is_called(tmp_path):
    (tmp_path / "odd.jsonl").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "to-it.jsonl").symlink_to(tmp_path / "odd.jsonl")
    write_lines(tmp_path / "good.ndjson", [GOOD])
    assert _json(tmp_path)[0] == 0


def test_a_link_to_cases_that_are_gone_is_told(tmp_path):
    write_lines(tmp_path / "good.jsonl", [GOOD])
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    done = run("table", "test", tmp_path)
    assert (done.status, done.out) == (2, b"")
    assert "gone.jsonl: No such file" in done.err


def test_a_json_file_holds_variants_or_one_case(tmp_path):
    nameless = {key: value for key, value in GOOD.items() if key != "id"}
    (tmp_path / "both.json").write_text(json.dumps({"base": nameless, "flip": nameless}, indent=1))
    (tmp_path / "one.json").write_text(json.dumps(nameless, indent=1))
    (tmp_path / "bad.json").write_text("{")
    status, answer = _json(tmp_path)
    assert [case["id"] for case in answer["cases"]] == ["both-base", "both-flip", "one"]
    assert (status, [fault["place"] for fault in answer["faults"]]) == (1, [str(tmp_path / "bad.json")])


def test_thresholds_that_leave_no_room_are_told(tmp_path):
    table = tmp_path / "no-floor.toml"
    table.write_text(default_text().replace('confidence_floor = "0.6"', 'confidence_floor = "0"'))
    done = run("table", "test", CASES / "labelled.jsonl", "--table", table, "--missing", tmp_path / "missing.jsonl")
    assert "1 more have no event under these thresholds" in done.err


def test_a_table_that_fails_is_refused_unless_told_otherwise(tmp_path):
    table = tmp_path / "bad.toml"
    table.write_text(default_text().replace('when = "omission and safe_partial"', 'when = "omission"'))
    assert run("table", "test", CASES, "--table", table).status == 2
    assert run("table", "test", CASES, "--table", table, "--unproven").status == 1


def test_a_table_too_entangled_is_told():
    done = run("table", "test", CASES, patches={"classifier.mcdc.measure.__kwdefaults__": {"most_steps": 10}})
    assert (done.status, done.out) == (1, b"")
    assert "take more than 10 steps to compare" in done.err


def test_what_cannot_be_read_is_told(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    for place, reason in ((tmp_path / "none", "No such file"), (empty, "no file of labelled events")):
        done = run("table", "test", place)
        assert (done.status, done.out) == (2, b"")
        assert reason in done.err


def test_what_was_read_is_not_written_over(tmp_path):
    file = write_lines(tmp_path / "cases.jsonl", [GOOD])
    table = tmp_path / "mine.toml"
    table.write_text(default_text())
    link = tmp_path / "link.jsonl"
    link.symlink_to(file)
    before = file.read_bytes()
    for out in (file, link, table):
        done = run("table", "test", file, "--table", table, "--missing", out)
        assert (done.status, done.out) == (2, b"")
        assert f"{out}: was read, so it is not written over" in done.err
    for verb in (("check", table, "--events", table), ("diff", "default", table, "--events", table)):
        assert run("table", *verb).status == 2
    assert (file.read_bytes(), table.read_text()) == (before, default_text())
    assert run("table", "test", file, "--missing", tmp_path / "new.jsonl").status == 0
    assert run("table", "test", file, "--missing", tmp_path / "new.jsonl").status == 0
