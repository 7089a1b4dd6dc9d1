"""The app as a process, on a real broker, against the recount of a store that the test writes."""

import json
import random
import signal

import faust
import pytest

from schemas.types import to_iso
from streams.kafka.seam import Connection, Outgoing
from streams.lifecycle.app import Process, Progress, Reads, _settings
from tests.streams.lifecycle.samples import DIGESTS, NOW, drawn, histories, shifted
from tests.streams.lifecycle.world import deployment, eventually, now_micros

pytestmark = pytest.mark.xdist_group("kafka")


@pytest.fixture
def world(tmp_path, broker, fresh):
    with deployment(tmp_path, broker, fresh("lifecycle") + ".") as made:
        made.activate(DIGESTS)
        yield made


def history(prefix, age_us, count=6):
    """Records of some runs that ended ``age_us`` ago, in any order."""
    records = [record for number, records in enumerate(drawn(histories(prefix=prefix), count)) for record in
               _renamed(records, f"{number}.")]  # fmt: skip
    random.Random(prefix).shuffle(records)
    return shifted(records, now_micros() - age_us - NOW)


def _renamed(records, prefix):
    names = ("event_id", "run_id", "record_id")
    return [{name: prefix + value if name in names and value else value for name, value in record.items()}
            for record in records]  # fmt: skip


HOUR = 3_600_000_000


def shown(app):
    """What a page says is open, as comparable rows."""
    page = app.page()
    assert len(page["oldest_reviews"]) < 1000 > len(page["oldest_partials"])
    partials = {(one["tenant"], one["event_id"], tuple(one["missing"]), one["reverses_result"]) for one in
                page["oldest_partials"]}  # fmt: skip
    reviews = {
        (one["tenant"], one["event_id"], one["queue"], one["owner"], one["state"], one["decision_owed"],
         one["paused_us"], one["opened_at"], _duties(one["duties"]))
        for one in page["oldest_reviews"]
    }  # fmt: skip
    return partials, reviews


def counted(world):
    """The same, counted by the store."""
    recount = world.recount()
    partials = {(one["tenant"], one["event_id"], tuple(one["missing"]), bool(one["reverses_result"])) for one in
                recount.partials}  # fmt: skip
    reviews = {
        (one["tenant"], one["event_id"], one["queue"], one["owner"], one["state"], one["decision_owed"],
         one["paused_us"], to_iso(one["opened_at"]), _duties(one["duties"]))
        for one in recount.reviews
    }  # fmt: skip
    return partials, reviews


def _duties(duties):
    return tuple((duty["action"], duty["operation_id"]) for duty in duties)


def agree(world, *apps):
    expected = counted(world)
    assert all(expected)

    def difference():
        return [
            (app.said(), [ours ^ theirs for ours, theirs in zip(shown(app), expected, strict=True)]) for app in apps
        ]

    eventually(lambda: all(shown(app) == expected for app in apps), difference)


def started(world):
    app = world.app()
    eventually(app.is_ready, app.said)
    return app


def test_whatever_way_a_record_comes_the_page_shows_what_the_store_counts(world):
    world.happen(history("before.", 30 * HOUR), announced=False)
    app = started(world)
    agree(world, app)
    world.happen(history("both.", 0))
    agree(world, app)
    world.happen(history("loaded.", 50 * HOUR), announced=False)
    agree(world, app)
    late = history("first.", 2 * HOUR)
    world.happen(late, stored=False)
    world.happen(late[::-1], announced=False)
    agree(world, app)
    assert app.end() == 0


def test_killed_at_any_time_it_knows_the_same_again(world):
    app = started(world)
    for number in range(3):
        records = history(f"kill{number}.", 0, 3)
        world.happen(records[::2])
        app.kill()
        world.happen(records[1::2])
        app = started(world)
        agree(world, app)
    world.happen(records)
    agree(world, app)


def test_of_several_each_shows_everything_and_one_leads(world):
    apps = [started(world), started(world)]
    world.happen(history("several.", 0))
    agree(world, *apps)

    def leaders():
        return [app for app in apps if app.page()["leader"]]

    eventually(lambda: len(leaders()) == 1, leaders)
    (leader,) = leaders()
    leader.kill()
    apps.remove(leader)
    eventually(leaders, apps[0].said)
    world.happen(history("after.", 0))
    agree(world, *apps)


def test_who_waits_for_its_group_is_live_and_not_ready(world):
    waiting, stopped = started(world), started(world)
    stopped.process.send_signal(signal.SIGSTOP)
    third = world.app()
    eventually(lambda: not waiting.is_ready(), waiting.said)
    assert json.loads(waiting.get("/readyz")[1])["reason"].endswith("group joined: False")
    assert waiting.get("/livez")[0] == 200
    eventually(lambda: waiting.is_ready() and third.is_ready(), waiting.said)
    stopped.process.send_signal(signal.SIGCONT)
    eventually(stopped.is_ready, stopped.said)


@pytest.mark.parametrize(
    ("turn_at", "outside_since", "live"),
    [(100.0, None, True), (40.1, None, True), (40.0, None, False), (100.0, -79.9, True), (100.0, -80.0, False)],
)
def test_it_is_live_while_it_takes_turns_and_is_not_out_of_its_group_for_good(turn_at, outside_since, live):
    process = Process("g", "localhost", 0, (), stalled_after_s=60.0, outside_after_s=180.0)
    assert Progress(turn_at, 0.0, outside_since).liveness(100.0, process)[0] is live


def test_a_client_that_polls_no_more_leaves_its_group_but_not_for_a_rebalance():
    reads, process = Reads("exits", ("notes",), "alerts"), Process("g", "localhost", 1, ())
    conf = faust.Settings("g", **_settings(Connection(("localhost:1",)), reads, process))
    # Faust polls in no rebalance, and one that has to be tried again takes twice as long.
    assert 2 * conf.broker_rebalance_timeout < conf.broker_max_poll_interval <= 180


def test_neither_poison_nor_an_outage_of_the_store_stops_it(world):
    app = started(world)
    topics = world.topics
    for value in (b"", b"garbage", b"\x00\x00\x00\x00\x07abc", b'{"event_id": 1}', None):
        for topic in (topics.exit_classifications, topics.review_events, topics.enrichments, topics.exit_alerts):
            world.producer.send(Outgoing(topic.name, key=b"k", value=value))
    world.happen(history("poison.", 0, 3))
    agree(world, app)
    eventually(lambda: app.counter("unreadable") == 12, lambda: app.get("/metrics")[1])
    world.happen(history("afterwards.", 0, 3), announced=False)
    agree(world, app)


def test_what_is_announced_is_open_at_once_though_the_store_cannot_be_read(world):
    app = started(world)
    world.double.refuse(241, times=None, on="SELECT")
    eventually(lambda: app.counter("store_failures"), app.said)
    records = history("outage.", 0)
    world.happen(records, stored=False)
    said = [record for record in records if "envelope" in record or record["event_id"] or record["run_id"]]
    eventually(lambda: app.counter("exits") + app.counter("notes") == len(said), lambda: app.get("/metrics")[1])
    assert app.counter("unreadable") == 0
    assert app.get("/livez")[0] == 200
    without_store = shown(app)
    world.double.clear()
    world.happen(records, announced=False)
    assert without_store == counted(world)
    agree(world, app)


def test_a_broker_that_dies_and_comes_back_is_read_again(tmp_path, own_broker, fresh):
    broker = own_broker()
    with deployment(tmp_path, broker, fresh("lifecycle") + ".") as world:
        app = started(world)
        broker.kill()
        world.happen(history("without.", 0, 3), announced=False)
        agree(world, app)
        broker.start()
        world.reconnect()
        eventually(lambda: world.is_read(app), app.said)
        assert app.end() == 0


def test_no_topic_is_made_that_was_not_planned(world):
    app = started(world)
    world.happen(history("topics.", 0, 2))
    agree(world, app)
    admin = world.client.admin()
    made = {name for name in admin.topics() if name.startswith(world.prefix)}
    admin.close()
    assert made == {topic.name for topic in world.topics}
