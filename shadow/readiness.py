"""When a kind of exit may be enforced: per stage and reason code one answer, with the reasons for it.

Pure: what is judged are counts, as ``v_readiness`` has them. Every rate is held against its limit by the confidence
sequence of :mod:`shadow.statistics`, so that looking every day costs nothing. Source: exit-contracts.md, section 7.

A stage is ready when every reason code in it is, when what the stage needs besides counts is there, and when no earlier
stage with runs is held up. Because all of that must hold, a stage with any rate beyond its limit is called ready with
probability ``alpha`` at most, however many reason codes there are: the intersection-union test (R. L. Berger,
"Multiparameter hypothesis testing and acceptance sampling", Technometrics 24, 1982).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from shadow.statistics import Interval, bounds, further_trials, is_above, scaled, wilson
from shadow.wording import between, percent

STAGES = ("refusal", "fallback", "partial", "human_queue")
"""Kinds of exit in the order in which they are enforced, the most easily undone first."""
PRECONDITIONS: Mapping[str, tuple[str, ...]] = {
    "partial": ("partial_consumers_handle_completeness",),
    "human_queue": ("packet_exercised", "override_exercised"),
}
"""What a stage needs that no count shows; the user declares it."""


class Answer(StrEnum):
    """What is said of a stage, and of each of its reason codes."""

    READY = "ready"
    NOT_READY = "not ready"
    NEEDS_RUNS = "needs more runs"


class Reason(StrEnum):
    """Why something is not ready, or not yet."""

    PROHIBITED_EXITS = "prohibited_exits"
    SEVERAL_TABLES = "several_tables"
    EVENTS_MISSING = "events_missing"
    PRECONDITION_NOT_DECLARED = "precondition_not_declared"
    EARLIER_STAGE_NOT_READY = "earlier_stage_not_ready"
    REASON_CODES_NOT_READY = "reason_codes_not_ready"
    COVERAGE_BELOW_FLOOR = "coverage_below_floor"
    AGREEMENT_BELOW_FLOOR = "agreement_below_floor"
    AGREEMENT_NOT_ABOVE_FLOOR = "agreement_not_above_floor"
    CONTRADICTIONS_ABOVE_LIMIT = "contradictions_above_limit"
    CONTRADICTIONS_NOT_BELOW_LIMIT = "contradictions_not_below_limit"
    NO_RUNS = "no_runs"
    TOO_FEW_RUNS = "too_few_runs"
    AGREEMENT_UNSETTLED = "agreement_unsettled"
    CONTRADICTIONS_UNSETTLED = "contradictions_unsettled"
    REASON_CODES_NEED_RUNS = "reason_codes_need_runs"

    @property
    def waits(self) -> bool:
        """Whether more runs may settle it; everything else stands until somebody does something."""
        return self in _WAITING


_WAITING = frozenset((Reason.NO_RUNS, Reason.TOO_FEW_RUNS, Reason.AGREEMENT_UNSETTLED,
                      Reason.CONTRADICTIONS_UNSETTLED, Reason.REASON_CODES_NEED_RUNS))  # fmt: skip


@dataclass(frozen=True)
class Thresholds:
    """What is asked of the evidence. Shares are 0 to 1. Raises ValueError for what could never be met, or always is.

    ``alpha`` is the greatest probability of ever calling something ready whose rate is beyond its limit.
    """

    minimum_runs: int = 100
    agreement_floor: float = 0.9
    contradiction_limit: float = 0.05
    coverage_floor: float = 0.9
    alpha: float = 0.05

    def __post_init__(self) -> None:
        if self.minimum_runs < 1:
            raise ValueError(f"minimum_runs must be at least 1, not {self.minimum_runs}")
        for name in ("agreement_floor", "contradiction_limit", "alpha"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} must be between 0 and 1, both excluded, not {getattr(self, name)}")
        if not 0 <= self.coverage_floor <= 1:
            raise ValueError(f"coverage_floor must be between 0 and 1, not {self.coverage_floor}")


class Counts(NamedTuple):
    """Runs of one stage and reason code, and of these so many.

    ``waiting``: without a legacy exit that may still come. ``agree`` and ``disagree``: judged, that is paired with a
    legacy exit that has a kind; the rest of the pairs is ``unmapped``. ``supported`` and ``accepted``: disagreements
    that operators decided in favour of the new exit, and others that an accepted difference covers. ``supports`` and
    ``contradicts``: what operators' recovery says, disagreement or not; about the rest it is silent.
    """

    stage: str
    reason_code: str
    runs: int
    waiting: int = 0
    unmapped: int = 0
    agree: int = 0
    disagree: int = 0
    supported: int = 0
    accepted: int = 0
    supports: int = 0
    contradicts: int = 0
    prohibited_exits: int = 0
    gaps: int = 0

    @property
    def judged(self) -> int:
        """Pairs whose two exits could be compared."""
        return self.agree + self.disagree

    @property
    def unexplained(self) -> int:
        """Disagreements that neither operators nor an accepted difference speak for."""
        return self.disagree - self.supported - self.accepted

    @property
    def answered(self) -> int:
        """Runs about which operators' recovery says something."""
        return self.supports + self.contradicts

    @property
    def due(self) -> int:
        """Runs that should have a legacy exit by now."""
        return self.runs - self.waiting


class Noise(NamedTuple):
    """Legacy against itself: requests that were run twice, and those of them that it gave two kinds of exit.

    ``looked_at`` is the number of runs among which twins were sought.
    """

    looked_at: int
    requests: int
    differ: int

    @property
    def interval(self) -> Interval:
        """The share that differ, for one look."""
        return wilson(self.differ, self.requests)


class Tables(NamedTuple):
    """What decided the exits that are judged: a decision table under a version of the classifier."""

    table_digest: str
    classifier_version: str


@dataclass(frozen=True)
class Seen:
    """What concerns every stage: events, legacy exits whose event is overdue, prohibited exits of any kind, the tables
    that decided, and the noise of legacy."""

    events: int
    event_missing: int
    prohibited_exits: int
    tables: tuple[Tables, ...]
    noise: Noise


@dataclass(frozen=True)
class Finding:
    """One reason, as a sentence too. ``more`` is about how many more runs settle it, where runs can."""

    reason: Reason
    text: str
    more: int | None = None


@dataclass(frozen=True)
class CodeAnswer:
    """One reason code: its counts, and what stands against it."""

    counts: Counts
    findings: tuple[Finding, ...]
    thresholds: Thresholds

    @property
    def answer(self) -> Answer:
        """The answer."""
        return _answer(self.findings)

    @property
    def more_runs(self) -> int | None:
        """About how many more runs of this reason code it takes, where runs are all it takes."""
        return _more(self.findings)

    @property
    def unexplained(self) -> Interval:
        """Rate of unexplained disagreements among judged pairs, valid at every look."""
        return bounds(self.counts.unexplained, self.counts.judged, self.thresholds.alpha)

    @property
    def contradictions(self) -> Interval:
        """Rate of contradictions among answered runs, valid at every look."""
        return bounds(self.counts.contradicts, self.counts.answered, self.thresholds.alpha)


@dataclass(frozen=True)
class StageAnswer:
    """One stage: its reason codes, the most runs first, and what stands against all of it.

    ``left_out`` are reason codes that are not going to be enforced, and have no say.
    """

    stage: str
    codes: tuple[CodeAnswer, ...]
    left_out: tuple[Counts, ...] = ()
    findings: tuple[Finding, ...] = field(default=())

    @property
    def answer(self) -> Answer:
        """The answer."""
        return _answer(self.findings)

    @property
    def more_runs(self) -> int | None:
        """About how many more runs of this stage it takes, where runs are all it takes."""
        return _more(self.findings)

    @property
    def runs(self) -> int:
        """Runs that the answer is about."""
        return sum(code.counts.runs for code in self.codes)


def readiness(
    rows: Iterable[Counts],
    seen: Seen,
    declared: Collection[str],
    thresholds: Thresholds,
    left_out: Collection[str] = (),
) -> tuple[StageAnswer, ...]:
    """The answers for all stages, in the order of enforcement.

    ``declared`` names the preconditions that hold, ``left_out`` the reason codes that are not going to be enforced.
    """
    ordered = sorted(rows, key=lambda row: (-row.runs, row.reason_code))
    general = [*_general(seen, thresholds)]
    found: list[StageAnswer] = []
    for stage in STAGES:
        of_stage = [row for row in ordered if row.stage == stage]
        kept = tuple(judge(row, thresholds) for row in of_stage if row.reason_code not in left_out)
        gone = tuple(row for row in of_stage if row.reason_code in left_out)
        bare = StageAnswer(stage, kept, gone)
        findings = [*general, *_preconditions(stage, declared), *_order(found), *_of_codes(bare, thresholds)]
        found.append(replace(bare, findings=tuple(findings)))
    return tuple(found)


def judge(counts: Counts, thresholds: Thresholds) -> CodeAnswer:
    """The answer for one reason code."""
    found = (_prohibited(counts), _volume(counts, thresholds), _coverage(counts, thresholds),
             _agreement(counts, thresholds), _contradictions(counts, thresholds))  # fmt: skip
    return CodeAnswer(counts, tuple(filter(None, found)), thresholds)


def _answer(findings: Sequence[Finding]) -> Answer:
    if not findings:
        return Answer.READY
    return Answer.NEEDS_RUNS if all(finding.reason.waits for finding in findings) else Answer.NOT_READY


def _more(findings: Sequence[Finding]) -> int | None:
    if _answer(findings) is not Answer.NEEDS_RUNS:
        return None
    return max((finding.more for finding in findings if finding.more is not None), default=None)


# --- what stands against a reason code


def _prohibited(counts: Counts) -> Finding | None:
    if not counts.prohibited_exits:
        return None
    return Finding(
        Reason.PROHIBITED_EXITS, f"{_counted(counts.prohibited_exits, 'run')} got an exit that is prohibited"
    )


def _volume(counts: Counts, thresholds: Thresholds) -> Finding | None:
    more = thresholds.minimum_runs - counts.runs
    if more <= 0:
        return None
    text = f"{_counted(counts.runs, 'run')} of at least {thresholds.minimum_runs:,}"
    return Finding(Reason.TOO_FEW_RUNS, text, more)


def _coverage(counts: Counts, thresholds: Thresholds) -> Finding | None:
    """Held against the plain share: it says what was seen, and is no sample of anything."""
    if not counts.due or counts.judged >= thresholds.coverage_floor * counts.due:
        return None
    text = (
        f"{counts.judged:,} of {_counted(counts.due, 'run')} could be compared with a legacy exit "
        f"({percent(counts.judged / counts.due)}), of at least {percent(thresholds.coverage_floor)}"
    )
    if counts.unmapped:
        text += f"; the mapping has no kind for {_counted(counts.unmapped, 'legacy exit')}"
    return Finding(Reason.COVERAGE_BELOW_FLOOR, text)


def _agreement(counts: Counts, thresholds: Thresholds) -> Finding | None:
    rate = _Rate(counts.unexplained, counts.judged, 1 - thresholds.agreement_floor, thresholds.alpha)
    reasons = (Reason.AGREEMENT_BELOW_FLOOR, Reason.AGREEMENT_NOT_ABOVE_FLOOR, Reason.AGREEMENT_UNSETTLED)
    return rate.finding(reasons, "pair", "disagree unexplained", counts.runs)


def _contradictions(counts: Counts, thresholds: Thresholds) -> Finding | None:
    rate = _Rate(counts.contradicts, counts.answered, thresholds.contradiction_limit, thresholds.alpha)
    reasons = (Reason.CONTRADICTIONS_ABOVE_LIMIT, Reason.CONTRADICTIONS_NOT_BELOW_LIMIT,
               Reason.CONTRADICTIONS_UNSETTLED)  # fmt: skip
    return rate.finding(reasons, "answered run", "contradict", counts.runs)


class _Rate(NamedTuple):
    """A rate that has to be shown to be below its limit."""

    cases: int
    trials: int
    limit: float
    alpha: float

    def finding(self, reasons: tuple[Reason, Reason, Reason], noun: str, verb: str, runs: int) -> Finding | None:
        """What stands against it; None where the bound is below the limit. ``reasons``: it is above the limit, it is
        not below it so far, it may be below it soon. ``runs`` are those among which the trials are."""
        more = further_trials(*self)
        if more == 0:
            return None
        above, level, open_ = reasons
        if more is not None:
            text = f"{self._seen(noun, verb)}; it takes about {more:,} more"
            # Without a trial nobody knows how many runs it takes for one: at least as many.
            return Finding(open_, text, scaled(more, self.trials, runs) or more)
        if is_above(*self):
            return Finding(above, self._seen(noun, verb))
        return Finding(level, f"{self._seen(noun, verb)}; at this rate no number of runs is enough")

    def _seen(self, noun: str, verb: str) -> str:
        low, high = bounds(self.cases, self.trials, self.alpha)
        return (
            f"{self.cases:,} of {_counted(self.trials, noun)} {verb}, a rate of {between(low, high)}, "
            f"to be below {percent(self.limit)}"
        )


# --- what stands against a stage


def _general(seen: Seen, thresholds: Thresholds) -> Iterator[Finding]:
    if seen.prohibited_exits:
        runs = _counted(seen.prohibited_exits, "run")
        yield Finding(Reason.PROHIBITED_EXITS, f"{runs} of any stage got an exit that is prohibited")
    if len(seen.tables) > 1:
        text = f"the exits are by {len(seen.tables)} decision tables or versions of the classifier; rebuild first"
        yield Finding(Reason.SEVERAL_TABLES, text)
    known = seen.events + seen.event_missing
    if seen.events < thresholds.coverage_floor * known:
        text = f"{seen.event_missing:,} of {_counted(known, 'run')} have a legacy exit, and no event"
        yield Finding(Reason.EVENTS_MISSING, text)


def _preconditions(stage: str, declared: Collection[str]) -> Iterator[Finding]:
    for name in PRECONDITIONS.get(stage, ()):
        if name not in declared:
            yield Finding(Reason.PRECONDITION_NOT_DECLARED, f"{name} is not declared")


def _order(earlier: Sequence[StageAnswer]) -> Iterator[Finding]:
    """A stage without runs holds up none: nothing of it would be enforced, and waiting for it might never end."""
    for stage in earlier:
        if stage.runs and stage.answer is not Answer.READY:
            yield Finding(Reason.EARLIER_STAGE_NOT_READY, f"{stage.stage} comes first, and is not ready")


def _of_codes(stage: StageAnswer, thresholds: Thresholds) -> Iterator[Finding]:
    if not stage.runs:
        yield Finding(Reason.NO_RUNS, "no run was seen", _fewest(thresholds))
        return
    blocked = [code for code in stage.codes if code.answer is Answer.NOT_READY]
    waiting = [code for code in stage.codes if code.answer is Answer.NEEDS_RUNS]
    if blocked:
        yield Finding(Reason.REASON_CODES_NOT_READY, f"not ready: {_names(blocked)}")
    if waiting:
        more = max(scaled(code.more_runs or 1, code.counts.runs, stage.runs) or 1 for code in waiting)
        yield Finding(Reason.REASON_CODES_NEED_RUNS, f"more runs needed: {_names(waiting)}", more)


def _fewest(thresholds: Thresholds) -> int:
    """The fewest runs with which anything can be ready: each of them paired, answered, and without a fault."""
    limits = (1 - thresholds.agreement_floor, thresholds.contradiction_limit)
    needed = (further_trials(0, 0, limit, thresholds.alpha) or 0 for limit in limits)
    return max(thresholds.minimum_runs, *needed)


def _names(codes: Sequence[CodeAnswer]) -> str:
    return ", ".join(code.counts.reason_code for code in codes)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
