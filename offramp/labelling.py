"""Reviewed disagreements as labelled events, so that a table is tested against what people decided."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from offramp.errors import CheckFailedError
from offramp.witness import as_sent
from schemas.exits import KINDS
from shadow.recovery import SILENT, SUPPORTS
from shadow.scope import Scope
from sinks.store import ERASED, Store

PAGE = 500
"""Events that are read at once."""
_RUNS = """
    SELECT tenant, event_id, kind, reason_code, rule_id, verified, prohibited, facts,
        verdict, disagreement, legacy_kind, legacy_label, actions, decisions, recovery
    FROM v_comparison
    WHERE event_id != '' AND {wanted} AND {scope}
    ORDER BY tenant, event_id
"""
_REVIEWED = f"verdict = 'disagree' AND recovery != '{SILENT}'"
_NAMED = "has({events:Array(String)}, event_id)"
_EVENTS = """
    SELECT tenant, event_id, event FROM terminal_events FINAL
    WHERE identity IN (SELECT cityHash64(tenant, id) FROM probe)
"""


@dataclass
class Labels:
    """What became of the runs that were asked for: labelled, to be labelled, or erased."""

    fates: Counter[str] = field(default_factory=Counter)


def labelled(
    store: Store, scope: Scope, events: Sequence[str], expect: str | None, labels: Labels
) -> Iterator[dict[str, Any]]:
    """Labelled events of the settled runs in scope: of those named, else of all disagreements that were reviewed.

    Operators who support the proposed exit label it. Those who contradict it say that it is wrong, not what would be
    right: then the event is to be labelled, unless ``expect`` says which kind. ``labels`` counts meanwhile. Raises
    CheckFailedError for an event that is not compared, or a kind that its evidence rules out.
    """
    wanted = _NAMED if events else _REVIEWED
    parameters = scope.parameters | ({"events": list(events)} if events else {})
    runs = store.select(_RUNS.format(wanted=wanted, scope=scope.condition), parameters)
    _refuse_unknown(events, {run["event_id"] for run in runs})
    for start in range(0, len(runs), PAGE):
        yield from _page(store, runs[start : start + PAGE], expect, labels)


def _refuse_unknown(events: Sequence[str], found: set[str]) -> None:
    unknown = [event for event in events if event not in found]
    if unknown:
        raise CheckFailedError(
            f"shadow label: no run is compared at event {', '.join(unknown)}; v_comparison has the events that are"
        )


def _page(store: Store, runs: list[dict[str, Any]], expect: str | None, labels: Labels) -> Iterator[dict[str, Any]]:
    rows = store.select_by([(run["tenant"], run["event_id"]) for run in runs], _EVENTS)
    texts = {(row["tenant"], row["event_id"]): row["event"] for row in rows}
    for run in runs:
        text = texts.get((run["tenant"], run["event_id"]))
        if text is None or text.encode() == ERASED:
            labels.fates["erased"] += 1
            continue
        record = _record(run, json.loads(text), expect)
        labels.fates["to be labelled" if record["expect"] is None else "labelled"] += 1
        yield record


def _record(run: dict[str, Any], event: dict[str, Any], expect: str | None) -> dict[str, Any]:
    label = _label(run, expect)
    said = ("verdict", "disagreement", "legacy_kind", "legacy_label", "actions", "decisions", "recovery")
    says = ("kind", "reason_code", "rule_id", "verified", "prohibited")
    return {
        "id": f"{run['tenant']}/{run['event_id']}",
        "source": "review",
        "title": f"{run['disagreement'] or run['verdict']}: proposed {run['kind']}, legacy {run['legacy_kind']}",
        "event": as_sent(event),
        "expect": label,
        "prohibited": None if label is None else run["prohibited"],
        "comment": {name: run[name] for name in said} | {"table_says": {name: run[name] for name in says}},
    }


def _label(run: dict[str, Any], expect: str | None) -> dict[str, Any] | None:
    if expect is None:
        if run["recovery"] != SUPPORTS:
            return None
        return {name: run[name] for name in ("kind", "reason_code", "verified")}
    if expect in run["prohibited"]:
        possible = ", ".join(kind for kind in KINDS if kind not in run["prohibited"])
        raise CheckFailedError(
            f"shadow label: event {run['event_id']} can never be {expect}, whatever the table; its evidence leaves "
            f"{possible}. If it is wrong, mend the evidence; `offramp explain {run['event_id']}` says which"
        )
    return {"kind": expect, "verified": expect == "completed" and "predicate_satisfied" in run["facts"]}
