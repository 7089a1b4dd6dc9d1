"""A small deployment for tests: a real broker's topics, a store behind the double of a server, the app as a process.

The test itself plays the classify worker: what it gives to :meth:`World.happen` is stored, announced, or both.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from schemas.companions import COMPANIONS
from sinks.double import start_double
from sinks.open_items import OpenItemsReader
from sinks.rows import (
    COMPANION_TABLES,
    CompanionRow,
    Position,
    TableRow,
    encode_classifications,
    encode_companions,
    encode_tables,
)
from sinks.server import Server, User, open_server
from streams.clock import SystemClock
from streams.exit_message import encode_exit
from streams.kafka.kafka_python.client import KafkaPythonClient
from streams.kafka.seam import Connection, NewTopic, Outgoing
from streams.topics import Sizing, Topics, key_of
from tests.streams.lifecycle.samples import row_of

ROOT = Path(__file__).parents[3]
WAIT_S = 60.0
now_micros = SystemClock().now_micros


def eventually(holds, what, wait_s=WAIT_S):
    """The first true answer of ``holds``, asked again until the deadline."""
    deadline = time.monotonic() + wait_s
    while not (answer := holds()):
        assert time.monotonic() < deadline, f"not within {wait_s:g} s: {what()}"
        time.sleep(0.1)
    return answer


class App:
    """One process of the lifecycle app."""

    def __init__(self, config, port, log, folder):
        self.port, self.log = port, log
        with log.open("ab") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.streams.lifecycle.run_app", str(config)],
                cwd=folder, stdout=stream, stderr=stream,
                env={**os.environ, "PYTHONPATH": str(ROOT), "OFFRAMP_LIFECYCLE__PORT": str(port)},
            )  # fmt: skip

    def get(self, path):
        """Status and text of a page; 0 while nothing listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            assert self.process.poll() is None, self.said()
            return 0, ""

    def page(self):
        return json.loads(self.get("/open-items")[1])

    def counter(self, name):
        """Value of a counter of the app, by its name without what all have."""
        lines = self.get("/metrics")[1].splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"offramp_lifecycle_{name}_total "))

    def is_ready(self):
        return self.get("/readyz")[0] == 200

    def said(self):
        return self.log.read_text()[-4000:]

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self):
        """SIGTERM, and the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WAIT_S)


class World:
    def __init__(self, folder, broker, double, prefix):
        self.folder, self.broker, self.double = folder, broker, double
        self.topics = Topics.planned(Sizing(prefix=prefix, partitions=2, replication_factor=1))
        self.store = open_server_store(double)
        self.client = KafkaPythonClient(Connection((broker.bootstrap,)))
        self.producer = None
        self.apps = []
        self.prefix = prefix
        self.here = folder / "here"
        self.here.mkdir()

    def make(self, store):
        store.migrate()
        self.opened = store
        admin = self.client.admin()
        admin.create_topics([NewTopic(topic.name, topic.partitions, 1) for topic in self.topics])
        admin.close()
        self.producer = self.client.producer()
        self.config = self.folder / "offramp.toml"
        self.config.write_text(
            f'[store]\nurl = "{self.double.url}"\n[kafka]\nservers = ["{self.broker.bootstrap}"]\n'
            f'lifecycle_group = "{self.prefix}group"\n[topics]\nprefix = "{self.prefix}"\n'
            "replication_factor = 1\n[lifecycle]\nsync_s = 0.5\nrebuild_s = 5\n"
        )

    def app(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.apps.append(App(self.config, port, self.folder / f"app-{len(self.apps)}.log", self.here))
        return self.apps[-1]

    def happen(self, records, *, stored=True, announced=True):
        if stored:
            write(self.opened, records, now_micros())
        if announced:
            for record in records:
                self.producer.send(self._message(record))
            self.producer.flush(WAIT_S)

    def reconnect(self):
        self.producer.close()
        self.producer = self.client.producer()

    def is_read(self, app):
        """Whether the app reads what is announced now."""
        before = app.counter("unreadable")
        self.producer.send(Outgoing(self.topics.enrichments.name, key=b"k", value=b"no record"))
        self.producer.flush(WAIT_S)
        time.sleep(0.5)
        return app.counter("unreadable") > before

    def activate(self, digests):
        rows = [TableRow(digest, "0.1.0", "default", "1", "", NOW) for digest in digests]
        self.opened.insert("active_tables", encode_tables(rows))

    def _message(self, record):
        if "envelope" in record:
            key = f"{record['tenant']}/{record['run_id']}".encode()
            value = encode_exit(record, record, record["classified_at"])
            return Outgoing(self.topics.exit_classifications.name, key=key, value=value)
        value = COMPANIONS[record["type"]].model_validate(record).model_dump_json().encode()
        return Outgoing(self.topics.of_record(record["type"]).name, key=key_of(record), value=value)

    def recount(self):
        return OpenItemsReader(self.opened).recount()


NOW = now_micros()


def open_server_store(double):
    return open_server(Server(url=double.url, writer=User("default", "")), now_micros)


def write(store, records, at):
    """Store records as the classify worker does."""
    exits = [row_of(record) for record in records if "envelope" in record]
    if exits:
        store.insert("exit_classifications", encode_classifications(exits))
    for kind, table in COMPANION_TABLES.items():
        rows = [
            CompanionRow(record, "sha256:c", Position("file", "p", 0), at)
            for record in records
            if record.get("type") == kind
        ]
        if rows:
            store.insert(table, encode_companions(kind, rows))


@contextmanager
def deployment(folder, broker, prefix):
    with start_double(folder / "store") as double:
        world = World(folder, broker, double, prefix)
        with world.store as store:
            world.make(store)
            try:
                yield world
            finally:
                for app in world.apps:
                    app.kill()
                world.producer.close()
            assert not list(world.here.iterdir()), "the app left something where it was started"
