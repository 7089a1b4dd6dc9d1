"""What ``offramp init`` plans, makes, leaves alone and says."""

import json

import pytest

from offramp import streaming
from offramp.config import resolve
from offramp.errors import ConfigurationError, CouldNotCheckError
from offramp.initialising import Initialising, Part, State
from offramp.session import Session
from schemas.contract import INCOMING
from sinks.double import start_double
from sinks.migrations import load_migrations
from streams.clock import FixedClock
from streams.kafka.errors import BrokerRejected, BrokerUnavailable, Rejection
from streams.kafka.fake import FakeCluster
from streams.kafka.seam import NewTopic
from streams.topics import Sizing, Topics
from tests.offramp.kit import run, run_alone
from tests.registry.double import SchemaRegistryDouble

NAMES = [f"trial.{topic.name}" for topic in Topics.planned()]


@pytest.fixture
def cluster(monkeypatch):
    cluster = FakeCluster()
    monkeypatch.setattr(streaming, "client", lambda settings: cluster.client())
    return cluster


@pytest.fixture
def double():
    with SchemaRegistryDouble().running() as registry:
        yield registry


def initialised(*, dry_run=False, registry=None, **topics):
    """An init of the trial's topics, which has nothing to do with the store."""
    flags = {
        "kafka": {"servers": ["broker:9092"]},
        "topics": {"replication_factor": 1, **topics},
        "registry": {"url": registry and registry.url},
    }
    initialising = Initialising(Session(resolve(None, {}, flags), FixedClock()), trial=True, dry_run=dry_run)
    initialising.run()
    return initialising


def states(initialising, part=Part.TOPIC):
    return {step.name: step.state for step in initialising.steps if step.part is part}


# Topics


def test_missing_topics_are_made_as_planned_and_the_second_time_nothing_is(cluster):
    assert states(initialised()) == dict.fromkeys(NAMES, State.MADE)
    found = cluster.client().admin().describe_topics(NAMES)
    for topic in Topics.planned(Sizing(prefix="trial.", replication_factor=1)):
        made = found[topic.name]
        assert (made.partitions, made.replication) == (topic.partitions, 1)
        assert topic.settings.items() <= made.config.items()
    before = dict(cluster._topics)
    assert states(initialised()) == dict.fromkeys(NAMES, State.THERE)
    assert cluster._topics == before


def test_a_dry_run_makes_nothing(cluster, double):
    initialising = initialised(dry_run=True, registry=double)
    assert {step.state for step in initialising.steps} == {State.MISSING}
    assert not initialising.differs
    assert cluster.client().admin().topics() == frozenset()
    assert (double.subjects, double.levels) == ({}, {})


def test_an_existing_topic_that_is_otherwise_is_reported_and_left(cluster):
    cluster.create(NewTopic("trial.terminal-events", 5, 1, {"retention.ms": "1000"}))
    before = cluster._topics["trial.terminal-events"]
    initialising = initialised()
    step = next(step for step in initialising.steps if step.name == "trial.terminal-events")
    assert step.state is State.DIFFERENT
    assert {
        "partitions is 5, planned 12",
        "retention.ms is 1000, planned 1209600000",
    } <= set(step.differences)
    assert initialising.differs
    assert cluster._topics["trial.terminal-events"] == before
    assert list(states(initialising).values()).count(State.MADE) == len(NAMES) - 1


def test_a_topic_that_is_planned_as_it_is_does_not_differ(cluster):
    initialised()
    cluster.client().admin().set_config("trial.enrichments", {"retention.ms": "1000", "segment.ms": "5"})
    assert states(initialised())["trial.enrichments"] is State.DIFFERENT
    overrides = ["enrichments:retention.ms=1000"]
    assert states(initialised(overrides=overrides))["trial.enrichments"] is State.THERE


def test_another_init_that_was_faster_is_no_error(cluster, monkeypatch):
    admin = type(cluster.client().admin())
    describe = admin.describe_topics
    answers = [{}]
    monkeypatch.setattr(
        admin, "describe_topics", lambda self, names: answers.pop() if answers else describe(self, names)
    )
    cluster.create(NewTopic("trial.legacy-exits", 5, 1, {}))
    assert states(initialised())["trial.legacy-exits"] is State.DIFFERENT


def test_an_outage_before_anything_is_made_is_no_beginning(cluster, double):
    cluster.inject("admin", BrokerUnavailable("no broker answers"))
    with pytest.raises(CouldNotCheckError, match="the broker cannot be asked: no broker answers"):
        initialised(registry=double)
    double.status = 503
    with pytest.raises(CouldNotCheckError, match="status 503"):
        initialised(registry=double)
    assert cluster.client().admin().topics() == frozenset()


def test_an_outage_in_the_middle_is_gone_on_from(cluster):
    create = cluster.create
    made = []

    def failing(topic):
        if len(made) == 3:
            raise BrokerUnavailable("gone")
        made.append(topic.name)
        create(topic)

    cluster.create = failing
    with pytest.raises(CouldNotCheckError):
        initialised()
    del cluster.create
    assert list(states(initialised()).values()).count(State.THERE) == 3


def test_more_copies_than_brokers_are_a_matter_of_configuration(cluster):
    with pytest.raises(ConfigurationError, match=r"only 1 broker can hold replicas; plan it otherwise by the settings"):
        initialised(replication_factor=3)


def test_what_the_broker_refuses_is_a_matter_of_configuration(cluster):
    cluster.inject("admin", BrokerRejected(Rejection.AUTHORIZATION, "may not describe"))
    with pytest.raises(ConfigurationError, match="the broker refuses: may not describe"):
        initialised()


# Schemas


def test_each_record_type_is_registered_under_its_topics_subject_with_its_level(cluster, double):
    initialising = initialised(registry=double)
    subjects = {
        f"trial.{topic.name}-value" for topic in Topics.planned().inputs if topic.id != "terminal-events.redrive"
    }
    assert states(initialising, Part.SCHEMA) == dict.fromkeys(subjects, State.MADE)
    assert set(double.subjects) == subjects
    assert double.levels == dict.fromkeys(subjects, "FULL_TRANSITIVE")
    names = {json.loads(schema["schema"])["name"] for schema in double.schemas.values()}
    assert names == {model.__name__ for model in INCOMING.values()}
    again = initialised(registry=double)
    assert states(again, Part.SCHEMA) == dict.fromkeys(subjects, State.THERE)
    assert {step.facts["id"] for step in again.steps if step.part is Part.SCHEMA} == set(double.schemas)


def test_another_level_is_reported_and_left(cluster, double):
    double.levels["trial.enrichments-value"] = "NONE"
    initialising = initialised(registry=double)
    step = next(step for step in initialising.steps if step.name == "trial.enrichments-value")
    assert step.differences == ("compatibility is NONE, planned FULL_TRANSITIVE",)
    assert double.levels["trial.enrichments-value"] == "NONE"
    assert "trial.enrichments-value" not in double.subjects


def test_a_schema_that_its_subject_refuses_is_reported_and_the_level_left(cluster, double):
    double.subjects["trial.enrichments-value"] = [double.add('"string"')]
    double.incompatible = {"trial.enrichments-value"}
    initialising = initialised(registry=double)
    step = next(step for step in initialising.steps if step.name == "trial.enrichments-value")
    assert step.state is State.DIFFERENT
    assert "incompatible with an earlier schema" in step.differences[0]
    assert "trial.enrichments-value" not in double.levels
    assert initialising.differs


# The command, and the store


def test_without_a_broker_the_store_alone_is_made_and_only_once(tmp_path):
    store = tmp_path / "store"
    dry = run("init", "--store", store, "--dry-run", "--format", "json")
    (step,) = json.loads(dry.out)["steps"]
    assert (dry.status, step["state"], store.exists()) == (0, "missing", False)
    assert step["migrations"] == [migration.name for migration in load_migrations()]
    made = run("init", "--store", store)
    assert made.status == 0
    assert "1 part, 1 made" in made.text
    assert "set kafka.servers" in made.err
    again = run("init", "--store", store, "--format", "json")
    assert json.loads(again.out)["steps"] == [
        {"part": "store", "name": str(store), "state": "there", "migrations": [], "differences": []}
    ]
    assert run("audit", "--store", store).status == 0


def test_a_dry_run_on_a_store_leaves_it_as_it_is(tmp_path):
    store = tmp_path / "store"
    run("init", "--store", store)
    dry = run("init", "--store", store, "--dry-run")
    assert (dry.status, "1 part, 0 to make" in dry.text) == (0, True)
    assert "dry run: nothing was written" in dry.err


def test_a_broker_out_of_reach_ends_with_3_and_leaves_the_store_alone(tmp_path):
    config = tmp_path / "offramp.toml"
    config.write_text('[kafka]\nservers = ["127.0.0.1:1"]\ntimeout_s = 1\n')
    done = run_alone("init", "--config", config, "--store", tmp_path / "store")
    assert done.status == 3
    assert "the broker cannot be asked" in done.err
    assert not (tmp_path / "store").exists()


def test_the_tables_of_a_server_are_made_once(tmp_path):
    with start_double(tmp_path / "server") as server:
        place = {"OFFRAMP_STORE__URL": server.url}
        dry = run_alone("init", "--dry-run", "--format", "json", **place)
        made = run_alone("init", "--format", "json", **place)
        again = run_alone("init", "--format", "json", **place)
    assert [(done.status, json.loads(done.out)["steps"][0]["state"]) for done in (dry, made, again)] == [
        (0, "missing"), (0, "made"), (0, "there"),
    ], dry.err + made.err + again.err  # fmt: skip
    assert server.url in made.text


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ('overrides = ["events:partitions=3"]', "configuration: topics: events:partitions=3: there is no topic events"),
        ('prefix = "a b"', "a bterminal-events: a topic's name has up to 249 letters"),
        ("replication_factor = 0", "topics.replication_factor: input should be greater than or equal to 1"),
    ],
)
def test_topics_that_cannot_be_are_refused_by_any_verb(tmp_path, setting, said):
    config = tmp_path / "offramp.toml"
    config.write_text(f"[topics]\n{setting}\n")
    done = run("init", "--config", config, "--store", tmp_path / "store")
    assert done.status == 2
    assert said in done.err
