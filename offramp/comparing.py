"""What ``shadow compare`` shows on a terminal, and how its other forms are written."""

import csv
import io
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from offramp import console
from offramp.commands import Commands
from offramp.config import read_text
from offramp.errors import ConfigurationError
from offramp.page import Page
from schemas.exits import KINDS
from shadow.calibration import BAND, Calibration, Escalation, Place
from shadow.costs import Costs, CostsError, parse
from shadow.coverage import Coverage
from shadow.figures import Figure, as_json, figures
from shadow.page import as_html
from shadow.report import LEGACY_KINDS, Disagreement, Example, Report
from shadow.shares import Share
from shadow.wording import (
    NOTHING,
    about_strays,
    apart,
    between,
    cut,
    instant,
    interval,
    number,
    percent,
    share,
    sparkline,
    strays,
    under,
    words,
)

_MOST_ROWS = 12
"""Rows of a list that a terminal shows; the other forms have all of them."""
_WHY_NOT = {
    "classifier_version": "another version of the classifier found their facts, which may mean something else",
    "thresholds": "their facts were judged by other thresholds than the table has",
}
_EXITS = {"completed": "complete", "refusal": "refuse", "fallback": "fall back", "partial": "partial",
          "human_queue": "person"}  # fmt: skip
"""Headings of the matrix, short enough for it to fit."""


def read_costs(path: Path) -> Costs:
    """The costs in a file. Raises ConfigurationError if it cannot be read, or lists everything wrong with it."""
    try:
        return parse(read_text(path))
    except CostsError as error:
        listed = "".join(f"\n  {problem}" for problem in error.problems)
        raise ConfigurationError(f"{path} cannot be used as a file of costs:{listed}") from None


# --- for programs


def json_bytes(found: Report, _commands: Commands) -> bytes:
    """The report as one JSON object."""
    return console.json_text(as_json(found))


def ndjson_bytes(found: Report, _commands: Commands) -> bytes:
    """A figure a line, as JSON."""
    return console.json_lines([figure._asdict() for figure in figures(found)])


def csv_bytes(found: Report, _commands: Commands) -> bytes:
    """A figure a row, with a header."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([Figure._fields, *figures(found)])
    return text.getvalue().encode(errors="replace")


def parquet_bytes(found: Report, _commands: Commands) -> bytes:
    """The same as Parquet, typed."""
    import pyarrow as pa
    from pyarrow import parquet

    types = {"of": pa.int64(), "number": pa.int64(), "share": pa.float64(), "low": pa.float64(), "high": pa.float64()}
    columns = zip(*figures(found), strict=True)
    arrays = {
        name: pa.array(values, types.get(name, pa.string()))
        for name, values in zip(Figure._fields, columns, strict=True)
    }
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table(arrays), sink)
    return sink.getvalue().to_pybytes()


def html_bytes(found: Report, commands: Commands) -> bytes:
    """One page that needs nothing beside it."""
    return as_html(found, lambda run: commands.explain(run.tenant, run.event_id)).encode(errors="replace")


FORMS: dict[str, Callable[[Report, Commands], bytes]] = {
    "html": html_bytes,
    "json": json_bytes,
    "ndjson": ndjson_bytes,
    "csv": csv_bytes,
    "parquet": parquet_bytes,
}
"""How the report is written, by the name of its form."""


# --- for people


def show(found: Report, commands: Commands) -> None:
    """Print the report: what was not seen, then what was."""
    page = Page()
    _show_asked(page, found)
    _show_coverage(page, found.coverage, is_narrow=found.question.scope.is_narrow)
    _show_not_replayable(page, found)
    if not found.judged:
        page.heading("There is no pair to compare: no run has both an exit and a legacy exit with a kind")
        return
    _show_matrix(page, found)
    _show_agreement(page, found)
    _show_disagreements(page, found, commands)
    _show_accepted(page, found)
    _show_harm(page, found)
    _show_recovery(page, found, commands)
    _show_behaviours(page, found)
    _show_calibration(page, found.calibration)


def _show_asked(page: Page, found: Report) -> None:
    seen, question = found.coverage, found.question
    page.line(f"Legacy against new: {console.counted(found.pairs, 'pair')} of {console.counted(seen.runs, 'run')}", 0)
    if seen.first is not None:
        page.line(f"from {instant(seen.first)} to {instant(seen.last)} UTC; newest event {instant(seen.last_event)}")
    if question.mapping:
        page.line(f"label mapping {question.mapping['id']} {question.mapping['version']}")
    if question.candidate is not None:
        page.line(f"under {under(question.candidate)}")


def _show_coverage(page: Page, seen: Coverage, *, is_narrow: bool) -> None:
    rows = [
        ("runs without a legacy exit", seen.legacy_missing, Share(seen.legacy_missing, seen.runs)),
        ("of these, it may still come", seen.waiting, Share(seen.waiting, seen.legacy_missing)),
        ("legacy exits without an event", seen.event_missing, Share(seen.event_missing, seen.legacy_exits)),
        ("pairs without a kind for legacy's label", seen.unmapped, Share(seen.unmapped, seen.paired)),
        ("pairs whose legacy exits contradict", seen.contested, Share(seen.contested, seen.paired)),
        ("runs with evidence missing", seen.with_gaps, Share(seen.with_gaps, seen.runs)),
    ]  # fmt: skip
    _table("Not seen", [("what", "left"), ("runs", "right"), ("share", "right"), ("of", "right")],
                  [(what, number, share(part), part.of) for what, number, part in rows])  # fmt: skip
    if is_narrow:
        page.line("Legacy exits without an event name no agent and no workflow: they are those of all.")
    if seen.superseded:
        page.line(f"{console.counted(seen.superseded, 'earlier segment')} of these runs: each counts by its latest.")
    _show_strays(page, seen, is_narrow=is_narrow)
    _show_agents(page, seen)
    _show_silences(page, seen)
    _show_labels(seen)
    _show_gaps(seen)


def _table(title: str, columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[object]]) -> None:
    """A table with an empty line before it."""
    sys.stdout.write("\n")
    console.table(title, columns, [[cut(cell) if isinstance(cell, str) else cell for cell in row] for row in rows])


def _rest(page: Page, shown: int, in_all: int, what: str) -> None:
    if in_all > shown:
        page.line(f"{what} that are not shown: {in_all - shown:,}; --format json names more of them")


def _show_strays(page: Page, seen: Coverage, *, is_narrow: bool) -> None:
    rows = strays(seen.strays)
    if rows:
        columns = [("what", "left"), ("records", "right"), ("share", "right"), ("of", "right")]
        _table("Records that are in no figure", columns, rows)
    page.line(about_strays(seen.strays, is_narrow=is_narrow))


def _show_agents(page: Page, seen: Coverage) -> None:
    unseen = seen.unseen_agents
    if not unseen:
        return
    columns = [("agent", "left"), ("version", "left"), ("tenant", "left"), ("runs", "right")]
    rows = [(each.agent_id, each.agent_version or NOTHING, each.tenant, each.runs) for each in unseen[:_MOST_ROWS]]
    _table(f"Versions of agents with runs but no pair: {len(unseen):,} of {len(seen.agents):,}", columns, rows)
    _rest(page, len(rows), len(unseen), "versions")


def _show_silences(page: Page, seen: Coverage) -> None:
    if not seen.silences:
        if seen.runs:
            page.line("No hour between the first run and the last is without an event.")
        return
    hours, legacy = sum(each.hours for each in seen.silences), sum(each.legacy for each in seen.silences)
    stretches = "1 stretch" if len(seen.silences) == 1 else f"{len(seen.silences):,} stretches"
    page.line(
        f"{console.counted(hours, 'hour')} without an event, in {stretches}, "
        f"with {console.counted(legacy, 'legacy exit')}, such as:"
    )
    for each in sorted(seen.silences, key=lambda silence: (-silence.legacy, -silence.hours))[:3]:
        legacy_part = f", {console.counted(each.legacy, 'legacy exit')}" if each.legacy else ""
        page.line(f"from {instant(each.since)} on, {console.counted(each.hours, 'hour')}{legacy_part}", 2)
    if seen.apart is not None:
        page.line(apart(seen.apart))


def _show_labels(seen: Coverage) -> None:
    if not seen.labels:
        return
    columns = [("dispatcher", "left"), ("label", "left"), ("status", "right"), ("error", "left"), ("runs", "right")]
    rows = [
        (each.dispatcher or NOTHING, each.label or NOTHING, NOTHING if each.http_status is None else each.http_status,
         each.error_class or NOTHING, each.runs)
        for each in seen.labels[:_MOST_ROWS]
    ]  # fmt: skip
    _table(f"Legacy exits without a kind: {seen.labels_in_all:,}", columns, rows)


def _show_gaps(seen: Coverage) -> None:
    if not seen.gaps:
        return
    columns = [("record", "left"), ("missing field", "left"), ("times", "right")]
    rows = [(each.record, each.field, each.times) for each in seen.gaps[:_MOST_ROWS]]
    _table(f"Missing evidence: {console.counted(seen.gaps_in_all, 'field')}", columns, rows)


def _show_not_replayable(page: Page, found: Report) -> None:
    for reason, runs in found.not_replayable.items():
        page.line(f"{console.counted(runs, 'run')} in no other figure here: {_WHY_NOT[reason]}")


def _show_matrix(page: Page, found: Report) -> None:
    columns = [("legacy", "left"), *((_EXITS[kind], "right") for kind in KINDS), ("all", "right")]
    rows = [row for legacy in LEGACY_KINDS if (row := _matrix_row(found, legacy))[-1]]
    _table("Pairs by legacy's exit (down) and the new one (across)", columns, [*rows, _total_row(rows)])
    cells = sorted(found.cells.items(), key=lambda cell: -cell[1])[:_MOST_ROWS]
    columns = [("legacy", "left"), ("new", "left"), ("runs", "right"), ("share", "right"), ("95%", "right")]
    shares = [(*cell, runs, Share(runs, found.pairs)) for cell, runs in cells]
    _table("Shares of all pairs", columns,
                  [(words(a), words(b), runs, share(part), interval(part)) for a, b, runs, part in shares])  # fmt: skip
    _rest(page, len(cells), len(found.cells), "cells")


def _matrix_row(found: Report, legacy: str) -> tuple[str | int, ...]:
    counts = [found.cells.get((legacy, new), 0) for new in KINDS]
    return (words(legacy), *counts, sum(counts))


def _total_row(rows: Sequence[tuple[str | int, ...]]) -> tuple[str | int, ...]:
    return ("all", *(sum(int(row[place]) for row in rows) for place in range(1, len(KINDS) + 2)))


def _show_agreement(page: Page, found: Report) -> None:
    page.heading("Agreement, and why no one number says it")
    part = found.agreement
    page.line(f"{part.count:,} of {part.of:,} judged pairs agree: {share(part)} ({interval(part)})")
    page.line(f"Beside chance: {beside_chance(found)}.")
    columns = [("exit", "left"), ("legacy said so", "right"), ("new agrees", "right"), ("new says so", "right"),
               ("legacy agrees", "right")]  # fmt: skip
    rows = []
    for kind in LEGACY_KINDS[:-1]:
        legacy, new = found.by_legacy[kind], found.by_new.get(kind, Share(0, 0))
        if legacy.of or new.of:
            rows.append((words(kind), legacy.of, share(legacy), new.of, share(new)))
    _table("By exit, both ways", columns, rows)
    page.line(f"New exits that the evidence rules out: {found.prohibited_exits:,}. Legacy's: {found.ruled_out:,}.")


def beside_chance(found: Report) -> str:
    """Cohen's kappa in words."""
    given = found.kappa
    if given is None:
        return "unknown, since chance alone would agree always"
    return (
        f"Cohen's kappa {number(given.value)} ({number(given.low)} to {number(given.high)}); 0 is chance, 1 is perfect"
    )


def _show_disagreements(page: Page, found: Report, commands: Commands) -> None:
    part = found.disagreeing
    page.heading(f"Disagreements: {part.count:,} of {part.of:,} judged pairs, {share(part)} ({interval(part)})")
    columns = [("name", "left"), ("runs", "right"), ("share", "right"), ("95%", "right"), ("owner", "left")]
    rows = [
        (words(each.name), each.runs.count, share(each.runs), interval(each.runs), each.owner)
        for each in found.disagreements
    ]
    if rows:
        _table("By name", columns, rows)
    for each in found.disagreements:
        if each.runs.count:
            _show_disagreement(page, each, commands)


def _show_disagreement(page: Page, each: Disagreement, commands: Commands) -> None:
    earlier, later = each.halves
    page.line(f"{words(each.name)}: {each.change.value}, from {share(earlier)} in the earlier half to {share(later)}")
    page.line(f"|{sparkline(each.trend)}|", 2)
    if each.ruled_out:
        page.line(f"in {each.ruled_out:,} of these the evidence rules legacy's exit out", 2)
    for example in each.examples:
        page.line(_example(example), 2)
        page.exactly(f"      {commands.explain(example.tenant, example.event_id)}")


def _example(each: Example) -> str:
    harm = f"; {words(each.harm)}" if each.harm else ""
    owed = f"; obligations left: {each.obligations:,}" if each.obligations else ""
    return f"{cut(each.label) or NOTHING} against {words(each.kind)} ({each.reason_code}){harm}{owed}"


def _show_accepted(page: Page, found: Report) -> None:
    if not found.accepted:
        return
    page.heading(f"Accepted differences: {console.counted(found.accepted_runs, 'run')} that are in no figure above")
    for each in found.accepted:
        page.line(
            f"{each.state.value}: {each.entry.text}; {each.count.pairs:,} of {each.count.paired:,} pairs, at most "
            f"{each.entry.ceiling_text}, until {each.entry.expires}; {each.entry.owner}, {each.entry.ticket}"
        )


def _show_harm(page: Page, found: Report) -> None:
    if found.harms:
        parts = [(harm, Share(runs, found.judged)) for harm, runs in found.harms.items()]
        _table(
            "Harm, the worst first, accepted differences too",
            [("harm", "left"), ("runs", "right"), ("share", "right"), ("95%", "right")],
            [(words(harm), part.count, share(part), interval(part)) for harm, part in parts],
        )
    if found.bill is not None:
        bill = found.bill
        columns = [("legacy", "left"), ("new", "left"), ("runs", "right"), ("each", "right"), (bill.unit, "right")]
        rows = [(words(c.legacy), words(c.new), c.runs, bill.text(c.each), bill.text(c.total)) for c in bill.cells]
        _table(f"Cost: {bill.text(bill.total)} {bill.unit}", columns, rows)
        if bill.unpriced:
            page.line(f"Disagreeing runs without a cost in that file: {bill.unpriced:,}.")


def _show_recovery(page: Page, found: Report, commands: Commands) -> None:
    spoken = [row for row in found.recovery if row.contradicted.of]
    silent = sum(row.silent for row in found.recovery)
    columns = [("exit", "left"), ("reason", "left"), ("for", "right"), ("against", "right"), ("share", "right"),
               ("silent", "right")]  # fmt: skip
    rows = [
        (words(row.kind), row.reason_code, row.supports, row.contradicts, share(row.contradicted), row.silent)
        for row in spoken[:_MOST_ROWS]
    ]
    if rows:
        _table("What operators and reviewers did, for and against the proposed exits", columns, rows)
    else:
        page.heading("What operators and reviewers did")
    _rest(page, len(rows), len(spoken), "reasons")
    page.line(f"About {console.counted(silent, 'run')} nobody said anything.")
    if found.reversals:
        page.line(f"{console.counted(found.reversals, 'partial')} turned out wrong: a later enrichment reversed them.")
        for example in found.reversal_examples:
            page.exactly(f"      {commands.explain(example.tenant, example.event_id)}")


def _show_behaviours(page: Page, found: Report) -> None:
    columns = [("behaviour", "left"), ("runs", "right"), ("share", "right"), ("legacy: success", "right"),
               ("operators against", "right")]  # fmt: skip
    rows = [
        (seen.behaviour.label, seen.runs.count, share(seen.runs), share(seen.legacy_success),
         f"{seen.contradicted.count:,} of {seen.contradicted.of:,}")
        for seen in found.behaviours
    ]  # fmt: skip
    _table("Ways to end, each by itself; a run may show several", columns, rows)
    packets = found.hand_off
    if packets.mean is not None:
        page.line(f"Review packets hold {percent(packets.mean)} of what a reviewer needs on average; "
                  f"{packets.whole.count:,} of {packets.whole.of:,} hold all of it.")  # fmt: skip
    for who, given in (("New", found.escalation), ("Legacy", found.legacy_escalation)):
        page.line(f"{who}: {escalation(given)}")


def escalation(given: Escalation) -> str:
    """The rate against the band, in words."""
    part, band = Share(given.escalated, given.runs), between(*BAND)
    where = (
        f"whether that is within {band} is unclear" if given.place is Place.UNCLEAR else f"{given.place.value} {band}"
    )
    return f"{share(part)} ({interval(part)}) of {given.runs:,} go to people; {where}"


def _show_calibration(page: Page, found: Calibration) -> None:
    if not found.n or found.ece is None:
        page.line(
            f"No run has both a confidence and a verified outcome ({found.without_confidence:,} have no confidence)."
        )
        return
    columns = [("confidence", "left"), ("runs", "right"), ("right", "right"), ("95%", "right")]
    rows = [
        (f"{each.low:.1f} to {each.high:.1f}", each.n, percent(each.right / each.n), between(*each.interval))
        for each in found.bins
        if each.n
    ]
    _table(f"Confidence against outcome: {found.n:,} runs, off by {percent(found.ece)} on average", columns, rows)
    if found.ece_by_chance is not None:
        page.line(f"Perfectly calibrated agents would be off by {percent(found.ece_by_chance)} with so few runs.")
    columns = [("below", "left"), ("escalated", "right"), ("unneeded", "right"), ("wrong ones missed", "right")]
    lines = [
        (
            f"{each.threshold:.2f}",
            percent(each.escalated / each.n),
            share(Share(each.unneeded, each.escalated)),
            each.missed,
        )
        for each in found.tradeoff[1::2]
    ]
    _table("If every run below a confidence had gone to a person", columns, lines)
