"""Events that nobody sent: counter-examples and missing tests, as their producer would have written them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from classifier.fact import Event
from offramp.errors import ConfigurationError
from schemas.events import TerminalEvent
from schemas.json_form import to_json


def as_sent(event: Event) -> dict[str, Any]:
    """The contract's JSON of an event in memory form, without the fields that are absent."""
    whole = json.loads(to_json(event, TerminalEvent))
    sent: dict[str, Any] = _without_absent(whole)
    return sent if whole["extensions"] else {name: value for name, value in sent.items() if name != "extensions"}


def _without_absent(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_absent(item) for item in value]
    if not isinstance(value, dict):
        return value
    # An empty block stays: that a producer sent one may say something.
    return {name: _without_absent(item) for name, item in value.items() if item is not None and item != []}


def write_lines(path: Path, records: Iterable[dict[str, Any]], read: Iterable[Path]) -> int:
    """Write JSON Lines; the number of records. Raises ConfigurationError if the file cannot be written, or is one of
    those that were ``read``."""
    lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
    write(path, "".join(lines).encode(), read)
    return len(lines)


def write(path: Path, content: bytes, read: Iterable[Path]) -> None:
    """Write a file. Raises ConfigurationError as ``write_lines`` does."""
    try:
        if path.exists() and any(each.exists() and path.samefile(each) for each in read):
            raise ConfigurationError(f"{path}: was read, so it is not written over; name another file")
        path.write_bytes(content)
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None
