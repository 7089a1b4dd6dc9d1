"""Whether one Avro schema can read what another wrote, and whether a change of a published schema is allowed.

Schemas are JSON as the Avro specification has it. A name is compared without its namespace, so that a producer may keep
its own. Strings and bytes are not promoted into each other: text must be text.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from schemas.avro import AvroType

_PROMOTIONS = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
}


def why_unreadable(reader: AvroType, writer: AvroType) -> list[str]:
    """Return why ``reader`` cannot resolve what ``writer`` wrote, each reason with its path; empty if it can."""
    return list(_Resolution(_definitions(reader), _definitions(writer)).mismatches(reader, writer, "", frozenset()))


def why_incompatible(new: AvroType, old: AvroType) -> list[str]:
    """Return why ``new`` may not follow the published ``old``; empty if it may.

    Fully compatible means that each reads what the other writes. Beyond that no field may go, even one with a default,
    since a removed or renamed optional field would silently turn evidence into absence; and no enumeration may lose a
    symbol or change its default, since symbols that are known today would decode to the default.
    """
    backward = [f"{reason} (new reads old)" for reason in why_unreadable(new, old)]
    forward = [f"{reason} (old reads new)" for reason in why_unreadable(old, new)]
    return backward + forward + list(_losses(_definitions(new), _definitions(old)))


def _definitions(schema: AvroType) -> dict[str, dict[str, Any]]:
    """Return the named types of a schema by unqualified name."""
    found: dict[str, dict[str, Any]] = {}
    for part in _parts(schema):
        if isinstance(part, dict) and "name" in part:
            found[_unqualified(part["name"])] = part
    return found


def _parts(schema: AvroType) -> Iterator[AvroType]:
    yield schema
    if isinstance(schema, list):
        for branch in schema:
            yield from _parts(branch)
    elif isinstance(schema, dict):
        inner = [field["type"] for field in schema.get("fields", ())]
        for child in (*inner, *(schema[key] for key in ("items", "values") if key in schema)):
            yield from _parts(child)


def _unqualified(name: str) -> str:
    return name.rpartition(".")[2]


def _losses(new: dict[str, dict[str, Any]], old: dict[str, dict[str, Any]]) -> Iterator[str]:
    for name, before in old.items():
        after = new.get(name)
        if after is None:
            yield f"{name}: removed or renamed"
        else:
            yield from (f"{name}.{field}: removed or renamed" for field in _lost_fields(after, before))
            yield from (f"{name}: symbol {symbol} removed" for symbol in _lost_symbols(after, before))
            if after.get("default") != before.get("default"):
                yield f"{name}: default changed from {before.get('default')} to {after.get('default')}"


def _lost_fields(after: dict[str, Any], before: dict[str, Any]) -> list[str]:
    kept = {field["name"] for field in after.get("fields", ())}
    return [field["name"] for field in before.get("fields", ()) if field["name"] not in kept]


def _lost_symbols(after: dict[str, Any], before: dict[str, Any]) -> list[str]:
    return [symbol for symbol in before.get("symbols", ()) if symbol not in after.get("symbols", ())]


@dataclass(frozen=True)
class _Resolution:
    """Schema resolution between the named types of two sides."""

    readers: dict[str, dict[str, Any]]
    writers: dict[str, dict[str, Any]]

    def mismatches(self, reader: AvroType, writer: AvroType, path: str, seen: frozenset[str]) -> Iterator[str]:
        reader, writer = _resolved(reader, self.readers), _resolved(writer, self.writers)
        if isinstance(writer, list):
            for branch in writer:
                yield from self.mismatches(reader, branch, path, seen)
        elif isinstance(reader, list):
            yield from self._no_branch(reader, writer, path, seen)
        elif _kind(reader) != _kind(writer):
            if _kind(reader) not in _PROMOTIONS.get(_kind(writer), ()):
                yield f"{path or 'schema'}: {_kind(writer)} cannot be read as {_kind(reader)}"
        elif isinstance(reader, dict) and isinstance(writer, dict):
            yield from self._inside(reader, writer, path, seen)

    def _no_branch(self, reader: list[Any], writer: AvroType, path: str, seen: frozenset[str]) -> Iterator[str]:
        tried = [list(self.mismatches(branch, writer, path, seen)) for branch in reader]
        if all(tried):
            # The longest account is that of the branch that agrees furthest.
            yield from max(reversed(tried), key=lambda reasons: (max(map(len, reasons)), len(reasons)))

    def _inside(self, reader: dict[str, Any], writer: dict[str, Any], path: str, seen: frozenset[str]) -> Iterator[str]:
        kind = reader["type"]
        if kind in ("array", "map"):
            key = "items" if kind == "array" else "values"
            yield from self.mismatches(reader[key], writer[key], f"{path}[]", seen)
        elif "name" in reader and _unqualified(reader["name"]) != _unqualified(writer["name"]):
            yield f"{path or 'schema'}: {writer['name']} cannot be read as {reader['name']}"
        elif kind == "enum":
            yield from _unknown_symbols(reader, writer, path)
        elif kind == "fixed" and reader["size"] != writer["size"]:
            yield f"{path}: fixed of another size"
        elif kind == "record" and reader["name"] not in seen:
            yield from self._fields(reader, writer, path, seen | {reader["name"]})

    def _fields(self, reader: dict[str, Any], writer: dict[str, Any], path: str, seen: frozenset[str]) -> Iterator[str]:
        written = {field["name"]: field["type"] for field in writer["fields"]}
        for field in reader["fields"]:
            place = f"{path}.{field['name']}".removeprefix(".")
            if field["name"] in written:
                yield from self.mismatches(field["type"], written[field["name"]], place, seen)
            elif "default" not in field:
                yield f"{place}: missing in what is written, and without a default"


def _resolved(schema: AvroType, names: dict[str, dict[str, Any]]) -> AvroType:
    return names.get(_unqualified(schema), schema) if isinstance(schema, str) else schema


def _kind(schema: AvroType) -> str:
    return str(schema["type"] if isinstance(schema, dict) else schema)


def _unknown_symbols(reader: dict[str, Any], writer: dict[str, Any], path: str) -> Iterator[str]:
    unknown = [symbol for symbol in writer["symbols"] if symbol not in reader["symbols"]]
    if unknown and "default" not in reader:
        yield f"{path}: symbols {', '.join(unknown)} unknown, and {reader['name']} has no default"
