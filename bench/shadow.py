"""What the comparison costs over ten million runs: ``python -m bench.shadow``. Ends with 1 if a report or page is slow.

A few thousand generated events are classified as ever. The engine then repeats what is stored of them, each time with
other ids and times, and gives each its companions, so that all records fit each other. What is measured are the verbs,
each in a process of its own, best of three, and the first page of every view, best of three in one process.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from bench.__main__ import MB, OFFRAMP, Target, generated, kept, say
from bench.watch import Cost, run
from classifier.table import default_text
from schemas.types import to_micros
from sinks.rows import SCHEMAS
from sinks.store import Store, open_store

REPORT_S, PAGE_S = 5.0, 0.3
"""The most that a report and the first page of a view may take, in seconds."""
PEAK_BYTES = 3000 * MB
TEMPLATES = 5_000
BEGIN = datetime(2026, 6, 1, tzinfo=UTC)
DAYS = 90
RELEASE_DAYS = 14
"""How often agents get a new version, which takes over from the one before by and by."""
ROUNDS = 3
PART = 20_000
"""Rows that are written at once, as by ``offramp classify``."""
STEP = 1_000_000
VIEWS = ("v_comparison", "v_disagreements", "v_recovery", "v_readiness", "v_coverage")

# --- the store -------------------------------------------------------------------------------------------------------

# What became of the proposed exits, in percent.
LEGACY: Mapping[str, Mapping[str, int]] = {
    "completed": {"success": 93, "ERR_GENERIC": 3, "ticket": 2, "refused": 1, "nobody mapped this": 1},
    "refusal": {"refused": 70, "ERR_GENERIC": 20, "success": 8, "ticket": 2},
    "fallback": {"fallback": 40, "success": 40, "ERR_GENERIC": 10, "ticket": 10},
    "partial": {"partial": 40, "ERR_GENERIC": 30, "success": 20, "ticket": 10},
    "human_queue": {"ticket": 50, "success": 20, "ERR_GENERIC": 20, "refused": 10},
}
ACTIONS: Mapping[str, Mapping[str, int]] = {
    "completed": {"": 97, "closed": 2, "resubmitted": 1},
    "refusal": {"": 85, "rejected": 12, "approved": 3},
    "fallback": {"": 85, "approved": 13, "retried": 2},
    "partial": {"": 85, "approved": 13, "overrode": 2},
    "human_queue": {"": 80, "compensated": 5, "reconciled": 5, "escalated": 8, "ignored": 2},
}
DECISIONS = {"": 20, "approve": 40, "reject": 20, "compensate": 10, "resume": 10}

_TEMPLATES = """
    CREATE TABLE template_{table} ENGINE = Memory AS
    SELECT rowNumberInAllBlocks() AS place, * FROM (SELECT * FROM {table} FINAL ORDER BY identity)
"""
# Every fiftieth event is a later segment of the run before it, and of the same template.
_NUMBERS = """(
    SELECT
        number AS n,
        n - (n % 50 = 49) AS run,
        run % {templates} AS place,
        toString(reinterpretAsUUID(MD5(concat('event ', toString(n))))) AS event,
        concat('run-', substring(lower(hex(MD5(toString(run)))), 1, 12)) AS run_name,
        {begin} + toInt64(n * {spacing}) + cityHash64(n, 'late') % 60000000 AS ended,
        concat('2026.', toString(intDiv(n, {release}) - cityHash64(n, 'version') % 2 + 1)) AS version_name
    FROM numbers({low}, {number})
) AS numbers"""
_SET = (
    f"SETTINGS max_block_size = {PART}, min_insert_block_size_rows = {PART}, min_insert_block_size_bytes = 0, "
    "max_insert_threads = 2"
)
_EVENT_TEXT = """
    replaceOne(replaceOne(replaceOne(replaceOne(template.event,
        template.event_id, numbers.event),
        template.run_id, run_name),
        concat('"occurred_at":', toString(toUnixTimestamp64Micro(template.occurred_at))),
        concat('"occurred_at":', toString(ended))),
        JSONExtractString(template.event, 'request', 'request_ref'),
        concat('req-', toString(if(n % 100 = 0, n + 1, n))))
"""
_OF_RUN = {
    "event_id": "numbers.event",
    "run_id": "run_name",
    "segment": "toInt64(n % 50 = 49)",
    "agent_version": "version_name",
    "occurred_at": "fromUnixTimestamp64Micro(ended, 'UTC')",
    "offset": "toInt64(n)",
    "ingested_at": "fromUnixTimestamp64Micro(ended + 1000000, 'UTC')",
    "classified_at": "fromUnixTimestamp64Micro(ended + 1000000, 'UTC')",
    "event": _EVENT_TEXT,
}
_CHANCE = "cityHash64(n, '{about}') % 100"
# Four companions of five name the event, the others the run and its segment.
_COMPANION = {
    "version": "1",
    "record_id": "concat({about}, '-', toString(n))",
    "tenant": "template.tenant",
    "event_id": "if(n % 5 > 0, numbers.event, NULL)",
    "run_id": "if(n % 5 > 0, NULL, run_name)",
    "segment": "if(n % 5 > 0, NULL, n % 50 = 49)",
    "content_digest": "template.content_digest",
    "source": "'file'",
    "partition": "template.table_digest",
    "offset": "n",
    "ingested_at": "fromUnixTimestamp64Micro(ended + 2000000, 'UTC')",
}


class Companion(NamedTuple):
    """How one sort of companions is made: its columns as SQL, and which runs have one."""

    columns: Mapping[str, str]
    condition: str


def _drawn(shares: Mapping[str, int], about: str) -> str:
    """One of the words, by chance."""
    words = ", ".join(f"'{word}'" for word, share in shares.items() for _ in range(share))
    return f"[{words}][{_CHANCE.format(about=about)} + 1]"


def _by_kind(shares: Mapping[str, Mapping[str, int]], about: str) -> str:
    cases = ", ".join(f"template.kind = '{kind}', {_drawn(each, about)}" for kind, each in shares.items())
    return f"multiIf({cases}, '')"


def companions() -> dict[str, Companion]:
    """By table. One legacy exit in thirty is missing, and one in two hundred names an event that nobody has seen."""
    later = "fromUnixTimestamp64Micro(ended + {seconds} * 1000000, 'UTC')"
    legacy = {
        "event_id": "multiIf(n % 200 = 1, concat('lost-', numbers.event), n % 5 > 0, numbers.event, NULL)",
        "dispatcher": "'legacy'",
        "dispatcher_version": "'41'",
        "label": _by_kind(LEGACY, "label"),
        "http_status": "transform(label, ['success', 'ERR_GENERIC', 'refused'], [200, 500, 403], NULL)",
        "error_class": "if(label = 'ERR_GENERIC', 'TimeoutError', NULL)",
        "retries": "if(label = 'ERR_GENERIC', n % 3, NULL)",
        "queue": "if(label = 'ticket', 'billing', NULL)",
        "user_visible": "label != 'ticket'",
        "decided_at": later.format(seconds=1),
    }
    return {
        "legacy_exits": Companion(legacy, "n % 30 != 7"),
        "recovery_actions": Companion(
            {"action": _by_kind(ACTIONS, "action"), "actor": "'op-3'", "at": later.format(seconds=7200)}, "action != ''"
        ),
        "review_events": Companion(
            {
                "review_packet_id": "template.review_packet_id",
                "event": "'decided'",
                "decision": _drawn(DECISIONS, "decision"),
                "overrode_proposal": "n % 20 = 0",
                "at": later.format(seconds=5400),
            },
            "template.kind = 'human_queue' AND decision != ''",
        ),
        "enrichments": Companion(
            {"component": "'enrichment'", "state": "'completed'", "reverses_result": "n % 20 = 0",
             "at": later.format(seconds=3600)},
            "template.kind = 'partial' AND n % 3 > 0",
        ),
    }  # fmt: skip


def statements() -> list[str]:
    """What writes a step of every table, with the numbers of the step left open."""
    made = []
    for table in ("terminal_events", "exit_classifications"):
        columns = SCHEMAS[table].names
        values = ", ".join(_OF_RUN.get(name, f"template.{name}") for name in columns)
        made.append(_insert(table, columns, values, f"template_{table}", "1"))
    for table, companion in companions().items():
        columns = {name: sql.format(about=f"'{table}'") for name, sql in _COMPANION.items()} | companion.columns
        values = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
        made.append(_insert(table, list(columns), values, "template_exit_classifications", companion.condition))
    return made


def _insert(table: str, columns: Sequence[str], values: str, templates: str, condition: str) -> str:
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {_NUMBERS} "  # noqa: S608 -- constants
        f"INNER JOIN {templates} AS template ON numbers.place = template.place WHERE {condition} {_SET}"
    )


def fill(store: Store, events: int) -> None:
    """Repeat what is stored until it is so many events, and give them their companions. Nothing is settled."""
    for table in ("terminal_events", "exit_classifications"):
        store.execute(_TEMPLATES.format(table=table))
        store.execute(f"TRUNCATE TABLE {table}")
    (row,) = store.select("SELECT count() AS templates FROM template_terminal_events")
    scale = {
        "templates": row["templates"],
        "begin": to_micros(BEGIN),
        "spacing": DAYS * 86_400 * 1_000_000 / events,
        "release": max(1, events * RELEASE_DAYS // DAYS),
    }
    for low in range(0, events, STEP):
        number = min(STEP, events - low)
        for statement in statements():
            store.execute(statement.format(low=low, number=number, **scale))
        say(f"{low + number:,} of {events:,} events stored")
    for table in ("terminal_events", "exit_classifications"):
        store.execute(f"DROP TABLE template_{table}")


def made(events: int, directory: Path) -> Path:
    """The store with so many events, made unless it is there."""
    path = directory / f"shadow-{events}"
    if path.exists():
        return path
    unfinished = directory / f"shadow-{events}.part"
    container = generated(min(TEMPLATES, events), directory)
    run([*OFFRAMP, "classify", "--store", str(unfinished), str(container)], directory / "out")
    with opened(unfinished) as store:
        fill(store, events)
    unfinished.rename(path)
    return path


def opened(path: Path) -> AbstractContextManager[Store]:
    """The store, owned by this process while the context lasts."""
    return open_store(
        path, holder="bench.shadow", lock_timeout_s=0, now=lambda: time.time_ns() // 1000, wait=time.sleep
    )


# --- what is measured ------------------------------------------------------------------------------------------------


def reports(same: Path, other: Path) -> dict[str, list[str]]:
    """The verbs that look at every run, by name: under a table that decides the same, and one that does not, too. The
    first one settles them all."""
    compare = ["shadow", "compare", "--format"]
    return {
        **{f"shadow compare --format {form}": [*compare, form] for form in ("table", "html", "json", "csv", "parquet")},
        "shadow compare --table, the same exits": [*compare, "json", "--table", str(same)],
        "shadow compare --table, other exits": [*compare, "json", "--table", str(other), "--unproven"],
        "shadow readiness": ["shadow", "readiness"],
    }


def best(command: Sequence[str], scratch: Path) -> Cost:
    """The fastest of several runs of a verb, with the most memory of any."""
    costs = [run([*OFFRAMP, *command], scratch / "out") for _ in range(ROUNDS)]
    return replace(min(costs, key=lambda cost: cost.wall_s), peak_bytes=max(cost.peak_bytes for cost in costs))


def pages(path: Path) -> dict[str, float]:
    """Seconds until the first hundred rows of each view are there, and the newest hundred where it has a time."""
    asked = {f"{view}, first page": f"SELECT * FROM {view} LIMIT 100" for view in VIEWS}  # noqa: S608 -- names
    for view in ("v_comparison", "v_disagreements"):
        asked[f"{view}, newest first"] = f"SELECT * FROM {view} ORDER BY occurred_at DESC LIMIT 100"  # noqa: S608 -- names
    with opened(path) as store:
        return {name: min(_timed(store, sql) for _ in range(ROUNDS)) for name, sql in asked.items()}


def _timed(store: Store, sql: str) -> float:
    started = time.perf_counter()
    store.query(sql)
    return time.perf_counter() - started


def _pages_apart(path: Path, scratch: Path) -> tuple[dict[str, float], Cost]:
    """The same in a process of its own, and what that cost."""
    cost = run([sys.executable, "-m", "bench.shadow", "--pages", str(path)], scratch / "pages")
    return json.loads((scratch / "pages").read_text()), cost


def settle(path: Path, scratch: Path) -> Cost:
    """Settle every run, as the first question does."""
    return run([*OFFRAMP, "query", "--store", str(path), "SELECT count() FROM v_comparison"], scratch / "out")


def measure(path: Path, scratch: Path) -> Iterator[Target]:
    """Everything that is claimed, as it is found; the cost of each on stderr."""
    _told("settling every run", settle(path, scratch))
    same, other = scratch / "same.toml", scratch / "other.toml"
    same.write_text(_renamed(default_text()))
    other.write_text(_edited(_renamed(default_text())))
    for name, command in reports(same, other).items():
        cost = best([*command, "--store", str(path)], scratch)
        _told(name, cost)
        yield Target(name, cost.wall_s, REPORT_S, " s")
        yield Target(f"{name}, peak memory", cost.peak_bytes / MB, PEAK_BYTES / MB, " MB")
    found, cost = _pages_apart(path, scratch)
    _told("all pages", cost)
    for name, seconds in found.items():
        yield Target(name, seconds * 1000, PAGE_S * 1000, " ms")
    yield Target("first pages, peak memory", cost.peak_bytes / MB, PEAK_BYTES / MB, " MB")


def _renamed(text: str) -> str:
    """The default table under another version, which decides as it does."""
    return text.replace('\nversion = "', '\nversion = "candidate-', 1)


def _edited(text: str) -> str:
    """A table that sends to people what failed by a dependency, and holds fewer results to be safe partial ones."""
    wider = text.replace('when = "no_progress"', 'when = "no_progress or dependency_failed"')
    return wider.replace('when = "omission and safe_partial"', 'when = "omission and safe_partial and no_progress"')


def _told(name: str, cost: Cost) -> None:
    say(f"{name}: {cost.wall_s:.1f} s, {cost.cpu_s:.1f} s of processor time, peak {cost.peak_bytes / MB:,.0f} MB")


def main() -> None:
    """Measure as the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m bench.shadow", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--events", type=int, default=10_000_000, help="number of stored events")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the store here and use it again")
    parser.add_argument("--pages", type=Path, metavar="STORE", help="only time the pages of a store, as JSON")
    options = parser.parse_args()
    if options.pages is not None:
        json.dump(pages(options.pages), sys.stdout)
        return
    os.environ.setdefault("OFFRAMP_REDACTION__KEY", "0" * 32)
    with kept(options.keep) as directory, tempfile.TemporaryDirectory(prefix="offramp-bench-") as scratch:
        try:
            found = [*measure(made(options.events, directory), Path(scratch))]
        except subprocess.CalledProcessError as error:
            sys.exit(f"{error}\n{error.output.decode(errors='replace')}")
    print(*found, sep="\n")
    sys.exit(0 if all(target.holds for target in found) else 1)


if __name__ == "__main__":
    main()
