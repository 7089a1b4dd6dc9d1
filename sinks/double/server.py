"""The HTTP side of the double: answers as a ClickHouse server does, unless a fault is due.

It listens twice: for clients, with TLS if it has a certificate, and for tests, always plain. Tests ask for
``/faults`` (POST adds one, DELETE clears) and ``/calls`` (GET).
"""

import gzip
import io
import json
import re
import socket
import ssl
import struct
import sys
import threading
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

from sinks.double.engine import Answer, EmbeddedServer, EngineError
from sinks.double.faults import Fault, FaultKind, FaultPlan, fault_from
from sinks.double.request import Request, parse
from sinks.double.users import ROLES, Account, Role, checked_grant

_AUTHENTICATION_FAILED, _ACCESS_DENIED, _BAD_ARGUMENTS, _SYNTAX_ERROR = 516, 497, 36, 62
# Of the many statuses of a server those that a client tells apart; any other error is 500.
_STATUS = {516: 403, 497: 403, 62: 400, 36: 400, 60: 404, 81: 404}
_NAMES = {202: "TOO_MANY_SIMULTANEOUS_QUERIES", 241: "MEMORY_LIMIT_EXCEEDED", 252: "TOO_MANY_PARTS",
          159: "TIMEOUT_EXCEEDED"}  # fmt: skip
_ANSWERS = re.compile(r"SELECT|WITH|SHOW|DESC|EXPLAIN|EXISTS|CHECK", re.IGNORECASE)
_FORMAT = re.compile(rb"\bFORMAT\s+(\w+)\s*;?\s*\Z", re.IGNORECASE)
_GONE = "the client went away within its request"
_PEEKED = 4096
_TOKEN = "insert_deduplication_token"  # noqa: S105 -- the name of a setting
# So that closing resets the connection at once, with what was not sent yet.
_RESET = struct.pack("ii", 1, 0)


class Double(ThreadingHTTPServer):
    """The server: an engine, accounts, planned faults, and what it was asked."""

    daemon_threads = True
    block_on_close = False

    def __init__(
        self, address: tuple[str, int], engine: EmbeddedServer, accounts: Sequence[Account], tls: ssl.SSLContext | None
    ) -> None:
        super().__init__(address, _StatementHandler)
        self.engine, self.faults, self.record = engine, FaultPlan(), Record()
        self._accounts = {account.name: account for account in accounts}
        if tls is not None:
            # The handshake is the business of the thread that serves the connection.
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def role_of(self, name: str, password: str) -> Role:
        """The role of a user. Raises EngineError 516, the same for a wrong name and a wrong password."""
        account = self._accounts.get(name)
        if account is None or account.password != password:
            raise EngineError(
                _AUTHENTICATION_FAILED,
                f"{name}: Authentication failed: password is incorrect, or there is no user with such name. "
                "(AUTHENTICATION_FAILED)",
            )
        return ROLES[account.role]

    def answer(self, request: Request, role: Role) -> Answer:
        """Run one statement. Raises EngineError."""
        statement = request.statement
        if not statement.strip():
            raise EngineError(_SYNTAX_ERROR, "Empty query. (SYNTAX_ERROR)")
        if privilege := checked_grant(statement):
            return Answer(b"1\n" if role.grants(privilege) else b"0\n", 0, 0)
        if not role.allows(statement):
            raise EngineError(
                _ACCESS_DENIED,
                f"Not enough privileges. To execute this query, it's necessary to have the grant "
                f"{statement.split(maxsplit=1)[0].upper()}. (ACCESS_DENIED)",
            )
        return self.engine.run(request, role)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a connection that broke, because breaking them is what this is for."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


@dataclass
class Record:
    """What was asked of the double: statements by their first word, by what came of them, and tokens in order."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: Counter[tuple[str, str]] = Counter()
        self._tokens: list[str] = []

    def add(self, request: Request, outcome: str) -> None:
        """One statement, and what came of it: ``ok``, the engine's code, or the kind of fault."""
        words = request.statement.split(maxsplit=1)
        with self._lock:
            self._calls[words[0].upper() if words else "", outcome] += 1
            if _TOKEN in request.settings:
                self._tokens.append(request.settings[_TOKEN])

    def as_json(self) -> dict[str, Any]:
        """The whole record."""
        with self._lock:
            calls = [[word, outcome, count] for (word, outcome), count in sorted(self._calls.items())]
            return {"calls": calls, "tokens": list(self._tokens)}


class Control(ThreadingHTTPServer):
    """Where tests plan the faults of a double and ask what it was asked."""

    daemon_threads = True

    def __init__(self, double: Double) -> None:
        super().__init__(("127.0.0.1", 0), _ControlHandler)
        self.double = double


class _Handler(BaseHTTPRequestHandler):
    rfile: io.BufferedReader
    protocol_version = "HTTP/1.1"
    # Head and body of an answer are two writes; the second would wait 40 ms for a delayed acknowledgement.
    disable_nagle_algorithm = True

    def log_message(self, *_: Any) -> None:
        """Log nothing: the record tells more."""

    def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _has_body(self) -> bool:
        return "Transfer-Encoding" in self.headers or int(self.headers.get("Content-Length") or 0) > 0

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return b"".join(iter(self._read_chunk, b""))
        return self._read(int(self.headers.get("Content-Length") or 0))

    def _read_chunk(self) -> bytes:
        head = self.rfile.readline()
        if not head.endswith(b"\n"):
            raise ConnectionAbortedError(_GONE)
        data = self._read(int(head.partition(b";")[0], 16))
        self.rfile.readline()
        return data

    def _read(self, size: int) -> bytes:
        """Exactly ``size`` bytes. Raises ConnectionError if the client went away before: nothing is half applied."""
        data = self.rfile.read(size)
        if len(data) < size:
            raise ConnectionAbortedError(_GONE)
        return data


class _ControlHandler(_Handler):
    server: Control

    def do_POST(self) -> None:
        self.server.double.faults.add(fault_from(json.loads(self._read_body())))
        self._send(200, b"{}")

    def do_DELETE(self) -> None:
        self.server.double.faults.clear()
        self._send(200, b"{}")

    def do_GET(self) -> None:
        self._send(200, json.dumps(self.server.double.record.as_json()).encode())


class _StatementHandler(_Handler):
    server: Double

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        if self.path == "/ping":
            self._send(200, b"Ok.\n")
        else:
            self._statement()

    def _statement(self) -> None:
        cut = self._cut_unread()
        if cut is not None:
            self.server.record.add(cut, FaultKind.CUT_BEFORE.value)
            self._reset()
            return
        request: Request | None = None
        try:
            request = self._request()
            role = self.server.role_of(*self._credentials())
            self._answer(request, role, self.server.faults.due(request.statement))
        except EngineError as error:
            if request is not None:
                self.server.record.add(request, str(error.code))
            self._refuse(error)

    def _cut_unread(self) -> Request | None:
        """The statement as far as the address or the first bytes tell, if the connection is cut before the body is
        read."""
        start = dict(parse_qsl(self.path.partition("?")[2])).get("query", "").encode()
        request = Request(start or (self.rfile.peek(_PEEKED) if self._has_body() else b""))
        return request if self.server.faults.due_unread(request.statement) else None

    def _request(self) -> Request:
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            return parse(self.path, headers, self._read_body())
        except ValueError as error:
            raise EngineError(_BAD_ARGUMENTS, f"{error}. (BAD_ARGUMENTS)") from None

    def _answer(self, request: Request, role: Role, faults: Sequence[Fault]) -> None:
        time.sleep(sum(fault.seconds for fault in faults if fault.kind is FaultKind.DELAY))
        fault = faults[-1] if faults and faults[-1].kind is not FaultKind.DELAY else None
        if fault is not None and fault.kind is FaultKind.REFUSE:
            raise EngineError(fault.code, f"Planned by a test. ({_NAMES.get(fault.code, 'PLANNED')})")
        if fault is not None and fault.kind is FaultKind.STATUS:
            self.server.record.add(request, str(fault.code))
            self._send(fault.code, b"")
            return
        answer = self.server.answer(request, role)
        self.server.record.add(request, "ok" if fault is None else fault.kind.value)
        if fault is None:
            self._send(200, *self._encoded(request, answer))
        else:
            self._cut(fault, answer)

    def _cut(self, fault: Fault, answer: Answer) -> None:
        if fault.kind is FaultKind.CUT_WITHIN:
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer.body) + 1))
            self.end_headers()
            self.wfile.write(answer.body[: len(answer.body) // 2])
            self.wfile.flush()
        self._reset()

    def _encoded(self, request: Request, answer: Answer) -> tuple[bytes, dict[str, str]]:
        summary = {"read_rows": str(answer.rows_read), "elapsed_ns": str(answer.elapsed_ns)}
        headers = {
            "X-ClickHouse-Summary": json.dumps(summary),
            "X-ClickHouse-Timezone": "UTC",
            "X-ClickHouse-Query-Id": request.query_id or "",
        }
        if _ANSWERS.match(request.statement):
            asked = _FORMAT.search(request.sql)
            headers["X-ClickHouse-Format"] = asked[1].decode() if asked else request.default_format
        if request.compress_answer and "gzip" in self.headers.get("Accept-Encoding", ""):
            return gzip.compress(answer.body, 1), headers | {"Content-Encoding": "gzip"}
        return answer.body, headers

    def _refuse(self, error: EngineError) -> None:
        body = f"Code: {error.code}. {error}\n".encode()
        self._send(_STATUS.get(error.code, 500), body, {"X-ClickHouse-Exception-Code": str(error.code)})

    def _credentials(self) -> tuple[str, str]:
        given = dict(parse_qsl(self.path.partition("?")[2]))
        scheme, _, encoded = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "basic":
            name, _, password = b64decode(encoded).decode().partition(":")
            return name, password
        return (
            self.headers.get("X-ClickHouse-User") or given.get("user", "default"),
            self.headers.get("X-ClickHouse-Key") or given.get("password", ""),
        )

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.connection.close()
