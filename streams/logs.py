"""Logs of the long-running processes: one JSON object a line, with the time in UTC."""

import json
import logging
from typing import Any, TextIO

from schemas.types import to_iso

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """A record as JSON: ``at``, ``level``, ``logger``, ``message``, whatever was given as ``extra``, and ``error`` with
    the trace of an exception."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, Any] = {
            "at": to_iso(int(record.created * 1_000_000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_to(stream: TextIO, level: str = "INFO") -> None:
    """Send every log of this process to ``stream``; a second call replaces the first."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # Kafka's client tells of every connection and every step of a rebalance; what matters of that is told by us.
    logging.getLogger("kafka").setLevel(max(logging.WARNING, logging.getLogger().level))
    # Its loop shares the interpreter with what decodes what it fetched, and warns of every tenth of a second.
    logging.getLogger("kafka.net.selector").setLevel(logging.ERROR)
