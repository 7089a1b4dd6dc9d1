"""The topics as an AsyncAPI 3 document, generated from their declaration: ``python -m streams.asyncapi`` writes it.

It lies beside the published schemas and refers to them. Sizes are the defaults of :class:`streams.topics.Sizing`. Sent
and received are meant as the program sees them: what it receives, producers send. Source of the format: AsyncAPI
3.0.0, and version 0.5.0 of its Kafka bindings.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from schemas import published
from schemas.exits import Classification
from schemas.json_schema import json_schema
from streams import redrive
from streams.exit_message import ExitMessage
from streams.topics import DEAD_LETTERS, OUR_PARTS, REDRIVE, Encoding, Topic, Topics

FILE = "asyncapi.yaml"
CONTRACT_VERSION = "1.0.0"

_BINDING = {"bindingVersion": "0.5.0"}
_AVRO_FORMAT = "application/vnd.apache.avro;version=1.9.0"
_JSON_SCHEMA_FORMAT = "application/schema+json;version=2020-12"
_CONTENT_TYPES = {
    Encoding.CONFLUENT: "application/vnd.confluent.avro",
    Encoding.SINGLE_OBJECT: "application/vnd.apache.avro+binary",
    Encoding.JSON: "application/json",
}
_FRAMES = {
    Encoding.CONFLUENT: "byte 00, the schema id of a registry in 4 bytes, big-endian, then the Avro body",
    Encoding.SINGLE_OBJECT: "bytes C3 01, the CRC-64-AVRO of the schema in 8 bytes, little-endian, then the Avro body",
    Encoding.JSON: "one JSON object, instants in ISO 8601 with an offset",
}
REDRIVEN = frozenset(
    {redrive.ORIGIN_TOPIC, redrive.ORIGIN_PARTITION, redrive.ORIGIN_OFFSET, redrive.ORIGIN_TIMESTAMP, redrive.REASON,
     redrive.REPLAY_COUNT}
)  # fmt: skip
"""Headers of ours that a redriven message carries."""

Node = dict[str, Any]


def document(topics: Topics) -> Node:
    """The document of these topics, in plain JSON values."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "offramp",
            "version": CONTRACT_VERSION,
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0"},
        },
        "channels": {_name(topic): _channel(topic) for topic in topics},
        "operations": dict(operation for topic in topics for operation in _operations(topic)),
    }


_DESCRIPTION = (
    "Tells, from evidence, how an AI agent's run ended, and what may safely happen next. Partitions are those of "
    "Kafka's default partitioner, murmur2 of the key; a producer on librdkafka sets partitioner=murmur2_random. The "
    "first byte of a message says how it is written. Schemas change only so that old and new readers and writers can "
    "all be mixed. Partitions, replicas and settings are the defaults of `offramp init`."
)


def _name(topic: Topic) -> str:
    return _camel(topic.id)


def _camel(text: str) -> str:
    """A name in camel case, as identifiers are written in documents of this kind."""
    head, *rest = re.split(r"\W+", text)
    return head + "".join(map(str.capitalize, rest))


def _pascal(text: str) -> str:
    return _camel(f"-{text}")


def _channel(topic: Topic) -> Node:
    written, read = ", ".join(topic.writers), ", ".join(topic.readers)
    return {
        "address": topic.name,
        "description": f"{_sentence(topic.purpose)} Written by {written}; read by {read}.",
        "messages": _messages(topic),
        "bindings": {
            "kafka": {
                "partitions": topic.partitions,
                "replicas": topic.replication_factor,
                "topicConfiguration": {name: _typed(name, value) for name, value in sorted(topic.settings.items())},
                **_BINDING,
            }
        },
    }


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _typed(name: str, value: str) -> Any:
    """A topic setting as the binding wants it: the policy a list, numbers and truth values as such."""
    if name == "cleanup.policy":
        return value.split(",")
    return {"true": True, "false": False}.get(value, int(value) if value.lstrip("-").isdecimal() else value)


# --- messages


def _messages(topic: Topic) -> Node:
    if not topic.records:
        headers = _headers(redrive.OURS) if topic.id == DEAD_LETTERS else {}
        return {"message": {"summary": _sentence(topic.purpose), **headers, "bindings": _message_binding(topic, {})}}
    return {
        f"{_camel(record)}{_pascal(encoding)}": _message(topic, record, encoding)
        for record in topic.records
        for encoding in topic.encodings
    }


def _message(topic: Topic, record: str, encoding: Encoding) -> Node:
    registry = {
        "schemaIdLocation": "payload",
        "schemaIdPayloadEncoding": "confluent",
        "schemaLookupStrategy": "TopicNameStrategy",
    }
    return {
        "name": record,
        "title": f"{record} ({encoding})",
        "summary": _sentence(_FRAMES[encoding]),
        "contentType": _CONTENT_TYPES[encoding],
        **(_headers(REDRIVEN) if topic.id == REDRIVE else {}),
        "payload": _payload(record, encoding),
        "bindings": _message_binding(topic, registry if encoding is Encoding.CONFLUENT else {}),
    }


_HEADERS = {
    redrive.ORIGIN_TOPIC: "topic of the message that this one is a copy of",
    redrive.ORIGIN_PARTITION: "its partition",
    redrive.ORIGIN_OFFSET: "its offset",
    redrive.ORIGIN_TIMESTAMP: "its timestamp in microseconds since the epoch, where it has one",
    redrive.REPLAY_COUNT: "how often it was redriven",
    redrive.REASON: "reason code of the dead letter",
    redrive.FIELD_PATH: "where in the message; empty for the whole of it",
    redrive.MESSAGE: "what is wrong, in words",
    redrive.TRIES: "how often it was tried",
    redrive.MASKED: "true if secret ranges of the bytes are masked",
    redrive.CUT_FROM: "how many bytes the value has in the store, where the topic does not take all of them",
}


def _headers(names: Iterable[str]) -> Node:
    """Headers that only this program writes, beside those that the message came with."""
    wanted = frozenset(names)
    described = {name: {"type": "string", "description": text} for name, text in _HEADERS.items() if name in wanted}
    return {"headers": {"type": "object", "properties": described}}


def _announced() -> Node:
    """A classification and whose it is, as :class:`streams.exit_message.ExitMessage` puts it."""
    whole = json_schema("exit-message", ExitMessage)
    names = [name for name in ExitMessage.model_fields if name not in Classification.model_fields]
    whose = {
        "type": "object",
        "properties": {name: whole["properties"][name] for name in names},
        "required": [name for name in names if name in whole["required"]],
    }
    return {"schemaFormat": _JSON_SCHEMA_FORMAT, "schema": {"allOf": [{"$ref": "./classification.schema.json"}, whose]}}


def _payload(record: str, encoding: Encoding) -> Node:
    if record == "classification":
        return _announced()
    if encoding is Encoding.JSON:
        return {"schemaFormat": _JSON_SCHEMA_FORMAT, "schema": {"$ref": f"./{record}.schema.json"}}
    return {"schemaFormat": _AVRO_FORMAT, "schema": {"$ref": f"./{record}.avsc"}}


def _message_binding(topic: Topic, more: Node) -> Node:
    return {"kafka": {"key": {"type": "string", "description": topic.key}, **more, **_BINDING}}


# --- operations


def _operations(topic: Topic) -> list[tuple[str, Node]]:
    """What our own parts do with a topic, by name."""
    sent = [_operation(part, "send", topic) for part in topic.writers if part in OUR_PARTS]
    received = [_operation(part, "receive", topic) for part in topic.readers if part in OUR_PARTS]
    return sent + received


def _operation(part: str, action: str, topic: Topic) -> tuple[str, Node]:
    name = _name(topic)
    operation = {
        "action": action,
        "channel": {"$ref": f"#/channels/{name}"},
        "summary": f"The {part} {action}s: {topic.purpose}.",
        "messages": [{"$ref": f"#/channels/{name}/messages/{message}"} for message in _messages(topic)],
    }
    return f"{_camel(part)}{action.capitalize()}s{_pascal(topic.id)}", operation


def text(topics: Topics) -> str:
    """The document as YAML."""
    return yaml.safe_dump(document(topics), sort_keys=False, allow_unicode=True, width=110)


def write(folder: Path) -> None:
    """Write the document of the default topics into the folder of the published schemas."""
    (folder / FILE).write_text(text(Topics.planned()), "utf-8")


if __name__ == "__main__":
    write(Path(published.__file__).parent)
