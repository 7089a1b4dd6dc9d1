"""What an accepted difference covers, as SQL in the engine against the same rule in Python."""

import tempfile
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shadow.accepted import Accepted, Count, Standing, counts_sql, standing, verdicts
from sinks.store import open_store

COLUMNS = ("disagreement", "legacy_label", "kind", "reason_code", "tenant", "agent_id", "workflow")
NULLABLE = ("legacy_label", "workflow")
NOW = 1_793_606_820_000_000


def no_wait(seconds):
    raise AssertionError("nothing holds the store")


@pytest.fixture(scope="module")
def store():
    with (
        tempfile.TemporaryDirectory() as folder,
        open_store(Path(folder) / "new", holder="test", lock_timeout_s=0, now=lambda: NOW, wait=no_wait) as opened,
    ):
        yield opened


# Few texts, so that they often meet, and all of them such as somebody could break out of a literal with.
HOSTILE = st.sampled_from(
    ["a", "O'Brien", "\\", "\\'", "' OR 1 = 1 --", "Söhne\n", "{x:String}", "%", "\t\x7f\U0001f600"]
)
NAMES = st.sampled_from(["over_escalation", "success_lost"])
KINDS = st.sampled_from(["completed", "partial"])


def given_or_not(strategy):
    return st.none() | strategy


ENTRIES = st.builds(
    Accepted,
    disagreement=NAMES,
    legacy_label=given_or_not(HOSTILE),
    kind=given_or_not(KINDS),
    reason_code=given_or_not(HOSTILE),
    tenant=given_or_not(HOSTILE),
    agent_id=given_or_not(HOSTILE),
    workflow=given_or_not(HOSTILE),
    owner=st.just("o"),
    reason=st.just("r"),
    ticket=st.just("t"),
    expires=st.sampled_from([date(2020, 1, 1), date(2030, 1, 1)]),
    ceiling=st.sampled_from([Decimal("0.4"), Decimal(1)]),
)
ROWS = st.fixed_dictionaries(
    {
        "pairing": st.sampled_from(["paired", "paired", "legacy_missing"]),
        "verdict": st.sampled_from(["disagree", "disagree", "agree"]),
        "disagreement": NAMES,
        "kind": KINDS,
        **{
            name: given_or_not(HOSTILE) if name in NULLABLE else HOSTILE
            for name in COLUMNS
            if name not in ("disagreement", "kind")
        },
    }
)


def table(rows):
    """The rows as a subquery, and its parameters."""
    parts, parameters = [], {}
    for number, row in enumerate(rows):
        columns = []
        for name in ("pairing", "verdict", *COLUMNS):
            parameter = f"{name}_{number}"
            parameters[parameter] = row[name]
            kind = "Nullable(String)" if name in NULLABLE else "String"
            columns.append(f"{{{parameter}:{kind}}} AS {name}")
        parts.append(f"SELECT {number} AS number, {', '.join(columns)}")
    return f"({' UNION ALL '.join(parts)})", parameters


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ENTRIES, min_size=1, max_size=3), st.lists(ROWS, min_size=1, max_size=6))
def test_the_engine_covers_what_the_rule_covers(store, entries, rows):
    subquery, parameters = table(rows)
    [counted] = store.select(f"SELECT {counts_sql(entries)} FROM {subquery}", parameters)  # noqa: S608
    expected = [
        Count(
            sum(entry.covers(row) for row in rows),
            sum(
                row["pairing"] == "paired" and all(row[name] == value for name, value in entry.scope.items())
                for row in rows
            ),
        )
        for entry in entries
    ]
    assert list(map(Count, counted["pairs"], counted["paired"])) == expected
    judged = verdicts(entries, expected, NOW)
    sql = f"SELECT number, {Standing.of(judged).sql} AS accepted FROM {subquery} ORDER BY number"  # noqa: S608
    answers = [bool(each["accepted"]) for each in store.select(sql, parameters)]
    assert answers == [standing(judged, row) is not None for row in rows]
