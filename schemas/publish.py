"""Writes the published schemas from the models: ``python -m schemas.publish``.

A change that readers or writers of an earlier version could not live with is refused, and nothing is written.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schemas.avro import AvroType, avro_schema
from schemas.compatibility import why_incompatible
from schemas.contract import PUBLISHED
from schemas.json_schema import json_schema
from schemas.published import history


def generated() -> dict[str, str]:
    """Return the text of every published file but history, by file name."""
    avro = {f"{name}.avsc": _text(avro_schema(contract)) for name, contract in PUBLISHED.items()}
    return avro | {f"{name}.schema.json": _text(json_schema(name, contract)) for name, contract in PUBLISHED.items()}


def objections(earlier: Mapping[str, list[AvroType]]) -> list[str]:
    """Return why the models may not be published after these earlier versions by name; empty if they may."""
    return [
        f"{name} after version {number}: {reason}"
        for name, contract in PUBLISHED.items()
        for number, old in enumerate(earlier[name], start=1)
        for reason in why_incompatible(avro_schema(contract), old)
    ]


def new_versions(earlier: Mapping[str, list[AvroType]]) -> dict[str, str]:
    """Return the history files that the models add, by file name: none for a change of wording alone."""
    schemas = {name: avro_schema(contract) for name, contract in PUBLISHED.items()}
    return {
        f"{name}.{len(earlier[name]) + 1}.avsc": _text(schema)
        for name, schema in schemas.items()
        if not earlier[name] or _without_docs(earlier[name][-1]) != _without_docs(schema)
    }


def write(root: Path, earlier: Mapping[str, list[AvroType]]) -> None:
    """Write all published files under ``root``, and what is new of ``history`` below it."""
    for name, text in generated().items():
        (root / name).write_text(text, "utf-8")
    for name, text in new_versions(earlier).items():
        (root / "history" / name).write_text(text, "utf-8")


def main(root: Path) -> int:
    """Publish under ``root``; return the exit status, 1 after printing to stderr why the change is refused."""
    earlier = {name: history(name) for name in PUBLISHED}
    if reasons := objections(earlier):
        sys.stderr.write("\n".join(reasons) + "\n")
        return 1
    write(root, earlier)
    return 0


def _text(schema: Any) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _without_docs(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _without_docs(value) for key, value in node.items() if key != "doc"}
    return [_without_docs(item) for item in node] if isinstance(node, list) else node


if __name__ == "__main__":
    sys.exit(main(Path(__file__).parent / "published"))
