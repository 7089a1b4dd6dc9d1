"""The contract's records by the names that messages and files use."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from schemas.alerts import ExitAlert
from schemas.companions import COMPANIONS, Enrichment, LegacyExit, RecoveryAction, ReviewEvent
from schemas.events import TerminalEvent
from schemas.exits import Classification, Envelope, ReviewPacket
from schemas.types import Record

INCOMING: Mapping[str, type[Record]] = MappingProxyType({"terminal_event": TerminalEvent, **COMPANIONS})
"""What may arrive, by the ``type`` that it states."""

CURRENT_VERSION: Mapping[str, int] = MappingProxyType(dict.fromkeys(INCOMING, 1))
"""The version that this code reads natively, by type; older ones are upcast to it."""

PUBLISHED: Mapping[str, Any] = MappingProxyType(
    {
        "terminal-event": TerminalEvent,
        "legacy-exit": LegacyExit,
        "recovery-action": RecoveryAction,
        "review-event": ReviewEvent,
        "enrichment": Enrichment,
        "classification": Classification,
        "envelope": Envelope,
        "review-packet": ReviewPacket,
        "exit-alert": ExitAlert,
    }
)
"""The published schemas by name: a model, or a union of models."""
