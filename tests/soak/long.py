"""The faults that last: each on topics and tables of its own, for as long as it is promised to be survived.

``tests/faults`` has the same ones in small. Each function brings its fault about, holds everything that readers see to
what was sent, and says what was counted. Raises AssertionError with what does not add up.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from offramp.console import counted
from schemas.published import avro
from sinks.double import Double
from sinks.errors import StoreError
from streams.kafka.errors import BrokerError
from streams.kafka.seam import TopicPartition
from tests.broker.kafka import KafkaBroker
from tests.faults.deployment import MEMORY_MB, Deployment, Life, eventually
from tests.registry.double import SchemaRegistryDouble

AWAY_S = 60.0
REGISTRY_AWAY_S = 30.0
NO_DEAD_LETTERS_S = 30.0
POLL_S = 60.0
"""The longest time between two polls of a worker that is stopped for longer."""
SOME = 2_000
BURST = 40_000
STORED_S = 600.0
"""Longer than a burst takes to be stored on a machine that does other work too."""
WAITS = "waiting for an outage to end"
KNOWN_ID, LOST_ID = 11, 404


class Told(NamedTuple):
    """What a fault was, how long it all took, and what was counted, or what did not add up."""

    fault: str
    seconds: float
    counted: str
    held: bool = True


Make = Callable[[str, Mapping[str, Mapping[str, Any]]], Deployment]
"""Makes a deployment by name, with settings of its workers by section."""


def broker_away(make: Make) -> str:
    """The worker is live and not ready as long as its broker is away, and nothing is lost."""
    deployment = make("away", {})
    life = _started(deployment, pages=True)
    deployment.send(deployment.book.some("before", SOME), partition=None)
    deployment.broker.kill()
    eventually(lambda: life.page("/readyz")[0] == 503, life.said)
    asked = _stays(AWAY_S, lambda: (life.page("/livez")[0], life.page("/readyz")[0]) == (200, 503), life.said)
    deployment.broker.start()
    deployment.send(deployment.book.some("after", SOME), partition=None)
    deployment.until_stored(STORED_S)
    eventually(lambda: life.page("/readyz")[0] == 200, life.said)
    return f"{_closed(deployment, life)}; live and not ready each of {asked} times that it was asked"


def third_comes_and_goes(make: Make) -> str:
    """Two workers read a burst, and a third joins and leaves three times, once by kill -9."""
    deployment = make("third", {})
    lives = [_started(deployment), _started(deployment)]
    burst = threading.Thread(target=deployment.send, args=(deployment.book.some("burst", BURST), None))
    burst.start()
    for leave in (Life.end, Life.kill, Life.end):
        third = _started(deployment, batch_records=100)
        leave(third)
    behind = sum(deployment.ends().values()) - sum(deployment.recorded().values())
    burst.join()
    deployment.until_stored(STORED_S)
    return f"{_closed(deployment, *lives)}; {behind:,} messages were still unread when it left the last time"


def registry_away(make: Make) -> str:
    """What a registry cannot tell for now is waited for, and what it does not know is a dead letter."""
    with SchemaRegistryDouble().running() as registry:
        registry.add(avro("terminal-event"), KNOWN_ID)
        registry.missing.add(LOST_ID)
        deployment = make("registry", {"registry": {"url": registry.url, "timeout_s": 2.0}})
        book, registry.status = deployment.book, 503
        lost = book.framed("lost", LOST_ID)
        del book.meanings[lost]
        deployment.send([lost, *(book.framed(f"e-{n}", KNOWN_ID) for n in range(SOME))], partition=None)
        life = _started(deployment)
        life.until_told(WAITS, 1)
        asked = _stays(REGISTRY_AWAY_S, lambda: not deployment.recorded(), life.said)
        registry.status = None
        deployment.until_stored(STORED_S)
        sums = _closed(deployment, life)
    (letter,) = deployment.rows("SELECT reason_code FROM v_dead_letters")
    assert letter["reason_code"] == "unknown_schema", letter
    return f"{sums}; the dead letter is of the unknown schema; nothing recorded each of {asked} times in the outage"


def stopped_past_the_poll_interval(make: Make) -> str:
    """A worker sleeps longer than its group waits, and wakes when its successor has gone on."""
    deployment = make("stopped", {})
    slow = {"session_timeout_s": POLL_S * 3 / 4, "max_poll_interval_s": POLL_S}
    deployment.double.delay(3, on="INSERT INTO terminal_events", times=1)
    deployment.send(deployment.book.some("before", SOME), partition=None)
    first = _started(deployment, **slow)
    first.signal(signal.SIGSTOP)
    stopped = time.monotonic()
    second = deployment.live(batch_records=500, **slow)
    deployment.until_stored(STORED_S)
    deployment.send(deployment.book.some("meanwhile", SOME), partition=None)
    deployment.until_stored(STORED_S)
    eventually(lambda: time.monotonic() > stopped + POLL_S * 5 / 4, within_s=2 * POLL_S)
    slept = time.monotonic() - stopped
    first.signal(signal.SIGCONT)
    deployment.send(deployment.book.some("after", SOME), partition=None)
    deployment.until_stored(STORED_S)
    eventually(lambda: first.told("assigned") >= 2 or first.told("lost"), first.said, within_s=2 * POLL_S)
    return f"{_closed(deployment, first, second)}; it slept {slept:.0f} s and is a member again"


def dead_letters_unreachable(make: Make) -> str:
    """The topic of dead letters is gone for a while: no offset passes one that nobody takes."""
    deployment = make("letters", {"kafka": {"timeout_s": 3}})
    book, part = deployment.book, TopicPartition(deployment.events, 0)
    deployment.send([b"the first poison"])
    life = _started(deployment, pages=True)
    deployment.until_stored()
    deployment.drop_dead_letters()
    deployment.send([book.event("a"), b"poison", *(book.event(f"e-{n}") for n in range(SOME))])
    life.until_told(WAITS, 2)

    def holds() -> bool:
        places = deployment.recorded().get(part), deployment.committed().get(part)
        return places == (1, 1) and life.page("/livez")[0] == 200

    asked = _stays(NO_DEAD_LETTERS_S, holds, life.said)
    deployment.make_topics(deployment.topics.dead_letters)
    deployment.until_stored(STORED_S)
    sums = _closed(deployment, life, dead_letters_since=1)
    return f"{sums}; live, and no offset moved, each of {asked} times that it was looked at"


FAULTS: Mapping[str, Callable[[Make], str]] = {
    f"broker killed for {AWAY_S:.0f} s and restarted": broker_away,
    f"third worker joins and leaves three times under a burst of {BURST:,}": third_comes_and_goes,
    f"registry answers 503 for {REGISTRY_AWAY_S:.0f} s, and 404 for one id": registry_away,
    f"worker stopped past its poll interval of {POLL_S:.0f} s, resumed behind its successor":
        stopped_past_the_poll_interval,
    f"topic of dead letters unreachable for {NO_DEAD_LETTERS_S:.0f} s": dead_letters_unreachable,
}  # fmt: skip
"""By what they are called in the report, in the order in which they run."""


class Ground(NamedTuple):
    """What every fault stands on. ``say`` is told which one is under way, and what does not hold."""

    broker: KafkaBroker
    double: Double
    folder: Path
    say: Callable[[str], None]


def run(ground: Ground) -> Iterator[Told]:
    """Bring about every one of them, whatever became of the others."""
    return (_told(name, fault, ground) for name, fault in FAULTS.items())


def _told(name: str, fault: Callable[[Make], str], ground: Ground) -> Told:
    made: list[Deployment] = []

    def make(short: str, config: Mapping[str, Mapping[str, Any]]) -> Deployment:
        made.append(Deployment(ground.broker, ground.double, ground.folder, f"long-{short}", config=config))
        made[-1].make()
        return made[-1]

    ground.say(name)
    began = time.monotonic()
    try:
        said, held = fault(make), True
    except (AssertionError, BrokerError, StoreError) as error:
        ground.say(str(error))
        said, held = f"does not hold: {' '.join(str(error).split())[:200]}", False
        ground.broker.restart()  # it may be away
    finally:
        ground.double.clear()
        for each in made:
            each.end_all()
    return Told(name, time.monotonic() - began, said, held)


def _started(deployment: Deployment, **given: Any) -> Life:
    """A worker that was assigned what it is to read."""
    life = deployment.live(**({"batch_records": 500, "flush_s": 5.0} | given))
    life.until_told("assigned")
    return life


def _stays(seconds: float, holds: Callable[[], bool], said: Callable[[], str]) -> int:
    """How often something was looked at, and held each time, in so many seconds."""
    until, asked = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        assert holds(), said()
        asked += 1
        time.sleep(0.5)
    return asked


def _closed(deployment: Deployment, *lives: Life, dead_letters_since: int = 0) -> str:
    """End the workers in order, count everything again, and say the sums."""
    for life in lives:
        assert life.end() == 0, life.said()
    count = deployment.recount(dead_letters_since=dead_letters_since)
    letters = len(count.places("dead_lettered"))
    peak = max(life.peak_mb for life in deployment.lives)
    return (
        f"{len(count.fates):,} messages, {len(count.exits):,} events once each, {counted(letters, 'dead letter')}, "
        f"0 unaccounted, {peak:.0f} of {MEMORY_MB} MB at most"
    )
