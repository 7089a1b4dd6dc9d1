"""Each answer for its reason, at the edge of each threshold, and never ready from nothing."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shadow.readiness import (
    PRECONDITIONS,
    STAGES,
    Answer,
    Counts,
    Noise,
    Reason,
    Seen,
    Tables,
    Thresholds,
    judge,
    readiness,
)
from shadow.statistics import bounds

T = Thresholds()
ALL = tuple(name for names in PRECONDITIONS.values() for name in names)
SEEN = Seen(1_000, 0, 0, (Tables("sha256:t", "0.1.0"),), Noise(0, 0, 0))
GOOD = Counts("refusal", "amount_ceiling", runs=200, agree=200, supports=100)


def reasons(answer):
    return [finding.reason for finding in answer.findings]


def of(stage, rows, seen=SEEN, **given):
    asked = {"declared": ALL, "thresholds": T, **given}
    return {each.stage: each for each in readiness(rows, seen, **asked)}[stage]


def everywhere(**changed):
    """Good counts in every stage but as said, by stage."""
    return [changed.get(stage, GOOD._replace(stage=stage)) for stage in STAGES]


# --- one reason code


def test_everything_shown_is_ready():
    found = judge(GOOD, T)
    assert (found.answer, found.more_runs, found.findings) == (Answer.READY, None, ())


@pytest.mark.parametrize(
    ("changed", "answer", "reason"),
    [
        ({"prohibited_exits": 1}, Answer.NOT_READY, Reason.PROHIBITED_EXITS),
        ({"runs": 99, "agree": 99, "supports": 99}, Answer.NEEDS_RUNS, Reason.TOO_FEW_RUNS),
        ({"runs": 223}, Answer.NOT_READY, Reason.COVERAGE_BELOW_FLOOR),
        ({"runs": 223, "unmapped": 23}, Answer.NOT_READY, Reason.COVERAGE_BELOW_FLOOR),
        ({"agree": 150, "disagree": 50}, Answer.NOT_READY, Reason.AGREEMENT_BELOW_FLOOR),
        ({"agree": 180, "disagree": 20}, Answer.NOT_READY, Reason.AGREEMENT_NOT_ABOVE_FLOOR),
        ({"agree": 185, "disagree": 15}, Answer.NEEDS_RUNS, Reason.AGREEMENT_UNSETTLED),
        ({"contradicts": 30}, Answer.NOT_READY, Reason.CONTRADICTIONS_ABOVE_LIMIT),
        ({"supports": 95, "contradicts": 5}, Answer.NOT_READY, Reason.CONTRADICTIONS_NOT_BELOW_LIMIT),
        ({"supports": 98, "contradicts": 2}, Answer.NEEDS_RUNS, Reason.CONTRADICTIONS_UNSETTLED),
        ({"supports": 0}, Answer.NEEDS_RUNS, Reason.CONTRADICTIONS_UNSETTLED),
    ],
)
def test_one_thing_amiss(changed, answer, reason):
    found = judge(GOOD._replace(**changed), T)
    assert (found.answer, reasons(found)) == (answer, [reason])


@pytest.mark.parametrize(
    "changed",
    [
        {"runs": 100, "agree": 100},
        {"runs": 222},  # 200 of 222 are 90.09 %
        {"runs": 223, "waiting": 1},  # a run that is waited for is not missed
        {"agree": 150, "disagree": 50, "supported": 50},
        {"agree": 150, "disagree": 50, "accepted": 50},
        {"agree": 0, "disagree": 200, "supported": 120, "accepted": 80},
        {"supports": 72},
        {"gaps": 200},
    ],
)
def test_what_stands_against_nothing(changed):
    assert judge(GOOD._replace(**changed), T).answer is Answer.READY


def test_seventy_one_answers_are_one_too_few():
    """72 without a contradiction are the fewest for a limit of 5 %; half of the runs here have an answer."""
    found = judge(GOOD._replace(runs=142, agree=142, supports=71), T)
    assert (found.answer, found.more_runs) == (Answer.NEEDS_RUNS, 2)


def test_without_an_answer_there_is_a_least_number():
    found = judge(GOOD._replace(supports=0), T)
    assert found.more_runs == 72
    assert "0 of 0 answered runs contradict" in found.findings[0].text


def test_the_most_that_is_needed_counts():
    found = judge(Counts("refusal", "r", runs=10, agree=10, supports=1), T)
    assert reasons(found) == [Reason.TOO_FEW_RUNS, Reason.AGREEMENT_UNSETTLED, Reason.CONTRADICTIONS_UNSETTLED]
    # 71 more answers, at one answer in ten runs.
    assert found.more_runs == 710


def test_what_runs_cannot_settle_gives_no_number():
    found = judge(GOOD._replace(runs=50, agree=50, supports=50, prohibited_exits=1), T)
    assert (found.answer, found.more_runs) == (Answer.NOT_READY, None)


def test_rates_with_bounds_that_hold_at_every_look():
    found = judge(GOOD._replace(agree=190, disagree=10, accepted=3, contradicts=2), T)
    assert found.unexplained == bounds(7, 200, 0.05)
    assert found.contradictions == bounds(2, 102, 0.05)


# --- stages


def test_stages_in_the_order_of_reversibility():
    found = readiness(everywhere(), SEEN, ALL, T)
    assert [each.stage for each in found] == ["refusal", "fallback", "partial", "human_queue"]
    assert {each.answer for each in found} == {Answer.READY}


def test_nothing_at_all_is_never_ready():
    for found in readiness([], replace(SEEN, events=0, tables=()), ALL, T):
        assert (found.answer, reasons(found), found.more_runs) == (Answer.NEEDS_RUNS, [Reason.NO_RUNS], 100)


def test_the_fewest_runs_are_those_that_the_limits_need():
    strict = Thresholds(minimum_runs=1, contradiction_limit=0.01)
    assert of("refusal", [], thresholds=strict).more_runs == 446


def test_a_stage_is_as_ready_as_its_least_ready_reason_code():
    rare = GOOD._replace(reason_code="rare", runs=20, agree=20, supports=20)
    found = of("refusal", [GOOD, rare])
    # 80 more of the rare code, that is one run in eleven.
    assert (found.answer, found.more_runs, reasons(found)) == (
        Answer.NEEDS_RUNS, 880, [Reason.REASON_CODES_NEED_RUNS],
    )  # fmt: skip
    bad = GOOD._replace(reason_code="bad", supports=0, contradicts=200)
    found = of("refusal", [GOOD, rare, bad])
    assert (found.answer, found.more_runs) == (Answer.NOT_READY, None)
    assert reasons(found) == [Reason.REASON_CODES_NOT_READY, Reason.REASON_CODES_NEED_RUNS]
    assert [finding.text for finding in found.findings] == ["not ready: bad", "more runs needed: rare"]


def test_the_most_frequent_reason_code_first():
    rows = [GOOD._replace(reason_code=code, runs=200 + runs) for code, runs in (("b", 0), ("c", 9), ("a", 0))]
    assert [code.counts.reason_code for code in of("refusal", rows).codes] == ["c", "a", "b"]


def test_what_is_left_out_has_no_say_and_is_not_hidden():
    bad = GOOD._replace(reason_code="bad", contradicts=200)
    found = of("refusal", [GOOD, bad], left_out=("bad",))
    assert (found.answer, found.left_out, found.runs) == (Answer.READY, (bad,), 200)
    found = of("refusal", [bad], left_out=("bad",))
    assert (found.answer, reasons(found)) == (Answer.NEEDS_RUNS, [Reason.NO_RUNS])


@pytest.mark.parametrize("stage", PRECONDITIONS)
def test_each_precondition_has_to_be_declared(stage):
    for name in PRECONDITIONS[stage]:
        found = of(stage, everywhere(), declared=set(ALL) - {name})
        assert (found.answer, reasons(found)) == (Answer.NOT_READY, [Reason.PRECONDITION_NOT_DECLARED])
        assert name in found.findings[0].text


def test_an_earlier_stage_holds_up_the_later_ones():
    held = GOOD._replace(stage="fallback", supports=50)
    found = readiness(everywhere(fallback=held), SEEN, ALL, T)
    assert [each.answer for each in found] == [
        Answer.READY, Answer.NEEDS_RUNS, Answer.NOT_READY, Answer.NOT_READY,
    ]  # fmt: skip
    assert reasons(found[2]) == [Reason.EARLIER_STAGE_NOT_READY]
    assert [finding.text for finding in found[3].findings] == [
        "fallback comes first, and is not ready", "partial comes first, and is not ready",
    ]  # fmt: skip


def test_a_stage_without_runs_holds_up_none():
    rows = [row for row in everywhere() if row.stage != "fallback"]
    found = readiness(rows, SEEN, ALL, T)
    assert [each.answer for each in found] == [Answer.READY, Answer.NEEDS_RUNS, Answer.READY, Answer.READY]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"prohibited_exits": 1}, Reason.PROHIBITED_EXITS),
        ({"tables": (*SEEN.tables, Tables("sha256:u", "0.1.0"))}, Reason.SEVERAL_TABLES),
        ({"tables": (*SEEN.tables, Tables("sha256:t", "0.2.0"))}, Reason.SEVERAL_TABLES),
        ({"events": 899, "event_missing": 101}, Reason.EVENTS_MISSING),
    ],
)
def test_what_concerns_every_stage(changed, reason):
    for found in readiness(everywhere(), replace(SEEN, **changed), ALL, T):
        assert (found.answer, found.findings[0].reason) == (Answer.NOT_READY, reason)


def test_events_at_the_floor_are_enough():
    assert of("refusal", everywhere(), replace(SEEN, events=900, event_missing=100)).answer is Answer.READY


def test_kinds_without_a_stage_are_no_stage():
    rows = [*everywhere(), GOOD._replace(stage="completed", contradicts=100), GOOD._replace(stage="", contradicts=100)]
    assert {each.answer for each in readiness(rows, SEEN, ALL, T)} == {Answer.READY}


def test_legacy_against_itself():
    assert Noise(100, 0, 0).interval == (0.0, 1.0)
    low, high = Noise(100, 40, 4).interval
    assert low < 0.1 < high


# --- properties


@st.composite
def counted(draw):
    runs = draw(st.integers(0, 400))
    waiting = draw(st.integers(0, runs))
    judged = draw(st.integers(0, runs - waiting))
    disagree = draw(st.integers(0, judged))
    supported = draw(st.integers(0, disagree))
    supports = draw(st.integers(0, runs))
    return Counts(
        draw(st.sampled_from((*STAGES, "completed"))), draw(st.sampled_from(("a", "b", "Ö'\""))), runs, waiting,
        runs - waiting - judged, judged - disagree, disagree, supported, draw(st.integers(0, disagree - supported)),
        supports, draw(st.integers(0, runs - supports)), draw(st.integers(0, 1)), draw(st.integers(0, runs)),
    )  # fmt: skip


@given(st.lists(counted(), unique_by=lambda row: (row.stage, row.reason_code)), st.sets(st.sampled_from(ALL)))
def test_an_answer_follows_from_its_findings(rows, declared):
    found = readiness(rows, SEEN, declared, T)
    assert found == readiness(list(reversed(rows)), SEEN, declared, T)
    for each in (*found, *(code for stage in found for code in stage.codes)):
        assert (each.answer is Answer.READY) == (not each.findings)
        assert (each.answer is Answer.NEEDS_RUNS) == (each.more_runs is not None)
        assert each.more_runs is None or each.more_runs > 0
    for stage in found:
        if stage.answer is Answer.READY:
            assert stage.codes
            assert all(code.answer is Answer.READY for code in stage.codes)


@given(counted())
def test_ready_means_what_it_says(counts):
    if judge(counts, T).answer is Answer.READY:
        assert counts.runs >= 100
        assert counts.prohibited_exits == 0
        assert counts.judged >= 0.9 * (counts.runs - counts.waiting)
        assert bounds(counts.unexplained, counts.judged, 0.05).high < 0.1
        assert bounds(counts.contradicts, counts.answered, 0.05).high < 0.05


@given(counted())
def test_a_worse_count_never_makes_it_ready(counts):
    if judge(counts, T).answer is not Answer.READY:
        assert judge(counts._replace(prohibited_exits=counts.prohibited_exits + 1), T).answer is Answer.NOT_READY
        if counts.supports:
            worse = counts._replace(supports=counts.supports - 1, contradicts=counts.contradicts + 1)
            assert judge(worse, T).answer is not Answer.READY


@pytest.mark.parametrize(
    "wrong",
    [
        {"minimum_runs": 0}, {"agreement_floor": 1.0}, {"agreement_floor": 0.0}, {"contradiction_limit": 0.0},
        {"alpha": 1.0}, {"alpha": float("nan")}, {"coverage_floor": 1.1}, {"coverage_floor": -0.1},
    ],
)  # fmt: skip
def test_thresholds_that_make_no_sense(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Thresholds(**wrong)
