"""Runs commands one after another in a process of its own, so that each may open a store and start-up is paid once.

Reads one request a line (function, argv, standard input, module attributes to set meanwhile), answers with one line.
"""

import base64
import contextlib
import io
import json
import sys
from pkgutil import resolve_name
from unittest import mock


class _Bytes(io.TextIOWrapper):
    """Text stream whose bytes stay readable."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def taken(self) -> str:
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return base64.b64encode(buffer.getvalue()).decode()


def _perform(entry: str, argv: list[str], stdin: bytes, patches: dict[str, object]) -> dict[str, object]:
    out, err = _Bytes(), _Bytes()
    with contextlib.ExitStack() as stack:
        for name, value in patches.items():
            owner, _, attribute = name.rpartition(".")
            frozen = tuple(value) if isinstance(value, list) else value
            stack.enter_context(mock.patch.object(resolve_name(owner), attribute, frozen))
        stack.enter_context(mock.patch.object(sys, "argv", ["offramp", *argv]))
        stack.enter_context(mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin))))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        status = _status_of(entry)
    return {"status": status, "out": out.taken(), "err": err.taken()}


def _status_of(entry: str) -> object:
    try:
        resolve_name(entry)()
    except SystemExit as end:
        return end.code or 0
    return 0


if __name__ == "__main__":
    answers = sys.stdout
    for line in sys.stdin:
        request = json.loads(line)
        answer = _perform(request["entry"], request["argv"], base64.b64decode(request["stdin"]), request["patches"])
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
