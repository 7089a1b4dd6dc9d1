"""What the topic ``exit-alerts`` and the webhook say: that an alert began, goes on, or ended."""

from typing import Annotated

from pydantic import Field

from schemas.types import EnumMarker, Instant, ListOf, Record

AlertState = Annotated[str, EnumMarker("AlertState", "firing", "resolved", default="firing")]


class Contributor(Record):
    """What contributes to an alert."""

    name: str = Field(description="what it is")
    size: float = Field(description="how much of it; in parts of all exits where the cause is of a share")


class ExitAlert(Record):
    """An alert as it stands. Of one id, the message with the later at counts."""

    id: str = Field(description="identity of this occurrence; whoever has seen id and state has seen the message")
    rule: str = Field(description="rule that fired")
    state: AlertState = Field(description="whether it stands")
    tenant: str = Field(description="tenant; empty where it is about all")
    agent_id: str = Field(description="agent; empty where it is about all")
    workflow: str = Field(description="workflow; empty where it is about all")
    queue: str = Field(description="queue; empty where it is about none")
    severity: str = Field(description="page, or ticket")
    owner: str = Field(description="who is to act")
    since: Instant = Field(description="since when the condition held")
    fired_at: Instant = Field(description="when it began to fire")
    resolved_at: Instant | None = Field(None, description="when it ended")
    at: Instant = Field(description="when this was said")
    value: float = Field(description="what was measured")
    threshold: float = Field(description="what it was held against, in the same unit")
    summary: str = Field(description="what is wrong, in words")
    cause: str = Field(description="what the numbers point to, in words; empty where nothing is computed")
    contributors: ListOf[Contributor] = Field(description="what contributes, the most important first")
    runbook: str = Field(description="page that leads to a remedy")
