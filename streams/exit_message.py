"""What stands on the topic ``exit-classifications``: the contract's classification, and whose it is.

A classification alone names only the event's id. The message adds the fields of its row in the store that say which
run it ends, and when it was decided, so that whoever reads the topic needs no other source.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from pydantic import Field, ValidationError

from schemas.errors import ErrorCode, MessageError
from schemas.events import Identifier
from schemas.exits import Classification
from schemas.types import AS_TEXT, Instant, Long, to_iso

OF_EVENT = ("tenant", "run_id", "segment", "agent_id", "workflow", "occurred_at")
"""Fields of the terminal event that the message repeats."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class ExitMessage(Classification):
    """A classification as it is announced: in the contract's JSON form, instants as ISO 8601."""

    tenant: Identifier = Field(description="tenant")
    run_id: Identifier = Field(description="run that ended")
    segment: Long | None = Field(None, description="segment of the run, when it was resumed")
    agent_id: str = Field(description="agent")
    workflow: str | None = Field(None, description="workflow")
    occurred_at: Instant = Field(description="when the run ended")
    classified_at: Instant = Field(description="when it was classified; of two of one event and table the newer counts")


def in_json(classification: Mapping[str, Any]) -> Mapping[str, Any]:
    """A classification as the contract writes it in JSON: the envelope's deadline as ISO 8601."""
    envelope = classification["envelope"]
    if not envelope or "deadline" not in envelope:
        return classification
    return {**classification, "envelope": {**envelope, "deadline": to_iso(envelope["deadline"])}}


def encode_exit(classification: Mapping[str, Any], event: Mapping[str, Any], classified_at: int) -> bytes:
    """The message for a classification of ``event``, of which :data:`OF_EVENT` are read. ``classified_at``: micros."""
    whose = {name: event[name] for name in OF_EVENT}
    whose["occurred_at"] = to_iso(event["occurred_at"])
    return _encode({**in_json(classification), **whose, "classified_at": to_iso(classified_at)})


def change_envelope(data: bytes, change: Callable[[bytes], bytes | None]) -> bytes:
    """A message of :func:`encode_exit`, ``change`` applied to the JSON text of its envelope, if it has one."""
    message = _decode(data)
    changed = change(_encode(message["envelope"])) if message["envelope"] else None
    return data if changed is None else _encode({**message, "envelope": msgspec.Raw(changed)})


def decode_exit(data: bytes) -> dict[str, Any]:
    """The message as a dict, instants as microseconds. Raises MessageError with the field that is wrong."""
    try:
        return ExitMessage.model_validate_json(data, context=AS_TEXT).model_dump()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        code = ErrorCode.BAD_JSON if first["type"] == "json_invalid" else ErrorCode.BAD_TYPE
        raise MessageError(code, first["msg"], path) from None
