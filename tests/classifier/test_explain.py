"""An explanation names the row, the facts, the fields behind them, and what would have been better."""

import copy
import random

import pytest

from classifier.change import changed, path_text, pattern_text
from classifier.condition import deciding, parse
from classifier.counterfactual import Exit, earned, exit_of, gaps_of
from classifier.evidence import MOST_PIECES, behind
from classifier.explain import explain
from classifier.facts import BY_NAME, names
from classifier.fields import fields_of, pieces_of, reduced
from classifier.invariants import prohibited
from classifier.view import View
from schemas.types import to_iso
from tests.cases import load_cases
from tests.classifier.answers import at, default_classifier, event
from tests.strategies import random_event

CLASSIFIER = default_classifier()
THRESHOLDS = CLASSIFIER.table.thresholds


def fields(fact, **parts):
    found = behind(event(**parts), THRESHOLDS)[fact]
    return {path_text(path): value for path, value in found}


WRITE = {"call_id": "c", "operation_id": "op-1", "access": "write"}


# --- changing an event


def test_a_changed_event_leaves_the_one_given_as_it_is():
    given = event(tool_calls=[WRITE, WRITE], model={"stop_class": "end"})
    before = copy.deepcopy(given)
    assert changed(given, ("tool_calls", 1, "access"), "read")["tool_calls"][1]["access"] == "read"
    assert changed(given, ("model", "stop_class"), None)["model"]["stop_class"] is None
    assert len(changed(given, ("tool_calls", 0), WRITE)["tool_calls"]) == 3
    assert given == before


def test_paths_as_text():
    path = ("policy_decisions", 2, "approval", "state")
    assert path_text(path) == "policy_decisions[2].approval.state"
    assert pattern_text(path) == "policy_decisions[].approval.state"


# --- the facts that decide a condition


@pytest.mark.parametrize(
    ("condition", "holding", "expected"),
    [
        ("taken_over", ["taken_over"], ["taken_over"]),
        ("taken_over or truncated", ["truncated"], ["truncated"]),
        ("taken_over or truncated", [], ["taken_over", "truncated"]),
        ("omission and safe_partial", ["omission"], ["safe_partial"]),
        ("omission and not safe_partial", ["omission"], ["omission", "safe_partial"]),
        ("omission and not (safe_partial or truncated)", ["omission", "truncated"], ["truncated"]),
        ("omission and (omission or truncated)", ["omission"], ["omission"]),
        ("true", ["omission"], []),
    ],
)
def test_deciding_facts(condition, holding, expected):
    bits = sum(BY_NAME[name].bit for name in holding)
    assert [fact.name for fact in deciding(parse(condition, BY_NAME), bits)] == expected


# --- evidence


def test_evidence_is_the_field_that_would_have_changed_it():
    assert fields("predicate_satisfied", completion={"claimed": True, "result": "satisfied"}) == {
        "completion.result": "satisfied"
    }


def test_absence_is_evidence_where_a_value_would_have_changed_it():
    found = fields("ambiguous_effect", tool_calls=[{**WRITE, "outcome": "timeout"}])
    assert found == {
        "tool_calls[0].access": "write",
        "tool_calls[0].outcome": "timeout",
        "tool_calls[0].effect_possible": None,
    }


def test_two_causes_are_both_named():
    calls = [{**WRITE, "operation_id": id_, "outcome": "timeout"} for id_ in ("op-1", "op-2")]
    found = fields("ambiguous_effect", tool_calls=calls)
    assert {"tool_calls[0].outcome", "tool_calls[1].outcome"} <= found.keys()


def test_of_two_signs_for_the_same_one_is_named():
    call = {**WRITE, "outcome": "error", "error_class": "UNAUTHENTICATED", "status_code": 401}
    assert fields("authority_missing", tool_calls=[call])["tool_calls[0].status_code"] == 401


def denial(id_, operation_id, when, **more):
    given = {"decision_id": id_, "policy_id": f"policy of {operation_id}", "operation_id": operation_id}
    return given | {"source": "application", "effect": "deny", "decided_at": at(when)} | more


@pytest.mark.parametrize("order", range(6))
def test_a_lifted_denial_is_no_evidence(order):
    lifted, lifting = denial("d1", "op-1", -30), denial("d2", "op-1", -20, effect="allow")
    standing = denial("d3", "op-2", -25)
    decisions = random.Random(order).sample([lifted, lifting, standing], 3)
    found = behind(event(policy_decisions=decisions), THRESHOLDS)["standing_denial"]
    assert {decisions[path[1]]["decision_id"] for path, _ in found} == {"d3"}


def test_of_several_attempts_the_last_is_named():
    calls = [{**WRITE, "access": "read", "outcome": outcome, "attempt": n} for n, outcome in ((1, "ok"), (2, "error"))]
    assert "tool_calls[1].outcome" in fields("required_path_failed", tool_calls=calls)
    assert "tool_calls[0].outcome" not in fields("required_path_failed", tool_calls=calls)


def test_low_confidence_names_the_last_step_only():
    steps = [{"confidence_after": 0.1}, {"confidence_after": 0.2}]
    assert fields("confidence_below_floor", steps=steps) == {"steps[1].confidence_after": 0.2}


def test_a_fact_of_an_empty_record_rests_on_nothing():
    assert fields("stopped_normally") == {}
    assert fields("stopped_normally", model={"stop_class": "end"}) == {"model.stop_class": "end"}


def test_an_instant_is_shown_as_the_contract_writes_it():
    fallback = {"version": "1", "inputs_digest": "d", "source": "cached", "triggers": ["timeout"], "access": "read",
                "reference_data_version": "1", "observed_at": at(-5), "max_age_s": 9, "preconditions_met": True,
                "shares_failed_dependency": False, "uses_model_judgement": False}  # fmt: skip
    call = {"access": "read", "outcome": "timeout"}
    found = fields("eligible_fallback_ready", fallbacks=[fallback], tool_calls=[call])
    assert found["fallbacks[0].observed_at"] == to_iso(at(-5))
    assert found["fallbacks[0].max_age_s"] == 9


def test_fencing_token_of_the_run_is_evidence():
    found = fields("fence_violation", fencing_token=19, tool_calls=[{**WRITE, "outcome": "ok", "fencing_token": 17}])
    assert found["fencing_token"] == 19
    assert found["tool_calls[0].fencing_token"] == 17


def test_a_record_of_many_pieces_still_names_its_cause():
    calls = [{**WRITE, "operation_id": f"op-{n}", "outcome": "ok"} for n in range(MOST_PIECES + 20)]
    calls[40]["outcome"] = "timeout"
    assert "tool_calls[40].outcome" in fields("required_path_failed", tool_calls=calls)


@pytest.mark.parametrize("seed", range(150))
def test_evidence_of_a_fact_is_enough_for_it(seed):
    given = random_event(random.Random(seed))
    found = behind(given, THRESHOLDS)
    assert sorted(found) == list(names(View(given, THRESHOLDS).bits))
    for name, evidence in found.items():
        cited = {path[:2] for path, _ in evidence} | {path[:1] for path, _ in evidence}
        # Without its calls a model turn would say that nothing was called, which is another story.
        called = ("model",) in cited
        kept = [p for p in pieces_of(given) if p.path in cited or (called and p.name == "tool_calls")]
        held = View(reduced(given, kept), THRESHOLDS).bits & BY_NAME[name].bit
        assert held, (name, evidence)


def test_fields_have_other_values_only():
    given = random_event(random.Random(7))
    every = [field for piece in pieces_of(given) for field in fields_of(given, piece)]
    assert len({field.path for field in every}) == len(every) > 20
    assert [field for field in every if field.value in field.others] == []


# --- what would have been better


def test_a_gap_earns_a_better_exit():
    given = event(
        components=[{"name": "a", "state": "completed"}, {"name": "b", "required": False, "state": "omitted"}]
    )
    explanation = explain(given, CLASSIFIER)
    [gap] = explanation.gaps
    assert gap.text == "component b: can_change_result missing"
    assert gap.earns == Exit("partial", "partial", "partial", verified=False)
    assert explanation.all_gaps_earn == gap.earns


def test_gaps_may_only_help_together():
    components = [{"name": name, "required": False, "state": "omitted"} for name in "ab"]
    given = event(components=[{"name": "c", "state": "completed"}, *components])
    explanation = explain(given, CLASSIFIER)
    assert [gap.earns for gap in explanation.gaps] == [None, None]
    assert explanation.all_gaps_earn is not None
    assert explanation.all_gaps_earn.kind == "partial"


def test_what_is_as_good_is_not_better():
    given = event(tool_calls=[{"outcome": "timeout", "access": "read"}], model={})
    now = exit_of(CLASSIFIER.classify(given).classification)
    assert [earned(CLASSIFIER, given, now, [gap]) for gap in gaps_of(CLASSIFIER, given)] == [None, None]


def test_exits_from_best_to_worst():
    kinds = ("completed", "fallback", "partial", "refusal", "human_queue")
    ranks = [
        Exit("completed", "", "", verified=True).rank,
        *(Exit(kind, "", "", verified=False).rank for kind in kinds),
    ]
    assert ranks == [0, 1, 2, 2, 3, 4]


# --- the whole


@pytest.mark.parametrize("case", load_cases(), ids=lambda case: case.id)
def test_every_case_is_explained(case):
    bits = CLASSIFIER.classify(case.event).fact_bits
    explanation = explain(case.event, CLASSIFIER)
    assert explanation.classification == CLASSIFIER.classify(case.event).classification
    assert explanation.row.rule_id == explanation.classification["rule_id"]
    assert len(explanation.earlier) == explanation.row.number - 1
    assert all(row.why_not for row in explanation.earlier)
    shown = [fact.name for fact in (*explanation.deciding, *explanation.other_facts) if fact.holds]
    assert sorted(shown) == explanation.classification["facts"]
    assert [ruled.kind for ruled in explanation.ruled_out] == prohibited(bits)
    assert all(ruled.invariants for ruled in explanation.ruled_out)
    needs_somebody = explanation.classification["kind"] == "human_queue" or explanation.classification["obligations"]
    assert (explanation.packet is not None) == bool(needs_somebody)


def test_a_row_that_did_not_hold_says_which_facts_kept_it():
    explanation = explain(event(completion={"claimed": True, "result": "satisfied"}), CLASSIFIER)
    assert explanation.row.rule_id == "completion_verified"
    whys = {row.rule_id: row.why_not for row in explanation.earlier}
    assert whys["blocking_denial"] == ["not standing_denial"]
    assert whys["model_refusal_unverified"] == ["not model_declined"]
    decisive = {fact.name: fact.holds for fact in explanation.deciding}
    assert decisive["predicate_satisfied"] is True
    assert decisive["fallback_applied"] is False
