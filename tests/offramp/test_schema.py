"""``offramp schema`` prints what is published, and every code with its meaning; the pages say the same."""

import json
from pathlib import Path

import pytest

from classifier.facts import FACTS, FINDINGS
from classifier.gaps import KINDS
from offramp.reference import LISTINGS, markdown, write
from schemas.contract import PUBLISHED
from schemas.errors import ErrorCode
from schemas.published import avro, json_schema
from tests.cases import load_cases
from tests.classifier.answers import default_classifier
from tests.offramp.kit import run, run_alone

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_schema_is_the_published_one(name):
    assert json.loads(run("schema", name, "--as", "avro").out) == avro(name)
    assert json.loads(run("schema", name, "--as", "json-schema").out) == json_schema(name)
    assert json.loads(run("schema", name).out) == json_schema(name)


def test_without_a_name_all_names_are_listed():
    lines = json.loads(run("schema", "--format", "json").out)
    assert [line["name"] for line in lines] == [*PUBLISHED, *LISTINGS]
    assert all(line["what"] for line in lines)
    shown = run("schema")
    assert shown.status == 0
    assert all(f" {line['name']} " in shown.text for line in lines)


CODES = {
    "facts": [fact.name for fact in FACTS],
    "findings": [finding.code for finding in FINDINGS],
    "gaps": [kind.code for kind in KINDS],
    "errors": [code.value for code in ErrorCode],
}


@pytest.mark.parametrize("name", CODES)
def test_a_list_has_every_code_once_with_a_meaning(name):
    lines = json.loads(run("schema", name, "--format", "json").out)
    assert [next(iter(line.values())) for line in lines] == CODES[name]
    meanings = [line["meaning"] for line in lines]
    assert all(meanings)
    assert len(set(meanings)) == len(meanings)


def test_reasons_of_all_cases_are_listed_or_come_from_the_evidence():
    listed = {line["reason"] for line in json.loads(run("schema", "reasons", "--format", "json").out)}
    for case in load_cases():
        answer = default_classifier().classify(case.event).classification
        own = {d["reason_code"] for d in case.event["policy_decisions"]}
        own |= {c["reason_code"] for c in case.event["components"]}
        assert answer["reason_code"] in listed | own


@pytest.mark.parametrize("name", LISTINGS)
def test_pages_are_current(name):
    message = "run python -m offramp.reference"
    assert (REFERENCE / f"{name}.md").read_text(encoding="utf-8") == markdown(LISTINGS[name]()), message


def test_pages_are_written_whole(tmp_path):
    pages = write(tmp_path / "new")
    assert [page.stem for page in pages] == list(LISTINGS)
    cells = {line.count(" | ") for line in (tmp_path / "new" / "facts.md").read_text().splitlines() if line[:1] == "|"}
    assert cells == {2}


def test_lists_fit_a_terminal():
    shown = run_alone("schema", "reasons", COLUMNS="80").text
    assert max(map(len, shown.splitlines())) <= 80
    assert "dependency_failed_no_fallback" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope"], "terminal-event"),
        (["facts", "--as", "avro"], "--as"),
        (["--as", "avro"], "--as"),
        (["envelope", "--format", "json"], "--format"),
    ],
)
def test_misuse_says_what_to_do(arguments, said):
    ran = run("schema", *arguments)
    assert ran.status == 2
    assert ran.out == b""
    assert said in ran.err
