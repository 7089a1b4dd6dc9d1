"""The table file: what is wrong with it is said at its place, what it says decides, and its digest covers all of it."""

# ruff: noqa: E501  (one case a line, so that the tables read as tables)
import hashlib
import json
import tomllib

import pytest
from pydantic import ValidationError

from classifier.decide import Classifier
from classifier.table import Table, TableError, default_text, load
from tests.classifier.answers import at, event

TEXT = default_text()

# The contract's order of precedence: earlier rows win.
ROWS = [
    "blocking_denial",
    "fence_violation",
    "ambiguous_side_effect",
    "duplicate_side_effect",
    "unapproved_effect",
    "human_takeover",
    "contradictory_evidence",
    "approval_required",
    "policy_unavailable",
    "authority_missing",
    "model_refusal_unverified",
    "unsupported_decision",
    "completion_verified",
    "ineligible_fallback_applied",
    "fallback",
    "low_confidence",
    "partial",
    "omission_may_change_result",
    "budget_exhausted",
    "no_progress",
    "malformed_evidence",
    "dependency_failed_no_fallback",
    "model_declined_no_fallback",
    "nonterminal_stop",
    "premature_completion",
    "completion_unverified",
    "insufficient_evidence",
]
KIND_OF = {
    "blocking_denial": "refusal",
    "completion_verified": "completed",
    "completion_unverified": "completed",
    "fallback": "fallback",
    "partial": "partial",
}


def _changed(old: str, new: str) -> str:
    """The default table's text with the first ``old`` replaced."""
    assert old in TEXT
    return TEXT.replace(old, new, 1)


def _problems(text: str) -> list[str]:
    with pytest.raises(TableError) as caught:
        load(text)
    assert str(caught.value) == "; ".join(caught.value.problems)
    return caught.value.problems


def _answer(table: Table, **parts):
    return Classifier(table).classify(event(**parts)).classification


# --- the default table


def test_the_default_table_has_the_rows_of_the_contract_in_their_order():
    rows = load(TEXT).rows
    assert [row.row.id for row in rows] == ROWS
    assert [row.kind for row in rows] == [KIND_OF.get(row_id, "human_queue") for row_id in ROWS]


def test_a_failed_dependency_does_not_go_to_the_judgement_queue():
    queues = {row.row.id: row.row.queue for row in load(TEXT).rows}
    assert queues["dependency_failed_no_fallback"] != queues["insufficient_evidence"]


# --- errors

WHEN = 'when = "standing_denial"'
ERRORS = {
    "no TOML": ("id =", "not TOML: Invalid value (at end of document)"),
    "a key twice": ('id = "a"\nid = "b"', "not TOML: Cannot overwrite a value (at end of document)"),
    "a misspelled fact": (
        _changed(WHEN, 'when = "standing_denail"'),
        "row blocking_denial: when: column 1: standing_denail is no fact; did you mean standing_denial?",
    ),
    "a fact like no other": (
        _changed(WHEN, 'when = "true or xyzzy"'),
        "row blocking_denial: when: column 9: xyzzy is no fact; `offramp schema facts` lists those that exist",
    ),
    "a misspelled fact of a finer reason": (
        _changed('code = "child_run_open", when = "not taken_over"', 'code = "child_run_open", when = "not takenover"'),
        "row human_takeover: reason child_run_open: when: column 5: takenover is no fact; did you mean taken_over?",
    ),
    "an operator that is none": (
        _changed(WHEN, 'when = "standing_denial == true"'),
        "row blocking_denial: when: column 1: only fact names, and, or, not, true and parentheses may stand",
    ),
    "a call": (
        _changed(WHEN, "when = \"open('x')\""),
        "row blocking_denial: when: column 1: only fact names, and, or, not, true and parentheses may stand",
    ),
    "an open parenthesis": (
        _changed(WHEN, 'when = "(standing_denial"'),
        "row blocking_denial: when: not a condition: '(' was never closed",
    ),
    "a condition that is no text": (_changed(WHEN, "when = 3"), "row blocking_denial.when: must be text in quotes"),
    "an unknown exit": (
        _changed('exit = "human_queue"', 'exit = "human_queu"'),
        ("row fence_violation: exit: must be one of completed, refusal, fallback, partial, human_queue, "
        "switches.unverified_completion"),
    ),
    "an unknown switch": (
        _changed('exit = "switches.unverified_completion"', 'exit = "switches.other"'),
        ("row completion_unverified: exit: must be one of completed, refusal, fallback, partial, human_queue, "
        "switches.unverified_completion"),
    ),
    "a switch without its prefix": (
        _changed('exit = "switches.unverified_completion"', 'exit = "unverified_completion"'),
        ("row completion_unverified: exit: must be one of completed, refusal, fallback, partial, human_queue, "
        "switches.unverified_completion"),
    ),
    "a switch to no exit": (
        _changed('unverified_completion = "completed"', 'unverified_completion = "done"'),
        "switches.unverified_completion: must be one of completed, refusal, fallback, partial, human_queue",
    ),
    "a missing queue": (
        _changed('queue = "effects"\n', ""),
        "row fence_violation: queue: missing; a human_queue row names the queue that gets it",
    ),
    "an unknown queue": (
        _changed('queue = "effects"', 'queue = "side_effects"'),
        ("row fence_violation: queue: side_effects is not among the queues: effects, approvals, policy, access, "
        "takeover, judgement, dependencies"),
    ),
    "a row id twice": (
        _changed('id = "fence_violation"', 'id = "blocking_denial"'),
        "row blocking_denial: the id stands twice",
    ),
    "a fact in letters of another width": (
        _changed(WHEN, 'when = "\N{FULLWIDTH LATIN SMALL LETTER S}tanding_denial"'),
        "row blocking_denial: when: column 1: only ASCII may stand, and '\\uff53' is none",
    ),
    "a NUL character": (
        _changed(WHEN, 'when = "standing_denial\\u0000"'),
        "row blocking_denial: when: column 16: only ASCII may stand, and '\\x00' is none",
    ),
    "a condition that is nested too deeply": (
        _changed(WHEN, f'when = "{"not " * 5000}standing_denial"'),
        "row blocking_denial: when: not a condition: nested too deeply",
    ),
    "lists that are nested too deeply": (f"x = {'[' * 5000}", "nested too deeply"),
    "no row that catches all": (
        _changed('when = "true"', 'when = "no_progress"'),
        'row insufficient_evidence: the last row must have when = "true", so that every run gets an exit',
    ),
    "a row that catches all too early": (
        _changed(WHEN, 'when = "true"'),
        'row blocking_denial: when = "true" may stand in the last row alone; what follows is never reached',
    ),
    "an unknown key of a row": (
        _changed('exit = "refusal"', 'exit = "refusal"\nexits = "x"'),
        "row blocking_denial.exits: nothing of that name may stand here",
    ),
    "an unknown key of the file": ("owner = 'me'\n" + TEXT, "owner: nothing of that name may stand here"),
    "a missing key": (_changed('exit = "refusal"\n', ""), "row blocking_denial.exit: missing"),
    "a row that is no table": ("rows = [1]\n" + TEXT.split("[[rows]]")[0], "row 1: must be a table of its own, in square brackets"),
    "a row id that is no code": (
        _changed('id = "blocking_denial"', 'id = "Blocking denial"'),
        "row Blocking denial.id: must be lower-case letters, digits and underscores, a letter first",
    ),
    "a row that says itself what is verified": (
        _changed('exit = "completed"', 'exit = "completed"\nverified = true'),
        "row completion_verified.verified: nothing of that name may stand here",
    ),
    "a reason from elsewhere": (
        _changed('reason_from = "denial"', 'reason_from = "failure"'),
        "row blocking_denial: reason_from: failure gives no reason for refusal",
    ),
    "a threshold that is a number": (
        _changed('confidence_floor = "0.6"', "confidence_floor = 0.6"),
        'thresholds.confidence_floor: must be a decimal between 0 and 1 in quotes, such as "0.6"',
    ),
    "repeats that repeat nothing": (
        _changed("progress_repeats = 3", "progress_repeats = 1"),
        "thresholds.progress_repeats: must be at least 2",
    ),
    "no time to decide": (
        _changed("deadline_hours = 4", "deadline_hours = 0"),
        "queues.effects.deadline_hours: must be more than 0",
    ),
    "nothing to decide": (
        _changed('allowed_decisions = ["resume", "close", "compensate"]', "allowed_decisions = []"),
        "queues.takeover.allowed_decisions: must not be empty",
    ),
    "nobody who owns it": (
        _changed('owner = "approvers"', 'owner = ""'),
        "queues.approvals.owner: must not be empty",
    ),
    "a version that tells a story": (
        _changed('version = "1"', f'version = "{"1" * 65}"'),
        "version: must have at most 64 characters",
    ),
    "repeats in quotes": (
        _changed("progress_repeats = 3", 'progress_repeats = "3"'),
        "thresholds.progress_repeats: must be a whole number",
    ),
    "more repeats than any run has": (
        _changed("progress_repeats = 3", "progress_repeats = 101"),
        "thresholds.progress_repeats: must be at most 100",
    ),
    "a deadline in quotes": (
        _changed("deadline_hours = 4", 'deadline_hours = "4"'),
        "queues.effects.deadline_hours: must be a number",
    ),
    "one decision and no list of them": (
        _changed('allowed_decisions = ["resume", "close", "compensate"]', 'allowed_decisions = "resume"'),
        "queues.takeover.allowed_decisions: must be a list",
    ),
    "switches that are no table": (
        _changed('[switches]\nunverified_completion = "completed"', "[switched]").replace('id = "default"', 'id = "default"\nswitches = 1'),
        "switches: must be a table of its own, in square brackets",
    ),
    "a reason from nowhere": (
        _changed('reason_from = "denial"', 'reason_from = "elsewhere"'),
        "row blocking_denial.reason_from: must be 'denial', 'failure' or 'omission'",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "problem"), ERRORS.values(), ids=ERRORS)
def test_one_error_is_said_at_its_place(text, problem):
    assert problem in _problems(text)


@pytest.mark.parametrize("value", ["6", "x", "-0.1", "1.1", "nan", "inf", ""])
def test_a_threshold_is_a_confidence(value):
    problems = _problems(_changed('confidence_floor = "0.6"', f'confidence_floor = "{value}"'))
    assert problems == ['thresholds.confidence_floor: must be a decimal between 0 and 1 in quotes, such as "0.6"']


def test_every_error_is_said():
    text = _changed('queue = "effects"\n', "").replace("no_progress", "no_progres")
    assert len(_problems(text)) == 2


def test_an_empty_file_lacks_everything():
    assert _problems("") == [
        f"{name}: missing" for name in ("id", "version", "thresholds", "switches", "queues", "rows")
    ]


@pytest.mark.parametrize("condition", ["(" * 5_000, "not " * 5_000 + "true", "-" * 90_000 + "1"])
def test_an_absurd_condition_is_an_error(condition):
    assert _problems(_changed(WHEN, f'when = "{condition}"'))[0].startswith("row blocking_denial: when: ")


@pytest.mark.parametrize("kind", ["refusal", "human_queue", "partial"])
def test_a_switch_cannot_rename_a_kind(kind):
    table = load(_changed("[switches]", f'[switches]\n{kind} = "completed"'))
    assert [row.kind for row in table.rows] == [KIND_OF.get(row_id, "human_queue") for row_id in ROWS]


# --- the digest


def test_the_digest_ignores_comments_and_layout():
    bare = "\n".join(line.split("#")[0].rstrip() for line in TEXT.splitlines() if line.strip())
    moved = TEXT.replace('id = "default"\nversion = "1"', 'version = "1"\nid = "default"')
    assert bare != TEXT != moved
    assert load(bare).digest == load(moved).digest == load(TEXT).digest


CHANGES = {
    "the id": ('id = "default"', 'id = "other"'),
    "the version": ('version = "1"', 'version = "2"'),
    "a threshold": ('"0.6"', '"0.61"'),
    "a switch": ('unverified_completion = "completed"', 'unverified_completion = "human_queue"'),
    "an owner": ('owner = "approvers"', 'owner = "others"'),
    "a deadline": ("deadline_hours = 4", "deadline_hours = 5"),
    "what may be decided": ('["resume", "close", "compensate"]', '["resume", "close"]'),
    "the order of what may be decided": ('["resume", "close", "compensate"]', '["close", "resume", "compensate"]'),
    "a condition": ('when = "no_progress"', 'when = "no_progress and truncated"'),
    "a queue of a row": ('queue = "takeover"', 'queue = "judgement"'),
    "a reason": ('code = "child_run_open"', 'code = "child_open"'),
}


@pytest.mark.parametrize(("old", "new"), CHANGES.values(), ids=CHANGES)
def test_the_digest_covers_everything_else(old, new):
    table = load(_changed(old, new))
    assert table.digest != load(TEXT).digest
    assert table.ref == {"id": table.file.id, "version": table.file.version, "digest": table.digest}


def test_the_digest_covers_the_order_of_rows():
    head, *rows = TEXT.split("[[rows]]")
    rows[1], rows[2] = rows[2], rows[1]
    assert load("[[rows]]".join([head, *rows])).digest != load(TEXT).digest


def test_every_classification_names_its_table():
    table = load(TEXT)
    assert _answer(table)["table"] == table.ref == {"id": "default", "version": "1", "digest": table.digest}


# --- what a table can say

CLAIM = {"completion": {"claimed": True}}
SATISFIED = {"completion": {"claimed": True, "result": "satisfied"}}


def test_the_switch_sends_an_unevaluated_claim_to_people():
    table = load(_changed('unverified_completion = "completed"', 'unverified_completion = "human_queue"'))
    answer = _answer(table, **CLAIM)
    assert (answer["kind"], answer["rule_id"], answer["verified"]) == ("human_queue", "completion_unverified", False)
    assert answer["envelope"]["queue"] == "judgement"


def test_the_first_row_that_holds_decides():
    swapped = _changed('id = "no_progress"\nwhen = "no_progress"', 'id = "no_progress"\nwhen = "taken_over"')
    swapped = swapped.replace('id = "human_takeover"\nwhen = "taken_over or', 'id = "human_takeover"\nwhen = "')
    assert _answer(load(swapped), takeover={"state": "FREEZING"})["rule_id"] == "no_progress"


def test_a_row_may_have_a_reason_of_its_own():
    table = load(_changed('id = "no_progress"', 'id = "no_progress"\nreason = "going_in_circles"'))
    answer = _answer(table, steps=[{"action_key": "a"}] * 3)
    assert (answer["rule_id"], answer["reason_code"]) == ("no_progress", "going_in_circles")


@pytest.mark.parametrize(("floor", "reason"), [("0.7", "confidence_below_floor"), ("0.65", "completion_unverified")])
def test_thresholds_are_the_tables(floor, reason):
    table = load(_changed('confidence_floor = "0.6"', f'confidence_floor = "{floor}"'))
    assert _answer(table, steps=[{"confidence_after": 0.65}], **CLAIM)["reason_code"] == reason


def test_repeats_are_the_tables():
    table = load(_changed("progress_repeats = 3", "progress_repeats = 2"))
    assert _answer(table, steps=[{"action_key": "a"}] * 2)["reason_code"] == "no_progress"


# --- what no table can do

DENIED = {
    "policy_decisions": [{"source": "application", "policy_id": "limits", "effect": "deny", "reason_code": "limit"}]
}
TIMED_OUT = {"tool_calls": [{"operation_id": "op-1", "access": "write", "outcome": "timeout"}]}
VIOLATIONS = {
    "a denial that is completed": (WHEN + '\nexit = "refusal"\nreason_from = "denial"', WHEN + '\nexit = "completed"', DENIED, "refusal"),
    "a denial that is queued": (WHEN + '\nexit = "refusal"\nreason_from = "denial"', WHEN + '\nexit = "human_queue"\nqueue = "policy"', DENIED, "refusal"),
    "a refusal that nobody spoke": ('id = "ambiguous_side_effect"\nwhen = "ambiguous_effect and not idempotency_protected"\nexit = "human_queue"', 'id = "ambiguous_side_effect"\nwhen = "ambiguous_effect and not idempotency_protected"\nexit = "refusal"', TIMED_OUT, "human_queue"),
    "an ambiguity that is completed": ('id = "ambiguous_side_effect"\nwhen = "ambiguous_effect and not idempotency_protected"\nexit = "human_queue"', 'id = "ambiguous_side_effect"\nwhen = "ambiguous_effect and not idempotency_protected"\nexit = "completed"', TIMED_OUT, "human_queue"),
    "a fallback that is not there": ('when = "dependency_failed"\nexit = "human_queue"', 'when = "dependency_failed"\nexit = "fallback"', {"tool_calls": [{"access": "read", "outcome": "timeout"}]}, "human_queue"),
    "a partial that is not safe": ('when = "omission_may_change_result"\nexit = "human_queue"', 'when = "omission_may_change_result"\nexit = "partial"', {"components": [{"name": "a", "state": "completed"}, {"name": "b"}]}, "human_queue"),
    "a claim that is refused by a switch": ('unverified_completion = "completed"', 'unverified_completion = "refusal"', CLAIM, "human_queue"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "parts", "kind"), VIOLATIONS.values(), ids=VIOLATIONS)
def test_what_violates_an_invariant_becomes_the_safe_exit(old, new, parts, kind):
    answer = _answer(load(_changed(old, new)), **parts)
    assert (answer["kind"], answer["reason_code"]) == (kind, "table_violates_invariant")
    assert answer["verified"] is False
    assert answer["kind"] not in answer["prohibited"]
    assert answer["envelope"]["kind"] == kind
    assert answer["envelope"]["reason_code"] == "table_violates_invariant"


@pytest.mark.parametrize(("parts", "verified"), [(SATISFIED, True), (CLAIM, False)], ids=["satisfied", "claimed"])
def test_the_predicate_verifies_whatever_row_completes(parts, verified):
    table = load(
        _changed('when = "standing_denial"', 'when = "completion_claimed"').replace(
            'exit = "refusal"\nreason_from = "denial"', 'exit = "completed"'
        )
    )
    answer = _answer(table, **parts)
    assert (answer["kind"], answer["rule_id"], answer["verified"]) == ("completed", "blocking_denial", verified)


def test_the_reason_of_a_violated_invariant_is_not_that_of_the_evidence():
    partial = 'when = "omission_may_change_result"\nexit = "partial"\nreason_from = "omission"'
    text = TEXT.replace('when = "omission_may_change_result"\nexit = "human_queue"', partial)
    omitted = {"name": "b", "reason_code": "lost", "can_change_result": "yes"}
    answer = _answer(load(text), components=[{"name": "a", "state": "completed"}, omitted])
    assert answer["reason_code"] == "table_violates_invariant"


# --- what mutants of the reader got away with

# The longest and largest that a table may say, and one more.
LIMITS = [
    ('id = "default"', 'id = "{}"', "d" * 64, "d" * 65),
    ('version = "1"', 'version = "{}"', "1" * 64, "1" * 65),
    ("progress_repeats = 3", "progress_repeats = {}", 100, 101),
    ("progress_repeats = 3", "progress_repeats = {}", 2, 1),
    ("deadline_hours = 4", "deadline_hours = {}", 24 * 366, 24 * 366 + 1),
    ("deadline_hours = 4", "deadline_hours = {}", 0.5, 0),
    ('confidence_floor = "0.6"', 'confidence_floor = "{}"', "0", "-0.1"),
    ('confidence_floor = "0.6"', 'confidence_floor = "{}"', "1", "1.1"),
    ('confidence_floor = "0.6"', 'confidence_floor = "{}"', f"0.{'6' * 13}", f"0.{'6' * 14}"),
    ("deadline_hours = 4", "deadline_hours = {}", 4, '"4"'),
    ('version = "1"', 'version = "{}"', "1", ""),
]


@pytest.mark.parametrize(("old", "new", "most", "more"), LIMITS)
def test_limits_of_a_table(old, new, most, more):
    assert load(TEXT.replace(old, new.format(most), 1))
    with pytest.raises(TableError):
        load(TEXT.replace(old, new.format(more), 1))


def test_a_table_has_a_row():
    head, *rows = TEXT.split("[[rows]]")
    assert load(f"{head}[[rows]]{rows[-1]}")
    with pytest.raises(TableError):
        load(f"rows = []\n{head}")


def test_the_digest_is_that_of_the_content_as_canonical_json():
    text = TEXT.replace('owner = "approvers"', 'owner = "B\u00fcro"')
    content = json.dumps(tomllib.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert load(text).digest == f"sha256:{hashlib.sha256(content.encode('utf-8')).hexdigest()}"


def test_ids_that_stand_twice_are_listed_in_order():
    head, *rows = TEXT.split("[[rows]]")
    twice = [row.split('"')[1] for row in rows[:-1]]
    text = "[[rows]]".join([head, *rows[:-1], *rows])
    assert _problems(text) == [f"row {name}: the id stands twice" for name in sorted(twice)]


def test_the_row_before_the_last_may_not_catch_all_either():
    head, *rows = TEXT.split("[[rows]]")
    rows[-2] = rows[-1].replace("insufficient_evidence", "everything")
    problem = 'row everything: when = "true" may stand in the last row alone; what follows is never reached'
    assert _problems("[[rows]]".join([head, *rows])) == [problem]


def test_a_queue_that_is_called_by_a_number_is_no_row():
    problems = _problems(TEXT.replace("[queues.effects]", "[queues.1]"))
    assert problems == ["queues.1: must be lower-case letters, digits and underscores, a letter first"]


def test_a_row_without_an_id_is_called_by_its_number():
    assert _problems(TEXT.replace('id = "fence_violation"\n', "")) == ["row 2.id: missing"]


def test_a_table_that_was_read_cannot_be_changed():
    with pytest.raises(ValidationError):
        load(TEXT).file.rows[0].exit = "completed"


def test_a_deadline_is_so_many_hours_after_the_end_of_the_run():
    text = TEXT.replace("deadline_hours = 4", "deadline_hours = 1.5", 1)
    assert _answer(load(text), **TIMED_OUT)["envelope"]["deadline"] == at(1.5 * 3_600)
