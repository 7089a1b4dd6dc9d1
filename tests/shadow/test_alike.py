"""Runs that are counted where they are alike, against the same runs judged one by one in Python."""

import tempfile
from collections import Counter
from datetime import date
from decimal import Decimal
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from classifier.decide import Classifier
from classifier.facts import BY_NAME
from classifier.table import default_text, load
from schemas.exits import KINDS
from shadow.accepted import Accepted
from shadow.alike import Runs
from shadow.candidate import Candidate
from shadow.disagreement import judge, pair_of
from shadow.literal import literal
from shadow.recovery import recovery
from shadow.report import LEGACY_KINDS, SLICES, WORST_FIRST, Question, report
from shadow.scope import Scope
from sinks.store import open_store
from tests.shadow.literals import value

NOW, MINUTE = 1_772_323_200_000_000, 60_000_000
FACTS = (
    "completion_claimed", "predicate_satisfied", "predicate_unsatisfied", "no_progress", "omission", "safe_partial",
    "ambiguous_effect", "idempotency_protected", "standing_denial", "dependency_failed",
)  # fmt: skip
COLUMNS = (
    "tenant", "subject", "event_id", "agent_id", "workflow", "occurred_at", "pairing", "kind", "reason_code", "rule_id",
    "verified", "prohibited", "facts", "fact_bits", "classifier_version", "obligations", "ambiguous", "legacy_kind",
    "legacy_label", "legacy_retries", "verdict", "disagreement", "owner", "harm", "actions", "decisions", "overrode",
    "recovery", "reversed", "settled_at",
)  # fmt: skip

EDITED = default_text().replace('when = "no_progress"', 'when = "no_progress or dependency_failed"')
EDITED = EDITED.replace('when = "omission and safe_partial"', 'when = "omission and safe_partial and no_progress"')


@cache
def decided(bits, *, edited):
    return Classifier(load(EDITED if edited else default_text()), unproven=True)._decide(bits)


def exit_of(row, *, edited):
    """The row with the exit that a table gives it, and all that follows from that."""
    known = decided(row["fact_bits"], edited=edited)
    stored = decided(row["fact_bits"], edited=False)
    own = row["reason_code"] if stored.rule_id == known.rule_id else known.rule_id
    reason = own if known.takes_reason and known.reason != "table_violates_invariant" else known.reason
    pair = pair_of(known.kind, frozenset(row["facts"]), row["legacy_kind"], row["legacy_retries"])
    verdict = judge(pair) if row["legacy_kind"] else ("unpaired", "", "", "")
    said = [*row["actions"], *row["decisions"], *(["overrode_proposal"] if row["overrode"] else [])]
    return row | {
        "kind": known.kind, "rule_id": known.rule_id, "reason_code": reason, "verified": known.verified,
        "prohibited": known.prohibited, "ambiguous": pair.ambiguous, "recovery": recovery(known.kind, said),
        **dict(zip(("verdict", "disagreement", "owner", "harm"), verdict, strict=True)),
    }  # fmt: skip


def under_candidate(row):
    """The row as the candidate would have it, to which a partial is reversed only where it is one."""
    judged = exit_of(row, edited=True)
    return judged | {"reversed": row["reversed"] and judged["kind"] == "partial"}


@st.composite
def runs(draw):
    facts = draw(st.sets(st.sampled_from(FACTS), max_size=4))
    facts |= draw(st.sampled_from([set(), {"omission", "safe_partial"}]))
    legacy = draw(st.sampled_from(["", *LEGACY_KINDS]))
    row = {
        "tenant": draw(st.sampled_from(["acme", "o'neill", "größe", "a"])),
        "agent_id": draw(st.sampled_from(["a", "pay"])),
        "workflow": draw(st.sampled_from([None, "", "pay", "a"])), "moment": NOW - draw(st.integers(0, 60)) * MINUTE,
        "pairing": "paired" if legacy else "legacy_missing", "facts": sorted(facts), "reason_code": "from_evidence",
        "fact_bits": sum(BY_NAME[fact].bit for fact in facts),
        "classifier_version": draw(st.sampled_from(["now", "now", "now", "old"])),
        "obligations": draw(st.sampled_from([0, 1, 2, 1023, 5000])), "legacy_kind": legacy,
        "legacy_label": draw(st.sampled_from(["boom", "it's"])) if legacy else None,
        "legacy_retries": draw(st.sampled_from([None, 0, 3])) if legacy else None,
        "actions": draw(st.lists(st.sampled_from(["approved", "rejected", "closed", "odd"]), max_size=2)),
        "decisions": draw(st.lists(st.sampled_from(["approve", "reject"]), max_size=1)),
        "overrode": draw(st.booleans()), "reversed": draw(st.booleans()),
    }  # fmt: skip
    made = exit_of(row, edited=False)
    made["reversed"] = made["reversed"] and made["kind"] == "partial"
    # An older version calls other bits by the same names, so that bits alone do not tell facts.
    return made if row["classifier_version"] == "now" else made | {"fact_bits": made["fact_bits"] ^ 1 << 3}


def written(row, number):
    instant = f"fromUnixTimestamp64Micro({row['moment']}, 'UTC')"
    made = {name: value(each) for name, each in row.items()}
    made |= {"subject": f"'{number}'", "event_id": f"'ev-{number:03}'", "occurred_at": instant, "settled_at": instant}
    return f"({', '.join(made[name] for name in COLUMNS)})"


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


SCOPES = st.fixed_dictionaries(
    {}, optional={"tenant": st.just("o'neill"), "agent_id": st.just("a"), "workflow": st.just("pay"),
                  "legacy_label": st.just("it's")}
)  # fmt: skip
ENTRIES = st.builds(
    lambda names, kind: Accepted(
        kind=kind, owner="o", reason="r", ticket="t", expires=date(2200, 1, 1), ceiling=Decimal(1), **names
    ),
    SCOPES, st.sampled_from(["human_queue", "completed"]),
)  # fmt: skip


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=st.lists(runs(), max_size=25), entries=st.lists(ENTRIES, max_size=2), edited=st.booleans())
def test_counted_together_is_counted_one_by_one(store, rows, entries, edited):
    store.execute("TRUNCATE TABLE comparisons")
    if rows:
        content = ", ".join(written(row, number) for number, row in enumerate(rows))
        store.execute(f"INSERT INTO comparisons ({', '.join(COLUMNS)}) VALUES {content}")  # noqa: S608 -- literals
    why = "if(classifier_version != 'now', 'classifier_version', '')"
    candidate = Candidate(load(EDITED), why) if edited else None
    found = report(store.select, Question(Scope(), NOW, 0, accepted=tuple(entries), candidate=candidate))
    numbered = [(number, row) for number, row in enumerate(rows) if not edited or row["classifier_version"] == "now"]
    assert found.not_replayable == (
        {"classifier_version": len(rows) - len(numbered)} if len(rows) > len(numbered) else {}
    )
    kept = [(number, under_candidate(row) if edited else row) for number, row in numbered]
    pairs = [row for _, row in kept if row["legacy_kind"]]
    assert found.coverage.paired == len(pairs)
    assert found.cells == Counter((row["legacy_kind"], row["kind"]) for row in pairs)
    assert found.harms == Counter(row["harm"] for row in pairs if row["harm"])
    said = Counter((row["kind"], row["reason_code"], row["recovery"]) for _, row in kept)
    counted = {(each.kind, each.reason_code, name): getattr(each, name)
               for each in found.recovery for name in ("supports", "contradicts", "silent")}  # fmt: skip
    assert {key: number for key, number in counted.items() if number} == said
    assert found.prohibited_exits == sum(row["kind"] in row["prohibited"] for _, row in kept)
    assert found.reversals == sum(row["reversed"] for _, row in kept)
    assert [each.count.pairs for each in found.accepted] == [sum(e.covers(row) for row in pairs) for e in entries]
    open_ = [(number, row) for number, row in kept
             if row["verdict"] == "disagree" and not any(entry.covers(row) for entry in entries)]  # fmt: skip
    counts = {each.name: each.runs.count for each in found.disagreements if each.runs.count}
    assert counts == Counter(row["disagreement"] for _, row in open_)
    worst = {each.name: each.examples for each in found.disagreements} | {"": found.reversal_examples}
    for name, examples in worst.items():
        mine = [each for each in open_ if each[1]["disagreement"] == name] if name else [
            each for each in kept if each[1]["reversed"]]  # fmt: skip
        mine.sort(key=lambda each: (
            (*WORST_FIRST, "").index(each[1]["harm"]), -each[1]["obligations"], -each[1]["moment"], each[1]["tenant"],
            each[0],
        ))  # fmt: skip
        assert [each.event_id for each in examples] == [f"ev-{number:03}" for number, _ in mine[:3]]
        assert [each.kind for each in examples] == [row["kind"] for _, row in mine[:3]]
    first = min((row["moment"] for _, row in kept), default=0)
    width = (max((row["moment"] for _, row in kept), default=0) - first) // SLICES + 1
    for each in found.disagreements:
        parts = Counter((row["moment"] - first) // width for _, row in open_ if row["disagreement"] == each.name)
        assert [part.count for part in each.trend] in ([parts[part] for part in range(SLICES)], [])
        assert each.trend or not parts


def test_the_same_names_in_other_places_are_another_group(store):
    store.execute("TRUNCATE TABLE comparisons")
    names = [*product(("x", "y", "z"), repeat=4)]
    rows = ", ".join(
        f"('{number}', {', '.join(map(literal, row))}, fromUnixTimestamp64Micro({NOW}), 'legacy_missing')"
        for number, row in enumerate(names)
    )
    named = ("tenant", "agent_id", "workflow", "reason_code")
    store.execute(f"INSERT INTO comparisons (subject, {', '.join(named)}, occurred_at, pairing) VALUES {rows}")  # noqa: S608
    groups = Runs(Scope()).alike(named, {"runs": "count()"})
    found = store.select(f"SELECT {', '.join(named)}, runs FROM {groups}", Scope().parameters)  # noqa: S608
    assert sorted(tuple(row.values()) for row in found) == [(*row, 1) for row in names]


def test_every_kind_can_come_of_these_facts():
    bits = [BY_NAME[fact].bit for fact in FACTS]
    kinds = {decided(one | other, edited=True).kind for one in bits for other in bits}
    assert kinds >= set(KINDS) - {"fallback", "partial"}
