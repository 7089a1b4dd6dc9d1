"""What all tests share."""

from hypothesis import settings

from tests.broker.fixtures import broker, fresh, own_broker, pytest_collection_modifyitems, secured_broker

__all__ = ["broker", "fresh", "own_broker", "pytest_collection_modifyitems", "secured_broker"]

# How long an example takes says nothing on a machine that does other work too.
settings.register_profile("offramp", deadline=None)
settings.load_profile("offramp")
