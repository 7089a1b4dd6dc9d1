"""The published AsyncAPI document: current, valid by the specification's own schema, and true to the topics."""

import gzip
import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from schemas import published
from schemas.contract import INCOMING, PUBLISHED
from schemas.published import json_schema
from sinks.rows import DeadLetterRow
from streams import asyncapi, redrive
from streams.exit_message import ExitMessage
from streams.topics import Encoding, Sizing, Topics

PUBLISHED_AT = Path(published.__file__).parent
SPECIFICATION = Path(__file__).parent / "asyncapi" / "3.0.0.json.gz"
DOCUMENT = yaml.safe_load((PUBLISHED_AT / asyncapi.FILE).read_text("utf-8"))


@pytest.fixture(scope="module")
def validator():
    schema = json.loads(gzip.decompress(SPECIFICATION.read_bytes()))
    return jsonschema.validators.validator_for(schema)(schema)


def references(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for child in node.values():
            yield from references(child)
    elif isinstance(node, list):
        for child in node:
            yield from references(child)


def test_the_file_is_what_the_topics_generate():
    written = (PUBLISHED_AT / asyncapi.FILE).read_text("utf-8")
    assert written == asyncapi.text(Topics.planned()), "asyncapi.yaml is stale: run python -m streams.asyncapi"


def test_it_is_valid_by_the_schema_of_the_specification(validator):
    assert [f"{list(error.path)}: {error.message}" for error in validator.iter_errors(DOCUMENT)] == []


def test_that_schema_finds_what_is_wrong(validator):
    channel = DOCUMENT["channels"]["terminalEvents"]
    wrong = {
        "a channel without a proper address": {**channel, "address": 7},
        "a binding that there is not": {**channel, "bindings": {"kafka": {"partition": 3}}},
        "no partition": {**channel, "bindings": {"kafka": {"partitions": 0, "bindingVersion": "0.5.0"}}},
    }
    for what, broken in wrong.items():
        assert not validator.is_valid({**DOCUMENT, "channels": {"terminalEvents": broken}}), what
    assert not validator.is_valid({**DOCUMENT, "operations": {"x": {"action": "listen"}}})


def test_every_reference_leads_somewhere():
    found = list(references(DOCUMENT))
    assert found
    for reference in found:
        if reference.startswith("./"):
            assert (PUBLISHED_AT / reference).is_file(), reference
            continue
        node = DOCUMENT
        for step in reference.removeprefix("#/").split("/"):
            node = node[step]


def test_every_topic_is_a_channel_with_its_size_and_settings():
    topics = list(Topics.planned())
    assert len(DOCUMENT["channels"]) == len(topics)
    for topic, channel in zip(topics, DOCUMENT["channels"].values(), strict=True):
        kafka = channel["bindings"]["kafka"]
        assert (channel["address"], kafka["partitions"], kafka["replicas"]) == (topic.name, topic.partitions, 3)
        assert kafka["topicConfiguration"]["retention.ms"] == int(topic.settings["retention.ms"])
        assert kafka["topicConfiguration"]["cleanup.policy"] == ["delete"]
        assert kafka["topicConfiguration"]["unclean.leader.election.enable"] is False


def test_every_record_type_can_come_in_every_encoding_by_the_published_schemas():
    for kind in INCOMING:
        topic = Topics.planned().of_record(kind)
        (channel,) = (each for each in DOCUMENT["channels"].values() if each["address"] == topic.name)
        payloads = [message["payload"]["schema"]["$ref"] for message in channel["messages"].values()]
        name = topic.records[0]
        assert payloads == [f"./{name}.avsc", f"./{name}.avsc", f"./{name}.schema.json"]
        assert len(payloads) == len(Encoding)
    assert json_schema("classification")["$schema"].endswith("/2020-12/schema")
    assert {record for topic in Topics.planned() for record in topic.records} < set(PUBLISHED)


def test_what_is_announced_is_a_classification_and_whose_it_is():
    (message,) = DOCUMENT["channels"]["exitClassifications"]["messages"].values()
    classification, whose = message["payload"]["schema"]["allOf"]
    assert classification == {"$ref": "./classification.schema.json"}
    fields = ExitMessage.model_json_schema()["properties"]
    assert fields.keys() == json_schema("classification")["properties"].keys() | whose["properties"].keys()
    assert {"tenant", "run_id", "occurred_at"} <= set(whose["required"])
    assert "$ref" not in json.dumps(whose)


def test_dead_letters_and_redriven_ones_name_the_headers_that_they_carry():
    (dead,) = DOCUMENT["channels"]["terminalEventsDlq"]["messages"].values()
    assert set(dead["headers"]["properties"]) == redrive.OURS
    letter = DeadLetterRow("terminal-events", "0", 7, 1, b"{", {}, "bad_json", "", "no JSON", masked=False, tries=1,
                           replay_count=0, recorded_at=2)  # fmt: skip
    sent = {name for name, _ in redrive.dlq_message(letter, Topics.planned().dead_letters).headers}
    assert sent == redrive.OURS - {redrive.CUT_FROM}
    again = {name for name, _ in redrive.redriven(letter, None, b"{", (), "terminal-events.redrive").headers}
    assert again == asyncapi.REDRIVEN
    for message in DOCUMENT["channels"]["terminalEventsRedrive"]["messages"].values():
        assert set(message["headers"]["properties"]) == asyncapi.REDRIVEN


def test_what_we_write_and_read_are_the_operations():
    operations = {
        (operation["action"], operation["channel"]["$ref"].removeprefix("#/channels/"))
        for operation in DOCUMENT["operations"].values()
    }
    assert ("receive", "terminalEvents") in operations
    assert ("send", "terminalEvents") not in operations
    assert ("send", "exitClassifications") in operations
    sent = {channel for action, channel in operations if action == "send"}
    assert sent == {"exitClassifications", "terminalEventsDlq", "terminalEventsRedrive", "exitAlerts"}


def test_a_deployment_of_its_own_has_a_document_of_its_own(validator):
    topics = Topics.planned(Sizing(prefix="eu.", partitions=3, replication_factor=1))
    document = asyncapi.document(topics)
    assert document["channels"]["terminalEvents"]["address"] == "eu.terminal-events"
    assert validator.is_valid(document)
