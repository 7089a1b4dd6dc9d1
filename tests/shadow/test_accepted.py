"""Accepted differences: what their file may say, what they cover, and when they stand."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.types import to_micros
from shadow.accepted import (
    Accepted,
    AcceptedError,
    Count,
    Standing,
    State,
    as_toml,
    parse,
    standing,
    verdicts,
)

ENTRY = """
[[accepted]]
disagreement = "over_escalation"
agent_id = "claims"
owner = "platform"
reason = "tickets are kept until the new queue is staffed"
ticket = "OPS-12"
expires = 2026-12-31
ceiling = 0.05
"""
DAY_US = 86_400_000_000
EXPIRES = 1_798_675_200_000_000
"""2026-12-31T00:00:00Z."""


def changed(**fields):
    """The entry with other lines; None leaves a line out."""
    lines = ENTRY.strip().splitlines()
    kept = [line for line in lines if line.split(" = ")[0] not in fields]
    return "\n".join([*kept, *(f"{name} = {text}" for name, text in fields.items() if text is not None)])


def entry(**fields):
    [found] = parse(changed(**fields))
    return found


def row(**columns):
    same = {"verdict": "disagree", "disagreement": "over_escalation", "legacy_label": "ticket", "kind": "completed",
            "reason_code": "completion_verified", "tenant": "acme", "agent_id": "claims", "workflow": None}  # fmt: skip
    return same | columns


def problems(text):
    with pytest.raises(AcceptedError) as caught:
        parse(text)
    return caught.value.problems


@pytest.mark.parametrize(
    ("ceiling", "text"),
    [("1", "100%"), ("1.0", "100%"), ("0.1", "10%"), ("0.05", "5%"), ("0.125", "12.5%"), ("1e-9", "0.0000001%")],
)
def test_a_ceiling_is_shown_exactly(ceiling, text):
    assert entry(ceiling=ceiling).ceiling_text == text


def test_an_entry_is_read_as_it_is_written():
    found = entry()
    assert found.predicate == {"disagreement": "over_escalation", "agent_id": "claims"}
    assert found.scope == {"agent_id": "claims"}
    assert (found.expires, found.ceiling) == (date(2026, 12, 31), Decimal("0.05"))
    assert found.text == "disagreement over_escalation, agent_id claims"


def test_a_file_without_entries_accepts_nothing():
    assert parse("") == parse("# nothing yet\n") == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("accepted = 1", "accepted: must be entries, each under [[accepted]]"),
        ("accepted = [1]", "entry 1: must be an entry under [[accepted]]"),
        ("[accepted]", "accepted: must be entries, each under [[accepted]]"),
        ("[[acepted]]", "acepted: nothing of that name may stand here"),
        ("[[accepted", "not TOML: "),
        (changed(owner=None), "entry 1: owner: missing"),
        (changed(reason='""'), "entry 1: reason: must not be empty"),
        (changed(ticket="12"), "entry 1: ticket: must be text in quotes"),
        (changed(agent='"claims"'), "entry 1: agent: nothing of that name may stand here"),
        (changed(disagreement='"over_escalated"'), "entry 1: disagreement: must be one of denial_retried, "),
        (changed(kind='"error"'), "entry 1: kind: must be 'completed', 'refusal', "),
        (changed(disagreement=None), "entry 1: names no difference; give at least one of disagreement, legacy_label, "),
        (changed(expires='"2026-12-31"'), "entry 1: expires: must be a date without quotes, such as 2026-12-31"),
        (changed(expires="2026-12-31T10:00:00Z"), "entry 1: expires: must be a date without quotes"),
        (changed(ceiling='"0.05"'), "entry 1: ceiling: must be a number, such as 0.05"),
        (changed(ceiling="true"), "entry 1: ceiling: must be a number"),
        (changed(ceiling="0"), "entry 1: ceiling: must be more than 0, at most 1, with at most 9 decimal places"),
        (changed(ceiling="1.01"), "entry 1: ceiling: must be more than 0, at most 1"),
        (changed(ceiling="-0.1"), "entry 1: ceiling: must be more than 0"),
        (changed(ceiling="nan"), "entry 1: ceiling: must be more than 0"),
        (changed(ceiling="inf"), "entry 1: ceiling: must be more than 0"),
        (changed(ceiling="1e-999999999"), "entry 1: ceiling: must be more than 0"),
        (ENTRY + ENTRY, "entry 2: accepts the same as entry 1; keep one of them"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_place(text, problem):
    [found] = problems(text)
    assert found.startswith(problem)


def test_every_problem_of_a_file_is_told():
    found = problems(changed(owner=None) + "\n" + changed(ceiling="2"))
    assert [problem.split(":")[0] for problem in found] == ["entry 1", "entry 2"]


def test_what_an_entry_does_not_name_it_does_not_ask_about():
    assert entry().covers(row(tenant="globex", workflow="w", legacy_label=None))
    assert not entry().covers(row(agent_id="other"))
    assert not entry().covers(row(disagreement="success_lost"))
    assert not entry().covers(row(verdict="agree", disagreement="over_escalation"))
    assert not entry(workflow='"w"').covers(row(workflow=None))


def test_it_stands_until_the_day_on_which_it_expires_begins():
    counts = [Count(1, 100)]
    states = [verdicts([entry()], counts, now)[0].state for now in (EXPIRES - 1, EXPIRES, EXPIRES + 1)]
    assert states == [State.STANDS, State.EXPIRED, State.EXPIRED]


@pytest.mark.parametrize(
    ("count", "state"),
    [
        (Count(0, 0), State.STANDS),
        (Count(0, 100), State.STANDS),
        (Count(5, 100), State.STANDS),
        (Count(6, 100), State.OVER_CEILING),
        (Count(1, 20), State.STANDS),
        (Count(1, 19), State.OVER_CEILING),
        (Count(50_000_000_001, 10**12), State.OVER_CEILING),
        (Count(50_000_000_000, 10**12), State.STANDS),
    ],
)
def test_it_stands_up_to_its_ceiling_exactly(count, state):
    assert verdicts([entry()], [count], EXPIRES - DAY_US)[0].state is state


def test_a_thing_that_is_both_is_expired():
    assert verdicts([entry()], [Count(9, 9)], EXPIRES)[0].state is State.EXPIRED


def test_a_pair_is_accepted_where_one_entry_that_covers_it_stands():
    old, wide = entry(expires="2026-01-01"), entry(agent_id=None)
    judged = verdicts([old, wide], [Count(1, 100)] * 2, EXPIRES - 1)
    assert standing(judged, row()) is wide
    assert standing(judged, row(disagreement="success_lost")) is None
    assert standing(verdicts([old], [Count(1, 100)], EXPIRES - 1), row()) is None


def test_sql_where_nothing_stands_is_no():
    assert Standing.of([]).sql == Standing.of(verdicts([entry()], [Count(9, 9)], 0)).sql == "0"


TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
ENTRIES = st.builds(
    Accepted,
    disagreement=st.sampled_from(["over_escalation", "unclassified_disagreement"]),
    **{name: st.none() | TEXTS for name in ("legacy_label", "reason_code", "tenant", "agent_id", "workflow")},
    **dict.fromkeys(("owner", "reason", "ticket"), TEXTS),
    expires=st.dates(),
    ceiling=st.decimals("0.000000001", 1, places=9),
)


@given(ENTRIES)
def test_what_is_written_is_read_again(written):
    assert parse(as_toml(written)) == (written,)


@given(st.dates(date(1970, 1, 1)))
def test_days_begin_in_utc_wherever_this_runs(day):
    days = (day - date(1970, 1, 1)).days
    assert entry(expires=day.isoformat()).expires_at == days * DAY_US


def test_the_named_day_is_the_one_of_the_contract():
    assert to_micros(datetime(2026, 12, 31, tzinfo=UTC)) == EXPIRES
