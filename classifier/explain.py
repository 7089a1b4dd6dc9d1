"""Why an event got the exit that it got, as data: nothing here decides, and nothing here is rendered."""

from dataclasses import dataclass
from typing import Any

from classifier import evidence, packet
from classifier.change import Path
from classifier.condition import deciding, parse
from classifier.counterfactual import Exit, earned, exit_of, gaps_of
from classifier.decide import Classifier
from classifier.fact import Event, Fact
from classifier.facts import BY_NAME, FINDINGS
from classifier.invariants import RULES
from classifier.table import Table
from classifier.view import View

MOST_GAPS = 200
"""So many gaps of one event are tried one by one; all of them are tried together in any case."""


@dataclass(frozen=True)
class FactShown:
    """A fact of the event, or one whose absence decided, and the fields that make it hold."""

    name: str
    holds: bool
    meaning: str
    evidence: list[evidence.Evidence]


@dataclass(frozen=True)
class RowShown:
    """A row of the table, by its number from 1. ``why_not`` are facts, with ``not`` those that do not hold."""

    number: int
    rule_id: str
    when: str
    why_not: list[str]


@dataclass(frozen=True)
class RuledOut:
    """A kind that invariants rule out: their numbers, and the conditions over facts under which they do."""

    kind: str
    invariants: list[int]
    conditions: list[str]


@dataclass(frozen=True)
class GapShown:
    """A gap in the evidence, and the better exit that the event could have had without it, if any."""

    text: str
    path: Path
    meaning: str
    earns: Exit | None


@dataclass(frozen=True)
class Explanation:
    """Everything that led from an event to its classification.

    ``row`` decided; ``deciding`` are the facts that made it hold, ``other_facts`` those that hold besides. ``earlier``
    are the rows before it. ``all_gaps_earn`` is the better exit without any gap, None if there is none. ``packet`` is
    the review packet where somebody has to act.
    """

    classification: dict[str, Any]
    row: RowShown
    deciding: list[FactShown]
    other_facts: list[FactShown]
    earlier: list[RowShown]
    ruled_out: list[RuledOut]
    findings: dict[str, str]
    gaps: list[GapShown]
    all_gaps_earn: Exit | None
    packet: dict[str, Any] | None


def explain(event: Event, classifier: Classifier) -> Explanation:
    """Explain what the classifier says about an event in memory form, redacted as it was when it was decided."""
    decided, table = classifier.classify(event), classifier.table
    classification, bits = decided.classification, decided.fact_bits
    number = next(n for n, row in enumerate(table.rows, 1) if row.condition.holds(bits))
    decisive = deciding(table.rows[number - 1].condition, bits)
    behind = evidence.behind(event, table.thresholds)
    others = [BY_NAME[name] for name in classification["facts"] if BY_NAME[name] not in decisive]
    gaps, all_gaps_earn = _gaps(event, classifier, exit_of(classification))
    return Explanation(
        classification=classification,
        row=_row(table, number, bits),
        deciding=[_fact(fact, behind) for fact in decisive],
        other_facts=[_fact(fact, behind) for fact in others],
        earlier=[_row(table, before, bits) for before in range(1, number)],
        ruled_out=[_ruled_out(kind, bits) for kind in classification["prohibited"]],
        findings={finding.code: finding.meaning for finding in FINDINGS if finding.code in classification["findings"]},
        gaps=gaps,
        all_gaps_earn=all_gaps_earn,
        packet=None if decided.packet_completeness is None else _packet(event, classification, bits, table),
    )


def _fact(fact: Fact, behind: dict[str, list[evidence.Evidence]]) -> FactShown:
    return FactShown(fact.name, fact.name in behind, fact.meaning, behind.get(fact.name, []))


def _row(table: Table, number: int, bits: int) -> RowShown:
    row = table.rows[number - 1]
    why_not = [] if row.condition.holds(bits) else [_said(fact, bits) for fact in deciding(row.condition, bits)]
    return RowShown(number, row.row.id, " ".join(row.row.when.split()), why_not)


def _said(fact: Fact, bits: int) -> str:
    return fact.name if bits & fact.bit else f"not {fact.name}"


def _ruled_out(kind: str, bits: int) -> RuledOut:
    rules = [rule for rule in RULES if kind in rule.kinds and parse(rule.when, BY_NAME).holds(bits)]
    return RuledOut(kind, sorted({rule.number for rule in rules}), [rule.when for rule in rules])


def _gaps(event: Event, classifier: Classifier, now: Exit) -> tuple[list[GapShown], Exit | None]:
    gaps = gaps_of(classifier, event)
    shown = [
        GapShown(gap.text, gap.path, gap.kind.meaning, earned(classifier, event, now, [gap]))
        for gap in gaps[:MOST_GAPS]
    ]
    return shown, earned(classifier, event, now, gaps)


def _packet(event: Event, classification: dict[str, Any], bits: int, table: Table) -> dict[str, Any]:
    return packet.build(View(event, table.thresholds), table.decide(bits), classification["reason_code"], table)
