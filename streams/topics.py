"""Every topic, declared once: what it carries, who writes and reads it, how it is keyed, how long it is kept.

**Key.** ``tenant/run_id`` in UTF-8, so that all segments of a run lie in one partition, in the order they were written.
A companion that names no run is keyed ``tenant/event_id``, and one that names neither ``tenant/record_id``: it may lie
in another partition than its event, which costs nothing, because nothing here relies on a companion's place: records
come in any order, and the store joins them by identity. A key says where a message lies and is never parsed, so two
runs that share a key share a partition and nothing else. The partition is Kafka's default, murmur2 of the key; a
producer on librdkafka, whose default is another, sets ``partitioner=murmur2_random``.

**Retention** counts from arrival (``LogAppendTime``): by a producer's own time a replay of last year's events would be
deleted as soon as it arrives, and one whose clock is two hours ahead would be refused.

**No compaction.** Under a run's key it would delete the run's earlier segments, which are evidence. Alerts and
classifications are stored, so nobody needs a topic to remember them.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any

DAY_MS = 24 * 60 * 60 * 1000
PARTITIONS, REPLICATION_FACTOR = "partitions", "replication.factor"
"""What can be set of a topic besides Kafka's own settings, by the name that :attr:`Sizing.overrides` has for it."""

DEAD_LETTERS, REDRIVE = "terminal-events.dlq", "terminal-events.redrive"
"""Ids of the topics that hold messages of other topics."""

_LONGEST_NAME = 249
_NAME = re.compile(r"[A-Za-z0-9._-]*")
_OVERRIDE = re.compile(r"([A-Za-z0-9._-]+):([a-z.]+)=(.+)")
_HEADROOM_BYTES = 64 << 10


class TopicError(ValueError):
    """Topics cannot be planned like that; the message says which and what to do."""


class Encoding(StrEnum):
    """How a record becomes the value of a message: see :mod:`schemas.wire`."""

    CONFLUENT = "confluent"
    SINGLE_OBJECT = "single-object"
    JSON = "json"


@dataclass(frozen=True)
class Topic:
    """One topic as it should be. ``id`` is its name without the prefix.

    ``records`` are the published schemas of its messages, ``key`` says what its keys are, ``settings`` are Kafka's own
    topic settings, as text.
    """

    id: str
    name: str
    purpose: str
    writers: tuple[str, ...]
    readers: tuple[str, ...]
    records: tuple[str, ...]
    key: str
    partitions: int
    replication_factor: int
    settings: Mapping[str, str]

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """How its records may be written; none where its messages are no records of the contract."""
        if not self.records:
            return ()
        return tuple(Encoding) if set(self.records) <= set(_INCOMING) else (Encoding.JSON,)

    @property
    def max_message_bytes(self) -> int:
        """Largest batch, compressed as it is sent, that a broker takes."""
        return int(self.settings["max.message.bytes"])


@dataclass(frozen=True)
class Sizing:
    """What differs between deployments.

    ``replication_factor`` copies of each partition, of which all but one, and at least one, confirm a write.
    ``overrides`` are texts ``TOPIC:SETTING=VALUE``, TOPIC without the prefix, SETTING one of Kafka's topic settings,
    ``partitions`` or ``replication.factor``.
    """

    prefix: str = ""
    partitions: int = 12
    replication_factor: int = 3
    retention_days: float = 14
    dead_letter_retention_days: float = 60
    max_message_bytes: int = 4 << 20
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Declared:
    """What holds of a topic wherever it is."""

    id: str
    purpose: str
    writers: tuple[str, ...]
    readers: tuple[str, ...]
    records: tuple[str, ...]
    key: str
    partitions: int | None = None

    def sized(self, sizing: Sizing) -> Topic:
        days = sizing.dead_letter_retention_days if self.id == DEAD_LETTERS else sizing.retention_days
        # A dead letter and a redriven one are whole messages with more headers than they came with.
        headroom = _HEADROOM_BYTES if self.id in {DEAD_LETTERS, REDRIVE} else 0
        settings = {
            "cleanup.policy": "delete",
            "max.message.bytes": str(sizing.max_message_bytes + headroom),
            "message.timestamp.type": "LogAppendTime",
            "min.insync.replicas": str(max(1, sizing.replication_factor - 1)),
            "retention.bytes": "-1",
            "retention.ms": str(int(days * DAY_MS)),
            "unclean.leader.election.enable": "false",
        }
        return Topic(
            id=self.id, name=sizing.prefix + self.id, purpose=self.purpose, writers=self.writers, readers=self.readers,
            records=self.records, key=self.key, partitions=self.partitions or sizing.partitions,
            replication_factor=sizing.replication_factor, settings=settings,
        )  # fmt: skip


_OF_RUN = "tenant/run_id"
_OF_COMPANION = "tenant/run_id, else tenant/event_id, else tenant/record_id"
_OF_SOURCE = "the key of the message that it was"
_WORKER, _LIFECYCLE, _DLQ, _REDRIVE = "classify worker", "lifecycle app", "offramp dlq", "offramp dlq redrive"
OUR_PARTS = frozenset({_WORKER, _LIFECYCLE, _DLQ, _REDRIVE})
"""Writers and readers that belong to this program."""
_INCOMING = ("terminal-event", "legacy-exit", "recovery-action", "review-event", "enrichment")
_DECLARED = (
    _Declared(
        "terminal-events", "that a run ended, with the evidence of how; the source of truth",
        ("agents and orchestrators",), ("legacy dispatcher", _WORKER), ("terminal-event",), _OF_RUN,
    ),
    _Declared(
        "legacy-exits", "what the legacy dispatcher decided about a run",
        ("legacy dispatcher",), (_WORKER, _LIFECYCLE), ("legacy-exit",), _OF_COMPANION,
    ),
    _Declared(
        "recovery-actions", "what an operator did about a run",
        ("operators' tools",), (_WORKER, _LIFECYCLE), ("recovery-action",), _OF_COMPANION,
    ),
    _Declared(
        "review-events", "what happened to a review packet in its queue",
        ("review queues",), (_WORKER, _LIFECYCLE), ("review-event",), _OF_COMPANION,
    ),
    _Declared(
        "enrichments", "components that were added, or failed to be added, to an earlier partial",
        ("enrichment jobs",), (_WORKER, _LIFECYCLE), ("enrichment",), _OF_COMPANION,
    ),
    _Declared(
        "exit-classifications", "the exit of each terminal event, as stored",
        (_WORKER,), (_LIFECYCLE, "whoever acts on exits"), ("classification",), "tenant/run_id of the event",
    ),
    _Declared(
        DEAD_LETTERS, "messages of any input topic that are no valid records, whole",
        (_WORKER,), (_DLQ,), (), _OF_SOURCE,
    ),
    _Declared(
        REDRIVE, "dead letters on their way back; a topic of its own, which no dispatcher reads",
        (_REDRIVE,), (_WORKER,), _INCOMING, _OF_SOURCE,
    ),
    _Declared(
        "exit-alerts", "alerts that begin, go on and end",
        (_LIFECYCLE,), ("whoever is to be told",), ("exit-alert",), "rule/tenant/agent_id/workflow/queue", partitions=1,
    ),
)  # fmt: skip

RECORD_TOPICS: Mapping[str, str] = MappingProxyType(
    {
        "terminal_event": "terminal_events",
        "legacy_exit": "legacy_exits",
        "recovery_action": "recovery_actions",
        "review_event": "review_events",
        "enrichment": "enrichments",
    }
)
"""Field of :class:`Topics` that holds the topic of a record type."""


@dataclass(frozen=True)
class Topics:
    """All topics of one deployment, under one prefix."""

    terminal_events: Topic
    legacy_exits: Topic
    recovery_actions: Topic
    review_events: Topic
    enrichments: Topic
    exit_classifications: Topic
    dead_letters: Topic
    redrive: Topic
    exit_alerts: Topic

    @classmethod
    def planned(cls, sizing: Sizing = Sizing()) -> "Topics":
        """The topics of that size. Raises TopicError for a name, a number or an override that cannot be."""
        topics = {declared.id: declared.sized(sizing) for declared in _DECLARED}
        for text in sizing.overrides:
            topic_id, changed = _overridden(text, topics)
            topics[topic_id] = changed
        for topic in topics.values():
            _check(topic)
        return cls(*topics.values())

    def __iter__(self) -> Iterator[Topic]:
        return iter([getattr(self, field.name) for field in fields(self)])

    def of_record(self, record_type: str) -> Topic:
        """The topic that records of this type arrive on. Raises KeyError for a type that does not arrive."""
        topic: Topic = getattr(self, RECORD_TOPICS[record_type])
        return topic

    @property
    def inputs(self) -> tuple[Topic, ...]:
        """What the classify worker reads."""
        return (*map(self.of_record, RECORD_TOPICS), self.redrive)


def key_of(record: Mapping[str, Any]) -> bytes:
    """The message key of a terminal event or companion; see the top of this module."""
    owner = record["run_id"] or record["event_id"] or record["record_id"]
    return f"{record['tenant']}/{owner}".encode()


def subject_of(topic: Topic) -> str:
    """The schema registry's subject for the values of a topic, by Confluent's TopicNameStrategy."""
    return f"{topic.name}-value"


def _overridden(text: str, topics: Mapping[str, Topic]) -> tuple[str, Topic]:
    match = _OVERRIDE.fullmatch(text)
    if match is None:
        raise TopicError(f"{text}: must be TOPIC:SETTING=VALUE, such as terminal-events:retention.ms=86400000")
    topic_id, setting, value = match.groups()
    if topic_id not in topics:
        raise TopicError(f"{text}: there is no topic {topic_id}; there are {', '.join(topics)}")
    topic = topics[topic_id]
    if setting == PARTITIONS:
        return topic_id, replace(topic, partitions=_number(text, value))
    if setting == REPLICATION_FACTOR:
        return topic_id, replace(topic, replication_factor=_number(text, value))
    return topic_id, replace(topic, settings={**topic.settings, setting: value})


def _check(topic: Topic) -> None:
    name = topic.name
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise TopicError(
            f"{name}: a topic's name has up to {_LONGEST_NAME} letters, digits, dots, dashes and underscores"
        )
    if "compact" in topic.settings["cleanup.policy"]:
        raise TopicError(f"{name}: cleanup.policy must be delete; compaction would delete a run's earlier segments")
    if topic.partitions < 1 or topic.replication_factor < 1:
        raise TopicError(f"{name}: partitions and replication.factor must be at least 1")
    _number(name, topic.settings["max.message.bytes"])
    confirming = _number(name, topic.settings["min.insync.replicas"])
    if not 1 <= confirming <= topic.replication_factor:
        copies = f"the replication factor is {topic.replication_factor}"
        raise TopicError(f"{name}: min.insync.replicas is {confirming} and {copies}; no write could be confirmed")


def _number(place: str, value: str) -> int:
    if not value.isdecimal():
        raise TopicError(f"{place}: must be a whole number, not {value}")
    return int(value)
