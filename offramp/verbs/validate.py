"""``offramp validate``: what a producer should mend, and what it would earn by saying more."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from offramp.console import ConfigOption, Format, FormatOption, UnprovenOption, give_json

if TYPE_CHECKING:
    from offramp.page import Page
    from offramp.validation import Findings, Lack

_MOST_MOVES = 4


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command(name="validate")(validate)


def validate(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Files of events; - is standard input.")],
    output: FormatOption = Format.TABLE,
    strict: Annotated[bool, typer.Option("--strict", help="Unknown fields and values count as errors.")] = False,
    table: Annotated[
        Path | None, typer.Option("--table", metavar="FILE", help="Decision table.", show_default="the default table")
    ] = None,
    unproven: UnprovenOption = False,
    config: ConfigOption = None,
) -> None:
    """Say what is wrong, unknown or missing in files of events, and which better exits more evidence would have earned.

    Reads what classify reads and keeps nothing. Better is, from best to worst: a verified completion, a completion, a
    fallback or partial, a refusal, a person's queue. Ends with 1 if any message is no valid record.
    """
    from offramp.session import start
    from offramp.validation import validate as looked_at

    session = start(config, classify={"table": table, "unproven": unproven or None})
    with tempfile.TemporaryDirectory(prefix="offramp-") as spool:
        findings = looked_at(session, files, Path(spool))
    if output is Format.TABLE:
        _show(findings)
    else:
        give_json(_as_json(findings), output)
    raise typer.Exit(1 if findings.faults or (strict and findings.unknown) else 0)


# --- for programs


def _as_json(findings: "Findings") -> dict[str, Any]:
    return {
        "messages": findings.messages,
        "records": dict(findings.records),
        "secrets": findings.secrets,
        "errors": [
            {
                "code": fault.code,
                "path": fault.path,
                "reason": findings.reasons[fault],
                "count": count,
                "first": findings.first[fault],
            }
            for fault, count in findings.faults.most_common()
        ],
        "unknown": [
            unknown._asdict() | {"count": count, "first": findings.first[unknown]}
            for unknown, count in findings.unknown.most_common()
        ],
        "missing": [_lack_as_json(lack) for lack in findings.lacks_by_worth],
        "exits": [
            ending._asdict() | {"now": findings.now[ending], "at_best": findings.at_best[ending]}
            for ending in sorted(findings.now | findings.at_best)
        ],
        "coverage": [
            {"evidence": measure.evidence, "of": measure.asked, "with": has, "asked": asked, "earns": measure.good_for}
            for measure, (has, asked) in findings.coverage.items()
        ],
    }


def _lack_as_json(lack: "Lack") -> dict[str, Any]:
    moves = [
        {"from": now._asdict(), "to": then._asdict(), "events": count}
        for (now, then), count in lack.moves.most_common()
    ]
    return {
        "path": lack.path,
        "kind": lack.kind.code,
        "meaning": lack.kind.meaning,
        "events": lack.events,
        "improved": lack.improved,
        "moves": moves,
    }


# --- for people


def _show(findings: "Findings") -> None:
    from offramp.page import Page

    page = Page()
    counted = ", ".join(f"{count:,} {kind}" for kind, count in sorted(findings.records.items()))
    wrong = findings.faults.total()
    page.line(f"{findings.messages:,} messages: {counted or 'no record'}, {wrong:,} no valid record", 0)
    if findings.secrets:
        page.line(f"{findings.secrets:,} secrets would be replaced by keyed digests")
    _show_faults(page, findings)
    _show_unknown(page, findings)
    if findings.now:
        _show_missing(page, findings)
        _show_exits(findings)
        _show_coverage(findings)


def _show_faults(page: "Page", findings: "Findings") -> None:
    if findings.faults:
        page.heading("Errors, each message by the first that it has")
    for fault, count in findings.faults.most_common():
        place = f"{fault.path}: " if fault.path else ""
        page.line(f"{count:,} {fault.code}: {place}{findings.reasons[fault]}; first at {findings.first[fault]}")


def _show_unknown(page: "Page", findings: "Findings") -> None:
    if findings.unknown:
        page.heading("Unknown fields are kept as extensions, unknown values read as the default; neither decides")
    for unknown, count in findings.unknown.most_common():
        said = "field" if unknown.value is None else f"value {unknown.value}"
        page.line(f"{count:,} {unknown.path}: unknown {said}; first at {findings.first[unknown]}")


def _show_missing(page: "Page", findings: "Findings") -> None:
    if not findings.lacks:
        page.heading("No evidence is missing that stands between an event and a better exit")
        return
    page.heading("Missing evidence, and what it could have earned at best")
    for lack in findings.lacks_by_worth:
        events = f"{lack.events:,} event{'s' if lack.events != 1 else ''}"
        page.line(f"{lack.path}: missing in {events}, {lack.improved:,} could have ended better")
        page.line(lack.kind.meaning, 3)
        for (now, then), count in lack.moves.most_common(_MOST_MOVES):
            page.line(f"{count:,} from {now.kind} ({now.reason_code}) to {then.kind} ({then.reason_code})", 3)


def _show_exits(findings: "Findings") -> None:
    from offramp import console
    from schemas.exits import KINDS

    def total(kind: str, endings: Any) -> int:
        return sum(count for ending, count in endings.items() if ending.kind == kind)

    rows = [(kind, total(kind, findings.now), total(kind, findings.at_best)) for kind in KINDS]
    columns = [("exit", "code"), ("now", "right"), ("with all that is missing, at best", "right")]
    console.table("\nExits", columns, rows)


def _show_coverage(findings: "Findings") -> None:
    from offramp import console

    rows = [
        (measure.evidence, f"{has / asked:.0%}" if asked else "-", f"{asked:,} {measure.asked}", measure.good_for)
        for measure, (has, asked) in findings.coverage.items()
    ]
    columns = [("evidence", "code"), ("there", "right"), ("of", "left"), ("earns", "left")]
    console.table("Coverage", columns, rows)
