"""Policy: standing denials, approvals, and decisions that could not be made."""

from dataclasses import dataclass

from classifier.effects import Effects, Operation
from classifier.fact import Event, Fact, Finding
from schemas.canonical import encode_json

STANDING_DENIAL = Fact(0, "standing_denial", "a policy or approver denied, and nothing lifted it")
UNAPPROVED_EFFECT = Fact(5, "unapproved_effect", "a write took effect without the approval that it needed")
APPROVAL_NEEDED = Fact(9, "approval_needed", "an approval is required and neither granted nor denied")
POLICY_UNAVAILABLE = Fact(10, "policy_unavailable", "a needed decision could not be made; absent effects count as that")
REQUEST_ALLOWED = Fact(
    13, "request_allowed", "the application or an approver said yes to the request, or to an operation still to be done"
)
FACTS: tuple[Fact, ...] = (STANDING_DENIAL, UNAPPROVED_EFFECT, APPROVAL_NEEDED, POLICY_UNAVAILABLE, REQUEST_ALLOWED)

POST_DENIAL_ACTIVITY = Finding("post_denial_activity", "a call was executed after the denial")
FINDINGS: tuple[Finding, ...] = (POST_DENIAL_ACTIVITY,)

REASON_BY_SOURCE = {
    "validator": "invalid_request",
    "provider_filter": "content_filter",
    "approver": "approver_denied",
}
"""Reason of a denial that carries no code of its own, by the source of the decision."""
_NOT_EXECUTED = frozenset({"not_executed", "denied", "circuit_open"})


@dataclass(frozen=True, slots=True)
class Denial:
    """A denial of the whole request (no operation) or of one operation. ``at`` is None when undated."""

    decision_id: str
    policy_id: str | None
    operation_id: str | None
    at: int | None
    reason: str | None
    decision: Event | None
    by_approval: bool = False

    @property
    def rank(self) -> tuple[bool, int, bool, str, bool, bytes]:
        """Order of precedence: dated before undated, earlier first, recorded before inferred, then by decision, its own
        denial before its approval's; total, so that order of arrival decides nothing."""
        dated, recorded = self.at is not None, self.decision is not None
        own, rest = not self.by_approval, encode_json((self.reason, self.decision))
        return (not dated, self.at or 0, not recorded, self.decision_id, not own, rest)


@dataclass(frozen=True, slots=True)
class Grant:
    """An approver's yes to an operation, or to the whole request (no operation)."""

    operation_id: str | None
    at: int
    expires_at: int | None

    def holds_at(self, moment: int) -> bool:
        """Whether it had been given, and had not expired, at ``moment``."""
        return self.at <= moment and (self.expires_at is None or moment < self.expires_at)


# Most events have neither; nobody adds to what is shared.
_NO_DENIALS: list[Denial] = []
_NO_OPERATIONS: set[Operation] = set()


class Policy:
    """What the policies of an event decided. Marks the operations that a standing denial covers."""

    __slots__ = ("bits", "denials", "event", "occurred_at", "unapproved")

    def __init__(self, event: Event, effects: Effects) -> None:
        self.event = event
        self.occurred_at: int = event["occurred_at"]
        self.denials = _NO_DENIALS
        self.unapproved = _NO_OPERATIONS
        self.bits = 0
        model: Event | None = event["model"]
        if event["policy_decisions"] or (model and model["stop_class"] == "filtered"):
            self._decide(effects)

    def _decide(self, effects: Effects) -> None:
        self.denials = self._standing_denials(effects)
        if self.denials:
            self.bits |= STANDING_DENIAL.bit
            self._mark_denied(effects)
        self._judge_approvals(effects)
        decisions = self.event["policy_decisions"]
        if any(_is_unavailable(d) and not self._is_superseded(d) for d in decisions):
            self.bits |= POLICY_UNAVAILABLE.bit
        if any(self._allows_what_is_not_done(d, effects) for d in decisions):
            self.bits |= REQUEST_ALLOWED.bit

    # --- denials

    def _standing_denials(self, effects: Effects) -> list[Denial]:
        denials = [denial for d in self.event["policy_decisions"] for denial in _denials_of(d)]
        standing = [denial for denial in denials if not self._is_lifted(denial, effects)]
        model = self.event["model"]
        recorded = any(d["effect"] == "deny" and d["source"] == "provider_filter" for d in self._decisions)
        if model and model["stop_class"] == "filtered" and not recorded:
            standing.append(Denial("", None, None, self.occurred_at, "content_filter", None))
        return sorted(standing, key=lambda denial: denial.rank)

    @property
    def _decisions(self) -> list[Event]:
        decisions: list[Event] = self.event["policy_decisions"]
        return decisions

    def _is_lifted(self, denial: Denial, effects: Effects) -> bool:
        later = [
            d
            for d in self._decisions
            if _allows(d) and not self._is_by_agent(d) and self._is_later(d["decided_at"], denial.at)
        ]
        if any(d["operation_id"] == denial.operation_id and self._may_lift(d, denial.policy_id) for d in later):
            return True
        return denial.operation_id is not None and self._finished_otherwise(denial.operation_id, later, effects)

    def _may_lift(self, decision: Event, policy_id: str | None) -> bool:
        """Whether it is of the same policy, or of an approver."""
        return decision["source"] == "approver" or _same_policy(decision, policy_id)

    def _is_by_agent(self, decision: Event) -> bool:
        """Whether the agent itself answered in a decision's approval, which allows nothing."""
        approval = decision["approval"]
        return bool(approval) and approval["approver"] == self.event["agent_id"]

    def _is_later(self, moment: int | None, than: int | None) -> bool:
        return moment is not None and than is not None and than < moment <= self.occurred_at

    def _finished_otherwise(self, denied: str, later: list[Event], effects: Effects) -> bool:
        """Whether the run reached its goal another way that was explicitly allowed, the denied one without effect."""
        completion = self.event["completion"]
        operation = effects.by_id.get(denied)
        harmless = operation is None or not operation.may_have_effect
        if not harmless or not completion or completion["result"] != "satisfied":
            return False
        others = {d["operation_id"] for d in later} - {None, denied}
        return any(c["outcome"] == "ok" and c["operation_id"] in others for c in self.event["tool_calls"])

    def _mark_denied(self, effects: Effects) -> None:
        for operation in effects.operations:
            operation.denied = any(d.operation_id is None or d.operation_id == operation.id for d in self.denials)

    def owes_compensation(self, operation: Operation) -> bool:
        """Whether the operation took effect though denied; of a denial of the whole request, only after it."""
        if not operation.took_effect:
            return False
        return any(_covers_effect(denial, operation) for denial in self.denials)

    # --- approvals

    def _own_grants(self, decision: Event) -> list[Grant]:
        """The grant that a decision's own approval holds: by somebody who is not the agent, and dated. Where an
        approver allows, the decision is the answer, and its time will do."""
        approval = decision["approval"]
        if not approval or approval["state"] != "granted" or self._is_own(approval["approver"]):
            return []
        at = approval["resolved_at"]
        if at is None and decision["source"] == "approver" and decision["effect"] == "allow":
            at = decision["decided_at"]
        operation_id = approval["operation_id"] or decision["operation_id"]
        return [] if at is None else [Grant(operation_id, at, approval["expires_at"])]

    def _is_own(self, approver: str | None) -> bool:
        """Whether nobody but the agent answered."""
        return approver is None or approver == self.event["agent_id"]

    def _grants_for(self, requirement: Event) -> list[Grant]:
        """Grants that answer a requirement: of its operation, or where it is about the whole request, any."""
        grants = self._own_grants(requirement)
        for decision in self._decisions:
            if decision is not requirement and self._is_later(decision["decided_at"], requirement["decided_at"]):
                grants += self._approver_grants(decision)
        needed = requirement["operation_id"]
        return grants if needed is None else [grant for grant in grants if grant.operation_id == needed]

    def _approver_grants(self, decision: Event) -> list[Grant]:
        """The grant that an allowing decision of an approver is."""
        approval = decision["approval"] or {}
        if decision["source"] != "approver" or not _allows(decision) or self._is_by_agent(decision):
            return []
        return [Grant(decision["operation_id"], decision["decided_at"], approval.get("expires_at"))]

    def _judge_approvals(self, effects: Effects) -> None:
        self.unapproved = set()
        for decision in self._decisions:
            if not _requires_approval(decision):
                continue
            grants = self._grants_for(decision)
            covered = [op for op in effects.operations if decision["operation_id"] in (None, op.id)]
            lacking = [op for op in covered if not self._is_granted(op, grants)]
            self.unapproved.update(op for op in lacking if op.took_effect)
            if not self._is_answered(decision, grants, covered, lacking):
                self.bits |= APPROVAL_NEEDED.bit
        if self.unapproved:
            self.bits |= UNAPPROVED_EFFECT.bit

    def _is_granted(self, operation: Operation, grants: list[Grant]) -> bool:
        """Whether the operation was granted when its effect started, or by now where it had none. Of an effect without
        a date nobody can say that the grant came first."""
        own = [grant for grant in grants if grant.operation_id in (None, operation.id)]
        moments = operation.effect_starts if operation.may_have_effect else [self.occurred_at]
        return all(moment is not None and any(g.holds_at(moment) for g in own) for moment in moments)

    def _is_answered(
        self, decision: Event, grants: list[Grant], covered: list[Operation], lacking: list[Operation]
    ) -> bool:
        approval = decision["approval"]
        denied = approval and approval["state"] == "denied"
        if denied and approval["operation_id"] in (None, decision["operation_id"]):
            return True
        whole = (g for g in grants if g.operation_id == decision["operation_id"])
        return (bool(covered) and not lacking) or (not covered and any(g.holds_at(self.occurred_at) for g in whole))

    # --- decisions that could not be made, and what was allowed

    def _is_superseded(self, decision: Event) -> bool:
        return any(
            _same_policy(other, decision["policy_id"])
            and other["operation_id"] == decision["operation_id"]
            and not _is_unavailable(other)
            and (other["effect"] != "allow" or _is_known(other))
            and self._is_later(other["decided_at"], decision["decided_at"])
            for other in self._decisions
        )

    def _allows_what_is_not_done(self, decision: Event, effects: Effects) -> bool:
        if decision["source"] not in ("application", "approver") or not _allows(decision):
            return False
        operation_id = decision["operation_id"]
        if operation_id is None:
            return True
        operation = effects.by_id.get(operation_id)
        if operation is not None and operation.took_effect:
            return False
        return not any(c["outcome"] == "ok" and c["operation_id"] == operation_id for c in self.event["tool_calls"])

    def collect_findings(self) -> list[str]:
        """Codes of what is odd about the decisions."""
        at = self.denials[0].at if self.denials else None
        if at is None:
            return []
        calls = self.event["tool_calls"]
        after = any(
            c["started_at"] is not None and c["started_at"] > at and c["outcome"] not in _NOT_EXECUTED for c in calls
        )
        return [POST_DENIAL_ACTIVITY.code] if after else []


def _denials_of(decision: Event) -> list[Denial]:
    """The denial that a decision is, and the one that its approval holds."""
    found = []
    decision_id, policy_id = decision["decision_id"] or "", decision["policy_id"]
    if decision["effect"] == "deny":
        reason = decision["reason_code"] or REASON_BY_SOURCE.get(decision["source"])
        found.append(Denial(decision_id, policy_id, decision["operation_id"], decision["decided_at"], reason, decision))
    approval = decision["approval"]
    if approval and approval["state"] == "denied":
        operation_id = approval["operation_id"] or decision["operation_id"]
        at = decision["decided_at"] if approval["resolved_at"] is None else approval["resolved_at"]
        found.append(Denial(decision_id, policy_id, operation_id, at, "approver_denied", decision, by_approval=True))
    return found


def _is_known(decision: Event) -> bool:
    return decision["source"] not in (None, "unknown")


def _allows(decision: Event) -> bool:
    """An allow of a known source, without an approval that is still to come. An unknown source allows nothing."""
    approval = decision["approval"]
    conditional = approval and approval["state"] not in (None, "none", "granted")
    return decision["effect"] == "allow" and _is_known(decision) and not conditional


def _same_policy(decision: Event, policy_id: str | None) -> bool:
    return policy_id is not None and decision["policy_id"] == policy_id


def _requires_approval(decision: Event) -> bool:
    approval = decision["approval"]
    given = approval and approval["state"] not in (None, "none")
    return decision["effect"] == "require_approval" or bool(given)


def _is_unavailable(decision: Event) -> bool:
    return decision["effect"] in (None, "unavailable", "unknown")


def _covers_effect(denial: Denial, operation: Operation) -> bool:
    if denial.operation_id is not None:
        return denial.operation_id == operation.id
    return denial.at is None or any(start is None or start > denial.at for start in operation.effect_starts)
