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


def test_what_is_for_people_decides_nothing():
    people = {"source": "own", "why": "it shows nothing", "comment": [1], "unknown_values": ["model.stop_class"]}
    assert _wrong(**people) == []


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
        {"expect": EXPECT | {"kind": "refusal"}, "prohibited": ["human_queue"]},
        "kind: expected refusal, got human_queue",
        "the exit human_queue is prohibited by the label",
    ),
}


@pytest.mark.parametrize(("changed", "texts"), [(changed, texts) for changed, *texts in WRONG.values()], ids=WRONG)
def test_what_is_answered_otherwise_is_told(changed, texts):
    assert _wrong(**changed) == texts


OPEN = EVENT | {"completion": {"claimed": True, "result": "satisfied"}}


def test_what_the_facts_leave_open_is_told_apart_from_the_exit():
    expect = EXPECT | {"kind": "completed", "verified": True, "reason_code": None}
    assert _wrong(event=OPEN, expect=expect, prohibited=["human_queue", "refusal"]) == [
        "the label prohibits human_queue, refusal; the facts rule out refusal, fallback, partial"
    ]
    assert _wrong(event=OPEN, expect=expect, prohibited=["refusal"]) == []
    expect |= {"kind": "partial", "verified": False}
    assert _wrong(event=OPEN, expect=expect, prohibited=["completed", "human_queue"])[2:] == [
        "the exit completed is prohibited by the label",
        "the label prohibits completed, human_queue; the facts rule out refusal, fallback, partial",
    ]


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
    "no object": ([], "^a labelled event: must be a JSON object$"),
    "no event": ({"id": "one", "expect": EXPECT, "prohibited": []}, "^event: missing$"),
    "no label": ({"id": "one", "event": EVENT}, "^expect: missing$"),
    "a label that is none": (GOOD | {"expect": "refusal"}, "^expect: must be a JSON object$"),
    "an event that is text": (GOOD | {"event": "{}"}, "^event: must be a JSON object$"),
    "one prohibited kind": (GOOD | {"prohibited": "refusal"}, "^prohibited: must be a list$"),
    "a kind that is null": (GOOD | {"expect": EXPECT | {"kind": None}}, "^expect.kind: must be 'completed', 'refusal'"),
    "a number for a name": (GOOD | {"id": 1}, "^id: must be text$"),
    "an empty name": (GOOD | {"id": ""}, "^id: must not be empty$"),
    "a word for a truth": (GOOD | {"expect": EXPECT | {"verified": "no"}}, "^expect.verified: must be true or false$"),
    "seconds for an instant": (GOOD | {"event": EVENT | {"occurred_at": 1_800_000_000}}, "occurred_at: must be ISO"),
    "what is expected and prohibited": (GOOD | {"prohibited": ["human_queue"]}, "^prohibited: rules out human_queue"),
    "half a label": (GOOD | {"expect": None}, "expect and prohibited: give both"),
    "an unknown kind": (GOOD | {"prohibited": ["error"]}, "^prohibited.0: must be 'completed'"),
    "a misspelt key": (GOOD | {"expected": EXPECT}, "^expected: nothing of that name may stand here$"),
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


AGREEING = {
    "the same": ({}, {}, True),
    "other order": ({"prohibited": ["completed", "partial"]}, {"prohibited": ["partial", "completed"]}, True),
    "one without a label": ({}, {"expect": None, "prohibited": None}, True),
    "another exit": ({}, {"expect": EXPECT | {"kind": "refusal"}}, False),
    "another prohibition": ({}, {"prohibited": []}, False),
}


@pytest.mark.parametrize(("one", "other", "agree"), AGREEING.values(), ids=AGREEING)
def test_labels_of_one_id_agree_or_not(one, other, agree):
    first, second = (read(GOOD | changed)[0] for changed in (one, other))
    assert first.agrees_with(second) is agree
    assert second.agrees_with(first) is agree
