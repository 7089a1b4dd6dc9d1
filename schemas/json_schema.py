"""JSON Schema, draft 2020-12, generated from the contract models: what a producer should write.

A reader is more lenient than these schemas: it takes ``null`` for an empty list or map, an unknown symbol of an
enumeration for its default, and any field that the contract does not know.
"""

from typing import Any

from pydantic import TypeAdapter

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(name: str, contract: Any) -> dict[str, Any]:
    """Return the JSON Schema of a contract model or union of models that is published as ``name``."""
    schema = TypeAdapter(contract).json_schema()
    return {"$schema": DIALECT, "$id": f"urn:offramp:v1:{name}", **_without_titles(schema)}


def _without_titles(node: Any) -> Any:
    """Drop the titles that repeat a field's name. A property may be called ``title``: its value is an object."""
    if isinstance(node, dict):
        return {
            key: _without_titles(value)
            for key, value in node.items()
            if not (key == "title" and isinstance(value, str))
        }
    return [_without_titles(item) for item in node] if isinstance(node, list) else node
