"""The regions of a difference are exactly the sets of facts whose exit changes."""

from decimal import Decimal
from random import Random
from typing import Any

import pytest

from classifier.decide import TABLE_VIOLATES_INVARIANT, Classifier
from classifier.diagram import Diagram
from classifier.facts import BY_NAME, names
from classifier.outcomes import outcomes
from classifier.run import Thresholds
from classifier.shift_event import shifting_event
from classifier.table import Table, default_text, load
from classifier.table_diff import CAUTION, DRIVEN, Direction, Region, regions, shifts, threshold_changes
from classifier.view import View
from schemas.events import Step
from schemas.exits import KINDS
from tests.classifier.spaces import draw, parsed, possible
from tests.strategies import random_event

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
    verdict = Classifier(table)._decide(bits).verdict
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


# --- thresholds

FLOOR, DECLINE, VETO, REPEATS = 'floor = "0.6"', 'decline = "0.2"', 'veto = "0.3"', "repeats = 3"


EDITS = {
    "confidence_floor": (FLOOR, ("0.5", "0.7"), "confidence_below_floor"),
    "confidence_decline": (DECLINE, ("0.3", "0.1"), "confidence_declining"),
    "confidence_veto": (VETO, ("0.25", "0.35"), "result_confidence_low"),
    "progress_repeats": (REPEATS, ("4", "2"), "no_progress"),
}


def other_number(text: str, number: str) -> tuple[str, str]:
    name, _, old = text.partition(" = ")
    return text, f'{name} = "{number}"' if old.startswith('"') else f"{name} = {number}"


@pytest.mark.parametrize("name", EDITS)
@pytest.mark.parametrize("tightens", [False, True])
def test_thresholds_of_the_default_table(name, tightens):
    text, numbers, fact = EDITS[name]
    other = edited(other_number(text, numbers[tightens]))
    [change] = threshold_changes(DEFAULT, other)
    assert (change.name, change.fact.name, change.turned_on) == (name, fact, tightens)
    assert regions(DEFAULT, other) == []
    first = Direction.TIGHTENS if tightens else Direction.LOOSENS
    assert [shift.direction for shift in shifts(DEFAULT, other)] == [first, Direction.MOVES]


def test_thresholds_are_numbers():
    same = edited((FLOOR, 'floor = "0.60"'))
    assert threshold_changes(DEFAULT, same) == []
    assert shifts(DEFAULT, same) == []


def caught(when: str, *more: tuple[str, str]) -> Table:
    """A table with a row that sends some runs to people before completions are verified."""
    row = f'id = "n"\nwhen = "{when}"\nexit = "human_queue"\nqueue = "judgement"'
    before = 'id = "completion_verified"'
    return edited((before, f"{row}\n\n[[rows]]\n{before}"), *more)


def caught_unless(fact: str, *more: tuple[str, str]) -> Table:
    return caught(f"predicate_satisfied and not {fact}", *more)


@pytest.mark.parametrize(
    ("fact", "edit"),
    [
        ("no_progress", (REPEATS, "repeats = 2")),
        ("confidence_below_floor", (FLOOR, 'floor = "0.7"')),
        ("confidence_declining", (DECLINE, 'decline = "0.1"')),
        ("result_confidence_low", (VETO, 'veto = "0.4"')),
    ],
)
def test_more_doubt_loosens_where_a_row_catches_those_that_are_sure(fact, edit):
    old, new = caught_unless(fact), caught_unless(fact, edit)
    first, *_ = shifts(old, new)
    assert first.direction is Direction.LOOSENS
    assert (first.before.rule_id, first.after.rule_id) == ("n", "completion_verified")
    assert first.facts == ("predicate_satisfied",)
    assert names(first.bits_after) == tuple(sorted(("predicate_satisfied", fact)))
    event = shifting_event(first.bits_before, first.bits_after, old, new)
    answers = [Classifier(table).classify(event).classification["rule_id"] for table in (old, new)]
    assert answers == ["n", "completion_verified"]


def test_a_threshold_that_no_row_asks_for_shifts_nothing():
    idle, busy = edited(without("no_progress")), edited(without("no_progress"), (REPEATS, "repeats = 9"))
    assert [change.name for change in threshold_changes(idle, busy)] == ["progress_repeats"]
    assert shifts(idle, busy) == []


def test_what_two_thresholds_do_together_is_told_where_neither_does_it_alone():
    alone = (without("no_progress"), without("low_confidence"))
    both = ((REPEATS, "repeats = 2"), (VETO, 'veto = "0.4"'))
    old = caught("predicate_satisfied and not no_progress and not result_confidence_low", *alone)
    new = caught("predicate_satisfied and not (no_progress and result_confidence_low)", *alone, *both)
    [loosens] = [shift for shift in shifts(old, new) if shift.direction is Direction.LOOSENS]
    assert [each.name for each in loosens.changes] == ["confidence_veto", "progress_repeats"]
    assert Direction.LOOSENS not in {region.direction for region in regions(old, new)}
    [loosens, *_] = shifts(old, caught("predicate_satisfied and not no_progress", *alone, *both))
    assert [each.name for each in loosens.changes] == ["progress_repeats"]


def test_a_shift_in_words():
    loosens, moves = shifts(DEFAULT, edited((FLOOR, 'floor = "0.5"')))
    assert loosens.sentence == (
        "With confidence_floor 0.5, so that confidence_below_floor no longer holds: human_queue "
        "(confidence_below_floor, queue judgement) by row low_confidence becomes partial (reason from the omission) by "
        "row partial where omission and safe_partial"
    )
    assert moves.sentence.endswith("becomes human_queue (insufficient_evidence, queue judgement)")
    assert loosens.facts == ("confidence_below_floor", "omission", "safe_partial")


def test_a_shift_counts_the_sets_of_the_other_facts():
    """Those that get a partial or a completion without the fact, and reach row low_confidence."""
    loosens, _ = shifts(DEFAULT, edited((FLOOR, 'floor = "0.5"')))
    diagram, ids = Diagram(), [row.row.id for row in DEFAULT.rows]
    conditions = [diagram.of(row.condition) for row in DEFAULT.rows]
    decided = [
        diagram.without(diagram.every((possible(diagram), conditions[place])), diagram.any(conditions[:place]))
        for place in (ids.index("partial"), ids.index("completion_unverified"))
    ]
    without_it = diagram.given(diagram.any(decided), BY_NAME["confidence_below_floor"], holds=False)
    assert loosens.assignments == diagram.count(without_it) // 2


def levels(text: str, *others: str) -> list[tuple[str, str]]:
    return [(text, f"{text.split(' ', maxsplit=1)[0]} = {other}") for other in others]


GRID = [
    levels(FLOOR, '"0"', '"0.4"', '"0.8"', '"1"'), levels(DECLINE, '"0"', '"0.1"', '"0.7"', '"1"'),
    levels(VETO, '"0"', '"0.2"', '"0.9"', '"1"'), levels(REPEATS, "2", "4", "7"),
]  # fmt: skip


def with_thresholds(rng: Random, *more: tuple[str, str]) -> Table:
    return edited(*(rng.choice(choices) for choices in GRID if rng.random() < 0.6), *more)


def direction_of(before: tuple[object, ...], after: tuple[object, ...]) -> Direction:
    change = CAUTION[str(after[0])] - CAUTION[str(before[0])]
    return Direction.LOOSENS if change < 0 else Direction.TIGHTENS if change else Direction.MOVES


@pytest.mark.parametrize("seed", range(4))
def test_exits_shift_only_as_is_said(seed):
    """Drawn pairs of sets, which differ as the thresholds allow, change exits only in directions that are told."""
    rng, diagram = Random(seed), Diagram()
    old, new = with_thresholds(rng), with_thresholds(rng, *((QUEUE, STRICT_ROW) if seed % 2 else ()))
    changes, found, space = threshold_changes(old, new), shifts(old, new), possible(diagram)
    seen = set[tuple[frozenset[str], Direction]]()
    for _ in range(60):
        bits, turned = draw(diagram, space, rng), [each for each in changes if rng.random() < 0.5]
        before = after = bits
        for each in turned:
            before, after = (
                (before & ~each.fact.bit, after | each.fact.bit)
                if each.turned_on
                else (before | each.fact.bit, after & ~each.fact.bit)
            )
        if turned and given(old, before) != given(new, after):
            seen.add((frozenset(each.name for each in turned), direction_of(given(old, before), given(new, after))))
    told = {(frozenset(each.name for each in shift.changes), shift.direction) for shift in found}
    for together, direction in seen:
        assert any(some <= together and direction is said for some, said in told), (together, direction)


QUEUE, STRICT_ROW = (
    ('queue = "takeover"', 'queue = "judgement"'),
    ('unverified_completion = "completed"', 'unverified_completion = "human_queue"'),
)


@pytest.mark.parametrize("seed", range(5))
def test_every_shift_has_an_event_that_shows_it(seed):
    rng = Random(seed)
    old, new = with_thresholds(rng), with_thresholds(rng)
    for shift in shifts(old, new):
        event = shifting_event(shift.bits_before, shift.bits_after, old, new)
        assert event is not None, shift
        for table, outcome in ((old, shift.before), (new, shift.after)):
            answer = Classifier(table).classify(event).classification
            assert (answer["kind"], answer["rule_id"]) == (outcome.kind, outcome.rule_id)
            assert outcome.reason_from or answer["reason_code"] == outcome.reason


def test_facts_that_exclude_each_other_have_no_event():
    bits = sum(BY_NAME[name].bit for name in ("predicate_satisfied", "predicate_unsatisfied"))
    assert shifting_event(bits, bits, DEFAULT, edited((FLOOR, 'floor = "0.5"'))) is None


def test_what_no_threshold_turns_has_no_event():
    floor = BY_NAME["confidence_below_floor"].bit
    assert shifting_event(0, floor, DEFAULT, edited((FLOOR, 'floor = "0.5"'))) is None
    assert shifting_event(floor, 0, DEFAULT, edited((FLOOR, 'floor = "0.5"'))) is not None


def some_steps(rng: Random) -> list[dict[str, object]]:
    """Steps on a coarse grid, so that many stand exactly at a threshold."""
    grid = (None, 0.0, 0.2, 0.4, 0.5, 0.6, 0.8, 1.0)
    return [
        dict.fromkeys(Step.model_fields)
        | {"action_key": rng.choice((None, "a", "a", "a")), "confidence_after": rng.choice(grid),
           "advanced": rng.choice((None, False, False, False, True)),
           "checks": {} if (check := rng.choice(grid)) is None else {"check": check}}
        for _ in range(rng.randrange(9))
    ]  # fmt: skip


def test_a_threshold_drives_its_fact_alone_and_in_one_direction():
    rng, turned = Random(5), set[tuple[str, bool]]()
    for _ in range(3000):
        event = random_event(rng) | {"steps": some_steps(rng)}
        old, new = some_thresholds(rng), some_thresholds(rng)
        before, after = (View(event, Thresholds(**each)).bits for each in (old, new))
        allowed = 0
        for name, (fact, greater_turns_on) in DRIVEN.items():
            key = name.partition("_")[2]
            change = Decimal(new[key]) - Decimal(old[key])
            on = (change > 0) is greater_turns_on
            if change and bool(after & fact.bit) is on:
                allowed |= fact.bit
            if (before ^ after) & fact.bit:
                turned.add((name, change > 0))
        assert (before ^ after) & ~allowed == 0
    assert len(turned) == 2 * len(DRIVEN)


CONFIDENCES = ("0", "0.2", "0.4", "0.5", "0.6", "0.8", "1")


def some_thresholds(rng: Random) -> dict[str, Any]:
    return {name: rng.choice(CONFIDENCES) for name in ("floor", "decline", "veto")} | {"repeats": rng.choice((2, 3, 4))}
