"""What ``offramp dlq`` lists, shows and sends back: from files as a command, from topics on a cluster in memory."""

import json
from contextlib import contextmanager

import pytest

from offramp import streaming
from offramp.config import resolve
from offramp.dead_letters import Filter, Order, Redriving, _view, listing, shown
from offramp.errors import CheckFailedError, ConfigurationError, CouldNotCheckError
from offramp.period import Period
from offramp.session import Session
from sinks.double import start_double
from sinks.rows import DeadLetterRow, LedgerRow, encode_dead_letters, encode_ledger
from sinks.server import Server, User, open_server
from streams.clock import FixedClock
from streams.kafka.errors import BrokerRejected, BrokerUnavailable, Rejection
from streams.kafka.fake import FakeCluster
from streams.kafka.seam import NewTopic, Outgoing, Subscription, TopicPartition
from streams.redrive import MAX_REPLAYS, ORIGIN_OFFSET, REPLAY_COUNT, Policy, Refusal, replay_count_of
from tests.offramp.kit import events, new_directory, run, write_lines
from tests.sinks.samples import NOW

REDRIVE = "terminal-events.redrive"
ALL = Filter(Period())
BAD = '{"type": "terminal_event", "version": 1, "event_id": 7}'


# --- of files, as a command


@pytest.fixture(scope="module")
def of_files():
    directory = new_directory()
    lines = [events()[0], "{", BAD, "\x1b[31m not json"]
    run("classify", write_lines(directory / "events", lines), "--store", directory / "store")
    return directory / "store"


def test_a_list_begins_with_the_reasons(of_files):
    done = run("dlq", "list", "--store", of_files)
    assert done.status == 0
    head, _, rest = done.text.partition("all of them")
    assert head.startswith("3 dead letters")
    assert "bad_json" in head
    assert "tenant" in rest or "event_id" in rest


def test_a_list_can_be_narrowed(of_files):
    def found(*options):
        return json.loads(run("dlq", "list", "--store", of_files, "--format", "json", *options).out)

    assert found()["letters"] == 3
    assert found("--reason", "bad_json")["letters"] == 2
    assert found("--reason", "bad_json", "--reason", "it's")["letters"] == 2
    assert found("--topic", "terminal-events")["letters"] == 0
    assert found("--topic", "file", "--partition", found()["newest"][0]["partition"][:6])["letters"] == 3
    assert found("--partition", "no")["letters"] == 0
    assert found("--until", "1")["letters"] == 0
    assert found("--since", "1")["letters"] == 3
    assert found("--state", "waiting")["letters"] == 0
    assert (found("--limit", "1")["letters"], len(found("--limit", "1")["newest"])) == (3, 1)
    lines = run("dlq", "list", "--store", of_files, "--format", "ndjson").lines
    assert [line["state"] for line in lines] == ["dead"] * 3


def partition(store):
    return json.loads(run("dlq", "list", "--store", store, "--format", "json").out)["newest"][0]["partition"]


def test_a_letter_is_shown_with_the_place_of_its_error(of_files):
    done = run("dlq", "show", "file", partition(of_files)[:8], "2", "--store", of_files)
    assert done.status == 0
    assert "event_id: " in done.text
    assert "there stands: 7" in done.text
    assert BAD in done.text


def test_what_could_take_the_terminal_over_is_shown_in_hexadecimal(of_files):
    done = run("dlq", "show", "file", partition(of_files), "3", "--store", of_files)
    assert "\x1b" not in done.text
    assert "1b 5b 33 31 6d" in done.text
    found = json.loads(
        run("dlq", "show", "file", partition(of_files), "3", "--store", of_files, "--format", "json").out
    )
    assert found["raw"]["text"] == "\x1b[31m not json"


def test_what_is_not_there_is_said(of_files, tmp_path):
    done = run("dlq", "show", "file", partition(of_files), "0", "--store", of_files)
    assert done.status == 1
    assert "there is no dead letter at file" in done.err
    assert run("dlq", "list", "--store", tmp_path / "none").status == 3


def test_redriving_needs_a_broker(of_files):
    done = run("dlq", "redrive", "--store", of_files)
    assert done.status == 2
    assert "no broker is configured" in done.err


@pytest.mark.parametrize("width", [20, 60, 120])
@pytest.mark.parametrize("raw", [b"text \xc3\xa4 " * 40, bytes(range(256)), b"", b"a\tb\r\nc"])
def test_bytes_fit_the_terminal(raw, width):
    lines = list(_view(raw, 0, width))
    if b"\x00" not in raw:
        assert all(len(line) <= width for line in lines)
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("raw", [b'{"tenant":"\xff"}', b"cut short \xc3", b"\xa4 begins within"])
def test_bytes_that_are_no_text_are_shown_as_they_are(raw):
    assert raw.hex(" ")[:20] in "".join(_view(raw, 0, 100))


def test_an_excerpt_of_a_text_is_shown_as_text_wherever_it_was_cut():
    text = "a\u00e4\u20ac\U0001f600z"
    raw = text.encode()
    for start in range(len(raw)):
        for end in range(start + 4, len(raw) + 1):
            (line,) = _view(raw[start:end], start, 100, more=end < len(raw))
            assert line.strip() in text


# --- of topics


@pytest.fixture
def cluster(monkeypatch):
    cluster = FakeCluster()
    cluster.create(NewTopic("terminal-events", 2, 1, {}))
    cluster.create(NewTopic(REDRIVE, 2, 1, {"max.message.bytes": "10000"}))
    monkeypatch.setattr(streaming, "client", lambda settings: cluster.client())
    return cluster


@pytest.fixture(scope="module")
def double(tmp_path_factory):
    with start_double(tmp_path_factory.mktemp("server")) as double:
        yield double


@pytest.fixture
def store(double, monkeypatch):
    """A store of a server, because this process may have an embedded one open already."""

    @contextmanager
    def opened(_session, _verb):
        yield store

    with open_server(Server(double.url, writer=User("default")), lambda: NOW) as store:
        store.migrate()
        for table in ("dead_letters", "redrives", "ingest_ledger"):
            store._engine.command(f"TRUNCATE TABLE {table}")
        monkeypatch.setattr(Session, "existing_store", opened)
        yield store


def session():
    flags = {"kafka": {"servers": ["broker:9092"]}, "topics": {"replication_factor": 1}}
    return Session(resolve(None, {}, flags), FixedClock(NOW))


def letter(offset, **fields):
    given = {
        "source": "terminal-events", "partition": "1", "offset": offset, "timestamp": None, "raw": b"{%d" % offset,
        "headers": {"traceparent": b"00-\xff"}, "reason_code": "bad_json", "field_path": "", "message": "no JSON",
        "masked": False, "tries": 1, "replay_count": 0, "recorded_at": NOW, "key": b"acme/r",
    }  # fmt: skip
    return DeadLetterRow(**given | fields)


def keep(store, *letters):
    store.insert("dead_letters", encode_dead_letters(letters))


def redrive(wanted=ALL, *, dry_run=False, **policy):
    redriving = Redriving(session(), Order(wanted, Policy(**policy), dry_run))
    redriving.run()
    return redriving


def states(store):
    return {row["offset"]: row["state"] for row in listing(store, ALL, 100).letters}


def arrive(store, message, disposition, event_id="e-1"):
    """What the worker writes of a message that it has read."""
    row = LedgerRow(message.topic, str(message.partition), message.offset, message.offset + 1, "acme", event_id,
                    "terminal_event", "sha256:c", disposition, NOW)  # fmt: skip
    store.insert("ingest_ledger", encode_ledger([row]))


def test_a_letter_comes_back_whole_with_its_origin_and_one_replay_more(cluster, store):
    keep(store, letter(5, raw=b"\x00\xffbytes"), letter(6, key=None, headers={"a": b"1", "a[1]": b"2"}))
    assert redrive().sent == 2
    first, second = sorted(cluster.messages(REDRIVE), key=lambda message: message.value)
    assert (first.value, first.key, first.headers[0]) == (b"\x00\xffbytes", b"acme/r", ("traceparent", b"00-\xff"))
    assert dict(first.headers)[ORIGIN_OFFSET] == b"5"
    assert replay_count_of(first.headers) == 1
    assert (second.key, second.headers[:2]) == (None, (("a", b"1"), ("a", b"2")))
    assert states(store) == {5: "waiting", 6: "waiting"}


def test_redriving_twice_sends_nothing_the_second_time(cluster, store):
    keep(store, letter(5))
    assert redrive().sent == 1
    second = redrive()
    assert (second.sent, second.left, second.failed) == (0, {Refusal.WAITING: 1}, 0)
    assert redrive(again=True).sent == 1
    assert len(cluster.messages(REDRIVE)) == 2


@pytest.mark.parametrize(
    ("disposition", "state", "refusal"),
    [("classified", "classified", Refusal.DONE), ("duplicate", "duplicate", Refusal.DONE),
     ("conflicting", "conflicting", Refusal.DONE), ("dead_lettered", "dead_again", Refusal.DEAD_AGAIN)],
)  # fmt: skip
def test_the_state_is_what_the_redriven_message_became(cluster, store, disposition, state, refusal):
    keep(store, letter(5))
    redrive()
    arrive(store, *cluster.messages(REDRIVE), disposition)
    assert states(store) == {5: state}
    assert redrive(again=True).left == {refusal: 1}
    assert shown(store, "terminal-events", "1", 5).as_json()["redriven"][0]["topic"] == REDRIVE


def test_of_two_copies_one_that_was_stored_is_enough(cluster, store):
    keep(store, letter(5))
    redrive()
    redrive(again=True)
    first, second = cluster.messages(REDRIVE)
    arrive(store, first, "classified")
    arrive(store, second, "duplicate")
    assert states(store) == {5: "classified"}
    assert listing(store, ALL, 1).letters[0]["event_id"] == "e-1"


def test_the_loop_guard_refuses_and_lists(cluster, store):
    keep(store, letter(5, replay_count=MAX_REPLAYS), letter(6, replay_count=MAX_REPLAYS - 1))
    done = redrive()
    assert (done.sent, done.failed) == (1, 1)
    assert done.as_json()["examples"]["too_often"] == [{"source": "terminal-events", "partition": "1", "offset": 5}]
    assert redrive(max_replays=MAX_REPLAYS + 1).sent == 1


def test_a_message_that_never_becomes_valid_stops_going_round(cluster, store):
    """The worker makes a letter of each redriven message, with the count that its header says."""
    keep(store, letter(5))
    rounds = 0
    while redrive().sent:
        rounds += 1
        message = cluster.messages(REDRIVE)[-1]
        arrive(store, message, "dead_lettered", event_id="")
        headers = {name: value or b"" for name, value in message.headers}
        keep(store, letter(message.offset, source=REDRIVE, partition=str(message.partition), headers=headers,
                           replay_count=replay_count_of(message.headers)))  # fmt: skip
    assert rounds == MAX_REPLAYS
    assert redrive().left == {Refusal.TOO_OFTEN: 1, Refusal.DEAD_AGAIN: MAX_REPLAYS}
    assert [value for name, value in cluster.messages(REDRIVE)[-1].headers if name == REPLAY_COUNT] == [b"3"]


# Masked letters


def masked(cluster, value=b'{"password": "hunter2"', **fields):
    at = cluster.append(Outgoing("terminal-events", b"acme/r", value, (("h", b"1"),), 1))
    copy = letter(at.offset, raw=value.replace(b"hunter2", b"*******"), masked=True,
                  timestamp=cluster.clock.now_micros() // 1000 * 1000)  # fmt: skip
    return copy._replace(**fields)


def test_a_masked_letter_is_read_again_at_its_source(cluster, store):
    cluster.skip(TopicPartition("terminal-events", 1), 3)
    keep(store, masked(cluster), letter(99))
    assert redrive().sent == 2
    assert {message.value for message in cluster.messages(REDRIVE)} == {b'{"password": "hunter2"', b"{99"}


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_masked_letter_whose_source_expired_is_counted_and_not_sent(cluster, store, dry_run):
    copy = masked(cluster)
    cluster.append(Outgoing("terminal-events", b"k", b"v", (), 1))
    keep(store, copy)
    cluster.expire(TopicPartition("terminal-events", 1), 1)
    done = redrive(dry_run=dry_run)
    assert (done.sent, done.failed, done.left) == (0, 1, {Refusal.SOURCE_GONE: 1})
    assert cluster.messages(REDRIVE) == []


@pytest.mark.parametrize(
    "fields",
    [{"source": "deleted-topic"}, {"partition": "7"}, {"partition": "no number"}, {"offset": 40},
     {"raw": b"of another length"}, {"timestamp": 1}],
)  # fmt: skip
def test_another_message_is_never_taken_for_the_masked_one(cluster, store, fields):
    keep(store, masked(cluster, **fields))
    assert redrive().left == {Refusal.SOURCE_GONE: 1}


def test_a_masked_letter_in_a_hole_is_gone(cluster, store):
    copy = masked(cluster)
    cluster.append(Outgoing("terminal-events", b"acme/r", b"newer", (), 1))
    cluster.compact("terminal-events")
    keep(store, copy)
    assert redrive().left == {Refusal.SOURCE_GONE: 1}


# What is left alone


def test_letters_of_files_and_erased_ones_are_left(cluster, store):
    keep(store, letter(1, source="file", partition="abc"), letter(2))
    store._engine.command("ALTER TABLE dead_letters UPDATE erased = true WHERE offset = 2 SETTINGS mutations_sync = 2")
    done = redrive()
    assert done.left == {Refusal.OF_FILE: 1, Refusal.ERASED: 1}
    assert done.failed == 1


def test_only_what_the_filter_lets_through_is_sent(cluster, store):
    keep(store, letter(1), letter(2, reason_code="bad_avro"), letter(3, partition="0"), letter(4, recorded_at=NOW + 9))
    assert redrive(Filter(Period(), ["bad_avro"])).sent == 1
    assert redrive(Filter(Period(), partition="0")).sent == 1
    assert redrive(Filter(Period(since=NOW + 9))).sent == 1


def test_a_dry_run_sends_and_records_nothing(cluster, store):
    keep(store, letter(5), masked(cluster))
    assert redrive(dry_run=True).sent == 2
    assert cluster.messages(REDRIVE) == []
    assert set(states(store).values()) == {"dead"}


# Refusals and outages


def test_what_the_topic_does_not_take_costs_its_neighbours_nothing(cluster, store):
    keep(store, letter(5), letter(6, raw=b"x" * 10_001), letter(7))
    done = redrive()
    assert (done.sent, done.left, done.failed) == (2, {Refusal.TOO_LARGE: 1}, 1)


def test_an_outage_is_told_and_what_was_confirmed_is_recorded(cluster, store):
    keep(store, letter(5), letter(6))
    cluster.inject("acknowledge", BrokerUnavailable("gone"))
    with pytest.raises(CouldNotCheckError):
        redrive()
    assert sorted(states(store).values()) == ["dead", "waiting"]
    assert redrive().sent == 1
    assert len(cluster.messages(REDRIVE)) == 3


def test_an_outage_while_reading_the_source_sends_nothing(cluster, store):
    keep(store, letter(9), masked(cluster))
    cluster.inject("offsets", BrokerUnavailable("gone"))
    with pytest.raises(CouldNotCheckError):
        redrive()
    assert cluster.messages(REDRIVE) == []


def test_a_refused_user_is_a_matter_of_configuration(cluster, store):
    keep(store, letter(5))
    cluster.inject("send", BrokerRejected(Rejection.AUTHORIZATION, "may not write"))
    with pytest.raises(ConfigurationError, match="may not write"):
        redrive()
    assert states(store) == {5: "dead"}


def test_a_topic_that_is_missing_or_that_others_read_is_refused(cluster, store, monkeypatch):
    class Listener:
        def on_assigned(self, consumer, partitions):
            for each in partitions:
                consumer.seek(each, 0)

        def on_revoked(self, consumer, partitions):
            pass

    cluster.client().consumer(Subscription("legacy-dispatcher", (REDRIVE,)), Listener()).poll(0, 1)
    with pytest.raises(ConfigurationError, match="not ours alone: group legacy-dispatcher"):
        redrive()
    empty = FakeCluster()
    monkeypatch.setattr(streaming, "client", lambda settings: empty.client())
    with pytest.raises(ConfigurationError, match=r"there is no topic terminal-events\.redrive"):
        redrive()


def test_many_letters_go_in_pages_and_windows(cluster, store, monkeypatch):
    monkeypatch.setattr("offramp.dead_letters.PAGE_LETTERS", 7)
    monkeypatch.setattr("streams.redrive.WINDOW", 3)
    keep(store, *(letter(n, partition=str(n % 3)) for n in range(50)))
    assert redrive().sent == 50
    assert len({message.value for message in cluster.messages(REDRIVE)}) == 50


def test_a_letter_that_is_not_there_is_said(store):
    with pytest.raises(CheckFailedError, match="there is no dead letter at terminal-events 0 offset 3"):
        shown(store, "terminal-events", "0", 3)
