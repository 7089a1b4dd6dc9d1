"""The regions of a difference are exactly the sets of facts whose exit changes."""

from random import Random

import pytest

from classifier.decide import TABLE_VIOLATES_INVARIANT, Classifier
from classifier.diagram import Diagram
from classifier.outcomes import outcomes
from classifier.table import Table, default_text, load
from classifier.table_diff import CAUTION, Direction, Region, regions, threshold_changes
from schemas.exits import KINDS
from tests.classifier.spaces import draw, parsed, possible

TEXT = default_text()
DEFAULT = load(TEXT)


def edited(*replaced: tuple[str, str]) -> Table:
    text = TEXT
    for old, new in replaced:
        assert old in text
        text = text.replace(old, new, 1)
    return load(text)


def without(row: str) -> tuple[str, str]:
    start = TEXT.index(f'[[rows]]\nid = "{row}"')
    return TEXT[start : TEXT.index("[[rows]]", start + 1)], ""


STRICT = edited(('unverified_completion = "completed"', 'unverified_completion = "human_queue"'))
ELSEWHERE = edited(('queue = "takeover"', 'queue = "judgement"'))
SHORTER = edited(without("no_progress"), without("low_confidence"))
FINER = edited(
    ('id = "budget_exhausted"\n', 'id = "budget_exhausted"\nreasons = [{ code = "idle", when = "no_progress" }]\n')
)
OTHERWISE = edited(('reason_from = "omission"', 'reason = "left_out"'))
BROKEN = edited(('when = "standing_denial"\nexit = "refusal"\nreason_from = "denial"',
                 'when = "standing_denial or contradiction or omission"\nexit = "completed"'))  # fmt: skip
TABLES = {
    "strict": STRICT, "elsewhere": ELSEWHERE, "shorter": SHORTER, "finer": FINER, "otherwise": OTHERWISE,
    "broken": BROKEN,
}  # fmt: skip


def given(table: Table, bits: int) -> tuple[object, ...]:
    """What the classifier says, as far as facts tell it, the queue apart where the guard chose it."""
    verdict, *_ = Classifier(table)._verdict(bits)
    guarded = verdict.reason == TABLE_VIOLATES_INVARIANT
    queue = "effects" if guarded and verdict.kind == "human_queue" else verdict.queue
    return verdict.kind, verdict.reason, None if guarded else verdict.row.reason_from, queue


def holding(table: Table, bits: int) -> int:
    """The index of the outcome."""
    kind, reason, *_ = given(table, bits)
    rule = table.decide(bits).row.id
    [found] = {
        place
        for place, each in enumerate(outcomes(table))
        if (each.rule_id, each.kind, each.reason) == (rule, kind, reason)
    }
    return found


@pytest.mark.parametrize("name", TABLES)
def test_an_exit_changes_exactly_in_the_regions(name):
    table, diagram, rng = TABLES[name], Diagram(), Random(23)
    found = {region.index: region for region in regions(DEFAULT, table)}
    space = possible(diagram)
    for region in found.values():
        assert given(DEFAULT, region.bits) != given(table, region.bits)
        assert (holding(DEFAULT, region.bits), holding(table, region.bits)) == region.index
    for bits in (draw(diagram, space, rng) for _ in range(150)):
        index = (holding(DEFAULT, bits), holding(table, bits))
        assert (given(DEFAULT, bits) != given(table, bits)) == (index in found)


def test_regions_count_every_set_of_facts():
    diagram = Diagram()
    stuck = diagram.every((possible(diagram), diagram.of(parsed("no_progress and not standing_denial"))))
    earlier = [row.condition for row in DEFAULT.rows[: [row.row.id for row in DEFAULT.rows].index("no_progress")]]
    expected = diagram.count(diagram.without(stuck, diagram.any(map(diagram.of, earlier))))
    assert sum(region.assignments for region in regions(DEFAULT, edited(without("no_progress")))) == expected


def test_names_and_layout_change_nothing():
    same = edited(
        ('id = "default"', 'id = "mine"'), ("= 4\n", "= 4.0\n"), ("truncated or empty", "truncated  or empty")
    )
    assert regions(DEFAULT, same) == []
    renamed = edited(('id = "policy_unavailable"', 'id = "engine_down"\nreason = "policy_unavailable"'))
    assert regions(DEFAULT, renamed) == []


def sentences(found: list[Region]) -> list[str]:
    return [region.sentence for region in found]


def test_a_change_in_words():
    [only] = regions(STRICT, DEFAULT)
    assert only.direction is Direction.LOOSENS
    assert only.facts == ("completion_claimed", "stopped_normally")
    assert only.sentence.startswith(
        "human_queue (completion_unverified, queue judgement) becomes completed (completion_unverified) where "
        "completion_claimed and stopped_normally and not omission and "
    )
    assert [region.direction for region in regions(DEFAULT, STRICT)] == [Direction.TIGHTENS]
    assert sentences(regions(DEFAULT, ELSEWHERE))[1:] == [
        (
            "human_queue (human_takeover, queue takeover) becomes human_queue (human_takeover, queue judgement) "
            "where taken_over"
        ),
    ]
    assert sentences(regions(DEFAULT, OTHERWISE)) == [
        (
            "partial (reason from the omission) by row partial becomes partial (left_out) by row partial "
            "where omission and safe_partial"
        )
    ]


def test_what_loosens_comes_first():
    directions = [region.direction for region in regions(DEFAULT, SHORTER)]
    assert directions == sorted(directions, key=list(Direction).index)
    assert {Direction.LOOSENS, Direction.MOVES} <= set(directions)


def test_what_the_guard_does_counts():
    found = regions(DEFAULT, BROKEN)
    assert {region.after.kind for region in found} == {"refusal", "human_queue", "completed"}
    assert any(region.after.reason == TABLE_VIOLATES_INVARIANT for region in found)


def test_every_kind_has_its_caution():
    assert list(CAUTION) == sorted(CAUTION, key=CAUTION.__getitem__)
    assert CAUTION.keys() == set(KINDS)


@pytest.mark.parametrize(
    ("old", "new", "name", "direction"),
    [
        ('floor = "0.6"', 'floor = "0.5"', "confidence_floor", Direction.LOOSENS),
        ('floor = "0.6"', 'floor = "0.7"', "confidence_floor", Direction.TIGHTENS),
        ('decline = "0.2"', 'decline = "0.3"', "confidence_decline", Direction.LOOSENS),
        ('veto = "0.3"', 'veto = "0.25"', "confidence_veto", Direction.LOOSENS),
        ("repeats = 3", "repeats = 4", "progress_repeats", Direction.LOOSENS),
        ("repeats = 3", "repeats = 2", "progress_repeats", Direction.TIGHTENS),
    ],
)
def test_thresholds(old, new, name, direction):
    [change] = threshold_changes(DEFAULT, edited((old, new)))
    assert (change.name, change.direction) == (name, direction)
    assert regions(DEFAULT, edited((old, new))) == []


def test_thresholds_are_numbers():
    assert threshold_changes(DEFAULT, edited(('floor = "0.6"', 'floor = "0.60"'))) == []
