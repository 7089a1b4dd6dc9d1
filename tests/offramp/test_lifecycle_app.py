"""What the lifecycle app's leader is asked, wired to store and settings."""

import asyncio
from unittest.mock import Mock, patch

import pytest

from offramp.config import Settings
from offramp.errors import ConfigurationError
from offramp.lifecycle_app import settling
from offramp.session import Session
from sinks.errors import StoreUnavailable
from streams.clock import SystemClock
from streams.lifecycle.app import Evaluation
from streams.lifecycle.knowledge import OpenItems

QUESTION = Evaluation(17, OpenItems((), (), ()), complete=True)


def test_the_leader_settles_by_the_settings_and_a_settling_ends_with_the_app():
    session, store, seen = Session(Settings(), SystemClock()), Mock(), []

    def settle(*given):
        *_, progress, _ = given
        seen.append(given)
        progress(1, 2)

    async def ask(leader):
        await leader(QUESTION)
        await leader._under_way

    with patch("offramp.lifecycle_app.settle", settle), settling(session, store, None) as leader:
        asyncio.run(ask(leader))
    opened, mapping, now, go_on, reach = seen.pop()
    assert (opened, mapping.file.id, now, reach.whole_every) == (store, "default", 17, None)
    assert leader.every_s == session.settings.lifecycle.settle_s
    with pytest.raises(StoreUnavailable, match="the app ends"):
        go_on(2, 2)


def test_a_mapping_that_cannot_be_used_keeps_the_app_from_starting(tmp_path):
    mapping = tmp_path / "mapping.toml"
    mapping.write_text('id = "mine"\n')
    session = Session(Settings.model_validate({"shadow": {"mapping": mapping}}), SystemClock())
    with pytest.raises(ConfigurationError, match="version: missing"), settling(session, Mock(), None):
        pass
