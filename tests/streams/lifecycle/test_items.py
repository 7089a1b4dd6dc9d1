"""What opens, closes and moves an item, one sentence of docs/explanation/lifecycle.md each."""

import pytest

from streams.lifecycle.records import Duty, Subject
from tests.streams.lifecycle.kit import (
    after,
    deed,
    enrichment,
    exit_,
    known,
    open_partials,
    open_reviews,
    partial,
    step,
)
from tests.streams.lifecycle.kit import refusal as refused
from tests.streams.lifecycle.samples import NOW

OWES = ("reconcile", "op-1")
DENIED_AND_DONE = ("compensate", "op-1")


# --- partials


def test_a_partial_is_open_until_every_component_is_added():
    exit_ = partial("tax", "weather")
    (item,) = open_partials(exit_, enrichment("tax"))
    assert item.missing == ("weather",)
    assert item.opened_at == NOW
    assert open_partials(exit_, enrichment("tax"), enrichment("weather")) == ()


def test_what_was_added_stays_added_whatever_comes_later():
    assert open_partials(partial("tax"), enrichment("tax", at=after(1)), enrichment("tax", "failed", at=after(2))) == ()


@pytest.mark.parametrize(("state", "failed", "superseded"), [("failed", ("tax",), ()), ("superseded", (), ("tax",))])
def test_an_enrichment_that_did_not_add_is_named_and_closes_nothing(state, failed, superseded):
    (item,) = open_partials(partial("tax"), enrichment("tax", state))
    assert (item.missing, item.failed, item.superseded) == (("tax",), failed, superseded)


def test_the_last_enrichment_is_told_and_an_undated_one_is_the_first():
    (item,) = open_partials(partial("tax"), enrichment("tax", "failed", at=None), enrichment("tax", "superseded", at=1))
    assert item.failed == ("tax",)
    (item,) = open_partials(partial("tax"), enrichment("tax", "failed", at=after(2)), enrichment("tax", "superseded"))
    assert item.failed == ("tax",)


def test_a_component_without_a_name_is_added_by_an_enrichment_without_one():
    assert open_partials(partial(""), enrichment("")) == ()
    assert len(open_partials(partial(""), enrichment("tax"))) == 1


def test_a_reversal_is_told_of_open_and_of_closed_partials():
    late = enrichment("tax", reverses=True, at=after(3))
    (reversal,) = known(partial("tax"), late).open_items().reversals
    assert (reversal.component, reversal.at, reversal.record_id) == ("tax", after(3), late.record_id)
    (item,) = open_partials(partial("tax", "weather"), late)
    assert item.reverses_result


def test_an_enrichment_of_another_exit_reverses_nothing():
    assert known(exit_(), enrichment("tax", reverses=True)).open_items().reversals == ()


# --- segments


@pytest.mark.parametrize("kind", ["completed", "refusal", "fallback"])
def test_a_later_segment_supersedes(kind):
    later = exit_(kind, "e2", segment=1)
    assert open_partials(partial("tax", segment=0), later) == ()
    assert open_reviews(exit_(segment=0), later) == ()


def test_an_absent_segment_is_the_first():
    assert open_reviews(exit_(segment=None, occurred_at=after(5)), exit_("completed", "e2", segment=1)) == ()
    assert open_reviews(exit_(segment=None), exit_("completed", "e2", segment=0, occurred_at=after(1))) == ()


def test_what_an_earlier_segment_owes_stays_owed():
    (item,) = open_reviews(refused(OWES, segment=0), exit_("completed", "e2", segment=1))
    assert (item.event_id, item.duties, item.decision_owed) == ("e", (Duty(*OWES),), False)


def test_what_a_later_segment_states_again_is_owed_once():
    (item,) = open_reviews(refused(OWES, segment=0), refused(OWES, event_id="e2", segment=1))
    assert item.event_id == "e2"


def test_a_deed_about_an_earlier_segment_is_none_for_what_a_later_one_still_owes():
    run = (refused(OWES, segment=0), refused(OWES, event_id="e2", segment=1))
    assert len(open_reviews(*run, deed("reconciled", "op-1", event_id="e"))) == 1
    assert open_reviews(*run, deed("reconciled", "op-1", event_id="e2")) == ()


def test_a_companion_may_name_the_segment_of_a_run():
    by_segment = Subject("acme", "", "run", 1)
    assert open_reviews(exit_(segment=1), step("decided", subject=by_segment)) == ()
    assert len(open_reviews(exit_(segment=0), step("decided", subject=by_segment))) == 1
    assert open_reviews(exit_(segment=None), step("decided", subject=Subject("acme", "", "run", 0))) == ()


# --- reviews


def test_one_review_for_an_event_whatever_it_waits_for():
    (item,) = open_reviews(exit_(duties=(Duty(*OWES),)))
    assert (item.decision_owed, item.duties, item.queue, item.deadline) == (True, (Duty(*OWES),), "effects", after(10))


@pytest.mark.parametrize("kind", ["completed", "refusal", "fallback"])
def test_an_exit_that_asks_for_nothing_opens_nothing(kind):
    assert open_reviews(exit_(kind), step("opened", after(1))) == ()


def test_a_decision_closes_and_opening_again_begins_anew():
    review = [step("decided", after(5), decision="close", reviewer="anna")]
    assert open_reviews(_asks(), *review) == ()
    (item,) = open_reviews(_asks(), *review, step("opened", after(7), deadline=after(20)))
    assert (item.opened_at, item.deadline, item.reviewer, item.state) == (after(7), after(20), "", "open")


def _asks(**fields):
    return exit_(**fields)


@pytest.mark.parametrize("action", ["approved", "rejected", "overrode", "resubmitted", "closed", "ignored"])
def test_an_operator_who_acts_has_decided(action):
    assert open_reviews(_asks(), deed(action)) == ()


@pytest.mark.parametrize("action", ["retried", "escalated", "unknown", "compensated", "reconciled"])
def test_an_action_that_decides_nothing_leaves_the_decision_owed(action):
    assert len(open_reviews(_asks(), deed(action, "op-1"))) == 1


def test_a_deed_is_a_decision_where_the_packet_offered_it():
    offered = _asks(allowed_decisions=frozenset({"compensate"}), duties=(Duty(*DENIED_AND_DONE),))
    assert open_reviews(offered, deed("compensated", "op-1")) == ()
    assert len(open_reviews(offered, deed("reconciled", "op-1"))) == 1


def test_a_queue_that_gives_up_decides_nothing():
    (item,) = open_reviews(_asks(), step("expired", after(20)))
    assert item.expired
    (item,) = open_reviews(_asks(), step("expired", after(20)), step("reassigned", after(21), deadline=after(30)))
    assert not item.expired


def test_a_review_that_is_reassigned_has_another_queue_and_nobody_yet():
    (item,) = open_reviews(
        _asks(), step("claimed", after(1), reviewer="anna"), step("reassigned", after(2), queue="judgement")
    )
    assert (item.queue, item.owner, item.state, item.reviewer, item.deadline) == (
        "judgement",
        "",
        "open",
        "",
        after(10),
    )
    (item,) = open_reviews(_asks(), step("reassigned", after(2), deadline=after(99)))
    assert (item.queue, item.owner, item.deadline) == ("effects", "ops", after(99))


def test_a_pause_that_ended_moves_the_deadline():
    (item,) = open_reviews(_asks(), step("paused", after(2)), step("resumed", after(5)))
    assert (item.paused_us, item.deadline, item.paused_since) == (after(3) - NOW, after(13), None)


def test_a_deadline_set_while_paused_is_moved_by_the_rest_of_the_pause_only():
    steps = (step("paused", after(2)), step("reassigned", after(4), deadline=after(20)), step("resumed", after(5)))
    (item,) = open_reviews(_asks(), *steps)
    assert (item.paused_us, item.deadline) == (after(3) - NOW, after(21))


def test_pausing_twice_is_pausing_once():
    (item,) = open_reviews(_asks(), step("paused", after(2)), step("paused", after(4)))
    assert (item.state, item.paused_since, item.paused_us) == ("paused", after(2), 0)


def test_a_pause_dated_before_the_run_ended_counts_from_its_end():
    (item,) = open_reviews(_asks(), step("paused", after(-60)), step("resumed", after(3)))
    assert item.paused_us == after(3) - NOW


# --- obligations


def test_an_obligation_opens_a_review_whatever_the_exit():
    (item,) = open_reviews(refused(OWES))
    assert (item.kind, item.decision_owed, item.duties) == ("refusal", False, (Duty(*OWES),))


@pytest.mark.parametrize(
    ("duty", "action", "is_open"),
    [
        (OWES, "reconciled", False),
        (OWES, "compensated", False),
        (DENIED_AND_DONE, "compensated", False),
        (DENIED_AND_DONE, "reconciled", True),
        (OWES, "closed", True),
        (OWES, "ignored", True),
        (OWES, "approved", True),
    ],
)
def test_only_a_deed_fulfils_a_duty(duty, action, is_open):
    assert bool(open_reviews(refused(duty), deed(action, "op-1"))) is is_open


def test_a_deed_serves_its_own_operation():
    assert len(open_reviews(refused(OWES), deed("reconciled", "op-2"))) == 1


def test_a_deed_that_names_no_operation_serves_a_run_that_owes_for_one():
    assert open_reviews(refused(OWES), deed("reconciled")) == ()
    (item,) = open_reviews(refused(OWES, ("reconcile", "op-2")), deed("reconciled"))
    assert len(item.duties) == 2


def test_a_decision_does_not_do_the_deed():
    (item,) = open_reviews(_asks(duties=(Duty(*DENIED_AND_DONE),)), step("decided", after(1), decision="compensate"))
    assert (item.decision_owed, item.state, item.duties) == (False, "decided", (Duty(*DENIED_AND_DONE),))


def test_a_reviewer_may_let_an_effect_stand():
    accepted = step("decided", after(1), decision="accept_effect")
    assert open_reviews(refused(DENIED_AND_DONE), accepted) == ()
    assert len(open_reviews(refused(DENIED_AND_DONE), accepted, step("opened", after(2)))) == 1


# --- which classification counts


def test_the_table_that_was_activated_last_decides_then_the_newest():
    asks, done = _asks(table_digest="a", classified_at=after(5)), exit_("completed", table_digest="b")
    knowledge = known(asks, done)
    assert len(knowledge.open_items().reviews) == 1
    knowledge.activate({("b", "1"): 2, ("a", "1"): 1})
    assert knowledge.open_items().reviews == ()


def test_a_queue_cannot_give_up_what_is_decided():
    (item,) = open_reviews(_asks(duties=(Duty(*OWES),)), step("decided", after(1)), step("expired", after(2)))
    assert (item.state, item.expired) == ("decided", False)
