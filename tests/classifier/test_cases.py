"""Every labelled case gets the exit that it must get, and none that it must not."""

import json

import pytest

from schemas.exits import KINDS, Classification
from tests.cases import INJECTIONS, Case, load_cases
from tests.classifier.answers import default_classifier

CASES = load_cases()
BY_ID = {case.id: case for case in CASES}


def _answer(case: Case) -> dict:
    return default_classifier().classify(case.event).classification


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.id}: {case.title}")
def test_case(case):
    answer = _answer(case)
    assert answer["kind"] == case.kind, answer["rule_id"]
    assert case.reason in (None, answer["reason_code"])
    assert answer["verified"] is case.verified
    assert case.obligations <= {owed["action"] for owed in answer["obligations"]}
    assert case.prohibited <= set(answer["prohibited"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_answer_keeps_its_contract(case):
    answer = _answer(case)
    assert Classification.model_validate(answer).model_dump() == answer
    assert answer["kind"] not in answer["prohibited"]
    assert answer["prohibited"] == [kind for kind in KINDS if kind in answer["prohibited"]]


def test_the_labels_contradict_nothing():
    assert len(BY_ID) == len(CASES) == 120 + 13 + 2 * len(INJECTIONS)
    assert {case.kind for case in CASES} == set(KINDS)
    assert [case.id for case in CASES if case.kind in case.prohibited] == []
    assert [case.id for case in CASES if not case.prohibited] == []
    assert [case.id for case in CASES if case.verified and case.kind != "completed"] == []


@pytest.mark.parametrize("name", INJECTIONS)
def test_a_flip_changes_the_exit(name):
    base, flip = BY_ID[f"{name}-base"], BY_ID[f"{name}-flip"]
    assert base.kind != flip.kind
    changed = {key for key in base.json.keys() | flip.json.keys() if base.json.get(key) != flip.json.get(key)}
    assert len(changed - {"event_id", "run_id"}) == 1


def test_other_words_change_nothing_but_identity_and_content():
    answers = [_answer(BY_ID[f"S21-{variant}"]) for variant in ("base", "flip")]
    for answer in answers:
        del answer["event_id"], answer["content_digest"]
    assert json.dumps(answers[0]) == json.dumps(answers[1])
