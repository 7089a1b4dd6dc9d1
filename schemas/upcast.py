"""From any version of a record that was ever published to the current one, in one explicit chain.

A step takes the decoded record of one version (names as that version had them, values not yet validated) and returns
the next version's, ``version`` included. Today version 1 is the only one, so the chain is empty.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from schemas.contract import CURRENT_VERSION
from schemas.errors import ErrorCode, MessageError

RawRecord = dict[str, Any]
Step = Callable[[RawRecord], RawRecord]
Chain = Mapping[tuple[str, int], Step]

CHAIN: Chain = MappingProxyType({})
"""The step that leads away from each older version, by (type, version)."""


def upcast(raw: RawRecord, chain: Chain = CHAIN, current: Mapping[str, int] = CURRENT_VERSION) -> RawRecord:
    """Bring a decoded record to the current version of its type; a current one is returned as it is.

    Raises MessageError: UNSUPPORTED_TYPE if the type is missing or none of the contract's, UNSUPPORTED_VERSION if the
    version is missing, no integer, newer than this reader, or no step leads away from it.
    """
    kind = raw.get("type")
    if not isinstance(kind, str) or kind not in current:
        raise MessageError(ErrorCode.UNSUPPORTED_TYPE, f"the type must be one of {', '.join(current)}", "type")
    while (version := _version(raw)) != current[kind]:
        if (kind, version) not in chain:
            reason = f"this reader knows {kind} up to version {current[kind]}"
            raise MessageError(ErrorCode.UNSUPPORTED_VERSION, reason, "version")
        raw = chain[kind, version](raw)
    return raw


def _version(raw: RawRecord) -> int:
    version = raw.get("version")
    if type(version) is not int:
        raise MessageError(ErrorCode.UNSUPPORTED_VERSION, "the version must be there and be an integer", "version")
    return version
