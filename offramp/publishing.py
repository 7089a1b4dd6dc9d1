"""What ``publish`` does: records of files onto trial topics, and never onto a topic that somebody else reads."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from time import sleep
from typing import Any

from offramp import console, streaming
from offramp.errors import CheckFailedError, ConfigurationError
from offramp.ingestion import open_sources
from offramp.session import Session
from schemas.json_form import MAX_MESSAGE_BYTES
from schemas.published import avro
from streams.files import Source, chunks, decode_chunk
from streams.kafka.errors import BrokerError
from streams.kafka.seam import Admin, Client
from streams.publish import Counts, Encode, ForeignGroup, Pace, Publisher, Reading, encoder, foreign_groups
from streams.registry import Registry
from streams.topics import RECORD_TOPICS, Encoding, Topics, subject_of

LOOKS_WHILE_UNKNOWN = 5
"""How often, a second apart, it is asked of groups that rebalance just now."""
LOOK_AGAIN_S = 5.0
"""Seconds after which it is asked again who else reads, while publishing goes on."""


@dataclass(frozen=True)
class Order:
    """What is asked for. ``topic`` is one topic for everything, None for the topics of the trial; ``rate`` is messages
    a second, None for as many as there can be."""

    files: Sequence[str]
    topic: str | None
    encoding: Encoding
    rate: float | None
    dry_run: bool


@dataclass
class Publishing:
    """Publishes what an order names and counts what happened."""

    session: Session
    order: Order
    counts: Counts = field(default_factory=Counts)

    def run(self, spool: Path) -> None:
        """Do it. Raises ConfigurationError while nothing is published yet, then CheckFailedError if a foreign group
        begins to read, and CouldNotCheckError for an outage."""
        sources = open_sources(self.order.files, spool)
        with streaming.reachable(), ExitStack() as stack:
            client = streaming.client(self.session.settings.kafka)
            admin = stack.enter_context(closing(client.admin()))
            largest, encode = self._largest(admin), self._encode(stack)
            watch = _Watch(admin, tuple(largest), self._our_groups(), self.session)
            if found := watch.look():
                raise ConfigurationError(f"{found}; nothing was published")
            publisher = self._publisher(client, stack, largest, encode)
            try:
                for source in sources:
                    self._publish(source, publisher, watch)
            except (BrokerError, SystemExit):
                # So that what is confirmed all the same is counted, also when a signal ends it.
                with suppress(BrokerError):
                    publisher.settle()
                raise
            publisher.settle()

    def _publisher(self, client: Client, stack: ExitStack, largest: Mapping[str, int], encode: Encode) -> Publisher:
        producer = None if self.order.dry_run else stack.enter_context(closing(client.producer()))
        pace, timeout_s = Pace(self.order.rate, self.session.clock, sleep), self.session.settings.kafka.timeout_s
        return Publisher(producer, self._topic_of, encode, largest, pace, timeout_s, self.counts)

    def _publish(self, source: Source, publisher: Publisher, watch: "_Watch") -> None:
        with console.progress(Path(source.name).name or source.name, source.size) as show:
            for chunk in chunks(source):
                for record in decode_chunk(chunk):
                    publisher.take(source, [record])
                    if watch.is_due() and (found := watch.look()):
                        publisher.settle()
                        raise CheckFailedError(f"{found} now, so publishing ended")
                show(chunk.consumed, self.counts.read)

    # --- where to, and how

    @cached_property
    def _trial(self) -> Topics:
        return streaming.topics(self.session.settings, trial=True)

    def _topic_of(self, record_type: str) -> str:
        topic = self.order.topic
        return self._trial.of_record(record_type).name if topic is None else topic

    def _our_groups(self) -> tuple[str, ...]:
        kafka = self.session.settings.kafka
        return kafka.classify_group, kafka.lifecycle_group

    def _largest(self, admin: Admin) -> dict[str, int]:
        """Every topic that may be written to, with the largest message that it takes, in bytes."""
        self._check_topic()
        wanted = list(dict.fromkeys(map(self._topic_of, RECORD_TOPICS)))
        found = admin.describe_topics(wanted)
        if missing := [name for name in wanted if name not in found]:
            remedy = "create it first" if self.order.topic is not None else "`offramp init --trial` makes it"
            raise ConfigurationError(f"there is no topic {missing[0]}; {remedy}")
        # Who may write a topic may not always read its settings; then the broker alone judges the size.
        return {name: int(topic.config.get("max.message.bytes", MAX_MESSAGE_BYTES)) for name, topic in found.items()}

    def _check_topic(self) -> None:
        """Refuse a topic that carries what this program writes, and so no records of producers."""
        for topics in (streaming.topics(self.session.settings), self._trial):
            carrying_other = {topic.name for topic in topics} - {topic.name for topic in topics.inputs}
            if self.order.topic in carrying_other:
                names = ", ".join(topic.name for topic in topics.inputs)
                raise ConfigurationError(f"--topic: {self.order.topic} carries no records of producers; {names} do")

    def _encode(self, stack: ExitStack) -> Encode:
        if self.order.encoding is not Encoding.CONFLUENT:
            return encoder(self.order.encoding, {})
        registry = streaming.registry(self.session.settings.registry, self.session.clock)
        if registry is None:
            raise ConfigurationError("--encoding confluent needs a registry; set registry.url, or take single-object")
        stack.callback(registry.close)
        return encoder(self.order.encoding, {kind: self._schema_id(kind, registry) for kind in RECORD_TOPICS})

    def _schema_id(self, record_type: str, registry: Registry) -> int:
        """The id of a record type's current schema, as `init` registered it for the topic of the trial."""
        topic = self._trial.of_record(record_type)
        subject, name = subject_of(topic), topic.records[0]
        schema_id = registry.registered(subject, avro(name))
        if schema_id is None:
            raise ConfigurationError(
                f"the current schema of {name} is not registered under {subject}; `offramp init --trial` registers it"
            )
        return schema_id

    # --- for programs and for people

    def as_json(self) -> dict[str, Any]:
        """Everything, in plain JSON values."""
        counts = self.counts
        return {
            "dry_run": self.order.dry_run,
            "read": counts.read,
            "published": [
                {"topic": topic, "record_type": record_type, "messages": count}
                for (topic, record_type), count in sorted(counts.published.items())
            ],
            "refused": dict(sorted(counts.refused.items())),
            "examples": [
                {"place": place, "code": error.code, "path": error.path, "reason": error.message}
                for place, error in counts.examples
            ],
        }

    def show(self) -> None:
        """Print how many messages went where."""
        rows = [(topic, record_type, count) for (topic, record_type), count in sorted(self.counts.published.items())]
        columns = [("topic", "code"), ("record type", "left"), ("messages", "right")]
        console.table(f"{console.counted(self.counts.read, 'record')} read, {self._published()}", columns, rows)

    def say_rest(self) -> None:
        """Say which records were refused, and what a dry run is."""
        counts = self.counts
        for place, error in counts.examples:
            console.say(f"{place}: {error.code}: {error}")
        if more := counts.refused.total() - len(counts.examples):
            console.say(f"and {more:,} more; `offramp validate FILE` sorts them by reason")
        if self.order.dry_run:
            console.say("dry run: nothing was sent")

    def say_so_far(self) -> None:
        """Say what was published before it ended, if it was begun."""
        if self.counts.read:
            self.say_rest()
            console.say(f"{self._published()} before; what is published again counts once, by its id")

    def _published(self) -> str:
        return f"{self.counts.published.total():,} {'to publish' if self.order.dry_run else 'published'}"


@dataclass
class _Watch:
    """Asks who else reads, at first and then every :data:`LOOK_AGAIN_S` seconds."""

    admin: Admin
    topics: Sequence[str]
    ours: Sequence[str]
    session: Session
    _due: float = 0.0

    def is_due(self) -> bool:
        """Whether it is time to look again."""
        return self.session.clock.monotonic() >= self._due

    def look(self) -> str:
        """Who else reads, as a sentence; empty if nobody does. Raises BrokerError."""
        found = self._settled()
        self._due = self.session.clock.monotonic() + LOOK_AGAIN_S
        if not found:
            return ""
        first = found[0]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        return f"topic {first.topic} is not ours alone: group {first.group} {first.reading}{more}"

    def _settled(self) -> list[ForeignGroup]:
        """Who else reads, once groups that rebalance just now have had time to end it."""
        found = foreign_groups(self.admin, self.topics, self.ours)
        for _ in range(LOOKS_WHILE_UNKNOWN):
            if not found or any(each.reading is not Reading.UNKNOWN for each in found):
                break
            sleep(1)
            found = foreign_groups(self.admin, self.topics, self.ours)
        return found
