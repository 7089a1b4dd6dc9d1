"""The state is a function of the set of records, and of nothing else."""

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.lifecycle.exits import exit_of
from streams.lifecycle.knowledge import Bounds, Knowledge
from streams.lifecycle.records import Exit, QueueTerms, note_of
from streams.lifecycle.sync import Snapshot, rebuilt
from tests.streams.lifecycle.kit import BOUNDS, after, deed, enrichment, exit_, known, partial, step
from tests.streams.lifecycle.samples import NOW, histories

TERMS = QueueTerms("effects", "on call", 4)


def reduced(history):
    records = (
        exit_of(record, lambda _: TERMS) if "envelope" in record else note_of(record, record["type"])
        for record in history
    )
    return [record for record in records if record is not None]


@settings(max_examples=100)
@given(history=histories(most_runs=3), data=st.data())
def test_order_and_repetition_have_no_say(history, data):
    records = reduced(history)
    again = data.draw(st.permutations(records + data.draw(st.lists(st.sampled_from(records)))))
    assert known(*again).open_items() == known(*records).open_items()


@settings(max_examples=100)
@given(history=histories(most_runs=3), data=st.data())
def test_asking_in_between_changes_nothing(history, data):
    records = reduced(history)
    cut = data.draw(st.integers(0, len(records)))
    knowledge = known(*records[:cut])
    knowledge.open_items()
    for record in records[cut:]:
        (knowledge.add_exit if isinstance(record, Exit) else knowledge.add_note)(record, NOW)
    assert knowledge.open_items() == known(*records).open_items()


@settings(max_examples=100)
@given(history=histories(most_runs=3), data=st.data())
def test_a_restart_in_between_changes_nothing(history, data):
    """Whatever part the store had when it was read, and whatever part was heard from topics."""
    records = reduced(history)
    stored = data.draw(st.lists(st.sampled_from(records), unique=True))
    former = known(*(record for record in records if record not in stored))
    exits = tuple(record for record in stored if isinstance(record, Exit))
    notes = tuple(record for record in stored if not isinstance(record, Exit))
    fresh = rebuilt(former, Snapshot(exits, notes, {}, {}, whole=True), NOW, NOW)
    assert fresh.open_items() == known(*records).open_items()


def test_of_two_editions_of_a_record_the_stored_one_counts_in_any_order():
    announced = step("decided", after(1), record_id="r")
    stored = step("claimed", after(1), record_id="r", stored=True)
    for notes in ([announced, stored], [stored, announced]):
        (item,) = known(exit_(), *notes).open_items().reviews
        assert item.state == "claimed"


def about(note, event_id):
    return note._replace(subject=note.subject._replace(event_id=event_id))


def test_of_two_editions_about_different_events_the_stored_one_counts_in_any_order():
    announced = step("decided", after(1), record_id="r")
    stored = about(step("decided", after(1), record_id="r", stored=True), "e-other")
    exits = [exit_(), exit_(event_id="e-other", run_id="r-other")]
    for records in permutations([*exits, announced, stored]):
        items = known(*records).open_items().reviews
        assert [item.event for item in items] == [exits[0].event]


def test_an_edition_that_was_withdrawn_leaves_nothing_behind():
    knowledge = known(step("decided", after(1), record_id="r"))
    knowledge.add_note(about(step("decided", after(1), record_id="r", stored=True), "e-other"), NOW)
    assert knowledge.sizes["waiting"] == 1
    knowledge.forget(NOW + 2 * BOUNDS.grace_us)
    assert knowledge.sizes["waiting"] == 0
    knowledge.add_note(step("decided", after(1), record_id="r"), NOW)
    assert knowledge.sizes["waiting"] == 1


def test_an_action_and_a_review_event_may_have_the_same_id():
    assert known(exit_(), step("claimed", record_id="r"), deed("closed", record_id="r")).open_items().reviews == ()


def test_tenants_do_not_mix():
    other = exit_(tenant="other")
    (item,) = known(exit_(), other, step("decided")).open_items().reviews
    assert item.tenant == "other"


# --- memory


def later(knowledge, minutes):
    knowledge.forget(after(minutes))
    return knowledge.sizes


def test_what_is_settled_is_forgotten_after_the_grace_and_what_is_open_is_not():
    knowledge = known(exit_("completed"), exit_(event_id="e2", run_id="run2"), step("opened", event_id="unknown"))
    assert later(knowledge, 59) == {"open": 1, "settled": 1, "waiting": 1}
    assert later(knowledge, 61) == {"open": 1, "settled": 0, "waiting": 0}
    assert len(knowledge.open_items().reviews) == 1


def test_no_more_is_remembered_than_there_is_room_for():
    exits = [exit_("completed", f"e{number}", run_id=f"r{number}") for number in range(10)]
    notes = [step("opened", event_id=f"u{number}") for number in range(10)]
    knowledge = known(*exits, *notes, bounds=Bounds(grace_us=10**12, most_settled=4))
    assert later(knowledge, 0) == {"open": 0, "settled": 4, "waiting": 4}


def test_a_note_that_waited_is_used_when_its_event_comes():
    assert known(step("decided"), exit_()).open_items().reviews == ()


def test_a_note_about_an_unknown_event_is_doubted_once():
    knowledge = known(step("opened"))
    assert knowledge.doubts().events == {("acme", "e")}
    knowledge.add_note(step("opened", record_id="again"), NOW, recalled=True)
    assert not any(knowledge.doubts())


def test_a_late_exit_is_doubted_because_what_superseded_it_may_be_forgotten():
    knowledge = known(exit_(), now=after(61))
    assert knowledge.doubts().runs == {("acme", "run")}
    assert not any(known(exit_(), now=after(59)).doubts())
    assert not any(known(exit_("completed"), now=after(61)).doubts())


def test_an_exit_of_the_time_before_a_rebuild_is_doubted():
    knowledge = Knowledge(BOUNDS, forgotten_until=after(1))
    knowledge.add_exit(exit_(), after(2))
    assert knowledge.doubts().runs == {("acme", "run")}
    knowledge.add_exit(exit_(run_id="r2", event_id="e2", occurred_at=after(2)), after(2))
    assert not any(knowledge.doubts())


def test_doubts_survive_a_rebuild():
    former = known(step("opened"))
    fresh = rebuilt(former, Snapshot((), (), {}, {}, whole=True), NOW, NOW)
    assert fresh.doubts().events == {("acme", "e")}


def test_a_rebuild_keeps_notes_that_wait_however_long():
    former = known(step("decided"), now=after(-50))
    fresh = rebuilt(former, Snapshot((), (), {}, {}, whole=True), NOW, NOW)
    fresh.add_exit(exit_(), NOW)
    assert fresh.open_items().reviews == ()


def test_a_rebuild_drops_what_the_store_has_otherwise():
    former = known(partial("tax"), now=after(-50))
    stored = (partial("tax", "weather"),)
    fresh = rebuilt(former, Snapshot(stored, (enrichment("tax"),), {}, {}, whole=True), NOW, after(-5))
    (item,) = fresh.open_items().partials
    assert item.missing == ("weather",)
