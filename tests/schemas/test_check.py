from random import Random

import pytest

from schemas.check import check_record
from schemas.contract import INCOMING
from schemas.errors import ErrorCode, MessageError
from schemas.json_form import canonical
from tests.schemas.samples import at, full, minimal, places, replaced
from tests.strategies import random_event


def error_of(record):
    with pytest.raises(MessageError) as caught:
        check_record(record)
    return caught.value


@pytest.mark.parametrize("kind", INCOMING)
@pytest.mark.parametrize("sample", [full, minimal])
def test_a_valid_record_is_handed_back_as_it_is(kind, sample):
    record = sample(kind)
    assert check_record(record) is record
    assert canonical(sample(kind)) == record


def test_what_passes_is_what_the_models_take():
    rng = Random(8)
    for event in (random_event(rng) for _ in range(300)):
        assert check_record(event) is event
        assert canonical(event) == event


@pytest.mark.parametrize("kind", ["receipt", "", "terminal-event"])
def test_an_unknown_type_is_unsupported(kind):
    assert error_of(full("enrichment") | {"type": kind}).code is ErrorCode.UNSUPPORTED_TYPE


@pytest.mark.parametrize("version", [0, 2, -1])
def test_another_version_is_unsupported(version):
    assert error_of(full("enrichment") | {"version": version}).code is ErrorCode.UNSUPPORTED_VERSION


def test_a_record_of_another_type_than_it_says_is_an_error():
    assert error_of(full("enrichment") | {"type": "terminal_event"}).code is ErrorCode.MISSING_FIELD


def test_a_field_too_many_does_not_pass_unseen():
    assert check_record(full("legacy_exit") | {"novel": 1})["extensions"]["novel"] == "1"


NAMES = {
    "tool", "approver", "operation_id", "decision_id", "policy_id", "call_id", "idempotency_key", "fallback_id", "name",
    "run_id", "action_key",
}  # fmt: skip
"""Fields below the event's own that are compared with each other, or with nothing at all where they are absent."""
NAMED = [place for place in places("terminal_event", "string") if len(place) > 1 and place[-1] in NAMES]


@pytest.mark.parametrize("place", NAMED, ids=str)
def test_an_empty_name_is_an_absent_one(place):
    given = replaced(full("terminal_event"), place, "")
    absent = replaced(full("terminal_event"), place, None)
    assert check_record(given) == canonical(given) == absent


def test_the_names_are_those_of_every_record():
    assert len(NAMED) == 18
    assert at(full("terminal_event"), ("takeover", "acks", 0, "operation_id")) == "text"


@pytest.mark.parametrize("place", [("tool_calls", 0, "response"), ("model", "prose"), ("policy_decisions", 0, "owner")])
def test_an_empty_text_that_is_no_name_stays(place):
    given = replaced(full("terminal_event"), place, "")
    assert check_record(given) is given
    assert canonical(given) == given
