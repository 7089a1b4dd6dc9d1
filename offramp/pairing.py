"""A stored event beside its legacy exit: what is said of both, why they disagree, and what would make them agree."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from classifier.change import path_text
from classifier.decide import Classifier
from classifier.explain import Explanation
from classifier.fact import Event
from offramp.accepting import judged_in
from offramp.console import counted
from offramp.page import Page
from schemas.types import to_iso
from shadow.accepted import Accepted, standing
from shadow.cause import PAIR_SQL, Diagnosis, Pair, beside_sql, diagnose
from shadow.disagreement import UNMAPPED, Verdict
from shadow.evidence_change import Step
from shadow.scope import Scope
from sinks.store import Store


@dataclass(frozen=True)
class Beside:
    """What is stored of the legacy side of a run, and what is said of it and the explained exit.

    ``diagnosis`` is None unless they disagree. ``later`` is the event that ended a later segment of the run, which is
    what is compared; empty where this one is the latest.
    """

    pair: Pair
    verdict: Verdict
    diagnosis: Diagnosis | None
    later: str = ""


def beside(
    store: Store, event: Event, explanation: Explanation, classifier: Classifier, accepted: Sequence[Accepted], now: int
) -> Beside | None:
    """What the settled ``store`` has beside an event; None where no legacy exit of its run is known.

    The verdict is on the exit that is explained, which another table than the stored one may have given. ``now`` is in
    microseconds, for what is accepted.
    """
    rows = store.select(PAIR_SQL, {"tenant": event["tenant"], "run_id": event["run_id"]})
    if not rows or not rows[0]["legacy_kind"] or not rows[0]["event_id"]:
        return None
    [row] = rows
    kinds = {each["kind"]: each["runs"] for each in store.select(*beside_sql(row))}
    pair = Pair(event, explanation, row, kinds)
    verdict = pair.verdict(explanation.classification)
    if row["event_id"] != event["event_id"]:
        return Beside(pair, verdict, None, later=row["event_id"])
    if verdict.verdict != "disagree":
        return Beside(pair, verdict, None)
    covering = standing(judged_in(store, accepted, Scope(), now), _as_compared(pair, verdict))
    return Beside(pair, verdict, diagnose(Pair(event, explanation, row, kinds, covering), classifier))


def _as_compared(pair: Pair, verdict: Verdict) -> dict[str, Any]:
    """The columns of ``v_comparison`` that an accepted difference asks for."""
    ours, event = pair.explanation.classification, pair.event
    own = {name: event[name] for name in ("tenant", "agent_id", "workflow")}
    exits = {name: ours[name] for name in ("kind", "reason_code")}
    return {**pair.legacy, **own, **exits, "verdict": verdict.verdict, "disagreement": verdict.disagreement}


# --- for programs


_LEGACY = ("kind", "label", "http_status", "error_class", "retries", "queue", "user_visible", "records", "contested")


def as_json(found: Beside | None) -> dict[str, Any] | None:
    """Everything, in plain JSON values; None where nothing is known."""
    if found is None:
        return None
    row, diagnosis = found.pair.legacy, found.diagnosis
    decided = row["legacy_decided_at"]
    legacy = {name: row[f"legacy_{name}"] for name in _LEGACY}
    legacy |= {name: row[name] for name in ("dispatcher", "dispatcher_version")}
    return {
        "legacy": legacy | {"decided_at": None if decided is None else to_iso(decided)},
        "mapping_digest": row["mapping_digest"],
        **found.verdict._asdict(),
        **{name: row[name] for name in ("actions", "decisions", "recovery", "reversed")},
        "compared_at": found.later or None,
        "cause": None if diagnosis is None else _diagnosis_as_json(diagnosis),
    }


def _diagnosis_as_json(diagnosis: Diagnosis) -> dict[str, Any]:
    change = diagnosis.change
    return {
        "name": diagnosis.cause.value,
        "why": diagnosis.why,
        "change": None if change is None else [_step_as_json(step) for step in change],
        "all_tried": not diagnosis.exhausted,
    }


def _step_as_json(step: Step) -> dict[str, Any]:
    return {"path": path_text(step.path), "before": step.before, "after": step.after}


# --- for people


def show(page: Page, found: Beside | None) -> None:
    """Print what is known of the legacy side; nothing where that is nothing."""
    if found is None:
        return
    row = found.pair.legacy
    page.heading("Beside the legacy dispatcher")
    page.line(f"It said {found.pair.answer}, which is {_kind(row['legacy_kind'])}.")
    if row["legacy_contested"]:
        page.line(f"It has {counted(row['legacy_records'], 'exit')} of this run, of different kinds; this is the last.")
    if found.later:
        page.line(f"Event {found.later} ended a later segment of this run, and is the one that is compared.")
        return
    page.line(_said(found.verdict))
    done = [*row["actions"], *row["decisions"]]
    if done:
        page.line(f"Operators and reviewers: {', '.join(done)}. Of the exit, that is: {row['recovery']}.")
    if found.diagnosis is not None:
        _show_diagnosis(page, found.diagnosis)


def _kind(kind: str) -> str:
    return "nothing that the label mapping knows" if kind == UNMAPPED else kind


def _said(verdict: Verdict) -> str:
    if verdict.verdict != "disagree":
        return "Both agree." if verdict.verdict == "agree" else "So nothing is said of both."
    harm = f" Harm: {verdict.harm}." if verdict.harm else ""
    return f"They disagree: {verdict.disagreement}, which {verdict.owner} owns.{harm}"


def _show_diagnosis(page: Page, diagnosis: Diagnosis) -> None:
    page.line(f"Cause: {diagnosis.cause}. {diagnosis.why[:1].upper()}{diagnosis.why[1:]}.")
    if diagnosis.change is None:
        tried = "; there are more than were tried" if diagnosis.exhausted else ""
        page.line(f"No change of evidence was found that would make both agree{tried}.")
        return
    page.line("The smallest change of evidence with which both would agree:")
    for step in diagnosis.change:
        page.line(step.text, 2)
