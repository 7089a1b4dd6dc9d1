"""The published schemas as files, and every version of them that was ever published.

``<name>.avsc`` and ``<name>.schema.json`` are the current contract; ``history/<name>.<n>.avsc`` are all versions that
readers or writers may still have, the current one last. ``python -m schemas.publish`` writes them from the models.
"""

import json
import re
from importlib.resources import files
from importlib.resources.abc import Traversable

from schemas.avro import AvroType


def avro(name: str) -> AvroType:
    """Return the current Avro schema of a name of :data:`schemas.contract.PUBLISHED`, as decoded JSON."""
    return json.loads(_root().joinpath(f"{name}.avsc").read_text("utf-8"))


def json_schema(name: str) -> dict[str, object]:
    """Return the current JSON Schema of a published name, as decoded JSON."""
    schema: dict[str, object] = json.loads(_root().joinpath(f"{name}.schema.json").read_text("utf-8"))
    return schema


def history(name: str) -> list[AvroType]:
    """Return every Avro schema that was published under ``name``, oldest first."""
    numbered = re.compile(rf"{re.escape(name)}\.(\d+)\.avsc")
    found = [
        (int(match[1]), entry)
        for entry in _root().joinpath("history").iterdir()
        if (match := numbered.fullmatch(entry.name))
    ]
    return [json.loads(entry.read_text("utf-8")) for _, entry in sorted(found, key=lambda pair: pair[0])]


def _root() -> Traversable:
    return files("schemas.published")
