"""How the app follows a store, with a store and a clock of the test's own."""

import asyncio

import pytest

from classifier.table import default_text
from schemas.companions import COMPANIONS
from schemas.errors import ErrorCode, MessageError
from schemas.redaction import Redactor
from schemas.wire import LocalSchemas
from sinks.errors import StoreForbidden, StoreUnavailable
from sinks.open_items import Stored
from streams.clock import FixedClock
from streams.exit_message import decode_exit, encode_exit
from streams.lifecycle.decoding import RestingSchemas, decoder
from streams.lifecycle.knowledge import Bounds
from streams.lifecycle.lifecycle import Lifecycle, Pace
from streams.registry import RegistryUnavailable
from tests.streams.lifecycle.samples import MINUTE, NOW

PACE = Pace(sync_s=10, overlap_us=MINUTE, rebuild_s=100)


def exit_row(event_id="e", run_id="run", **fields):
    return {
        "tenant": "acme", "event_id": event_id, "run_id": run_id, "segment": None, "agent_id": "agent",
        "workflow": None, "occurred_at": NOW, "kind": "refusal", "reason_code": "r", "rule_id": "r", "verified": False,
        "obligations": [{"action": "reconcile", "operation_id": "op"}],
        "table": {"id": "t", "version": "1", "digest": "d"},
        "classifier_version": "1", "classified_at": NOW, "evidence_digest": "", "content_digest": "",
        "prohibited": [], "evidence_gaps": [], "findings": [], "facts": [],
        "envelope": {"kind": "refusal", "reason_code": "r", "policy_id": None, "explanation": "", "retry": "never",
                     "side_effects": []},
        **fields,
    }  # fmt: skip


def companion(type_, record_id="n", **fields):
    given = {"type": type_, "version": 1, "tenant": "acme", "record_id": record_id, "event_id": "e", **fields}
    return COMPANIONS[type_].model_validate(given).model_dump()


class Shelf:
    """A store of rows, each with the time at which it was stored."""

    def __init__(self, table_text=""):
        self.exits, self.notes, self.queues, self.asked = [], [], [], []
        self.text, self.failure = table_text, None

    def _ask(self, what):
        self.asked.append(what)
        if self.failure:
            raise self.failure

    def _stored(self, exits, notes):
        return Stored(exits, {kind: [n for n in notes if n["type"] == kind] for kind in {n["type"] for n in notes}})

    def unsettled_runs(self):
        self._ask("everything")
        return sorted({("acme", row["run_id"]) for _, row in self.exits})

    def since(self, since):
        self._ask(since)
        return self._stored(*([row for at, row in rows if at >= since] for rows in (self.exits, self.notes)))

    def of_runs(self, runs):
        exits = [row for _, row in self.exits if ("acme", row["run_id"]) in runs]
        events = {row["event_id"] for row in exits}
        return self._stored(exits, [note for _, note in self.notes if note["event_id"] in events])

    def runs_of(self, events):
        self._ask("runs")
        return [("acme", row["run_id"]) for _, row in self.exits if ("acme", row["event_id"]) in events]

    def activations(self):
        return {}

    def unqueued_tables(self):
        return {"d": self.text} if not self.queues else {}

    def record_queues(self, rows):
        self.queues += [row._asdict() for row in rows]

    def obligation_queues(self):
        return self.queues


@pytest.fixture
def shelf():
    return Shelf()


@pytest.fixture
def clock():
    return FixedClock(micros=NOW + MINUTE)


@pytest.fixture
def lifecycle(shelf, clock):
    async def read(ask):
        return ask(shelf)

    decode = decoder(LocalSchemas.published(), Redactor(b"k" * 16))
    return Lifecycle(clock, decode, read, Bounds(grace_us=60 * MINUTE, most_settled=100), PACE)


def follow(lifecycle):
    asyncio.run(lifecycle.follow())
    return lifecycle.open_items().reviews


def wire(record):
    return COMPANIONS[record["type"]].model_validate(record).model_dump_json().encode()


def test_before_the_store_was_read_nothing_is_complete(lifecycle, shelf):
    assert not lifecycle.is_complete
    shelf.exits.append((NOW, exit_row()))
    assert len(follow(lifecycle)) == 1
    assert lifecycle.is_complete


def test_between_rebuilds_only_what_was_stored_lately_is_read(lifecycle, shelf, clock):
    follow(lifecycle)
    follow(lifecycle)
    clock.advance(10)
    first = clock.now_micros() - 10_000_000
    shelf.notes.append((clock.now_micros(), companion("recovery_action", action="reconciled", operation_id="op")))
    lifecycle.take_exit(encode_exit(exit_row(), exit_row(), NOW))
    assert follow(lifecycle) == ()
    clock.advance(90)
    follow(lifecycle)
    assert [asked for asked in shelf.asked if asked != "runs"] == ["everything", first - MINUTE, "everything"]
    assert (lifecycle.counts.syncs, lifecycle.counts.rebuilds) == (1, 2)


def test_a_clock_that_is_set_back_stops_nothing(lifecycle, shelf, clock):
    follow(lifecycle)
    clock.advance(10)
    clock.micros -= 10**10
    follow(lifecycle)
    assert lifecycle.counts.syncs == 1


def test_an_outage_is_counted_and_tried_again(lifecycle, shelf):
    shelf.failure = StoreUnavailable("down")
    lifecycle.take_companion(wire(companion("recovery_action", action="closed")))
    follow(lifecycle)
    follow(lifecycle)
    assert (lifecycle.counts.store_failures, lifecycle.is_complete) == (2, False)
    shelf.failure = None
    follow(lifecycle)
    assert lifecycle.is_complete


def test_a_store_that_does_not_let_us_in_ends_the_process(lifecycle, shelf):
    shelf.failure = StoreForbidden("no")
    with pytest.raises(StoreForbidden):
        follow(lifecycle)


def test_a_companion_of_a_forgotten_run_brings_the_run_back(lifecycle, shelf, clock):
    follow(lifecycle)
    done = companion("recovery_action", "n1", action="compensated", operation_id="op")
    shelf.exits.append((0, exit_row(kind="human_queue", obligations=[], envelope=_asks())))
    shelf.notes += [(0, done), (0, companion("review_event", "n2", event="decided"))]
    lifecycle.take_companion(wire(companion("review_event", "n3", event="opened", at=NOW + MINUTE)))
    (item,) = follow(lifecycle)
    assert item.queue == "effects"
    asked = len(shelf.asked)
    follow(lifecycle)
    assert len(shelf.asked) == asked


def _asks():
    return {
        "kind": "human_queue", "reason_code": "r", "queue": "effects", "owner": "o", "review_packet_id": "rp",
        "allowed_decisions": ["close"], "deadline": NOW, "explanation": "", "retry": "after_decision",
        "side_effects": [],
    }  # fmt: skip


def test_doubts_outlive_an_outage(lifecycle, shelf):
    follow(lifecycle)
    shelf.exits.append((0, exit_row()))
    lifecycle.take_companion(wire(companion("review_event", event="claimed")))
    shelf.failure = StoreUnavailable("down")
    follow(lifecycle)
    shelf.failure = None
    assert len(follow(lifecycle)) == 1


def test_a_rebuild_says_how_much_it_changed(lifecycle, shelf, clock):
    shelf.exits.append((0, exit_row()))
    follow(lifecycle)
    assert lifecycle.counts.drift == 0
    clock.advance(100)
    follow(lifecycle)
    assert lifecycle.counts.drift == 0
    shelf.exits.append((0, exit_row("e2", "run2")))
    clock.advance(100)
    follow(lifecycle)
    assert lifecycle.counts.drift == 1


def test_where_obligations_wait_is_recorded_of_new_tables(lifecycle, shelf):
    shelf.text = default_text()
    shelf.exits.append((0, exit_row()))
    (item,) = follow(lifecycle)
    assert (item.queue, item.owner, item.deadline) == ("effects", "operations on call", NOW + 4 * 60 * MINUTE)
    assert [row["table_digest"] for row in shelf.queues] == ["d"]


def test_a_table_of_a_newer_program_costs_its_deadline_only(lifecycle, shelf):
    shelf.text = "not = 'a table'"
    shelf.exits.append((0, exit_row()))
    (item,) = follow(lifecycle)
    assert (item.queue, item.owner, item.deadline) == ("effects", "", None)


@pytest.mark.parametrize("value", [b"", b"{}", b"\xff", b"[1]", b'{"event_id": 1}'])
def test_what_is_no_message_is_counted(lifecycle, value):
    lifecycle.take_exit(value)
    lifecycle.take_companion(value)
    assert lifecycle.counts.unreadable == 2


def test_secrets_are_redacted_before_they_can_be_shown(lifecycle):
    lifecycle.take_exit(encode_exit(exit_row(), exit_row(), NOW))
    secret = "sk-ant-api03-" + "a1B2" * 24
    lifecycle.take_companion(wire(companion("review_event", event="claimed", reviewer=secret)))
    (item,) = lifecycle.open_items().reviews
    assert secret not in item.reviewer
    assert item.reviewer.startswith("[redacted:")


def test_while_the_registry_is_out_of_reach_nobody_waits_for_it(clock):
    class Down:
        asked = 0

        def by_fingerprint(self, fingerprint):
            return None

        def by_id(self, schema_id):
            self.asked += 1
            raise RegistryUnavailable("down")

    down = Down()
    schemas = RestingSchemas(down, clock)
    for _ in range(3):
        with pytest.raises(RegistryUnavailable):
            schemas.by_id(1)
    assert down.asked == 1
    clock.advance(10)
    with pytest.raises(RegistryUnavailable):
        schemas.by_id(1)
    assert down.asked == 2


def test_a_companion_whose_schema_cannot_be_had_is_left_to_the_store(lifecycle):
    def down(value):
        raise RegistryUnavailable("down")

    lifecycle.decode = down
    lifecycle.take_companion(b"\x00\x00\x00\x00\x01x")
    assert (lifecycle.counts.undecoded, lifecycle.counts.unreadable) == (1, 0)


def test_an_exit_comes_back_from_its_message_as_it_was():
    row = exit_row(segment=2, workflow="w")
    assert decode_exit(encode_exit(row, row, NOW)) == row


def test_a_message_says_what_is_wrong_with_it():
    with pytest.raises(MessageError) as caught:
        decode_exit(b'{"event_id": "e"}')
    assert caught.value.code is ErrorCode.BAD_TYPE
    assert caught.value.path == "kind"
