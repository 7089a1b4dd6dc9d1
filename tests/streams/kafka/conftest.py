"""Every test here that takes ``connect`` runs with each client library."""

import gc

import pytest

from streams.kafka.confluent.client import ConfluentClient
from streams.kafka.kafka_python.client import KafkaPythonClient
from streams.kafka.seam import Connection

CLIENTS = {"kafka-python": KafkaPythonClient, "confluent": ConfluentClient}


@pytest.fixture(params=CLIENTS)
def connect(request):
    """Makes a client: ``connect(server, timeout_s=3, security=...)``."""
    yield lambda server, **settings: CLIENTS[request.param](Connection((server,), **settings))
    gc.collect()  # sockets that kafka-python leaves behind are found here, where they are expected
