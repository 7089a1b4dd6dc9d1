# ruff: noqa: INP001 -- a script by itself, not a package
"""Terminal events of runs that end now: ``runs.py completed|refusal NUMBER``."""

import json
import sys
from datetime import UTC, datetime
from uuid import uuid4

COMPLETED = {
    "completion": {"claimed": True, "predicate_id": "answered", "predicate_version": "1", "result": "satisfied"}
}
DENIED = {
    "policy_decisions": [
        {
            "decision_id": "d-1",
            "policy_id": "refund-limit",
            "policy_version": "8",
            "source": "policy_engine",
            "effect": "deny",
            "reason_code": "over_limit",
        }
    ]
}


def main(ending: str, number: int) -> None:
    """Print so many, each of a run of its own."""
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    for _ in range(number):
        run = str(uuid4())
        event = {
            "type": "terminal_event",
            "version": 1,
            "event_id": f"e-{run}",
            "run_id": run,
            "tenant": "acme",
            "agent_id": "refunds",
            "workflow": "refund",
            "occurred_at": now,
            "model": {"provider": "some", "model": "some-model", "stop_signal": "end_turn", "stop_class": "end"},
        }
        sys.stdout.write(json.dumps(event | (DENIED if ending == "refusal" else COMPLETED)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
