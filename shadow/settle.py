"""Settling: each run's row in ``comparisons`` is put together again where something was stored about it.

The row is a function of what is stored, the label mapping and the decision table that was activated last, and of
nothing else: neither the order in which records came, nor how often, nor how many settlings lay between. What was
touched since the last settling is told by the time at which rows were stored; where mapping, rules or the order of the
decision tables have changed, every run is settled anew.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import NamedTuple

from shadow.disagreement import ROWS, flags_sql, judge_sql
from shadow.literal import literal
from shadow.mapping import LabelMapping
from shadow.recovery import WORDS, recovery_sql
from sinks.comparisons import Comparisons, Judgement, Progress, Settling
from sinks.store import Store

RULES = "1"
"""Edition of how rows are put together; a new one settles every run anew."""


class Settled(NamedTuple):
    """What a settling did: how many runs it settled, and whether that were all of them."""

    runs: int
    whole: bool


@dataclass(frozen=True)
class Reach:
    """How far a settling looks back, in microseconds.

    ``overlap``: behind the last one, for rows that were stored late and for other clocks. ``whole_every``: after how
    long every run is settled anew, for rows that were stored later than that; None: never, where one process at a time
    stores rows and nothing can be late.
    """

    overlap: int = 1_000_000
    whole_every: int | None = None


def settle(
    store: Store, mapping: LabelMapping, now: int, progress: Progress | None = None, reach: Reach = Reach()
) -> Settled:
    """Settle what was stored since the last settling; ``now`` is in microseconds.

    Safe to end anywhere and to run again: how far it came is recorded last. Raises as the store does.
    """
    comparisons = Comparisons(store)
    last, grounds = comparisons.last(), _grounds(mapping, comparisons.tables())
    since = _since(last, grounds, now, reach)
    if last is not None and since is not None and not comparisons.stored_since(since):
        return Settled(0, whole=False)
    newest = comparisons.newest()
    version = now if newest is None else max(now, newest + 1)
    runs = comparisons.write(judgement(mapping), mapping.digest, version, since, progress or _silent)
    if since is None and newest is not None:
        comparisons.drop_before(version)
    whole_at = now if since is None or last is None else last.whole_at
    ref = {f"mapping_{name}": value for name, value in mapping.ref.items()}
    comparisons.record(Settling(grounds=grounds, **ref, through=now, whole_at=whole_at, runs=runs, recorded_at=version))
    return Settled(runs, whole=since is None)


def _silent(_done: int, _of: int) -> None:
    """Nobody is told."""


def _since(last: Settling | None, grounds: str, now: int, reach: Reach) -> int | None:
    """From when on stored rows are to be looked at, None for all."""
    if last is None or last.grounds != grounds:
        return None
    if reach.whole_every is not None and now - last.whole_at >= reach.whole_every:
        return None
    return min(last.through, now) - reach.overlap


def _grounds(mapping: LabelMapping, tables: list[tuple[str, str]]) -> str:
    """Digest of everything besides the stored rows that a settled row depends on."""
    rules = [RULES, repr(ROWS), {kind: [sorted(words) for words in each] for kind, each in WORDS.items()}]
    content = json.dumps([mapping.digest, rules, tables], sort_keys=True, ensure_ascii=False)
    return f"sha256:{hashlib.sha256(content.encode()).hexdigest()}"


def judgement(mapping: LabelMapping) -> Judgement:
    """What to make of a run, by the columns of ``comparisons``."""
    flags = flags_sql("kind", lambda fact: f"has(facts, {literal(fact)})", "legacy_retries")
    verdict = judge_sql({"kind": "kind", "legacy_kind": "legacy_kind", **flags})
    return Judgement(
        legacy_kind=mapping.sql(),
        ambiguous=flags["ambiguous"],
        **verdict._asdict(),
        recovery=recovery_sql("kind", "actions", "decisions", "overrode"),
    )
