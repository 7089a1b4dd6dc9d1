"""Alerts of the app as a process: the leader judges what is open, keeps it, tells the topic and shows it."""

import json
import re

import pytest

from sinks.alerts import AlertsStore
from streams.kafka.seam import TopicPartition
from tests.streams.lifecycle.samples import DIGESTS
from tests.streams.lifecycle.test_app import HOUR, history
from tests.streams.lifecycle.world import deployment, eventually

pytestmark = pytest.mark.xdist_group("kafka")
RULE = """
[[rules]]
id = "{items}_age"
condition = "age"
items = "{items}"
by = ["tenant"]
threshold = 30
severity = "page"
owner = "somebody"
runbook = "none"
summary = "It is old."
"""


@pytest.fixture
def world(tmp_path, broker, fresh):
    rules = tmp_path / "rules.toml"
    rules.write_text(
        'id = "test"\nversion = "1"\n' + "".join(RULE.format(items=each) for each in ("partial", "review"))
    )
    with deployment(tmp_path, broker, fresh("alerts") + ".") as made:
        made.activate(DIGESTS)
        with made.config.open("a") as config:
            config.write(f'evaluate_s = 0.5\n[alerts]\nrules = "{rules}"\nlease_s = 3\n')
        yield made


def announced(world):
    """What stands on the topic."""
    topic = TopicPartition(world.topics.exit_alerts.name, 0)
    reader = world.client.reader([topic])
    try:
        reader.seek(topic, 0)
        count = reader.end_offsets([topic])[topic]
        found = []
        while len(found) < count:
            found += [json.loads(each.value) for fetched in reader.poll(1.0, 100) for each in fetched.messages]
        return found
    finally:
        reader.close()


def fires(app):
    """For how many scopes the rules fire, as the page says."""
    samples = re.findall(r"^offramp_alerts_firing\{.*\} (\d+)$", app.get("/metrics")[1], re.MULTILINE)
    return sum(map(int, samples))


def test_the_leader_tells_what_stands_and_another_goes_on_with_it(world):
    world.happen(history("old", 2 * HOUR, count=12))
    first = world.app()
    eventually(first.is_ready, first.said)
    eventually(lambda: fires(first), first.said)
    told = eventually(lambda: announced(world), first.said)
    assert {each["state"] for each in told} == {"firing"}
    kept = {(row.rule, row.tenant, row.state) for row in AlertsStore(world.opened).alerts(0)}
    assert {(each["rule"], each["tenant"], each["state"]) for each in told} <= kept
    first.kill()
    second = world.app()
    eventually(lambda: fires(second), second.said)
    assert {each["id"] for each in announced(world)} == {each["id"] for each in told}
    assert second.end() == 0
    assert AlertsStore(world.opened).evaluation("live").holder == ""
