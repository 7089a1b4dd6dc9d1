"""The store is down, slow, refuses, or cuts after it has applied: the batch waits, and is stored once."""

from sinks.double import start_double
from tests.faults.deployment import eventually

WAITS = "waiting for an outage to end"
FAULTS = {
    "too many parts": lambda double: double.refuse(252, times=3),
    "out of memory": lambda double: double.refuse(241, times=3),
    "timeout": lambda double: double.refuse(159, times=3),
    "too many queries": lambda double: double.refuse(202, times=3),
    "a balancer without a server": lambda double: double.status(503, times=3),
    "cut before the body": lambda double: double.cut("before", times=3),
    "cut after it was applied": lambda double: double.cut("after", times=3),
    "cut within the answer": lambda double: double.cut("within", times=3),
    "questions are refused": lambda double: double.refuse(202, times=3, on="FROM terminal_events"),
}


def test_every_way_in_which_a_store_fails_is_waited_out(deployment):
    book, double = deployment.book, deployment.double
    life = deployment.live(batch_records=8)
    life.until_told("assigned")
    for number, (name, plan) in enumerate(FAULTS.items()):
        waited = life.told(WAITS)
        plan(double)
        deployment.send([book.event(f"{name} {n}") for n in range(20)] + [b"poison %d" % number], number % 2)
        life.until_told(WAITS, waited + 1)
        deployment.until_stored()
        double.clear()
    assert life.end() == 0
    deployment.recount()


def test_a_store_that_is_down_is_waited_for_and_the_worker_stays_live_and_is_not_ready(deploy, broker, tmp_path):
    with start_double(tmp_path / "own") as double:
        deployment = deploy(broker, double=double)
        book = deployment.book
        life = deployment.live(pages=True)
        eventually(lambda: life.page("/readyz")[0] == 200, life.said)
        for number, end in enumerate((double.stop, double.kill)):
            end()
            deployment.send([book.event(f"{number}-{n}") for n in range(50)])
            life.until_told(WAITS, life.told(WAITS) + 3)
            assert life.page("/livez")[0] == 200
            eventually(lambda: life.page("/readyz")[0] == 503, life.said)
            double.start()
            deployment.until_stored()
            eventually(lambda: life.page("/readyz")[0] == 200, life.said)
        assert life.end() == 0
        deployment.recount()


def test_a_store_that_is_slower_than_the_group_waits_doubles_nothing(deployment):
    """Each insert takes longer than the longest time between two polls."""
    book = deployment.book
    deployment.double.delay(3, on="INSERT INTO (terminal_events|ingest_ledger)", times=4)
    deployment.send([book.event(f"e-{n}") for n in range(60)])
    life = deployment.live(batch_records=30, max_poll_interval_s=2.0)
    deployment.until_stored()
    assert life.end() == 0
    deployment.recount()
