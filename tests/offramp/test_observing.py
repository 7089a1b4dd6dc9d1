"""The classify worker as a process: what its pages say while all is well, in outages, and while it ends."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from offramp.config import resolve
from offramp.errors import ConfigurationError
from offramp.observing import ready, watched
from offramp.session import Session
from sinks.double import start_double
from sinks.errors import StoreUnavailable
from streams.clock import FixedClock, SystemClock
from streams.health import Health
from streams.kafka.fake import FakeCluster
from streams.kafka.kafka_python.client import KafkaPythonClient
from streams.kafka.seam import Connection, Outgoing
from streams.pages import serving
from streams.topics import Sizing, Topics
from streams.watch import Watch
from tests.offramp.kit import ROOT, environment, events

WAIT_S = 60.0


def eventually(holds, said):
    deadline = time.monotonic() + WAIT_S
    while not (answer := holds()):
        assert time.monotonic() < deadline, said()
        time.sleep(0.1)
    return answer


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class WorkerProcess:
    """``offramp run classify`` as people run it."""

    def __init__(self, folder, broker, double, prefix):
        self.prefix, self.port, self.log = prefix, free_port(), folder / "worker.log"
        self.config = folder / "offramp.toml"
        self.config.write_text(
            f'[store]\nurl = "{double.url}"\nconnect_timeout_s = 2\n'
            f'[kafka]\nservers = ["{broker.bootstrap}"]\ntimeout_s = 5\nclassify_group = "{prefix}group"\n'
            f'[topics]\nprefix = "{prefix}"\npartitions = 1\nreplication_factor = 1\n'
            f"[worker]\nport = {self.port}\nwatch_s = 0.5\nretry_most_s = 0.5\naudit_every_s = 0.5\n"
        )
        self.process = None

    def run(self, *verb):
        command = [sys.executable, "-m", "offramp", *verb, "--config", self.config]
        return subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, check=True)

    def begin(self):
        with self.log.open("ab") as stream:
            command = [sys.executable, "-m", "offramp", "run", "classify", "--config", self.config]
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=stream, stderr=stream)

    def said(self):
        return self.log.read_text()[-4000:]

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            assert self.process.poll() is None, self.said()
            return 0, ""

    def is_ready(self):
        return self.get("/readyz")[0] == 200

    def is_not_ready(self):
        return self.get("/readyz")[0] == 503

    def value(self, series):
        """Value of a series as the page writes it; None if it is not there."""
        found = re.search(rf"^offramp_{re.escape(series)} (\S+)$", self.get("/metrics")[1], re.MULTILINE)
        return None if found is None else float(found[1])

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WAIT_S)

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def worker(tmp_path, broker, fresh):
    with start_double(tmp_path / "store") as double:
        process = WorkerProcess(tmp_path, broker, double, fresh("observed") + ".")
        process.double = double
        process.run("init")
        yield process
        process.kill()


def publish(broker, topic, records):
    producer = KafkaPythonClient(Connection((broker.bootstrap,))).producer()
    for record in records:
        producer.send(Outgoing(topic, record["run_id"].encode(), json.dumps(record).encode()))
    producer.flush(WAIT_S)
    producer.close()


def test_the_pages_of_a_worker_are_honest(worker, broker):
    prefix = worker.prefix
    topic, some = Topics.planned(Sizing(prefix=prefix)).terminal_events.name, list(events())[:20]
    worker.begin()
    eventually(worker.is_ready, worker.said)
    publish(broker, topic, some)
    labels = f'{{partition="0",topic="{topic}"}}'
    eventually(lambda: worker.value(f"position{labels}") == len(some), worker.said)
    eventually(lambda: worker.value(f"lag_messages{labels}") == 0, worker.said)
    assert worker.value('messages_total{disposition="classified",record_type="terminal_event"}') == len(some)
    assert worker.value("newest_event_timestamp_seconds") > 0
    eventually(lambda: worker.value("unaccounted") == 0, worker.said)

    # The store goes: live, not ready, and the lag is seen although nothing can be stored.
    worker.double.stop()
    eventually(worker.is_not_ready, worker.said)
    publish(broker, topic, [{**some[0], "event_id": "behind the outage"}])
    eventually(lambda: worker.value('outage_waits_total{kind="store"}'), worker.said)
    status, text = worker.get("/livez")
    assert (status, "waits for the end of an outage" in text) == (200, True)
    eventually(lambda: worker.value(f"lag_messages{labels}") == 1, worker.said)
    assert worker.value("waiting") == 1

    # It comes back.
    worker.double.start()
    eventually(lambda: worker.value(f"lag_messages{labels}") == 0, worker.said)
    eventually(worker.is_ready, worker.said)
    assert worker.value("waiting") == 0

    # What the verbs say of the same.
    status = json.loads(worker.run("status", "--format", "json").stdout)
    assert {one["name"]: one["lag"] for one in status["topics"]}[topic] == status["unaccounted"] == 0
    assert {one["name"]: one["members"] for one in status["groups"]}[f"{prefix}group"] == 1
    assert status["store"]["ledger"]["classified"] == len(some) + 1
    doctor = json.loads(worker.run("doctor", "--format", "json").stdout)
    found = [finding for part in doctor["parts"] for finding in part["findings"]]
    assert {finding["level"] for finding in found} <= {"advice"}, found
    assert worker.end() == 0
    assert all(json.loads(line)["at"] for line in worker.log.read_text().splitlines())


def test_a_broker_that_goes_makes_it_not_ready_and_leaves_it_live(tmp_path, own_broker, fresh):
    broker = own_broker()
    with start_double(tmp_path / "store") as double:
        worker = WorkerProcess(tmp_path, broker, double, fresh("observed") + ".")
        worker.run("init")
        worker.begin()
        try:
            eventually(worker.is_ready, worker.said)
            broker.kill()
            eventually(worker.is_not_ready, worker.said)
            assert "the broker" in worker.get("/readyz")[1]
            assert worker.get("/livez")[0] == 200
            broker.restart()
            eventually(worker.is_ready, worker.said)
            assert worker.end() == 0
        finally:
            worker.kill()


# --- without processes


def session(**flags):
    given = {"kafka": {"servers": ["broker:9092"]}, **flags}
    return Session(resolve(None, {}, given), SystemClock())


def observed(**flags):
    settings = session(**flags)
    topics = Topics.planned(Sizing(replication_factor=1))
    return watched(settings, FakeCluster().client(), topics)


def test_a_port_that_is_taken_is_said_with_what_to_do():
    with serving("127.0.0.1", 0, {}) as port:
        reason = rf"worker\.host, worker\.port: 127\.0\.0\.1:{port}: Address already in use; .* port 0 for no pages"
        with pytest.raises(ConfigurationError, match=reason), observed(worker={"port": port}):
            pass


def test_a_worker_without_pages_listens_nowhere():
    with observed(worker={"port": 0}) as observer:
        observer.idle()


def test_an_embedded_store_is_not_audited_by_the_worker():
    needs = r"worker\.audit_every_s needs a server"
    with pytest.raises(ConfigurationError, match=needs), observed(worker={"audit_every_s": 5.0, "port": free_port()}):
        pass


def test_readiness_needs_everything_that_is_asked_and_no_outage():
    clock = FixedClock()
    health, answers = Health(clock, 60, 30), {"the store": None}

    def ask():
        if answers["the store"]:
            raise answers["the store"]

    broker, store = Watch("the broker", lambda: None, 10, clock), Watch("the store", ask, 10, clock)
    nobody = "the worker has not polled yet; the broker was not asked yet; the store was not asked yet"
    assert ready(health, [broker, store], 30) == (False, nobody)
    broker.once()
    store.once()
    assert ready(health, [broker, store], 30) == (False, "the worker has not polled yet")
    health.idle()
    assert ready(health, [broker, store], 30).ok
    answers["the store"] = StoreUnavailable("gone")
    store.once()
    clock.advance(31)
    broker.once()
    assert ready(health, [broker, store], 30) == (False, "the store does not answer: gone")
    answers["the store"] = None
    store.once()
    health.waits(StoreUnavailable("no memory"), 1)
    assert ready(health, [broker, store], 30) == (False, "waits for the end of an outage: no memory")


def test_traces_that_cannot_be_sent_for_want_of_a_package_say_which_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    monkeypatch.delitem(sys.modules, "streams.tracing", raising=False)
    needs = r"traces\.url: .* is not installed; install offramp\[otel\]"
    traces = {"url": "http://127.0.0.1:1"}
    with pytest.raises(ConfigurationError, match=needs), observed(traces=traces, worker={"port": 0}):
        pass
