"""What is proved of a table, for people and for programs, each failure with events that show it."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

from classifier.facts import names
from classifier.proof import Failure, Obligation, Proof
from classifier.synthesis import event_for
from classifier.table import Table
from offramp import console
from offramp.page import Page
from offramp.witness import as_sent


def events_that_show(proof: Proof, table: Table) -> list[dict[str, Any]]:
    """The events of all failures, each once."""
    events = [event for failure in proof.failures for event in events_of(failure, table)]
    return list({event["event_id"]: event for event in events}.values())


def events_of(failure: Failure, table: Table) -> Iterator[dict[str, Any]]:
    """The events that show a failure, as their producer would send them.

    One has the facts of the counter-example; of a change, one has the facts before it, and stands first. None where no
    combination of facts shows the failure, or no confidence suits the table's thresholds.
    """
    for bits in (failure.before, failure.bits):
        if bits is not None and (event := event_for(bits, table.thresholds)) is not None:
            yield as_sent(event)


# --- for programs


def as_json(proof: Proof, table: Table) -> dict[str, Any]:
    """The proof in plain JSON values."""
    return {
        "holds": proof.holds,
        "method": proof.method,
        "facts": proof.facts,
        "constraints": proof.constraints,
        "assignments": proof.assignments,
        "obligations": [_obligation_as_json(each, table) for each in proof.obligations],
    }


def _obligation_as_json(obligation: Obligation, table: Table) -> dict[str, Any]:
    failure = obligation.failure
    return {
        "kind": obligation.kind.value,
        "invariant": obligation.invariant,
        "claim": obligation.claim,
        "cases": obligation.cases,
        "holds": failure is None,
        "failure": None if failure is None else _failure_as_json(failure, table),
    }


def _failure_as_json(failure: Failure, table: Table) -> dict[str, Any]:
    return {
        "text": failure.text,
        "rows": list(failure.rows),
        "facts": None if failure.bits is None else list(failure.facts),
        "facts_before": None if failure.before is None else list(names(failure.before)),
        "events": list(events_of(failure, table)),
    }


# --- for people


def show(proof: Proof, table: Table) -> None:
    """Print what was to be proved, of how large a space, what holds, and every failure with its events."""
    count, failed = len(proof.obligations), len(proof.failures)
    title = (
        f"{'Not proved' if failed else 'Proved'} by a {proof.method}: {count - failed} of {count} obligations hold, "
        f"over {proof.assignments:,} combinations of {proof.facts} facts that {proof.constraints} constraints leave"
    )
    Page().heading(title)
    kinds = Counter(obligation.kind.value for obligation in proof.obligations)
    holding = Counter(obligation.kind.value for obligation in proof.obligations if obligation.failure is None)
    columns = [("obligations", "code"), ("number", "right"), ("that hold", "right")]
    console.table("", columns, [(kind, number, holding[kind]) for kind, number in kinds.items()])
    failing = [obligation for obligation in proof.obligations if obligation.failure]
    for number, obligation in enumerate(failing, 1):
        _show_failure(number, obligation, table)


def _show_failure(number: int, obligation: Obligation, table: Table) -> None:
    page, failure = Page(), obligation.failure
    if failure is None:
        raise TypeError("an obligation that fails says why")
    page.heading(f"{number} {failure.text}")
    invariant = "" if obligation.invariant is None else f"invariant {obligation.invariant}: "
    page.line(f"{invariant}{obligation.claim}")
    if failure.before is not None:
        page.line(f"facts before: {_said(failure.before)}")
    if failure.bits is not None:
        page.line(f"facts: {_said(failure.bits)}")
    for event in events_of(failure, table):
        # On one line however long it is, so that it can be copied into a file.
        sys.stdout.write(f"{json.dumps(event, ensure_ascii=False)}\n")


def _said(bits: int) -> str:
    return ", ".join(names(bits)) or "none holds"
