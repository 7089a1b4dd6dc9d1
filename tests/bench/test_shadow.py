"""What is timed is a store whose records fit each other: by counts that can be told from how it is made."""

import pytest

from bench import shadow
from bench.watch import Cost
from classifier.table import default_text, load
from tests.offramp.kit import run_alone

EVENTS = 3_000

_CHECKS = {
    "events": "SELECT uniqExact(tenant, event_id) FROM terminal_events",
    "exits": "SELECT uniqExact(tenant, event_id) FROM exit_classifications",
    "runs": "SELECT uniqExact(tenant, run_id) FROM exit_classifications",
    "texts": "SELECT count() FROM terminal_events WHERE JSONExtractString(event, 'event_id') = event_id"
    " AND JSONExtractString(event, 'run_id') = run_id"
    " AND JSONExtractInt(event, 'occurred_at') = toUnixTimestamp64Micro(occurred_at)",
    "legacy": "SELECT count() FROM legacy_exits",
    "strangers": "SELECT count() FROM legacy_exits WHERE event_id NOT IN (SELECT event_id FROM terminal_events)",
    "lone reviews": "SELECT count() FROM review_events WHERE event_id NOT IN (SELECT event_id FROM terminal_events)",
    "left": "SELECT count() FROM system.tables WHERE database = currentDatabase() AND name LIKE 'template%'",
}


def test_the_records_of_the_store_fit_each_other(tmp_path):
    program = (
        "import sys; from pathlib import Path; from bench.shadow import made; made(int(sys.argv[1]), Path(sys.argv[2]))"
    )
    done = run_alone(str(EVENTS), str(tmp_path), program=("-c", program))
    assert done.status == 0, done.err
    store = str(tmp_path / f"shadow-{EVENTS}")
    asked = ", ".join(f"({sql}) AS `{name}`" for name, sql in _CHECKS.items())
    [found] = run_alone("query", "--store", store, "--format", "csv", f"SELECT {asked}").text.splitlines()[1:]
    counts = dict(zip(_CHECKS, map(int, found.split(",")), strict=True))
    assert counts == {
        "events": EVENTS, "exits": EVENTS, "texts": EVENTS, "runs": EVENTS * 49 // 50,
        "legacy": EVENTS * 29 // 30, "strangers": EVENTS // 200, "lone reviews": 0, "left": 0,
    }  # fmt: skip


def test_the_candidate_decides_as_the_default_under_another_name():
    edited, default = load(shadow._edited(default_text())), load(default_text())
    assert edited.digest != default.digest
    assert [row.kind for row in edited.rows] == [row.kind for row in default.rows]


def test_the_fastest_run_counts_and_the_most_memory(monkeypatch, tmp_path):
    costs = iter([Cost(3.0, 1.0, 5), Cost(2.0, 1.5, 9), Cost(4.0, 0.5, 7)])
    monkeypatch.setattr(shadow, "run", lambda command, output: next(costs))
    assert shadow.best(["anything"], tmp_path) == Cost(2.0, 1.5, 9)


@pytest.mark.parametrize("words", [*shadow.LEGACY.values(), *shadow.ACTIONS.values(), shadow.DECISIONS])
def test_shares_are_of_a_hundred(words):
    assert sum(words.values()) == 100
