"""Which runs a report is about, as SQL over ``v_comparison``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from schemas.types import EARLIEST, LATEST

Select = Callable[[str, Mapping[str, Any]], list[dict[str, Any]]]
"""Runs SQL with its parameters against an open store; rows as dicts."""
MOMENT = "toUnixTimestamp64Micro(moment)"
"""SQL: when a run ended, in microseconds; of a legacy exit without its event, when it was decided."""


@dataclass(frozen=True)
class Scope:
    """Runs that ended in ``[since, until)``, microseconds, of one tenant, agent and workflow, or of all.

    A legacy exit without its event says neither agent nor workflow. It belongs to all of its tenant's and its time's,
    since nothing shows that it does not.
    """

    since: int = EARLIEST
    until: int = LATEST + 1
    tenant: str | None = None
    agent: str | None = None
    workflow: str | None = None

    @property
    def condition(self) -> str:
        """SQL with the parameters below."""
        lone = "pairing = 'event_missing'"
        parts = [
            "moment >= fromUnixTimestamp64Micro({since:Int64})",
            "moment < fromUnixTimestamp64Micro({until:Int64})",
        ]
        if self.tenant is not None:
            parts.append("tenant = {tenant:String}")
        if self.agent is not None:
            parts.append(f"(agent_id = {{agent:String}} OR {lone})")
        if self.workflow is not None:
            parts.append(f"(ifNull(workflow, '') = {{workflow:String}} OR {lone})")
        return " AND ".join(parts)

    @property
    def parameters(self) -> dict[str, Any]:
        """What the condition needs."""
        given = {"tenant": self.tenant, "agent": self.agent, "workflow": self.workflow}
        return {"since": self.since, "until": self.until} | {k: v for k, v in given.items() if v is not None}

    @property
    def is_narrow(self) -> bool:
        """Whether it asks for what a legacy exit without its event does not say."""
        return self.agent is not None or self.workflow is not None

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values; null where nothing was asked for."""
        return {
            "since": None if self.since <= EARLIEST else self.since,
            "until": None if self.until > LATEST else self.until,
            "tenant": self.tenant,
            "agent": self.agent,
            "workflow": self.workflow,
        }
