"""What operators say of an exit: by hand, and in SQL as in Python."""

import itertools
import tempfile
from pathlib import Path

import pytest

from schemas.exits import KINDS
from shadow.recovery import OVERRODE, WORDS, recovery, recovery_sql
from sinks.store import open_store


def no_wait(seconds):
    raise AssertionError("nothing holds the store")


@pytest.fixture(scope="module")
def store():
    with (
        tempfile.TemporaryDirectory() as folder,
        open_store(Path(folder) / "new", holder="test", lock_timeout_s=0, now=lambda: 0, wait=no_wait) as opened,
    ):
        yield opened


@pytest.mark.parametrize(
    ("kind", "said", "wanted"),
    [
        ("refusal", ["rejected"], "supports"),
        ("refusal", ["compensated"], "supports"),
        ("refusal", ["overrode"], "contradicts"),
        ("refusal", ["approved", "rejected"], "contradicts"),
        ("refusal", ["retried", "resubmitted", "escalated", "ignored", "closed", "reconciled"], "silent"),
        ("refusal", [OVERRODE], "silent"),
        ("completed", ["closed"], "supports"),
        ("completed", ["ignored"], "supports"),
        ("completed", ["approved", "compensated"], "contradicts"),
        ("completed", [OVERRODE], "contradicts"),
        ("fallback", ["resubmitted"], "contradicts"),
        ("partial", ["escalated"], "contradicts"),
        ("human_queue", ["reconciled", "closed"], "supports"),
        ("human_queue", ["closed"], "silent"),
        ("human_queue", ["retried"], "silent"),
        ("human_queue", ["ignored"], "contradicts"),
        ("human_queue", [OVERRODE], "supports"),
        ("human_queue", ["unknown", "words of one's own"], "silent"),
        ("human_queue", [], "silent"),
        ("", ["approved"], "silent"),
    ],
)
def test_by_hand(kind, said, wanted):
    assert recovery(kind, said) == wanted


def test_every_kind_has_words_and_no_word_says_both():
    assert set(WORDS) == set(KINDS)
    assert all(not words.support & words.contradict for words in WORDS.values())


def test_the_engine_reads_every_pair_of_words_as_the_rule_does(store):
    vocabulary = sorted(
        set().union(*(words.support | words.contradict for words in WORDS.values())) - {OVERRODE} | {"?"}
    )
    store.execute("CREATE TABLE said (n UInt32, kind String, actions Array(LowCardinality(String)),"
                  " decisions Array(LowCardinality(String)), overrode Bool) ENGINE = Memory")  # fmt: skip
    cases = [
        (kind, list(actions), list(decisions), overrode)
        for kind in (*KINDS, "")
        for first, second in itertools.combinations_with_replacement(vocabulary, 2)
        for actions, decisions in (([first], [second]), ([first, second], []))
        for overrode in (False, True)
    ]
    for start in range(0, len(cases), 500):
        rows = ", ".join(
            f"({start + n}, '{kind}', {actions}, {decisions}, {overrode})"
            for n, (kind, actions, decisions, overrode) in enumerate(cases[start : start + 500])
        )
        store.execute(f"INSERT INTO said VALUES {rows}")  # noqa: S608
    sql = recovery_sql("kind", "actions", "decisions", "overrode")
    found = store.select(f"SELECT {sql} AS says FROM said ORDER BY n")  # noqa: S608
    wanted = [recovery(k, [*a, *d, *([OVERRODE] if o else [])]) for k, a, d, o in cases]
    assert [row["says"] for row in found] == wanted
    assert set(wanted) == {"supports", "contradicts", "silent"}
