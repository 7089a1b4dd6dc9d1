"""Logs of the long-running processes: one JSON object a line, with the time in UTC."""

import json
import logging
from typing import Any, TextIO

from schemas.types import to_iso

_REPEATED_AFTER_S = 60.0
_MOST_REMEMBERED = 1000
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


class Sparing(logging.Filter):
    """Of what Kafka's client says again and again, as it does every two seconds while a broker is away, one a minute is
    let through, with ``repeated``: how often it was said since. Two are the same if their text before its arguments is.
    """

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[tuple[str, int, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is let through."""
        if not record.name.startswith("kafka."):
            return True
        what = record.name, record.levelno, str(record.msg)
        since, repeated = self._said.get(what, (float("-inf"), 0))
        if record.created - since < _REPEATED_AFTER_S:
            self._said[what] = since, repeated + 1
            return False
        if len(self._said) >= _MOST_REMEMBERED:
            self._said.clear()
        self._said[what] = record.created, 0
        if repeated:
            record.repeated = repeated
        return True


def log_to(stream: TextIO, level: str = "INFO") -> None:
    """Send every log of this process to ``stream``; a second call replaces the first."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    handler.addFilter(Sparing())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # Kafka's client tells of every connection and every step of a rebalance; what matters of that is told by us.
    logging.getLogger("kafka").setLevel(max(logging.WARNING, logging.getLogger().level))
    # Its loop shares the interpreter with what decodes what it fetched, and warns of every tenth of a second.
    logging.getLogger("kafka.net.selector").setLevel(logging.ERROR)
