"""What can be wrong with a message: the error codes, and the one exception that carries them.

Only the message itself can be the cause; an outage is never one of these.
"""

from enum import StrEnum
from typing import Self


class ErrorCode(StrEnum):
    """Stable reason codes of messages that are no valid event; ``meaning`` documents each."""

    meaning: str

    def __new__(cls, code: str, meaning: str) -> Self:
        """A code and what it means to a producer."""
        member = str.__new__(cls, code)
        member._value_, member.meaning = code, meaning
        return member

    BAD_FRAMING = (
        "bad_framing",
        "the first byte is neither JSON, nor an Avro single object, nor a Confluent frame, nor a container",
    )
    BAD_JSON = "bad_json", "the text is no JSON, or holds NaN, a lone surrogate, invalid UTF-8, or is nested too deeply"
    BAD_AVRO = "bad_avro", "the Avro bytes do not decode: truncated, absurd counts, bad UTF-8, an index out of range"
    TRAILING_BYTES = "trailing_bytes", "bytes are left over after the body; a second event may be glued on"
    UNKNOWN_SCHEMA = "unknown_schema", "the fingerprint or schema id names no schema that we have"
    INCOMPATIBLE_SCHEMA = "incompatible_schema", "the writer's schema cannot be read as the current contract"
    UNSUPPORTED_TYPE = "unsupported_type", "the type is none of the contract's"
    UNSUPPORTED_VERSION = "unsupported_version", "the version is newer than this reader, or none at all"
    MISSING_FIELD = "missing_field", "a required field is absent"
    BAD_TYPE = "bad_type", "a field has a value of the wrong type"
    OUT_OF_RANGE = (
        "out_of_range",
        "a number or a time lies outside what the contract can hold, or an identifier is empty or too long",
    )
    BAD_TIME = "bad_time", "a time is not ISO 8601, or names no instant because it has no UTC offset"
    TOO_LARGE = "too_large", "the message is larger than the limit"
    REDACTION_FAILED = (
        "redaction_failed",
        "secrets could not be masked, so that nothing of the message may be kept as it is",
    )
    STORE_REFUSED = "store_refused", "the record is valid and the store refused its row all the same"


class MessageError(ValueError):
    """A message that is no valid event.

    ``code`` says what is wrong, ``path`` where (``tool_calls[2].outcome``; empty for the whole message), ``message``
    what to do. Never carries the offending value, which may be a secret.
    """

    def __init__(self, code: ErrorCode, message: str, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.code, self.path, self.message = code, path, message

    def __reduce__(self) -> tuple[type["MessageError"], tuple[ErrorCode, str, str]]:
        return type(self), (self.code, self.message, self.path)
