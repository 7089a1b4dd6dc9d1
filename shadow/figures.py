"""A comparison for programs: nested as JSON values, or flat, a figure a row, for CSV and Parquet."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from schemas.types import to_iso
from shadow.calibration import Calibration, Escalation
from shadow.coverage import Coverage
from shadow.report import Disagreement, Report
from shadow.shares import Share
from shadow.strays import Strays


class Figure(NamedTuple):
    """One count. ``of`` and what follows it are None where it is no share of anything.

    ``section`` is the part of the report, ``item`` and ``detail`` what is counted in it, such as legacy's kind and the
    new one; they may be foreign text.
    """

    section: str
    item: str
    detail: str
    number: int
    of: int | None = None
    share: float | None = None
    low: float | None = None
    high: float | None = None


def figures(found: Report) -> Iterator[Figure]:
    """Every count of a report, in its order."""
    yield from _unseen(found.coverage)
    for reason, runs in found.not_replayable.items():
        yield Figure("not_replayable", reason, "", runs)
    for (legacy, new), runs in found.cells.items():
        yield _figure("matrix", legacy, new, Share(runs, found.pairs))
    yield _figure("agreement", "overall", "", found.agreement)
    for side, shares in (("legacy", found.by_legacy), ("new", found.by_new)):
        for kind, share in shares.items():
            yield _figure("agreement", side, kind, share)
    for each in found.disagreements:
        yield _figure("disagreement", each.name, each.owner, each.runs)
        yield Figure("accepted", each.name, each.owner, each.accepted)
    for harm, runs in found.harms.items():
        yield _figure("harm", harm, "", Share(runs, found.judged))
    for row in found.recovery:
        for said, runs in (("supports", row.supports), ("contradicts", row.contradicts), ("silent", row.silent)):
            yield Figure(f"recovery_{said}", row.kind, row.reason_code, runs)
    yield Figure("reversals", "", "", found.reversals)
    for seen in found.behaviours:
        yield _figure("behaviour", seen.behaviour.name, "runs", seen.runs)
        yield _figure("behaviour", seen.behaviour.name, "legacy_success", seen.legacy_success)
        yield _figure("behaviour", seen.behaviour.name, "contradicted", seen.contradicted)
    yield _figure("hand_off", "whole_packets", "", found.hand_off.whole)


def _figure(section: str, item: str, detail: str, share: Share) -> Figure:
    low, high = share.interval or (None, None)
    return Figure(section, item, detail, share.count, share.of, share.value, low, high)


def _unseen(seen: Coverage) -> Iterator[Figure]:
    for name in _COUNTS:
        yield Figure("coverage", name, "", getattr(seen, name))
    for agent in seen.unseen_agents:
        yield Figure("unseen_agent", agent.agent_id, agent.agent_version, agent.runs)
    for silence in seen.silences:
        yield Figure("hours_without_events", to_iso(silence.since), "", silence.hours)
    if seen.apart is not None:
        yield Figure("runs_apart", _iso(seen.apart.since) or "", _iso(seen.apart.until) or "", seen.apart.runs)
    for label in seen.labels:
        yield Figure("unmapped_label", label.dispatcher, label.label, label.runs)
    for gap in seen.gaps:
        yield Figure("evidence_gap", gap.record, gap.field, gap.times)
    yield from _strays(seen.strays)


def _strays(found: Strays) -> Iterator[Figure]:
    """Nothing where there is none."""
    for detail, shares in (("without_event", found.without_event), ("nameless", found.nameless)):
        for record_type, share in shares.items():
            yield _figure("stray", record_type, detail, share)
    if found.dead_letters:
        yield Figure("stray", "dead_letter", "not_redriven", found.dead_letters)


_COUNTS = ("runs", "paired", "legacy_missing", "waiting", "event_missing", "unmapped", "contested", "with_gaps",
           "superseded")  # fmt: skip


def as_json(found: Report) -> dict[str, Any]:
    """Everything, in plain JSON values; instants in ISO 8601, amounts of money as text."""
    question, candidate = found.question, found.question.candidate
    return {
        "asked": {**question.scope.as_json(), "now": to_iso(question.now), "patience_s": question.patience_us // 10**6},
        "mapping": dict(question.mapping),
        "table": None if candidate is None else {
            **candidate.table.ref, "decides": candidate.decides, "unproven": candidate.unproven,
        },
        "not_replayable": dict(found.not_replayable),
        "coverage": _coverage(found.coverage),
        "matrix": [
            {"legacy": legacy, "new": new, "agree": found.agreeing.get((legacy, new), 0),
             **Share(runs, found.pairs).as_json()}
            for (legacy, new), runs in found.cells.items()
        ],
        "agreement": {
            "overall": found.agreement.as_json(),
            "by_legacy": {kind: share.as_json() for kind, share in found.by_legacy.items()},
            "by_new": {kind: share.as_json() for kind, share in found.by_new.items()},
            "kappa": found.kappa and found.kappa._asdict(),
        },
        "prohibited_exits": found.prohibited_exits,
        "ruled_out": found.ruled_out,
        "disagreeing": found.disagreeing.as_json(),
        "disagreements": [_disagreement(each) for each in found.disagreements],
        "harms": found.harms,
        "cost": None if found.bill is None else _bill(found),
        "accepted": [
            {"accepts": dict(each.entry.predicate), "owner": each.entry.owner, "ticket": each.entry.ticket,
             "state": each.state.value, "pairs": each.count.pairs, "paired": each.count.paired}
            for each in found.accepted
        ],
        "recovery": [row._asdict() for row in found.recovery],
        "reversals": {"runs": found.reversals, "examples": [each._asdict() for each in found.reversal_examples]},
        "behaviours": [
            {"name": seen.behaviour.name, "meaning": seen.behaviour.meaning, "runs": seen.runs.as_json(),
             "legacy_success": seen.legacy_success.as_json(), "contradicted": seen.contradicted.as_json()}
            for seen in found.behaviours
        ],
        "hand_off": {"whole_packets": found.hand_off.whole.as_json(), "mean_completeness": found.hand_off.mean},
        "escalation": {"new": _escalation(found.escalation), "legacy": _escalation(found.legacy_escalation)},
        "calibration": _calibration(found.calibration),
    }  # fmt: skip


def _coverage(seen: Coverage) -> dict[str, Any]:
    return {
        **{name: getattr(seen, name) for name in _COUNTS},
        **{name: _iso(getattr(seen, name)) for name in ("first", "last", "last_event")},
        "unseen_agents": [each._asdict() for each in seen.unseen_agents],
        "hours_without_events": [each._asdict() | {"since": to_iso(each.since)} for each in seen.silences],
        "runs_apart": seen.apart and {
            "runs": seen.apart.runs, "since": _iso(seen.apart.since), "until": _iso(seen.apart.until)
        },
        "unmapped_labels": {"labels": seen.labels_in_all, "most": [each._asdict() for each in seen.labels]},
        "evidence_gaps": {"fields": seen.gaps_in_all, "most": [each._asdict() for each in seen.gaps]},
        "strays": {
            "without_event": {name: share.as_json() for name, share in seen.strays.without_event.items()},
            "nameless": {name: share.as_json() for name, share in seen.strays.nameless.items()},
            "looked_at_one_in": seen.strays.one_in,
            "dead_letters": seen.strays.dead_letters,
        },
    }  # fmt: skip


def _iso(micros: int | None) -> str | None:
    return None if micros is None else to_iso(micros)


def _disagreement(each: Disagreement) -> dict[str, Any]:
    earlier, later = each.halves
    return {
        "name": each.name,
        "owner": each.owner,
        "runs": each.runs.as_json(),
        "accepted": each.accepted,
        "ruled_out": each.ruled_out,
        "change": each.change.value,
        "earlier": earlier.as_json(),
        "later": later.as_json(),
        "trend": [[share.count, share.of] for share in each.trend],
        "examples": [example._asdict() for example in each.examples],
    }


def _bill(found: Report) -> Mapping[str, Any] | None:
    bill = found.bill
    return bill and {
        "unit": bill.unit,
        "total": f"{bill.total:f}",
        "unpriced": bill.unpriced,
        "cells": [{**cell._asdict(), "each": f"{cell.each:f}", "total": f"{cell.total:f}"} for cell in bill.cells],
    }


def _escalation(given: Escalation) -> dict[str, Any]:
    return {**Share(given.escalated, given.runs).as_json(), "band": given.place.value}


def _calibration(found: Calibration) -> dict[str, Any]:
    return {
        "n": found.n,
        "without_confidence": found.without_confidence,
        "without_outcome": found.without_outcome,
        "ece": found.ece,
        "ece_by_chance": found.ece_by_chance,
        "bins": [each._asdict() for each in found.bins],
        "tradeoff": [each._asdict() for each in found.tradeoff],
    }
