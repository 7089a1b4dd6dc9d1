"""Two tables against each other, and against what is stored: what ``table diff`` finds and shows."""

import json
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from classifier.decide import CLASSIFIER_VERSION
from classifier.diagram import TooComplexError
from classifier.difference import differences
from classifier.fact import Event
from classifier.outcomes import Outcome
from classifier.shift_event import shifting_event
from classifier.sql import exit_sql
from classifier.table import CompiledRow, Table, TableError, load
from classifier.table_diff import Direction, Region, Shift, ThresholdChange, regions, shifts, threshold_changes
from offramp import console
from offramp.console import plain
from offramp.errors import ConfigurationError
from offramp.page import Page
from offramp.period import Period
from offramp.session import Chosen
from schemas.events import TerminalEvent
from schemas.json_form import to_json
from sinks.store import Store

Change = tuple[int, int]
"""Indexes of two outcomes, see :class:`classifier.table_diff.Region`."""

OTHER_VERSION, OTHER_THRESHOLDS = "classifier_version", "thresholds"
_WHY = {
    OTHER_VERSION: "another version of the classifier found their facts, which may mean something else",
    OTHER_THRESHOLDS: "their facts were judged by other thresholds than both tables have",
}


class Stored(NamedTuple):
    """A stored event that an edit of the table would give another exit."""

    tenant: str
    event_id: str


class Affected(NamedTuple):
    """How many stored events change in one way, and the newest of them."""

    events: int
    sample: tuple[Stored, ...]


@dataclass(frozen=True)
class Traffic:
    """What is stored of a period. ``replayed`` counts events that both tables were asked about, ``not_replayable``
    those that they could not be, by reason."""

    replayed: int = 0
    affected: dict[Change, Affected] = field(default_factory=dict)
    not_replayable: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Diff:
    """What ``new`` does differently from ``old``: to runs whose facts both tables agree on (``regions``), and to those
    whose facts their ``thresholds`` judge differently (``shifts``). ``traffic`` is None where no store was asked."""

    old: Chosen
    new: Chosen
    regions: tuple[Region, ...]
    thresholds: tuple[ThresholdChange, ...]
    shifts: tuple[Shift, ...]
    traffic: Traffic | None

    @property
    def loosens(self) -> bool:
        """Whether any change leads to a less careful exit."""
        return any(change.direction is Direction.LOOSENS for change in self.changes)

    @property
    def changes(self) -> list[Region | Shift]:
        """Regions, then shifts."""
        return [*self.regions, *self.shifts]

    def affected(self, region: Region) -> Affected | None:
        """Stored events in a region; None where no store was asked."""
        return None if self.traffic is None else self.traffic.affected.get(region.index, Affected(0, ()))

    def witness(self, change: Region | Shift) -> Event | None:
        """An event with the fewest facts of a change. None if none can be made up."""
        before, after = (
            (change.bits_before, change.bits_after) if isinstance(change, Shift) else (change.bits, change.bits)
        )
        return shifting_event(before, after, self.old.table, self.new.table)


def compare(old: Chosen, new: Chosen, traffic: Traffic | None) -> Diff:
    """Both tables over everything that is possible. Raises ConfigurationError if they are too entangled for that."""
    tables = (old.table, new.table)
    try:
        found, shifted = tuple(regions(*tables)), tuple(shifts(*tables))
    except TooComplexError as error:
        raise ConfigurationError(f"the tables cannot be compared: {error}; say their conditions more simply") from None
    return Diff(old, new, found, tuple(threshold_changes(*tables)), shifted, traffic)


# --- what is stored


def traffic_in(store: Store, old: Table, new: Table, period: Period, sample: int) -> Traffic:
    """Ask the engine what both tables say of the stored facts; ``sample`` events are named per change.

    Facts count that this version of the classifier found under the thresholds of both tables, or in an event without
    steps, which no threshold judges; whichever table's classification has them.
    """
    # What can be replayed sorts first, so that it is the one that is taken of an event's classifications.
    rows = f"""
        SELECT tenant, event_id, occurred_at, fact_bits, {why_not_replayable(store, old, new)} AS why
        FROM exit_classifications FINAL
        WHERE occurred_at >= fromUnixTimestamp64Micro({period.since})
            AND occurred_at < fromUnixTimestamp64Micro({period.until})
        ORDER BY identity, tenant, event_id, why LIMIT 1 BY identity, tenant, event_id
    """  # noqa: S608 -- numbers and our own text
    outcomes = f"{exit_sql(old).outcome} AS before, {exit_sql(new).outcome} AS after"
    newest = f"groupArraySorted({max(sample, 1)})((-toUnixTimestamp64Micro(occurred_at), tenant, event_id))"
    sql = f"SELECT why, {outcomes}, count() AS events, {newest} AS newest FROM ({rows}) GROUP BY why, before, after"  # noqa: S608
    affected, excluded = dict[Change, Affected](), Counter[str]()
    for row in _rows(store, sql):
        if row["why"]:
            excluded[row["why"]] += row["events"]
            continue
        named = tuple(Stored(*place) for _, *place in row["newest"][:sample])
        affected[row["before"] - 1, row["after"] - 1] = Affected(row["events"], named)
    return Traffic(sum(each.events for each in affected.values()), affected, dict(excluded))


def why_not_replayable(store: Store, *tables: Table) -> str:
    """SQL: why the facts of a classification are not those that all of ``tables`` would be asked about, else empty.

    Over the columns ``tenant``, ``event_id``, ``table_digest`` and ``classifier_version``.
    """
    decided = _decided(store)
    judged_alike = [digest for digest, stored in decided.items() if stored and _same_thresholds(stored, tables)]
    alike = ", ".join(f"'{digest}'" for digest in judged_alike)
    # Looking for events without steps reads all evidence, so only where some table needs it.
    stepless = "SELECT identity FROM terminal_events FINAL WHERE JSONLength(event, 'steps') = 0"
    otherwise = "" if judged_alike == [*decided] else f"cityHash64(tenant, event_id) IN ({stepless}), '',"
    return f"""
        multiIf(
            classifier_version != '{CLASSIFIER_VERSION}', '{OTHER_VERSION}',
            table_digest IN ({alike or "''"}), '',
            {otherwise}
            '{OTHER_THRESHOLDS}'
        )
    """


def other_reasons(store: Store, table: Table) -> frozenset[tuple[str, str]]:
    """Rows of the tables that decided here, by digest and id, whose reasons are not from where the row of that id has
    them in ``table``, as far as that takes any from the evidence."""
    mine = {row.row.id: _reasons(row) for row in table.rows if row.row.reason_from}
    found = set[tuple[str, str]]()
    for digest, stored in _decided(store).items():
        theirs = {row.row.id: _reasons(row) for row in stored.rows} if stored else {}
        found.update((digest, rule) for rule in mine if theirs.get(rule) != mine[rule])
    return frozenset(found)


def _reasons(row: CompiledRow) -> tuple[object, ...]:
    return row.kind, row.row.reason_from, row.row.reason, row.reasons


def _same_thresholds(stored: Table, tables: Sequence[Table]) -> bool:
    return not any(threshold_changes(stored, table) for table in tables)


def _decided(store: Store) -> dict[str, Table | None]:
    """The tables that decided here, by digest; None for one of a version of the program that knew other facts."""
    rows = _rows(store, "SELECT DISTINCT table_digest, table_text FROM v_tables")
    return {row["table_digest"]: _loaded(row["table_text"]) for row in rows}


def _loaded(text: str) -> Table | None:
    try:
        return load(text)
    except TableError:
        return None


def _rows(store: Store, sql: str) -> Iterator[dict[str, Any]]:
    return map(json.loads, store.query(sql).splitlines())


# --- for programs


def witness_lines(diff: Diff) -> bytes:
    """An event for every change, regions first, as a producer would send it, one a line."""
    events = filter(None, map(diff.witness, diff.changes))
    return b"".join(to_json(event, TerminalEvent) + b"\n" for event in events)


def as_json(diff: Diff) -> dict[str, Any]:
    """Everything, in plain JSON values."""
    traffic = diff.traffic
    return {
        "old": diff.old.table.ref,
        "new": diff.new.table.ref,
        "unproven": [side for side, chosen in (("old", diff.old), ("new", diff.new)) if chosen.unproven],
        "loosens": diff.loosens,
        "differences": differences(diff.old.table, diff.new.table),
        "thresholds": [_threshold_as_json(diff, change) for change in diff.thresholds],
        "regions": [_region_as_json(diff, region) for region in diff.regions],
        "shifts": [_shift_as_json(diff, shift) for shift in diff.shifts],
        "replayed": traffic and traffic.replayed,
        "not_replayable": traffic and traffic.not_replayable,
    }


def _threshold_as_json(diff: Diff, change: ThresholdChange) -> dict[str, Any]:
    directions = {each.direction.value for each in diff.shifts if change in each.changes}
    return {
        "name": change.name,
        "before": change.before,
        "after": change.after,
        "fact": change.fact.name,
        "turned": _turned(change),
        "directions": [each.value for each in Direction if each.value in directions],
    }


def _turned(change: ThresholdChange) -> str:
    return "on" if change.turned_on else "off"


def _shift_as_json(diff: Diff, shift: Shift) -> dict[str, Any]:
    witness = diff.witness(shift)
    return {
        "direction": shift.direction.value,
        "sentence": shift.sentence,
        "thresholds": [each.name for each in shift.changes],
        "before": _outcome_as_json(shift.before),
        "after": _outcome_as_json(shift.after),
        "deciding": list(shift.deciding),
        "assignments": shift.assignments,
        "smallest": list(shift.facts),
        "event": witness and json.loads(to_json(witness, TerminalEvent)),
    }


def _region_as_json(diff: Diff, region: Region) -> dict[str, Any]:
    affected, witness = diff.affected(region), diff.witness(region)
    return {
        "direction": region.direction.value,
        "sentence": region.sentence,
        "before": _outcome_as_json(region.before),
        "after": _outcome_as_json(region.after),
        "deciding": list(region.deciding),
        "assignments": region.assignments,
        "smallest": list(region.facts),
        "event": witness and json.loads(to_json(witness, TerminalEvent)),
        "events": affected and affected.events,
        "sample": affected and [each._asdict() for each in affected.sample],
    }


def _outcome_as_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "rule_id": outcome.rule_id,
        "kind": outcome.kind,
        "reason_code": outcome.reason_code,
        "reason_from": outcome.reason_from,
        "queue": outcome.queue,
    }


# --- for people


@dataclass(frozen=True)
class Asked:
    """How the command was given, as far as what it suggests has to repeat it."""

    new: Path | None
    store: Path | None

    @property
    def options(self) -> str:
        """The options that choose table and store."""
        given = (("--table", self.new), ("--store", self.store))
        return "".join(f" {name} {shlex.quote(str(value))}" for name, value in given if value is not None)


def show(diff: Diff, asked: Asked) -> None:
    """Print the difference."""
    page = Page()
    old, new = (f"{chosen.table.file.id} {chosen.table.file.version}" for chosen in (diff.old, diff.new))
    page.line(f"From table {old} to {new}: {_summary(diff)}", 0)
    for name, chosen in (("A", diff.old), ("B", diff.new)):
        if chosen.unproven:
            page.line(f"{name} is not proved. Where an invariant rules its exit out, the safe one is compared.", 0)
    _show_edits(page, diff)
    for direction, heading in _HEADINGS.items():
        found = [each for each in diff.regions if each.direction is direction]
        shifted = [each for each in diff.shifts if each.direction is direction]
        if found or shifted:
            page.heading(heading)
        _show_regions(page, diff, found, asked)
        _show_shifts(page, shifted)
    if diff.traffic is not None:
        _show_traffic(page, diff.traffic, asked)


_HEADINGS = {
    Direction.LOOSENS: "Loosens safety",
    Direction.TIGHTENS: "Tightens safety",
    Direction.MOVES: "Moves between exits that are equally safe",
}


def _summary(diff: Diff) -> str:
    if not diff.regions and not diff.shifts:
        return "no run gets another exit"
    return "safety is loosened" if diff.loosens else "safety is not loosened"


def _show_edits(page: Page, diff: Diff) -> None:
    old, new = diff.old.table, diff.new.table
    edits = differences(old, new)
    page.heading("What was edited" if edits else _nothing_edited(old, new))
    for sentence in edits:
        page.line(sentence)


def _nothing_edited(old: Table, new: Table) -> str:
    if old.digest == new.digest:
        return "The tables are identical"
    names = (old.file.id, old.file.version) != (new.file.id, new.file.version)
    return "Nothing was edited but id or version" if names else "Nothing was edited but how it is written"


def _show_regions(page: Page, diff: Diff, found: Sequence[Region], asked: Asked) -> None:
    for region in found:
        page.line(region.sentence)
        page.line(f"{_combinations(region.assignments)} of facts, the smallest: {_facts(region.facts)}", 2)
        if affected := diff.affected(region):
            _show_affected(page, affected, asked)


def _show_shifts(page: Page, found: Sequence[Shift]) -> None:
    for shift in found:
        page.line(shift.sentence)
        page.line(f"{_combinations(shift.assignments)} of other facts, the smallest before: {_facts(shift.facts)}", 2)


def _combinations(number: int) -> str:
    return console.counted(number, "possible combination")


def _facts(names: Sequence[str]) -> str:
    return ", ".join(names) or "no fact at all"


def _show_affected(page: Page, affected: Affected, asked: Asked) -> None:
    page.line(f"stored events: {affected.events:,}", 2)
    for each in affected.sample:
        _show_command(f"explain {shlex.quote(each.event_id)} --tenant {shlex.quote(each.tenant)}{asked.options}")


def _show_command(arguments: str) -> None:
    """A command on a line of its own that does not wrap, so that it can be copied."""
    sys.stdout.write(plain(f"      offramp {arguments}") + "\n")


def _show_traffic(page: Page, traffic: Traffic, asked: Asked) -> None:
    page.heading(f"{traffic.replayed:,} stored events were replayed")
    for why, events in sorted(traffic.not_replayable.items()):
        page.line(f"{events:,} were not: {_WHY[why]}")
    if traffic.not_replayable:
        page.line("Their evidence can be asked instead:")
        _show_command(f"rebuild --dry-run{asked.options}")
