"""Every way in which a table can decide, numbered: what facts alone tell of an exit."""

from collections.abc import Iterator
from dataclasses import dataclass

from classifier.condition import All, Condition, Not
from classifier.decide import TABLE_VIOLATES_INVARIANT
from classifier.envelope import queue_of
from classifier.table import CompiledRow, ReasonSource, Table, Verdict

GUARDED = ("refusal", "human_queue")
"""The safe exits where the invariants rule out what a row says: a refusal behind a standing denial, else a person."""

BY_CASE = 1 + len(GUARDED)
"""Outcomes of one case: as the row says, and with each safe exit in its place."""


@dataclass(frozen=True)
class Case:
    """A row with one of its reason codes. ``when`` says which of the sets of facts that the row decides are its."""

    row: CompiledRow
    when: Condition
    reason: str


@dataclass(frozen=True)
class Outcome:
    """What a run gets. ``reason_from`` says that the evidence may have another code than ``reason``; ``queue`` is that
    of a human_queue, None for every other exit."""

    rule_id: str
    kind: str
    reason: str
    reason_from: ReasonSource | None
    queue: str | None

    @property
    def reason_code(self) -> str | None:
        """The reason code, None where facts do not tell it."""
        return None if self.reason_from else self.reason


def cases_of(row: CompiledRow) -> list[Case]:
    """The cases of a row; each set of facts that it decides belongs to exactly one."""
    found, others = list[Case](), list[Condition]()
    for condition, code in row.reasons:
        found.append(Case(row, All((*others, condition)), code))
        others.append(Not(condition))
    return [*found, Case(row, All(tuple(others)), row.row.reason or row.row.id)]


def outcomes(table: Table) -> list[Outcome]:
    """Every outcome of a table. That of case ``c`` and guard ``g`` (0 for none, else the place in GUARDED from 1) has
    index ``BY_CASE * c + g``, cases counted through all rows."""
    cases = (case for row in table.rows for case in cases_of(row))
    return [outcome for case in cases for outcome in _of_case(case, table)]


def _of_case(case: Case, table: Table) -> Iterator[Outcome]:
    row, kind = case.row.row, case.row.kind
    yield Outcome(row.id, kind, case.reason, row.reason_from, row.queue if kind == "human_queue" else None)
    for safe in GUARDED:
        queue, _ = queue_of(Verdict(row, safe, TABLE_VIOLATES_INVARIANT, None, verified=False), table)
        yield Outcome(row.id, safe, TABLE_VIOLATES_INVARIANT, None, queue if safe == "human_queue" else None)
