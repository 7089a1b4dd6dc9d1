"""The process ends anywhere, and the next one, with another batch size, goes on where the ledger ends."""

import signal
import subprocess
import sys
import time

import pytest

from tests.faults.deployment import eventually
from tests.offramp.kit import ROOT, environment

WAITS = "waiting for an outage to end"
INTO = "INSERT INTO {}"
LATE_S = 6

# What has been done when the process ends: everything before the statement, or the statement too.
BOUNDARIES = {
    "classified, nothing stored": lambda double: double.refuse(252, on=INTO.format("terminal_events"), times=None),
    "evidence stored, not confirmed": lambda double: double.cut("after", on=INTO.format("terminal_events"), times=None),
    "evidence stored": lambda double: double.refuse(241, on=INTO.format("exit_classifications"), times=None),
    "exits stored": lambda double: double.refuse(159, on=INTO.format("dead_letters"), times=None),
    "dead letters stored, not produced": lambda double: double.cut("after", on=INTO.format("dead_letters"), times=None),
    "dead letters and exits produced": lambda double: double.refuse(202, on=INTO.format("ingest_ledger"), times=None),
    "ledger written, not committed": lambda double: double.cut("after", on=INTO.format("ingest_ledger"), times=None),
}


def chunk(deployment, number, size=40):
    """Events, one poison, one duplicate and one conflicting event."""
    book = deployment.book
    values = [book.event(f"{number}-{n}", packed=n % 2 == 0) for n in range(size)]
    odd = [b"poison %d" % number, book.event(f"{number}-0", packed=True), book.event(f"{number}-1", content="other")]
    return [*values, *odd]


def test_it_is_killed_at_every_boundary_in_turn_and_goes_on_with_another_batch_size(deployment):
    double = deployment.double
    for number, (boundary, plan) in enumerate(BOUNDARIES.items()):
        deployment.send(chunk(deployment, number), partition=number % 2)
        plan(double)
        life = deployment.live(batch_records=(7, 100, 1)[number % 3])
        life.until_told(WAITS)
        life.kill()
        double.clear()
        deployment.check_commits()
        assert life.process.returncode == -signal.SIGKILL, boundary
    deployment.drain(batch_records=11)
    count = deployment.recount()
    assert len(count.exits) == 40 * len(BOUNDARIES)


@pytest.mark.parametrize("table", ["terminal_events", "exit_classifications", "ingest_ledger"])
def test_an_insert_that_arrives_after_its_sender_died_and_its_successor_stored_it_too(deployment, table):
    double = deployment.double
    deployment.send(chunk(deployment, 1))
    double.delay(LATE_S, on=INTO.format(table))
    life = deployment.live(batch_records=1_000)
    before = {"terminal_events": [], "exit_classifications": ["terminal_events"]}.get(
        table, ["terminal_events", "exit_classifications"]
    )
    life.until_told("assigned")
    eventually(lambda: all(deployment.rows(f"SELECT 1 AS n FROM {each} LIMIT 1") for each in before), life.said)  # noqa: S608 -- names above
    began = time.monotonic()
    eventually(lambda: time.monotonic() > began + 0.7)  # by then it waits for the insert
    life.kill()
    deployment.drain(batch_records=3)
    eventually(lambda: time.monotonic() > began + LATE_S + 1)  # by then it has been applied
    deployment.recount()


def test_a_commit_that_was_not_made_costs_nothing(deployment):
    """Killed between ledger and commit, or right after: the group's offset lags behind, and nobody relies on it."""
    deployment.send(chunk(deployment, 1))
    life = deployment.live(batch_records=5)
    deployment.until_stored()
    life.kill()
    deployment.check_commits()
    deployment.send(chunk(deployment, 2))
    deployment.drain(batch_records=50)
    deployment.recount()


def test_sigterm_in_the_middle_of_an_insert_lets_the_batch_be_stored(deployment):
    deployment.send(chunk(deployment, 1))
    deployment.double.delay(3, on=INTO.format("terminal_events"))
    life = deployment.live(batch_records=1_000)
    life.until_told("assigned")
    assert life.end(within_s=30) == 0
    assert deployment.ends().items() >= deployment.recorded().items()
    deployment.drain(batch_records=3)
    deployment.recount()


def test_sigterm_during_an_outage_ends_inside_the_deadline_and_loses_nothing(deployment):
    deployment.send(chunk(deployment, 1))
    deployment.double.refuse(241, on=INTO.format("terminal_events"), times=None)
    life = deployment.live()
    life.until_told(WAITS, 2)
    began = time.monotonic()
    assert life.end(within_s=30) == 0
    assert time.monotonic() - began < 30
    deployment.double.clear()
    assert deployment.recorded() == {}
    deployment.drain()
    deployment.recount()


def test_the_command_that_audits_says_so_too(deployment):
    deployment.send(chunk(deployment, 1))
    life = deployment.drain()
    done = subprocess.run(
        [sys.executable, "-m", "offramp", "audit", "--config", str(life.config)],
        cwd=ROOT, env=environment(), capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert b"unaccounted: 0" in done.stdout
