"""One record as JSON text: to the canonical dict that everything else works on, and back.

The models decide what is valid; this module adds what they cannot: one error with place and reason and never the value,
unknown fields kept under their path, older versions upcast. Of a key that stands twice in one object the last holds, as
in every stock JSON parser, so that no other reader of the same bytes sees another event.
"""

import functools
import json
from collections.abc import Iterable
from typing import Annotated, Any, Union

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, from_json

from schemas.contract import INCOMING
from schemas.errors import ErrorCode, MessageError
from schemas.shape import Shape, shape_of
from schemas.types import AS_TEXT, MAX_ITEMS, Record
from schemas.upcast import RawRecord, upcast

MAX_MESSAGE_BYTES = 16 * 2**20
"""Default limit of one message. JSON takes up to about 40 times its size in memory while it is read."""

_ERRORS = {
    "missing": (ErrorCode.MISSING_FIELD, "the field is required"),
    "string_type": (ErrorCode.BAD_TYPE, "must be a string"),
    "int_type": (ErrorCode.BAD_TYPE, "must be an integer"),
    "float_type": (ErrorCode.BAD_TYPE, "must be a number"),
    "bool_type": (ErrorCode.BAD_TYPE, "must be true or false"),
    "list_type": (ErrorCode.BAD_TYPE, "must be a list"),
    "dict_type": (ErrorCode.BAD_TYPE, "must be an object"),
    "model_type": (ErrorCode.BAD_TYPE, "must be an object"),
    "finite_number": (ErrorCode.OUT_OF_RANGE, "must be a finite number"),
    "greater_than_equal": (ErrorCode.OUT_OF_RANGE, "must fit 64 bits"),
    "less_than_equal": (ErrorCode.OUT_OF_RANGE, "must fit 64 bits"),
    "string_too_short": (ErrorCode.OUT_OF_RANGE, "an identifier must not be empty"),
    "string_too_long": (ErrorCode.OUT_OF_RANGE, "an identifier must not be longer than 1024 characters"),
    "too_long": (ErrorCode.TOO_LARGE, f"must not have more than {MAX_ITEMS} items"),
    "bad_time": (ErrorCode.BAD_TIME, "must be ISO 8601 in UTC, such as 2026-11-30T08:00:00Z"),
    "naive_time": (ErrorCode.BAD_TIME, "the time has no UTC offset; end it with Z"),
    "time_out_of_range": (ErrorCode.OUT_OF_RANGE, "the time must lie between 1900-01-01 and 2262-04-11"),
}
"""What the models' errors mean to a producer, by pydantic's error type; any other is a wrong type."""


def parse_json(data: bytes, *, max_bytes: int = MAX_MESSAGE_BYTES, labelled: bool = False) -> dict[str, Any]:
    """Read one JSON text as the canonical dict of a terminal event or companion.

    With ``labelled``, an object without a type that holds an ``event`` is a labelled case, and read as its event.
    Raises MessageError and nothing else, whatever the bytes are; the time is linear in their number.
    """
    if len(data) > max_bytes:
        raise MessageError(ErrorCode.TOO_LARGE, f"the message has {len(data)} bytes, more than {max_bytes}")
    raw = _read(data)
    return canonical(_unlabelled(raw) if labelled else raw, context=AS_TEXT)


def parse_stored(text: bytes) -> dict[str, Any]:
    """Read the JSON text of a canonical dict, as it is kept, as the canonical dict of the current version.

    Its instants are microseconds for certain, however small; every field is written out, so that it may be longer than
    any message was. Raises MessageError.
    """
    return canonical(_read(text))


def _read(data: bytes) -> Any:
    try:
        return from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise MessageError(ErrorCode.BAD_JSON, f"no valid JSON: {error}") from None


def _unlabelled(raw: Any) -> Any:
    return raw["event"] if isinstance(raw, dict) and "type" not in raw and isinstance(raw.get("event"), dict) else raw


def to_json(record: dict[str, Any], model: type[Record]) -> bytes:
    """Write a canonical dict as the contract's JSON: every field, instants as ISO 8601 with Z.

    Raises pydantic's ValidationError if the record is none of the model's: that is a defect of the caller.
    """
    return model.model_validate(record).model_dump_json().encode()


def canonical(raw: Any, *, context: dict[str, bool] | None = None) -> dict[str, Any]:
    """Validate a decoded record of any version (JSON, or Avro by its writer's schema) into the canonical dict.

    Fields that the contract does not know end in ``extensions``, each as compact JSON text with sorted keys under its
    path (``tool_calls[0].vendor_field``); if the path is taken, ``#`` is appended until it is free. An extension that
    arrives as a string stays as it is. ``context`` is :data:`schemas.types.AS_TEXT` for JSON. Raises MessageError.
    """
    if not isinstance(raw, dict):
        raise MessageError(ErrorCode.BAD_TYPE, "the message must be one JSON object")
    current = _with_text_extensions(upcast(raw))
    try:
        record: dict[str, Any] = _incoming().validate_python(current, context=context).model_dump()
    except ValidationError as error:
        raise _message_error(error) from None
    _move_unknown(record, shape_of(record["type"]), "", record["extensions"])
    return record


@functools.cache
def _incoming() -> TypeAdapter[Any]:
    contract: Any = Annotated[Union[tuple(INCOMING.values())], Field(discriminator="type")]  # noqa: UP007 - built from data
    return TypeAdapter(contract)


def _with_text_extensions(raw: RawRecord) -> RawRecord:
    given = raw.get("extensions")
    if not isinstance(given, dict) or len(given) > MAX_ITEMS or all(type(value) is str for value in given.values()):
        return raw  # as it should be, or for the models to refuse
    texts = {k: v if isinstance(v, str) else _text(v, "extensions.*") for k, v in given.items()}
    return raw | {"extensions": texts}


def _move_unknown(record: dict[str, Any], shape: Shape, prefix: str, extensions: dict[str, str]) -> None:
    if len(record) > len(shape.names):
        if len(record) + len(extensions) > len(shape.names) + MAX_ITEMS:
            raise MessageError(ErrorCode.TOO_LARGE, f"must not have more than {MAX_ITEMS} unknown fields", "extensions")
        for name in [name for name in record if name not in shape.names]:
            path = _free(f"{prefix}{name}", extensions)
            extensions[path] = _text(record.pop(name), f"{prefix}*")
    for name, child in shape.records:
        if record[name] is not None:
            _move_unknown(record[name], child, f"{prefix}{name}.", extensions)
    for name, child in shape.record_lists:
        for index, item in enumerate(record[name]):
            _move_unknown(item, child, f"{prefix}{name}[{index}].", extensions)


def _free(path: str, taken: dict[str, str]) -> str:
    while path in taken:
        path += "#"
    return path


def _text(value: Any, path: str) -> str:
    try:
        return _encoder().encode(value)
    except ValueError:  # only an infinite number, written as 1e999, reaches this
        raise MessageError(ErrorCode.OUT_OF_RANGE, "must be a finite number", path) from None


@functools.cache
def _encoder() -> json.JSONEncoder:
    return json.JSONEncoder(
        ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"), default=_bytes_text
    )


def _bytes_text(value: bytes) -> str:
    # Only a field of type bytes or fixed of a foreign Avro schema: Avro's own JSON encoding of it.
    return value.decode("iso-8859-1")


def _message_error(error: ValidationError) -> MessageError:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    code, message = _ERRORS.get(first["type"], (ErrorCode.BAD_TYPE, "has a value of the wrong type"))
    return MessageError(code, message, _path(first))


def _path(first: ErrorDetails) -> str:
    # The first part is the type's tag. Keys of maps are the producer's text, so they are not repeated.
    names = _field_names()
    return _joined(part if isinstance(part, int) or part in names else "*" for part in first["loc"][1:])


def _joined(parts: Iterable[int | str]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")


@functools.cache
def _field_names() -> frozenset[str]:
    return frozenset().union(*(shape_of(kind).all_names() for kind in INCOMING))
