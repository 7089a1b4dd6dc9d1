"""The fixtures. ``broker`` is shared by a whole test run; ``own_broker`` makes some for one test, which may break them.

Tests that use either run in one process, so that there is one shared broker. Without Java or the jars they are skipped,
and the reason is printed; where ``CI`` is set they fail, because a fault that was skipped is not one that was held.
"""

import os
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.broker.jars import missing
from tests.broker.kafka import BrokerOptions, KafkaBroker

GROUP = "kafka"
FIXTURES = {"broker", "own_broker", "secured_broker"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group(GROUP))
            item.add_marker(pytest.mark.broker)
            if "faults" in item.path.parts:
                item.add_marker(pytest.mark.faults)


def require_broker() -> None:
    """Skip the test, or fail it in CI, if no broker can be started."""
    if reason := missing():
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """The broker of this test run. Leave it as it was: no kill, no pause."""
    require_broker()
    with KafkaBroker(tmp_path_factory.mktemp("kafka") / "shared") as shared:
        yield shared


@pytest.fixture(scope="session")
def secured_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A shared broker with TLS, passwords and an authorizer. Leave it as it was."""
    require_broker()
    with KafkaBroker(tmp_path_factory.mktemp("kafka") / "secured", BrokerOptions(secured=True)) as shared:
        yield shared


@pytest.fixture
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., KafkaBroker]]:
    """Makes and starts a broker that belongs to the test: ``own_broker(BrokerOptions(...))``."""
    require_broker()
    made: list[KafkaBroker] = []

    def make(options: BrokerOptions | None = None) -> KafkaBroker:
        made.append(KafkaBroker(tmp_path_factory.mktemp("kafka") / "own", options))
        made[-1].start()
        return made[-1]

    yield make
    for own in made:
        own.stop()


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """Makes names of topics and groups that nobody else uses: ``fresh("events")``."""
    return lambda name: f"{name}-{uuid.uuid4().hex[:12]}"
