"""What ``alerts backtest`` does and shows: when rules would have fired on stored history, one set or two."""

import gc
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from alerts.backtest import Difference, Firing, History, Labels, Replay, Stay, difference, lookback_minutes, replay
from alerts.judging import MINUTE
from alerts.model import Count, Rule, Scope, Series, to_minute
from alerts.rules import RuleBook
from offramp import console
from offramp.errors import ConfigurationError, CouldNotCheckError
from offramp.page import Page
from offramp.period import Period
from schemas.types import to_iso
from sinks.alerts import LEGACY_SERIES, AlertsStore
from sinks.open_items import OpenItemsReader
from streams.alert_history import stays
from streams.alert_inputs import counts_of

LONGEST_DAYS = 400
"""Days that are gone through minute by minute."""
_DAY_MINUTES = 1440


class Question(NamedTuple):
    """What is to be run over what. With two sets, ``against`` is held against ``book``, which comes first."""

    book: RuleBook
    against: RuleBook | None
    labels: Labels
    period: Period
    now: int


@dataclass(frozen=True)
class Side:
    """One set of rules, under one set of labels. ``runs`` and ``scopes`` are what was counted in the period."""

    book: RuleBook
    labels: Labels
    replay: Replay
    runs: int
    scopes: int

    @property
    def name(self) -> str:
        """Which it is."""
        return f"{self.book.id} {self.book.version} under {self.labels} labels"


@dataclass(frozen=True)
class Backtest:
    """What was asked and found. ``change`` is from the first side to the second, None if there is only one."""

    begin: int
    end: int
    sides: tuple[Side, ...]
    change: Difference | None


def backtest(store: AlertsStore, question: Question) -> Backtest:
    """Answer. Raises CouldNotCheckError where nothing is stored of the period, ConfigurationError if it is too long."""
    begin, end = _span(store, question)
    with _without_collection():
        sides = tuple(_side(store, book, labels, begin, end) for book, labels in _wanted(question))
    change = difference(*(side.replay.firings for side in sides)) if len(sides) > 1 else None
    return Backtest(begin, end, sides, change)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Millions of tuples, none of which is part of a cycle: looking through them for one costs a fifth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _wanted(question: Question) -> list[tuple[RuleBook, Labels]]:
    if question.labels is Labels.BOTH:
        return [(question.book, Labels.LEGACY), (question.book, Labels.NEW)]
    books = [question.book] if question.against is None else [question.against, question.book]
    return [(book, question.labels) for book in books]


def _span(store: AlertsStore, question: Question) -> tuple[int, int]:
    """First and last minute, no further back than what is stored."""
    first = store.first_event_at()
    if first is None:
        raise CouldNotCheckError("nothing is stored that rules could be run over; `offramp classify FILE` stores runs")
    begin = max(question.period.since, first) // MINUTE
    end = min(question.period.until, question.now) // MINUTE
    if end <= begin:
        raise CouldNotCheckError(f"nothing is stored of that period; the first run ended at {to_iso(first)}")
    if end - begin > LONGEST_DAYS * _DAY_MINUTES:
        raise ConfigurationError(
            f"alerts backtest: {(end - begin) // _DAY_MINUTES:,} days are too many to go through minute by minute; "
            f"give at most {LONGEST_DAYS} by --since and --until"
        )
    return begin, end


def _side(store: AlertsStore, book: RuleBook, labels: Labels, begin: int, end: int) -> Side:
    legacy = labels is Labels.LEGACY
    rules = [rule for rule in book.rules if not legacy or _is_legacy(rule)]
    earliest = begin - lookback_minutes(rules)
    rows = store.legacy_counts(earliest, end) if legacy else store.counts(earliest, end)
    minutes: dict[int, list[Count]] = defaultdict(list)
    for count in counts_of(rows):
        minutes[count.minute].append(count)
    found = replay(rules, History(begin, end, minutes, None if legacy else _stays(store, rules, begin, end)))
    unknown = tuple(rule for rule in book.rules if rule not in rules)
    within = [
        count for minute in range(begin, end) for count in minutes.get(minute, ()) if count.series is Series.EXITS
    ]
    agents = {(count.scope.tenant, count.scope.agent_id) for count in within}
    replayed = Replay(found.history, found.firings, (*found.unjudged, *unknown), found.items_every)
    return Side(book, labels, replayed, sum(count.n for count in within), len(agents))


def _is_legacy(rule: Rule) -> bool:
    """Whether legacy labels say all that a rule looks at."""
    of = [series for series in (rule.series, rule.over) if series is not None]
    return bool(of) and all(series in LEGACY_SERIES for series in of)


def _stays(store: AlertsStore, rules: Iterable[Rule], begin: int, end: int) -> list[Stay]:
    """What was open in the period."""
    if not any(rule.what for rule in rules):
        return []
    found = stays(OpenItemsReader(store.store), store.opened_runs(end * MINUTE))
    return [stay for stay in found if stay.until is None or stay.until > begin * MINUTE]


# --- for programs


def as_json(found: Backtest) -> dict[str, Any]:
    """The answer in plain JSON values, instants as ISO 8601."""
    change = found.change
    return {
        "since": to_iso(found.begin * MINUTE),
        "until": to_iso(found.end * MINUTE),
        "sides": [_side_json(side) for side in found.sides],
        "change": None
        if change is None
        else {
            "appear": [_firing_json(each, found.sides[1]) for each in change.appear],
            "vanish": [_firing_json(each, found.sides[0]) for each in change.vanish],
            "kept": len(change.kept),
            "moved": [
                {"before": _firing_json(before, found.sides[0]), "after": _firing_json(after, found.sides[1])}
                for before, after in change.moved
            ],
        },
    }


def _side_json(side: Side) -> dict[str, Any]:
    rules = side.book.rules
    return {
        "rules": {"id": side.book.id, "version": side.book.version, "digest": side.book.digest},
        "labels": side.labels,
        "runs": side.runs,
        "agents": side.scopes,
        "open_items_judged_every_minutes": side.replay.items_every,
        "unjudged": [rule.id for rule in side.replay.unjudged],
        "by_rule": [
            {"rule": rule.id, "severity": rule.severity, "owner": rule.owner, **side.replay.of(rule.id)._asdict()}
            for rule in rules
            if rule not in side.replay.unjudged
        ],
        "firings": [_firing_json(each, side) for each in side.replay.firings],
    }


def _firing_json(each: Firing, side: Side) -> dict[str, Any]:
    return {
        "rule": each.rule,
        "scope": each.scope._asdict(),
        "since": to_iso(each.since),
        "fired_at": to_iso(each.fired_at),
        "resolved_at": None if each.resolved_at is None else to_iso(each.resolved_at),
        "minutes": side.replay.lasted(each),
        "peak": each.peak,
        "threshold": each.limit,
    }


# --- for people


def show(found: Backtest, most: int) -> None:
    """Print the answer; of each list of firings at most ``most``."""
    page = Page()
    first = found.sides[0]
    length = console.counted((found.end - found.begin) // _DAY_MINUTES, "day")
    page.line(f"Rules over {length}, from {to_minute(found.begin * MINUTE)} to {to_minute(found.end * MINUTE)} UTC", 0)
    for side in found.sides:
        _show_head(page, side)
    if found.change is None:
        _show_side(page, first, most)
    else:
        _show_change(page, found.sides, found.change, most)
    page.line("Every run counts in the minute in which it ended, as if it had been told then.")


def _show_head(page: Page, side: Side) -> None:
    fired = console.counted(len(side.replay.firings), "time")
    what = f"{console.counted(side.runs, 'run')} of {console.counted(side.scopes, 'agent')}"
    page.line(f"{side.name}: fired {fired} over {what}")
    if side.replay.unjudged:
        named = ", ".join(rule.id for rule in side.replay.unjudged)
        page.line(f"not judged, since nothing is stored of what they look at: {named}", 2)
    if side.labels is not Labels.LEGACY and any(rule.what for rule in side.book.rules):
        page.line(f"open items were looked at every {side.replay.items_every:,} minutes", 2)


def _show_side(page: Page, side: Side, most: int) -> None:
    columns = [("rule", "code"), ("fired", "right"), ("a week", "right"), ("minutes", "right"), ("longest", "right"),
               ("flaps", "right"), ("still", "right")]  # fmt: skip
    judged = {rule.id: side.replay.of(rule.id) for rule in side.book.rules if rule not in side.replay.unjudged}
    rows = [
        (name, tally.fired, f"{tally.weekly:.2f}", tally.minutes, tally.longest, tally.flaps, tally.open)
        for name, tally in judged.items() if tally.fired
    ]  # fmt: skip
    _table("By rule; a flap began within an hour of the end of the one before", columns, rows)
    _say_silent(page, [name for name, tally in judged.items() if not tally.fired])
    _show_firings(page, "Firings, the last ones first", side, side.replay.firings, most)


def _say_silent(page: Page, names: Sequence[str]) -> None:
    if names:
        page.line(f"never fired: {', '.join(names)}")


def _show_firings(page: Page, title: str, side: Side, firings: Sequence[Firing], most: int) -> None:
    if not firings:
        return
    columns = [("rule", "code"), ("scope", "left"), ("from", "code"), ("minutes", "right"), ("peak", "right"),
               ("threshold", "right")]  # fmt: skip
    rows = [
        (each.rule, _short(each.scope), to_minute(each.fired_at), side.replay.lasted(each), f"{each.peak:.4g}",
         f"{each.limit:.4g}")
        for each in reversed(firings[-most:] if most else [])
    ]  # fmt: skip
    _table(f"{title}: {len(firings):,}", columns, rows)
    if len(firings) > most:
        page.line(f"and {len(firings) - most:,} more; --limit shows more, --format json all")


def _show_change(page: Page, sides: Sequence[Side], change: Difference, most: int) -> None:
    before, after = sides
    columns = [("rule", "code"), ("before", "right"), ("flaps", "right"), ("after", "right"), ("flaps", "right"),
               ("kept", "right"), ("moved", "right"), ("appear", "right"), ("vanish", "right")]  # fmt: skip
    names = dict.fromkeys(rule.id for side in sides for rule in side.book.rules if rule not in side.replay.unjudged)
    silent = [name for name in names if not any(side.replay.of(name).fired for side in sides)]
    rows = [_change_row(name, before, after, change) for name in names if name not in silent]
    _table(f"By rule: before is {before.name}, after is {after.name}", columns, rows)
    _say_silent(page, silent)
    _show_firings(page, "Appear", after, change.appear, most)
    _show_firings(page, "Vanish", before, change.vanish, most)
    _show_moved(page, change.moved, most)


def _change_row(name: str, before: Side, after: Side, change: Difference) -> tuple[str | int, ...]:
    return (
        name, *_side_cells(name, before), *_side_cells(name, after),
        sum(each.rule == name for each, _ in change.kept), sum(each.rule == name for each, _ in change.moved),
        sum(each.rule == name for each in change.appear), sum(each.rule == name for each in change.vanish),
    )  # fmt: skip


def _side_cells(name: str, side: Side) -> tuple[str | int, ...]:
    """How often, and how many flaps; dashes where the side has no such rule, or cannot say."""
    if name not in {rule.id for rule in side.book.rules if rule not in side.replay.unjudged}:
        return ("-", "-")
    tally = side.replay.of(name)
    return (tally.fired, tally.flaps)


def _show_moved(page: Page, moved: Sequence[tuple[Firing, Firing]], most: int) -> None:
    if not moved:
        return
    columns = [("rule", "code"), ("scope", "left"), ("before", "code"), ("after", "code"), ("minutes", "right")]
    rows = [
        (each.rule, _short(each.scope), to_minute(each.fired_at), to_minute(other.fired_at),
         f"{(other.fired_at - each.fired_at) / MINUTE:+,.0f}")
        for each, other in reversed(moved[-most:] if most else [])
    ]  # fmt: skip
    _table(f"Fire at another time: {len(moved):,}", columns, rows)
    if len(moved) > most:
        page.line(f"and {len(moved) - most:,} more; --limit shows more, --format json all")


def _table(title: str, columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[object]]) -> None:
    """A table with an empty line before it."""
    sys.stdout.write("\n")
    console.table(title, columns, rows)


def _short(scope: Scope) -> str:
    """A scope for a narrow column: its values without their names."""
    return " ".join(filter(None, scope)) or "all"
