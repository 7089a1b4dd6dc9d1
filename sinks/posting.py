"""Posts JSON to whoever is to be told of alerts, in bounded time and memory.

Errors::

    DeliveryError
    ├── DeliveryUnavailable   nobody answers, or not now: the same is posted again later
    └── DeliveryRefused       what was posted is refused and stays refused: what was posted, the address or the token is
                              wrong
"""

import json
import ssl
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import HTTPError, LocationParseError

_SAID_BYTES = 4096
_SAID_CHARACTERS = 300
_TRIES = 2
"""A connection that was kept may have been closed meanwhile, which only shows when it is used."""
_TRY_AGAIN = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})


class DeliveryError(Exception):
    """Base of what a delivery raises."""


class DeliveryUnavailable(DeliveryError):  # noqa: N818 -- reads as the state that is retried
    """Whoever is to be told cannot be told now."""


class DeliveryRefused(DeliveryError):  # noqa: N818 -- reads as the verdict on what was posted
    """What was posted is refused and stays refused; the message says why."""


@dataclass(frozen=True)
class Receiver:
    """Where to post. ``token`` is sent as a bearer's; ``ca_file`` is PEM, empty for the system's authorities.

    ``timeout_s`` bounds each wait for the network. Raises DeliveryRefused for an address that cannot be used.
    """

    url: str
    token: str = field(default="", repr=False)
    ca_file: str = ""
    timeout_s: float = 10.0

    def __post_init__(self) -> None:
        try:
            parts, _ = urlsplit(self.url), urlsplit(self.url).port
        except ValueError:
            raise DeliveryRefused("the address of a receiver must be like https://host:9093") from None
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise DeliveryRefused("the address of a receiver must be like https://host:9093")
        if parts.username is not None or parts.fragment:
            raise DeliveryRefused("the address of a receiver must name no user; give a token")

    @property
    def place(self) -> str:
        """Who it is, for people and logs. Without the path, which may be a secret."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"


class Poster:
    """Posts to one receiver. Follows no redirect, which would hand on the token. Used by one thread at a time."""

    def __init__(self, receiver: Receiver) -> None:
        """Connects to nothing yet. Raises DeliveryRefused if the file of authorities cannot be used."""
        self._receiver = receiver
        # No proxy of the environment is used.
        self._pool = urllib3.PoolManager(num_pools=1, ssl_context=_context(receiver.ca_file))
        self._headers = {"Content-Type": "application/json", "User-Agent": "offramp"}
        if receiver.token:
            self._headers["Authorization"] = f"Bearer {receiver.token}"

    def post(self, value: Any, path: str = "") -> None:
        """Post a value as JSON to a path below the receiver's address. Raises DeliveryError."""
        body = json.dumps(value, ensure_ascii=False).encode()
        for left in reversed(range(_TRIES)):
            try:
                self._answered(*self._once(body, path))
            except (HTTPError, OSError) as error:
                if not left:
                    raise self._failure(error) from error
            else:
                return

    def close(self) -> None:
        """Give back the connection. Twice is once."""
        self._pool.clear()

    def _once(self, body: bytes, path: str) -> tuple[int, bytes]:
        response = self._pool.request(
            "POST",
            self._receiver.url.rstrip("/") + path if path else self._receiver.url,
            body=body,
            headers=self._headers,
            redirect=False,
            retries=False,
            preload_content=False,
            timeout=urllib3.Timeout(total=self._receiver.timeout_s),
        )
        try:
            # The beginning says it; an answer without an end would be read for ever.
            said = b"" if response.status < HTTPStatus.MULTIPLE_CHOICES else response.read1(_SAID_BYTES)
        finally:
            response.close()
        return response.status, said

    def _answered(self, status: int, said: bytes) -> None:
        if status < HTTPStatus.MULTIPLE_CHOICES:
            return
        text = f"{self._receiver.place} answers with status {status}"
        words = " ".join(said.decode(errors="replace").split())[:_SAID_CHARACTERS]
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _TRY_AGAIN:
            raise DeliveryUnavailable(f"{text}: {words}")
        raise DeliveryRefused(f"{text}: {words}")

    def _failure(self, error: Exception) -> DeliveryError:
        cause = error.args[0] if error.args else None
        if isinstance(cause, ssl.SSLCertVerificationError):
            reason = cause.verify_message
            return DeliveryRefused(f"{self._receiver.place} shows a certificate that is not trusted: {reason}")
        if isinstance(error, LocationParseError):
            return DeliveryRefused(f"{self._receiver.place} is no address")
        return DeliveryUnavailable(f"{self._receiver.place} cannot be reached: {type(error).__name__}")


def _context(ca_file: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:
        raise DeliveryRefused(f"{ca_file}: no certificates can be read: {error.strerror or error}") from None
