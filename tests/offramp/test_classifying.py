"""From settings to the classify worker."""

import pytest

from offramp.classifying import _subscription
from offramp.config import resolve
from offramp.session import Session
from streams.clock import SystemClock
from streams.topics import Topics


@pytest.mark.parametrize(("session_s", "heartbeat_s"), [(45.0, 3.0), (9.0, 3.0), (3.0, 1.0), (1.0, 1 / 3)])
def test_a_short_session_has_more_heartbeats(session_s, heartbeat_s):
    session = Session(resolve(None, {}, {"worker": {"session_timeout_s": session_s}}), SystemClock())
    subscription = _subscription(session, Topics.planned())
    assert (subscription.session_timeout_s, subscription.heartbeat_interval_s) == (session_s, heartbeat_s)
