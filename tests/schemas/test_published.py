import copy
import json

import pytest

from schemas import publish, published
from schemas.avro import avro_schema
from schemas.compatibility import why_incompatible, why_unreadable
from schemas.contract import PUBLISHED
from schemas.published import history

NAMES = tuple(PUBLISHED)


def test_the_files_are_what_the_models_generate():
    for file, text in publish.generated().items():
        written = published._root().joinpath(file).read_text("utf-8")
        assert written == text, f"{file} is stale: run python -m schemas.publish"


def test_no_file_is_left_behind():
    found = {entry.name for entry in published._root().iterdir() if entry.name.endswith((".avsc", ".json"))}
    assert found == set(publish.generated())


@pytest.mark.parametrize("name", NAMES)
def test_the_current_version_is_the_last_of_its_history(name):
    earlier = {known: history(known) for known in NAMES}
    assert earlier[name]
    assert publish.new_versions(earlier) == {}


def test_the_models_are_compatible_with_every_published_version():
    assert publish.objections({name: history(name) for name in NAMES}) == []


@pytest.mark.parametrize("name", NAMES)
def test_published_schemas_can_be_read_from_the_package(name):
    assert published.avro(name) == avro_schema(PUBLISHED[name])
    assert published.json_schema(name)["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert published.json_schema(name)["$id"] == f"urn:offramp:v1:{name}"


def nodes(schema):
    yield schema
    for child in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from nodes(child)


def named(schema, kind):
    return [node for node in nodes(schema) if isinstance(node, dict) and node.get("type") == kind and "name" in node]


@pytest.mark.parametrize("name", NAMES)
def test_every_enumeration_has_a_default_among_its_symbols(name):
    for enum in named(avro_schema(PUBLISHED[name]), "enum"):
        assert enum["default"] in enum["symbols"]
        assert len(set(enum["symbols"])) == len(enum["symbols"])


@pytest.mark.parametrize("name", NAMES)
def test_every_optional_field_has_a_default(name):
    for record in named(avro_schema(PUBLISHED[name]), "record"):
        for field in record["fields"]:
            if isinstance(field["type"], list):
                assert (field["type"][0], field["default"]) == ("null", None)
            elif isinstance(field["type"], dict) and field["type"]["type"] in {"array", "map"}:
                assert field["default"] == ([] if field["type"]["type"] == "array" else {})


@pytest.mark.parametrize("name", NAMES)
def test_every_field_is_described_in_both_forms(name):
    for record in named(avro_schema(PUBLISHED[name]), "record"):
        assert all(field["doc"] for field in record["fields"])
    for node in nodes(publish.json_schema(name, PUBLISHED[name])):
        if isinstance(node, dict) and isinstance(node.get("properties"), dict):
            assert all("description" in field or "$ref" in field for field in node["properties"].values())


def test_the_json_schema_lists_symbols_and_required_fields():
    schema = published.json_schema("terminal-event")
    assert {"event_id", "run_id", "tenant", "agent_id", "occurred_at", "type", "version"} == set(schema["required"])
    outcome = schema["$defs"]["ToolCall"]["properties"]["outcome"]["anyOf"][0]
    assert outcome["enum"][0] == "ok"
    assert outcome["enum"][-1] == "unknown"
    assert schema["properties"]["occurred_at"]["format"] == "date-time"


# Compatibility


def base():
    return {
        "type": "record",
        "name": "Event",
        "namespace": "a",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "count", "type": ["null", "long"], "default": None},
            {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["on", "off"], "default": "off"}},
            {
                "name": "parts",
                "type": {
                    "type": "array",
                    "items": {"type": "record", "name": "Part", "fields": [{"name": "name", "type": "string"}]},
                },
                "default": [],
            },
            {"name": "last", "type": ["null", "Part"], "default": None},
        ],
    }


def changed(change):
    schema = base()
    change({field["name"]: field for field in schema["fields"]}, schema)
    return schema


def items(fields):
    return fields["parts"]["type"]["items"]


REFUSED = {
    "removed field without default": (lambda f, s: s["fields"].remove(f["id"]), "id: missing"),
    "removed field with default": (lambda f, s: s["fields"].remove(f["count"]), "Event.count: removed"),
    "added field without default": (lambda f, s: s["fields"].append({"name": "new", "type": "long"}), "new: missing"),
    "added nested field without default": (
        lambda f, s: items(f)["fields"].append({"name": "new", "type": "long"}),
        "parts[].new: missing",
    ),
    "removed symbol": (lambda f, s: f["state"]["type"]["symbols"].remove("on"), "State: symbol on removed"),
    "removed default of an enumeration": (lambda f, s: f["state"]["type"].pop("default"), "State: default changed"),
    "changed default of an enumeration": (
        lambda f, s: f["state"]["type"].update(default="on"),
        "State: default changed",
    ),
    "changed type": (lambda f, s: f["id"].update(type="long"), "id: string cannot be read as long"),
    "widened type": (lambda f, s: f["count"].update(type=["null", "double"]), "count: double cannot be read as long"),
    "required becomes optional": (lambda f, s: f["id"].update(type=["null", "string"]), "id: null cannot be read"),
    "changed item type": (lambda f, s: f["parts"]["type"].update(items="string"), "parts[]: "),
    "renamed required field": (lambda f, s: f["id"].update(name="key"), "Event.id: removed or renamed"),
    "renamed optional field": (lambda f, s: f["count"].update(name="total"), "Event.count: removed or renamed"),
    "renamed record": (lambda f, s: s.update(name="Happening"), "Event: removed or renamed"),
    "renamed enumeration": (lambda f, s: f["state"]["type"].update(name="Status"), "State: removed or renamed"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_breaking_change_is_refused_and_named(case):
    change, reason = REFUSED[case]
    reasons = why_incompatible(changed(change), base())
    assert any(reason in found for found in reasons), reasons


ALLOWED = {
    "nothing": lambda f, s: None,
    "wording": lambda f, s: s.update(doc="other"),
    "namespace": lambda f, s: s.update(namespace="b"),
    "added optional field": lambda f, s: s["fields"].append({"name": "new", "type": ["null", "long"], "default": None}),
    "added symbol": lambda f, s: f["state"]["type"]["symbols"].append("broken"),
    "order of fields": lambda f, s: s["fields"].insert(0, s["fields"].pop(1)),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_a_compatible_change_is_allowed(case):
    assert why_incompatible(changed(ALLOWED[case]), base()) == []


def test_an_added_symbol_needs_a_default_to_be_read():
    def add(fields, schema):
        fields["state"]["type"]["symbols"].append("broken")

    old = changed(lambda fields, schema: fields["state"]["type"].pop("default"))
    assert why_unreadable(old, changed(add)) == ["state: symbols broken unknown, and State has no default"]


@pytest.mark.parametrize(
    ("reader", "writer"), [("double", "float"), ("double", "long"), ("long", "int"), (["null", "double"], ["int"])]
)
def test_numbers_widen_in_one_direction(reader, writer):
    assert why_unreadable(reader, writer) == []
    assert why_unreadable(writer, reader)


def test_recursive_schemas_are_compared_in_finite_time():
    tree = {
        "type": "record",
        "name": "Tree",
        "fields": [{"name": "children", "type": {"type": "array", "items": "Tree"}, "default": []}],
    }
    assert why_incompatible(tree, copy.deepcopy(tree)) == []


# Publishing


def test_publishing_writes_every_file_and_a_first_version(tmp_path):
    (tmp_path / "history").mkdir()
    publish.write(tmp_path, {name: [] for name in NAMES})
    assert {file.name for file in (tmp_path / "history").iterdir()} == {f"{name}.1.avsc" for name in NAMES}
    assert json.loads((tmp_path / "envelope.avsc").read_text("utf-8")) == avro_schema(PUBLISHED["envelope"])


def test_a_compatible_change_becomes_the_next_version():
    earlier = {name: history(name) for name in NAMES}
    older = copy.deepcopy(earlier["enrichment"][-1])
    older["fields"].pop()
    versions = publish.new_versions(earlier | {"enrichment": [older, older]})
    assert list(versions) == ["enrichment.3.avsc"]


def test_wording_alone_is_no_new_version():
    earlier = {name: history(name) for name in NAMES}
    older = copy.deepcopy(earlier["enrichment"][-1]) | {"doc": "other words"}
    assert publish.new_versions(earlier | {"enrichment": [older]}) == {}


def test_an_incompatible_change_is_refused_and_nothing_is_written(tmp_path, monkeypatch, capsys):
    older = copy.deepcopy(history("enrichment")[-1])
    older["fields"].append({"name": "gone", "type": "string"})
    monkeypatch.setattr(publish, "history", lambda name: [older] if name == "enrichment" else history(name))
    assert publish.main(tmp_path) == 1
    assert "enrichment after version 1: Enrichment.gone: removed or renamed" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
