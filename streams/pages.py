"""Pages of a long-running process, for probes and Prometheus: a small HTTP server in threads of its own.

It answers GET and HEAD of a closed set of paths, reads no body, and gives a slow client up after
:data:`CLIENT_TIMEOUT_S`. A page is made when it is asked for, in the server's thread: what it reads must be safe there.
"""

import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

CLIENT_TIMEOUT_S = 5.0
"""Seconds that a client may take for a request."""
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Content type of metrics. Source: Prometheus exposition formats, text format."""
_log = logging.getLogger("offramp.pages")


class Verdict(NamedTuple):
    """Whether something holds, and in words why."""

    ok: bool
    reason: str


class Page(NamedTuple):
    """An answer: HTTP status, content type and body."""

    status: int
    content_type: str
    body: bytes


Pages = Mapping[str, Callable[[], Page]]
"""What is shown, by path."""


def verdict_page(verdict: Verdict) -> Page:
    """A verdict as JSON: status 200 if it holds, else 503, which probes take for a failure."""
    status = HTTPStatus.OK if verdict.ok else HTTPStatus.SERVICE_UNAVAILABLE
    return _json(status, {"ok": verdict.ok, "reason": verdict.reason})


def _json(status: HTTPStatus, content: Mapping[str, object]) -> Page:
    return Page(status, "application/json", json.dumps(content).encode() + b"\n")


@contextmanager
def serving(host: str, port: int, pages: Pages) -> Iterator[int]:
    """Show ``pages`` while the context lasts; the port that is listened on, a free one if ``port`` is 0.

    Raises OSError if nobody can listen there.
    """
    server = _Server(host, port, pages)
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="pages", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    """A client that holds its connection holds up nobody's end."""

    def __init__(self, host: str, port: int, pages: Pages) -> None:
        ((self.address_family, *_, address), *_) = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        super().__init__((str(address[0]), port), _Handler)
        self.pages = pages

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 -- the library's signature
        """A client that went away is no event; the library would print a trace."""
        _log.debug("a client of the pages went away", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = CLIENT_TIMEOUT_S
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "offramp", ""

    def do_GET(self) -> None:
        page = self._page()
        self._begin(page)
        self.wfile.write(page.body)

    def do_HEAD(self) -> None:
        self._begin(self._page())

    def _page(self) -> Page:
        path = self.path.partition("?")[0]
        make = self.server.pages.get(path)
        if make is None:
            return _json(HTTPStatus.NOT_FOUND, {"pages": sorted(self.server.pages)})
        try:
            return make()
        except Exception:  # noqa: BLE001 -- it is logged, and the other pages go on
            _log.exception("a page could not be made", extra={"path": path})
            return _json(HTTPStatus.INTERNAL_SERVER_ERROR, {"ok": False, "reason": "the page could not be made"})

    def _begin(self, page: Page) -> None:
        self.send_response(page.status)
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(page.body)))
        # One request a connection: what was sent behind it is not read, so it cannot be taken for the next one.
        self.send_header("Connection", "close")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the library's signature
        """Probes come every few seconds, and are not worth a line."""
