"""Terminal event, version 1: the immutable record that a run ended, with the evidence of how.

Source of names and symbols: the published contract ``terminal-event.v1``. Required are the identity and
``occurred_at``; everything else may be absent, and absence is never evidence of success. In memory an event is the
plain dict that these models dump (and that fastavro decodes): every field present, lists empty when absent, other
absent values ``None``, instants as microseconds. A name that is empty is an absent one.
"""

from typing import Annotated, Literal

from pydantic import Field

from schemas.types import EnumMarker, Instant, ListOf, Long, MapOf, Name, Prose, Record

StopClass = Annotated[
    str,
    EnumMarker(
        "StopClass",
        "end",
        "tool_call",
        "truncated",
        "refused",
        "filtered",
        "paused",
        "error",
        "cancelled",
        "absent",
        "unknown",
    ),
]
PolicySource = Annotated[
    str, EnumMarker("PolicySource", "application", "validator", "guardrail", "provider_filter", "approver", "unknown")
]
PolicyEffect = Annotated[str, EnumMarker("PolicyEffect", "allow", "deny", "require_approval", "unavailable", "unknown")]
ApprovalState = Annotated[
    str, EnumMarker("ApprovalState", "none", "requested", "granted", "denied", "expired", "dismissed", "unknown")
]
Access = Annotated[str, EnumMarker("Access", "read", "write", "unknown")]
Outcome = Annotated[
    str,
    EnumMarker(
        "Outcome",
        "ok",
        "error",
        "timeout",
        "unavailable",
        "circuit_open",
        "malformed",
        "denied",
        "cancelled",
        "not_executed",
        "unknown",
    ),
]
EffectStatus = Annotated[
    str, EnumMarker("EffectStatus", "not_started", "confirmed", "ambiguous", "compensated", "unknown")
]
VerifiedBy = Annotated[
    str, EnumMarker("VerifiedBy", "none", "provider_ack", "read_back", "status_lookup", default="none")
]
FallbackSource = Annotated[
    str,
    EnumMarker(
        "FallbackSource", "rules_engine", "cached", "default", "alternate_source", "idempotent_retry", "unknown"
    ),
]
Trigger = Annotated[
    str,
    EnumMarker(
        "Trigger",
        "timeout",
        "unavailable",
        "error",
        "malformed",
        "truncated",
        "model_declined",
        "budget_exhausted",
        "unknown",
    ),
]
ComponentState = Annotated[str, EnumMarker("ComponentState", "completed", "omitted", "unknown")]
CanChangeResult = Annotated[str, EnumMarker("CanChangeResult", "no", "yes", "unknown")]
BudgetName = Annotated[
    str, EnumMarker("BudgetName", "turns", "tool_calls", "tokens", "cost", "time", "context", "unknown")
]
PredicateResult = Annotated[
    str,
    EnumMarker("PredicateResult", "satisfied", "unsatisfied", "unverifiable", "not_evaluated", default="unverifiable"),
]
TakeoverState = Annotated[
    str,
    EnumMarker(
        "TakeoverState", "RUNNING", "FREEZING", "HUMAN_CONTROL", "RESUMING", "CLOSED", "UNKNOWN", default="UNKNOWN"
    ),
]
Ack = Annotated[str, EnumMarker("Ack", "never_started", "stopped_before_call", "accepted", "unknown")]
ChildState = Annotated[str, EnumMarker("ChildState", "stopped", "running", "unknown")]


class Request(Record):
    """What was asked, by whom, under which permissions."""

    request_ref: str | None = Field(None, description="producer's own reference of the request")
    goal: str | None = Field(None, description="machine-readable goal of the run")
    actor: str | None = Field(None, description="authenticated actor on whose behalf the run acted")
    delegated_permissions: ListOf[str] = Field(description="permissions that the actor delegated to the run")
    deadline: Instant | None = Field(None, description="when the answer stops being useful")
    prose: Prose | None = Field(None, description="the request in words; never read by the classifier")


class Model(Record):
    """How the last model turn stopped. A missing block says nothing; a block without a stop class is no end."""

    provider: str | None = Field(None, description="model provider")
    model: str | None = Field(None, description="model name as the provider gives it")
    stop_signal: str | None = Field(None, description="stop signal exactly as the provider sent it")
    stop_class: StopClass | None = Field(None, description="normalised stop class")
    refusal_category: str | None = Field(None, description="policy area that the provider named with a refusal")
    input_tokens: Long | None = Field(None, description="tokens read")
    output_tokens: Long | None = Field(None, description="tokens written; 0 without a call is an empty response")
    prose: Prose | None = Field(None, description="the model's words; never read by the classifier")


class AttemptedAction(Record):
    """The action that a policy decision was about."""

    tool: Name = Field(None, description="tool name")
    arguments: str | None = Field(None, description="arguments as JSON text, as submitted")


class Approval(Record):
    """State of the approval that a decision asked for."""

    state: ApprovalState | None = Field(None, description="state of the approval")
    approver: Name = Field(None, description="who answered; the agent itself never counts")
    operation_id: Name = Field(None, description="operation that the answer is about; absent: the decision's")
    resolved_at: Instant | None = Field(None, description="when it was answered")
    expires_at: Instant | None = Field(None, description="from when on a grant no longer holds")


class PolicyDecision(Record):
    """One decision of a policy about the whole request (no operation) or one operation."""

    decision_id: Name = Field(None, description="identity of the decision")
    policy_id: Name = Field(None, description="policy or rule that decided")
    policy_version: str | None = Field(None, description="its version")
    source: PolicySource | None = Field(None, description="what kind of authority decided; absent counts as unknown")
    operation_id: Name = Field(None, description="operation decided about; absent: the whole request")
    effect: PolicyEffect | None = Field(None, description="the decision; absent and unknown read as unavailable")
    reason_code: str | None = Field(None, description="stable code of the reason")
    decided_at: Instant | None = Field(None, description="when it was decided")
    attempted_action: AttemptedAction | None = Field(None, description="the action as it was submitted")
    alternatives: ListOf[str] = Field(description="what is allowed instead, best first")
    owner: str | None = Field(None, description="who owns the policy or the next step")
    approval: Approval | None = Field(None, description="state of the approval, if one is asked for")


class ToolCall(Record):
    """One attempt of one tool call."""

    call_id: Name = Field(None, description="identity of the attempt")
    operation_id: Name = Field(None, description="logical operation that all attempts share")
    tool: Name = Field(None, description="tool name")
    tool_version: str | None = Field(None, description="tool version")
    access: Access | None = Field(None, description="read or write; absent and unknown count as write")
    required: bool | None = Field(None, description="whether the run needs it; absent counts as required")
    attempt: Long | None = Field(None, description="number of the attempt, from 1; absent: attempts follow their start")
    idempotency_key: Name = Field(None, description="key under which the other side deduplicates")
    fencing_token: Long | None = Field(None, description="token that the write carried")
    arguments: str | None = Field(None, description="arguments as JSON text")
    outcome: Outcome | None = Field(None, description="how the attempt ended; absent counts as unknown")
    error_class: str | None = Field(None, description="error class or status name")
    status_code: Long | None = Field(None, description="protocol status, such as an HTTP status")
    effect_possible: bool | None = Field(None, description="false: proven that nothing was sent")
    response: str | None = Field(None, description="tool response")
    response_digest: str | None = Field(None, description="digest of the response")
    started_at: Instant | None = Field(None, description="when the attempt started")
    duration_ms: Long | None = Field(None, description="duration in milliseconds")


class SideEffect(Record):
    """Ledger entry of an attempted mutation."""

    operation_id: Name = Field(None, description="logical operation")
    tool: Name = Field(None, description="tool name")
    status: EffectStatus | None = Field(None, description="what is known; absent counts as unknown")
    target: str | None = Field(None, description="what was changed")
    reversible: bool | None = Field(None, description="whether it can be compensated")
    count: Long | None = Field(None, description="number of effects; absent counts as 1")
    verified_by: VerifiedBy | None = Field(None, description="how the status was established; absent counts as none")


class Fallback(Record):
    """A registered fallback: its contract, and whether it was applied."""

    fallback_id: Name = Field(None, description="identity of the fallback")
    version: str | None = Field(None, description="its version")
    source: FallbackSource | None = Field(None, description="where its result comes from")
    triggers: ListOf[Trigger] = Field(description="failures that it serves")
    access: Access | None = Field(None, description="read or write; absent counts as write")
    operation_id: Name = Field(None, description="operation that it serves alone; absent: any")
    inputs_digest: str | None = Field(None, description="digest of its normalised inputs")
    ruleset_version: str | None = Field(None, description="version of the rules (rules_engine)")
    reference_data_version: str | None = Field(None, description="version of the reference data (cached)")
    origin: str | None = Field(None, description="where the data came from (alternate_source)")
    observed_at: Instant | None = Field(None, description="when the data was observed")
    max_age_s: Long | None = Field(None, description="age in seconds from which on it is stale")
    shares_failed_dependency: bool | None = Field(None, description="whether it hangs on what failed")
    uses_model_judgement: bool | None = Field(None, description="whether a model judges in it")
    preconditions_met: bool | None = Field(None, description="whether its own preconditions hold")
    applied: bool | None = Field(None, description="whether its result was served")
    disclosed: bool | None = Field(None, description="whether the consumer was told")
    result_ref: str | None = Field(None, description="reference of its result")


class Component(Record):
    """A named part of the result."""

    name: Name = Field(None, description="name of the component")
    required: bool | None = Field(None, description="whether the result needs it; absent counts as required")
    state: ComponentState | None = Field(None, description="completed or not; absent and unknown are omissions")
    reason_code: str | None = Field(None, description="why it is missing")
    retryable: bool | None = Field(None, description="whether a later attempt may add it")
    can_change_result: CanChangeResult | None = Field(None, description="absent counts as unknown, which is not no")


class Decision(Record):
    """A business decision that the run asserts."""

    asserted: bool | None = Field(None, description="whether a decision is asserted")
    value: str | None = Field(None, description="the decision")
    required_checks: ListOf[str] = Field(description="components that must be completed for it")


class Contradiction(Record):
    """Two authorities that disagree."""

    subject: str | None = Field(None, description="what they disagree about")
    sources: ListOf[str] = Field(description="who disagrees")
    resolved: bool | None = Field(None, description="whether somebody settled it; absent counts as no")


class Usage(Record):
    """One budget: what was used of what was allowed."""

    used: Long | None = Field(None, description="used")
    limit: Long | None = Field(None, description="allowed")


class Budget(Record):
    """Budgets of the run."""

    turns: Usage | None = Field(None, description="model turns")
    tool_calls: Usage | None = Field(None, description="tool calls")
    tokens: Usage | None = Field(None, description="tokens")
    cost_micros: Usage | None = Field(None, description="cost in millionths of the currency unit")
    deadline_at: Instant | None = Field(None, description="time budget")
    exhausted: ListOf[BudgetName] = Field(description="budgets that ended the run")


class Step(Record):
    """One step of the run; the order of steps is their order in time."""

    action_key: Name = Field(None, description="digest of the action; equal actions have equal keys")
    confidence_before: float | None = Field(None, description="confidence before the step, 0 to 1")
    confidence_after: float | None = Field(None, description="confidence after the step, 0 to 1")
    advanced: bool | None = Field(None, description="whether the step advanced the task; absent says nothing")
    checks: MapOf[float] = Field(description="validator checks of the step, 0 to 1")


class Completion(Record):
    """What the run claims about completion, and what its predicate found."""

    claimed: bool | None = Field(None, description="whether the run claims completion")
    predicate_id: str | None = Field(None, description="completion predicate")
    predicate_version: str | None = Field(None, description="its version")
    result: PredicateResult | None = Field(None, description="its result; absent is not_evaluated")
    result_ref: str | None = Field(None, description="reference of the result")


class TakeoverAck(Record):
    """What a worker said about an operation when it was told to freeze."""

    operation_id: Name = Field(None, description="logical operation")
    ack: Ack | None = Field(None, description="what became of it; absent counts as unknown")


class Takeover(Record):
    """Human takeover of the run."""

    state: TakeoverState | None = Field(None, description="state; absent in a block counts as UNKNOWN")
    fencing_token: Long | None = Field(None, description="newest token")
    acks: ListOf[TakeoverAck] = Field(description="acknowledgements per operation")


class Child(Record):
    """A delegated run."""

    run_id: Name = Field(None, description="run of the child")
    state: ChildState | None = Field(None, description="whether it still runs; absent counts as unknown")


Identifier = Annotated[str, Field(min_length=1, max_length=1024)]


class TerminalEvent(Record):
    """The record that a run ended."""

    type: Literal["terminal_event"] = Field(description="always terminal_event")
    version: Literal[1] = Field(description="version of the contract")
    event_id: Identifier = Field(description="identity of the event within its tenant")
    run_id: Identifier = Field(description="run that ended")
    segment: Long | None = Field(None, description="segment of the run, when it was resumed")
    fencing_token: Long | None = Field(None, description="newest fencing token that the run holds")
    tenant: Identifier = Field(description="tenant")
    agent_id: Identifier = Field(description="agent")
    agent_version: str | None = Field(None, description="version of the agent")
    workflow: str | None = Field(None, description="workflow")
    occurred_at: Instant = Field(description="when the run ended")
    trace_id: str | None = Field(None, description="W3C trace id")
    span_id: str | None = Field(None, description="W3C span id")
    request: Request | None = Field(None, description="what was asked")
    model: Model | None = Field(None, description="how the last model turn stopped")
    policy_decisions: ListOf[PolicyDecision] = Field(description="decisions of policies, validators and approvers")
    tool_calls: ListOf[ToolCall] = Field(description="attempts of tool calls")
    side_effects: ListOf[SideEffect] = Field(description="side-effect ledger")
    fallbacks: ListOf[Fallback] = Field(description="registered fallbacks")
    components: ListOf[Component] = Field(description="named parts of the result")
    decision: Decision | None = Field(None, description="business decision asserted")
    contradictions: ListOf[Contradiction] = Field(description="disagreements between authorities")
    budget: Budget | None = Field(None, description="budgets")
    steps: ListOf[Step] = Field(description="steps in order")
    completion: Completion | None = Field(None, description="claim and predicate")
    takeover: Takeover | None = Field(None, description="human takeover")
    children: ListOf[Child] = Field(description="delegated runs")
    extensions: MapOf[str] = Field(description="unknown fields, each as JSON text by path")
