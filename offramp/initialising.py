"""What ``init`` does: topics, schemas and migrations, planned first, then made. What exists is never changed.

A part that is not configured is left out: without a broker no topics, without a registry no schemas. Everything is
asked before anything is made, so that an outage is told while nothing was begun; whatever ends it later, running it
again goes on where it was.
"""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from offramp import console, streaming
from offramp.errors import ConfigurationError
from offramp.session import Session
from schemas.published import avro
from streams.kafka.errors import BrokerRejected, Rejection
from streams.kafka.seam import Admin, NewTopic
from streams.kafka.seam import Topic as Existing
from streams.registry import COMPATIBILITY, Registry, RegistryRejected
from streams.topics import DAY_MS, RECORD_TOPICS, Topic, Topics, subject_of


class State(StrEnum):
    """How something that should be there is."""

    MISSING = "missing"
    THERE = "there"
    DIFFERENT = "different"
    MADE = "made"


class Part(StrEnum):
    """What it is."""

    TOPIC = "topic"
    SCHEMA = "schema"
    STORE = "store"


@dataclass(frozen=True)
class Step:
    """One thing that should be there: ``facts`` say what it is or will be, ``differences`` what of it is otherwise."""

    part: Part
    name: str
    state: State
    facts: dict[str, Any]
    differences: tuple[str, ...] = ()


class Provider(Protocol):
    """One part of a deployment."""

    def plan(self) -> list[Step]:
        """What should be there and how it is. Changes nothing."""
        ...

    def make(self, step: Step) -> Step:
        """Make what is missing; the step as it is then."""
        ...


# --- topics


class Difference(NamedTuple):
    """A setting of a topic that is not as planned."""

    setting: str
    planned: str
    found: str

    def __str__(self) -> str:
        return f"{self.setting} is {self.found}, planned {self.planned}"


def differences(planned: Topic, found: Existing) -> list[Difference]:
    """What of an existing topic is not as planned. A setting that nobody planned may be anything."""
    settings = {
        "partitions": (str(planned.partitions), str(found.partitions)),
        "replication.factor": (str(planned.replication_factor), str(found.replication)),
        **{name: (value, found.config.get(name, "unknown")) for name, value in sorted(planned.settings.items())},
    }
    return [Difference(name, *values) for name, values in settings.items() if values[0] != values[1]]


@dataclass(frozen=True)
class TopicProvider:
    """The topics of a deployment."""

    admin: Admin
    topics: Topics

    def plan(self) -> list[Step]:
        """See :class:`Provider`. Raises BrokerError."""
        found = self.admin.describe_topics([topic.name for topic in self.topics])
        return [_topic_step(topic, found.get(topic.name)) for topic in self.topics]

    def make(self, step: Step) -> Step:
        """See :class:`Provider`. Another `init` may have been faster."""
        topic = next(topic for topic in self.topics if topic.name == step.name)
        try:
            self.admin.create_topics(
                [NewTopic(topic.name, topic.partitions, topic.replication_factor, dict(topic.settings))]
            )
        except BrokerRejected as error:
            if error.reason is not Rejection.TOPIC_EXISTS:
                raise ConfigurationError(f"{error.message}; plan it otherwise by the settings of [topics]") from error
            return _topic_step(topic, self.admin.describe_topics([topic.name]).get(topic.name))
        return replace(step, state=State.MADE)


def _topic_step(topic: Topic, found: Existing | None) -> Step:
    facts = {
        "partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
        "key": topic.key,
        **dict(sorted(topic.settings.items())),
    }
    if found is None:
        return Step(Part.TOPIC, topic.name, State.MISSING, facts)
    differ = tuple(map(str, differences(topic, found)))
    return Step(Part.TOPIC, topic.name, State.DIFFERENT if differ else State.THERE, facts, differ)


# --- schemas


@dataclass(frozen=True)
class SchemaProvider:
    """The schemas of incoming records, each under the subject of its topic."""

    registry: Registry
    topics: Topics

    def plan(self) -> list[Step]:
        """See :class:`Provider`. Raises RegistryError."""
        return [self._step(subject, schema) for subject, schema in self._schemas().items()]

    def _schemas(self) -> dict[str, str]:
        """Published schema by subject."""
        found = map(self.topics.of_record, RECORD_TOPICS)
        return {subject_of(topic): topic.records[0] for topic in found}

    def _step(self, subject: str, schema: str) -> Step:
        schema_id, level = self.registry.registered(subject, avro(schema)), self.registry.compatibility(subject)
        facts = {"schema": schema, "id": schema_id, "compatibility": COMPATIBILITY}
        if level not in {None, COMPATIBILITY}:
            differ = f"compatibility is {level}, planned {COMPATIBILITY}"
            return Step(Part.SCHEMA, subject, State.DIFFERENT, facts, (differ,))
        state = State.MISSING if schema_id is None or level is None else State.THERE
        return Step(Part.SCHEMA, subject, state, facts)

    def make(self, step: Step) -> Step:
        """See :class:`Provider`. A subject whose schemas rule ours out keeps the level that it has."""
        try:
            schema_id = self.registry.register(step.name, avro(step.facts["schema"]))
        except RegistryRejected as error:
            return replace(step, state=State.DIFFERENT, differences=(str(error),))
        self.registry.set_compatibility(step.name, COMPATIBILITY)
        return replace(step, state=State.MADE, facts=step.facts | {"id": schema_id})


# --- the store


@dataclass(frozen=True)
class StoreProvider:
    """The store and its tables, made by migrations."""

    session: Session

    def plan(self) -> list[Step]:
        """See :class:`Provider`. Raises StoreError, CouldNotCheckError."""
        pending = self.session.pending_migrations("init")
        state = State.MISSING if pending else State.THERE
        return [Step(Part.STORE, str(self.session.settings.store.place), state, {"migrations": pending})]

    def make(self, step: Step) -> Step:
        """See :class:`Provider`. Opening the store applies all that it lacks."""
        with self.session.store("init"):
            return replace(step, state=State.MADE)


# --- all of it


@dataclass
class Initialising:
    """Plans a deployment and makes what is missing of it."""

    session: Session
    trial: bool
    dry_run: bool
    steps: list[Step] = field(default_factory=list)

    def run(self) -> None:
        """Do it. Raises OfframpError, StoreError."""
        with streaming.reachable(), ExitStack() as stack:
            plans = [(provider, provider.plan()) for provider in self._providers(stack)]
            for provider, steps in plans:
                for step in steps:
                    missing = step.state is State.MISSING and not self.dry_run
                    self.steps.append(provider.make(step) if missing else step)

    def _providers(self, stack: ExitStack) -> Iterator[Provider]:
        settings = self.session.settings
        topics = streaming.topics(settings, trial=self.trial)
        if settings.kafka.servers:
            admin = stack.enter_context(closing(streaming.client(settings.kafka).admin()))
            yield TopicProvider(admin, topics)
        registry = streaming.registry(settings.registry, self.session.clock)
        if registry is not None:
            yield SchemaProvider(stack.enter_context(closing(registry)), topics)
        if not self.trial:
            yield StoreProvider(self.session)

    @property
    def differs(self) -> bool:
        """Whether anything that exists is not as planned."""
        return any(step.state is State.DIFFERENT for step in self.steps)

    # --- for programs

    def as_json(self) -> dict[str, Any]:
        """Everything, in plain JSON values."""
        steps = [
            {"part": step.part, "name": step.name, "state": step.state, **step.facts, "differences": step.differences}
            for step in self.steps
        ]
        return {"dry_run": self.dry_run, "steps": steps}

    # --- for people

    def show(self) -> None:
        """Print every part and how it is."""
        rows = [(step.part, step.name, self._said(step), _detail(step)) for step in self.steps]
        columns = [("part", "left"), ("name", "code"), ("state", "left"), ("what", "left")]
        made = len([step for step in self.steps if step.state in {State.MADE, State.MISSING}])
        console.table(
            f"{console.counted(len(self.steps), 'part')}, {made} {'to make' if self.dry_run else 'made'}", columns, rows
        )

    def _said(self, step: Step) -> str:
        return "to make" if step.state is State.MISSING else step.state.value

    def say_rest(self) -> None:
        """Say what was left out, what was left alone, and what a dry run is."""
        settings = self.session.settings
        if not settings.kafka.servers:
            console.say("no broker is configured, so there are no topics; set kafka.servers to have them")
        if settings.registry.url is None:
            console.say("no registry is configured, so no schemas are registered; set registry.url to have them")
        if self.differs:
            console.say(
                "what exists was not changed; change it with Kafka's or the registry's own tools, or plan it as it is, "
                "for one topic by topics.overrides"
            )
        if self.dry_run:
            console.say("dry run: nothing was written")


def _detail(step: Step) -> str:
    if step.differences:
        return "; ".join(step.differences)
    facts = step.facts
    if step.part is Part.TOPIC:
        days, size = int(facts["retention.ms"]) / DAY_MS, int(facts["max.message.bytes"])
        sizes = f"{console.counted(facts['partitions'], 'partition')}, replication {facts['replication_factor']}"
        return f"{sizes}, {days:g} days, up to {size:,} bytes, key {facts['key']}"
    if step.part is Part.SCHEMA:
        number = "" if facts["id"] is None else f" under id {facts['id']}"
        return f"{facts['schema']}{number}, {facts['compatibility']}"
    return f"migrations {', '.join(facts['migrations'])}" if facts["migrations"] else "up to date"
