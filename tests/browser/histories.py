"""Histories whose reports fill every part of the page: all that it can show, nothing, and what nobody should send."""

from typing import Any

from tests.shadow.pairs import ambiguous, completed, denied, did, event, partial, said

REVIEWED = {"type": "review_event", "version": 1, "tenant": "acme", "event": "decided"}
HOSTILE = (
    "<script>document.title='run'</script><img src=x onerror=alert(1)>",
    "</table></section><h1>mine</h1>",
    "\u202egnirts desrever \u2066isolated",
    "رفض الطلب بسبب تجاوز الحد",
    "👩‍👩‍👧‍👦 🏳️‍🌈 é́́́́́́́́",
    "&lt;b&gt; &amp; \"quoted\" 'too'",
    "x" * 10_000,
    "two\nlines\tand\rmore\x0b",
    "javascript:alert(1)",
    "url(https://example.invalid/x.png)",
)
"""Labels that are markup, turn the direction, have no end, or would load something."""


def confident(name: str, hour: int, confidence: float, result: str) -> dict[str, Any]:
    """A run that said how sure it was, and what came of it."""
    step = {"action_key": name, "confidence_after": confidence}
    return event(name, hour, steps=[step], completion={"claimed": True, "result": result})


def full() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Events and companions of a day in which everything happens that a report has a place for."""
    events, companions = [], []
    for number in range(60):
        name, hour = f"n{number}", number % 20
        make, label = _RUNS[number % len(_RUNS)]
        events.append(make(name, hour))
        companions.append(said(name, label))
        if number % 7 == 0:
            companions.append(did(name, ("approved", "rejected", "reconciled")[number % 3]))
    for number in range(40):
        right = "satisfied" if number % 10 < number // 4 else "unsatisfied"
        events.append(confident(f"s{number}", number % 20, (number + 0.5) / 40, right))
        companions.append(said(f"s{number}", "ok"))
    events.append(completed("lone", 23, agent="an agent with a name that is rather long, as names are"))
    companions += [
        said("ghost", "ok", decided_at="2026-03-01T21:30:00Z"),
        said("n1", "ticket") | {"record_id": "second"},
        {"type": "enrichment", "version": 1, "record_id": "late", "tenant": "acme", "event_id": "ev-n3",
         "component": "extra", "state": "completed", "reverses_result": True, "at": "2026-03-02T00:00:00Z"},
    ]  # fmt: skip
    return events, companions


_RUNS = (
    (completed, "ok"), (denied, "boom"), (ambiguous, "ok"), (partial, "ok"), (completed, "ticket"), (denied, "refused"),
    (partial, "boom"), (completed, "boom"), (ambiguous, "boom"), (completed, "no kind for it"), (completed, "refused"),
)  # fmt: skip


def hostile() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A run and a legacy exit for each label: as the label, the dispatcher, the agent and the workflow of a run."""
    events, companions = [], []
    for number, text in enumerate(HOSTILE):
        names = {"agent_id": text[:256], "agent_version": text[:256], "tenant": text[:256], "workflow": text[:256]}
        events.append(completed(f"h{number}", number) | names | {"event_id": f"ev-{text}"[:256]})
        of_it = {"event_id": f"ev-{text}"[:256], "tenant": text[:256]}
        companions.append(said(f"h{number}", text) | of_it | {"dispatcher": text[:256], "error_class": text[:256]})
        events.append(completed(f"k{number}", number) | names | {"event_id": f"kv-{text}"[:256]})
        companions.append(said(f"k{number}", "ticket") | of_it | {"event_id": f"kv-{text}"[:256]})
    return events, companions
