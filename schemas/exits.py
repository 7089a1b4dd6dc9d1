"""What comes out: the classification of a terminal event, its exit envelope, and the review packet.

Source of names: the published contract ``classification.v1``. The envelope is a discriminated union on ``kind``; every
exit but ``completed`` has one. Producers of dispatchers validate what they receive with these models or with the JSON
Schema and Avro generated from them.
"""

from typing import Annotated, Literal

from pydantic import Field

from schemas.types import EnumMarker, Instant, ListOf, Long, Prose, Record

Kind = Annotated[
    str, EnumMarker("Kind", "completed", "refusal", "fallback", "partial", "human_queue", default="human_queue")
]
KINDS: tuple[str, ...] = ("completed", "refusal", "fallback", "partial", "human_queue")
"""The exit kinds, in the order in which prohibited kinds are listed."""

ObligationAction = Annotated[str, EnumMarker("ObligationAction", "reconcile", "compensate", default="reconcile")]
RecordStatus = Annotated[
    str, EnumMarker("RecordStatus", "not_started", "confirmed", "ambiguous", "compensated", default="ambiguous")
]
Retry = Annotated[str, EnumMarker("Retry", "never", "same_identity", "enrich_only", "after_decision", default="never")]


class Obligation(Record):
    """A duty that outlives the exit."""

    action: ObligationAction = Field(description="reconcile an unknown effect, or compensate one")
    operation_id: str | None = Field(None, description="operation that it is owed for")


class SideEffectRecord(Record):
    """What is known of one attempted mutation."""

    operation_id: str | None = Field(None, description="logical operation")
    tool: str | None = Field(None, description="tool name")
    status: RecordStatus = Field(description="what is known")


class Omission(Record):
    """A component that a partial result lacks."""

    component: str | None = Field(None, description="name of the component")
    reason_code: str | None = Field(None, description="why it is missing")
    retryable: bool = Field(description="whether later enrichment may add it")


class Refusal(Record):
    """Denied by policy; asking again cannot help."""

    kind: Literal["refusal"] = Field(description="always refusal")
    reason_code: str = Field(description="reason of the denial")
    policy_id: str | None = Field(None, description="policy that denied")
    explanation: str = Field(description="outcome first, then the alternatives; for people")
    retry: Retry = Field(description="what a caller may do")
    side_effects: ListOf[SideEffectRecord] = Field(description="attempted mutations")


class FallbackExit(Record):
    """Answered by a deterministic fallback."""

    kind: Literal["fallback"] = Field(description="always fallback")
    reason_code: str = Field(description="failure that triggered it")
    fallback_id: str | None = Field(None, description="fallback")
    fallback_version: str | None = Field(None, description="its version")
    result_ref: str | None = Field(None, description="reference of its result")
    idempotency_key: str | None = Field(None, description="key under which a write must be repeated")
    retry: Retry = Field(description="what a caller may do")
    side_effects: ListOf[SideEffectRecord] = Field(description="attempted mutations")


class PartialExit(Record):
    """A bounded partial result; the omitted components cannot change what is there."""

    kind: Literal["partial"] = Field(description="always partial")
    reason_code: str = Field(description="why the first omitted component is missing")
    result_ref: str | None = Field(None, description="reference of the result")
    completed: ListOf[str] = Field(description="components that are there")
    omitted: ListOf[Omission] = Field(description="components that are not")
    completeness: Literal["partial"] = Field(description="always partial")
    retry: Retry = Field(description="what a caller may do")
    side_effects: ListOf[SideEffectRecord] = Field(description="attempted mutations")


class HumanQueue(Record):
    """A person decides; the agent must stop."""

    kind: Literal["human_queue"] = Field(description="always human_queue")
    reason_code: str = Field(description="why a person is needed")
    queue: str = Field(description="queue that owns it")
    owner: str = Field(description="who owns the queue")
    review_packet_id: str = Field(description="review packet to open")
    allowed_decisions: ListOf[str] = Field(description="what the reviewer may decide")
    deadline: Instant = Field(description="until when")
    explanation: str = Field(description="for people: what happened, whose it is now, and that the agent is done")
    retry: Retry = Field(description="what a caller may do")
    side_effects: ListOf[SideEffectRecord] = Field(description="attempted mutations")


Envelope = Annotated[Refusal | FallbackExit | PartialExit | HumanQueue, Field(discriminator="kind")]
ENVELOPES: dict[str, type[Record]] = {
    "refusal": Refusal,
    "fallback": FallbackExit,
    "partial": PartialExit,
    "human_queue": HumanQueue,
}


class TableRef(Record):
    """Which decision table decided."""

    id: str = Field(description="name of the table")
    version: str = Field(description="its version")
    digest: str = Field(description="sha256 of its canonical content")


class Classification(Record):
    """How a run ended, and what may safely happen next."""

    event_id: str = Field(description="terminal event")
    kind: Kind = Field(description="exit kind")
    reason_code: str = Field(description="stable code of the reason")
    rule_id: str = Field(description="row of the table that decided")
    verified: bool = Field(description="true for completion_verified alone")
    prohibited: ListOf[str] = Field(description="kinds that the invariants rule out for these facts")
    obligations: ListOf[Obligation] = Field(description="what must still happen")
    evidence_gaps: ListOf[str] = Field(description="missing evidence that would have earned a better exit")
    findings: ListOf[str] = Field(description="codes of oddities that had no say in the exit")
    facts: ListOf[str] = Field(description="names of the facts that hold, sorted")
    table: TableRef = Field(description="decision table")
    classifier_version: str = Field(description="version of the classifier")
    evidence_digest: str = Field(description="sha256 of the evidence without identity and prose")
    content_digest: str = Field(description="sha256 of everything")
    envelope: Envelope | None = Field(None, description="exit envelope; absent for completed")


class Mutation(Record):
    """An attempted mutation as a reviewer sees it."""

    operation_id: str | None = Field(None, description="logical operation")
    tool: str | None = Field(None, description="tool name")
    status: RecordStatus = Field(description="what is known")
    target: str | None = Field(None, description="what was changed")
    reversible: bool | None = Field(None, description="whether it can be compensated")
    verified_by: str | None = Field(None, description="how the status was established")
    arguments: ListOf[str] = Field(description="arguments of its attempts")


class PacketDecision(Record):
    """A policy decision as a reviewer sees it."""

    policy_id: str | None = Field(None, description="policy")
    policy_version: str | None = Field(None, description="its version")
    source: str | None = Field(None, description="kind of authority")
    operation_id: str | None = Field(None, description="operation; absent: the whole request")
    effect: str | None = Field(None, description="the decision")
    reason_code: str | None = Field(None, description="its reason")
    approval_state: str | None = Field(None, description="state of the approval")
    decided_at: Instant | None = Field(None, description="when")


class ToolOutput(Record):
    """An output that bears on the decision."""

    tool: str | None = Field(None, description="tool name")
    operation_id: str | None = Field(None, description="logical operation")
    outcome: str | None = Field(None, description="how the attempt ended")
    error_class: str | None = Field(None, description="error class")
    status_code: Long | None = Field(None, description="protocol status")
    response: str | None = Field(None, description="tool response")


class ReviewPacket(Record):
    """What a reviewer needs to act. Confirmed facts stand apart from what the agent proposes."""

    review_packet_id: str = Field(description="identity of the packet")
    event_id: str = Field(description="terminal event")
    queue: str = Field(description="queue that owns it")
    owner: str = Field(description="who owns the queue")
    reason_code: str = Field(description="why a person is needed")
    request_ref: str | None = Field(None, description="original request")
    goal: str | None = Field(None, description="goal of the run")
    request_text: Prose | None = Field(None, description="the request in words")
    actor: str | None = Field(None, description="authenticated actor")
    permissions: ListOf[str] = Field(description="delegated permissions")
    policy_decisions: ListOf[PacketDecision] = Field(description="policy decisions with versions")
    tool_outputs: ListOf[ToolOutput] = Field(description="relevant tool outputs")
    mutations: ListOf[Mutation] = Field(description="attempted mutations: committed, then unknown, then safely ended")
    obligations: ListOf[Obligation] = Field(description="what must still happen")
    confirmed: ListOf[str] = Field(description="what is confirmed")
    proposed: ListOf[str] = Field(description="what the agent claims or proposes, unconfirmed")
    allowed_decisions: ListOf[str] = Field(description="what the reviewer may decide")
    deadline: Instant = Field(description="until when")
    completeness: float = Field(description="share of what a reviewer needs that is there, 0 to 1")
    missing: ListOf[str] = Field(description="what a reviewer needs and is not there")
