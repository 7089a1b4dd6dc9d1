"""What else arrives about a run, version 1: legacy exits, operators' recovery, review events, enrichments.

Source of names and symbols: the published contract ``companions.v1``. Records come in any order, late, twice or never;
each names the terminal event by ``event_id`` or else the run by ``run_id`` and ``segment``. Identity is (tenant,
record_id).
"""

from typing import Annotated, Literal

from pydantic import Field

from schemas.events import Identifier
from schemas.types import EnumMarker, Instant, Long, MapOf, Prose, Record

RecoveryActionKind = Annotated[
    str,
    EnumMarker(
        "RecoveryActionKind",
        "retried",
        "resubmitted",
        "approved",
        "rejected",
        "overrode",
        "compensated",
        "reconciled",
        "escalated",
        "ignored",
        "closed",
        "unknown",
    ),
]
ReviewEventKind = Annotated[
    str,
    EnumMarker(
        "ReviewEventKind", "opened", "claimed", "paused", "resumed", "decided", "expired", "reassigned", "unknown"
    ),
]
EnrichmentState = Annotated[str, EnumMarker("EnrichmentState", "completed", "failed", "superseded", "unknown")]


class Companion(Record):
    """Fields that all companions share."""

    version: Literal[1] = Field(description="version of the contract")
    record_id: Identifier = Field(description="identity of the record within its tenant")
    tenant: Identifier = Field(description="tenant")
    event_id: str | None = Field(None, description="terminal event it is about")
    run_id: str | None = Field(None, description="else the run it is about")
    segment: Long | None = Field(None, description="segment of that run")


class LegacyExit(Companion):
    """What the legacy dispatcher decided about a run."""

    type: Literal["legacy_exit"] = Field(description="always legacy_exit")
    dispatcher: str | None = Field(None, description="name of the dispatcher")
    dispatcher_version: str | None = Field(None, description="its version")
    label: str | None = Field(None, description="the dispatcher's own name for the exit")
    http_status: Long | None = Field(None, description="HTTP status that it answered with")
    error_class: str | None = Field(None, description="error class that it reported")
    retries: Long | None = Field(None, description="how often it retried")
    queue: str | None = Field(None, description="queue that it opened a ticket in")
    user_visible: bool | None = Field(None, description="whether the user saw this exit")
    decided_at: Instant | None = Field(None, description="when it decided")
    extensions: MapOf[str] = Field(description="unknown fields, each as JSON text by path")


class RecoveryAction(Companion):
    """What an operator did about a run."""

    type: Literal["recovery_action"] = Field(description="always recovery_action")
    action: RecoveryActionKind | None = Field(None, description="what was done")
    operation_id: str | None = Field(None, description="operation that it was done to")
    actor: str | None = Field(None, description="who did it")
    reason: Prose | None = Field(None, description="why, in words")
    at: Instant | None = Field(None, description="when")
    extensions: MapOf[str] = Field(description="unknown fields, each as JSON text by path")


class ReviewEvent(Companion):
    """What happened to a review packet in its queue."""

    type: Literal["review_event"] = Field(description="always review_event")
    review_packet_id: str | None = Field(None, description="review packet")
    queue: str | None = Field(None, description="queue that it is in")
    event: ReviewEventKind | None = Field(None, description="what happened")
    decision: str | None = Field(None, description="decision, one of those that the packet allowed")
    overrode_proposal: bool | None = Field(None, description="whether the reviewer went against the agent's proposal")
    reason: Prose | None = Field(None, description="why, in words")
    reviewer: str | None = Field(None, description="who")
    deadline: Instant | None = Field(None, description="deadline of the review")
    at: Instant | None = Field(None, description="when")
    extensions: MapOf[str] = Field(description="unknown fields, each as JSON text by path")


class Enrichment(Companion):
    """A component that was added, or failed to be added, to an earlier partial."""

    type: Literal["enrichment"] = Field(description="always enrichment")
    component: str | None = Field(None, description="name of the component")
    state: EnrichmentState | None = Field(None, description="what became of it")
    reverses_result: bool | None = Field(None, description="true: the earlier partial would have been different")
    at: Instant | None = Field(None, description="when")
    extensions: MapOf[str] = Field(description="unknown fields, each as JSON text by path")


AnyCompanion = Annotated[LegacyExit | RecoveryAction | ReviewEvent | Enrichment, Field(discriminator="type")]
COMPANIONS: dict[str, type[Companion]] = {
    "legacy_exit": LegacyExit,
    "recovery_action": RecoveryAction,
    "review_event": ReviewEvent,
    "enrichment": Enrichment,
}
