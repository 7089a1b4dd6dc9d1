"""The default table is proved; tables that are broken on purpose are caught, each with an event that shows it."""

# ruff: noqa: E501  (one case a line, so that the cases read as tables)
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from classifier.decide import Classifier
from classifier.diagram import NEVER, Diagram
from classifier.facts import BY_NAME, FACTS, names
from classifier.invariants import RULES, prohibited
from classifier.proof import Failure, Kind, Proof, prove
from classifier.synthesis import event_for
from classifier.table import Table, default_text, load
from schemas.events import TerminalEvent
from schemas.exits import KINDS
from schemas.json_form import parse_json, to_json
from tests.classifier.spaces import draw, parsed, possible

TEXT = default_text()
HEAD, *_ROWS = TEXT.split("[[rows]]")
ROWS = {load(TEXT).file.rows[index].id: row for index, row in enumerate(_ROWS)}


def _table(rows: dict[str, str] | None = None, /, **changed: tuple[str, str]) -> Table:
    """The default table with the text of some rows changed, or with other rows."""
    rows = dict(rows or ROWS)
    for row_id, (old, new) in changed.items():
        assert old in rows[row_id]
        rows[row_id] = rows[row_id].replace(old, new)
    return load("[[rows]]".join([HEAD, *rows.values()]))


def _moved(row_id: str, before: str) -> dict[str, str]:
    """The rows with one standing before another."""
    rest = {other: text for other, text in ROWS.items() if other != row_id}
    at = list(rest).index(before)
    items = list(rest.items())
    return dict([*items[:at], (row_id, ROWS[row_id]), *items[at:]])


def _without(row_id: str) -> dict[str, str]:
    return {other: text for other, text in ROWS.items() if other != row_id}


# --- the default table


@pytest.fixture(scope="module")
def default_proof() -> Proof:
    return prove(load(TEXT))


def test_the_default_table_is_proved(default_proof):
    assert default_proof.failures == ()
    assert default_proof.holds
    assert default_proof.table == load(TEXT).ref


def test_so_is_the_table_with_its_switch_the_other_way():
    assert prove(load(TEXT.replace('completion = "completed"', 'completion = "human_queue"'))).holds


def test_it_says_how_large_the_space_was(default_proof):
    assert (default_proof.facts, default_proof.method) == (len(FACTS), "binary decision diagram")
    assert 1_000_000_000 < default_proof.assignments < 1 << len(FACTS)


def test_nothing_is_proved_of_nothing(default_proof):
    assert [obligation.claim for obligation in default_proof.obligations if not obligation.cases] == []


def test_every_invariant_that_speaks_of_facts_is_proved(default_proof):
    assert {obligation.invariant for obligation in default_proof.obligations} == {1, 2, 3, 4, 5, 6, 7, 8, 11}
    of_rules = [each for each in default_proof.obligations if each.kind is Kind.PROHIBITED]
    assert [each.invariant for each in of_rules] == [rule.number for rule in RULES]


def test_the_work_is_that_of_seconds_by_far():
    """No clock: the steps are counted. Four hundred thousand of them take some seconds."""
    assert prove(load(TEXT), most_steps=40_000).holds


def test_the_invariants_always_leave_an_exit():
    diagram = Diagram()
    ruled_out = {kind: [diagram.of(parsed(rule.when)) for rule in RULES if kind in rule.kinds] for kind in KINDS}
    assert diagram.every((possible(diagram), *map(diagram.any, ruled_out.values()))) == NEVER


def test_what_is_proved_is_what_is_decided():
    """Combinations drawn from the whole space: the table's own evaluator answers none with a prohibited exit,
    and verifies completions exactly where the predicate does."""
    table, diagram, rng = load(TEXT), Diagram(), Random(52)
    space = possible(diagram)
    for bits in (draw(diagram, space, rng) for _ in range(120)):
        verdict = table.decide(bits)
        assert verdict.kind not in prohibited(bits), names(bits)
        assert verdict.verified is (verdict.kind == "completed" and bool(bits & BY_NAME["predicate_satisfied"].bit))


# --- tables that are broken on purpose


class Broken(NamedTuple):
    """A table, what catches it, the rows at fault, and the facts of the smallest counter-example."""

    table: Table
    kind: Kind
    invariant: int
    rows: tuple[str, ...]
    facts: str | None
    text: str


BROKEN = {
    "a completion above the denial": Broken(
        _table(_moved("completion_verified", before="blocking_denial")),
        Kind.PROHIBITED, 2, ("completion_verified",), "predicate_satisfied standing_denial",
        "Row completion_verified decides completed; invariant 2 rules that out where standing_denial.",
    ),
    "a denial that goes to a queue": Broken(
        _table(blocking_denial=('exit = "refusal"\nreason_from = "denial"', 'exit = "human_queue"\nqueue = "policy"')),
        Kind.PROHIBITED, 2, ("blocking_denial",), "standing_denial",
        "Row blocking_denial decides human_queue; invariant 2 rules that out where standing_denial.",
    ),
    "a refusal without a denial": Broken(
        _table(authority_missing=("human_queue", "refusal")),
        Kind.PROHIBITED, 2, ("authority_missing",), "authority_missing required_path_failed",
        "Row authority_missing decides refusal; invariant 2 rules that out where not standing_denial.",
    ),
    "an ambiguity that is forgotten where it is unprotected": Broken(
        _table(ambiguous_side_effect=("and not idempotency_protected", "and idempotency_protected")),
        Kind.PROHIBITED, 3, ("fallback",),
        "ambiguous_effect eligible_fallback_ready truncated",
        "Row fallback decides fallback; invariant 3 rules that out where "
        "ambiguous_effect and not idempotency_protected.",
    ),
    "a row for people that is gone": Broken(
        _table(_without("contradictory_evidence")),
        Kind.PROHIBITED, 3, ("completion_verified", "fallback", "partial", "completion_unverified"),
        "contradiction predicate_satisfied",
        "Row completion_verified decides completed; invariant 3 rules that out where "
        "taken_over or child_run_open or contradiction.",
    ),
    "a completion with an omission": Broken(
        _table(completion_verified=("and not required_omission\n", "\n")),
        Kind.PROHIBITED, 8, ("completion_verified",), "omission predicate_satisfied required_omission",
        "Row completion_verified decides completed; invariant 8 rules that out where "
        "ambiguous_effect or required_omission or nonterminal_stop.",
    ),
    "a completion with an omission that may change it": Broken(
        _table(completion_verified=("and not omission_may_change_result ", "")),
        Kind.PROHIBITED, 4, ("completion_verified",), "omission omission_may_change_result predicate_satisfied",
        "Row completion_verified decides completed; invariant 4 rules that out where omission_may_change_result.",
    ),
    "a fallback that is not eligible": Broken(
        _table(fallback=("eligible_fallback_applied or", "dependency_failed or")),
        Kind.PROHIBITED, 5, ("fallback",), "dependency_failed required_path_failed",
        "Row fallback decides fallback; invariant 5 rules that out where "
        "not eligible_fallback_applied and not eligible_fallback_ready.",
    ),
    "a fallback before an unavailable policy": Broken(
        _table(_moved("fallback", before="policy_unavailable")),
        Kind.PROHIBITED, 6, ("fallback",), "eligible_fallback_ready policy_unavailable truncated",
        "Row fallback decides fallback; invariant 6 rules that out where "
        "policy_unavailable or approval_needed or authority_missing.",
    ),
    "a partial under low confidence": Broken(
        _table(_moved("partial", before="low_confidence")),
        Kind.PROHIBITED, 7, ("partial",), "omission result_confidence_low safe_partial",
        "Row partial decides partial; invariant 7 rules that out where "
        "confidence_below_floor or confidence_declining or result_confidence_low.",
    ),
    "a partial that is not safe": Broken(
        _table(partial=("omission and safe_partial", "omission")),
        Kind.PROHIBITED, 7, ("partial",), "omission",
        "Row partial decides partial; invariant 7 rules that out where not safe_partial.",
    ),
    "a claim that completes after a cut": Broken(
        _table(
            nonterminal_stop=("nonterminal_stop or truncated or", "nonterminal_stop or"),
            completion_unverified=("and stopped_normally ", ""),
        ),
        Kind.PROHIBITED, 8, ("completion_unverified",), "completion_claimed truncated",
        "Row completion_unverified decides completed; invariant 8 rules that out where "
        "(empty_response or truncated) and not predicate_satisfied.",
    ),
    "a claim that an evaluated predicate contradicts": Broken(
        _table(
            premature_completion=("(predicate_unsatisfied or predicate_unverifiable)", "predicate_unverifiable"),
            completion_unverified=("and not predicate_unsatisfied ", ""),
        ),
        Kind.PROHIBITED, 8, ("completion_unverified",), "completion_claimed predicate_unsatisfied stopped_normally",
        "Row completion_unverified decides completed; invariant 8 rules that out where "
        "not predicate_satisfied and (not completion_claimed or predicate_unsatisfied or predicate_unverifiable).",
    ),
    "a row that never holds": Broken(
        _table(no_progress=('when = "no_progress"', 'when = "truncated and not no_progress and model_declined"')),
        Kind.REACHABLE, 1, ("no_progress",), None,
        "Row no_progress never holds. A run has one stop class.",
    ),
    "a row that contradicts itself": Broken(
        _table(no_progress=('when = "no_progress"', 'when = "no_progress and not no_progress"')),
        Kind.REACHABLE, 1, ("no_progress",), None,
        "Row no_progress never holds. Its condition contradicts itself.",
    ),
    "a condition that stands twice": Broken(
        _table(no_progress=('when = "no_progress"', 'when = "budget_exhausted"')),
        Kind.REACHABLE, 1, ("no_progress", "budget_exhausted"), "budget_exhausted",
        "Row no_progress decides nothing: wherever it holds, an earlier row does (budget_exhausted).",
    ),
    "a row that two others leave nothing": Broken(
        _table(contradictory_evidence=('"contradiction"', '"taken_over or standing_denial and truncated"')),
        Kind.REACHABLE, 1, ("contradictory_evidence", "human_takeover", "blocking_denial"), "taken_over",
        "Row contradictory_evidence decides nothing: wherever it holds, an earlier row does "
        "(human_takeover, blocking_denial).",
    ),
    "a row that two others would each leave nothing": Broken(
        _table(
            no_progress=('"no_progress"\nexit', '"no_progress or budget_exhausted"\nexit'),
            malformed_evidence=('"malformed_observation"', '"budget_exhausted"'),
        ),
        Kind.REACHABLE, 1, ("malformed_evidence", "budget_exhausted"), "budget_exhausted",
        "Row malformed_evidence decides nothing: wherever it holds, an earlier row does (budget_exhausted).",
    ),
    "a catch-all in the middle": Broken(
        _table(no_progress=('when = "no_progress"', 'when = "no_progress or not no_progress"')),
        Kind.REACHABLE, 1, ("insufficient_evidence", "no_progress"), "",
        "Row insufficient_evidence decides nothing: wherever it holds, an earlier row does (no_progress).",
    ),
}  # fmt: skip


@cache
def _caught(name: str) -> Failure:
    """The failure that a case is about."""
    broken = BROKEN[name]
    found = [each for each in prove(broken.table).obligations if each.failure and each.kind is broken.kind]
    return next(
        each.failure
        for each in found
        if each.failure and each.invariant == broken.invariant and each.failure.rows[0] == broken.rows[0]
    )


@pytest.mark.parametrize("name", BROKEN)
def test_it_is_caught_with_a_smallest_counter_example(name):
    broken, failure = BROKEN[name], _caught(name)
    assert (failure.rows, failure.text) == (broken.rows, broken.text)
    assert (None if failure.bits is None else " ".join(failure.facts)) == broken.facts


@pytest.mark.parametrize("name", [name for name, broken in BROKEN.items() if broken.facts is not None])
def test_its_counter_example_reproduces_on_an_event(name):
    """The event that is printed, read again and classified by the broken table, meets the row at fault."""
    broken, failure = BROKEN[name], _caught(name)
    assert failure.bits is not None
    event = event_for(failure.bits, broken.table.thresholds)
    assert event is not None
    read = parse_json(to_json(event, TerminalEvent))
    decided = Classifier(broken.table).classify(read)
    assert decided.fact_bits == failure.bits
    culprit = failure.rows[broken.kind is Kind.REACHABLE]
    assert decided.classification["rule_id"] == culprit
    if broken.kind is Kind.PROHIBITED:
        assert decided.classification["reason_code"] == "table_violates_invariant"


def test_trouble_that_earns_a_better_exit_is_told_with_both_sides():
    proof = prove(
        _table(_without("contradictory_evidence"), completion_verified=('when = """', 'when = """contradiction and '))
    )
    failure = next(each.failure for each in proof.obligations if each.kind is Kind.MONOTONE and each.failure)
    assert failure.rows == ("completion_verified", "insufficient_evidence")
    assert failure.facts == ("contradiction", "predicate_satisfied")
    assert names(failure.before or 0) == ("predicate_satisfied",)
    assert failure.text == (
        "Row completion_verified decides completed where, without contradiction, "
        "row insufficient_evidence decides human_queue."
    )


class Emboldened(NamedTuple):
    """A table of a few rows, condition and exit, under which a trouble earns a better exit; facts before and after."""

    rows: tuple[tuple[str, str], ...]
    before: str
    after: str


EMBOLDENED = {
    "from a person to a fallback": Emboldened((("contradiction", "fallback"), ("true", "human_queue")), "", "contradiction"),
    "from a person to a partial": Emboldened((("contradiction", "partial"), ("true", "human_queue")), "", "contradiction"),
    "from a person to a completion": Emboldened((("contradiction", "completed"), ("true", "human_queue")), "", "contradiction"),
    "from a refusal": Emboldened((("truncated and not contradiction", "refusal"), ("true", "completed")), "truncated", "contradiction truncated"),
    "by a denial": Emboldened((("standing_denial", "completed"), ("true", "human_queue")), "", "standing_denial"),
    # What follows from a trouble changes with it: an open effect ends the safety of a partial, what happened twice happened.
    "by an effect, open, once the partial is not safe": Emboldened(
        (("safe_partial", "human_queue"), ("omission and not omission_may_change_result", "partial"), ("true", "human_queue")),
        "omission safe_partial", "ambiguous_effect omission",
    ),
    "by an effect, twice, once there is one": Emboldened(
        (("effect_took_place", "completed"), ("true", "human_queue")), "", "duplicate_effect effect_took_place"
    ),
    "by an effect, unapproved, once there is one": Emboldened(
        (("effect_took_place and not duplicate_effect", "completed"), ("true", "human_queue")), "", "effect_took_place unapproved_effect"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", EMBOLDENED.values(), ids=EMBOLDENED)
def test_trouble_that_earns_a_better_exit_is_told(case):
    rows = (
        f'id = "r{n}"\nwhen = "{when}"\nexit = "{kind}"\nqueue = "judgement"'
        for n, (when, kind) in enumerate(case.rows)
    )
    proof = prove(load("[[rows]]\n".join([HEAD, *(f"{row}\n" for row in rows)])))
    found = [each.failure for each in proof.obligations if each.kind is Kind.MONOTONE and each.failure]
    sides = [(" ".join(names(failure.before or 0)), " ".join(failure.facts)) for failure in found]
    assert (case.before, case.after) in sides


def test_pairs_are_counted_once(default_proof):
    """A denial goes with everything else, so every combination is one half of one pair."""
    cases = next(
        each.cases for each in default_proof.obligations if each.claim.startswith("Turning on standing_denial")
    )
    assert cases == default_proof.assignments // 2


def test_a_table_without_a_last_row_is_not_total():
    table = load(TEXT)
    proof = prove(replace(table, rows=table.rows[:-1]))
    (failure,) = proof.failures
    assert (failure.rows, failure.facts) == ((), ())
    assert failure.text == "No row holds, so the run gets no exit."


def test_neighbours_of_the_same_exit_may_change_places():
    """Rows 4 to 8 all hand over: their order decides only which reason is given, so every order is proved."""
    ids = [
        "duplicate_side_effect",
        "unapproved_effect",
        "human_takeover",
        "contradictory_evidence",
        "approval_required",
    ]
    for one, other in pairwise(ids):
        assert prove(_table(_moved(other, before=one))).holds


def test_a_table_too_entangled_to_prove_fails():
    pairs = " or ".join(f"({a.name} and {b.name})" for a, b in zip(FACTS[:20], FACTS[20:40], strict=True))
    proof = prove(_table(no_progress=('when = "no_progress"', f'when = "{pairs}"')), most_steps=50_000)
    (obligation,) = proof.obligations
    assert obligation.kind is Kind.TOO_COMPLEX
    assert not proof.holds
    assert proof.failures[0].text.startswith("The table cannot be proved: its conditions take more than 50000 steps")


def test_the_documentation_states_the_figures(default_proof):
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "what-is-proved.md").read_text("utf-8")
    for figure in (
        f"There are {default_proof.facts} facts",
        f"so {1 << default_proof.facts:,} combinations",
        f"The {default_proof.constraints} lines",
        f"They leave {default_proof.assignments:,} combinations",
        f"that is {len(default_proof.obligations)} obligations",
    ):
        assert figure in " ".join(page.split())
