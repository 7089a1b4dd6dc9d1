"""Whatever a message is, it costs its neighbours nothing, and each has one fate."""

from datetime import UTC, datetime, timedelta

from schemas.json_form import parse_json
from schemas.published import avro
from schemas.types import to_iso
from schemas.wire import encode_confluent
from streams.kafka.seam import Outgoing
from tests.faults.book import TENANT, place_of, place_of_row
from tests.faults.deployment import CLOCK
from tests.registry.double import SchemaRegistryDouble

DAY_US = 24 * 60 * 60 * 1_000_000
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
SCHEMA_ID = 11


def codes(deployment):
    sql = "SELECT offset, reason_code FROM v_dead_letters ORDER BY offset"
    return {row["offset"]: row["reason_code"] for row in deployment.rows(sql)}


def fates(deployment):
    return [
        row["disposition"]
        for row in deployment.rows("SELECT disposition FROM ingest_ledger FINAL ORDER BY source, partition, offset")
    ]


def test_what_is_no_record_is_a_dead_letter_and_its_neighbours_are_stored(deployment):
    book = deployment.book
    odd = [b"", b"\x00", b"\x00\x00\x00\x00\x07body", b"\xc3\x01" + bytes(8), b"\xc3", b"nonsense", b"{", None]
    cut = book.event("cut", packed=True)[:-1]
    deployment.send([book.event("a"), *odd, cut, book.event("b", packed=True), book.enrichment(1)])
    deployment.drain()
    deployment.recount()
    assert codes(deployment) == {
        1: "bad_framing", 2: "bad_framing", 3: "unknown_schema", 4: "unknown_schema", 5: "bad_framing",
        6: "bad_framing", 7: "bad_json", 9: "bad_avro",
    }  # fmt: skip
    assert fates(deployment)[8] == "filtered"


def test_ten_bad_ones_among_ten_thousand_cost_themselves(deployment):
    book = deployment.book
    values = [book.event(f"e-{n}", packed=n % 2 == 0) for n in range(10_000)]
    for number in range(10):
        values[number * 997] = b"poison %d" % number
    deployment.send(values, partition=None)
    life = deployment.drain(batch_records=2_500)
    count = deployment.recount()
    assert (len(count.exits), len(count.places("dead_lettered"))) == (9_990, 10)
    assert life.peak_mb > 0


def test_a_row_that_the_store_refuses_costs_itself(deployment):
    book = deployment.book
    values = [book.event(f"e-{n}") for n in range(1_000)]
    del book.meanings[values[500]]
    with deployment.store() as store:
        store.execute("ALTER TABLE terminal_events ADD CONSTRAINT picky CHECK event_id != 'e-500'")
    deployment.send(values)
    deployment.drain(batch_records=1_000)
    deployment.recount()
    assert codes(deployment) == {500: "store_refused"}
    assert fates(deployment).count("classified") == 999


def test_the_limit_of_size_is_the_last_that_is_read(deployment):
    book, limit = deployment.book, 20_000
    texts = [book.event(f"e-{n}") for n in range(3)]
    values = [text + b" " * (limit - 1 + n - len(text)) for n, text in enumerate(texts)]
    for text, value in zip(texts[:2], values, strict=False):
        book.note(value, book.meanings[text])
    deployment.send([*values, book.event("e-3")])
    deployment.drain(max_message_bytes=limit)
    deployment.recount()
    assert [len(value) - limit for value in values] == [-1, 0, 1]
    assert codes(deployment) == {2: "too_large"}
    (letter,) = deployment.read(deployment.topics.dead_letters.name)
    assert letter.value == values[2]


def test_one_id_at_two_offsets_is_one_event_and_other_content_is_kept_apart(deployment):
    book = deployment.book
    same, other = book.event("twice"), book.event("twice", content="another")
    deployment.send([same, same, other, book.event("once"), same], partition=0)
    deployment.drain(batch_records=2)
    assert fates(deployment) == ["classified", "duplicate", "conflicting", "classified", "duplicate"]
    # On another partition, so in no order that Kafka would know of.
    deployment.send([other, same, book.event("far")], partition=1)
    deployment.drain()
    count = deployment.recount()
    assert set(count.exits) == {"twice", "once", "far"}
    (event,) = deployment.rows("SELECT agent_id FROM v_events WHERE event_id = 'twice'")
    assert event["agent_id"] == "agent"
    (conflict,) = deployment.rows("SELECT tenant, event_id FROM v_conflicts")
    assert conflict == {"tenant": TENANT, "event_id": "twice"}


def test_one_id_on_two_partitions_of_one_batch(deployment):
    book = deployment.book
    deployment.send([book.event("equal"), book.event("different")], partition=0)
    deployment.send([book.event("equal"), book.event("different", content="another")], partition=1)
    deployment.drain()
    # Which partition is read first, nobody says.
    later = {place_of_row(row) for row in deployment.rows("SELECT source, partition, offset FROM v_conflicts")}
    deployment.recount(sorted(deployment.log(), key=lambda message: place_of(message) in later))
    assert sorted(fates(deployment)) == ["classified", "classified", "conflicting", "duplicate"]


def test_four_hundred_days_in_one_batch_and_clocks_that_are_wrong(deployment):
    book, now = deployment.book, CLOCK.now_micros()
    days = [book.event(f"day-{n}", timeless=True, occurred_at=at(n)) for n in range(400)]
    wrong = {"behind": now - 27 * DAY_US // 24, "ahead": now + 2 * DAY_US // 24}
    values = [book.event(name, timeless=True, occurred_at=to_iso(when)) for name, when in wrong.items()]
    deployment.send(days)
    producer = deployment.client.producer()
    for (_, when), value in zip(wrong.items(), values, strict=True):
        producer.send(Outgoing(deployment.events, b"k", value, (), 1, when)).result(60)
    producer.close()
    deployment.drain(batch_records=1_000)
    deployment.recount()
    stored = deployment.rows("SELECT event_id, occurred_at FROM v_exits")
    seen = {row["event_id"]: row["occurred_at"] for row in stored}
    assert {name: seen[name] for name in wrong} == wrong
    assert seen["day-399"] - seen["day-0"] == 399 * DAY_US


def at(day):
    return (NOON - timedelta(days=400 - day)).isoformat().replace("+00:00", "Z")


def test_the_time_zone_of_a_worker_moves_no_time(deployment):
    book = deployment.book
    for number, zone in enumerate(("America/Los_Angeles", "Asia/Kolkata")):
        deployment.send([book.event(f"{zone}-{n}", timeless=True, occurred_at=at(n)) for n in range(3)], number)
        deployment.drain(env={"TZ": zone})
    deployment.recount()
    stored = deployment.rows("SELECT event_id, occurred_at, classified_at FROM v_exits")
    for row in stored:
        day = int(row["event_id"].rpartition("-")[2])
        assert row["occurred_at"] == int(datetime.fromisoformat(at(day)).timestamp()) * 1_000_000
        assert abs(row["classified_at"] - CLOCK.now_micros()) < 600_000_000


def test_a_registry_that_is_away_is_waited_for_and_an_unknown_id_is_a_dead_letter(deploy, broker):
    with SchemaRegistryDouble().running() as registry:
        registry.add(avro("terminal-event"), SCHEMA_ID)
        registry.missing.add(404)
        deployment = deploy(broker, config={"registry": {"url": registry.url, "timeout_s": 2.0}})
        book = deployment.book
        values = [book.framed(f"e-{number}", SCHEMA_ID) for number in range(3)]
        values.insert(1, encode_confluent(parse_json(book.event("lost")), 404))
        registry.status = 503
        deployment.send(values)
        life = deployment.live()
        life.until_told("waiting for an outage to end", 3)
        assert deployment.recorded() == {}
        registry.status = None
        deployment.until_stored()
        assert life.end() == 0
        deployment.recount()
        assert codes(deployment) == {1: "unknown_schema"}
