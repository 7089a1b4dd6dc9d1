"""The exit contracts written down a second time, as naively as possible: an executable specification.

Every function restates one definition of ``docs/exit-contracts.md`` in the order of that document (sections 3, 4, 5)
and reads nothing but the raw event. Nothing is shared with the classifier, nothing is fast, nothing is configurable:
when the two disagree, one of them has misread the text. Where the text is silent, the reading here is the one that
cannot hide harm, and a comment says so.

A logical operation is everything with one operation id. What carries no operation id belongs to nothing but itself:
:func:`specify` gives each call, ledger entry and acknowledgement without one a name of its own first.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from itertools import count
from typing import Any

Event = dict[str, Any]
Record = dict[str, Any]
Obligation = tuple[str, str | None]


@dataclass(frozen=True)
class Answer:
    """What must be answered for an event; obligations are sorted pairs of action and operation."""

    kind: str
    rule_id: str
    reason_code: str
    prohibited: tuple[str, ...]
    obligations: tuple[Obligation, ...]


@dataclass(frozen=True)
class Denial:
    """A denial of one operation, or of the whole request where ``operation`` is None; not every one was recorded."""

    operation: str | None
    moment: int | None
    reason: str
    decision: Record | None


# ---- words of section 1 and default symbols (the end of section 3) ------------------------------------------------


def block(event: Event, name: str) -> Record:
    """A block of the event; an absent one is empty."""
    return event[name] or {}


def outcome(call: Record) -> str:
    return call["outcome"] or "unknown"


def is_write(call: Record) -> bool:
    return bool(call["access"] != "read")


def is_required(item: Record) -> bool:
    return item["required"] is not False


def status(entry: Record) -> str:
    return entry["status"] or "unknown"


def is_verified(entry: Record) -> bool:
    return entry["verified_by"] not in (None, "none")


UNNAMED = "\0"
"""How the names start that stand for a missing operation id."""


def with_names(event: Event) -> Event:
    """The event with a name of its own for whatever was done or acknowledged without an operation id."""
    numbers = count()

    def named(items: list[Record]) -> list[Record]:
        return [
            item if item["operation_id"] is not None else {**item, "operation_id": f"{UNNAMED}{next(numbers)}"}
            for item in items
        ]

    takeover = event["takeover"] and {**event["takeover"], "acks": named(event["takeover"]["acks"])}
    lists = {name: named(event[name]) for name in ("tool_calls", "side_effects")}
    return {**event, **lists, "takeover": takeover}


def writes(event: Event) -> list[Record]:
    return [call for call in event["tool_calls"] if is_write(call)]


def writes_of(event: Event, operation: str | None) -> list[Record]:
    return [call for call in writes(event) if call["operation_id"] == operation]


def entries_of(event: Event, operation: str | None) -> list[Record]:
    return [entry for entry in event["side_effects"] if entry["operation_id"] == operation]


def stop_class(event: Event) -> str | None:
    return block(event, "model").get("stop_class")


def predicate(event: Event) -> str:
    return block(event, "completion").get("result") or "not_evaluated"


def is_claimed(event: Event) -> bool:
    return block(event, "completion").get("claimed") is True


def operations(event: Event) -> list[str]:
    """Every operation of a write or of the ledger."""
    return sorted({item["operation_id"] for item in [*writes(event), *event["side_effects"]]})


# ---- section 3, policy --------------------------------------------------------------------------------------------


def is_later(event: Event, decision: Record, moment: int | None) -> bool:
    """Decided after ``moment``, but not after the run ended. What is undated is not known to be later."""
    decided = decision["decided_at"]
    return moment is not None and decided is not None and moment < decided <= event["occurred_at"]


def allows(decision: Record) -> bool:
    """An allow of an unknown source allows nothing."""
    return decision["effect"] == "allow" and decision["source"] not in (None, "unknown")


def approval_of(decision: Record) -> Record:
    return decision["approval"] or {}


def answered_operation(decision: Record) -> str | None:
    """What the answer of an approval is about: the operation it names, else that of its decision."""
    operation: str | None = approval_of(decision).get("operation_id") or decision["operation_id"]
    return operation


def reason_by_source(decision: Record) -> str:
    return {"approver": "approver_denied", "validator": "invalid_request", "provider_filter": "content_filter"}.get(
        decision["source"], "blocking_denial"
    )


def answered_at(decision: Record) -> int | None:
    """When an approval was answered. The text is silent; an allow before the answer can never have lifted it."""
    resolved: int | None = approval_of(decision).get("resolved_at")
    return decision["decided_at"] if resolved is None else resolved


def recorded_denials(event: Event) -> list[Denial]:
    found = []
    for decision in event["policy_decisions"]:
        if decision["effect"] == "deny":
            reason = decision["reason_code"] or reason_by_source(decision)
            found.append(Denial(decision["operation_id"], decision["decided_at"], reason, decision))
        if approval_of(decision).get("state") == "denied":
            found.append(Denial(answered_operation(decision), answered_at(decision), "approver_denied", decision))
    return found


def unrecorded_filter(event: Event) -> list[Denial]:
    """A filtered stop whose filter recorded no denial denies the whole request at the end of the run."""
    recorded = any(
        decision["source"] == "provider_filter" and decision["effect"] == "deny"
        for decision in event["policy_decisions"]
    )
    if stop_class(event) != "filtered" or recorded:
        return []
    return [Denial(None, event["occurred_at"], "content_filter", None)]


def waits_for_nobody(decision: Record) -> bool:
    """Its own approval, if any, is neither open nor denied. The text is silent on an allow that asked and was denied,
    where something else lifted that denial; it said yes to nothing."""
    return approval_of(decision).get("state") in (None, "none", "granted")


def allows_later(event: Event, denied: Denial, decision: Record) -> bool:
    """A later decision that allows and waits for nobody."""
    by_agent = approval_of(decision).get("approver") == event["agent_id"]
    return allows(decision) and waits_for_nobody(decision) and not by_agent and is_later(event, decision, denied.moment)


def is_from_approver(event: Event, decision: Record) -> bool:
    """The agent is no approver of its own run."""
    return bool(decision["source"] == "approver" and approval_of(decision).get("approver") != event["agent_id"])


def may_lift(event: Event, denied: Denial, decision: Record) -> bool:
    """A later allow by the same policy or by an approver, for exactly what was denied."""
    policy = denied.decision and denied.decision["policy_id"]
    same_policy = policy is not None and decision["policy_id"] == policy
    return (
        allows_later(event, denied, decision)
        and decision["operation_id"] == denied.operation
        and (same_policy or is_from_approver(event, decision))
    )


def returned_ok(event: Event, operation: str) -> bool:
    return any(outcome(call) == "ok" and call["operation_id"] == operation for call in event["tool_calls"])


def finished_another_way(event: Event, denied: Denial) -> bool:
    """The run took another way that was allowed after the denial, and what was denied left no trace."""
    if denied.operation is None or predicate(event) != "satisfied":
        return False
    other_way = any(
        allows_later(event, denied, decision)
        and decision["operation_id"] not in (None, denied.operation)
        and returned_ok(event, decision["operation_id"])
        for decision in event["policy_decisions"]
    )
    untouched = not took_effect(event, denied.operation) and denied.operation not in ambiguous_operations(event)
    return other_way and untouched


def stands(event: Event, denied: Denial) -> bool:
    lifted = any(may_lift(event, denied, decision) for decision in event["policy_decisions"])
    return not lifted and not finished_another_way(event, denied)


def standing_denials(event: Event) -> list[Denial]:
    """Those that were not lifted, the earliest first."""
    standing = [found for found in recorded_denials(event) + unrecorded_filter(event) if stands(event, found)]
    return sorted(standing, key=earliest)


def earliest(denied: Denial) -> tuple[bool, int, bool, str]:
    """Dated before undated, then by decision; a filter that recorded none comes last."""
    recorded = denied.decision or {"decision_id": None}
    return denied.moment is None, denied.moment or 0, denied.decision is None, recorded["decision_id"] or ""


def denial_reasons(event: Event) -> list[str]:
    """The reason of the earliest; several, in order, where the text does not say which of them is earlier."""
    denials = standing_denials(event)
    return sorted({denied.reason for denied in denials if earliest(denied) == earliest(denials[0])})


def approval_is_required(decision: Record) -> bool:
    return decision["effect"] == "require_approval" or approval_of(decision).get("state") not in (None, "none")


def is_covered(operation: str | None, decision: Record) -> bool:
    """Whether a decision is about ``operation``; one about the whole request is about every operation."""
    return decision["operation_id"] is None or decision["operation_id"] == operation


def is_person(event: Event, approver: str | None) -> bool:
    return approver is not None and approver != event["agent_id"]


def holds_at(moment: int | None, resolved: int | None, expires: int | None) -> bool:
    """Granted by then and not expired. What has no time is not known to have been in time."""
    if moment is None or resolved is None:
        return False
    return resolved <= moment and (expires is None or moment < expires)


def is_for(decision: Record, answered: str | None, operation: str | None) -> bool:
    """A grant is for the operation it names; one that names none is for whatever the whole request needed."""
    return answered == operation or (answered is None and decision["operation_id"] is None)


def grant_holds(event: Event, decision: Record, holder: Record, operation: str | None, moment: int | None) -> bool:
    """Whether the approval of ``holder`` grants what ``decision`` requires for an attempt started at ``moment``."""
    approval = approval_of(holder)
    # An approver's own allow is the answer: where the approval has no time, the decision's will do.
    is_answer = holder["source"] == "approver" and holder["effect"] == "allow"
    return (
        approval.get("state") == "granted"
        and is_person(event, approval["approver"])
        and is_for(decision, answered_operation(holder), operation)
        and holds_at(
            moment, approval["resolved_at"] or (holder["decided_at"] if is_answer else None), approval["expires_at"]
        )
    )


def later_grant_holds(event: Event, decision: Record, later: Record, operation: str | None, moment: int | None) -> bool:
    """The grant as a decision of its own: an approver allows in time, its own approval, if any, being granted."""
    if not (is_from_approver(event, later) and allows(later) and is_later(event, later, decision["decided_at"])):
        return False
    if not holds_at(moment, later["decided_at"], approval_of(later).get("expires_at")):
        return False
    # The text is silent on an allow of one operation whose approval answers for another: that is a grant for neither.
    if not is_for(decision, later["operation_id"], operation):
        return False
    return not approval_is_required(later) or grant_holds(event, decision, later, operation, moment)


def granted_at(event: Event, decision: Record, operation: str | None, moment: int | None) -> bool:
    """Whether what ``decision`` requires was granted for an attempt of ``operation`` that started at ``moment``."""
    return grant_holds(event, decision, decision, operation, moment) or any(
        later_grant_holds(event, decision, later, operation, moment) for later in event["policy_decisions"]
    )


def pending_under(event: Event, decision: Record) -> list[tuple[str | None, int | None]]:
    """What a requirement still waits for, and when: attempts that may have acted, else the end of the run.

    What did take effect is another row. A requirement about which nothing was tried waits for its own operation.
    """
    covered = [name for name in operations(event) if is_covered(name, decision)]
    ambiguous = ambiguous_operations(event)
    pending: list[tuple[str | None, int | None]] = [
        (name, moment)
        for name in covered
        if not took_effect(event, name)
        for moment in (effect_moments(event, name) if name in ambiguous else [event["occurred_at"]])
    ]
    return pending if covered else [(decision["operation_id"], event["occurred_at"])]


def is_open(event: Event, decision: Record) -> bool:
    return not all(
        granted_at(event, decision, operation, moment) for operation, moment in pending_under(event, decision)
    )


def is_answered_no(decision: Record) -> bool:
    """A denied approval is answered, if the denial is about what needed it."""
    return approval_of(decision).get("state") == "denied" and answered_operation(decision) == decision["operation_id"]


def approval_needed(event: Event) -> bool:
    """A requirement that nobody answered in time."""
    return any(
        approval_is_required(decision) and not is_answered_no(decision) and is_open(event, decision)
        for decision in event["policy_decisions"]
    )


def policy_unavailable(event: Event) -> bool:
    def is_unavailable(decision: Record) -> bool:
        return decision["effect"] in (None, "unknown", "unavailable")

    def supersedes(later: Record, decision: Record) -> bool:
        return (
            decision["policy_id"] is not None
            and later["policy_id"] == decision["policy_id"]
            and later["operation_id"] == decision["operation_id"]
            and is_later(event, later, decision["decided_at"])
            and (allows(later) or later["effect"] in ("deny", "require_approval"))
        )

    decisions = event["policy_decisions"]
    return any(
        is_unavailable(decision) and not any(supersedes(later, decision) for later in decisions)
        for decision in decisions
    )


def is_done(event: Event, operation: str) -> bool:
    confirmed = any(status(entry) in ("confirmed", "compensated") for entry in entries_of(event, operation))
    return confirmed or returned_ok(event, operation)


def request_was_allowed(event: Event) -> bool:
    return any(
        decision["effect"] == "allow"
        and decision["source"] in ("application", "approver")
        and waits_for_nobody(decision)
        and (decision["operation_id"] is None or not is_done(event, decision["operation_id"]))
        for decision in event["policy_decisions"]
    )


def model_declined(event: Event) -> bool:
    """The model failed a request that a policy had allowed."""
    return stop_class(event) == "refused" and request_was_allowed(event)


def model_refusal_unverified(event: Event) -> bool:
    return stop_class(event) == "refused" and not request_was_allowed(event)


# ---- section 3, effects -------------------------------------------------------------------------------------------

UNCLEAR = ("timeout", "unknown", "cancelled", "unavailable", "malformed", "error")
"""Outcomes of a write after which nobody knows."""


def is_permission_error(call: Record) -> bool:
    return call["status_code"] in (401, 403) or call["error_class"] in ("UNAUTHENTICATED", "PERMISSION_DENIED")


def proves_nothing_happened(call: Record) -> bool:
    if call["effect_possible"] is False or outcome(call) in ("circuit_open", "not_executed", "denied"):
        return True
    return is_permission_error(call) and call["effect_possible"] is not True


def key_of(call: Record) -> object:
    """The idempotency key; without one an attempt is like no other."""
    return id(call) if call["idempotency_key"] is None else call["idempotency_key"]


def possible_attempts(event: Event, operation: str) -> list[Record]:
    """Writes that answered ok and name no operation: by their tool they may have been attempts of this one."""
    known = [*writes_of(event, operation), *entries_of(event, operation)]
    tools = {None, *(item["tool"] for item in known)}
    nameless = [call for call in writes(event) if call["operation_id"].startswith(UNNAMED) and outcome(call) == "ok"]
    return [] if operation.startswith(UNNAMED) else [call for call in nameless if call["tool"] in tools]


def own_keys(event: Event, operation: str) -> set[object]:
    """The key that a confirmation or compensation speaks of; empty when that cannot be told."""
    calls = writes_of(event, operation) + possible_attempts(event, operation)
    unproven = {key_of(call) for call in calls if not proves_nothing_happened(call)}
    keys = {key_of(call) for call in calls if outcome(call) == "ok"} or unproven
    return keys if len(keys) == 1 else set()


def counts_as_settled(event: Event, entry: Record) -> bool:
    ok = any(outcome(call) == "ok" for call in writes_of(event, entry["operation_id"]))
    return status(entry) in ("not_started", "compensated", "confirmed") and (ok or is_verified(entry))


def entry_settles(event: Event, entry: Record, call: Record) -> bool:
    if not counts_as_settled(event, entry):
        return False
    return status(entry) == "not_started" or key_of(call) in own_keys(event, entry["operation_id"])


def is_ambiguous_write(event: Event, call: Record) -> bool:
    if outcome(call) not in UNCLEAR or proves_nothing_happened(call):
        return False
    return not any(entry_settles(event, entry, call) for entry in entries_of(event, call["operation_id"]))


def is_ambiguous_ack(event: Event, ack: Record) -> bool:
    if (ack["ack"] or "unknown") not in ("accepted", "unknown"):
        return False
    settled = any(counts_as_settled(event, entry) for entry in entries_of(event, ack["operation_id"]))
    return not settled and all(outcome(call) != "ok" for call in attempts_of(event, ack["operation_id"]))


def attempts_of(event: Event, operation: str) -> list[Record]:
    """The attempts that answer for an operation: its writes; its reads where nothing speaks of a mutation."""
    if entries_of(event, operation):
        return writes_of(event, operation)
    calls = [call for call in event["tool_calls"] if call["operation_id"] == operation]
    return writes_of(event, operation) or calls


def ambiguous_operations(event: Event) -> set[str]:
    """Operations of which nobody knows whether they happened."""
    entries = [entry for entry in event["side_effects"] if status(entry) in ("ambiguous", "unknown")]
    calls = [call for call in writes(event) if is_ambiguous_write(event, call)]
    acks = [ack for ack in block(event, "takeover").get("acks", []) if is_ambiguous_ack(event, ack)]
    return {item["operation_id"] for item in [*entries, *calls, *acks]}


def ledger_settled(event: Event) -> bool:
    return not ambiguous_operations(event)


def may_have_happened(event: Event, call: Record) -> bool:
    """An unclear write that neither its own evidence nor the ledger shows not to have happened."""
    if outcome(call) not in UNCLEAR or proves_nothing_happened(call):
        return False
    entries = entries_of(event, call["operation_id"])
    never_started = any(status(entry) == "not_started" and is_verified(entry) for entry in entries)
    contradicted = took_effect(event, call["operation_id"])
    return contradicted or not never_started


def took_effect(event: Event, operation: str) -> bool:
    """A write returned ok, or the ledger has an effect, compensated or not."""
    ok = any(outcome(call) == "ok" for call in writes_of(event, operation))
    return ok or any(status(entry) in ("confirmed", "compensated") for entry in entries_of(event, operation))


def effects_of(event: Event, operation: str) -> int:
    """How many effects of one operation are confirmed: by the ledger, or by answers under different keys."""
    confirmed = [entry for entry in entries_of(event, operation) if status(entry) == "confirmed"]
    counted = sum(1 if entry["count"] is None else max(entry["count"], 1) for entry in confirmed)
    answered = {key_of(call) for call in writes_of(event, operation) if outcome(call) == "ok"}
    return max(counted, len(answered))


def duplicate_operations(event: Event) -> set[str]:
    return {operation for operation in operations(event) if effects_of(event, operation) > 1}


def effect_moments(event: Event, operation: str) -> list[int | None]:
    """When the attempts started that took or may have taken effect; what only the ledger knows is undated."""
    return [
        call["started_at"]
        for call in writes_of(event, operation)
        if outcome(call) == "ok" or (outcome(call) in UNCLEAR and not proves_nothing_happened(call))
    ] or [None]


def lacks_approval(event: Event, decision: Record, operation: str, moment: int | None) -> bool:
    return approval_is_required(decision) and not granted_at(event, decision, operation, moment)


def unapproved_operations(event: Event) -> set[str]:
    return {
        operation
        for operation in operations(event)
        if took_effect(event, operation)
        for decision in event["policy_decisions"]
        if is_covered(operation, decision)
        and any(lacks_approval(event, decision, operation, moment) for moment in effect_moments(event, operation))
    }


def is_protected(event: Event, operation: str) -> bool:
    """One key on every attempt, and a registered retry of that very operation whose preconditions hold."""
    keys = {call["idempotency_key"] for call in writes_of(event, operation)}
    retry = any(
        fallback["source"] == "idempotent_retry"
        and fallback["operation_id"] == operation
        and fallback["preconditions_met"] is True
        for fallback in event["fallbacks"]
    )
    return retry and len(keys) == 1 and None not in keys


def unprotected_ambiguity(event: Event) -> bool:
    return any(not is_protected(event, operation) for operation in ambiguous_operations(event))


def fence_crossings(event: Event) -> set[str]:
    tokens = [event["fencing_token"], block(event, "takeover").get("fencing_token")]
    newest = max((token for token in tokens if token is not None), default=None)
    if newest is None:
        return set()
    return {
        call["operation_id"]
        for call in writes(event)
        if call["fencing_token"] is not None
        and call["fencing_token"] < newest
        and (outcome(call) == "ok" or may_have_happened(event, call))
    }


def contradicts_itself(event: Event, entry: Record) -> bool:
    """The ledger denies what a write answered, or confirms what every attempt proves not to have happened."""
    calls = writes_of(event, entry["operation_id"])
    if status(entry) == "not_started":
        return any(outcome(call) == "ok" for call in calls)
    return status(entry) == "confirmed" and bool(calls) and all(proves_nothing_happened(call) for call in calls)


def contradiction(event: Event) -> bool:
    listed = any(item["resolved"] is not True for item in event["contradictions"])
    return listed or any(contradicts_itself(event, entry) for entry in event["side_effects"])


def covers_effect(denied: Denial, operation: str, started: int | None) -> bool:
    """A denied operation, or, of a denied request, what started after the denial or has no time."""
    if denied.operation is not None:
        return denied.operation == operation
    return started is None or denied.moment is None or started > denied.moment


def confirmed_though_denied(event: Event) -> set[str]:
    denials = standing_denials(event)
    return {
        operation
        for operation in operations(event)
        if took_effect(event, operation)
        for started in effect_moments(event, operation)
        if any(covers_effect(denied, operation, started) for denied in denials)
    }


def is_compensated(event: Event, operation: str) -> bool:
    entries = entries_of(event, operation)
    compensated = any(status(entry) == "compensated" for entry in entries)
    return compensated and all(status(entry) != "confirmed" for entry in entries)


def obligations(event: Event) -> tuple[Obligation, ...]:
    to_compensate = (
        duplicate_operations(event)
        | unapproved_operations(event)
        | fence_crossings(event)
        | confirmed_though_denied(event)
    )
    owed = [("reconcile", operation) for operation in ambiguous_operations(event)]
    owed += [("compensate", operation) for operation in to_compensate if not is_compensated(event, operation)]
    return tuple((action, None if name.startswith(UNNAMED) else name) for action, name in sorted(owed))


# ---- section 3, what can be handed over ---------------------------------------------------------------------------

TRIGGERS = {
    "timeout": "dependency_timeout",
    "unavailable": "dependency_unavailable",
    "error": "dependency_error",
    "malformed": "malformed_output",
    "truncated": "output_truncated",
    "model_declined": "model_declined",
    "budget_exhausted": "budget_exhausted",
}
"""What can trigger a fallback, in the order in which one of several is named, with the reason that it gives."""

Failure = tuple[str | None, str | None]
"""What failed: the operation (None for the run itself), and the trigger (None where no fallback can serve it)."""


def trigger_of(call: Record) -> str | None:
    result = "unavailable" if outcome(call) == "circuit_open" else outcome(call)
    return result if result in ("timeout", "unavailable", "error", "malformed") else None


def failures_of_the_run(event: Event) -> list[Failure]:
    """What failed apart from the calls."""
    found = {
        "error": stop_class(event) == "error",
        "truncated": stop_class(event) == "truncated",
        "model_declined": model_declined(event),
        "budget_exhausted": any(name != "unknown" for name in block(event, "budget").get("exhausted", [])),
    }
    return [(None, trigger) for trigger, holds in found.items() if holds]


def any_failure(event: Event) -> list[Failure]:
    attempts = [(call["operation_id"], trigger_of(call)) for call in event["tool_calls"] if outcome(call) != "ok"]
    return attempts + failures_of_the_run(event)


def required_failures(event: Event) -> list[Failure]:
    return [(call["operation_id"], trigger_of(call)) for call in failed_calls(event)]


def serves(fallback: Record, failure: Failure) -> bool:
    operation, trigger = failure
    named = fallback["operation_id"] is None or fallback["operation_id"] == operation
    return named and trigger in fallback["triggers"]


def is_fresh(event: Event, fallback: Record) -> bool:
    """Observed before the run ended and younger than its limit; without both figures there is nothing to judge."""
    observed, limit = fallback["observed_at"], fallback["max_age_s"]
    if observed is None or limit is None:
        return True
    return bool(0 <= event["occurred_at"] - observed < limit * 1_000_000)


def source_is_documented(fallback: Record) -> bool:
    needed = {
        "rules_engine": ("ruleset_version",),
        "cached": ("reference_data_version", "observed_at", "max_age_s"),
        "alternate_source": ("origin",),
        "default": (),
        "idempotent_retry": (),
    }.get(fallback["source"])
    return needed is not None and all(fallback[name] is not None for name in needed)


def may_act(event: Event, fallback: Record) -> bool:
    """Reading is free; a write must be protected."""
    if fallback["access"] == "read" and fallback["source"] != "idempotent_retry":
        return True
    return fallback["operation_id"] is not None and is_protected(event, fallback["operation_id"])


def is_applied(fallback: Record) -> bool:
    return fallback["applied"] is True


def is_sound(event: Event, fallback: Record) -> bool:
    """Everything about eligibility but the trigger."""
    return (
        fallback["version"] is not None
        and fallback["inputs_digest"] is not None
        and fallback["preconditions_met"] is True
        and fallback["shares_failed_dependency"] is False
        and fallback["uses_model_judgement"] is False
        and (fallback["disclosed"] is True or not is_applied(fallback))
        and may_act(event, fallback)
        and source_is_documented(fallback)
        and is_fresh(event, fallback)
    )


def eligible(event: Event, *, applied: bool) -> list[Record]:
    """Sound fallbacks that something triggered: what was applied by anything, what is ready by what still fails."""
    failures = any_failure(event) if applied else required_failures(event) + failures_of_the_run(event)
    return [
        fallback
        for fallback in event["fallbacks"]
        if is_applied(fallback) == applied
        and is_sound(event, fallback)
        and any(serves(fallback, failure) for failure in failures)
    ]


def ready(event: Event) -> list[Record]:
    """Eligible ones that were not applied, if together they serve every required call that failed."""
    found = eligible(event, applied=False)
    served = all(any(serves(fallback, failure) for fallback in found) for failure in required_failures(event))
    return found if served else []


def fallback_reasons(event: Event) -> list[str]:
    """The reason of the fallback that answers, applied before ready, then by id; several where ids are the same."""
    applied = eligible(event, applied=True)
    candidates = applied or ready(event)
    failures = any_failure(event) if applied else required_failures(event) + failures_of_the_run(event)
    first = min((name_of(fallback) for fallback in candidates), default="")
    return sorted({first_reason(fallback, failures) for fallback in candidates if name_of(fallback) == first})


def name_of(fallback: Record) -> str:
    return fallback["fallback_id"] or ""


def first_reason(fallback: Record, failures: list[Failure]) -> str:
    served = {trigger for operation, trigger in failures if serves(fallback, (operation, trigger))}
    return next(reason for trigger, reason in TRIGGERS.items() if trigger in served)


def ineligible_fallback_applied(event: Event) -> bool:
    fine = eligible(event, applied=True)
    return any(is_applied(fallback) and fallback not in fine for fallback in event["fallbacks"])


def fallback_applied(event: Event) -> bool:
    return any(is_applied(fallback) for fallback in event["fallbacks"])


def omissions(event: Event) -> list[Record]:
    return [component for component in event["components"] if component["state"] != "completed"]


def may_change_result(component: Record) -> bool:
    return bool(component["can_change_result"] != "no")


def omission_may_change(event: Event) -> bool:
    return any(may_change_result(component) for component in omissions(event))


def required_omission(event: Event) -> bool:
    return any(is_required(component) for component in omissions(event))


def safe_partial(event: Event) -> bool:
    omitted = omissions(event)
    return (
        0 < len(omitted) < len(event["components"])
        and not omission_may_change(event)
        and not unsupported_decision(event)
        and ledger_settled(event)
        and not empty_response(event)
        and stop_class(event) != "filtered"
    )


def unsupported_decision(event: Event) -> bool:
    decision = block(event, "decision")
    completed = {component["name"] for component in event["components"]}
    completed -= {component["name"] for component in omissions(event)}
    return decision.get("asserted") is True and not set(decision["required_checks"]) <= completed


# ---- section 3, the run -------------------------------------------------------------------------------------------


def nonterminal_stop(event: Event) -> bool:
    if event["model"] is None:
        return False
    if stop_class(event) in (None, "paused", "absent"):
        return True
    last = [call for path in paths(event) for call in last_attempts(path)]
    everything = bool(last) and all(was_executed(call) for call in last)
    return stop_class(event) == "tool_call" and not everything


def was_executed(call: Record) -> bool:
    """An unknown outcome does not show that it was."""
    return outcome(call) not in ("not_executed", "circuit_open", "denied", "unknown")


def paths(event: Event) -> list[list[Record]]:
    """The attempts of each operation; a read is no attempt of a write (the text is silent)."""
    calls = event["tool_calls"]
    keys = sorted({(call["operation_id"], is_write(call)) for call in calls})
    return [[call for call in calls if (call["operation_id"], is_write(call)) == key] for key in keys]


def required_paths(event: Event) -> list[list[Record]]:
    return [path for path in paths(event) if any(is_required(call) for call in path)]


def authority_missing(event: Event) -> bool:
    return any(
        any(is_permission_error(call) for call in path) and all(outcome(call) != "ok" for call in path)
        for path in required_paths(event)
    )


def last_attempts(path: list[Record]) -> list[Record]:
    """The last by number, else by start; the text is silent on a tie, and on neither: all of those count."""
    for name in ("attempt", "started_at"):
        if all(call[name] is not None for call in path):
            last = max(call[name] for call in path)
            return [call for call in path if call[name] == last]
    return path


def failed_calls(event: Event) -> list[Record]:
    return [call for path in required_paths(event) for call in last_attempts(path) if outcome(call) != "ok"]


def no_progress(event: Event) -> bool:
    last = event["steps"][-3:]
    if len(last) < 3:
        return False
    keys = {step["action_key"] for step in last}
    return (len(keys) == 1 and None not in keys) or all(step["advanced"] is False for step in last)


def decimal(value: float) -> Decimal:
    return Decimal(str(value))


def has_fallen(earlier: Iterable[float | None], last: float) -> bool:
    values = [decimal(value) for value in earlier if value is not None]
    return len(values) >= 2 and sum(values, Decimal(0)) / len(values) - decimal(last) > Decimal("0.2")


def low_confidence(event: Event) -> str | None:
    """The reason to distrust the last step, if there is one."""
    if not event["steps"]:
        return None
    *earlier, last = event["steps"]
    confidence = last["confidence_after"]
    if confidence is not None and decimal(confidence) < Decimal("0.6"):
        return "confidence_below_floor"
    if confidence is not None and has_fallen([step["confidence_after"] for step in earlier[-3:]], confidence):
        return "confidence_declining"
    return (
        "result_confidence_low" if any(decimal(score) < Decimal("0.3") for score in last["checks"].values()) else None
    )


def person_took_over(event: Event) -> bool:
    return event["takeover"] is not None and event["takeover"]["state"] not in ("RUNNING", "CLOSED")


def child_run_open(event: Event) -> bool:
    return any(child["state"] != "stopped" for child in event["children"])


def budget_exhausted(event: Event) -> bool:
    return bool(block(event, "budget").get("exhausted"))


def empty_response(event: Event) -> bool:
    silent = block(event, "model").get("output_tokens") == 0
    return bool(silent) and not event["tool_calls"] and stop_class(event) != "error"


# ---- section 4, the table -----------------------------------------------------------------------------------------


def completion_verified(event: Event) -> bool:
    return (
        predicate(event) == "satisfied"
        and ledger_settled(event)
        and not required_omission(event)
        and not omission_may_change(event)
        and not fallback_applied(event)
        and not nonterminal_stop(event)
    )


def completion_unverified(event: Event) -> bool:
    return (
        is_claimed(event)
        and predicate(event) == "not_evaluated"
        and (event["model"] is None or stop_class(event) == "end")
        and not omissions(event)
        and ledger_settled(event)
        and not failed_calls(event)
    )


def dependency_failed(event: Event) -> bool:
    calls = any(trigger is not None for _, trigger in required_failures(event))
    return calls or stop_class(event) == "error"


def premature_completion(event: Event) -> str | None:
    if not is_claimed(event):
        return None
    return {"unsatisfied": "premature_completion", "unverifiable": "completion_unverifiable"}.get(predicate(event))


def partial_reasons(event: Event) -> list[str]:
    """The reason of the first omitted component by name; several where names are the same."""
    omitted = omissions(event)
    first = min((component["name"] or "" for component in omitted), default="")
    return sorted({item["reason_code"] or "partial" for item in omitted if (item["name"] or "") == first})


def row(event: Event) -> tuple[str, str, str]:  # noqa: C901, PLR0911, PLR0912 - the table, a row each, is the point
    """The first row of the table that holds: kind, row id, reason code."""
    if reasons := denial_reasons(event):
        return "refusal", "blocking_denial", reasons[0]
    if fence_crossings(event):
        return _queue("fence_violation")
    if unprotected_ambiguity(event):
        return _queue("ambiguous_side_effect")
    if duplicate_operations(event):
        return _queue("duplicate_side_effect")
    if unapproved_operations(event):
        return _queue("unapproved_effect")
    if person_took_over(event):
        return _queue("human_takeover")
    if child_run_open(event):
        return _queue("human_takeover", "child_run_open")
    if contradiction(event):
        return _queue("contradictory_evidence")
    if approval_needed(event):
        return _queue("approval_required")
    if policy_unavailable(event):
        return _queue("policy_unavailable")
    if authority_missing(event):
        return _queue("authority_missing")
    if model_refusal_unverified(event):
        return _queue("model_refusal_unverified")
    if unsupported_decision(event):
        return _queue("unsupported_decision")
    if completion_verified(event):
        return "completed", "completion_verified", "completion_verified"
    if ineligible_fallback_applied(event):
        return _queue("ineligible_fallback_applied")
    if reasons := fallback_reasons(event):
        return "fallback", "fallback", reasons[0]
    if doubt := low_confidence(event):
        return _queue("low_confidence", doubt)
    if safe_partial(event):
        return "partial", "partial", partial_reasons(event)[0]
    if omission_may_change(event):
        return _queue("omission_may_change_result")
    if budget_exhausted(event):
        return _queue("budget_exhausted")
    if no_progress(event):
        return _queue("no_progress")
    if any(outcome(call) == "malformed" for call in failed_calls(event)):
        return _queue("malformed_evidence")
    if dependency_failed(event):
        return _queue("dependency_failed_no_fallback")
    if model_declined(event):
        return _queue("model_declined_no_fallback")
    if nonterminal_stop(event) or stop_class(event) == "truncated":
        return _queue("nonterminal_stop")
    if empty_response(event):
        return _queue("nonterminal_stop", "empty_response")
    if reason := premature_completion(event):
        return _queue("premature_completion", reason)
    if completion_unverified(event):
        return "completed", "completion_unverified", "completion_unverified"
    return _queue("insufficient_evidence")


def _queue(rule_id: str, reason: str | None = None) -> tuple[str, str, str]:
    return "human_queue", rule_id, reason or rule_id


# ---- section 5, the invariants ------------------------------------------------------------------------------------

KINDS = ("completed", "refusal", "fallback", "partial", "human_queue")


def only_the_queue(event: Event) -> bool:
    """Invariants 3 and 6, and the second part of 5."""
    return (
        unprotected_ambiguity(event)
        or bool(duplicate_operations(event) or unapproved_operations(event) or fence_crossings(event))
        or person_took_over(event)
        or child_run_open(event)
        or contradiction(event)
        or ineligible_fallback_applied(event)
        or policy_unavailable(event)
        or approval_needed(event)
        or authority_missing(event)
        or model_refusal_unverified(event)
    )


def may_complete(event: Event) -> bool:
    """What invariants 4, 5, 7 and 8 ask of a completion."""
    satisfied = predicate(event) == "satisfied"
    unevaluated = is_claimed(event) and predicate(event) == "not_evaluated"
    poor = low_confidence(event) or empty_response(event) or stop_class(event) == "truncated"
    return (
        (satisfied or (unevaluated and not poor))
        and ledger_settled(event)
        and not omission_may_change(event)
        and not required_omission(event)
        and not unsupported_decision(event)
        and not fallback_applied(event)
        and not nonterminal_stop(event)
    )


def possible(event: Event) -> set[str]:
    """The kinds that no invariant rules out."""
    if standing_denials(event):
        return {"refusal"}
    kinds = {"human_queue"}
    if only_the_queue(event):
        return kinds
    if may_complete(event):
        kinds.add("completed")
    if fallback_reasons(event) and not unsupported_decision(event):
        kinds.add("fallback")
    if safe_partial(event) and not low_confidence(event):
        kinds.add("partial")
    return kinds


def specify(event: Event) -> Answer:
    """The answer that the exit contracts ask for, of a terminal event in its in-memory form."""
    event = with_names(event)
    kind, rule_id, reason = row(event)
    allowed = possible(event)
    prohibited = tuple(name for name in KINDS if name not in allowed)
    return Answer(kind, rule_id, reason, prohibited, obligations(event))


def fair_reasons(event: Event) -> tuple[str, ...]:
    """Every reason code that is right: more than one where the text does not order what is equally first."""
    event = with_names(event)
    kind, _, reason = row(event)
    open_order = {"refusal": denial_reasons, "fallback": fallback_reasons, "partial": partial_reasons}
    return tuple(open_order[kind](event)) if kind in open_order else (reason,)
