"""What rules are judged by, and what comes out of it: counts per minute, open items, the pipeline's pulse, alerts.

Instants are microseconds since the epoch, UTC; minutes are minutes since the epoch. Scopes and series are closed sets
of labels: nothing that grows with the number of runs is one.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

from schemas.types import to_iso

State = Literal["pending", "firing", "resolved"]


def to_minute(micros: int) -> str:
    """An instant to the minute as people read it, in UTC."""
    return to_iso(micros)[:16].replace("T", " ")


class Scope(NamedTuple):
    """Whom something is about. An empty field says "all", or that it does not apply."""

    tenant: str = ""
    agent_id: str = ""
    workflow: str = ""
    queue: str = ""


EVERYWHERE = Scope()


class Series(StrEnum):
    """What is counted per minute.

    Up to ``gaps`` each run counts once, at the event that it stands at, in the minute in which that event occurred.
    Arrivals and decisions are of the human queues, by the time they are stamped with. The last two are of the pipeline
    itself, by the time of recording.
    """

    EXITS = "exits"
    COMPLETED = "completed"
    REFUSAL = "refusal"
    FALLBACK = "fallback"
    PARTIAL = "partial"
    HUMAN_QUEUE = "human_queue"
    UNVERIFIED = "unverified"  # completed, and nothing verified it
    SILENT_FALLBACK = "silent_fallback"  # a fallback that was applied and not disclosed
    EMPTY_RESPONSE = "empty_response"
    FENCE_VIOLATION = "fence_violation"
    UNAPPROVED_EFFECT = "unapproved_effect"
    REVERSAL = "reversal"  # an enrichment that took back what a partial had said
    GAPS = "gaps"  # exits with at least one evidence gap
    QUEUE_ARRIVALS = "queue_arrivals"
    QUEUE_DECISIONS = "queue_decisions"
    READ = "read"
    DEAD_LETTERED = "dead_lettered"


class Count(NamedTuple):
    """How many there were in one minute, of one scope and series. Every field of the scope is set where it is known.

    A minute is told whole: what is told of a minute replaces all that was known of it. So a minute that is read
    twice, gets a late event, or is classified again counts once. A minute that became empty is told with an ``n`` of 0.
    Nothing is of a later minute than the one in which it was recorded, whatever it is stamped with.
    """

    minute: int
    scope: Scope
    series: Series
    n: int


class OpenItem(NamedTuple):
    """A partial that waits for its enrichment, or a review (an obligation, too) that waits for its decision.

    ``queue`` is set in the scope of a review. The item's clock stands still while it is paused: ``paused_us`` is how
    long it stood so far, ``paused_since`` since when it stands now. ``overdue`` is as of the moment of reading.
    """

    what: Literal["partial", "review"]
    scope: Scope
    event_id: str
    run_id: str
    opened_at: int
    deadline: int | None
    paused_us: int
    paused_since: int | None
    overdue: bool
    reason_code: str
    components: tuple[str, ...]


class Closed(NamedTuple):
    """An item that is open no more: ``open_us`` is how long it was open, without the time that its clock stood."""

    what: Literal["partial", "review"]
    scope: Scope
    opened_at: int
    closed_at: int
    open_us: int
    reason_code: str
    components: tuple[str, ...]


class Pulse(NamedTuple):
    """How the pipeline itself does. None is unknown, which is never health."""

    newest_event_at: int | None = None
    lag: int | None = None  # messages
    store_refusing: bool | None = None
    clock_skew_us: int | None = None
    unaccounted: int | None = None  # messages, as of the last audit


class Condition(StrEnum):
    """What a rule asks."""

    SHARE = "share"  # a series is more than a share of another, and that is no chance
    SHARE_BELOW = "share_below"  # it is less
    SURGE = "surge"  # run by run, it has come to be more of another than is usual, and that is no chance
    COUNT = "count"  # a series has at least so many in the window
    AGE = "age"  # a quantile of the ages of open items is at least so many minutes
    PAST_DEADLINE = "past_deadline"  # more than a share of the open items is past its deadline, and that is no chance
    ABSENCE = "absence"  # nothing came for much longer than is usual for the scope
    GAUGE = "gauge"  # a gauge of the pipeline is above a value
    UNKNOWN = "unknown"  # a gauge of the pipeline cannot be read


class Gauge(StrEnum):
    """A reading of the pulse. Its unit is the unit of the threshold."""

    NEWEST_EVENT_AGE = "newest_event_age"  # minutes
    LAG = "lag"  # messages
    STORE_REFUSING = "store_refusing"  # 1 if it does, else 0
    CLOCK_SKEW = "clock_skew"  # seconds, whichever way
    UNACCOUNTED = "unaccounted"  # messages


class Severity(StrEnum):
    """How urgent it is: wake somebody, or let it wait for the day."""

    PAGE = "page"
    TICKET = "ticket"


@dataclass(frozen=True, slots=True)
class Baseline:
    """The scope's own past: the share over the ``window_minutes`` before the rule's window, times ``factor``.

    Holds from ``minimum`` runs on; below that, the scope has no past to compare with, and the threshold stands alone,
    or nothing is said if the past is ``needed``.
    """

    window_minutes: int
    factor: float
    minimum: int
    needed: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """One condition with whom it is for and how it is told. See docs/reference/alert-rules.md for each field."""

    id: str
    condition: Condition
    threshold: float
    severity: Severity
    owner: str
    runbook: str
    summary: str
    series: Series | None = None
    over: Series | None = None
    what: Literal["partial", "review"] | None = None
    gauge: Gauge | None = None
    by: tuple[str, ...] = ()
    where: Scope = EVERYWHERE
    unless: tuple[Scope, ...] = ()
    window_minutes: int = 0
    window_runs: int = 0
    window_limit_minutes: int = 0
    quantile: float = 1.0
    confidence: float = 0.0
    baseline: Baseline | None = None
    chance_days: int = 0
    minimum: int = 0
    for_minutes: int = 0
    keep_firing_minutes: int = 0
    labels: tuple[tuple[str, str], ...] = ()


class Alert(NamedTuple):
    """What a rule says of a scope. Identity is (rule, scope), one occurrence of it (rule, scope, since).

    ``value`` is in the unit of ``threshold``; both move while the alert stands. The evaluator leaves ``cause`` and
    ``contributors`` empty: they are found for what fires.
    """

    rule: str
    scope: Scope
    state: State
    since: int
    fired_at: int | None
    resolved_at: int | None
    value: float
    threshold: float
    severity: str
    owner: str
    runbook: str
    cause: str
    contributors: tuple[tuple[str, float], ...]
    summary: str
