"""When the leader settles, and that nothing waits for it."""

import asyncio

from sinks.errors import StoreUnavailable
from streams.clock import FixedClock
from streams.lifecycle.app import Evaluation
from streams.lifecycle.knowledge import OpenItems
from streams.lifecycle.settling import Settling


class World:
    """Settlings that end when they are told to."""

    def __init__(self, evaluate=None):
        self.clock, self.settled, self.waiting, self.failing = FixedClock(5, 7.0), [], [], False
        self.leader = Settling(self.settle, self.clock, 60, self.run, evaluate)

    def settle(self, now):
        if self.failing:
            raise StoreUnavailable("out of reach")
        self.settled.append(now)

    async def run(self, ask):
        end = asyncio.Event()
        self.waiting.append(end)
        await end.wait()
        return ask()

    async def ask(self):
        await self.leader(Evaluation(self.clock.now_micros(), OpenItems((), (), ()), complete=True))
        await asyncio.sleep(0)

    async def end(self):
        self.waiting.pop().set()
        for _ in range(5):
            await asyncio.sleep(0)


def test_it_settles_at_once_and_then_every_so_often():
    async def course(world):
        await world.ask()
        await world.end()
        world.clock.advance(59.9)
        await world.ask()
        assert world.waiting == []
        world.clock.advance(0.1)
        await world.ask()
        await world.end()

    world = World()
    asyncio.run(course(world))
    assert world.settled == [5, 60_000_005]


def test_never_two_at_once_and_the_evaluator_does_not_wait():
    asked = []

    async def evaluate(evaluation):
        asked.append(evaluation.now)

    async def course(world):
        await world.ask()
        world.clock.advance(1000)
        await world.ask()
        assert (len(world.waiting), world.settled) == (1, [])
        await world.end()
        await world.ask()
        assert len(world.waiting) == 1
        await world.end()

    world = World(evaluate)
    asyncio.run(course(world))
    assert world.settled == [5, 1_000_000_005]
    assert asked == [5, 1_000_000_005, 1_000_000_005]


def test_an_outage_is_logged_and_it_is_tried_again(caplog):
    async def course(world):
        world.failing = True
        await world.ask()
        await world.end()
        world.failing = False
        world.clock.advance(60)
        await world.ask()
        await world.end()

    world = World()
    asyncio.run(course(world))
    assert world.settled == [60_000_005]
    assert [record.getMessage() for record in caplog.records] == ["runs not settled; tried again"]
