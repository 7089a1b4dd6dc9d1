"""Words for people: the outcome as a plain noun, then at once what is open instead, never a verdict on the user. An
escalation names its new owner and ends the agent's part. Nothing branches on these words."""

from collections.abc import Sequence

from classifier.policy import Denial
from classifier.table import Queue


def refusal(denial: Denial, reason: str) -> str:
    """Explanation of a refusal."""
    decision = denial.decision
    by = denial.policy_id or reason
    action = (decision and decision["attempted_action"]) or {}
    what = action.get("tool") or denial.operation_id
    first = f"Denied by {by}: {what}." if what else f"Denied by {by}."
    alternatives = decision["alternatives"] if decision else []
    owner = decision["owner"] if decision else None
    if alternatives:
        return f"{first} Open: {'; '.join(alternatives)}."
    return f"{first} Open: ask {owner}." if owner else f"{first} Open: ask the owner of the policy."


def escalation(reason: str, operations: Sequence[str | None], queue_name: str, queue: Queue) -> str:
    """Explanation of a handover to people."""
    named = ", ".join(sorted(id_ for id_ in operations if id_))
    first = f"Escalated for {reason}: {named}." if named else f"Escalated for {reason}."
    return (
        f"{first} Open to {queue.owner} in {queue_name}: {', '.join(queue.allowed_decisions)}. "
        "The agent must stop: no retry, no further action on this."
    )
