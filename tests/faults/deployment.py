"""A deployment of its own: topics, a database in the double, workers as people run them, and the recount of it all."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from offramp.auditing import Broker, audit
from sinks.double import Double
from sinks.server import Server, open_server
from sinks.store import Store
from streams.accounts import Log
from streams.clock import SystemClock
from streams.kafka.kafka_python.client import KafkaPythonClient
from streams.kafka.seam import Client, Connection, Delivered, Message, NewTopic, Outgoing, TopicPartition
from streams.redrive import ORIGIN_OFFSET, ORIGIN_PARTITION, ORIGIN_TOPIC
from streams.topics import Sizing, Topic, Topics
from tests.broker.kafka import KafkaBroker
from tests.faults.book import Book, Count, Place, once, place_of_row
from tests.offramp.kit import ROOT, environment

WAIT_S = 60.0
"""Longer than anything takes on a machine that does other work too."""
MEMORY_MB = 900
"""More than a worker and the two processes that judge for it may have held together, whatever happened to them."""
CLOCK = SystemClock()


def eventually(holds: Callable[[], Any], said: Callable[[], str] = str, within_s: float = WAIT_S) -> Any:
    """What ``holds`` gives as soon as that is true. Fails with what was ``said`` if it does not become so."""
    deadline = time.monotonic() + within_s
    while not (answer := holds()):
        assert time.monotonic() < deadline, said() or "it did not come about"
        time.sleep(0.05)
    return answer


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def family(pid: int) -> list[int]:
    """A process that we started and everything that came from it, as far as it still runs."""
    found = [pid]
    for each in found:  # which grows
        for thread in Path(f"/proc/{each}/task").glob("*/children"):
            with suppress(OSError):
                found += map(int, thread.read_text().split())
    return found


def peak_mb(pid: int) -> float:
    """The most memory that a process has held, by itself; 0 once it has ended."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return sum(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))
    return 0.0


@dataclass
class Life:
    """One run of ``offramp run classify``."""

    config: Path
    log: Path
    port: int
    process: subprocess.Popen[bytes]
    peak_mb: float = 0.0

    def said(self) -> str:
        return self.log.read_text()[-6000:]

    def told(self, message: str) -> int:
        """How often the log has this message."""
        return sum(f'"message": "{message}"' in line for line in self.log.read_text().splitlines())

    def until_told(self, message: str, times: int = 1) -> None:
        def holds() -> bool:
            assert self.is_running or self.told(message) >= times, self.said()
            return self.told(message) >= times

        eventually(holds, self.said)

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def signal(self, number: int) -> None:
        self.measure()
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it at once, if it still runs."""
        if self.is_running:
            self.signal(signal.SIGKILL)
        self.process.wait()

    def end(self, within_s: float = WAIT_S) -> int:
        """Exit status after SIGTERM."""
        self.signal(signal.SIGTERM)
        return self.wait(within_s)

    def wait(self, within_s: float = WAIT_S) -> int:
        """Exit status, once it has ended."""
        eventually(lambda: not self.is_running or self.measure(), self.said, within_s)
        return self.process.wait()

    def measure(self) -> None:
        """Note the most memory that it and its child processes have held so far."""
        self.peak_mb = max(self.peak_mb, sum(map(peak_mb, family(self.process.pid))))

    def page(self, path: str) -> tuple[int, str]:
        """Status and text of a page; 0 while nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""


@dataclass
class Deployment:
    """Topics under a prefix, a group, a database; whoever reads and writes them is started by the test."""

    broker: KafkaBroker
    double: Double
    folder: Path
    name: str
    partitions: int = 2
    config: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings of every worker, by section, beside those that place it."""
    book: Book = field(default_factory=Book)
    lives: list[Life] = field(default_factory=list)

    def __post_init__(self) -> None:
        sizing = Sizing(prefix=f"{self.name}.", partitions=self.partitions, replication_factor=1)
        self.topics = Topics.planned(sizing)
        self.events, self.group = self.topics.terminal_events.name, f"{self.name}-classify"
        self.database = self.name.replace("-", "_")

    # --- what there is

    def make(self) -> None:
        """Make topics and tables."""
        self.make_topics(*self.topics)
        with open_server(Server(self.double.url), CLOCK.now_micros) as store:
            store.execute(f"CREATE DATABASE {self.database}")
        with self.store() as store:
            store.migrate()

    def make_topics(self, *topics: Topic) -> None:
        with closing(self.client.admin()) as admin:
            admin.create_topics([NewTopic(each.name, each.partitions, 1, each.settings) for each in topics])

    @property
    def client(self) -> Client:
        return KafkaPythonClient(Connection((self.broker.bootstrap,), timeout_s=30))

    @contextmanager
    def store(self) -> Iterator[Store]:
        with open_server(Server(self.double.url, database=self.database, timeout_s=60), CLOCK.now_micros) as store:
            yield store

    def rows(self, sql: str) -> list[dict[str, Any]]:
        with self.store() as store:
            return store.select(sql)

    @property
    def parts(self) -> list[TopicPartition]:
        """Every partition that workers read."""
        return [TopicPartition(topic.name, n) for topic in self.topics.inputs for n in range(topic.partitions)]

    # --- workers

    def settings(self, port: int, worker: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Everything that is configured, for a worker with its own differences."""
        quick = {"port": port, "retry_most_s": 0.5, "session_timeout_s": 3.0, "watch_s": 0.5, "linger_s": 0.05}
        sections: dict[str, dict[str, Any]] = {
            "store": {"url": self.double.url, "database": self.database, "connect_timeout_s": 2, "timeout_s": 20},
            "kafka": {"servers": [self.broker.bootstrap], "timeout_s": 20, "classify_group": self.group},
            "topics": {"prefix": f"{self.name}.", "partitions": self.partitions, "replication_factor": 1},
            "worker": quick,
        }
        for section, given in [*self.config.items(), ("worker", worker)]:
            sections[section] = sections.get(section, {}) | given
        return sections

    def live(self, *arguments: str, pages: bool = False, env: Mapping[str, str] | None = None, **worker: Any) -> Life:
        """Start a worker; settings of the section ``worker`` by name."""
        number, port = len(self.lives), free_port() if pages else 0
        config, log = self.folder / f"{self.name}-{number}.toml", self.folder / f"{self.name}-{number}.log"
        config.write_text(_toml(self.settings(port, worker)))
        with log.open("wb") as stream:
            command = [sys.executable, "-m", "offramp", "run", "classify", "--config", str(config), *arguments]
            process = subprocess.Popen(command, cwd=ROOT, env=environment(**(env or {})), stdout=stream, stderr=stream)
        self.lives.append(Life(config, log, port, process))
        return self.lives[-1]

    def drain(self, *, status: int = 0, env: Mapping[str, str] | None = None, start: str = "", **worker: Any) -> Life:
        """Run a worker until everything that is there is stored."""
        chosen = ["--start-from", start] if start else []
        life = self.live("--until-end", *chosen, env=env, **worker)
        assert life.wait() == status, life.said()
        return life

    def end_all(self) -> None:
        for life in self.lives:
            life.kill()

    # --- messages

    def send(
        self, values: Iterable[bytes | None], partition: int | None = 0, topic: str | None = None
    ) -> list[Delivered]:
        """Put values on the topic of events, confirmed: on a partition, or with None on each in turn."""
        with closing(self.client.producer()) as producer:
            pending = [
                producer.send(
                    Outgoing(
                        topic or self.events,
                        b"k",
                        value,
                        (),
                        number % self.partitions if partition is None else partition,
                    )
                )
                for number, value in enumerate(values)
            ]
            return [each.result(WAIT_S) for each in pending]

    def read(self, *topics: str) -> list[Message]:
        """Every message that topics hold, in order."""
        with closing(self.client.admin()) as admin:
            described = admin.describe_topics(topics)
        parts = [TopicPartition(topic.name, n) for topic in described.values() for n in range(topic.partitions)]
        found: list[Message] = []
        with closing(self.client.reader(parts)) as reader:
            ends, at = reader.end_offsets(parts), reader.beginning_offsets(parts)
            for part in parts:
                reader.seek(part, at[part])
            deadline = time.monotonic() + WAIT_S
            while any(at[part] < ends[part] for part in parts):
                assert time.monotonic() < deadline, f"{topics} could not be read"
                for fetched in reader.poll(1.0, 10_000):
                    found += fetched.messages
                    at[fetched.partition] = fetched.next_offset
        return sorted(found, key=lambda message: message[:3])

    def log(self) -> list[Message]:
        """What the topics that workers read hold."""
        return self.read(*(topic.name for topic in self.topics.inputs))

    def ends(self) -> dict[TopicPartition, int]:
        """Where the topics end that workers read."""
        with closing(self.client.reader(self.parts)) as reader:
            return reader.end_offsets(self.parts)

    # --- what an administrator does to them

    def order(self, give: Callable[[AdminClient], Mapping[Any, Future[Any]]]) -> None:
        """Let an administrator give an order, and wait for it."""
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})  # without which nobody answers
        for future in give(admin).values():
            future.result(WAIT_S)

    def drop_dead_letters(self) -> None:
        """Delete the topic of dead letters."""
        self.order(lambda admin: admin.delete_topics([self.topics.dead_letters.name]))

    # --- what became of them

    def recorded(self) -> dict[TopicPartition, int]:
        """Where the ledger of each partition ends."""
        sql = "SELECT source, partition, max(next_offset) AS end FROM ingest_ledger GROUP BY source, partition"
        return {TopicPartition(row["source"], int(row["partition"])): row["end"] for row in self.rows(sql)}

    def committed(self) -> dict[TopicPartition, int]:
        """What the group has committed."""
        with closing(self.client.admin()) as admin:
            return {part: each.offset for part, each in admin.group_offsets(self.group).items()}

    def check_commits(self) -> None:
        """No offset is committed that the ledger has not passed."""
        committed, recorded = self.committed(), self.recorded()
        ahead = {part: offset for part, offset in committed.items() if offset > recorded.get(part, 0)}
        assert not ahead, f"committed {ahead}, and the ledger knows {recorded}"

    def until_stored(self, within_s: float = WAIT_S) -> None:
        """Wait until the ledger has passed everything that is there."""
        ends = {part: end for part, end in self.ends().items() if end}

        def holds() -> bool:
            recorded = self.recorded()
            return all(recorded.get(part, 0) >= end for part, end in ends.items())

        eventually(holds, lambda: f"{ends} {self.recorded()} {[life.said() for life in self.lives]}", within_s)

    def seen(self) -> tuple[Count, list[dict[str, Any]]]:
        """What readers see, and the ledger's rows."""
        ledger = self.rows("SELECT source, partition, offset, next_offset, disposition FROM ingest_ledger FINAL")
        exits = self.rows("SELECT event_id, kind, reason_code FROM v_exits")
        once([row["event_id"] for row in exits], "exits")
        count = Count(exits={row["event_id"]: (row["kind"], row["reason_code"]) for row in exits})
        for row in ledger:
            held = {"classified": "held", "duplicate": "held", "stored": "held"}
            count.fates[place_of_row(row)] = held.get(row["disposition"], row["disposition"])
        for kind, view in (("terminal_event", "v_events"), ("enrichment", "enrichments FINAL")):
            (row,) = self.rows(f"SELECT count() AS n FROM {view}")  # noqa: S608 -- names above
            count.records[kind] = row["n"]
        count.records = +count.records
        return count, ledger

    def unaccounted(self) -> int:
        """What an audit of store and broker says."""
        names = [topic.name for topic in self.topics.inputs]
        with self.store() as store:
            result = audit(store, broker=Broker(Log(self.client, CLOCK, 30), self.group, names))
        found = [(each.check.code, each.count, each.examples) for each in result.found if each.count]
        odd = [each.as_json() for each in result.partitions if each.unaccounted]
        assert not result.unaccounted, (found, odd)
        return result.unaccounted

    def recount(self, log: Sequence[Message] | None = None, dead_letters_since: int = 0) -> Count:
        """Hold everything that readers see to what was sent, and return it.

        ``log`` is what was sent, where the broker no longer has all of it; ``dead_letters_since`` the offset from which
        on their topic has them.
        """
        wanted = self.book.expected(self.log() if log is None else log)
        seen, ledger = self.seen()
        _same(seen.fates, wanted.fates, "ledger")
        _same(seen.exits, wanted.exits, "exits")
        assert seen.rates == wanted.rates
        assert seen.records == +wanted.records
        assert sum(row["disposition"] in {"classified", "stored"} for row in ledger) >= wanted.records.total()
        letters = [place_of_row(row) for row in self.rows("SELECT source, partition, offset FROM v_dead_letters")]
        assert len(letters) == len(set(letters))
        assert set(letters) == wanted.places("dead_lettered")
        self._recount_topics(wanted, dead_letters_since)
        assert self.unaccounted() == 0
        self.check_commits()
        for life in self.lives:
            assert life.peak_mb < MEMORY_MB, f"a worker held {life.peak_mb:.0f} MB"
        return wanted

    def _recount_topics(self, wanted: Count, dead_letters_since: int) -> None:
        dead = {place for place in wanted.places("dead_lettered") if place[2] >= dead_letters_since}
        assert {_origin(each) for each in self.read(self.topics.dead_letters.name)} == dead
        announced = self.read(self.topics.exit_classifications.name)
        assert {json.loads(each.value or b"")["event_id"] for each in announced} == set(wanted.exits)


def _origin(message: Message) -> Place:
    """Of what a dead letter is a copy."""
    said = {name: (value or b"").decode() for name, value in message.headers}
    return said[ORIGIN_TOPIC], int(said[ORIGIN_PARTITION]), int(said[ORIGIN_OFFSET])


def _same(seen: Mapping[Any, Any], wanted: Mapping[Any, Any], what: str) -> None:
    lost, more = wanted.keys() - seen.keys(), seen.keys() - wanted.keys()
    other = [(key, seen[key], wanted[key]) for key in wanted.keys() & seen.keys() if seen[key] != wanted[key]]
    same = not lost and not more and not other
    assert same, (
        f"{what}: {len(lost)} missing, such as {sorted(lost)[:3]}; {len(more)} too many, such as {sorted(more)[:3]}; "
        f"{len(other)} are something else, such as {other[:3]} (seen, wanted)"
    )


def _toml(sections: Mapping[str, Mapping[str, Any]]) -> str:
    # What JSON says of these values, TOML says too.
    blocks = (
        "\n".join([f"[{name}]", *(f"{k} = {json.dumps(v)}" for k, v in given.items())])
        for name, given in sections.items()
    )
    return "\n".join(blocks) + "\n"


def with_zone(zone: str) -> dict[str, str]:
    """An environment in a time zone."""
    return {"TZ": zone, "PATH": os.environ["PATH"]}
