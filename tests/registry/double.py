"""A schema registry for tests: a real HTTP server on loopback that keeps its schemas in memory and fails on demand.

It speaks what :mod:`streams.registry` asks, as Confluent's registry answers it. It does not show: compatibility between
versions (:attr:`SchemaRegistryDouble.incompatible` names subjects that refuse), references, soft deletes, several
nodes.
"""

import base64
import json
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote


class SchemaRegistryDouble:
    """State of the registry, its faults, and what it was asked.

    - ``status``: every answer has this status and no registry's body; None heals it
    - ``missing``: ids that are answered 404 although they are registered
    - ``raw``: bodies by id, sent with status 200 as they are
    - ``delay_s``: how long each answer waits; ``dribble_s``: the pause between two of its bytes
    - ``credentials``: ``name:password`` that is asked for
    - ``incompatible``: subjects that refuse every further schema
    - ``calls``: how often each ``METHOD /path`` was asked
    """

    def __init__(self, certificate: Path | None = None) -> None:
        """``certificate`` is a PEM file with a server's key and chain: the registry then speaks TLS."""
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.levels: dict[str, str] = {}
        self.status: int | None = None
        self.missing: set[int] = set()
        self.raw: dict[int, bytes] = {}
        self.delay_s = self.dribble_s = 0.0
        self.credentials: str | None = None
        self.incompatible: set[str] = set()
        self.calls: Counter[str] = Counter()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}"

    def add(self, schema: Any, schema_id: int | None = None, **more: Any) -> int:
        """Put a schema under an id, whatever it is; a text stays as it is."""
        number = schema_id or max(self.schemas, default=0) + 1
        self.schemas[number] = {"schema": schema if isinstance(schema, str) else json.dumps(schema), **more}
        return number

    @contextmanager
    def running(self) -> Iterator["SchemaRegistryDouble"]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Status and JSON body of a request."""
        match (method, *map(unquote, path.strip("/").split("/"))):
            case "GET", "schemas", "ids", number:
                return self._by_id(int(number))
            case "POST", "subjects", subject:
                return self._lookup(subject, body["schema"])
            case "POST", "subjects", subject, "versions":
                return self._register(subject, body["schema"])
            case "GET", "config", subject:
                level = self.levels.get(subject)
                return (200, {"compatibilityLevel": level}) if level else _absent(40408, "no level of its own")
            case "PUT", "config", subject:
                self.levels[subject] = body["compatibility"]
                return 200, body
            case _:
                return _absent(404, "HTTP 404 Not Found")

    def _by_id(self, number: int) -> tuple[int, Any]:
        if number > 2**31 - 1:
            return _absent(404, "HTTP 404 Not Found")
        if number in self.missing or number not in self.schemas | self.raw:
            return _absent(40403, "Schema not found")
        return 200, self.raw.get(number) or self.schemas[number]

    def _lookup(self, subject: str, text: str) -> tuple[int, Any]:
        if subject not in self.subjects:
            return _absent(40401, f"Subject '{subject}' not found.")
        found = [number for number in self.subjects[subject] if self.schemas[number]["schema"] == text]
        return (
            (200, {"subject": subject, "id": found[0], "version": 1}) if found else _absent(40403, "Schema not found")
        )

    def _register(self, subject: str, text: str) -> tuple[int, Any]:
        status, known = self._lookup(subject, text)
        if status == 200:
            return status, known
        if subject in self.incompatible:
            return 409, {"error_code": 409, "message": "Schema being registered is incompatible with an earlier schema"}
        same = [number for number, schema in self.schemas.items() if schema["schema"] == text]
        number = same[0] if same else self.add(text)
        self.subjects.setdefault(subject, []).append(number)
        return 200, {"id": number}


def _absent(code: int, message: str) -> tuple[int, Any]:
    return 404, {"error_code": code, "message": message}


def _handler(double: SchemaRegistryDouble) -> type[BaseHTTPRequestHandler]:  # noqa: C901 -- a handler is a class
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _serve(self) -> None:
            double.calls[f"{self.command} {self.path}"] += 1
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
            time.sleep(double.delay_s)
            if double.status is not None:
                self._send(double.status, b"" if double.status == 204 else b"<html>Service Unavailable</html>")
            elif not self._may():
                self._send(401, json.dumps({"error_code": 401, "message": "Unauthorized"}).encode())
            else:
                status, content = double.answer(self.command, self.path, body)
                self._send(status, content if isinstance(content, bytes) else json.dumps(content).encode())

        do_GET = do_POST = do_PUT = _serve  # noqa: N815 -- the base's names

        def _may(self) -> bool:
            if double.credentials is None:
                return True
            return (
                self.headers.get("Authorization") == "Basic " + base64.b64encode(double.credentials.encode()).decode()
            )

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if 300 <= status < 400:
                self.send_header("Location", double.url)
            self.end_headers()
            try:
                for piece in [body[i : i + 1] for i in range(len(body))] if double.dribble_s else [body]:
                    self.wfile.write(piece)
                    time.sleep(double.dribble_s)
            except OSError:
                self.close_connection = True  # whoever asked does not wait for the rest

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the base's name
            pass

    return Handler
