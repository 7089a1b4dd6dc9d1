"""Unit tests of rules: synthetic series in a TOML file, stepped through the live evaluator minute by minute.

A test starts at minute 0 with nothing known. After each minute the evaluator is told what was counted in it; moments
are the ends of minutes. What each key means stands in docs/reference/alert-rules.md.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from alerts.evaluator import Evaluator, State
from alerts.judging import MINUTE
from alerts.model import Alert, Count, Gauge, OpenItem, Pulse, Rule, Scope, Series
from alerts.rules import ScopeTable
from alerts.toml_file import FileError, Part, parse, place

_START = 28_000_000
"""The minute since the epoch that tests call 0: in 2023, far from any edge."""
_LONGEST = 60 * 1440
_TERM = re.compile(r"([0-9]{1,9})(?:\*([0-9]{1,6}))?")
_Minute = Annotated[int, Field(ge=0, lt=_LONGEST)]


def _values(text: object) -> object:
    """``"5*60 0 7"`` as sixty times 5, once 0, once 7."""
    if not isinstance(text, str):
        return text
    terms = [_TERM.fullmatch(term) for term in text.split()]
    if not terms or not all(terms):
        raise ValueError('must be counts, minute by minute, such as "10*60 0 7"')
    runs = [(int(term[1]), int(term[2] or 1)) for term in terms if term]
    if sum(minutes for _, minutes in runs) > _LONGEST:
        raise ValueError(f"must be of at most {_LONGEST:,} minutes")
    return tuple(n for n, minutes in runs for _ in range(minutes))


class _Series(Part):
    series: Annotated[Series, Field(strict=False)]
    values: Annotated[tuple[int, ...], BeforeValidator(_values)]
    scope: ScopeTable = ScopeTable()
    start: _Minute = 0
    told_at: _Minute | None = None


class _Items(Part):
    what: Literal["partial", "review"]
    opened: _Minute
    scope: ScopeTable = ScopeTable()
    count: int = Field(1, ge=1, le=100_000)
    closed: _Minute | None = None
    deadline: _Minute | None = None


class _Readings(Part):
    start: _Minute
    newest_event_age: _Minute = 0
    lag: int = Field(0, ge=0)
    store_refusing: bool = False
    clock_skew: int = 0
    unaccounted: int = Field(0, ge=0)
    unknown: list[Annotated[Gauge, Field(strict=False)]] = Field([])


class _Stretch(Part):
    start: _Minute
    end: _Minute


class _Expected(ScopeTable):
    rule: str

    @property
    def key(self) -> tuple[str, Scope]:
        return self.rule, self.scope


class _Expect(Part):
    at: _Minute
    firing: list[_Expected] | None = None
    pending: list[_Expected] | None = None
    resolved: list[_Expected] | None = None


class _Test(Part):
    name: str = Field(min_length=1, max_length=256)
    rules: list[str] = Field([])
    series: list[_Series] = Field([])
    items: list[_Items] = Field([])
    pulse: list[_Readings] = Field([])
    unreadable: list[_Stretch] = Field([])
    restart_at: list[_Minute] = Field([])
    expect: list[_Expect] = Field(min_length=1)


class _File(Part):
    rules: str | None = None
    tests: list[_Test] = Field(min_length=1)


@dataclass(frozen=True)
class Rehearsal:
    """A file of tests. ``rules`` is the rule file that it names, as written; None for the rules that are shipped."""

    rules: str | None
    tests: Sequence[_Test]

    def run(self, rules: Sequence[Rule]) -> Iterator["Outcome"]:
        """Run every test against the rules. Raises FileError if a test speaks of a rule that there is not."""
        problems = [*self._strangers({rule.id for rule in rules})]
        if problems:
            raise FileError(problems)
        for test in self.tests:
            wanted = [rule for rule in rules if not test.rules or rule.id in test.rules]
            yield Outcome(test.name, tuple(_failures(test, wanted)))

    def _strangers(self, known: set[str]) -> Iterator[str]:
        for number, test in enumerate(self.tests, 1):
            spoken = {*test.rules, *(each.rule for expect in test.expect for each in _named(expect))}
            for name in sorted(spoken - known):
                yield f"{place('test', number, test.name)}: {name}: there is no rule of this id"


@dataclass(frozen=True)
class Outcome:
    """How a test went: each failure is a sentence, none if it passed."""

    name: str
    failures: tuple[str, ...]


def load(text: str) -> Rehearsal:
    """Read a file of tests. Raises FileError with every problem found."""
    file = parse(text, _File)
    return Rehearsal(file.rules, file.tests)


def _named(expect: _Expect) -> list[_Expected]:
    return [*(expect.firing or ()), *(expect.pending or ()), *(expect.resolved or ())]


def _failures(test: _Test, rules: Sequence[Rule]) -> Iterator[str]:
    wanted: dict[int, list[_Expect]] = defaultdict(list)
    for expect in test.expect:
        wanted[expect.at].append(expect)
    for minute, alerts in _steps(test, Evaluator(rules), max(wanted)):
        for expect in wanted.get(minute, ()):
            yield from _differences(expect, alerts)


def _differences(expect: _Expect, alerts: Sequence[Alert]) -> Iterator[str]:
    for state, listed in (("pending", expect.pending), ("firing", expect.firing), ("resolved", expect.resolved)):
        if listed is not None:
            found, meant = {(a.rule, a.scope): a for a in alerts if a.state == state}, {each.key for each in listed}
            for key in sorted(meant - found.keys()):
                yield f"minute {expect.at}: {_words(key)} is not {state}{_instead(key, alerts)}"
            for key in sorted(found.keys() - meant):
                yield f"minute {expect.at}: {_words(key)} is {state}, at {found[key].value:.4g}; it should not be"


def _instead(key: tuple[str, Scope], alerts: Iterable[Alert]) -> str:
    states = [alert.state for alert in alerts if (alert.rule, alert.scope) == key]
    return f", but {states[0]}" if states else ""


def _words(key: tuple[str, Scope]) -> str:
    scope = ", ".join(f"{name} {value}" for name, value in zip(Scope._fields, key[1], strict=True) if value)
    return f"{key[0]} of {scope}" if scope else key[0]


def _steps(test: _Test, evaluator: Evaluator, last: int) -> Iterator[tuple[int, Sequence[Alert]]]:
    """The alerts at the end of every minute up to the last."""
    told = _told(test)
    state, waiting = evaluator.begin((_START - 1) * MINUTE), set[int]()
    for minute in range(last + 1):
        waiting |= told.changed.get(minute, set())
        now = (_START + minute + 1) * MINUTE - 1
        readable = not any(each.start <= minute < each.end for each in test.unreadable)
        counts = [count for at in sorted(waiting) for count in told.counts(at, minute)] if readable else None
        items = _open(test.items, minute, now) if readable else None
        state, alerts, _ = evaluator.step(state, counts, items, _pulse(test.pulse, minute, now), now)
        if readable:
            waiting = set()
        if minute in test.restart_at:
            state = _restarted(evaluator, state, told, minute, waiting)
        yield minute, alerts


def _restarted(evaluator: Evaluator, state: State, told: "_Told", minute: int, waiting: set[int]) -> State:
    """The state as somebody else goes on with it, who has only what was written down, and the store."""
    anew = evaluator.from_json(state.to_json())
    known = (at for at in told.minutes if at not in waiting)
    evaluator.load(anew, [count for at in known for count in told.counts(at, minute)])
    return anew


@dataclass(frozen=True)
class _Told:
    """What is counted in each minute, and when that is told."""

    minutes: dict[int, list[tuple[int, Count]]]
    changed: dict[int, set[int]]

    def counts(self, minute: int, by: int) -> list[Count]:
        """What is known of a minute by another one."""
        return [count for told_at, count in self.minutes[minute] if told_at <= by]


def _told(test: _Test) -> _Told:
    told = _Told(defaultdict(list), defaultdict(set))
    for each in test.series:
        for minute, n in enumerate(each.values, each.start):
            told_at = minute if each.told_at is None else max(minute, each.told_at)
            told.minutes[minute].append((told_at, Count(_START + minute, each.scope.scope, each.series, n)))
            told.changed[told_at].add(minute)
    return told


def _open(items: Iterable[_Items], minute: int, now: int) -> list[OpenItem]:
    return [
        OpenItem(
            what=each.what,
            scope=each.scope.scope,
            event_id=f"{number}",
            run_id=f"{number}",
            opened_at=(_START + each.opened) * MINUTE,
            deadline=None if each.deadline is None else (_START + each.deadline) * MINUTE,
            paused_us=0,
            paused_since=None,
            overdue=each.deadline is not None and (_START + each.deadline) * MINUTE <= now,
            reason_code="",
            components=(),
        )
        for each in items
        if each.opened <= minute and (each.closed is None or minute < each.closed)
        for number in range(each.count)
    ]


def _pulse(readings: Iterable[_Readings], minute: int, now: int) -> Pulse:
    """The readings that were given last; before any, the pipeline is well."""
    last = max((each for each in readings if each.start <= minute), key=lambda each: each.start, default=None)
    if last is None:
        return Pulse(newest_event_at=now, lag=0, store_refusing=False, clock_skew_us=0, unaccounted=0)
    unknown = set(last.unknown)
    return Pulse(
        newest_event_at=None if Gauge.NEWEST_EVENT_AGE in unknown else now - last.newest_event_age * MINUTE,
        lag=None if Gauge.LAG in unknown else last.lag,
        store_refusing=None if Gauge.STORE_REFUSING in unknown else last.store_refusing,
        clock_skew_us=None if Gauge.CLOCK_SKEW in unknown else last.clock_skew * 1_000_000,
        unaccounted=None if Gauge.UNACCOUNTED in unknown else last.unaccounted,
    )
