"""What Avro cannot express of a record's validity, checked on every decoded record at a fraction of decoding it.

The check is Python source, written from the shape of each record type once per process, as ``dataclasses`` does: a walk
over the same shape costs twice as much, and every event pays it.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from sys import float_info
from textwrap import indent
from typing import Any

from annotated_types import MaxLen

from schemas.contract import CURRENT_VERSION, INCOMING
from schemas.json_form import canonical
from schemas.shape import Shape, shape_of
from schemas.types import EARLIEST, LATEST, MAX_ITEMS, NameMarker, Record, record_in

Check = Callable[[dict[str, Any]], bool]


def check_record(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record decoded by the current Avro schema if it is a valid canonical dict.

    Checked are type and version, identifiers, empty names, the range of instants, finite numbers and the length of
    lists and maps. Raises MessageError. Only what fails here is given to the models, which have the last word, with
    place and reason.
    """
    return record if _holds(record) else canonical(record)


def _holds(record: dict[str, Any]) -> bool:
    check = _checks().get(record["type"])
    try:
        return check is not None and check(record)
    except (KeyError, TypeError):  # the type that the record states is not the one whose schema it was decoded by
        return False


@functools.cache
def _checks() -> dict[str, Check]:
    return {kind: _compiled(kind) for kind in INCOMING}


def _compiled(kind: str) -> Check:
    shape = shape_of(kind)
    head = f"if r['version'] != {CURRENT_VERSION[kind]} or len(r) != {len(shape.names)}: return False"
    lines = (head, *_identifiers(kind), *_lines(shape, INCOMING[kind]))
    source = "def check(r):\n" + indent("\n".join(lines), " ") + "\n return True"
    namespace: dict[str, Any] = {}
    exec(source, namespace)  # noqa: S102 - the source holds nothing but names and limits of our own models
    return namespace["check"]  # type: ignore[no-any-return]


def _identifiers(kind: str) -> Iterator[str]:
    for name, field in INCOMING[kind].model_fields.items():
        for limit in field.metadata:
            if isinstance(limit, MaxLen) and field.annotation is str:
                yield f"if not 0 < len(r[{name!r}]) <= {limit.max_length}: return False"


def _lines(shape: Shape, model: type[Record] | None, record: str = "r") -> Iterator[str]:
    """Yield the statements that return False from the check if ``record``, a variable's name, breaks a limit."""
    fields = model.model_fields if model else {}
    for name, field in fields.items():
        if any(isinstance(marker, NameMarker) for marker in field.metadata):
            yield f"if {record}[{name!r}] == '': return False"
    for name in shape.instants:
        yield _range(f"{record}[{name!r}]", EARLIEST, LATEST)
    for name in shape.doubles:
        yield _range(f"{record}[{name!r}]", -float_info.max, float_info.max)
    for name in shape.double_maps:
        yield f"for v in {record}[{name!r}].values():\n {_range('v', -float_info.max, float_info.max)}"
    for name in shape.sized:
        yield f"if len({record}[{name!r}]) > {MAX_ITEMS}: return False"
    for name, child in shape.records:
        opening = f"{record}_ = {record}[{name!r}]\nif {record}_ is not None:"
        yield from _block(opening, _lines(child, record_in(fields[name]), f"{record}_"))
    for name, child in shape.record_lists:
        yield from _block(f"for {record}_ in {record}[{name!r}]:", _lines(child, record_in(fields[name]), f"{record}_"))


def _range(value: str, low: float, high: float) -> str:
    # Not a number is in no range.
    return f"if (x := {value}) is not None and not {low!r} <= x <= {high!r}: return False"


def _block(opening: str, lines: Iterable[str]) -> Iterator[str]:
    body = "\n".join(lines)
    if body:
        yield f"{opening}\n{indent(body, ' ')}"
