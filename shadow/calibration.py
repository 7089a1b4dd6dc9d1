"""Whether agents know when they are wrong: confidence against verified outcome, and what escalating by it would cost.

Compared are, per run at its latest segment, the confidence after the last step (``steps[-1].confidence_after``, as the
classifier reads it) and the result of the completion predicate: ``satisfied`` is right, ``unsatisfied`` is wrong. Every
other result, and an absent one, says nothing: such runs are counted, and judged by nothing. What the run claims of
itself, and what the exit is, are no outcome; the exit only says whether a person got the run.

Sources: M. H. DeGroot, S. E. Fienberg, "The comparison and evaluation of forecasters", The Statistician 32 (1983), for
the reliability diagram; M. P. Naeini, G. F. Cooper, M. Hauskrecht, "Obtaining well calibrated probabilities using
Bayesian binning", AAAI (2015), for the expected calibration error.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import fsum, pi, sqrt
from typing import Any, NamedTuple

from shadow.scope import Select
from shadow.statistics import Interval, wilson

FINE = 20
"""Parts of the scale of confidence that runs are counted by; thresholds lie between them."""
BINS = 10
"""Bars of the reliability diagram."""
BAND = Interval(0.10, 0.20)
"""Share of runs that people should get, as practice has it."""
MOST_EVENTS = 200_000
"""Events whose evidence is read: of more, a random part, by the hash of their identity."""
MOST_JUDGED = 50_000
"""Of these, how many confidence is read of: a share of so many is known to half a per cent."""

# Confidences outside the scale are none. The text of the events must not be what is kept for joining. Of copies of an
# event the newest is taken here, since FINAL would merge the texts of all parts there are.
_READING = """
    WITH said BETWEEN 0 AND 1 AS known
    SELECT
        if(known, least(toInt64(floor(said * {fine})), {last}), -1) AS part,
        multiIf(result = 'satisfied', 'right', result = 'unsatisfied', 'wrong', 'unknown') AS outcome,
        escalated,
        count() AS runs,
        sum(if(known, said, 0)) AS confidence
    FROM
    (
        SELECT tenant, event_id, kind = 'human_queue' AS escalated
        FROM {rows}
        WHERE pairing != 'event_missing' AND cityHash64(tenant, event_id) <= {{span:UInt64}}
    ) AS runs
    INNER JOIN
    (
        SELECT
            tenant,
            event_id,
            argMax(
                JSONExtract(
                    event,
                    'Tuple(steps Array(Tuple(confidence_after Nullable(Float64))), completion Tuple(result String))'
                ),
                ingested_at
            ) AS parsed,
            ifNull(parsed.steps[-1].1, -1) AS said,
            parsed.completion.result AS result
        FROM terminal_events
        WHERE identity <= {{span:UInt64}}
        GROUP BY tenant, event_id
    ) AS evidence USING (tenant, event_id)
    GROUP BY part, outcome, escalated
    ORDER BY part, outcome, escalated
"""
_HASHES = 2**64


class Row(NamedTuple):
    """Runs that are alike.

    ``part`` is the part of the scale of confidence, 0 to ``FINE`` - 1, or -1 where no confidence is known; ``outcome``
    is right, wrong or unknown; ``confidence`` is the sum of the runs' confidences.
    """

    part: int
    outcome: str
    escalated: bool
    runs: int
    confidence: float


class Bin(NamedTuple):
    """A bar of the reliability diagram: runs with a confidence in ``[low, high)``, the last with ``high`` too.

    ``confidence`` is their mean, None without runs.
    """

    low: float
    high: float
    n: int
    right: int
    confidence: float | None

    @property
    def accuracy(self) -> float | None:
        """The share that was right; None without runs."""
        return self.right / self.n if self.n else None

    @property
    def interval(self) -> Interval:
        """That share's interval, for one look."""
        return wilson(self.right, self.n)

    @property
    def gap(self) -> float:
        """How far confidence is from what came of it; 0 without runs."""
        return 0.0 if self.confidence is None else abs(self.right / self.n - self.confidence)


class Threshold(NamedTuple):
    """If every run with a confidence below ``threshold`` had gone to a person.

    ``escalated`` of ``n`` runs; ``unneeded`` of these were right; ``missed`` are wrong, and would not have gone.
    """

    threshold: float
    n: int
    escalated: int
    unneeded: int
    missed: int

    @property
    def escalated_share(self) -> Interval:
        """The share that escalates, for one look."""
        return wilson(self.escalated, self.n)

    @property
    def unneeded_share(self) -> Interval:
        """The share of escalations that nobody needed, for one look."""
        return wilson(self.unneeded, self.escalated)


class Place(StrEnum):
    """Where the escalation rate stands to the band, as far as its interval tells."""

    BELOW = "below"
    WITHIN = "within"
    ABOVE = "above"
    UNCLEAR = "unclear"


class Escalation(NamedTuple):
    """Runs that went to a person, of all."""

    escalated: int
    runs: int

    @property
    def interval(self) -> Interval:
        """The share, for one look."""
        return wilson(self.escalated, self.runs)

    @property
    def place(self) -> Place:
        """Against ``BAND``: unclear where the interval crosses an edge of it."""
        low, high = self.interval
        if high < BAND.low:
            return Place.BELOW
        if low > BAND.high:
            return Place.ABOVE
        return Place.WITHIN if low >= BAND.low and high <= BAND.high else Place.UNCLEAR


@dataclass(frozen=True)
class Calibration:
    """Confidence against outcome, over ``n`` runs of which both are known.

    ``without_confidence`` and ``without_outcome`` are runs left out, the latter with a confidence. ``ece`` is the
    expected calibration error; ``ece_by_chance`` what an agent that is calibrated perfectly would show on average with
    so few runs. Both are None without runs. ``tradeoff`` is in order of the threshold.
    """

    n: int
    without_confidence: int
    without_outcome: int
    bins: tuple[Bin, ...]
    ece: float | None
    ece_by_chance: float | None
    tradeoff: tuple[Threshold, ...]
    escalation: Escalation


def read(select: Select, rows: str, parameters: Mapping[str, Any], most: int = MOST_JUDGED) -> list[Row]:
    """Runs counted by confidence, outcome and escalation; ``rows`` is SQL of the columns of ``v_comparison``.

    Where more than ``most`` events are stored, about so many are read, picked at random by the hash of their identity.
    """
    sql = _READING.format(rows=rows, fine=FINE, last=FINE - 1)
    found = select(sql, {**parameters, "span": span(select, most)})
    return [Row(**row) for row in found]


def span(select: Select, most: int = MOST_EVENTS) -> int:
    """The greatest hash of an event's identity up to which about ``most`` events are stored, or all if there are fewer.

    Evidence is text that has to be parsed, so of a large store a part is read, at random since hashes are.
    """
    stored: int = select("SELECT count() AS events FROM terminal_events", {})[0]["events"]
    return _HASHES - 1 if stored <= most else _HASHES * most // stored


def calibration(rows: Iterable[Row]) -> Calibration:
    """Everything that is known of confidence, from :func:`read` or elsewhere."""
    given = list(rows)
    known = [row for row in given if row.part >= 0 and row.outcome != "unknown"]
    bins = tuple(_bin(number, known) for number in range(BINS))
    n = sum(row.runs for row in known)
    return Calibration(
        n=n,
        without_confidence=sum(row.runs for row in given if row.part < 0),
        without_outcome=sum(row.runs for row in given if row.part >= 0 and row.outcome == "unknown"),
        bins=bins,
        ece=fsum(each.n * each.gap for each in bins) / n if n else None,
        ece_by_chance=fsum(map(_by_chance, bins)) / n if n else None,
        tradeoff=tuple(_threshold(part, known, n) for part in range(1, FINE)),
        escalation=Escalation(sum(row.runs for row in given if row.escalated), sum(row.runs for row in given)),
    )


def part_of(confidence: float) -> int:
    """The part of the scale that a confidence, 0 to 1, is counted in."""
    return min(int(confidence * FINE), FINE - 1)


def _bin(number: int, known: Iterable[Row]) -> Bin:
    within = [row for row in known if row.part * BINS // FINE == number]
    n = sum(row.runs for row in within)
    right = sum(row.runs for row in within if row.outcome == "right")
    mean = fsum(row.confidence for row in within) / n if n else None
    return Bin(number / BINS, (number + 1) / BINS, n, right, mean)


def _by_chance(each: Bin) -> float:
    """Runs times the gap that chance alone opens on average: the mean deviation of a share around its rate."""
    if each.confidence is None:
        return 0.0
    variance = max(0.0, each.confidence * (1 - each.confidence)) / each.n
    return each.n * sqrt(2 / pi * variance)


def _threshold(part: int, known: Iterable[Row], n: int) -> Threshold:
    below = [row for row in known if row.part < part]
    wrong = sum(row.runs for row in known if row.outcome == "wrong")
    escalated = sum(row.runs for row in below)
    unneeded = sum(row.runs for row in below if row.outcome == "right")
    return Threshold(part / FINE, n, escalated, unneeded, wrong - (escalated - unneeded))
