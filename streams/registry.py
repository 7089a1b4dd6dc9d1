"""Client of a schema registry: its HTTP API as Confluent published it, which others speak too.

It answers the question of :class:`schemas.wire.SchemaSource`, which schema an id stands for, and keeps the two kinds of
"no" apart: an id that the registry does not have, or whose schema cannot be used, is the message's fault; a registry
that cannot be asked is an outage, and never the message's fault.

Errors::

    RegistryError
    ├── RegistryUnavailable   an outage: retry with backoff, move no offset
    └── RegistryRejected      what was asked is refused and stays refused: credentials, certificates, an incompatible
                              schema

What is remembered: a schema, or why it cannot be used, for ever, because an id never changes its meaning; that an id is
unknown for a short time, because it may be registered a moment later; an outage never.
"""

import json
import ssl
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NoReturn, TypeVar
from urllib.parse import quote, urlsplit

import urllib3
from urllib3.exceptions import HTTPError

from schemas.avro import AvroType
from schemas.errors import ErrorCode, MessageError
from schemas.wire import LocalSchemas
from schemas.writer import Writer, writer_of
from streams.clock import Clock

COMPATIBILITY = "FULL_TRANSITIVE"
"""What the published contract promises of its changes, and so what a subject of ours is to enforce."""
MAX_ANSWER_BYTES = 1 << 20
"""Longest answer that is read. The contract's largest schema has 40 kB."""
MAX_SCHEMAS = 256
"""Schemas that are remembered, the last used ones. A topic has as many as its producers have versions."""
MAX_UNKNOWN = 10_000
"""Unknown ids that are remembered, so that a stream of garbage cannot fill the memory."""
MAX_ID = 2**31 - 1
"""Largest id there is. A larger one, or 0, is asked for nowhere: a registry would answer as if it had no such page."""

_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
_CONTENT = "application/vnd.schemaregistry.v1+json"
_PIECE_BYTES = 64 << 10
_SAID_CHARACTERS = 300
_Value = TypeVar("_Value")
_SUBJECT_NOT_FOUND, _SCHEMA_NOT_FOUND = 40401, 40403
_NO_COMPATIBILITY_OF_ITS_OWN = 40408
_ABSENT = frozenset({_SUBJECT_NOT_FOUND, _SCHEMA_NOT_FOUND, _NO_COMPATIBILITY_OF_ITS_OWN})
_TRY_AGAIN = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})


class RegistryError(Exception):
    """Base of everything that the client raises but MessageError."""


class RegistryUnavailable(RegistryError):  # noqa: N818 -- reads as the state that is retried
    """The registry cannot answer now, or something else answers in its place. Retry with backoff."""


class RegistryRejected(RegistryError):  # noqa: N818 -- reads as the verdict on what was asked
    """What was asked is refused and stays refused; the message says why and what to do."""


@dataclass(frozen=True)
class RegistryAccess:
    """Where the registry is and how to speak to it. ``ca_file`` is PEM, empty for the system's authorities.

    ``timeout_s`` is the time until an answer must be whole; ``unknown_for_s`` the time for which an unknown id is not
    asked for again.
    """

    url: str
    username: str = ""
    password: str = field(default="", repr=False)
    ca_file: str = ""
    timeout_s: float = 10.0
    unknown_for_s: float = 10.0

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise RegistryRejected("the address of the registry must be like https://host:8081")
        if parts.username is not None or parts.query or parts.fragment:
            raise RegistryRejected("the address of the registry must be host, port and path alone; name the user apart")


@dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes
    is_whole: bool

    def content(self) -> dict[str, Any] | None:
        """The JSON object that it is, None for anything else."""
        try:
            content = json.loads(self.body) if self.is_whole else None
        except (ValueError, RecursionError):
            return None
        return content if isinstance(content, dict) else None


class _Http:
    """One request at a time, in bounded time and memory. Follows no redirect, which would hand on the password."""

    def __init__(self, access: RegistryAccess, clock: Clock) -> None:
        self._access, self._clock = access, clock
        # No proxy of the environment is used, and nothing is tried again here: who asks knows how long it may take.
        self._pool = urllib3.PoolManager(num_pools=1, ssl_context=_context(access.ca_file))
        self._headers = {"Accept": _ACCEPT, "Content-Type": _CONTENT, "User-Agent": "offramp"}
        if access.username:
            self._headers |= urllib3.make_headers(basic_auth=f"{access.username}:{access.password}")

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> _Answer:
        """The answer, of MAX_ANSWER_BYTES or cut off behind that.

        Raises RegistryUnavailable if none comes in time, RegistryRejected if who answers cannot be trusted.
        """
        deadline = self._clock.monotonic() + self._access.timeout_s
        try:
            response = self._pool.request(
                method,
                self._access.url.rstrip("/") + path,
                body=None if body is None else json.dumps(body).encode(),
                headers=self._headers,
                redirect=False,
                retries=False,
                preload_content=False,
                timeout=urllib3.Timeout(total=self._access.timeout_s),
            )
            return self._read(response, deadline)
        except (HTTPError, OSError) as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> RegistryError:
        cause, place = error.args[0] if error.args else None, f"the registry at {self._access.url}"
        if isinstance(cause, ssl.SSLCertVerificationError):
            reason = cause.verify_message
            return RegistryRejected(f"{place} shows a certificate that is not trusted: {reason}; check registry.ca")
        return RegistryUnavailable(f"{place} cannot be reached: {str(error).rpartition(': ')[2]}")

    def _read(self, response: urllib3.BaseHTTPResponse, deadline: float) -> _Answer:
        body = bytearray()
        try:
            # As it comes: a reader of whole pieces would wait as long as a single byte comes now and then.
            while piece := response.read1(_PIECE_BYTES, decode_content=True):
                body += piece
                if len(body) > MAX_ANSWER_BYTES:
                    return _Answer(response.status, bytes(body), is_whole=False)
                if self._clock.monotonic() > deadline:
                    raise TimeoutError(f"the answer was not whole within {self._access.timeout_s:g} s")
        finally:
            # What was read to its end went back to the pool before; anything else is cut off.
            response.close()
        return _Answer(response.status, bytes(body), is_whole=True)

    def close(self) -> None:
        self._pool.clear()


class Registry:
    """The registry as a source of schemas, and as the place where ours are registered. Used by one thread at a time.

    Raises RegistryUnavailable and RegistryRejected wherever it asks.
    """

    def __init__(self, access: RegistryAccess, clock: Clock) -> None:
        """Asks nothing yet. Raises RegistryRejected if the file of authorities cannot be used."""
        self._access, self._clock = access, clock
        self._http, self._local = _Http(access, clock), LocalSchemas.published()
        self._known: OrderedDict[int, Writer | MessageError] = OrderedDict()
        self._unknown_until: OrderedDict[int, float] = OrderedDict()

    def close(self) -> None:
        """Give back the connection. Twice is once."""
        self._http.close()

    # As a source of schemas

    def by_fingerprint(self, fingerprint: int) -> Writer | None:
        """Return the published schema with this CRC-64-AVRO fingerprint; the registry is not asked, and cannot be."""
        return self._local.by_fingerprint(fingerprint)

    def by_id(self, schema_id: int) -> Writer | None:
        """Return the schema under this id, None if there is none. Raises MessageError if it cannot be used."""
        if schema_id in self._known:
            self._known.move_to_end(schema_id)
            return _settled(self._known[schema_id])
        if not 0 < schema_id <= MAX_ID or self._is_known_as_unknown(schema_id):
            return None
        found = self._fetched(schema_id)
        if found is None:
            until = self._clock.monotonic() + self._access.unknown_for_s
            _remember(self._unknown_until, schema_id, until, MAX_UNKNOWN)
            return None
        _remember(self._known, schema_id, found, MAX_SCHEMAS)
        return _settled(found)

    def _is_known_as_unknown(self, schema_id: int) -> bool:
        until = self._unknown_until.get(schema_id)
        if until is None or self._clock.monotonic() < until:
            return until is not None
        del self._unknown_until[schema_id]
        return False

    def _fetched(self, schema_id: int) -> Writer | MessageError | None:
        path = f"/schemas/ids/{schema_id}"
        answer = self._http.ask("GET", path)
        if answer.status == HTTPStatus.OK and not answer.is_whole and answer.body.lstrip().startswith(b"{"):
            return _unusable(f"it has more than {MAX_ANSWER_BYTES} bytes")
        content = self._content(answer, path)
        return None if content is None else self._writer(content)

    def _writer(self, content: dict[str, Any]) -> Writer | MessageError:
        text = content.get("schema")
        if not isinstance(text, str):
            raise self._foreign("/schemas/ids")
        if (kind := content.get("schemaType", "AVRO")) != "AVRO":
            return _unusable(f"it is not Avro but {str(kind)[:20]!a}")
        if content.get("references"):
            return _unusable("it refers to other schemas; register it as one")
        try:
            return writer_of(text.encode())
        except UnicodeEncodeError:
            return _unusable("it is no text")
        except MessageError as error:
            return _without_frames(error)

    # As the place where ours are registered

    def registered(self, subject: str, schema: AvroType) -> int | None:
        """The id of exactly this schema under a subject, None if it is not registered there."""
        content = self._ask("POST", _path("subjects", subject), {"schema": json.dumps(schema)})
        return None if content is None else self._id(content)

    def register(self, subject: str, schema: AvroType) -> int:
        """Register a schema and return its id; one that is there keeps its id. RegistryRejected if the subject's
        compatibility rules it out."""
        path = _path("subjects", subject, "versions")
        content = self._ask("POST", path, {"schema": json.dumps(schema)})
        if content is None:
            raise self._foreign(path)
        return self._id(content)

    def compatibility(self, subject: str) -> str | None:
        """The compatibility level of a subject, None if it has none of its own."""
        content = self._ask("GET", _path("config", subject))
        return None if content is None else str(content.get("compatibilityLevel"))

    def set_compatibility(self, subject: str, level: str) -> None:
        """Give a subject a compatibility level of its own."""
        self._ask("PUT", _path("config", subject), {"compatibility": level})

    # How an answer is read

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        return self._content(self._http.ask(method, path, body), path)

    def _content(self, answer: _Answer, path: str) -> dict[str, Any] | None:
        """The answer's object, None for "not there". Raises RegistryUnavailable and RegistryRejected."""
        content = answer.content()
        if answer.status in {HTTPStatus.OK, HTTPStatus.CREATED} and content is not None:
            return content
        if answer.status == HTTPStatus.NOT_FOUND and content and content.get("error_code") in _ABSENT:
            return None
        return self._refuse(answer.status, content, path)

    def _refuse(self, status: int, content: dict[str, Any] | None, path: str) -> NoReturn:
        place = f"the registry at {self._access.url}"
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _TRY_AGAIN:
            raise RegistryUnavailable(f"{place} answers with status {status}")
        if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise RegistryRejected(
                f"{place} refuses {path} with status {status}; check registry.username and its rights"
            )
        if content is None or "error_code" not in content:
            raise self._foreign(path)
        raise RegistryRejected(f"{place} refuses {path} with status {status}: {_said(content)}")

    def _foreign(self, path: str) -> RegistryUnavailable:
        return RegistryUnavailable(
            f"what answers at {self._access.url}{path} does not speak as a schema registry does; check registry.url, "
            "and what stands before it"
        )

    def _id(self, content: dict[str, Any]) -> int:
        number = content.get("id")
        if type(number) is not int or not 0 < number <= MAX_ID:
            raise self._foreign("/subjects")
        return number


def _context(ca_file: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:
        raise RegistryRejected(f"{ca_file}: no certificates can be read: {error.strerror or error}") from None


def _path(*parts: str) -> str:
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _said(content: dict[str, Any]) -> str:
    return str(content.get("message", ""))[:_SAID_CHARACTERS]


def _unusable(reason: str) -> MessageError:
    return MessageError(ErrorCode.INCOMPATIBLE_SCHEMA, f"the writer's schema cannot be used: {reason}")


def _settled(found: Writer | MessageError) -> Writer:
    if isinstance(found, MessageError):
        raise _without_frames(found)
    return found


def _without_frames(error: MessageError) -> MessageError:
    """A copy of what may be kept: an error that was raised holds on to every frame that it passed."""
    return MessageError(error.code, error.message, error.path)


def _remember(memory: OrderedDict[int, _Value], schema_id: int, value: _Value, limit: int) -> None:
    memory[schema_id] = value
    memory.move_to_end(schema_id)
    if len(memory) > limit:
        memory.popitem(last=False)
