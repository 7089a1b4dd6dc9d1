"""What can be handed over instead of a full result: fallbacks, and partial results by component."""

from classifier.effects import Effects, has_one_key
from classifier.fact import Event, Fact, Finding
from classifier.paths import TRIGGERS, Failure, Paths
from schemas.canonical import encode_json

IDEMPOTENCY_PROTECTED = Fact(
    3, "idempotency_protected", "every ambiguous operation has one key on all attempts and a keyed retry that may run"
)
FALLBACK_APPLIED = Fact(23, "fallback_applied", "the result of a fallback was served")
INELIGIBLE_FALLBACK_APPLIED = Fact(24, "ineligible_fallback_applied", "a fallback was served that is not eligible")
ELIGIBLE_FALLBACK_APPLIED = Fact(25, "eligible_fallback_applied", "a fallback was served that is eligible")
ELIGIBLE_FALLBACK_READY = Fact(
    26, "eligible_fallback_ready", "a path failed or was declined, and eligible fallbacks serve every failed call"
)
OMISSION = Fact(19, "omission", "a component is not completed; unknown states count")
OMISSION_MAY_CHANGE_RESULT = Fact(
    20, "omission_may_change_result", "an omitted component does not say that it cannot change the result"
)
REQUIRED_OMISSION = Fact(21, "required_omission", "an omitted component is required; absent counts as required")
SAFE_PARTIAL = Fact(22, "safe_partial", "something is completed, and nothing omitted, asserted or open can change it")
UNSUPPORTED_DECISION = Fact(14, "unsupported_decision", "a decision is asserted that lacks a required check")
FACTS: tuple[Fact, ...] = (
    IDEMPOTENCY_PROTECTED, FALLBACK_APPLIED, INELIGIBLE_FALLBACK_APPLIED, ELIGIBLE_FALLBACK_APPLIED,
    ELIGIBLE_FALLBACK_READY, OMISSION, OMISSION_MAY_CHANGE_RESULT, REQUIRED_OMISSION, SAFE_PARTIAL,
    UNSUPPORTED_DECISION,
)  # fmt: skip

RESULT_VERIFIED = Finding("fallback_result_verified", "a fallback's result satisfies the completion predicate")
RESULT_UNSATISFIED = Finding("fallback_result_unsatisfied", "a fallback's result does not satisfy the predicate")
SILENT_FALLBACK = Finding("silent_fallback", "a fallback was served and the consumer was not told")
FINDINGS: tuple[Finding, ...] = (RESULT_VERIFIED, RESULT_UNSATISFIED, SILENT_FALLBACK)

NEEDED_BY_SOURCE = {
    "rules_engine": ("ruleset_version",),
    "cached": ("reference_data_version", "observed_at", "max_age_s"),
    "alternate_source": ("origin",),
    "default": (),
    "idempotent_retry": (),
}
"""What a fallback of each source must state; a source that is not listed is never eligible."""

_SECOND = 1_000_000
_NONE_PROTECTED: frozenset[str] = frozenset()


class Fallbacks:
    """Which fallbacks are eligible, which of them decides, and what triggered it."""

    __slots__ = ("bits", "chosen", "event", "protected", "reason", "served")

    def __init__(self, event: Event, effects: Effects, paths: Paths) -> None:
        self.event = event
        self.bits = 0
        self.chosen: Event | None = None
        self.reason: str | None = None
        self.protected = _NONE_PROTECTED
        if event["fallbacks"]:
            self.protected = self._protected_operations(effects)
            self._judge_applied(paths)
            self._judge_ready(paths)
            self._judge_protection(effects)

    def _protected_operations(self, effects: Effects) -> frozenset[str]:
        """Operations with one key on every attempt and a keyed retry of their own whose preconditions hold."""
        retries = {
            f["operation_id"]
            for f in self.event["fallbacks"]
            if f["source"] == "idempotent_retry" and f["preconditions_met"] is True
        }
        return frozenset(id_ for id_ in retries & effects.by_id.keys() if has_one_key(effects.by_id[id_].writes))

    def _judge_protection(self, effects: Effects) -> None:
        ambiguous = [op for op in effects.operations if op.ambiguous]
        if ambiguous and all(op.id in self.protected for op in ambiguous):
            self.bits |= IDEMPOTENCY_PROTECTED.bit

    def _judge_applied(self, paths: Paths) -> None:
        applied = [f for f in self.event["fallbacks"] if f["applied"] is True]
        if not applied:
            return
        self.bits |= FALLBACK_APPLIED.bit
        failures = paths.any_attempt + paths.run_failures
        eligible = [f for f in applied if self.is_eligible(f) and serves(f, failures)]
        if len(eligible) < len(applied):
            self.bits |= INELIGIBLE_FALLBACK_APPLIED.bit
        if eligible:
            self.bits |= ELIGIBLE_FALLBACK_APPLIED.bit
            self._choose(eligible, failures)

    def _judge_ready(self, paths: Paths) -> None:
        failures = paths.required + paths.run_failures
        if not failures:
            return
        ready = [f for f in self.event["fallbacks"] if f["applied"] is not True and self.is_eligible(f)]
        ready = [f for f in ready if serves(f, failures)]
        if ready and all(any(serves(f, [failure]) for f in ready) for failure in paths.required):
            self.bits |= ELIGIBLE_FALLBACK_READY.bit
            self._choose(ready, failures)

    def _choose(self, fallbacks: list[Event], failures: list[Failure]) -> None:
        if self.chosen is None:
            self.chosen = min(fallbacks, key=lambda f: (f["fallback_id"] or "", encode_json(f)))
            served = {failure.trigger for failure in failures if serves(self.chosen, [failure])}
            self.reason = next(trigger for trigger in TRIGGERS if trigger in served)

    def is_eligible(self, fallback: Event) -> bool:
        """Whether the fallback's own contract holds, whatever triggered it. What is absent does not hold."""
        return (
            bool(fallback["version"])
            and bool(fallback["inputs_digest"])
            and fallback["preconditions_met"] is True
            and fallback["shares_failed_dependency"] is False
            and fallback["uses_model_judgement"] is False
            and (fallback["disclosed"] is True or fallback["applied"] is not True)
            and self._may_write(fallback)
            and states_its_data(fallback)
            and is_fresh(fallback, self.event["occurred_at"])
        )

    def _may_write(self, fallback: Event) -> bool:
        if fallback["access"] == "read" and fallback["source"] != "idempotent_retry":
            return True
        return fallback["operation_id"] in self.protected

    def collect_findings(self) -> list[str]:
        """Codes of what is odd about applied fallbacks."""
        found = []
        completion = self.event["completion"]
        result = completion["result"] if completion else None
        if self.bits & ELIGIBLE_FALLBACK_APPLIED.bit and result in _RESULT_FINDINGS:
            found.append(_RESULT_FINDINGS[result].code)
        if any(f["applied"] is True and f["disclosed"] is not True for f in self.event["fallbacks"]):
            found.append(SILENT_FALLBACK.code)
        return found


_RESULT_FINDINGS = {"satisfied": RESULT_VERIFIED, "unsatisfied": RESULT_UNSATISFIED}


def serves(fallback: Event, failures: list[Failure]) -> bool:
    """Whether the fallback declares one of the failures; one that names an operation serves only failures of it."""
    operation_id, triggers = fallback["operation_id"], fallback["triggers"]
    return any(failure.trigger in triggers and operation_id in (None, failure.operation_id) for failure in failures)


def states_its_data(fallback: Event) -> bool:
    """Whether the fallback states what a result of its source depends on."""
    needed = NEEDED_BY_SOURCE.get(fallback["source"])
    return needed is not None and all(fallback[name] not in (None, "") for name in needed)


def is_fresh(fallback: Event, occurred_at: int) -> bool:
    """Whether the data was younger than its maximum age when the run ended. At the limit, or from the future, it is
    not; without both figures there is nothing to judge."""
    observed_at, max_age_s = fallback["observed_at"], fallback["max_age_s"]
    if observed_at is None or max_age_s is None:
        return True
    age: int = occurred_at - observed_at
    return 0 <= age < int(max_age_s) * _SECOND


def is_omitted(component: Event) -> bool:
    """Whether a component is missing from the result; an unknown state is an omission."""
    return bool(component["state"] != "completed")


def component_facts(event: Event, *, settled: bool, usable: bool) -> int:
    """Facts about components and the asserted decision, as bits. ``usable``: the last turn gave something to keep."""
    bits = _UNSUPPORTED if _lacks_a_check(event) else 0
    omitted = [c for c in event["components"] if is_omitted(c)]
    if not omitted:
        return bits
    bits |= OMISSION.bit
    if any(c["required"] is not False for c in omitted):
        bits |= REQUIRED_OMISSION.bit
    if any(c["can_change_result"] != "no" for c in omitted):
        return bits | OMISSION_MAY_CHANGE_RESULT.bit
    bounded = len(omitted) < len(event["components"]) and settled and usable
    return bits | (SAFE_PARTIAL.bit if bounded and not bits & _UNSUPPORTED else 0)


def _lacks_a_check(event: Event) -> bool:
    decision = event["decision"]
    if not decision or decision["asserted"] is not True:
        return False
    omitted = {c["name"] for c in event["components"] if is_omitted(c)}
    completed = {c["name"] for c in event["components"]} - omitted
    return not completed.issuperset(decision["required_checks"])


_UNSUPPORTED = UNSUPPORTED_DECISION.bit
