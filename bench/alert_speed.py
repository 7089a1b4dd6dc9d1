"""How long alerts take over a large store: ``python -m bench.alert_speed``. Ends with 1 if anything takes too long.

Two stores are made by the engine: of ten million runs of a thousand agents, and of a million runs of twenty, each over
ninety days, with their reviews, enrichments and ledger. In the first, every agent has five runs in each of the last
minutes, and two hundred rules are judged by one turn of the loop of alerts, as ``offramp run lifecycle --alerts-only``
does it: what changed is asked for, and what is open; it is judged, and kept. The rules are the shipped ones again and
again, each time with other windows and thresholds, so that none can be judged by the windows of another. In the second,
the shipped rules are run over all of it by ``offramp alerts backtest``, in a process of its own.
"""

import argparse
import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from alerts.model import Rule
from alerts.rules import default_text, load
from bench.__main__ import OFFRAMP, Target, kept, say
from bench.watch import Cost, run
from schemas.types import to_iso, to_micros
from sinks.alerts import MINUTE, AlertsStore
from sinks.rows import TableRow, encode_tables
from sinks.store import Store, open_store
from streams.alert_store import StoredReadings, StoredShelf
from streams.alerting import Alerting, Pace, Turn

LIVE_S, BACKTEST_S = 5.0, 60.0
"""Most seconds that one turn and one backtest may take."""
DAYS, RULES, TURNS, BURST = 90, 200, 3, 5
"""``BURST`` runs has each agent in a minute that is judged."""
END = to_micros(datetime(2025, 9, 1, tzinfo=UTC))
"""Where both stores end."""
_DAY_US = 86_400_000_000
_STEP = 250_000

# --- the stores ------------------------------------------------------------------------------------------------------

_RUNS = """
    INSERT INTO exit_classifications (tenant, event_id, run_id, segment, agent_id, agent_version, workflow, occurred_at,
        kind, reason_code, rule_id, verified, prohibited, obligations, evidence_gaps, findings, facts, fact_bits,
        table_id, table_version, table_digest, classifier_version, unproven, evidence_digest, content_digest, envelope,
        queue, deadline, review_packet_id, packet_completeness, classified_at)
    WITH {named}
    SELECT 'acme', event, run, NULL, concat('agent-', toString(agent)), '1', concat('flow-', toString(chance % 3)),
        ended, kind_drawn, 'r', 'r', chance % 2 = 0, [], [], if(chance % 10 = 0, ['x'], []), [], ['f'], 1, 'default',
        '1', 'sha256:t', '0.1.0', false, 'sha256:e', 'sha256:c', multiIf(
            kind_drawn = 'partial', '{{"kind":"partial","omitted":[{{"component":"c1","retryable":true}}]}}',
            kind_drawn = 'human_queue',
            '{{"kind":"human_queue","queue":"q","owner":"o","allowed_decisions":["close"]}}',
            kind_drawn = 'completed', NULL, '{{}}'),
        if(kind_drawn = 'human_queue', 'q', NULL), if(kind_drawn = 'human_queue', ended + toIntervalHour(8), NULL),
        NULL, NULL, ended + toIntervalSecond(5)
    FROM numbers({low}, {number})
"""
_REVIEWS = """
    INSERT INTO review_events (version, record_id, tenant, event_id, queue, event, decision, overrode_proposal, at,
        extensions, content_digest, source, partition, offset, ingested_at)
    WITH {named}
    SELECT 1, concat('review-', toString(number)), 'acme', event, 'q', 'decided', 'close', false,
        ended + toIntervalMinute(30 + chance), map(), 'sha256:c', 'file', 'p', number,
        ended + toIntervalMinute(31 + chance)
    FROM numbers({low}, {number})
    WHERE kind_drawn = 'human_queue' AND number % 100 != 0 AND ended + toIntervalMinute(31 + chance) < {end}
"""
_ENRICHMENTS = """
    INSERT INTO enrichments (version, record_id, tenant, event_id, component, state, reverses_result, at, extensions,
        content_digest, source, partition, offset, ingested_at)
    WITH {named}
    SELECT 1, concat('enrichment-', toString(number)), 'acme', event, 'c1', 'completed', number % 20 = 0,
        ended + toIntervalMinute(20 + chance), map(), 'sha256:c', 'file', 'p', number,
        ended + toIntervalMinute(21 + chance)
    FROM numbers({low}, {number})
    WHERE kind_drawn = 'partial' AND ended + toIntervalMinute(21 + chance) < {end}
"""
_LEDGER = """
    INSERT INTO ingest_ledger (source, partition, offset, next_offset, tenant, event_id, record_type, content_digest,
        disposition, recorded_at)
    WITH {named}
    SELECT 'topic', '0', number, number + 1, 'acme', event, 'terminal_event', 'sha256:c', 'classified',
        ended + toIntervalSecond(5)
    FROM numbers({low}, {number})
"""
# One agent in seven refuses three runs in five for a while.
_NAMED = """
    cityHash64(number, 'chance') % 1000 AS chance, {agent} AS agent,
    fromUnixTimestamp64Micro(toInt64({begin} + (number - {first}) * {spacing}), 'UTC') AS ended,
    concat('event-', leftPad(hex(cityHash64(number, 'event')), 16, '0')) AS event,
    concat('run-', leftPad(hex(cityHash64(number, 'run')), 16, '0')) AS run,
    agent % 7 = 3 AND intDiv(number, {stretch}) % 100 = 70 AS is_bad,
    multiIf(chance < if(is_bad, 600, 40), 'refusal', chance < 670 AND chance >= 640, 'fallback',
        chance < 690 AND chance >= 670, 'partial', chance < 740 AND chance >= 690, 'human_queue', 'completed')
        AS kind_drawn
"""


class Scale(NamedTuple):
    """What a store holds: so many runs of so many agents, of the ninety days up to :data:`END`."""

    events: int
    agents: int


def fill(store: Store, scale: Scale) -> None:
    """Store so many runs of the ninety days before the end, and what came of them."""
    store.insert("active_tables", encode_tables([TableRow("sha256:t", "0.1.0", "default", "1", "", 1)]))
    agent = f"cityHash64(number, 'agent') % {scale.agents}"
    spacing = DAYS * _DAY_US / scale.events
    for low in range(0, scale.events, _STEP):
        number = min(_STEP, scale.events - low)
        named = _NAMED.format(
            agent=agent,
            begin=END - DAYS * _DAY_US,
            first=0,
            spacing=spacing,
            stretch=max(1, scale.events // 2000),
        )
        _write(store, named, low, number, END)
        if (low + number) % 1_000_000 == 0:
            say(f"{low + number:,} of {scale.events:,} runs stored")


def burst(store: Store, scale: Scale, minute: int) -> None:
    """A minute, given by its beginning, in which every agent has some runs."""
    number, low = scale.agents * BURST, minute // MINUTE * scale.agents * BURST
    named = _NAMED.format(
        agent=f"number % {scale.agents}", begin=minute, first=low, spacing=MINUTE * 0.9 / number, stretch=2**62
    )
    _write(store, named, low, number, minute)


def _write(store: Store, named: str, low: int, number: int, end: int) -> None:
    until = f"fromUnixTimestamp64Micro({end})"
    for statement in (_RUNS, _REVIEWS, _ENRICHMENTS, _LEDGER):
        store.execute(statement.format(named=named, low=low, number=number, end=until))


def made(scale: Scale, directory: Path) -> Path:
    """The store, made unless it is there."""
    path = directory / f"alerts-{scale.events}-{scale.agents}"
    if not path.exists():
        unfinished = path.with_suffix(".part")
        with opened(unfinished) as store:
            store.migrate()
            fill(store, scale)
        unfinished.rename(path)
    return path


def opened(path: Path) -> AbstractContextManager[Store]:
    """The store, owned by this process while the context lasts."""
    return open_store(path, holder="bench.alert_speed", lock_timeout_s=60, now=_now, wait=time.sleep)


def _now() -> int:
    return time.time_ns() // 1000


# --- what is measured ------------------------------------------------------------------------------------------------


def rules(number: int) -> list[Rule]:
    """So many rules: the shipped ones, with other windows and thresholds each time around."""
    shipped = load(default_text()).rules
    return [_varied(shipped[place % len(shipped)], place // len(shipped)) for place in range(number)]


def _varied(rule: Rule, times: int) -> Rule:
    longer = rule.window_minutes + times if rule.window_minutes else 0
    return replace(
        rule,
        id=f"{rule.id}_{times}",
        window_minutes=longer,
        window_limit_minutes=max(longer, rule.window_limit_minutes) if rule.window_limit_minutes else 0,
        threshold=rule.threshold * (1 + times / 50),
    )


def turns(path: Path, scale: Scale) -> Iterator[tuple[Turn, Cost]]:
    """The first turns of an evaluator over the store, the first of which reads what was before."""
    with opened(path) as store:
        stored = AlertsStore(store)
        alerting = Alerting(
            rules=rules(RULES),
            readings=StoredReadings(stored),
            shelf=StoredShelf(stored, "sha256:rules"),
            channels={},
            pace=Pace(lease_us=0),  # whoever measured before has ended
            holder=f"bench {_now()}",
        )
        begin = ((stored.newest_event_at() or END) // MINUTE + 1) * MINUTE
        for minute in range(begin, begin + (TURNS + 1) * MINUTE, MINUTE):
            burst(store, scale, minute)
            gc.collect()
            before, started = time.process_time(), time.perf_counter()
            turn = alerting.turn(minute + MINUTE - 1)
            yield turn, Cost(time.perf_counter() - started, time.process_time() - before, 0)


def measure_live(scale: Scale, directory: Path) -> Target:
    """One turn of those that go on, the fastest."""
    first, *later = (cost for _, cost in turns(made(scale, directory), scale))
    _told("beginning, with all that was before", first)
    for cost in later:
        _told("going on", cost)
    return Target(
        f"one evaluation of {RULES} rules x {scale.agents:,} agents", min(cost.wall_s for cost in later), LIVE_S, " s"
    )


def measure_backtest(scale: Scale, directory: Path, scratch: Path) -> Target:
    """The verb over all of the store."""
    span = ["--since", to_iso(END - DAYS * _DAY_US), "--until", to_iso(END)]
    cost = run([*OFFRAMP, "alerts", "backtest", *span, "--store", str(made(scale, directory))], scratch / "out")
    _told("alerts backtest", cost)
    return Target(f"a backtest of {DAYS} days, {scale.agents} agents", cost.wall_s, BACKTEST_S, " s")


def measure_check(scale: Scale, directory: Path, scratch: Path) -> None:
    """The verb over the last fortnight; nothing is claimed of it."""
    since = ["--since", to_iso(END - 14 * _DAY_US)]
    _told(
        "alerts check",
        run([*OFFRAMP, "alerts", "check", *since, "--store", str(made(scale, directory))], scratch / "out"),
    )


def _told(name: str, cost: Cost) -> None:
    say(f"{name}: {cost.wall_s:.1f} s, {cost.cpu_s:.1f} s of processor time")


def main() -> None:
    """Measure as the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m bench.alert_speed", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--live-events", type=int, default=10_000_000, help="runs in the store of a thousand agents")
    parser.add_argument("--backtest-events", type=int, default=1_000_000, help="runs in the store of twenty")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the stores here and use them again")
    parser.add_argument("--check", action="store_true", help="time alerts check as well, which takes minutes")
    options = parser.parse_args()
    large, small = Scale(options.live_events, 1000), Scale(options.backtest_events, 20)
    with kept(options.keep) as directory, tempfile.TemporaryDirectory(prefix="offramp-bench-") as scratch:
        try:
            found = [measure_backtest(small, directory, Path(scratch)), measure_live(large, directory)]
            if options.check:
                measure_check(large, directory, Path(scratch))
        except subprocess.CalledProcessError as error:
            sys.exit(f"{error}\n{error.output.decode(errors='replace')}")
    print(*found, sep="\n")
    sys.exit(0 if all(target.holds for target in found) else 1)


if __name__ == "__main__":
    main()
