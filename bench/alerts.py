"""Whether the shipped alert rules can be trusted: ``python -m bench.alerts``.

Ninety days of three agents and one review queue are simulated, with incidents whose beginning and cause are known. The
shipped rules are stepped through them by the live evaluator, minute by minute; beside them stands what a team would
write without it, a share over five minutes with a fixed threshold, and the age of the oldest item. Counted are the time
to the first page of each incident, the pages outside incidents, and how often the largest cause is the true one.

A rule that pages forty times a week pages in some incidents by chance. So the fixed threshold is also asked what it
would have done in the same world without incidents: same runs, same luck. *Net* is when it first fires and would not
have then. Ends with 1 if the shipped rules are slower on any kind of incident by the median, page more than a tenth as
often without one, or name the true cause in fewer than nine of ten; single incidents are shown.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import exp, inf, log, pi, sin
from random import Random
from statistics import median
from typing import NamedTuple

from alerts.causes import Exits, Factor, Label, rise
from alerts.evaluator import Evaluator
from alerts.flow import Arrivals, Flow, Reason, Windows, queue
from alerts.model import Alert, Condition, Count, OpenItem, Pulse, Rule, Scope, Series, Severity
from alerts.rules import default_text, load
from alerts.survival import Wait, ageing

MINUTE, DAY = 60_000_000, 1440
START = 29_000_000 - 29_000_000 % DAY
"""The first minute, a midnight; minutes are since the epoch."""
WARM_UP, EVERY = 8, 2
"""Days before the first incident, and between two."""
SHARES = (0.4, 0.8)
"""Least and greatest share of the runs to which an incident gives another exit."""
REVIEWERS = 1.6
"""Decisions a minute by day, and a third of it by night: half as much again as usually comes."""
WAITS = (5, 1, 0)
"""Minutes for which a fixed threshold has to be passed; the first is what the shipped rules are held against."""
WORST_SHARE, LEAST_NAMED = 0.1, 0.9
"""Most false pages, of those of the fixed threshold, and fewest causes named right."""


class Agent(NamedTuple):
    """An agent: runs a minute at noon and at night, and its workflows with their part of the runs."""

    tenant: str
    name: str
    noon: float
    night: float
    workflows: tuple[tuple[str, float], ...]


INVOICES = Agent("acme", "invoices", 12.0, 2.0, (("pay_invoice", 0.77), ("remind", 0.2), ("pay_out", 0.03)))
SUPPORT = Agent("acme", "support", 4.0, 0.5, (("answer", 0.8), ("refund", 0.2)))
QUIET = Agent("globex", "quiet", 5 / 60, 5 / 60, (("report", 1.0),))
AGENTS = (INVOICES, SUPPORT, QUIET)
JUDGEMENT = "judgement"
USUAL = {Series.REFUSAL: 0.05, Series.FALLBACK: 0.04, Series.PARTIAL: 0.04, Series.HUMAN_QUEUE: 0.06}
DENIED_WORKFLOW = "pay_out"
"""Half of its runs are denied, as they should be."""

FLOOD, STUCK, STAFFING = "flood of a denied workflow", "enrichment stuck", "staffing drop"


class Kind(NamedTuple):
    """A kind of incident: what it touches, how long it lasts, which rules should page, and the cause they should name.

    ``threshold`` is the rule that a team would write for it.
    """

    name: str
    agent: Agent
    hours: int
    rules: frozenset[str]
    threshold: str
    cause: tuple[str, str]


_REFUSALS = frozenset({"refusal_rate"})
_PARTIALS = frozenset({"partial_age_p80", "partial_age_p95"})
_QUEUE = frozenset({"queue_age_p80", "queue_age_p95", "queue_past_deadline"})
KINDS = (
    Kind("policy roll-out gone wrong", INVOICES, 3, _REFUSALS, "refusal", (Factor.POLICY_VERSION, "refund@8")),
    Kind("policy edited in place", SUPPORT, 3, _REFUSALS, "refusal", (Factor.POLICY, "refund")),
    Kind(FLOOD, INVOICES, 3, _REFUSALS, "refusal", (Factor.WORKFLOW, DENIED_WORKFLOW)),
    Kind("decision table changed", SUPPORT, 3, _REFUSALS, "refusal", (Factor.TABLE, "default 2")),
    Kind("dependency outage", INVOICES, 2, frozenset({"fallback_rate"}), "fallback", (Factor.PATH, "tax: timeout")),
    Kind(STUCK, SUPPORT, 12, _PARTIALS, "partial", ("component", "address")),
    Kind(STAFFING, INVOICES, 12, _QUEUE, "review", (Reason.CAPACITY, "")),
    Kind("over-broad rule", INVOICES, 6, frozenset({"escalation_rate_high"}), "human_queue",
         (Factor.REASON, "low_confidence")),
    Kind("roll-out at 5 runs an hour", QUIET, 24, _REFUSALS, "refusal", (Factor.POLICY_VERSION, "refund@8")),
)  # fmt: skip


class Incident(NamedTuple):
    """One incident, in minutes. ``share`` is that of the runs that it gives another exit, where it gives one."""

    kind: Kind
    begin: int
    end: int
    share: float

    @property
    def scope(self) -> Scope:
        """Whom its pages are about."""
        if self.kind.name == STAFFING:
            return Scope("acme", queue=JUDGEMENT)
        return Scope(self.kind.agent.tenant, self.kind.agent.name)


Going = Mapping[str, Incident]
"""The incidents that go on, by the names of their kinds."""


class Run(NamedTuple):
    """A run that ended."""

    agent: Agent
    workflow: str
    version: str
    table: str
    kind: Series | None
    label: Label | None
    otherwise: Series | None = None
    """The kind of its exit had there been no incident."""
    is_extra: bool = False
    """Whether it came with an incident."""


def calendar(days: int, rng: Random) -> list[Incident]:
    """Incidents, each kind in turn, at any time of the day, and from middling to bad."""
    found = []
    for number, day in enumerate(range(WARM_UP, days - 1, EVERY)):
        kind = KINDS[number % len(KINDS)]
        begin = START + day * DAY + rng.randrange(DAY)
        found.append(Incident(kind, begin, begin + kind.hours * 60, rng.uniform(*SHARES)))
    return found


# --- the world


@dataclass
class World:
    """What happens, minute by minute. All of it is drawn from one seed.

    What is drawn of runs by ``rng`` is the same with incidents and without; what becomes of them is drawn aside.
    ``slow`` are the items that take many hours, incident or not.
    """

    rng: Random
    incidents: Sequence[Incident]
    slow: set[str] = field(default_factory=set)
    runs: dict[int, list[Run]] = field(default_factory=dict)
    waits: list[Wait] = field(default_factory=list)
    partials: dict[str, OpenItem] = field(default_factory=dict)
    reviews: dict[str, OpenItem] = field(default_factory=dict)
    arrivals: dict[int, list[Run]] = field(default_factory=dict)
    decisions: dict[int, int] = field(default_factory=dict)
    _drift: dict[tuple[Agent, Series], float] = field(default_factory=dict)
    _coming: list[tuple[int, str]] = field(default_factory=list)
    _held: list[tuple[int, str]] = field(default_factory=list)
    _number: int = 0

    def __post_init__(self) -> None:
        self._aside = Random(self.rng.random())

    def go_on(self, minute: int) -> list[Count]:
        """Let one minute happen, and count it."""
        going = {each.kind.name: each for each in self.incidents if each.begin <= minute < each.end}
        if minute % 60 == 0:
            self._wander()
        ended = [run for agent in AGENTS for run in self._ended(agent, minute, going)]
        self.runs[minute] = ended
        self.arrivals[minute] = [run for run in ended if run.kind is Series.HUMAN_QUEUE and run.agent is not QUIET]
        self._enrich(minute, going)
        self._review(minute, going)
        for run in ended:
            self._open(run, minute)
        for kept in (self.runs, self.arrivals, self.decisions):
            kept.pop(minute - 9 * DAY, None)
        return counted(minute, ended)

    def _wander(self) -> None:
        """Shares are never the same from hour to hour."""
        for agent in AGENTS:
            for series in USUAL:
                before = self._drift.get((agent, series), 0.0)
                self._drift[agent, series] = 0.95 * before + self.rng.gauss(0.0, 0.08)

    def _ended(self, agent: Agent, minute: int, going: Going) -> Iterator[Run]:
        day = (1 + sin(2 * pi * (minute % DAY) / DAY - pi / 2)) / 2
        expected = agent.night + (agent.noon - agent.night) * day
        for workflow, part in agent.workflows:
            for _ in range(poisson(self.rng, expected * part)):
                yield self._run(agent, workflow, going, self.rng)
            if workflow == DENIED_WORKFLOW and FLOOD in going:
                for _ in range(poisson(self._aside, expected * 1.5)):
                    yield self._run(agent, workflow, going, self._aside)._replace(is_extra=True)

    def _run(self, agent: Agent, workflow: str, going: Going, rng: Random) -> Run:
        shares = {series: shifted(share, self._drift[agent, series]) for series, share in USUAL.items()}
        shares[Series.REFUSAL] = 0.5 if workflow == DENIED_WORKFLOW else shares[Series.REFUSAL]
        labels = {
            Series.REFUSAL: Label(Factor.POLICY, "refund"),
            Series.FALLBACK: Label(Factor.PATH, rng.choice(["tax: timeout", "erp: error", "model a: error"])),
            Series.PARTIAL: Label(Factor.COMPONENT, rng.choice(["address", "supplier", "weather"])),
            Series.HUMAN_QUEUE: Label(Factor.REASON, rng.choice(["low_confidence", "no_progress", "authority"])),
        }
        version, table, drawn = "7", "default 1", rng.random()
        otherwise = _kind(shares, drawn)
        for incident in going.values():
            if incident.kind.agent is agent:
                version, table = _befall(incident, shares, labels, version, table)
        kind = _kind(shares, drawn)
        return Run(agent, workflow, version, table, kind, labels[kind] if kind else None, otherwise)

    def _open(self, run: Run, minute: int) -> None:
        if run.kind is Series.PARTIAL:
            self._open_partial(run, minute)
        elif run.kind is Series.HUMAN_QUEUE and run.agent is not QUIET:
            self._number += 1
            scope = Scope(run.agent.tenant, run.agent.name, run.workflow, JUDGEMENT)
            self.reviews[f"e{self._number}"] = _item("review", scope, f"e{self._number}", minute, run)
            if self._aside.random() < 0.002:  # a hard one: somebody takes hours over it
                heappush(self._held, (minute + round(self._aside.uniform(300, 600)), f"e{self._number}"))
                self.slow.add(f"e{self._number}")

    def _open_partial(self, run: Run, minute: int) -> None:
        """It comes after twenty minutes or so, and one in a thousand after many hours; or not before it works again."""
        self._number += 1
        key = f"e{self._number}"
        self.partials[key] = _item("partial", Scope(run.agent.tenant, run.agent.name, run.workflow), key, minute, run)
        late = self._aside.random() < 0.001
        lasts = self._aside.uniform(300, 600) if late else self._aside.lognormvariate(log(20), 0.6)
        if late:
            self.slow.add(key)
        heappush(self._coming, (minute + 1 + round(lasts), key))

    def _enrich(self, minute: int, going: Going) -> None:
        kept = []
        while self._coming and self._coming[0][0] <= minute:
            _, key = heappop(self._coming)
            item = self.partials[key]
            if STUCK in going and item.components == ("address",) and item.scope.agent_id == SUPPORT.name:
                kept.append((minute + self._aside.randrange(10, 60), key))
                continue
            del self.partials[key]
            self.waits.append(Wait(item.components[0], item.opened_at, minute * MINUTE, sys.maxsize))
        for each in kept:
            heappush(self._coming, each)
        if minute % DAY == 0:
            self.waits = [wait for wait in self.waits if wait.opened_at > (minute - 9 * DAY) * MINUTE]

    def _review(self, minute: int, going: Going) -> None:
        """What came first is decided first, but for what somebody takes hours over."""
        day = (1 + sin(2 * pi * (minute % DAY) / DAY - pi / 2)) / 2
        people = 0.1 if STAFFING in going else 1.0
        able = poisson(self._aside, people * REVIEWERS * (1 + 2 * day) / 3)
        while self._held and self._held[0][0] <= minute:
            self.reviews.pop(heappop(self._held)[1], None)
        held = {key for _, key in self._held}
        decided = [key for key, _ in zip((k for k in self.reviews if k not in held), range(able), strict=False)]
        for key in decided:
            del self.reviews[key]
        self.decisions[minute] = len(decided)
        late = [key for key, item in self.reviews.items() if not item.overdue and _is_late(item, minute)]
        for key in late:
            self.reviews[key] = self.reviews[key]._replace(overdue=True)


def _kind(shares: Mapping[Series, float], drawn: float) -> Series | None:
    """The kind of an exit, by a number below one that was drawn."""
    for series, share in shares.items():
        if drawn < share:
            return series
        drawn -= share
    return None


def _is_late(item: OpenItem, minute: int) -> bool:
    return item.deadline is not None and item.deadline < minute * MINUTE


def _befall(
    incident: Incident, shares: dict[Series, float], labels: dict[Series, Label], version: str, table: str
) -> tuple[str, str]:
    """What an incident does to a run; the versions that it gets."""
    name, (factor, value) = incident.kind.name, incident.kind.cause
    series = next((each for each in USUAL if each.value == incident.kind.threshold), None)
    if series is None or name == FLOOD:
        return version, table
    shares[series] = incident.share
    if factor is Factor.POLICY_VERSION:
        return "8", table
    if factor is Factor.TABLE:
        labels[series] = Label(Factor.REASON, "invalid_request")
        return version, value
    labels[series] = Label(Factor(factor), value)
    return version, table


def _item(what: str, scope: Scope, key: str, minute: int, run: Run) -> OpenItem:
    assert run.label is not None  # noqa: S101 -- only cases are opened
    deadline = minute + DAY if what == "review" else None
    return OpenItem(
        what="review" if what == "review" else "partial",
        scope=scope,
        event_id=key,
        run_id=key,
        opened_at=minute * MINUTE,
        deadline=deadline * MINUTE if deadline else None,
        paused_us=0,
        paused_since=None,
        overdue=False,
        reason_code=run.label.value,
        components=(run.label.value,),
    )


def poisson(rng: Random, expected: float) -> int:
    """A Poisson number, by Knuth's method, which suits small ones."""
    limit, product, n = exp(-expected), rng.random(), 0
    while product > limit:
        product *= rng.random()
        n += 1
    return n


def shifted(share: float, by: float) -> float:
    """A share moved on the scale of log-odds."""
    odds = share / (1 - share) * exp(by)
    return odds / (1 + odds)


def counted(minute: int, ended: Sequence[Run]) -> list[Count]:
    """Runs as the evaluator is told of them."""
    counts: Counter[tuple[Scope, Series]] = Counter()
    for run in ended:
        scope = Scope(run.agent.tenant, run.agent.name, run.workflow)
        counts[scope, Series.EXITS] += 1
        counts[scope, run.kind or Series.COMPLETED] += 1
    return [Count(minute, scope, series, n) for (scope, series), n in counts.items()]


# --- the fixed thresholds


@dataclass
class Thresholds:
    """What a team would write: ``sum(rate(refusals[5m])) / sum(rate(exits[5m])) > 0.2`` by agent, for so many minutes,
    and the age of the oldest open item above four hours. ``otherwise`` looks at the world without incidents."""

    for_minutes: int
    otherwise: bool = False
    standing: dict[tuple[str, Scope], int] = field(default_factory=dict)
    firing: set[tuple[str, Scope]] = field(default_factory=set)

    def step(self, world: World, minute: int) -> list[tuple[str, Scope]]:
        """The pages of this minute."""
        true = {(rule, scope) for rule, scope in _true(world, minute, otherwise=self.otherwise)}
        self.standing = {key: self.standing.get(key, minute) for key in true}
        self.firing &= true
        fired = [key for key, since in self.standing.items() if minute - since >= self.for_minutes]
        new = [key for key in fired if key not in self.firing]
        self.firing.update(new)
        return new


def _true(world: World, minute: int, *, otherwise: bool) -> Iterator[tuple[str, Scope]]:
    last = [run for each in range(minute - 4, minute + 1) for run in world.runs.get(each, ())]
    if otherwise:
        last = [run._replace(kind=run.otherwise) for run in last if not run.is_extra]
    exits = Counter((run.agent.tenant, run.agent.name) for run in last)
    for series in (Series.REFUSAL, Series.FALLBACK, Series.HUMAN_QUEUE):
        cases = Counter((run.agent.tenant, run.agent.name) for run in last if run.kind is series)
        yield from ((series.value, Scope(*key)) for key, n in cases.items() if n > 0.2 * exits[key])
    old = (minute - 240) * MINUTE
    partials, reviews = (
        [each for key, each in items.items() if each.opened_at < old and (not otherwise or key in world.slow)]
        for items in (world.partials, world.reviews)
    )
    yield from {("partial", Scope(each.scope.tenant, each.scope.agent_id)) for each in partials}
    yield from {("review", Scope(each.scope.tenant, queue=each.scope.queue)) for each in reviews}


# --- causes, as they are found when the page goes out


def named(alert: Alert, rule: Rule, world: World, minute: int) -> tuple[str, str]:
    """Factor and value of the largest cause of an alert; empty where none is named."""
    if rule.what == "partial":
        return _component(world, minute, alert.scope)
    if rule.what == "review":
        return _queue_reason(world, minute)
    since = min(alert.since // MINUTE - rule.window_minutes, minute - 20)
    found = rise(_exits(world, Series(rule.series or ""), alert.scope, since, minute)).named
    return (found.factor, found.values[0][0] if found.values else "") if found else ("", "")


def _days(since: int, until: int) -> Iterator[tuple[bool, int]]:
    """The minutes of the window, and those of the same hours of the seven days before."""
    for back in range(8):
        yield from ((back == 0, minute - back * DAY) for minute in range(since + 1, until + 1))


def _exits(world: World, series: Series, scope: Scope, since: int, until: int) -> list[Exits]:
    found: Counter[Exits] = Counter()
    for is_current, minute in _days(since, until):
        for run in world.runs.get(minute, ()):
            if (run.agent.tenant, run.agent.name) == (scope.tenant, scope.agent_id):
                labels = (run.label,) if run.kind is series and run.label else ()
                versions = (("refund", run.version),)
                attributes = (run.agent.tenant, run.workflow, "1", run.table, "0.1.0", versions)
                found[Exits(is_current, *attributes, labels, "", 1)] += 1
    return [exits._replace(n=n) for exits, n in found.items()]


def _component(world: World, minute: int, scope: Scope) -> tuple[str, str]:
    now = minute * MINUTE
    still = [Wait(item.components[0], item.opened_at, None, sys.maxsize) for item in world.partials.values()]
    oldest = min(item.opened_at for item in world.partials.values() if item.scope.agent_id == scope.agent_id)
    found = ageing(world.waits + still, max(now - DAY * MINUTE, oldest), now).named
    return ("component", found.component if found else "")


def _queue_reason(world: World, minute: int) -> tuple[str, str]:
    since = max(minute - DAY, min(item.opened_at // MINUTE for item in world.reviews.values()))
    days = [(is_current, each) for is_current, each in _days(since, minute) if each in world.runs]
    arrivals: Counter[tuple[bool, str, str]] = Counter()
    totals: Counter[tuple[bool, str]] = Counter()
    for is_current, each in days:
        for run in world.arrivals[each]:
            arrivals[is_current, run.label.value if run.label else "", run.workflow] += 1
        totals[is_current, "arrivals"] += len(world.arrivals[each])
        totals[is_current, "decisions"] += world.decisions[each]
        totals[is_current, "runs"] += sum(run.agent.tenant == "acme" for run in world.runs[each])
        totals[is_current, "minutes"] += MINUTE
    before, now = (Flow(*(totals[which, name] for name in ("arrivals", "decisions", "runs", "minutes")))
                   for which in (False, True))  # fmt: skip
    came = [Arrivals(*key, n) for key, n in arrivals.items()]
    items = list(world.reviews.values())
    return (queue(Windows(before, now, came), items, minute * MINUTE, 4 * 60 * MINUTE).named or "", "")


# --- what is counted


class Page(NamedTuple):
    """One page: by which rule, about whom, when, and the cause that it named."""

    rule: str
    scope: Scope
    minute: int
    cause: tuple[str, str]


@dataclass
class Found:
    """All that came of a simulation: the incidents, the pages of both, and how long it was."""

    incidents: Sequence[Incident]
    days: int
    shipped: list[Page] = field(default_factory=list)
    fixed: dict[int, list[Page]] = field(default_factory=dict)
    net: list[Page] = field(default_factory=list)
    """Whenever the first of the fixed thresholds begins to fire though it would not without incidents."""

    def net_delays(self, kind: Kind) -> list[tuple[float, float]]:
        """Of each incident of a kind, minutes to the first page of the shipped rules, and of the threshold net."""
        return [
            (_delay(each, self.shipped, kind.rules), _delay(each, self.net, {kind.threshold}))
            for each in self.incidents
            if each.kind is kind
        ]

    def delays(self, kind: Kind) -> list[tuple[float, dict[int, float]]]:
        """Of each incident of a kind, minutes to the first page: of the shipped rules, and of those that wait."""
        return [
            (
                _delay(each, self.shipped, kind.rules),
                {wait: _delay(each, pages, {kind.threshold}) for wait, pages in self.fixed.items()},
            )
            for each in self.incidents
            if each.kind is kind
        ]

    def named(self, kind: Kind) -> list[bool]:
        """Of each page about an incident of a kind, whether it named the true cause."""
        return [
            page.cause == _truth(each.kind, page.rule)
            for each in self.incidents
            for page in self.shipped
            if each.kind is kind and _is_about(page, each)
        ]

    def false(self, pages: Sequence[Page]) -> list[Page]:
        """Pages outside incidents, and outside the day after them in which what they left is cleared away."""
        return [
            page for page in pages if not any(each.begin <= page.minute < each.end + DAY for each in self.incidents)
        ]

    def per_week(self, pages: Sequence[Page]) -> float:
        """False pages a week, of the time that is outside incidents."""
        free = self.days * DAY - sum(each.end + DAY - each.begin for each in self.incidents)
        return 7 * DAY * len(self.false(pages)) / free


def _is_about(page: Page, incident: Incident) -> bool:
    """Whether the page is one of those that the incident should bring; a rule that escalates too much fills a queue."""
    kind, overflow = incident.kind, Scope("acme", queue=JUDGEMENT)
    expected = page.scope == incident.scope and page.rule in kind.rules
    fills = kind.threshold == Series.HUMAN_QUEUE and page.scope == overflow and page.rule in _QUEUE
    return incident.begin <= page.minute < incident.end and (expected or fills)


def _truth(kind: Kind, rule: str) -> tuple[str, str]:
    return (Reason.ESCALATION, "") if rule in _QUEUE and kind.threshold == Series.HUMAN_QUEUE else kind.cause


def _delay(incident: Incident, pages: Sequence[Page], rules: Collection[str]) -> float:
    times = [
        page.minute
        for page in pages
        if page.rule in rules and page.scope == incident.scope and incident.begin <= page.minute < incident.end
    ]
    return min(times, default=inf) + 1 - incident.begin


def simulate(days: int, seed: int, fixed: Sequence[int] = WAITS) -> Found:
    """Let all of it happen, judged by the shipped rules and by fixed thresholds that wait so many minutes."""
    rng = Random(seed)
    incidents = calendar(days, rng)
    world, found = World(rng, incidents), Found(incidents, days)
    rules = {rule.id: rule for rule in load(default_text()).rules}
    evaluator = Evaluator(rules.values())
    state = evaluator.begin(START * MINUTE - 1)
    thresholds = {minutes: Thresholds(minutes) for minutes in fixed}
    luck, net = Thresholds(fixed[0], otherwise=True), set[tuple[str, Scope]]()
    firing: set[tuple[str, Scope, int]] = set()
    for minute in range(START, START + days * DAY):
        counts, now = world.go_on(minute), (minute + 1) * MINUTE - 1
        items = [*world.partials.values(), *world.reviews.values()]
        state, alerts, _ = evaluator.step(
            state, counts, items, Pulse(now, 0, store_refusing=False, clock_skew_us=0), now
        )
        paged = {(a.rule, a.scope, a.since): a for a in alerts if a.state == "firing" and a.severity == Severity.PAGE}
        for key in paged.keys() - firing:
            cause = _cause(paged[key], rules[key[0]], world, minute)
            found.shipped.append(Page(key[0], key[1], minute, cause))
        firing = set(paged)
        for minutes, each in thresholds.items():
            pages = found.fixed.setdefault(minutes, [])
            pages += [Page(rule, scope, minute, ("", "")) for rule, scope in each.step(world, minute)]
        luck.step(world, minute)
        before, net = net, thresholds[fixed[0]].firing - luck.firing
        found.net += [Page(rule, scope, minute, ("", "")) for rule, scope in net - before]
    return found


def pooled(all_found: Sequence[Found]) -> Found:
    """Simulations one after the other, as one: of a few incidents of a kind, a median is chance."""
    whole = Found([], sum(found.days for found in all_found))
    later = 0
    for found in all_found:
        whole.incidents = [*whole.incidents, *(_later(each, later) for each in found.incidents)]
        whole.shipped += [page._replace(minute=page.minute + later) for page in found.shipped]
        whole.net += [page._replace(minute=page.minute + later) for page in found.net]
        for wait, pages in found.fixed.items():
            whole.fixed.setdefault(wait, []).extend(page._replace(minute=page.minute + later) for page in pages)
        later += found.days * DAY
    return whole


def _later(incident: Incident, minutes: int) -> Incident:
    return incident._replace(begin=incident.begin + minutes, end=incident.end + minutes)


def _cause(alert: Alert, rule: Rule, world: World, minute: int) -> tuple[str, str]:
    of_shares = rule.condition is Condition.SURGE and rule.series in USUAL
    return named(alert, rule, world, minute) if of_shares or rule.what else ("", "")


# --- the report


def lines(found: Found) -> Iterator[str]:
    """The table of delays, by kind of incident."""
    for kind in KINDS:
        delays = found.delays(kind)
        if not delays:
            continue
        ours, theirs = [own for own, _ in delays], {wait: [other[wait] for _, other in delays] for wait in WAITS}
        later = sum(own > other[WAITS[0]] for own, other in delays)
        net = found.net_delays(kind)
        lucky = sum(raw[WAITS[0]] < other for (_, raw), (_, other) in zip(delays, net, strict=True))
        verdict = "pass" if is_as_fast(found, kind) else "FAIL"
        others = " ".join(f"{_minutes(median(theirs[wait])):>8}" for wait in WAITS)
        right = found.named(kind)
        yield (
            f"{verdict}  {kind.name:28} {len(delays):>3} {_minutes(median(ours)):>8} {_minutes(max(ours)):>8}"
            f" {others} {later:>7} {lucky:>6} {_minutes(median(other for _, other in net)):>6}"
            f" {sum(own > other for own, other in net):>7} {sum(right):>5}/{len(right)}"
        )


def _minutes(length: float) -> str:
    return "never" if length == inf else f"{length:g}"


def is_as_fast(found: Found, kind: Kind) -> bool:
    """Whether the shipped rules are at least as fast on a kind of incident, by the median of its incidents."""
    delays = found.delays(kind)
    return median(own for own, _ in delays) <= median(other[WAITS[0]] for _, other in delays)


def holds(found: Found) -> dict[str, bool]:
    """Whether what is claimed holds, by claim."""
    right = [named for kind in KINDS for named in found.named(kind)]
    return {
        "at least as fast on every kind of incident": all(
            is_as_fast(found, kind) for kind in KINDS if found.delays(kind)
        ),
        f"at most {WORST_SHARE:.0%} of the false pages": found.per_week(found.shipped)
        <= WORST_SHARE * found.per_week(found.fixed[WAITS[0]]),
        f"the cause right in at least {LEAST_NAMED:.0%}": sum(right) >= LEAST_NAMED * len(right) > 0,
    }


def main() -> None:
    """Simulate as the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m bench.alerts", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--days", type=int, default=90, help="days to simulate")
    parser.add_argument("--seed", type=int, nargs="+", default=[1, 2, 3], help="seeds, each of all that happens")
    options = parser.parse_args()
    found = pooled([simulate(options.days, seed) for seed in options.seed])
    print(
        f"{found.days} days, {len(found.incidents)} incidents; minutes to the first page, median of the incidents\n\n"
        f"{'':4}  {'':28} {'n':>3} {'shipped':>8} {'worst':>8} {'fixed 5':>8} {'fixed 1':>8} {'fixed 0':>8}"
        f" {'slower':>7} {'lucky':>6} {'net':>6} {'slower':>7} {'cause':>7}"
    )
    for line in lines(found):
        print(line)
    print("\nfalse pages a week, and of these about the agent of 5 runs an hour")
    for name, pages in (("shipped", found.shipped), *((f"fixed {wait}", found.fixed[wait]) for wait in WAITS)):
        often = Counter(page.rule for page in found.false(pages)).most_common(4)
        quiet = found.per_week([page for page in pages if page.scope.tenant == QUIET.tenant])
        print(f"  {name:10} {found.per_week(pages):8.1f} {quiet:8.1f}  {', '.join(f'{n} {rule}' for rule, n in often)}")
    claims = holds(found)
    print()
    for claim, held in claims.items():
        print(f"{'pass' if held else 'FAIL'}  {claim}")
    sys.exit(0 if all(claims.values()) else 1)


if __name__ == "__main__":
    main()
