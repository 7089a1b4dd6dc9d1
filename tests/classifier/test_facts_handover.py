"""Failed paths, fallbacks, components and asserted decisions, at their boundaries."""

# ruff: noqa: E501, FBT003  (one case a line: a sentence, what it expects, the evidence)
from typing import Any

import pytest

from tests.classifier.answers import answer, at, exit_of, facts

Event = dict[str, Any]
SATISFIED = {"claimed": True, "result": "satisfied"}


def _read(outcome: str | None, operation: str | None = "op-1", **more: Any) -> Event:
    return {"operation_id": operation, "tool": "lookup", "access": "read", "outcome": outcome} | more


def _fallback(**more: Any) -> Event:
    own = {"fallback_id": "f-1", "version": "1", "source": "default", "triggers": ["timeout"], "access": "read"}
    own |= {"inputs_digest": "sha256:1f", "shares_failed_dependency": False, "uses_model_judgement": False}
    return own | {"preconditions_met": True, "applied": False, "disclosed": True} | more


def _row(sentence: str, *expected: Any, **parts: Any) -> Any:
    return pytest.param(*expected, parts, id=sentence)


# --- required paths

PATHS = [
    *(_row(f"a required call that ended in {o}", True, tool_calls=[_read(o)]) for o in ("error", "timeout", "unavailable", "circuit_open", "malformed", "denied", "cancelled", "not_executed", "unknown", None)),
    _row("a required call that ended as nobody knows", True, tool_calls=[_read("great")]),
    _row("a required call that was ok", False, tool_calls=[_read("ok")]),
    _row("required by name", True, tool_calls=[_read("error", required=True)]),
    _row("optional by name", False, tool_calls=[_read("error", required=False)]),
    _row("ok at last", False, tool_calls=[_read("error", attempt=1), _read("ok", attempt=2)]),
    _row("failed at last", True, tool_calls=[_read("ok", attempt=1), _read("error", attempt=2)]),
    _row("the numbers count, not the place in the list", False, tool_calls=[_read("ok", attempt=2), _read("error", attempt=1)]),
    _row("unnumbered attempts by their start", False, tool_calls=[_read("ok", started_at=at(-1)), _read("error", started_at=at(-2))]),
    _row("attempts that nothing tells apart all count", True, tool_calls=[_read("ok"), _read("error")]),
    _row("two attempts of one number both count", True, tool_calls=[_read("ok", attempt=1), _read("error", attempt=1)]),
    _row("another operation's success is its own", True, tool_calls=[_read("error", "op-1"), _read("ok", "op-2")]),
    _row("calls without operation are paths of their own", True, tool_calls=[_read("error", None, attempt=1), _read("ok", None, attempt=2)]),
    _row("a model call that broke", True, model={"stop_class": "error"}),
]  # fmt: skip


@pytest.mark.parametrize(("failed", "parts"), PATHS)
def test_required_path_failed(failed, parts):
    assert ("required_path_failed" in facts(**parts)) is failed
    if "model" not in parts:
        exit_ = exit_of(**parts, completion={"claimed": True})
        assert (exit_ != ("completed", "completion_unverified")) is failed


AUTHORITY = [
    _row("401", True, tool_calls=[_read("error", status_code=401)]),
    _row("403", True, tool_calls=[_read("error", status_code=403)]),
    _row("404", False, tool_calls=[_read("error", status_code=404)]),
    _row("UNAUTHENTICATED", True, tool_calls=[_read("error", error_class="UNAUTHENTICATED")]),
    _row("PERMISSION_DENIED", True, tool_calls=[_read("error", error_class="PERMISSION_DENIED")]),
    _row("a permission error by class", True, tool_calls=[_read("error", error_class="PermissionError")]),
    _row("whatever the outcome is called", True, tool_calls=[_read("unavailable", status_code=403)]),
    _row("required where nobody says", True, tool_calls=[_read("error", status_code=403, required=None)]),
    _row("on an optional path", False, tool_calls=[_read("error", status_code=403, required=False)]),
    _row("one attempt was ok", False, tool_calls=[_read("error", status_code=403, attempt=1), _read("ok", attempt=2)]),
    _row("an earlier attempt was ok", False, tool_calls=[_read("ok", attempt=1), _read("error", status_code=403, attempt=2)]),
    _row("later attempts failed otherwise", True, tool_calls=[_read("error", status_code=403, attempt=1), _read("timeout", attempt=2)]),
    _row("another operation was ok", True, tool_calls=[_read("error", status_code=403), _read("ok", "op-2")]),
    _row("a call that was ok says 403", False, tool_calls=[_read("ok", status_code=403)]),
]  # fmt: skip


@pytest.mark.parametrize(("missing", "parts"), AUTHORITY)
def test_authority_missing(missing, parts):
    assert ("authority_missing" in facts(**parts)) is missing
    exit_ = exit_of(**parts, fallbacks=[_fallback(triggers=["error", "unavailable", "timeout"])])
    assert (exit_ == ("human_queue", "authority_missing")) is missing


NOTHING_READY = [
    _row("timed out", "dependency_failed_no_fallback", tool_calls=[_read("timeout")]),
    _row("unavailable", "dependency_failed_no_fallback", tool_calls=[_read("unavailable")]),
    _row("circuit open", "dependency_failed_no_fallback", tool_calls=[_read("circuit_open")]),
    _row("failed", "dependency_failed_no_fallback", tool_calls=[_read("error")]),
    _row("unreadable", "malformed_evidence", tool_calls=[_read("malformed")]),
    _row("the model call broke", "dependency_failed_no_fallback", model={"stop_class": "error"}),
    _row("an optional call that is unreadable", "insufficient_evidence", tool_calls=[_read("malformed", required=False)]),
    _row("not executed", "insufficient_evidence", tool_calls=[_read("not_executed")]),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "parts"), NOTHING_READY)
def test_failure_without_a_fallback(reason, parts):
    assert exit_of(**parts) == ("human_queue", reason)


def test_a_failed_dependency_goes_to_its_owner():
    assert answer(tool_calls=[_read("timeout")])["envelope"]["queue"] == "dependencies"


# --- eligibility, ready and applied alike

_CACHED = {"source": "cached", "reference_data_version": "3", "observed_at": at(-3600), "max_age_s": 7200}
ELIGIBLE = [
    _row("everything stated", True),
    _row("no version", False, version=None),
    _row("an empty version", False, version=""),
    _row("no inputs digest", False, inputs_digest=None),
    _row("an empty inputs digest", False, inputs_digest=""),
    _row("preconditions not met", False, preconditions_met=False),
    _row("preconditions not stated", False, preconditions_met=None),
    _row("shares what failed", False, shares_failed_dependency=True),
    _row("may share what failed", False, shares_failed_dependency=None),
    _row("a model judges", False, uses_model_judgement=True),
    _row("a model may judge", False, uses_model_judgement=None),
    _row("a write", False, access="write"),
    _row("access not stated", False, access=None),
    _row("access unknown", False, access="unknown"),
    _row("source not stated", False, source=None),
    _row("source unknown", False, source="unknown"),
    _row("a source nobody knows", False, source="oracle"),
    _row("an idempotent retry is a write, whatever it says", False, source="idempotent_retry", access="read"),
    _row("rules with their version", True, source="rules_engine", ruleset_version="12"),
    _row("rules without their version", False, source="rules_engine"),
    _row("rules with an empty version", False, source="rules_engine", ruleset_version=""),
    _row("another source with its origin", True, source="alternate_source", origin="mirror"),
    _row("another source without its origin", False, source="alternate_source"),
    _row("a cache with version and age", True, **_CACHED),
    _row("a cache without reference data version", False, **_CACHED | {"reference_data_version": None}),
    _row("a cache without observation", False, **_CACHED | {"observed_at": None}),
    _row("a cache without maximum age", False, **_CACHED | {"max_age_s": None}),
    _row("a microsecond younger than its limit", True, **_CACHED | {"observed_at": at(-7199.999999)}),
    _row("exactly at its limit", False, **_CACHED | {"observed_at": at(-7200)}),
    _row("a microsecond older than its limit", False, **_CACHED | {"observed_at": at(-7200.000001)}),
    _row("observed at the end of the run", True, **_CACHED | {"observed_at": at(0)}),
    _row("observed in the future", False, **_CACHED | {"observed_at": at(0.000001)}),
    _row("a maximum age of nothing", False, **_CACHED | {"observed_at": at(0), "max_age_s": 0}),
    _row("a stale default", False, observed_at=at(-7200), max_age_s=7200),
    _row("a default of unknown age", True, observed_at=at(-7200)),
    _row("a default with an age limit and no observation", True, max_age_s=1),
    _row("another failure", False, triggers=["malformed"]),
    _row("no failure at all", False, triggers=[]),
    _row("a failure nobody knows", False, triggers=["unknown"]),
    _row("this operation", True, operation_id="op-1"),
    _row("another operation", False, operation_id="op-2"),
]  # fmt: skip


@pytest.mark.parametrize(("eligible", "parts"), ELIGIBLE)
def test_ready_fallback(eligible, parts):
    expected = ("fallback", "dependency_timeout") if eligible else ("human_queue", "dependency_failed_no_fallback")
    given = answer(tool_calls=[_read("timeout")], fallbacks=[_fallback(**parts)])
    assert (given["kind"], given["reason_code"]) == expected
    assert ("eligible_fallback_ready" in given["facts"]) is eligible
    assert ("fallback" in given["prohibited"]) is not eligible


@pytest.mark.parametrize(("eligible", "parts"), ELIGIBLE)
def test_applied_fallback(eligible, parts):
    expected = ("fallback", "dependency_timeout") if eligible else ("human_queue", "ineligible_fallback_applied")
    given = answer(tool_calls=[_read("timeout")], fallbacks=[_fallback(applied=True, **parts)], completion=SATISFIED)
    assert (given["kind"], given["reason_code"]) == expected
    assert ("ineligible_fallback_applied" in given["facts"]) is not eligible
    assert "completed" in given["prohibited"]


@pytest.mark.parametrize("disclosed", [False, None])
def test_an_applied_fallback_must_be_disclosed(disclosed):
    given = answer(tool_calls=[_read("timeout")], fallbacks=[_fallback(applied=True, disclosed=disclosed)])
    assert (given["kind"], given["reason_code"]) == ("human_queue", "ineligible_fallback_applied")
    assert "silent_fallback" in given["findings"]


@pytest.mark.parametrize("disclosed", [False, None])
def test_a_ready_fallback_has_nothing_to_disclose(disclosed):
    assert exit_of(tool_calls=[_read("timeout")], fallbacks=[_fallback(disclosed=disclosed)])[0] == "fallback"


FINDINGS = [
    _row("satisfied", "fallback_result_verified", result="satisfied"),
    _row("unsatisfied", "fallback_result_unsatisfied", result="unsatisfied"),
]


@pytest.mark.parametrize(("code", "completion"), FINDINGS)
def test_provenance_wins_over_quality(code, completion):
    given = answer(tool_calls=[_read("timeout")], fallbacks=[_fallback(applied=True)], completion=completion)
    assert (given["kind"], given["findings"]) == ("fallback", [code])


def test_a_ready_fallback_has_no_result_to_judge():
    given = answer(tool_calls=[_read("timeout")], fallbacks=[_fallback()], completion={"result": "unsatisfied"})
    assert (given["kind"], given["findings"]) == ("fallback", [])


# --- when one is ready, and which one

_ALLOW = [{"source": "application", "effect": "allow"}]
READY = [
    *(_row(f"a call that ended in {o}", r, tool_calls=[_read(o)], fallbacks=[_fallback(triggers=[t])]) for o, t, r in (
        ("timeout", "timeout", "dependency_timeout"), ("unavailable", "unavailable", "dependency_unavailable"),
        ("circuit_open", "unavailable", "dependency_unavailable"), ("error", "error", "dependency_error"),
        ("malformed", "malformed", "malformed_output"))),
    _row("a model call that broke", "dependency_error", model={"stop_class": "error"}, fallbacks=[_fallback(triggers=["error"])]),
    _row("a cut output", "output_truncated", model={"stop_class": "truncated"}, fallbacks=[_fallback(triggers=["truncated"])]),
    _row("an allowed request that the model declined", "model_declined", model={"stop_class": "refused"}, policy_decisions=_ALLOW, fallbacks=[_fallback(triggers=["model_declined"])]),
    _row("a spent budget", "budget_exhausted", budget={"exhausted": ["turns"]}, fallbacks=[_fallback(triggers=["budget_exhausted"])]),
    _row("each failed call is served by one", "dependency_timeout", tool_calls=[_read("timeout"), _read("timeout", "op-2")], fallbacks=[_fallback(operation_id="op-1"), _fallback(fallback_id="f-2", operation_id="op-2")]),
    _row("one serves both failures, the first of them by rank is named", "dependency_timeout", tool_calls=[_read("malformed"), _read("timeout", "op-2")], fallbacks=[_fallback(triggers=["malformed", "timeout"])]),
    _row("an optional failure needs none", "dependency_timeout", tool_calls=[_read("timeout"), _read("error", "op-2", required=False)], fallbacks=[_fallback()]),
    _row("predicate unsatisfied", "dependency_timeout", tool_calls=[_read("timeout")], fallbacks=[_fallback()], completion={"claimed": True, "result": "unsatisfied"}),
    _row("over low confidence", "dependency_timeout", tool_calls=[_read("timeout")], fallbacks=[_fallback()], steps=[{"confidence_after": 0.1}]),
    _row("over a spent budget that it does not serve", "dependency_timeout", tool_calls=[_read("timeout")], fallbacks=[_fallback()], budget={"exhausted": ["turns"]}),
]  # fmt: skip

NOT_READY = [
    _row("one of two failed calls is not served", "human_queue", tool_calls=[_read("timeout"), _read("error", "op-2")], fallbacks=[_fallback()]),
    _row("one of two failed calls is another operation", "human_queue", tool_calls=[_read("timeout"), _read("timeout", "op-2")], fallbacks=[_fallback(operation_id="op-1")]),
    _row("a failure that triggers nothing", "human_queue", tool_calls=[_read("timeout"), _read("cancelled", "op-2")], fallbacks=[_fallback()]),
    _row("nothing failed", "completed", tool_calls=[_read("ok")], fallbacks=[_fallback()], completion={"claimed": True}),
    _row("it failed first and was ok at last", "completed", tool_calls=[_read("timeout", attempt=1), _read("ok", attempt=2)], fallbacks=[_fallback()], completion={"claimed": True}),
    _row("only an optional call failed", "completed", tool_calls=[_read("timeout", required=False)], fallbacks=[_fallback()], completion={"claimed": True}),
    _row("the predicate is satisfied all the same", "completed", tool_calls=[_read("timeout")], fallbacks=[_fallback()], completion=SATISFIED),
    _row("a request that nobody allowed the model declined", "human_queue", model={"stop_class": "refused"}, fallbacks=[_fallback(triggers=["model_declined"])]),
    _row("one operation's fallback does not serve the model call", "human_queue", model={"stop_class": "error"}, fallbacks=[_fallback(triggers=["error"], operation_id="op-1")]),
    _row("a decision lacks its check", "human_queue", tool_calls=[_read("timeout")], fallbacks=[_fallback()], decision={"asserted": True, "required_checks": ["match"]}),
    _row("an ineligible one was applied beside it", "human_queue", tool_calls=[_read("timeout")], fallbacks=[_fallback(), _fallback(fallback_id="f-2", applied=True, version=None)]),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "parts"), READY)
def test_fallback_is_ready(reason, parts):
    assert exit_of(**parts) == ("fallback", reason)


@pytest.mark.parametrize(("kind", "parts"), NOT_READY)
def test_fallback_is_not_ready(kind, parts):
    assert exit_of(**parts)[0] == kind


APPLIED = [
    _row(
        "after a failed attempt that was ok at last",
        True,
        tool_calls=[_read("timeout", attempt=1), _read("ok", attempt=2)],
    ),
    _row("after an optional failure", True, tool_calls=[_read("timeout", required=False)]),
    _row("after one of two failures", True, tool_calls=[_read("timeout"), _read("error", "op-2")]),
    _row("after no failure", False, tool_calls=[_read("ok")]),
    _row("after another failure", False, tool_calls=[_read("error")]),
]


@pytest.mark.parametrize(("eligible", "parts"), APPLIED)
def test_fallback_was_applied(eligible, parts):
    expected = ("fallback", "dependency_timeout") if eligible else ("human_queue", "ineligible_fallback_applied")
    assert exit_of(**parts, fallbacks=[_fallback(applied=True)]) == expected


CHOSEN = [
    _row("applied before ready", "f-2", fallbacks=[_fallback(), _fallback(fallback_id="f-2", applied=True)]),
    _row("ready by id", "f-1", fallbacks=[_fallback(fallback_id="f-2"), _fallback()]),
    _row("applied by id", "f-1", fallbacks=[_fallback(fallback_id="f-2", applied=True), _fallback(applied=True)]),
    _row("an ineligible one is passed over", "f-2", fallbacks=[_fallback(version=None), _fallback(fallback_id="f-2")]),
    _row("one that does not serve is passed over", "f-2", fallbacks=[_fallback(triggers=["error"]), _fallback(fallback_id="f-2")]),
]  # fmt: skip


@pytest.mark.parametrize(("fallback_id", "parts"), CHOSEN)
def test_chosen_fallback(fallback_id, parts):
    envelope = answer(tool_calls=[_read("timeout")], **parts)["envelope"]
    assert (envelope["kind"], envelope["fallback_id"]) == ("fallback", fallback_id)


# --- components

_DONE = {"name": "body", "state": "completed"}
_LOST = {"name": "extra", "required": False, "state": "omitted", "reason_code": "timeout", "can_change_result": "no"}
PARTIALS = [
    _row("one done, one lost that cannot matter", ("partial", "timeout"), components=[_DONE, _LOST]),
    _row("also where the lost one is required", ("partial", "timeout"), components=[_DONE, _LOST | {"required": True}]),
    _row("a state unknown is an omission", ("partial", "timeout"), components=[_DONE, _LOST | {"state": "unknown"}]),
    _row("no state is an omission", ("partial", "timeout"), components=[_DONE, _LOST | {"state": None}]),
    _row("the first lost one by name gives the reason", ("partial", "a"), components=[_DONE, _LOST | {"name": "z", "reason_code": "b"}, _LOST | {"name": "c", "reason_code": "a"}]),
    _row("no reason: the row", ("partial", "partial"), components=[_DONE, _LOST | {"reason_code": None}]),
    _row("it can matter", ("human_queue", "omission_may_change_result"), components=[_DONE, _LOST | {"can_change_result": "yes"}]),
    _row("it may matter", ("human_queue", "omission_may_change_result"), components=[_DONE, _LOST | {"can_change_result": "unknown"}]),
    _row("nobody says whether it matters", ("human_queue", "omission_may_change_result"), components=[_DONE, _LOST | {"can_change_result": None}]),
    _row("a word nobody knows", ("human_queue", "omission_may_change_result"), components=[_DONE, _LOST | {"can_change_result": "hardly"}]),
    _row("one of two lost ones may matter", ("human_queue", "omission_may_change_result"), components=[_DONE, _LOST, _LOST | {"name": "x", "can_change_result": None}]),
    _row("nothing is done", ("human_queue", "insufficient_evidence"), components=[_LOST]),
    _row("nothing is lost", ("human_queue", "insufficient_evidence"), components=[_DONE]),
    _row("an asserted decision lacks the lost one", ("human_queue", "unsupported_decision"), components=[_DONE, _LOST], decision={"asserted": True, "required_checks": ["extra"]}),
    _row("an asserted decision needs what is done", ("partial", "timeout"), components=[_DONE, _LOST], decision={"asserted": True, "required_checks": ["body"]}),
    _row("an empty response", ("human_queue", "empty_response"), components=[_DONE, _LOST], model={"stop_class": "end", "output_tokens": 0}),
    _row("text left over from a filtered turn", ("refusal", "content_filter"), components=[_DONE, _LOST], model={"stop_class": "filtered"}),
    _row("a write of unknown fate", ("human_queue", "ambiguous_side_effect"), components=[_DONE, _LOST], tool_calls=[{"operation_id": "op-1", "access": "write", "outcome": "timeout"}]),
    _row("low confidence", ("human_queue", "confidence_below_floor"), components=[_DONE, _LOST], steps=[{"confidence_after": 0.5}]),
    _row("over a spent budget", ("partial", "timeout"), components=[_DONE, _LOST], budget={"exhausted": ["turns"]}),
    _row("over a failed dependency", ("partial", "timeout"), components=[_DONE, _LOST], tool_calls=[_read("timeout")]),
    _row("over an unevaluated claim", ("partial", "timeout"), components=[_DONE, _LOST], completion={"claimed": True}),
    _row("the predicate is satisfied without it", ("completed", "completion_verified"), components=[_DONE, _LOST], completion=SATISFIED),
    _row("satisfied, but a required one is lost", ("partial", "timeout"), components=[_DONE, _LOST | {"required": True}], completion=SATISFIED),
    _row("satisfied, but one is lost that nobody calls optional", ("partial", "timeout"), components=[_DONE, _LOST | {"required": None}], completion=SATISFIED),
    _row("satisfied, but the lost one may matter", ("human_queue", "omission_may_change_result"), components=[_DONE, _LOST | {"can_change_result": "unknown"}], completion=SATISFIED),
]  # fmt: skip


@pytest.mark.parametrize(("exit_", "parts"), PARTIALS)
def test_components(exit_, parts):
    assert exit_of(**parts) == exit_


def test_a_protected_write_is_not_settled_enough_for_a_partial():
    write = {"operation_id": "op-1", "access": "write", "outcome": "timeout", "idempotency_key": "k-1"}
    retry = _fallback(source="idempotent_retry", access="write", operation_id="op-1", triggers=["malformed"])
    given = answer(tool_calls=[write], fallbacks=[retry], components=[_DONE, _LOST])
    assert "idempotency_protected" in given["facts"]
    assert "partial" in given["prohibited"]
    assert given["kind"] == "human_queue"


def test_envelope_of_a_partial():
    parts = [_LOST | {"name": "b", "retryable": True}, _DONE, _LOST | {"name": "a", "retryable": None}]
    envelope = answer(components=parts, completion={"result_ref": "result-1"})["envelope"]
    assert envelope["result_ref"] == "result-1"
    assert envelope["completed"] == ["body"]
    assert [(o["component"], o["retryable"]) for o in envelope["omitted"]] == [("a", False), ("b", True)]
    assert (envelope["completeness"], envelope["retry"]) == ("partial", "enrich_only")


# --- asserted decisions

DECISIONS = [
    _row("asserted, its check is done", False, decision={"asserted": True, "required_checks": ["body"]}, components=[_DONE]),
    _row("asserted, its check is lost", True, decision={"asserted": True, "required_checks": ["extra"]}, components=[_DONE, _LOST]),
    _row("asserted, its check is no component", True, decision={"asserted": True, "required_checks": ["match"]}, components=[_DONE]),
    _row("asserted, without any component", True, decision={"asserted": True, "required_checks": ["match"]}),
    _row("asserted, one of two checks is done", True, decision={"asserted": True, "required_checks": ["body", "match"]}, components=[_DONE]),
    _row("asserted, its check is done and lost", True, decision={"asserted": True, "required_checks": ["body"]}, components=[_DONE, _LOST | {"name": "body"}]),
    _row("asserted, no check required", False, decision={"asserted": True}),
    _row("not asserted", False, decision={"asserted": False, "required_checks": ["match"]}),
    _row("nobody says asserted", False, decision={"required_checks": ["match"]}),
]  # fmt: skip


@pytest.mark.parametrize(("unsupported", "parts"), DECISIONS)
def test_unsupported_decision(unsupported, parts):
    given = answer(**parts, completion=SATISFIED)
    assert ("unsupported_decision" in given["facts"]) is unsupported
    assert ((given["kind"], given["reason_code"]) == ("human_queue", "unsupported_decision")) is unsupported
