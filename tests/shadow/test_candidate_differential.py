"""A report under a candidate table against a report on a store in which that table decided the same events."""

import json
from itertools import cycle

import pytest

from classifier.table import default_text
from tests.offramp.kit import companion, events, new_directory, run, write_lines
from tests.shadow.pairs import MAPPING

EDITS = {
    # Another row decides, another condition holds, and the guard against prohibited exits answers.
    'when = "no_progress"': 'when = "no_progress or dependency_failed"',
    'when = "omission and safe_partial"': 'when = "omission and safe_partial and no_progress"',
    'id = "insufficient_evidence"\nwhen = "true"\nexit = "human_queue"\nqueue = "judgement"\n':
        'id = "insufficient_evidence"\nwhen = "true"\nexit = "completed"\n',
    '(predicate_unsatisfied or predicate_unverifiable)"\n':
        '(predicate_unsatisfied or predicate_unverifiable)"\nreason = "not_borne_out"\n',
}  # fmt: skip
UNKNOWN = ("asked", "table", "hand_off")
"""The question itself; and what review packets hold that were never made."""
ACCEPTED = """
[[accepted]]
kind = "human_queue"
legacy_label = "ok"
owner = "ann"
reason = "known"
ticket = "T-1"
expires = 2200-01-01
ceiling = 1
[[accepted]]
reason_code = "no_progress"
disagreement = "judgement_lost"
owner = "ann"
reason = "known"
ticket = "T-2"
expires = 2200-01-01
ceiling = 0.05
"""


def candidate():
    text = default_text().replace('id = "default"', 'id = "mine"', 1)
    for before, after in EDITS.items():
        assert text.count(before) == 1
        text = text.replace(before, after)
    return text


def said():
    labels, retries = cycle(["ok", "ticket", "refused", "boom", "odd"]), cycle([None, 0, 2])
    actions, decisions = cycle(["approved", "rejected", "retried", "ignored"]), cycle(["approve", "deny", "own word"])
    for number, event in enumerate(events()):
        about = {"tenant": event["tenant"], "event_id": event["event_id"]}
        if number % 7:
            yield companion("legacy_exit", number, **about, label=next(labels), retries=next(retries),
                            decided_at="2026-11-02T08:00:00Z")  # fmt: skip
        if number % 3 == 0:
            yield companion("recovery_action", number, **about, action=next(actions), at="2026-11-03T08:00:00Z")
        if number % 4 == 0:
            yield companion("review_event", number, **about, event="decided", decision=next(decisions),
                            overrode_proposal=number % 8 == 0, at="2026-11-03T09:00:00Z")  # fmt: skip


@pytest.fixture(scope="module")
def home():
    directory = new_directory()
    for name, text in (("mine.toml", candidate()), ("map.toml", MAPPING), ("accepted.toml", ACCEPTED)):
        (directory / name).write_text(text)
    (directory / "offramp.toml").write_text(
        f'[shadow]\nmapping = "{directory}/map.toml"\naccepted = "{directory}/accepted.toml"\n'
    )
    records = write_lines(directory / "records", [*events(), *said()])
    for store, table in (("decided", []), ("mine", ["--table", directory / "mine.toml", "--unproven"])):
        assert run("classify", records, *table, "--store", directory / store).status == 0
    return directory


def report(home, store, *argv):
    done = run("shadow", "compare", *argv, "--format", "json", "--store", home / store,
               "--config", home / "offramp.toml")  # fmt: skip
    assert (done.status, done.err) == (0, "")
    return {name: value for name, value in json.loads(done.out).items() if name not in UNKNOWN}


@pytest.mark.parametrize(
    ("scope", "reasons"),
    [
        ([], {"not_borne_out", "table_violates_invariant"}),
        (["--until", "2026-11-02T08:30:00Z", "--tenant", "acme"], set()),
    ],
)
def test_a_candidate_is_reported_as_if_it_had_decided(home, scope, reasons):
    found = report(home, "decided", "--table", home / "mine.toml", "--unproven", *scope)
    expected = report(home, "mine", *scope)
    for confidences in (found["calibration"], expected["calibration"]):
        # Sums of fractions differ in the last place by the order in which runs are read.
        for each in confidences["bins"]:
            each["confidence"] = each["confidence"] and round(each["confidence"], 9)
        for name in ("ece", "ece_by_chance"):
            confidences[name] = confidences[name] and round(confidences[name], 9)
    assert found == expected
    assert found["not_replayable"] == {}
    assert {row["reason_code"] for row in found["recovery"]} >= reasons
