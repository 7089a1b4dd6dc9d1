"""The report against a count of the rows one by one in Python, over random rows; and the parts of it that are pure."""

import tempfile
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.exits import KINDS
from shadow.costs import CostsError, bill, parse
from shadow.disagreement import NAMES
from shadow.report import LEGACY_KINDS, SLICES, WORST_FIRST, Question, report
from shadow.scope import Scope
from shadow.shares import Share
from shadow.wording import percent, sparkline
from sinks.store import open_store
from tests.shadow.literals import value

NOW, HOUR = 1_772_323_200_000_000, 3_600_000_000
PATIENCE = 2 * HOUR
COLUMNS = (
    "tenant", "subject", "unseen", "event_id", "superseded", "agent_id", "agent_version", "workflow", "occurred_at",
    "pairing", "kind", "reason_code", "verified", "prohibited", "facts", "fact_bits", "evidence_gaps",
    "obligations", "ambiguous", "packet_completeness", "legacy_kind", "legacy_label", "legacy_contested", "verdict",
    "disagreement", "owner", "harm", "recovery", "reversed", "settled_at",
)  # fmt: skip

FACTS = ("completion_claimed", "predicate_unsatisfied", "no_progress", "budget_exhausted")
AWKWARD = ("o'neill\\", "größe\n", "<b>", "")


@st.composite
def compared(draw):
    """A row as settling would write it: its parts fit each other."""
    pairing = draw(st.sampled_from(["paired", "paired", "paired", "legacy_missing", "event_missing"]))
    lone = pairing == "event_missing"
    kind = "" if lone else draw(st.sampled_from(KINDS))
    legacy = "" if pairing == "legacy_missing" else draw(st.sampled_from(LEGACY_KINDS))
    verdict = "unpaired" if pairing != "paired" else "unmapped" if legacy == "unmapped" else draw(
        st.sampled_from(["agree", "disagree"]))  # fmt: skip
    disagrees = verdict == "disagree"
    return {
        "tenant": draw(st.sampled_from(["acme", "o'neill"])),
        "agent_id": "" if lone else draw(st.sampled_from(["a", "größe <b>"])),
        "agent_version": None if lone else draw(st.sampled_from([None, "1"])),
        "workflow": None if lone else draw(st.sampled_from([None, "pay"])),
        "moment": NOW - draw(st.integers(0, 12)) * HOUR // 3,
        "superseded": 0 if lone else draw(st.integers(0, 2)),
        "pairing": pairing, "kind": kind, "legacy_kind": legacy, "verdict": verdict,
        "reason_code": "" if lone else draw(st.sampled_from(["limit", "timeout"])),
        "verified": kind == "completed" and draw(st.booleans()),
        "prohibited": [] if lone else draw(st.lists(st.sampled_from(KINDS), unique=True, max_size=2)),
        "facts": [] if lone else draw(st.lists(st.sampled_from(FACTS), unique=True)),
        "evidence_gaps": [] if lone else draw(st.lists(st.sampled_from(
            ["model: stop_class missing", "fallback a: b: version missing", "tool_call o'x: required missing"]),
            unique=True)),
        "obligations": 0 if lone else draw(st.integers(0, 2)),
        "ambiguous": kind == "human_queue" and draw(st.booleans()),
        "packet_completeness": draw(st.sampled_from([0.5, 1.0])) if kind == "human_queue" else None,
        "legacy_label": draw(st.sampled_from(AWKWARD)) if legacy else None,
        "legacy_contested": bool(legacy) and draw(st.booleans()),
        "disagreement": draw(st.sampled_from(NAMES[:3])) if disagrees else "",
        "owner": "somebody" if disagrees else "",
        "harm": draw(st.sampled_from(["", *WORST_FIRST])) if disagrees else "",
        "recovery": "silent" if lone else draw(st.sampled_from(["silent", "supports", "contradicts"])),
        "reversed": kind == "partial" and draw(st.booleans()),
    }  # fmt: skip


def written(row, number):
    """The row as literals, in the order of the columns."""
    instant = f"fromUnixTimestamp64Micro({row['moment']}, 'UTC')"
    event = "" if row["pairing"] == "event_missing" else f"ev-{number:03}"
    made = {
        **{name: value(each) for name, each in row.items()}, "subject": f"'{number}'", "event_id": f"'{event}'",
        "unseen": str(not event), "occurred_at": instant, "settled_at": instant, "fact_bits": str(_bits(row)),
    }  # fmt: skip
    return f"({', '.join(made[name] for name in COLUMNS)})"


def _bits(row):
    """Facts and what they rule out follow from the bits."""
    facts = sum(1 << FACTS.index(fact) for fact in row["facts"])
    return facts + sum(1 << 8 + KINDS.index(kind) for kind in row["prohibited"])


@pytest.fixture(scope="module")
def store():
    with (
        tempfile.TemporaryDirectory() as folder,
        open_store(
            Path(folder) / "new", holder="test", lock_timeout_s=0, now=lambda: NOW, wait=lambda s: None
        ) as opened,
    ):
        opened.migrate()
        yield opened


def asked(store, rows, scope=Scope()):  # noqa: B008 -- frozen
    store.execute("TRUNCATE TABLE comparisons")
    if rows:
        content = ", ".join(written(row, number) for number, row in enumerate(rows))
        store.execute(f"INSERT INTO comparisons ({', '.join(COLUMNS)}) VALUES {content}")  # noqa: S608 -- literals
    return report(store.select, Question(scope, NOW, PATIENCE))


def count(rows, **wanted):
    return sum(all(row[name] == each for name, each in wanted.items()) for row in rows)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=st.lists(compared(), max_size=25))
def test_every_number_is_a_count_of_rows(store, rows):
    found = asked(store, rows)
    seen, pairs = found.coverage, [row for row in rows if row["pairing"] == "paired"]
    events = [row for row in rows if row["pairing"] != "event_missing"]
    missing = [row for row in rows if row["pairing"] == "legacy_missing"]
    assert (seen.runs, seen.paired, seen.legacy_missing) == (len(events), len(pairs), len(missing))
    assert seen.waiting == sum(row["moment"] > NOW - PATIENCE for row in missing)
    assert seen.event_missing == len(rows) - len(events)
    assert seen.unmapped == count(pairs, legacy_kind="unmapped")
    assert seen.contested == count(rows, legacy_contested=True)
    assert seen.with_gaps == sum(bool(row["evidence_gaps"]) for row in rows)
    assert seen.superseded == sum(row["superseded"] for row in rows)
    gaps = Counter(gap for row in rows for gap in row["evidence_gaps"])
    named = {"model: stop_class missing": ("model", "stop_class"), "fallback a: b: version missing":
             ("fallback", "version"), "tool_call o'x: required missing": ("tool_call", "required")}  # fmt: skip
    assert {(gap.record, gap.field): gap.times for gap in seen.gaps} == {named[gap]: n for gap, n in gaps.items()}
    labels = Counter(row["legacy_label"] for row in rows if row["legacy_kind"] == "unmapped")
    assert {label.label: label.runs for label in seen.labels} == labels
    assert found.cells == Counter((row["legacy_kind"], row["kind"]) for row in pairs)
    assert found.agreement == Share(count(pairs, verdict="agree"), len(pairs) - seen.unmapped)
    names = Counter(row["disagreement"] for row in pairs if row["verdict"] == "disagree")
    assert {each.name: each.runs.count for each in found.disagreements} == names
    assert found.harms == Counter(row["harm"] for row in pairs if row["harm"])
    assert {(row.kind, row.reason_code): (row.supports, row.contradicts, row.silent) for row in found.recovery} == {
        (kind, reason): tuple(
            count(events, kind=kind, reason_code=reason, recovery=said)
            for said in ("supports", "contradicts", "silent")
        )
        for kind, reason in {(row["kind"], row["reason_code"]) for row in events}
    }
    assert found.reversals == count(events, reversed=True)
    assert found.prohibited_exits == sum(row["kind"] in row["prohibited"] for row in events)
    judged = [row for row in pairs if row["legacy_kind"] != "unmapped"]
    assert found.ruled_out == sum(row["legacy_kind"] in row["prohibited"] for row in judged)
    ends = {each.behaviour.name: each.runs.count for each in found.behaviours}
    assert ends["successful_completion"] == count(events, kind="completed", verified=True)
    assert ends["unverified_completion"] == count(events, kind="completed", verified=False)
    assert ends["premature_completion"] == sum(
        {"completion_claimed", "predicate_unsatisfied"} <= set(row["facts"]) for row in events
    )
    assert ends["no_progress"] == sum("no_progress" in row["facts"] for row in events)
    failed = [row for row in events if row["kind"] != "completed"]
    unsafe = sum(row["obligations"] > 0 or row["ambiguous"] for row in failed)
    assert (ends["safe_failure"], ends["unsafe_failure"]) == (len(failed) - unsafe, unsafe)
    assert found.hand_off.whole == Share(count(events, packet_completeness=1.0), count(events, kind="human_queue"))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=st.lists(compared(), max_size=25))
def test_trend_and_examples(store, rows):
    found = asked(store, rows)
    judged = [(number, row) for number, row in enumerate(rows) if row["verdict"] in ("agree", "disagree")]
    for each in found.disagreements:
        mine = [(number, row) for number, row in judged if row["disagreement"] == each.name]
        assert sum(part.count for part in each.trend) == len(mine)
        assert sum(part.of for part in each.trend) == len(judged)
        assert len(each.trend) == SLICES
        first, last = (edge(row["moment"] for row in rows) for edge in (min, max))
        width = (last - first) // SLICES + 1
        early = sum((row["moment"] - first) // width < SLICES // 2 for _, row in mine)
        assert [half.count for half in each.halves] == [early, len(mine) - early]
        worst = sorted(mine, key=lambda pair: (
            (*WORST_FIRST, "").index(pair[1]["harm"]), -pair[1]["obligations"], -pair[1]["moment"], pair[1]["tenant"],
            pair[0],
        ))  # fmt: skip
        assert [example.event_id for example in each.examples] == [f"ev-{number:03}" for number, _ in worst[:3]]


PAIR = {
    "tenant": "acme", "agent_id": "a", "agent_version": None, "workflow": None, "moment": NOW, "superseded": 0,
    "pairing": "paired", "kind": "human_queue", "legacy_kind": "error", "verdict": "disagree", "reason_code": "limit",
    "verified": False, "prohibited": [], "facts": [], "evidence_gaps": [], "obligations": 0, "ambiguous": True,
    "packet_completeness": None, "legacy_label": "boom", "legacy_contested": False, "disagreement": NAMES[0],
    "owner": "somebody", "harm": "", "recovery": "silent", "reversed": False,
}  # fmt: skip


def test_examples_are_worst_by_harm_then_by_what_is_owed_then_by_time(store):
    later = [
        {},
        {"moment": NOW - HOUR, "obligations": 1},
        {"moment": NOW - 2 * HOUR, "obligations": 2},
        {"moment": NOW - 3 * HOUR, "harm": WORST_FIRST[-1]},
        {"moment": NOW - 4 * HOUR, "harm": WORST_FIRST[0]},
    ]
    [disagreement] = asked(store, [PAIR | each for each in later]).disagreements
    assert [example.event_id for example in disagreement.examples] == ["ev-004", "ev-003", "ev-002"]
    [disagreement] = asked(store, [PAIR | each for each in later[:3]]).disagreements
    assert [example.event_id for example in disagreement.examples] == ["ev-002", "ev-001", "ev-000"]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=st.lists(compared(), max_size=25), since=st.integers(0, 5), until=st.integers(0, 5))
def test_a_scope(store, rows, since, until):
    scope = Scope(NOW - since * HOUR, NOW - until * HOUR, "o'neill", "größe <b>", "pay")
    seen = asked(store, rows, scope).coverage
    everybodys = asked(store, rows, Scope(scope.since, scope.until)).coverage
    assert everybodys.runs == sum(
        scope.since <= row["moment"] < scope.until for row in rows if row["pairing"] != "event_missing"
    )
    within = [row for row in rows if scope.since <= row["moment"] < scope.until and row["tenant"] == "o'neill"]
    mine = [row for row in within if (row["agent_id"], row["workflow"]) == ("größe <b>", "pay")]
    assert seen.runs == len(mine)
    assert seen.event_missing == count(within, pairing="event_missing")


# --- costs and words


def test_a_bill_is_exact():
    costs = parse('unit = "EUR"\n' + "\n".join(
        f'[[cells]]\nlegacy = "{legacy}"\nnew = "completed"\ncost = {cost}'
        for legacy, cost in (("error", "0.1"), ("refusal", "0.25"), ("partial", "7"))
    ))  # fmt: skip
    cells = {("error", "completed"): 3, ("refusal", "completed"): 10**9, ("fallback", "refusal"): 4}
    made = bill(costs, cells, {("error", "completed"): 3, ("fallback", "refusal"): 4})
    assert made.total == Decimal("250000000.3")
    assert [(cell.legacy, cell.total) for cell in made.cells] == [("refusal", Decimal("250000000.00")),
                                                                 ("error", Decimal("0.3"))]  # fmt: skip
    assert (made.unpriced, made.text(made.total)) == (4, "250,000,000.30")


@pytest.mark.parametrize(
    "text", ["cost = 1", 'unit = "EUR"\ncells = 3', 'unit = "x"\n[[cells]]\ncost = true', "[" * 9999]
)
def test_what_is_no_file_of_costs(text):
    with pytest.raises(CostsError) as error:
        parse(text)
    assert error.value.problems


@pytest.mark.parametrize(
    ("number", "said"),
    [(0.0, "0.0%"), (1e-9, "<0.1%"), (0.0005, "0.1%"), (0.5, "50.0%"), (0.9995, ">99.9%"), (1 - 1e-12, ">99.9%"),
     (1.0, "100.0%")],
)  # fmt: skip
def test_a_share_never_reads_as_none_or_all_by_rounding(number, said):
    assert percent(number) == said


def test_a_sparkline_has_a_gap_where_nothing_was_counted():
    assert sparkline((Share(0, 4), Share(0, 0), Share(1, 4), Share(2, 4))) == "▁ ▅█"
    assert sparkline((Share(0, 4),)) == "▁"
