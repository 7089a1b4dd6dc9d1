"""Labelled events are read as written, and what is answered otherwise is told."""

import pytest

from classifier.labels import LabelError, mismatches, read
from tests.classifier.answers import IDENTITY, default_classifier

EXPECT = {"kind": "human_queue", "reason_code": "insufficient_evidence", "verified": False, "obligations": []}
EVENT = IDENTITY | {"occurred_at": "2026-11-30T08:00:00Z"}
GOOD = {"id": "one", "event": EVENT, "expect": EXPECT, "prohibited": ["completed"]}


def _wrong(**changed):
    labelled, event = read(GOOD | changed)
    return [each.text for each in mismatches(labelled, default_classifier().classify(event).classification)]


def test_what_is_answered_as_it_must_be_is_not_wrong():
    assert _wrong() == []


WRONG = {
    "kind": ({"expect": EXPECT | {"kind": "refusal"}}, "kind: expected refusal, got human_queue"),
    "reason": (
        {"expect": EXPECT | {"reason_code": "other"}},
        "reason_code: expected other, got insufficient_evidence",
    ),
    "verified": ({"expect": EXPECT | {"verified": True}}, "verified: expected True, got False"),
    "obligations": (
        {"expect": EXPECT | {"obligations": ["reconcile"]}},
        "obligations: expected reconcile, got none",
    ),
    "prohibited": (
        {"prohibited": ["human_queue"]},
        "prohibited: expected human_queue, got completed, refusal, fallback, partial",
    ),
}


@pytest.mark.parametrize(("changed", "text"), WRONG.values(), ids=WRONG)
def test_what_is_answered_otherwise_is_told(changed, text):
    assert _wrong(**changed) == [text]


def test_an_open_reason_may_be_any():
    assert _wrong(expect=EXPECT | {"reason_code": None}) == []


def test_what_nobody_has_labelled_is_not_wrong():
    assert _wrong(expect=None, prohibited=None) == []


NAMES = {
    "by its id": ({"id": "one"}, "one"),
    "by case and variant": ({"id": None, "case": "S1", "variant": "flip"}, "S1-flip"),
    "by its case": ({"id": None, "case": "S1"}, "S1"),
    "by where it stands": ({"id": None}, "there"),
}


@pytest.mark.parametrize(("changed", "name"), NAMES.values(), ids=NAMES)
def test_it_is_named(changed, name):
    assert read(GOOD | changed, "there")[0].name == name


NO_LABEL = {
    "no object": ([], "LabelledEvent"),
    "no event": ({"id": "one", "expect": EXPECT, "prohibited": []}, "event: Field required"),
    "no label": ({"id": "one", "event": EVENT}, "expect: Field required"),
    "half a label": (GOOD | {"expect": None}, "expect and prohibited: give both"),
    "an unknown kind": (GOOD | {"prohibited": ["error"]}, "prohibited.0: Input should be"),
    "a misspelt key": (GOOD | {"expected": EXPECT}, "expected: Extra inputs are not permitted"),
    "an event that is none": (GOOD | {"event": {"type": "terminal_event"}}, "event: "),
    "a companion": (
        GOOD | {"event": {"type": "enrichment", "version": 1, "record_id": "r", "tenant": "t", "event_id": "e",
                          "occurred_at": "2026-11-30T08:00:00Z"}},
        "event: the type enrichment has no exit",
    ),
    "no name": (GOOD | {"id": None}, "id: missing"),
}  # fmt: skip


@pytest.mark.parametrize(("raw", "reason"), NO_LABEL.values(), ids=NO_LABEL)
def test_what_is_no_labelled_event_is_refused_with_a_reason(raw, reason):
    with pytest.raises(LabelError, match=reason):
        read(raw)
