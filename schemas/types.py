"""The field types that every contract model is built from.

A model field is plain data: ``str``, ``int``, ``bool``, ``float``, lists and nested records. Two types need care and
live here once: instants (:data:`Instant`) and open enumerations (:class:`EnumMarker`). Everything derived from the
models (Avro, JSON Schema, column comments) reads the markers defined here and nothing else.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypeVar, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ONE_MICROSECOND = timedelta(microseconds=1)
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

# What ClickHouse's DateTime64(6) can hold without loss; an instant outside would be stored as another one.
EARLIEST = (datetime(1900, 1, 1, tzinfo=UTC) - EPOCH) // ONE_MICROSECOND
LATEST = (datetime(2262, 4, 11, tzinfo=UTC) - EPOCH) // ONE_MICROSECOND

_SMALLEST_MICROS = 10**14
"""Microseconds until 1973. Seconds and milliseconds of our days are less, and would be read as instants long ago."""

MAX_ITEMS = 16_384
"""Items of one list or map. Two bytes of a message can be a kilobyte in memory, so its size alone is no bound."""

_ISO_8601 = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}.*", re.ASCII | re.DOTALL)


@dataclass(frozen=True)
class InstantMarker:
    """Marks a field as an instant: microseconds since 1970-01-01T00:00Z."""


class EnumMarker:
    """Makes a string an open enumeration: ``Annotated[str, EnumMarker("Name", "symbol", ..., default="symbol")]``.

    A string that is none of ``symbols`` becomes ``default``. Unknown values are never refused, so that a newer producer
    does not stop the stream, and never become a good outcome, because every default promises least.
    """

    __slots__ = ("_known", "default", "name", "symbols")

    def __init__(self, name: str, *symbols: str, default: str = "unknown") -> None:
        self.name, self.default = name, default
        self.symbols = symbols if default in symbols else (*symbols, default)
        self._known = frozenset(self.symbols)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Pydantic's hook: map unknown strings to the default, leave other types to strict validation."""
        return core_schema.no_info_before_validator_function(self._to_symbol, handler(source))

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Pydantic's hook: producers are shown the symbols that exist."""
        return {"type": "string", "enum": list(self.symbols)}

    def _to_symbol(self, value: Any) -> Any:
        return value if not isinstance(value, str) or value in self._known else self.default


@dataclass(frozen=True)
class ProseMarker:
    """Marks text meant for people: stored and shown, never read by the classifier, outside ``evidence_digest``."""


def to_micros(moment: datetime) -> int:
    """Aware datetime to microseconds since the epoch. Raises ValueError for a naive one."""
    if moment.tzinfo is None:
        raise ValueError("a time without an offset names no instant")
    return (moment - EPOCH) // ONE_MICROSECOND


def to_iso(micros: int) -> str:
    """Microseconds since the epoch to ISO 8601 in UTC, always with six fractional digits and ``Z``."""
    return (EPOCH + timedelta(microseconds=micros)).strftime("%Y-%m-%dT%H:%M:%S.%fZ").zfill(27)


def check_range(micros: int) -> int:
    """Return ``micros`` if the store can hold it, else raise the pydantic error ``time_out_of_range``."""
    if not EARLIEST <= micros <= LATEST:
        raise PydanticCustomError("time_out_of_range", "the time must lie between 1900-01-01 and 2262-04-11")
    return micros


AS_TEXT = {"as_text": True}
"""Validation context of a record that arrives as JSON, where a number's unit is the producer's guess."""


def _parse_instant(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        if info.context is AS_TEXT and 0 < abs(value) < _SMALLEST_MICROS:
            raise PydanticCustomError("bad_time", "so small a number counts seconds or milliseconds, not microseconds")
        return check_range(value)
    if isinstance(value, datetime):
        return check_range(to_micros(value))
    if not isinstance(value, str) or not _ISO_8601.fullmatch(value):
        raise PydanticCustomError("bad_time", "the time must be ISO 8601 in UTC, such as 2026-11-30T08:00:00Z")
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise PydanticCustomError("bad_time", "the time is not a valid ISO 8601 date and time") from None
    if moment.tzinfo is None:
        raise PydanticCustomError("naive_time", "the time has no UTC offset; end it with Z")
    try:
        return check_range(to_micros(moment))
    except OverflowError:
        raise PydanticCustomError("time_out_of_range", "the time must lie between 1900-01-01 and 2262-04-11") from None


Instant = Annotated[
    int,
    BeforeValidator(_parse_instant),
    PlainSerializer(to_iso, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
    InstantMarker(),
]
"""Microseconds since the epoch in memory and in Avro, ISO 8601 UTC in JSON."""

Long = Annotated[int, Field(ge=INT64_MIN, le=INT64_MAX)]
"""A 64-bit signed integer, Avro ``long``."""

Prose = Annotated[str, ProseMarker()]


@dataclass(frozen=True)
class NameMarker:
    """Marks an optional field as the name of something, by which records are told apart or joined."""


def _empty_to_none(value: Any) -> Any:
    return None if value == "" else value


Name = Annotated[str | None, BeforeValidator(_empty_to_none), NameMarker()]
"""A name that may be absent. An empty one names nothing and means absent: many producers write it for what they do not
know, and two of them say no more that they are the same than two absent ones."""

T = TypeVar("T")


def _none_to_list(value: Any) -> Any:
    return [] if value is None else value


def _none_to_map(value: Any) -> Any:
    # The length is checked before the values: a million bad ones would be a million errors.
    if isinstance(value, dict) and len(value) > MAX_ITEMS:
        raise PydanticCustomError("too_long", "the map has too many entries")
    return {} if value is None else value


ListOf = Annotated[
    list[T], FailFast(), Field(default_factory=list, max_length=MAX_ITEMS), BeforeValidator(_none_to_list)
]
"""A list: absent and ``null`` mean empty, at most :data:`MAX_ITEMS` items, the first bad item ends it."""

MapOf = Annotated[dict[str, T], Field(default_factory=dict, max_length=MAX_ITEMS), BeforeValidator(_none_to_map)]
"""A map with string keys: absent and ``null`` mean empty, at most :data:`MAX_ITEMS` entries."""


class Record(BaseModel):
    """Base of all contract models: strict types, no NaN, unknown fields kept apart by the reader."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False, frozen=True, protected_namespaces=())


def record_in(info: FieldInfo) -> type[Record] | None:
    """The model of the record that a field holds, alone or in a list; None where it holds none."""
    kinds = (info.annotation, *get_args(info.annotation))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Record)), None)
