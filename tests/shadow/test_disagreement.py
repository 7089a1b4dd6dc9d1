"""The named disagreements: by hand, over everything that can be asked, and in SQL as in Python."""

import itertools
import tempfile
from pathlib import Path

import pytest

from schemas.exits import KINDS
from shadow.disagreement import NAMES, OWNERS, ROWS, Pair, flags_sql, judge, judge_sql, pair_of
from shadow.literal import literal
from sinks.store import open_store

LEGACY = (*KINDS, "error", "unmapped")
FLAGS = ("retried", "ambiguous", "premature")
SPACE = [
    Pair(kind, legacy, *flags)
    for kind, legacy, flags in itertools.product(KINDS, LEGACY, itertools.product((False, True), repeat=3))
]


def no_wait(seconds):
    raise AssertionError("nothing holds the store")


@pytest.fixture(scope="module")
def store():
    with (
        tempfile.TemporaryDirectory() as folder,
        open_store(Path(folder) / "new", holder="test", lock_timeout_s=0, now=lambda: 0, wait=no_wait) as opened,
    ):
        yield opened


PLAIN = {
    # What a pair is called without retry or flags, by new exit; columns as in LEGACY.
    "completed": ("", "success_lost*", "?", "?", "over_escalation", "success_lost", "unmapped"),
    "refusal": ("denial_hidden", "", "?", "?", "?", "denial_retried", "unmapped"),
    "fallback": ("silent_fallback", "over_refusal", "", "?", "outage_escalated", "?", "unmapped"),
    "partial": (
        "incompleteness_concealed",
        "over_refusal",
        "?",
        "",
        "outage_escalated",
        "partial_discarded",
        "unmapped",
    ),
    "human_queue": ("incompleteness_concealed", "over_refusal", "?", "?", "", "judgement_lost", "unmapped"),
}


@pytest.mark.parametrize(("kind", "legacy"), list(itertools.product(KINDS, LEGACY)))
def test_every_pair_of_kinds_by_hand(kind, legacy):
    name = PLAIN[kind][LEGACY.index(legacy)]
    verdict = judge(Pair(kind, legacy))
    if name in ("", "unmapped"):
        assert verdict == (name or "agree", "", "", "")
    else:
        # A finished run that was refused is an over-refusal first: that row stands before success_lost.
        wanted = {"?": "unclassified_disagreement", "success_lost*": "over_refusal"}.get(name, name)
        assert verdict[:3] == ("disagree", wanted, OWNERS[wanted])


@pytest.mark.parametrize(
    ("pair", "name", "harm"),
    [
        (Pair("refusal", "refusal", retried=True), "denial_retried", "denial_retried"),
        (Pair("refusal", "completed", retried=True), "denial_retried", "denial_retried"),
        (Pair("human_queue", "completed", ambiguous=True), "ambiguity_concealed", "ambiguity_concealed"),
        (Pair("human_queue", "partial", ambiguous=True), "ambiguity_concealed", "ambiguity_concealed"),
        (Pair("human_queue", "error", ambiguous=True, premature=True), "ambiguity_concealed", "ambiguity_concealed"),
        (
            Pair("human_queue", "error", retried=True, ambiguous=True),
            "ambiguity_concealed",
            "duplicate_mutation_possible",
        ),
        (
            Pair("human_queue", "human_queue", retried=True, ambiguous=True),
            "unsafe_retry",
            "duplicate_mutation_possible",
        ),
        (Pair("human_queue", "refusal", retried=True, ambiguous=True), "unsafe_retry", "duplicate_mutation_possible"),
        (Pair("human_queue", "refusal", ambiguous=True), "over_refusal", ""),
        (Pair("human_queue", "completed", premature=True), "premature_completion", ""),
        (Pair("human_queue", "error", premature=True), "judgement_lost", ""),
        (Pair("human_queue", "completed"), "incompleteness_concealed", "incompleteness_concealed"),
        (Pair("partial", "error"), "partial_discarded", "partial_discarded"),
        (Pair("fallback", "human_queue"), "outage_escalated", "outage_escalated"),
        (Pair("completed", "fallback", retried=True), "unclassified_disagreement", ""),
    ],
)
def test_first_row_that_holds_and_harm_by_hand(pair, name, harm):
    assert judge(pair) == ("disagree", name, OWNERS[name], harm)


@pytest.mark.parametrize(
    "pair", [Pair("human_queue", "human_queue", retried=True), Pair("completed", "completed", retried=True)]
)
def test_a_retry_alone_is_no_disagreement(pair):
    assert judge(pair).verdict == "agree"


def test_every_name_can_be_borne_and_has_an_owner():
    possible = [pair for pair in SPACE if pair.kind == "human_queue" or not (pair.ambiguous or pair.premature)]
    assert {judge(pair).disagreement for pair in possible} - {""} == set(NAMES) == set(OWNERS)
    assert len(ROWS) == 13


def test_the_engine_judges_every_pair_as_the_rule_does(store):
    rows = ", ".join(
        f"({literal(pair.kind)}, {literal(pair.legacy_kind)}, {pair.retried:d}, {pair.ambiguous:d}, {pair.premature:d})"
        for pair in SPACE
    )
    columns = {name: f"pair.{place}" for place, name in enumerate(Pair._fields, 1)}
    sql = ", ".join(f"{text} AS {name}" for name, text in judge_sql(columns)._asdict().items())
    found = store.select(f"SELECT {sql} FROM (SELECT arrayJoin([{rows}]) AS pair)")  # noqa: S608
    assert [tuple(row.values()) for row in found] == [judge(pair) for pair in SPACE]


_CASE = "Tuple(String, Array(String), Nullable(Int64))"


def test_flags_come_from_facts_and_retries_alike(store):
    names = ("ambiguous_effect", "idempotency_protected", "omission", "predicate_unsatisfied", "predicate_unverifiable")
    cases = [
        (kind, [name for name, holds in zip(names, chosen, strict=True) if holds], retries)
        for kind in ("human_queue", "partial")
        for chosen in itertools.product((False, True), repeat=len(names))
        for retries in (None, -1, 0, 1)
    ]
    rows = ", ".join(
        f"CAST(('{kind}', {facts}, {'NULL' if retries is None else retries}), '{_CASE}')"
        for kind, facts, retries in cases
    )
    flags = flags_sql("row.1", lambda fact: f"has(row.2, {literal(fact)})", "row.3")
    sql = ", ".join(f"{flags[name]} AS {name}" for name in FLAGS)
    found = store.select(f"SELECT {sql} FROM (SELECT arrayJoin([{rows}]) AS row)")  # noqa: S608
    wanted = [pair_of(kind, frozenset(facts), "error", retries) for kind, facts, retries in cases]
    assert [tuple(map(bool, row.values())) for row in found] == [pair[2:] for pair in wanted]
    assert pair_of("human_queue", frozenset({"ambiguous_effect"}), "error", 1) == (
        "human_queue",
        "error",
        True,
        True,
        False,
    )
    assert pair_of("human_queue", frozenset(names[:2]), "error", None)[2:] == (False, False, False)
    assert pair_of("human_queue", frozenset(names[3:]), "error", 0)[2:] == (False, False, True)
    assert pair_of("human_queue", frozenset(names[2:]), "error", 0)[2:] == (False, False, False)
    assert pair_of("refusal", frozenset(names[:1]), "error", 2)[2:] == (True, False, False)
