"""Where the classify worker begins a partition that the ledger does not know."""

from enum import StrEnum


class Start(StrEnum):
    """Where to begin what the group has committed an offset of, and the ledger knows nothing of."""

    COMMITTED = "committed"
    BEGINNING = "beginning"
    END = "end"


class StartUnknownError(Exception):
    """A partition cannot be begun without being told where; the message says how."""
