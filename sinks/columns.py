"""How the contract's field types appear in the store: as Arrow types going in, as SQL types and expressions coming out.

Everything is derived from the Avro form of the contract models, which is one small tree of plain JSON. Used to encode
rows, and to write the text of the view ``v_events``, which a migration freezes.
"""

from typing import Any

import pyarrow as pa

from schemas.avro import AvroType, avro_schema
from schemas.events import TerminalEvent
from schemas.types import Record

INSTANT = pa.timestamp("us", tz="UTC")
_ARROW: dict[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}
_SQL = {"string": "String", "long": "Int64", "double": "Float64", "boolean": "Bool"}
_INDENT = "    "


def arrow_fields(record: type[Record]) -> "dict[str, pa.Field[Any]]":
    """Arrow field of each flat field of a model. Raises KeyError for a nested one, which no companion has."""
    return {field["name"]: _arrow_field(field) for field in avro_schema(record)["fields"]}


def _arrow_field(field: AvroType) -> "pa.Field[Any]":
    plain, nullable = _split(field["type"])
    return pa.field(field["name"], _arrow(plain), nullable=nullable)


def _arrow(kind: AvroType) -> pa.DataType:
    if isinstance(kind, str):
        return _ARROW.get(kind, pa.string())  # any other name is that of an enumeration defined before
    if kind["type"] == "map":
        return pa.map_(pa.string(), _ARROW[kind["values"]])
    return INSTANT if kind["type"] == "long" else {"enum": pa.string()}[kind["type"]]


def _split(kind: AvroType) -> tuple[AvroType, bool]:
    """The type without its null, and whether it had one."""
    return (kind[1], True) if isinstance(kind, list) else (kind, False)


def event_columns() -> str:
    """SELECT list that turns the column ``event`` (canonical JSON text) into one typed column per nested field.

    A list of records is ``Array(Tuple(...))``, a record ``Tuple(...)`` whose fields are all NULL when it is absent, an
    instant ``DateTime64(6, 'UTC')``.
    """
    fields = [field for field in avro_schema(TerminalEvent)["fields"] if _is_nested(field["type"])]
    named = _named(avro_schema(TerminalEvent))
    return ",\n".join(f"{_INDENT}{_column(field, named)}" for field in fields)


def _is_nested(kind: AvroType) -> bool:
    plain, _ = _split(kind)
    return isinstance(plain, dict) and plain["type"] in ("record", "array", "map")


def _column(field: AvroType, named: dict[str, AvroType]) -> str:
    kind, name = field["type"], field["name"]
    raw = f"JSONExtract(event, {_quote(name)}, {_quote(_sql_type(kind, named, instants='Int64'))})"
    if not _has_instant(kind, named):
        return f"{raw} AS {name}"
    # JSONExtract reads a whole number as seconds where a DateTime64 is wanted; ours are microseconds.
    typed = _sql_type(kind, named, instants="DateTime64(6, 'UTC')")
    if _resolve(kind, named)["type"] == "record":
        # A list of one, so that the record is extracted once and named in the expression.
        return f"CAST(arrayMap(x -> {_convert(kind, 'x', named)}, [{raw}])[1], {_quote(typed)}) AS {name}"
    return f"CAST({_convert(kind, raw, named)}, {_quote(typed)}) AS {name}"


def _quote(text: str) -> str:
    return "'" + text.replace("'", "\\'") + "'"


def _named(kind: AvroType) -> dict[str, AvroType]:
    """Every record and enumeration by its name, since Avro defines each only once."""
    if isinstance(kind, list):
        return {name: found for branch in kind for name, found in _named(branch).items()}
    if not isinstance(kind, dict):
        return {}
    here = {kind["name"]: kind} if kind.get("type") in ("record", "enum") else {}
    children: list[Any] = [kind.get("items"), kind.get("values"), *(f["type"] for f in kind.get("fields", []))]
    return here | {name: found for child in children for name, found in _named(child).items()}


def _resolve(kind: AvroType, named: dict[str, AvroType]) -> AvroType:
    plain, _ = _split(kind)
    return named.get(plain, plain) if isinstance(plain, str) else plain


def _sql_type(kind: AvroType, named: dict[str, AvroType], *, instants: str) -> str:
    plain, nullable = _resolve(kind, named), _split(kind)[1]
    if isinstance(plain, str) or plain["type"] in ("enum", "long"):
        scalar = _scalar(plain, instants)
        return f"Nullable({scalar})" if nullable else scalar
    if plain["type"] == "array":
        return f"Array({_sql_type(plain['items'], named, instants=instants)})"
    if plain["type"] == "map":
        return f"Map(String, {_sql_type(plain['values'], named, instants=instants)})"
    inner = ", ".join(f"{f['name']} {_sql_type(f['type'], named, instants=instants)}" for f in plain["fields"])
    return f"Tuple({inner})"


def _scalar(plain: AvroType, instants: str) -> str:
    if isinstance(plain, str):
        return _SQL[plain]
    return "String" if plain["type"] == "enum" else instants


def _is_instant(plain: AvroType) -> bool:
    return isinstance(plain, dict) and plain["type"] == "long"


def _has_instant(kind: AvroType, named: dict[str, AvroType]) -> bool:
    plain = _resolve(kind, named)
    if not isinstance(plain, dict) or plain["type"] in ("enum", "map"):
        return False
    if plain["type"] == "array":
        return _has_instant(plain["items"], named)
    return _is_instant(plain) or any(_has_instant(field["type"], named) for field in plain.get("fields", []))


def _convert(kind: AvroType, source: str, named: dict[str, AvroType]) -> str:
    """SQL expression that equals ``source`` with each number that is an instant turned into one."""
    plain = _resolve(kind, named)
    if not _has_instant(kind, named):
        return source
    if _is_instant(plain):
        return f"fromUnixTimestamp64Micro({source}, 'UTC')"
    if plain["type"] == "array":
        return f"arrayMap(x -> {_convert(plain['items'], 'x', named)}, {source})"
    parts = [_convert(field["type"], f"{source}.{field['name']}", named) for field in plain["fields"]]
    return f"tuple({', '.join(parts)})"
