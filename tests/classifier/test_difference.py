"""Two tables differ in rows, numbers, switches and queues; layout and names make no difference."""

import pytest

from classifier.difference import differences
from classifier.table import default_text, load

DEFAULT = default_text()
LOW = "; ".join(
    f"{name} when {name}" for name in ("confidence_below_floor", "confidence_declining", "result_confidence_low")
)


def found(*replaced, text=DEFAULT):
    for old, new in replaced:
        assert old in text
        text = text.replace(old, new, 1)
    return differences(load(DEFAULT), load(text))


def test_a_table_does_not_differ_from_itself():
    assert found() == []
    assert (
        found(('id = "default"', 'id = "mine"'), ("and not ambiguous_effect and", "and not   ambiguous_effect\n and"))
        == []
    )


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('floor = "0.6"', 'floor = "0.7"', "threshold confidence_floor is 0.7 instead of 0.6"),
        ("repeats = 3", "repeats = 4", "threshold progress_repeats is 4 instead of 3"),
        ('"completed"   #', '"human_queue" #', "switch unverified_completion is human_queue instead of completed"),
        ("deadline_hours = 4", "deadline_hours = 1.5", "queue effects: deadline_hours is 1.5 instead of 4.0"),
        ('when = "taken_over or', 'when = "truncated or', ("row human_takeover: when is truncated or child_run_open "
          "instead of taken_over or child_run_open")),
        ('queue = "policy"', 'queue = "access"', "row policy_unavailable: queue is access instead of policy"),
        ('code = "conf', 'code = "low_conf', "row low_confidence: reasons is "
         + LOW.replace("conf", "low_conf", 1) + " instead of " + LOW),
        ('when = "duplicate_effect"\n', 'when = "duplicate_effect"\nreason = "twice"\n',
         "row duplicate_side_effect: reason is twice instead of none"),
    ],
)  # fmt: skip
def test_one_change_is_one_sentence(old, new, sentence):
    assert found((old, new)) == [sentence]


def test_rows_that_come_and_go():
    assert found(('id = "no_progress"', 'id = "stuck"')) == [
        "row no_progress is gone; it was row 20",
        "row stuck is new: row 20, human_queue in judgement when no_progress",
    ]


def test_a_row_that_moved_is_named_and_its_neighbours_are_not():
    parts = DEFAULT.split("[[rows]]")
    moved = "[[rows]]".join([*parts[:5], *parts[6:9], parts[5], *parts[9:]])
    assert found(text=moved) == ["row unapproved_effect moved from 5 to 8"]


def test_queues_that_come_and_go():
    assert found(("[queues.access]", "[queues.doors]"), ('queue = "access"', 'queue = "doors"')) == [
        "row authority_missing: queue is doors instead of access",
        "queue access is gone",
        (
            "queue doors is new: owner access administrators, deadline_hours 8.0, "
            "allowed_decisions grant_access; deny; reassign"
        ),
    ]
