"""Classify-only, enforced: what the legacy dispatcher does is the same whatever becomes of offramp."""

import statistics
import subprocess
import sys
from contextlib import closing
from typing import NamedTuple

import pytest

from tests.faults.deployment import eventually
from tests.faults.dispatcher import decision
from tests.offramp.kit import ROOT, environment

LATE_S = 2.0
"""Half of the messages are decided within this time, on a machine that does other work too."""


class Decided(NamedTuple):
    """What the dispatcher wrote about one message."""

    partition: int
    offset: int
    decision: str
    late_s: float


class Dispatcher:
    def __init__(self, deployment):
        self.deployment, self.group = deployment, f"{deployment.name}-legacy"
        self.file = deployment.folder / "decisions"
        self.file.touch()
        command = [sys.executable, "-m", "tests.faults.dispatcher", deployment.broker.bootstrap, deployment.events,
                   self.group, str(self.file)]  # fmt: skip
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment())

    def decided(self):
        words = [line.split() for line in self.file.read_text().splitlines()]
        return [Decided(int(part), int(offset), said, float(late)) for part, offset, said, late in words]

    def committed(self):
        with closing(self.deployment.client.admin()) as admin:
            return {part: each.offset for part, each in admin.group_offsets(self.group).items()}

    def end(self):
        self.process.terminate()
        assert self.process.wait(60) == 0


@pytest.fixture
def dispatcher(deployment):
    made = Dispatcher(deployment)
    yield made
    made.process.kill()
    made.process.wait()


def ends_of(deployment):
    parts = deployment.ends()
    return {part: end for part, end in parts.items() if part.topic == deployment.events and end}


def phase(deployment, dispatcher, name):
    """Some events, decided by the dispatcher: how late, in the median."""
    before = len(dispatcher.decided())
    deployment.send([deployment.book.event(f"{name}-{n}") for n in range(100)], partition=None)
    eventually(lambda: len(dispatcher.decided()) >= before + 100)
    return statistics.median(each.late_s for each in dispatcher.decided()[before:])


def test_the_dispatcher_decides_the_same_with_the_worker_stopped_slow_crashing_or_well(deployment, dispatcher):
    double = deployment.double
    phase(deployment, dispatcher, "warm")
    late = {"stopped": phase(deployment, dispatcher, "stopped")}
    life = deployment.live(batch_records=10)
    life.until_told("assigned")
    late["well"] = phase(deployment, dispatcher, "well")
    double.delay(1, times=None)
    late["slow"] = phase(deployment, dispatcher, "slow")
    double.clear()
    for number in range(3):
        life.kill()
        life = deployment.live(batch_records=10)
        late[f"crashing {number}"] = phase(deployment, dispatcher, f"crashing-{number}")
    life.kill()
    deployment.drain()

    # Every message once, each decided by itself alone, nothing left, nobody else in its group.
    log = [each for each in deployment.log() if each.topic == deployment.events]
    wanted = sorted((each.partition, each.offset, decision(each.value)) for each in log)
    assert sorted(each[:3] for each in dispatcher.decided()) == wanted
    eventually(lambda: dispatcher.committed() == ends_of(deployment))
    assert max(late.values()) < LATE_S, late
    deployment.recount()
    dispatcher.end()


def test_offramp_writes_to_no_topic_that_it_or_the_dispatcher_reads(deployment):
    deployment.send([deployment.book.event("a"), b"poison", deployment.book.enrichment(1)])
    before = deployment.ends()
    deployment.drain()
    assert deployment.ends() == before
    written = [topic.name for topic in deployment.topics if deployment.read(topic.name)]
    assert set(written) - {part.topic for part, end in before.items() if end} == {
        deployment.topics.dead_letters.name,
        deployment.topics.exit_classifications.name,
    }
    deployment.recount()


def test_publish_refuses_a_topic_that_the_dispatcher_reads(deployment, dispatcher, tmp_path):
    phase(deployment, dispatcher, "a")
    deployment.drain()
    before = deployment.ends()
    record = tmp_path / "events.jsonl"
    record.write_bytes(deployment.book.event("trial") + b"\n")
    command = [sys.executable, "-m", "offramp", "publish", str(record), "--topic", deployment.events, "--config",
               str(deployment.lives[-1].config)]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, check=False)
    assert (done.returncode, dispatcher.group in done.stderr.decode()) == (2, True), done.stderr
    assert deployment.ends() == before
