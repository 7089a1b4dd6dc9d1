"""The decision: one event and one table in, one classification out. Pure: no clock, no I/O, no state that matters."""

from dataclasses import replace
from typing import Any

from classifier import envelope, gaps, packet
from classifier.fact import Event
from classifier.facts import names
from classifier.invariants import prohibited
from classifier.table import Row, Table, Verdict
from classifier.view import View
from schemas.canonical import digests

CLASSIFIER_VERSION = "0.1.0"
"""Changes whenever the meaning of a fact does. Part of a classification's identity."""

TABLE_VIOLATES_INVARIANT = "table_violates_invariant"
"""Reason where a user's table chose a kind that the invariants rule out; the exit is then the safe one."""

REASON_OF_FAILURE = {
    "timeout": "dependency_timeout",
    "unavailable": "dependency_unavailable",
    "error": "dependency_error",
    "malformed": "malformed_output",
    "truncated": "output_truncated",
    "model_declined": "model_declined",
    "budget_exhausted": "budget_exhausted",
}


class Decided:
    """A classification in the contract's shape, and what is stored beside it.

    ``fact_bits`` are its facts as a bit set; ``packet_completeness`` is the review packet's score, None without one.
    """

    __slots__ = ("classification", "fact_bits", "packet_completeness")

    def __init__(self, classification: dict[str, Any], fact_bits: int, packet_completeness: float | None) -> None:
        self.classification = classification
        self.fact_bits = fact_bits
        self.packet_completeness = packet_completeness


class Classifier:
    """Classifies events by one table. Remembers the verdict for each set of facts, of which traffic has few.

    ``unproven`` says that the table's proof fails. Then so does every classification: it has ``unproven``, true.
    """

    def __init__(self, table: Table, *, unproven: bool = False) -> None:
        self.table = table
        self._unproven = unproven
        self._ref = table.ref
        self._thresholds = table.thresholds
        self._known: dict[int, _Known] = {}

    def classify(self, event: Event) -> Decided:
        """Classify a terminal event in memory form."""
        view = View(event, self._thresholds)
        known = self._known.get(view.bits) or self._decide(view.bits)
        verdict = known.verdict
        reason = reason_of(view, verdict) if known.takes_reason else known.reason
        evidence_digest, content_digest = digests(event)
        obligations = view.obligations() if view.effects.operations else []
        classification = {
            "event_id": event["event_id"],
            "kind": known.kind,
            "reason_code": reason,
            "rule_id": known.rule_id,
            "verified": known.verified,
            "prohibited": known.prohibited,
            "obligations": obligations,
            "evidence_gaps": [gap.text for gap in gaps.of(view)],
            "findings": view.findings(),
            "facts": known.facts,
            "table": self._ref,
            "classifier_version": CLASSIFIER_VERSION,
            "evidence_digest": evidence_digest,
            "content_digest": content_digest,
            "envelope": None if known.kind == "completed" else envelope.build(view, verdict, reason, self.table),
        }
        if self._unproven:
            classification["unproven"] = True
        opens = known.kind == "human_queue" or bool(obligations)
        return Decided(classification, view.bits, packet.completeness(view) if opens else None)

    def _decide(self, bits: int) -> "_Known":
        ruled_out = prohibited(bits)
        verdict = self.table.decide(bits)
        if verdict.kind in ruled_out:
            verdict = _safe(verdict, ruled_out)
        known = self._known[bits] = _Known(verdict, ruled_out, list(names(bits)))
        return known


class _Known:
    """What follows from a set of facts alone. The fields of the verdict once more, because asking this class for them,
    which is compiled, costs a tenth."""

    __slots__ = ("facts", "kind", "prohibited", "reason", "rule_id", "takes_reason", "verdict", "verified")

    def __init__(self, verdict: Verdict, ruled_out: list[str], facts: list[str]) -> None:
        self.verdict = verdict
        self.kind: str = verdict.kind
        self.reason: str = verdict.reason
        self.rule_id: str = verdict.row.id
        self.verified: bool = verdict.verified
        self.takes_reason: bool = verdict.row.reason_from is not None
        self.prohibited = ruled_out
        self.facts = facts


def _safe(verdict: Verdict, ruled_out: list[str]) -> Verdict:
    """The exit that no invariant rules out: a refusal behind a standing denial, else a person."""
    kind = "refusal" if "human_queue" in ruled_out else "human_queue"
    return replace(verdict, kind=kind, reason=TABLE_VIOLATES_INVARIANT, verified=False)


def reason_of(view: View, verdict: Verdict) -> str:
    """The reason code: from the evidence where the row says so and the evidence has one, else the verdict's."""
    row: Row = verdict.row
    if row.reason_from is None or verdict.reason == TABLE_VIOLATES_INVARIANT:
        return verdict.reason
    return _FROM_EVIDENCE[row.reason_from](view) or verdict.reason


def _denial_reason(view: View) -> str | None:
    return view.policy.denials[0].reason if view.policy.denials else None


def _failure_reason(view: View) -> str | None:
    return REASON_OF_FAILURE[view.fallbacks.reason] if view.fallbacks.reason else None


def _omission_reason(view: View) -> str | None:
    omitted = [(c["name"] or "", c["reason_code"] or "") for c in view.event["components"] if c["state"] != "completed"]
    return min(omitted)[1] or None if omitted else None


_FROM_EVIDENCE = {"denial": _denial_reason, "failure": _failure_reason, "omission": _omission_reason}
