"""The rule file: which alerts there are, read from TOML and checked. What each key means stands in
docs/reference/alert-rules.md.

A file that says anything that would be ignored, or lacks anything that a condition needs, is refused.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib import resources
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from alerts.judging import FEWEST
from alerts.model import Baseline, Condition, Gauge, Rule, Scope, Series, Severity
from alerts.toml_file import FileError, Part, parse, place

RESERVED = frozenset({"alertname", "rule", "severity", "owner", *Scope._fields})
"""Labels that every alert has."""

_WEEK = 7 * 1440
_LABEL = re.compile(r"[a-z][a-z0-9_]{0,63}")
_Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]
_Minutes = Annotated[int, Field(ge=0, le=_WEEK)]
_Label = Annotated[str, Field(min_length=1, max_length=256)]


class ScopeTable(Part):
    """Some fields of a scope, as written."""

    tenant: _Label | None = None
    agent_id: _Label | None = None
    workflow: _Label | None = None
    queue: _Label | None = None

    @property
    def scope(self) -> Scope:
        """The scope; what is left out is empty."""
        return Scope(*(getattr(self, name) or "" for name in Scope._fields))


class _Window(Part):
    minutes: int = Field(ge=1, le=_WEEK)
    runs: int = Field(0, ge=0, le=1_000_000)
    limit_minutes: _Minutes = 0


class _Baseline(Part):
    minutes: int = Field(ge=120, le=60 * 1440)
    factor: float = Field(gt=1)
    minimum: int = Field(ge=1)
    needed: bool = False


_NO_WINDOW = _Window.model_construct(minutes=0, runs=0, limit_minutes=0)


class _Rule(Part):
    id: _Name
    condition: Annotated[Condition, Field(strict=False)]
    severity: Annotated[Severity, Field(strict=False)]
    owner: _Label
    runbook: _Label
    summary: str = Field(min_length=1, max_length=512)
    threshold: float | None = None
    series: Annotated[Series | None, Field(strict=False)] = None
    over: Annotated[Series | None, Field(strict=False)] = None
    items: Literal["partial", "review"] | None = None
    gauge: Annotated[Gauge | None, Field(strict=False)] = None
    by: list[Literal["tenant", "agent_id", "workflow", "queue"]] = Field([])
    where: ScopeTable = ScopeTable()
    unless: list[ScopeTable] = Field([])
    window: _Window | None = None
    quantile: float | None = Field(None, gt=0, le=1)
    confidence: float | None = Field(None, gt=0.5, lt=1)
    baseline: _Baseline | None = None
    chance_days: int | None = Field(None, ge=1, le=366)
    minimum: int | None = Field(None, ge=1)
    for_minutes: _Minutes = 0
    keep_firing_minutes: _Minutes = 0
    labels: dict[str, _Label] = Field({})

    def rule(self) -> Rule:
        window, past = self.window or _NO_WINDOW, self.baseline
        return Rule(
            id=self.id,
            condition=self.condition,
            threshold=0.0 if self.threshold is None else self.threshold,
            severity=self.severity,
            owner=self.owner,
            runbook=self.runbook,
            summary=self.summary,
            series=self.series,
            over=self.over,
            what=self.items,
            gauge=self.gauge,
            by=tuple(name for name in Scope._fields if name in self.by),
            where=self.where.scope,
            unless=tuple(each.scope for each in self.unless),
            window_minutes=window.minutes,
            window_runs=window.runs,
            window_limit_minutes=window.limit_minutes,
            quantile=1.0 if self.quantile is None else self.quantile,
            confidence=self.confidence or 0.0,
            baseline=Baseline(past.minutes, past.factor, past.minimum, past.needed) if past else None,
            chance_days=self.chance_days or 0,
            minimum=self.minimum or 0,
            for_minutes=self.for_minutes,
            keep_firing_minutes=self.keep_firing_minutes,
            labels=tuple(sorted(self.labels.items())),
        )


class _File(Part):
    id: _Name
    version: str = Field(min_length=1, max_length=64)
    rules: list[_Rule] = Field(min_length=1)


class Needs(NamedTuple):
    """Which keys a condition needs, and which it may have, besides those of every rule."""

    must: tuple[str, ...]
    may: tuple[str, ...] = ()


_OF_SHARE = Needs(("series", "over", "window", "threshold", "confidence", "minimum"), ("baseline",))
NEEDS: Mapping[Condition, Needs] = {
    Condition.SHARE: _OF_SHARE,
    Condition.SHARE_BELOW: _OF_SHARE,
    Condition.SURGE: Needs(("series", "over", "window", "threshold", "baseline", "chance_days")),
    Condition.COUNT: Needs(("series", "over", "window", "threshold")),
    Condition.AGE: Needs(("items", "threshold"), ("quantile", "minimum")),
    Condition.PAST_DEADLINE: Needs(("items", "threshold", "confidence", "minimum")),
    Condition.ABSENCE: Needs(("series", "threshold", "baseline")),
    Condition.GAUGE: Needs(("gauge", "threshold")),
    Condition.UNKNOWN: Needs(("gauge",)),
}
"""The keys of each condition."""

_CONDITIONAL = tuple(dict.fromkeys(key for needs in NEEDS.values() for key in needs.must + needs.may))
_SHARES = (Condition.SHARE, Condition.SHARE_BELOW, Condition.SURGE, Condition.PAST_DEADLINE)
_OF_PIPELINE = (Series.READ, Series.DEAD_LETTERED)
_OF_QUEUES = (Series.QUEUE_ARRIVALS, Series.QUEUE_DECISIONS)


@dataclass(frozen=True)
class RuleBook:
    """The rules of a file. ``digest`` covers everything but comments and layout."""

    id: str
    version: str
    digest: str
    rules: tuple[Rule, ...]


def default_text() -> str:
    """The file of the rules that are shipped."""
    return resources.files("alerts").joinpath("default.toml").read_text(encoding="utf-8")


def load(text: str) -> RuleBook:
    """Read a rule file. Raises FileError with every problem found."""
    file = parse(text, _File)
    problems = [*_twice(file), *_problems(file)]
    if problems:
        raise FileError(problems)
    canonical = json.dumps(file.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    digest = f"sha256:{sha256(canonical.encode()).hexdigest()}"
    return RuleBook(file.id, file.version, digest, tuple(each.rule() for each in file.rules))


def _twice(file: _File) -> Iterator[str]:
    for name, times in Counter(rule.id for rule in file.rules).items():
        if times > 1:
            yield f"rules: {name}: {times} rules have this id; each needs its own"


def _problems(file: _File) -> Iterator[str]:
    for number, rule in enumerate(file.rules, 1):
        for check in (_keys, _threshold, _window, _scope, _labels):
            for problem in check(rule):
                yield f"{place('rule', number, rule.id)}: {problem}"


def _keys(rule: _Rule) -> Iterator[str]:
    needs = NEEDS[rule.condition]
    for key in _CONDITIONAL:
        given = getattr(rule, key) is not None
        if given and key not in needs.must + needs.may:
            yield f"{key}: the condition {rule.condition} does not use it"
        elif not given and key in needs.must:
            yield f"{key}: missing; the condition {rule.condition} needs it"


def _threshold(rule: _Rule) -> Iterator[str]:
    value = rule.threshold
    if value is None:
        return
    if rule.condition in _SHARES:
        if not 0 < value < 1:
            yield "threshold: a share must be between 0 and 1, such as 0.2"
        if rule.minimum is not None and rule.minimum < FEWEST:
            yield f"minimum: must be at least {FEWEST}; of fewer, no share can be said"
    elif rule.gauge is Gauge.STORE_REFUSING and value != 0:
        yield "threshold: must be 0; the gauge is 1 while the store refuses, else 0"
    elif rule.condition is not Condition.GAUGE and value <= 0:
        yield "threshold: must be more than 0"
    elif value < 0:
        yield "threshold: must not be negative"


def _window(rule: _Rule) -> Iterator[str]:
    window, past = rule.window, rule.baseline
    if window is None:
        return
    if bool(window.runs) != bool(window.limit_minutes):
        yield "window: runs and limit_minutes belong together: how many runs, and how far back at most"
    elif window.runs and window.limit_minutes <= window.minutes:
        yield "window: limit_minutes: must be more than minutes"
    if past is not None and past.minutes < 2 * max(window.minutes, window.limit_minutes):
        yield "baseline: minutes: must be at least twice as long as the window may be"


def _scope(rule: _Rule) -> Iterator[str]:
    counted = [series for series in (rule.series, rule.over) if series is not None]
    of_pipeline = [series for series in counted if series in _OF_PIPELINE]
    if rule.series is not None and rule.series == rule.over:
        yield "over: must be another series than the one that is counted"
    if of_pipeline and len(of_pipeline) < len(counted):
        yield "over: series of the pipeline, by time of recording, cannot be held against series of runs"
    has_queue = rule.items == "review" or (bool(counted) and all(series in _OF_QUEUES for series in counted))
    known = () if of_pipeline or rule.gauge else Scope._fields if has_queue else Scope._fields[:-1]
    for key, names in (("by", {*rule.by}), ("where", _named(rule.where)), ("unless", _named(*rule.unless))):
        for name in sorted(names.difference(known)):
            yield f"{key}: {name}: what this rule looks at has no {name}"
    if any(each.scope == Scope() for each in rule.unless):
        yield "unless: an entry that names nothing would leave nothing to look at"


def _named(*tables: ScopeTable) -> set[str]:
    return {name for table in tables for name in table.model_fields_set}


def _labels(rule: _Rule) -> Iterator[str]:
    for name in rule.labels:
        if not _LABEL.fullmatch(name):
            yield f"labels: {name}: must be lower-case letters, digits and underscores, a letter first"
        elif name in RESERVED:
            yield f"labels: {name}: every alert has this label"
