"""A comparison as one HTML file that needs nothing beside it: no script, no network, no font of its own.

Whatever comes from records is text of other people: it is escaped, cannot turn its neighbours around, and is cut where
it is longer than anybody reads. Every plot stands beside the table of its numbers, and no meaning is in colour alone.
"""

from collections.abc import Callable, Iterable, Sequence
from html import escape

from schemas.exits import KINDS
from shadow.calibration import Bin, Calibration, Escalation
from shadow.coverage import Coverage
from shadow.report import LEGACY_KINDS, Disagreement, Example, Report
from shadow.shares import Share
from shadow.style import STYLE
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
    strays,
    under,
    words,
)

Explain = Callable[[Example], str]
"""The command that explains a run."""

_LEGACY_OF_CELL = {"unmapped": "no kind"}


def as_html(found: Report, explain: Explain) -> str:
    """The page."""
    sections = [
        ("not-seen", "What was not seen", _coverage(found)),
        ("matrix", "Legacy's exit by the new one", _matrix(found)),
        ("agreement", "Agreement", _agreement(found)),
        ("disagreements", "Disagreements", _disagreements(found, explain)),
        ("harm", "Harm and cost", _harm(found)),
        ("recovery", "What operators did", _recovery(found, explain)),
        ("behaviours", "Ways to end", _behaviours(found)),
        ("confidence", "Confidence", _calibration(found.calibration)),
    ]
    links = "".join(f'<li><a href="#{key}">{title}</a></li>' for key, title, _ in sections)
    body = "".join(
        f'<section aria-labelledby="{key}"><h2 id="{key}">{title}</h2>{content}</section>'
        for key, title, content in sections
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        # Nothing may be loaded and nothing may run, whatever stands in a label.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>Legacy against new</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f'<a class="skip" href="#main">Skip to the report</a>{_header(found)}'
        f'<nav aria-label="Sections"><ol>{links}</ol></nav>'
        f'<main id="main">{body}</main>'
        f"<footer><p>Intervals are of 95% (Wilson). Times are UTC. Written {instant(found.question.now)}.</p></footer>"
        "\n</body>\n</html>\n"
    )


# --- building blocks


def _p(text: str, kind: str = "") -> str:
    return f"<p{_class(kind)}>{text}</p>"


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[object]], texts: int = 1) -> str:
    """A table whose first ``texts`` columns are text and whose other ones are numbers. Cells are escaped; the first is
    the header of its row."""
    head = "".join(
        f'<th scope="col"{_class("number" if place >= texts else "")}>{escape(name)}</th>'
        for place, name in enumerate(columns)
    )
    body = "".join(f"<tr>{_row(row, texts)}</tr>" for row in rows)
    return (
        # Where it is wider than the screen it scrolls, and must be reachable by keyboard to do so.
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}">'
        f"<table><caption><span>{escape(caption)}</span></caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(row: Sequence[object], texts: int) -> str:
    first, *rest = row
    cells = "".join(
        f"<td{_class('number' if place >= texts else '')}>{_cell(value)}</td>" for place, value in enumerate(rest, 1)
    )
    return f'<th scope="row">{_cell(first)}</th>{cells}'


def _cell(value: object) -> str:
    return f"{value:,}" if type(value) is int else _foreign(str(value))


_JOINERS = "\u200c\u200d"
"""Characters without a shape that scripts and emoji need."""


def _foreign(text: str) -> str:
    """Text that may be of other people, as one line of a page."""
    shown = escape("".join(map(_visible, cut(text))))
    # Set apart from its neighbours, whose order letters of another direction would change.
    return shown if shown.isascii() else f"<bdi>{shown}</bdi>"


def _visible(character: str) -> str:
    """The character, or its code if it has no shape, as on a terminal: such as what ends a line or turns it around."""
    if character.isprintable() or character in _JOINERS:
        return character
    return character.encode("unicode_escape").decode()


def _figures(figures: Iterable[tuple[str, str, str]]) -> str:
    """Numbers to be read first: each with what it is, and what it is not."""
    items = "".join(
        f"<div><dt>{escape(name)}</dt><dd><strong>{escape(value)}</strong> <span>{escape(aside)}</span></dd></div>"
        for name, value, aside in figures
    )
    return f'<dl class="figures">{items}</dl>'


def _more(shown: int, in_all: int, what: str) -> str:
    return _p(f"{what} that are not shown: {in_all - shown:,}.", "aside") if in_all > shown else ""


# --- sections


def _header(found: Report) -> str:
    question, seen = found.question, found.coverage
    lines = []
    if seen.first is not None:
        lines.append(
            f"Runs from {instant(seen.first)} to {instant(seen.last)}; newest event {instant(seen.last_event)}."
        )
    scope = question.scope
    asked = (("tenant", scope.tenant), ("agent", scope.agent), ("workflow", scope.workflow))
    lines += [f"Only {name} {_foreign(value)}." for name, value in asked if value is not None]
    if question.mapping:
        lines.append(f"Label mapping {escape(question.mapping['id'])} {escape(question.mapping['version'])}.")
    if question.candidate is not None:
        lines.append(f"Under {escape(under(question.candidate))}.")
    return f"<header><h1>Legacy against new</h1>{_p(' '.join(lines))}</header>"


def _coverage(found: Report) -> str:
    seen = found.coverage
    rows = [
        ("Runs without a legacy exit", seen.legacy_missing, Share(seen.legacy_missing, seen.runs)),
        ("of these, it may still come", seen.waiting, Share(seen.waiting, seen.legacy_missing)),
        ("Legacy exits without an event", seen.event_missing, Share(seen.event_missing, seen.legacy_exits)),
        ("Pairs without a kind for legacy's label", seen.unmapped, Share(seen.unmapped, seen.paired)),
        ("Pairs whose legacy exits contradict each other", seen.contested, Share(seen.contested, seen.paired)),
        ("Runs with evidence missing", seen.with_gaps, Share(seen.with_gaps, seen.runs)),
    ]
    return "".join(
        [
            _figures([
                _seen("Runs with both sides", Share(seen.paired, seen.runs)),
                _seen("Pairs with a kind for legacy's label", Share(seen.judged, seen.paired)),
                _seen("Runs without missing evidence", Share(seen.runs - seen.with_gaps, seen.runs)),
            ]),
            _table("What is missing", ("What", "Runs", "Share", "Of"),
                   [(what, number, share(part), part.of) for what, number, part in rows]),
            _p(f"Earlier segments, each of which counts by the latest of its run: {seen.superseded:,}.")
            if seen.superseded else "",
            _p("Legacy exits without an event name no agent and no workflow: they are those of all.")
            if found.question.scope.is_narrow else "",
            "".join(_p(f"Runs that are in no other figure, since {escape(_WHY_NOT[why])}: {runs:,}.", "warning")
                    for why, runs in found.not_replayable.items()),
            _strays(seen, is_narrow=found.question.scope.is_narrow),
            _agents(seen),
            _silences(seen),
            _labels(seen),
            _gaps(seen),
        ]
    )  # fmt: skip


def _seen(name: str, part: Share) -> tuple[str, str, str]:
    return name, share(part), f"{part.count:,} of {part.of:,}"


_WHY_NOT = {
    "classifier_version": "another version of the classifier found their facts",
    "thresholds": "their facts were judged by other thresholds than the table has",
}
_MOST_ROWS = 50


def _strays(seen: Coverage, *, is_narrow: bool) -> str:
    rows, about = strays(seen.strays), about_strays(seen.strays, is_narrow=is_narrow)
    table = _table("Records that are in no figure", ("What", "Records", "Share", "Of"), rows) if rows else ""
    return table + (_p(about) if about else "")


def _agents(seen: Coverage) -> str:
    unseen = seen.unseen_agents
    if not seen.runs:
        return _p("No run was seen.", "warning")
    if not unseen:
        return _p("Every version of every agent has at least one pair.")
    rows = [(each.agent_id, each.agent_version or NOTHING, each.tenant, each.runs) for each in unseen[:_MOST_ROWS]]
    caption = f"Versions of agents with runs but no pair: {len(unseen):,} of {len(seen.agents):,}"
    return _table(caption, ("Agent", "Version", "Tenant", "Runs"), rows, 3) + _more(len(rows), len(unseen), "Versions")


def _silences(seen: Coverage) -> str:
    if not seen.silences:
        return _p("No hour between the first run and the last is without an event.") if seen.runs else ""
    longest = sorted(seen.silences, key=lambda each: (-each.legacy, -each.hours))[:5]
    hours = sum(each.hours for each in seen.silences)
    return _table(
        f"Hours without an event: {hours:,}, those with most legacy exits first",
        ("From", "Hours", "Legacy exits"),
        [(instant(each.since), each.hours, each.legacy) for each in longest],
    ) + ("" if seen.apart is None else _p(f"{escape(apart(seen.apart))}.", "warning"))


def _labels(seen: Coverage) -> str:
    if not seen.legacy_exits:
        return _p("No legacy exit was seen.", "warning")
    if not seen.labels:
        return _p("Every legacy exit has a kind.")
    rows = [
        (each.dispatcher or NOTHING, each.label or NOTHING, each.error_class or NOTHING,
         NOTHING if each.http_status is None else str(each.http_status), each.runs)
        for each in seen.labels
    ]  # fmt: skip
    caption = f"Legacy exits that the mapping has no kind for: {seen.labels_in_all:,}"
    table = _table(caption, ("Dispatcher", "Label", "Error class", "Status", "Runs"), rows, 3)
    return table + _more(len(rows), seen.labels_in_all, "Labels")


def _gaps(seen: Coverage) -> str:
    if not seen.gaps:
        return _p("No run lacks evidence that could have earned it a better exit.") if seen.runs else ""
    rows = [(each.record, each.field, each.times) for each in seen.gaps]
    caption = f"Fields of evidence that are missing and could have earned a better exit: {seen.gaps_in_all:,}"
    return _table(caption, ("Record", "Field", "Times"), rows, 2) + _more(len(rows), seen.gaps_in_all, "Fields")


def _matrix(found: Report) -> str:
    if not found.pairs:
        return _p("There is no pair.", "warning")
    cells = sorted(found.cells.items(), key=lambda cell: -cell[1])
    rows = [
        (_legacy(a), words(b), runs, share(part), interval(part))
        for (a, b), runs in cells
        for part in [Share(runs, found.pairs)]
    ]
    return _heat_map(found) + _table(
        f"Shares of all {found.pairs:,} pairs", ("Legacy", "New", "Runs", "Share", "95%"), rows, 2
    )


def _legacy(kind: str) -> str:
    return _LEGACY_OF_CELL.get(kind, words(kind))


def _heat_map(found: Report) -> str:
    """A table whose cells are shaded by their share of the row; each cell has its number, so the shade adds nothing
    that is not there in words."""
    head = "".join(f'<th scope="col">{words(kind)}</th>' for kind in KINDS)
    body = "".join(_heat_row(found, legacy) for legacy in LEGACY_KINDS)
    return (
        '<div class="scroll" role="region" tabindex="0" aria-label="Runs by legacy exit and new exit">'
        '<table class="heat"><caption><span>Runs by legacy exit (down) and new exit (across). The stronger the shade, '
        "the larger the share of the row; framed where both name the same exit.</span></caption>"
        f'<thead><tr><th scope="col">Legacy</th>{head}<th scope="col">all</th></tr></thead><tbody>{body}</tbody>'
        "</table></div>"
    )


def _heat_row(found: Report, legacy: str) -> str:
    counts = {new: found.cells.get((legacy, new), 0) for new in KINDS}
    whole = sum(counts.values())
    if not whole:
        return ""
    cells = "".join(
        f'<td class="heat{min(9, runs * 10 // whole)}{" same" if new == legacy else ""}">{runs:,}'
        f"<small>{share(Share(runs, whole))}</small></td>"
        for new, runs in counts.items()
    )
    return f'<tr><th scope="row">{_legacy(legacy)}</th>{cells}<td>{whole:,}</td></tr>'


_NOTHING_JUDGED = _p("No pair has a kind on both sides, so nothing can be said.", "warning")


def _agreement(found: Report) -> str:
    if not found.judged:
        return _NOTHING_JUDGED
    part, chance = found.agreement, found.kappa
    beside = "unknown" if chance is None else number(chance.value)
    aside = "chance alone would agree always" if chance is None else f"{number(chance.low)} to {number(chance.high)}"
    rows = [
        (words(kind), legacy.of, share(legacy), interval(legacy), new.of, share(new), interval(new))
        for kind in LEGACY_KINDS[:-1]
        for legacy, new in [(found.by_legacy[kind], found.by_new.get(kind, Share(0, 0)))]
        if legacy.of or new.of
    ]
    return (
        _figures([
            ("Agree", share(part), f"{part.count:,} of {part.of:,} judged pairs, {interval(part)}"),
            ("Beside chance", beside, f"Cohen's kappa, {aside}; 0 is chance, 1 is perfect"),
            ("New exits that the evidence rules out", f"{found.prohibited_exits:,}", "must be 0"),
            ("Legacy exits that it rules out", f"{found.ruled_out:,}", f"of {found.judged:,} judged pairs"),
        ])
        + _p("No one of these numbers says it: where one exit is frequent, agreement is high by chance.")
        + _table("By exit, both ways", ("Exit", "Legacy said so", "New agrees", "95%", "New says so", "Legacy agrees",
                                        "95%\u00a0"), rows)
    )  # fmt: skip


def _disagreements(found: Report, explain: Explain) -> str:
    if not found.disagreements:
        return _p("There is none.") if found.judged else _NOTHING_JUDGED
    part = found.disagreeing
    rows = [
        (
            words(each.name),
            each.owner,
            each.change.value,
            each.runs.count,
            share(each.runs),
            interval(each.runs),
            each.accepted,
        )
        for each in found.disagreements
    ]
    overview = _table(
        f"{part.count:,} of {part.of:,} judged pairs disagree, {share(part)} ({interval(part)})",
        ("Name", "Owner", "Later half", "Runs", "Share", "95%", "Accepted"), rows, 3,
    )  # fmt: skip
    return (
        overview
        + "".join(_disagreement(each, explain) for each in found.disagreements if each.runs.count)
        + _accepted(found)
    )


def _disagreement(each: Disagreement, explain: Explain) -> str:
    earlier, later = each.halves
    said = (
        f"{each.change.value.capitalize()}: {share(earlier)} ({interval(earlier)}) in the earlier half, "
        f"{share(later)} ({interval(later)}) in the later."
    )
    ruled_out = f" In {each.ruled_out:,} of them the evidence rules legacy's exit out." if each.ruled_out else ""
    return (
        f'<article><h3>{words(each.name)} <span class="owner">{escape(each.owner)}</span></h3>'
        f"{_trend(each)}{_p(said + ruled_out)}{_examples(each.examples, explain)}</article>"
    )


def _examples(examples: Sequence[Example], explain: Explain) -> str:
    items = "".join(
        f"<li>{_foreign(each.label or NOTHING)} against {words(each.kind)} ({_foreign(each.reason_code)})"
        f"{f', {words(each.harm)}' if each.harm else ''}"
        f"{f', obligations left: {each.obligations:,}' if each.obligations else ''}"
        f"<br><code>{escape(explain(each))}</code></li>"
        for each in examples
    )
    return f'<ul class="examples">{items}</ul>' if items else ""


_WIDE, _HIGH = 480, 64


def _trend(each: Disagreement) -> str:
    """A line through the shares of the parts of the period; where a part has no pair, the line has a gap."""
    values = [part.value for part in each.trend]
    most = max((value for value in values if value is not None), default=0.0)
    if not most:
        return ""
    step = _WIDE / max(len(values) - 1, 1)
    points = [
        None if value is None else (place * step, _HIGH - 4 - value / most * (_HIGH - 12))
        for place, value in enumerate(values)
    ]
    title = f"Share of {words(each.name)} over the period, at most {percent(most)}"
    return (
        f'<figure><svg class="trend" viewBox="-4 0 {_WIDE + 8} {_HIGH}" role="img" aria-label="{escape(title)}">'
        f'<line class="axis" x1="0" y1="{_HIGH - 4}" x2="{_WIDE}" y2="{_HIGH - 4}"/>{_lines(points)}</svg>'
        f"<figcaption>{escape(title)}</figcaption></figure>"
    )


def _lines(points: Sequence[tuple[float, float] | None]) -> str:
    pieces: list[list[str]] = [[]]
    for point in points:
        if point is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{point[0]:.1f},{point[1]:.1f}")
    lines = "".join(f'<polyline class="line" points="{" ".join(piece)}"/>' for piece in pieces if len(piece) > 1)
    dots = "".join(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>' for x, y in filter(None, points))
    return lines + dots


def _accepted(found: Report) -> str:
    if not found.accepted:
        return ""
    rows = [
        (each.entry.text, each.entry.owner, each.entry.ticket, each.state.value, str(each.entry.expires),
         each.count.pairs, each.count.paired, each.entry.ceiling_text)
        for each in found.accepted
    ]  # fmt: skip
    columns = ("Accepts", "Owner", "Ticket", "State", "Expires", "Covers", "Of pairs", "At most")
    return _table(f"Accepted differences; runs that are in no share above: {found.accepted_runs:,}", columns, rows, 5)


def _harm(found: Report) -> str:
    parts = [(harm, Share(runs, found.judged)) for harm, runs in found.harms.items()]
    rows = [(words(harm), part.count, share(part), interval(part)) for harm, part in parts]
    harms = _table("The worst first; accepted differences too", ("Harm", "Runs", "Share", "95%"), rows)
    none = _p("No legacy exit is known to have done harm.") if found.judged else _NOTHING_JUDGED
    return (harms if rows else none) + _bill(found)


def _bill(found: Report) -> str:
    bill = found.bill
    if bill is None:
        return _p("No file of costs is configured, so harm is counted in runs alone.", "aside")
    rows = [(_legacy(c.legacy), words(c.new), c.runs, bill.text(c.each), bill.text(c.total)) for c in bill.cells]
    unpriced = _p(f"Runs that disagree and have no cost in the file: {bill.unpriced:,}.", "aside")
    caption = f"Cost: {bill.text(bill.total)} {bill.unit}"
    table = _table(caption, ("Legacy", "New", "Runs", "Each", bill.unit), rows, 2)
    return (table if rows else "") + (unpriced if bill.unpriced else "")


def _recovery(found: Report, explain: Explain) -> str:
    spoken = [row for row in found.recovery if row.contradicted.of]
    rows = [
        (words(row.kind), row.reason_code, row.supports, row.contradicts, share(row.contradicted),
         interval(row.contradicted), row.silent)
        for row in spoken[:_MOST_ROWS]
    ]  # fmt: skip
    columns = ("Exit", "Reason", "For", "Against", "Share against", "95%", "Silent")
    table = _table("Operators and reviewers for and against the proposed exits", columns, rows, 2) if rows else ""
    silent = sum(row.silent for row in found.recovery)
    reversals = ""
    if found.reversals:
        said = f"Partials that turned out wrong, since a later enrichment reversed them: {found.reversals:,}."
        reversals = _p(said, "warning") + _examples(found.reversal_examples, explain)
    rest = _more(len(rows), len(spoken), "Reasons")
    return table + rest + _p(f"Runs that nobody said anything about: {silent:,}.") + reversals


def _behaviours(found: Report) -> str:
    rows = [
        (seen.behaviour.label, seen.behaviour.meaning, seen.runs.count, share(seen.runs), interval(seen.runs),
         share(seen.legacy_success), f"{seen.contradicted.count:,} of {seen.contradicted.of:,}")
        for seen in found.behaviours
    ]  # fmt: skip
    columns = ("Behaviour", "Meaning", "Runs", "Share", "95%", "Legacy: success", "Operators against")
    packets = found.hand_off
    quality = "" if packets.mean is None else _p(
        f"Review packets hold {percent(packets.mean)} of what a reviewer needs on average; "
        f"{packets.whole.count:,} of {packets.whole.of:,} hold all of it."
    )  # fmt: skip
    sides = (("New", found.escalation), ("Legacy", found.legacy_escalation))
    return (
        _table("Each by itself; a run may show several", columns, rows, 2)
        + quality
        + _table(
            "Share that goes to people, against the band of 10.0% to 20.0%",
            ("Dispatcher", "Band", "Runs", "Share", "95%"),
            [_escalation(who, given) for who, given in sides], 2,
        )
    )  # fmt: skip


def _escalation(who: str, given: Escalation) -> tuple[object, ...]:
    part = Share(given.escalated, given.runs)
    return who, given.place.value, part.count, share(part), interval(part)


def _calibration(found: Calibration) -> str:
    left_out = (
        f"Runs without a confidence: {found.without_confidence:,}; "
        f"with one, but without a verified outcome: {found.without_outcome:,}."
    )
    if not found.n or found.ece is None:
        return _p(f"No run has both a confidence and a verified outcome. {left_out}", "warning")
    chance = "" if found.ece_by_chance is None else f"perfect calibration would show {percent(found.ece_by_chance)}"
    rows = [
        (f"{each.low:.1f} to {each.high:.1f}", each.n, percent(each.right / each.n), between(*each.interval))
        for each in found.bins
        if each.n
    ]
    tradeoff = [
        (f"{each.threshold:.2f}", each.escalated, percent(each.escalated / each.n),
         share(Share(each.unneeded, each.escalated)), each.missed)
        for each in found.tradeoff
    ]  # fmt: skip
    return (
        _figures([("Off on average", percent(found.ece), f"over {found.n:,} runs; {chance}")])
        + _reliability(found)
        + _table("Confidence against verified outcome", ("Confidence", "Runs", "Right", "95%"), rows)
        + _table("If every run below a confidence had gone to a person",
                 ("Below", "Escalated", "Share", "Unneeded", "Wrong ones missed"), tradeoff)
        + _p(left_out, "aside")
    )  # fmt: skip


_SIDE = 240


def _reliability(found: Calibration) -> str:
    """The share that was right over the mean confidence, with intervals; on the diagonal they are the same."""
    marks = "".join(map(_mark, found.bins))
    label = "Share that was right by mean confidence, with intervals; the table below has the numbers"
    return (
        f'<figure><svg class="square" viewBox="-34 -8 {_SIDE + 44} {_SIDE + 48}" role="img" aria-label="{label}">'
        f'<rect class="frame" x="0" y="0" width="{_SIDE}" height="{_SIDE}"/>'
        f'<line class="axis" x1="0" y1="{_SIDE}" x2="{_SIDE}" y2="0" stroke-dasharray="4 4"/>{marks}'
        f'<text x="0" y="{_SIDE + 16}">0</text><text x="{_SIDE}" y="{_SIDE + 16}" text-anchor="end">1</text>'
        f'<text x="{_SIDE / 2}" y="{_SIDE + 32}" text-anchor="middle">confidence</text>'
        f'<text x="-6" y="{_SIDE}" text-anchor="end">0</text><text x="-6" y="10" text-anchor="end">1</text>'
        f'<text x="-14" y="{_SIDE / 2}" text-anchor="middle" transform="rotate(-90 -14 {_SIDE / 2})">right</text>'
        f"</svg><figcaption>{label}</figcaption></figure>"
    )


def _mark(each: Bin) -> str:
    if each.accuracy is None or each.confidence is None:
        return ""
    x = each.confidence * _SIDE
    ends = f'y1="{_up(each.interval.low):.1f}" y2="{_up(each.interval.high):.1f}"'
    return (
        f'<line class="whisker" x1="{x:.1f}" x2="{x:.1f}" {ends}/>'
        f'<circle class="dot" cx="{x:.1f}" cy="{_up(each.accuracy):.1f}" r="4"/>'
    )


def _up(value: float) -> float:
    return _SIDE * (1 - value)
