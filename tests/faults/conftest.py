"""One broker and one double for the whole package; each test has topics, a group and a database of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sinks.double import Double, start_double
from tests.broker.kafka import KafkaBroker
from tests.faults.deployment import Deployment


@pytest.fixture(scope="session")
def shared_double(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Double]:
    """The double of this run. Clear the faults that you plan."""
    with start_double(tmp_path_factory.mktemp("double")) as double:
        yield double


@pytest.fixture
def double(shared_double: Double) -> Iterator[Double]:
    """The shared double, without faults afterwards."""
    yield shared_double
    shared_double.clear()


@pytest.fixture
def deploy(double: Double, fresh: Callable[[str], str], tmp_path: Path) -> Iterator[Callable[..., Deployment]]:
    """Makes deployments: ``deploy(broker, partitions=2)``. Their workers end with the test."""
    made: list[Deployment] = []

    def make(broker: KafkaBroker, **given: Any) -> Deployment:
        made.append(Deployment(broker, given.pop("double", double), tmp_path, fresh("faults"), **given))
        made[-1].make()
        return made[-1]

    yield make
    double.clear()
    for each in made:
        each.end_all()


@pytest.fixture
def deployment(deploy: Callable[..., Deployment], broker: KafkaBroker) -> Deployment:
    """One on the shared broker."""
    return deploy(broker)
